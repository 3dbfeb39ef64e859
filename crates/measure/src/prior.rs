//! The prices that are kept between sessions: the chase, which takes seconds.
//!
//! One JSON file ([`pagewise_kernel::kept`]). It names its machine, with the machine's setting of transparent
//! huge pages, and the format version. A file is ignored if it is missing, from another machine, older than a
//! week, not trustworthy or of another format. A failure to write it is ignored too, because the prices are
//! available anyway. A chase is also ignored if it lacks prices available today: a set that memory has room
//! for, or huge pages on a machine that provides them on request (a temporary lack of free ones is not a
//! property of the machine).

use pagewise_kernel::SysError;
use pagewise_kernel::state_file::{self, StateFileLimits};
use pagewise_model::machine::Machine;
use pagewise_model::price::ChasePoint;
use pagewise_model::{Bytes, Measured};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// Increased with every change of the format, or of what is inside the clock.
const FORMAT: u32 = 3;
/// Limits age, because machines change: firmware, neighbours, the processor that a guest is on. Limits size:
/// no valid file is larger.
const LIMITS: StateFileLimits =
    StateFileLimits { most_age: Duration::from_secs(7 * 24 * 60 * 60), most_bytes: 64 << 10 };

/// The machine that the kept prices hold for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MachineKey {
    format: u32,
    cpu_model: String,
    kernel: String,
    memory_bytes: Bytes,
    thp_enabled: Option<String>,
}

impl From<&Machine> for MachineKey {
    fn from(machine: &Machine) -> Self {
        Self {
            format: FORMAT,
            cpu_model: machine.cpu_model.clone(),
            kernel: machine.kernel.clone(),
            memory_bytes: machine.memory_bytes,
            thp_enabled: machine.thp_enabled.known().cloned(),
        }
    }
}

impl MachineKey {
    /// Huge pages for who asks for them.
    fn gives_huge_pages(&self) -> bool {
        self.thp_enabled.as_deref().is_some_and(|word| word != "never")
    }
}

/// The file's contents.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct PriorPrices {
    machine: MachineKey,
    chase: Vec<ChasePoint>,
}

/// The kept chase of this machine, if it is valid and has all of `sets`.
pub(crate) fn read(path: &Path, machine: &MachineKey, sets: &[Bytes]) -> Option<Vec<ChasePoint>> {
    let prior: PriorPrices = serde_json::from_slice(&state_file::read(path, LIMITS)?.text).ok()?;
    let chase = prior.chase;
    let whole = sets.iter().all(|set| chase.iter().any(|p| p.set_bytes == *set))
        && !(machine.gives_huge_pages() && chase.iter().any(|p| p.huge_ns.known().is_none()));
    (prior.machine == *machine && is_sound(&chase) && whole).then_some(chase)
}

/// Keeps a chase for the next session.
pub(crate) fn write(
    path: &Path,
    machine: MachineKey,
    chase: &[ChasePoint],
) -> Result<(), SysError> {
    let text = serde_json::to_vec_pretty(&PriorPrices { machine, chase: chase.to_vec() }).map_err(
        |e| SysError::new("write", path.display().to_string(), std::io::Error::other(e)),
    )?;
    state_file::write(path, &text)
}

fn is_sound(chase: &[ChasePoint]) -> bool {
    let sound = |m: &Measured| {
        let values = [m.min, m.median, m.max];
        m.n > 0 && values.iter().all(|v| v.is_finite() && *v > 0.0) && values.is_sorted()
    };
    !chase.is_empty()
        && chase.is_sorted_by(|a, b| a.set_bytes < b.set_bytes)
        && chase.iter().all(|p| sound(&p.base_ns) && p.huge_ns.known().is_none_or(sound))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::Fact;

    const SETS: [Bytes; 1] = [Bytes::mib(16)];

    fn key(kernel: &str, thp: &str) -> MachineKey {
        MachineKey {
            format: FORMAT,
            cpu_model: "X".to_owned(),
            kernel: kernel.to_owned(),
            memory_bytes: Bytes::gib(1),
            thp_enabled: Some(thp.to_owned()),
        }
    }

    fn points(ns: f64) -> Vec<ChasePoint> {
        let base_ns = Measured { median: ns, min: ns, max: ns, n: 5 };
        vec![ChasePoint { set_bytes: SETS[0], base_ns, huge_ns: Fact::Known(base_ns) }]
    }

    #[test]
    fn what_was_written_is_read_by_the_same_machine_only() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("sub/prices.json");
        let this = key("1", "madvise");
        write(&path, this.clone(), &points(9.5)).expect("written");
        assert_eq!(read(&path, &this, &SETS), Some(points(9.5)));
        assert_eq!(read(&path, &key("2", "madvise"), &SETS), None);
        assert_eq!(read(&path, &key("1", "always"), &SETS), None, "another setting");
        let other_format = MachineKey { format: FORMAT + 1, ..this };
        assert_eq!(read(&path, &other_format, &SETS), None);
    }

    #[test]
    fn what_could_be_had_today_is_walked_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("prices.json");
        let mut without = points(9.5);
        without[0].huge_ns = Fact::missing("the kernel gave base pages only");
        write(&path, key("1", "madvise"), &without).expect("written");
        assert_eq!(read(&path, &key("1", "madvise"), &SETS), None);
        write(&path, key("1", "never"), &without).expect("written");
        assert_eq!(read(&path, &key("1", "never"), &SETS), Some(without));
        assert_eq!(read(&path, &key("1", "never"), &[SETS[0], Bytes::gib(1)]), None);
    }

    #[test]
    fn corrupt_files_are_ignored() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("prices.json");
        let this = key("1", "madvise");
        assert_eq!(read(&path, &this, &SETS), None);
        write(&path, this.clone(), &points(-1.0)).expect("written");
        assert_eq!(read(&path, &this, &SETS), None);
        state_file::write(&path, b"{\"machine\":").expect("written");
        assert_eq!(read(&path, &this, &SETS), None);
    }
}
