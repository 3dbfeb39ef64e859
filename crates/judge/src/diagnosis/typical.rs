//! The typical run: each quantity's median over the plain runs.

use pagewise_model::usage::{ProgramUsage, typical};

/// Medians over the plain runs, times in ns, sizes in bytes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct TypicalRun {
    pub(super) wall_ns: f64,
    pub(super) user_ns: f64,
    pub(super) sys_ns: f64,
    pub(super) minor_faults: f64,
    pub(super) major_faults: f64,
    pub(super) voluntary_switches: f64,
    /// 0 where `/proc/PID/io` could not be read: then copies have no evidence.
    pub(super) read_bytes: f64,
    pub(super) written_bytes: f64,
    /// 0 if reads were not counted.
    pub(super) read_calls: f64,
    pub(super) write_calls: f64,
}

impl TypicalRun {
    /// The medians of `runs`; `None` without a run.
    pub(super) fn from_runs(runs: &[ProgramUsage]) -> Option<Self> {
        let median = |value: fn(&ProgramUsage) -> u64| typical(runs, value);
        Some(Self {
            wall_ns: median(|r| r.wall_ns.0)?,
            user_ns: median(|r| r.user_ns.0)?,
            sys_ns: median(|r| r.sys_ns.0)?,
            minor_faults: median(|r| r.minor_faults)?,
            major_faults: median(|r| r.major_faults)?,
            voluntary_switches: median(|r| r.voluntary_switches)?,
            read_bytes: median(|r| r.read_bytes.map_or(0, |b| b.0))?,
            written_bytes: median(|r| r.written_bytes.map_or(0, |b| b.0))?,
            read_calls: median(|r| r.read_calls.unwrap_or(0))?,
            write_calls: median(|r| r.write_calls.unwrap_or(0))?,
        })
    }

    /// The run less what recording its faults took, CPU time of the kernel: as much of the wall
    /// time as falls to one of the CPUs that the program kept busy.
    pub(super) fn without_recording(self, recording_ns: f64) -> Self {
        let recording_ns = recording_ns.min(self.sys_ns);
        let busy_cpus = (self.cpu_ns() / self.wall_ns.max(1.0)).max(1.0);
        Self {
            sys_ns: self.sys_ns - recording_ns,
            wall_ns: (self.wall_ns - recording_ns / busy_cpus).max(0.0),
            ..self
        }
    }

    pub(super) fn cpu_ns(&self) -> f64 {
        self.user_ns + self.sys_ns
    }
}

/// The wall time of the run that was disturbed least, as a share (0..1) of the median.
pub(super) fn calmest_share(runs: &[ProgramUsage]) -> f64 {
    let walls = || runs.iter().map(|run| run.wall_ns.0);
    let (least, median) = (walls().min().unwrap_or(0), typical(runs, |run| run.wall_ns.0));
    super::share(least as f64, median.unwrap_or(0.0))
}

/// By how much of itself CPU time varies over the runs, from the least to the most: 0 of one run.
pub(super) fn noise_share(runs: &[ProgramUsage]) -> f64 {
    let all = || runs.iter().map(|run| run.cpu_ns().0);
    let (least, most) = (all().min().unwrap_or(0), all().max().unwrap_or(0));
    super::share(most.saturating_sub(least) as f64, least as f64)
}
