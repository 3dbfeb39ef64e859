//! The prices that are kept between sessions: the chase, which takes seconds.
//!
//! One JSON file, readable by its owner alone, replaced as a whole by rename(2). It names the
//! machine it holds for. A file that is missing, foreign, too large, owned by another user, a link
//! or not of this form is ignored, and so is a failure to write it: the prices are there anyway.

use pagewise_model::machine::Machine;
use pagewise_model::price::ChasePoint;
use pagewise_model::{Bytes, Measured};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// More than any such file has.
const MOST_BYTES: u64 = 64 << 10;

/// The machine that the kept prices hold for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MachineKey {
    cpu_model: String,
    kernel: String,
    memory_bytes: Bytes,
}

impl From<&Machine> for MachineKey {
    fn from(machine: &Machine) -> Self {
        Self {
            cpu_model: machine.cpu_model.clone(),
            kernel: machine.kernel.clone(),
            memory_bytes: machine.memory_bytes,
        }
    }
}

/// The file's contents.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Prior {
    machine: MachineKey,
    chase: Vec<ChasePoint>,
}

/// The kept chase of this machine, if there is a sound one.
pub(crate) fn read(path: &Path, machine: &MachineKey) -> Option<Vec<ChasePoint>> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32);
    let file = options.open(path).ok()?;
    let meta = file.metadata().ok()?;
    let own = meta.uid() == rustix::process::geteuid().as_raw() && meta.mode() & 0o022 == 0;
    if !meta.is_file() || !own {
        return None;
    }
    let mut text = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut text).ok()?;
    let prior: Prior = serde_json::from_slice(&text).ok()?;
    (prior.machine == *machine && is_sound(&prior.chase)).then_some(prior.chase)
}

/// Keeps a chase for the next session.
pub(crate) fn write(path: &Path, machine: MachineKey, chase: &[ChasePoint]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let text = serde_json::to_vec_pretty(&Prior { machine, chase: chase.to_vec() })?;
    let temporary = path.with_extension(format!("{}.new", std::process::id()));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut file| file.write_all(&text))
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // The first error is the one to tell; the temporary file may not even exist.
        let _ = fs::remove_file(&temporary);
    }
    written
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

    fn key(kernel: &str) -> MachineKey {
        let memory_bytes = Bytes::gib(1);
        MachineKey { cpu_model: "X".to_owned(), kernel: kernel.to_owned(), memory_bytes }
    }

    fn points(ns: f64) -> Vec<ChasePoint> {
        let base_ns = Measured { median: ns, min: ns, max: ns, n: 5 };
        vec![ChasePoint { set_bytes: Bytes::mib(16), base_ns, huge_ns: Fact::missing("none") }]
    }

    #[test]
    fn what_was_written_is_read_by_the_same_machine_only() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("sub/prices.json");
        write(&path, key("1"), &points(9.5)).expect("written");
        assert_eq!(read(&path, &key("1")), Some(points(9.5)));
        assert_eq!(read(&path, &key("2")), None);
        assert_eq!(fs::metadata(&path).expect("metadata").mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path().join("sub")).expect("listed").count(), 1);
    }

    #[test]
    fn corrupt_foreign_and_linked_files_are_ignored() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("prices.json");
        assert_eq!(read(&path, &key("1")), None);
        write(&path, key("1"), &points(-1.0)).expect("written");
        assert_eq!(read(&path, &key("1")), None);
        fs::write(&path, b"{\"machine\":").expect("written");
        assert_eq!(read(&path, &key("1")), None);
        write(&path, key("1"), &points(1.0)).expect("written");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("linked");
        assert_eq!(read(&link, &key("1")), None);
    }
}
