//! What plain runs let expect of another run: its faults and system time, by which the host's share
//! and each mechanism's counter are read, and the work that every arm must do.

use crate::look::median;
use crate::world::{Arm, Timed};
use pagewise_model::look::Look;
use pagewise_model::price::Prices;
use pagewise_model::usage::Usage;
use pagewise_model::{Bytes, Nanos};
use pagewise_remedy::Mechanism;

/// System time above expectation that is still the program's own: prices are good to 20%.
const HOST_TOLERANCE: f64 = 1.2;
/// Device reads beyond those of the look by which a run counts as cold.
const COLD: Bytes = Bytes::mib(1);
/// Faults must make up this share of the system time before what exceeds it is blamed on the
/// host; otherwise it is the program's other kernel work that varies.
const FAULTS_DOMINATE: f64 = 0.3;
/// How far the bytes that a run moves may lie outside those of the plain runs, as a share.
const WORK_SHARE: f64 = 0.10;
/// And beyond that: a writer that its reader leaves has filled the pipe, of up to 1 MiB, in vain.
const WORK_SLACK: Bytes = Bytes::mib(4);

/// What a plain run's faults and system time are expected to be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expectation {
    minor_faults: u64,
    other_sys_ns: f64,
    fault_ns: f64,
    huge_fault_ns: f64,
    fault_bound: bool,
    device_read: Bytes,
}

impl Expectation {
    pub(crate) fn of(look: &Look, prices: Option<&Prices>) -> Self {
        let runs = &look.runs;
        let minor_faults = median(runs.iter().map(|u| u.minor_faults).collect());
        let fault_ns = prices.map_or(0.0, |p| p.anon_fault_ns.median);
        let huge_fault_ns = prices.and_then(|p| p.huge_fault_ns.known()).map_or(0.0, |p| p.median);
        // The least system time seen is the one with the least share of the host in it.
        let sys = runs.iter().map(|u| u.sys_ns.0).min().unwrap_or(0) as f64;
        let faults_ns = minor_faults as f64 * fault_ns;
        let other_sys_ns = (sys - faults_ns).max(0.0);
        let fault_bound = faults_ns > FAULTS_DOMINATE * sys;
        let device_read = runs.iter().filter_map(|u| u.device_read_bytes).max().unwrap_or_default();
        Self { minor_faults, other_sys_ns, fault_ns, huge_fault_ns, fault_bound, device_read }
    }

    /// System time of a run beyond what its work explains.
    pub(crate) fn host_ns(&self, usage: &Usage, huge_faults: u64) -> Nanos {
        if !self.fault_bound {
            return Nanos(0);
        }
        let small = usage.minor_faults.saturating_sub(huge_faults) as f64 * self.fault_ns;
        let huge = huge_faults as f64 * self.huge_fault_ns;
        let expected = (self.other_sys_ns + small + huge) * HOST_TOLERANCE;
        Nanos::from_f64(usage.sys_ns.0 as f64 - expected)
    }

    /// The run read from a device what the look found in the page cache.
    pub(crate) fn is_cold(&self, usage: &Usage) -> bool {
        usage.device_read_bytes.is_some_and(|read| read > self.device_read + COLD)
    }

    /// The counter of one mechanism in one run.
    fn read(&self, mechanism: Mechanism, arm: &Arm, run: &Timed) -> u64 {
        let faults = run.usage.minor_faults;
        match mechanism {
            // The machine's counter moves for others too; what this run's own faults went down
            // by bounds what of it can be this run's.
            Mechanism::HugeFaults => run.huge_faults.min(self.minor_faults.saturating_sub(faults)),
            Mechanism::FaultsSaved => self.minor_faults.saturating_sub(faults),
            Mechanism::FaultsAdded => faults.saturating_sub(self.minor_faults),
            Mechanism::Watched(name) => {
                run.watched.iter().filter(|(watch, _)| watch == name).map(|(_, n)| n).sum()
            }
            Mechanism::Affinity => u64::from(arm.settings.cpus.as_ref() == Some(&run.cpus_at_end)),
        }
    }

    /// The least of an arm's counters: all of its parts must have taken hold.
    pub(crate) fn counter(&self, arm: &Arm, run: &Timed) -> Option<u64> {
        arm.mechanism.iter().map(|m| self.read(*m, arm, run)).min()
    }
}

/// Bytes through read-like and write-like calls of the plain runs. The plain program's later runs
/// widen them: what it varies in by itself is held against no arm.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Work {
    read: Option<(u64, u64)>,
    written: Option<(u64, u64)>,
}

impl Work {
    pub(crate) fn of(runs: &[Usage]) -> Self {
        runs.iter().fold(Self::default(), |work, run| work.with(run))
    }

    /// Widened by a plain run.
    pub(crate) fn with(self, run: &Usage) -> Self {
        Self {
            read: widen(self.read, run.read_bytes),
            written: widen(self.written, run.written_bytes),
        }
    }

    /// How the work of a run is another than that of the plain runs, if it is.
    pub(crate) fn unequal(&self, run: &Usage) -> Option<String> {
        let sides =
            [("read", self.read, run.read_bytes), ("wrote", self.written, run.written_bytes)];
        sides.into_iter().find_map(|(verb, plain, bytes)| {
            let ((least, most), bytes) = plain.zip(bytes)?;
            let low = least as f64 * (1.0 - WORK_SHARE) - WORK_SLACK.0 as f64;
            let high = most as f64 * (1.0 + WORK_SHARE) + WORK_SLACK.0 as f64;
            (!(low..=high).contains(&(bytes.0 as f64))).then(|| {
                format!(
                    "unequal work: it {verb} {bytes}, plain runs {} to {}",
                    Bytes(least),
                    Bytes(most)
                )
            })
        })
    }
}

fn widen(range: Option<(u64, u64)>, bytes: Option<Bytes>) -> Option<(u64, u64)> {
    let Some(Bytes(bytes)) = bytes else { return range };
    Some(range.map_or((bytes, bytes), |(least, most)| (least.min(bytes), most.max(bytes))))
}
