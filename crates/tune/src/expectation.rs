//! Predicts another run from plain runs: its faults and system time, from which the host's share and each
//! mechanism's counter are derived, and the work that every arm must do.

use crate::world::{ProgramArm, TimedRun};
use pagewise_model::look::LookFindings;
use pagewise_model::plan::{FileKind, PipelineTool};
use pagewise_model::price::SessionPrices;
use pagewise_model::usage::{ProgramUsage, typical};
use pagewise_model::{Bytes, Nanos};
use pagewise_remedy::RemedyMechanism;

/// Excess of system time over the prediction that still belongs to the program: prices are accurate to 20%.
const HOST_TOLERANCE: f64 = 1.2;
/// A run counts as cold if it reads this much more from devices than the look.
const COLD: Bytes = Bytes::mib(1);
/// Faults must make up this share of the system time before what exceeds it is blamed on the
/// host; otherwise it is the program's other kernel work that varies.
const FAULTS_DOMINATE: f64 = 0.3;
/// Runs of another program from which its usual system time is known.
const LEAST_OTHER_RUNS: usize = 3;
/// Faults more or less than a plain run's that may be chance.
const LEAST_FAULTS: u64 = 16;
/// Memory less than a plain run's that may be chance.
const LEAST_SAVED: Bytes = Bytes::kib(256);
/// Least user time whose growth shows how much slower a shared CPU is, and the largest slowdown that it
/// counts for.
const LEAST_USER: Nanos = Nanos::millis(10);
const MOST_SLOWER: f64 = 2.0;
/// How far the bytes that a run moves may lie outside the range of the plain runs, as a share.
const WORK_SHARE: f64 = 0.10;
/// The bytes may also lie this far outside that range: a writer may have filled a pipe (up to 1 MiB) that its
/// reader closed early.
const WORK_SLACK: Bytes = Bytes::mib(4);

/// The predicted faults and system time of a plain run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RunExpectation {
    minor_faults: u64,
    major_faults: u64,
    other_sys_ns: f64,
    /// In user mode.
    user_ns: f64,
    fault_ns: f64,
    huge_fault_ns: f64,
    fault_bound: bool,
    /// The machine is a guest: only then is there a host to blame.
    guest: bool,
    device_read: Bytes,
    peak_rss: Bytes,
}

impl RunExpectation {
    pub(crate) fn of(look: &LookFindings, prices: Option<&SessionPrices>, guest: bool) -> Self {
        let runs = &look.runs;
        let minor_faults = typical(runs, |u| u.minor_faults).unwrap_or(0.0) as u64;
        let major_faults = typical(runs, |u| u.major_faults).unwrap_or(0.0) as u64;
        let fault_ns = prices.map_or(0.0, |p| p.anon_fault_ns.median);
        let huge_fault_ns = prices.and_then(|p| p.huge_fault_ns.known()).map_or(0.0, |p| p.median);
        // The smallest system time contains the smallest share of the host.
        let sys = runs.iter().map(|u| u.sys_ns.0).min().unwrap_or(0) as f64;
        let faults_ns = minor_faults as f64 * fault_ns;
        let other_sys_ns = (sys - faults_ns).max(0.0);
        let fault_bound = faults_ns > FAULTS_DOMINATE * sys;
        let device_read = runs.iter().filter_map(|u| u.device_read_bytes).max().unwrap_or_default();
        Self {
            minor_faults,
            major_faults,
            other_sys_ns,
            user_ns: typical(runs, |u| u.user_ns.0).unwrap_or(0.0),
            fault_ns,
            huge_fault_ns,
            fault_bound,
            guest,
            device_read,
            peak_rss: Bytes(typical(runs, |u| u.peak_rss_bytes.0).unwrap_or(0.0) as u64),
        }
    }

    /// System time of a run of the program beyond what its work explains. `at_once`: the run shared a CPU,
    /// whose caches serve all, so its kernel work slows down by the same factor as its user mode.
    pub(crate) fn host_ns(&self, usage: &ProgramUsage, huge_faults: u64, at_once: bool) -> Nanos {
        if !(self.guest && self.fault_bound) {
            return Nanos(0);
        }
        let huge_faults = self.own_huge_faults(usage, huge_faults);
        let small = usage.minor_faults.saturating_sub(huge_faults) as f64 * self.fault_ns;
        let huge = huge_faults as f64 * self.huge_fault_ns;
        let is_known = at_once && self.user_ns >= LEAST_USER.0 as f64;
        let slower = if is_known { usage.user_ns.0 as f64 / self.user_ns } else { 1.0 };
        let slower = slower.clamp(1.0, MOST_SLOWER);
        let expected = (self.other_sys_ns + small + huge) * HOST_TOLERANCE * slower;
        Nanos::from_f64(usage.sys_ns.0 as f64 - expected)
    }

    /// The same for a run of another program, of which only its `runs` so far are known.
    pub(crate) fn host_ns_of_other(&self, usage: &ProgramUsage, runs: &[ProgramUsage]) -> Nanos {
        let usual = typical(runs, |u| u.sys_ns.0).unwrap_or(0.0);
        let faults_ns = typical(runs, |u| u.minor_faults).unwrap_or(0.0) * self.fault_ns;
        let known = runs.len() >= LEAST_OTHER_RUNS && faults_ns > FAULTS_DOMINATE * usual;
        if !(self.guest && known) {
            return Nanos(0);
        }
        Nanos::from_f64(usage.sys_ns.0 as f64 - usual * HOST_TOLERANCE)
    }

    /// The counter covers the whole machine. The decrease in this run's own faults bounds this run's part of
    /// it.
    fn own_huge_faults(&self, usage: &ProgramUsage, huge_faults: u64) -> u64 {
        huge_faults.min(self.minor_faults.saturating_sub(usage.minor_faults))
    }

    /// Whether the run read from a device what the look found in the page cache.
    pub(crate) fn is_cold(&self, usage: &ProgramUsage) -> bool {
        usage.device_read_bytes.is_some_and(|read| read > self.device_read + COLD)
    }

    /// The counter of one mechanism in one run.
    fn read(&self, mechanism: RemedyMechanism, arm: &ProgramArm, run: &TimedRun) -> u64 {
        let faults = run.done.usage.minor_faults;
        match mechanism {
            RemedyMechanism::HugeFaults => self
                .own_huge_faults(&run.done.usage, run.done.huge_faults)
                .min(clear(self.minor_faults, faults)),
            RemedyMechanism::FolioFaults => {
                run.done.folio_faults.min(clear(self.minor_faults, faults))
            }
            RemedyMechanism::FaultsSaved => clear(self.minor_faults, faults),
            RemedyMechanism::FaultsAdded => clear(faults, self.minor_faults),
            RemedyMechanism::MemorySaved => {
                let saved = self.peak_rss.0.saturating_sub(run.done.usage.peak_rss_bytes.0);
                Some(saved).filter(|saved| *saved >= LEAST_SAVED.0).unwrap_or(0)
            }
            RemedyMechanism::MajorFaultsSaved => {
                clear(self.major_faults, run.done.usage.major_faults)
            }
            RemedyMechanism::Watched(name) => run.watched(name),
            RemedyMechanism::FilesOpened => u64::from(run.done.files_opened),
            RemedyMechanism::TextHuge => {
                huge_slots(FileKind::Code, arm, run).min(run.done.huge_file_maps)
            }
            RemedyMechanism::FilesHuge => huge_slots(FileKind::Input, arm, run),
            RemedyMechanism::Affinity => {
                u64::from(arm.settings.cpus.as_ref() == Some(&run.done.cpus_at_end))
            }
        }
    }

    /// The smallest of an arm's counters: all of its parts must have taken hold.
    pub(crate) fn counter(&self, arm: &ProgramArm, run: &TimedRun) -> Option<u64> {
        arm.mechanism.iter().map(|m| self.read(*m, arm, run)).min()
    }
}

/// Slots of an arm's files of this kind that were in huge folios in a run, beyond those after a plain start.
fn huge_slots(kind: FileKind, arm: &ProgramArm, run: &TimedRun) -> u64 {
    let files = arm.settings.huge_files.iter().filter(|file| file.kind == kind);
    let slots = |path: &str| run.huge_slots.iter().find(|(of, _)| of == path).map(|(_, n)| *n);
    files.filter_map(|file| slots(&file.path)).sum()
}

/// By how many faults `more` exceeds `less`. 0 if that may be chance.
fn clear(more: u64, less: u64) -> u64 {
    Some(more.saturating_sub(less)).filter(|faults| *faults >= LEAST_FAULTS).unwrap_or(0)
}

/// Bytes through read-like and write-like calls of the plain runs. Later runs of the plain program widen the
/// range: an arm is not rejected for the program's own variation.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WorkRange {
    read: Option<(u64, u64)>,
    written: Option<(u64, u64)>,
}

impl WorkRange {
    pub(crate) fn of(runs: &[ProgramUsage]) -> Self {
        runs.iter().fold(Self::default(), |work, run| work.with(run))
    }

    /// Widened by a plain run.
    pub(crate) fn with(self, run: &ProgramUsage) -> Self {
        Self {
            read: widen(self.read, run.read_bytes),
            written: widen(self.written, run.written_bytes),
        }
    }

    /// How the work of a run that uses these pagewise tools differs from that of the plain runs. `None` if it
    /// does not. Bytes that the tools pass by reference are not counted, so with them a lower count is no
    /// evidence.
    pub(crate) fn unequal(&self, run: &ProgramUsage, tools: &[PipelineTool]) -> Option<String> {
        let why = self.other_amount(run, tools)?;
        Some(format!("unequal work: it {why}"))
    }

    /// The short form of [`Self::unequal`], without its prefix.
    pub(crate) fn other_amount(
        &self,
        run: &ProgramUsage,
        tools: &[PipelineTool],
    ) -> Option<String> {
        let sides =
            [("read", self.read, run.read_bytes), ("wrote", self.written, run.written_bytes)];
        sides.into_iter().find_map(|(verb, plain, bytes)| {
            let ((least, most), bytes) = plain.zip(bytes)?;
            let low = least as f64 * (1.0 - WORK_SHARE) - WORK_SLACK.0 as f64;
            let high = most as f64 * (1.0 + WORK_SHARE) + WORK_SLACK.0 as f64;
            let is_less = tools.is_empty() && (bytes.0 as f64) < low;
            (is_less || bytes.0 as f64 > high).then(|| {
                let (least, most) = (Bytes(least), Bytes(most));
                if least == most {
                    format!("{verb} {bytes}, other runs {least}")
                } else {
                    format!("{verb} {bytes}, other runs {least} to {most}")
                }
            })
        })
    }
}

fn widen(range: Option<(u64, u64)>, bytes: Option<Bytes>) -> Option<(u64, u64)> {
    let Some(Bytes(bytes)) = bytes else { return range };
    Some(range.map_or((bytes, bytes), |(least, most)| (least.min(bytes), most.max(bytes))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::constructed::usage;
    use pagewise_model::plan::{ArmSettings, HugeFile};
    use pagewise_tracee::run::FinishedRun;

    fn idle() -> ProgramUsage {
        ProgramUsage { wall_ns: Nanos::secs(1), user_ns: Nanos::secs(1), ..usage() }
    }

    fn expectation(guest: bool) -> RunExpectation {
        RunExpectation {
            minor_faults: 10_000,
            major_faults: 0,
            other_sys_ns: 0.0,
            user_ns: 0.0,
            fault_ns: 1000.0,
            huge_fault_ns: 100_000.0,
            fault_bound: true,
            guest,
            device_read: Bytes(0),
            peak_rss: Bytes(0),
        }
    }

    fn timed(usage: ProgramUsage) -> TimedRun {
        TimedRun {
            done: FinishedRun::new(usage),
            huge_slots: Vec::new(),
            conditioned: true,
            kept: None,
        }
    }

    fn with_sys(sys_ms: u64, minor_faults: u64) -> ProgramUsage {
        ProgramUsage { sys_ns: Nanos::millis(sys_ms), minor_faults, ..idle() }
    }

    #[test]
    fn only_a_guest_has_a_host_to_blame() {
        let run = with_sys(20, 10_000);
        assert_eq!(expectation(true).host_ns(&run, 0, false), Nanos::millis(8));
        assert_eq!(expectation(false).host_ns(&run, 0, false), Nanos(0));
        let known = RunExpectation { user_ns: 20e6, ..expectation(true) };
        let beside = |user| {
            let run = ProgramUsage { user_ns: Nanos::millis(user), ..run.clone() };
            (known.host_ns(&run, 0, true), known.host_ns(&run, 0, false))
        };
        assert_eq!(beside(20), (Nanos::millis(8), Nanos::millis(8)));
        assert!(beside(22).0 < Nanos::millis(8) && beside(22).1 == Nanos::millis(8));
        let five = vec![with_sys(10, 10_000); 5];
        assert_eq!(expectation(false).host_ns_of_other(&run, &five), Nanos(0));
    }

    #[test]
    fn folios_of_others_are_none_of_a_run_that_saved_no_fault() {
        let arm = ProgramArm::unchanged("x", &[]);
        let read = |minor_faults, folio_faults| {
            let mut run = timed(with_sys(1, minor_faults));
            run.done.folio_faults = folio_faults;
            expectation(false).read(RemedyMechanism::FolioFaults, &arm, &run)
        };
        assert_eq!([read(1_000, 500), read(9_900, 500), read(10_000, 500)], [500, 100, 0]);
    }

    #[test]
    fn huge_faults_of_others_explain_nothing_of_a_run_that_saved_none() {
        let run = with_sys(20, 10_000);
        assert_eq!(expectation(true).host_ns(&run, 500, false), Nanos::millis(8));
        let saved = with_sys(20, 9_900);
        assert_eq!(
            expectation(true).host_ns(&saved, 500, false),
            Nanos::from_f64(20e6 - 1.2 * 19.8e6)
        );
    }

    #[test]
    fn another_program_is_held_against_its_own_system_time() {
        let expectation = expectation(true);
        let heavy = with_sys(50, 10_000);
        let three = [with_sys(48, 20_000), with_sys(50, 20_000), with_sys(51, 20_000)];
        assert_eq!(expectation.host_ns_of_other(&heavy, &three), Nanos(0));
        assert_eq!(expectation.host_ns_of_other(&with_sys(70, 20_000), &three), Nanos::millis(10));
        assert_eq!(expectation.host_ns_of_other(&with_sys(70, 20_000), &three[..2]), Nanos(0));
    }

    #[test]
    fn huge_files_count_where_they_lie_so_and_code_where_it_is_mapped_so() {
        let file = |path: &str, kind| HugeFile { path: path.to_owned(), kind };
        let huge_files = vec![file("/bin/x", FileKind::Code), file("/var/y", FileKind::Input)];
        let settings = ArmSettings { huge_files, ..ArmSettings::default() };
        let arm = ProgramArm { settings, ..ProgramArm::unchanged("x", &[]) };
        let read = |mechanism, slots: &[(&str, u64)], huge_file_maps| {
            let huge_slots = slots.iter().map(|(path, n)| ((*path).to_owned(), *n)).collect();
            let mut run = TimedRun { huge_slots, ..timed(idle()) };
            run.done.huge_file_maps = huge_file_maps;
            expectation(false).read(mechanism, &arm, &run)
        };
        let both = [("/var/y", 7), ("/bin/x", 5), ("/other", 9)];
        assert_eq!(read(RemedyMechanism::TextHuge, &both, 40), 5);
        assert_eq!(read(RemedyMechanism::TextHuge, &both, 0), 0, "nothing was mapped huge");
        assert_eq!(read(RemedyMechanism::FilesHuge, &both, 0), 7);
        assert_eq!(read(RemedyMechanism::FilesHuge, &both[1..], 40), 0);
    }

    #[test]
    fn bytes_by_reference_are_missed_by_nobody() {
        let moves = |bytes| ProgramUsage { read_bytes: Some(bytes), ..idle() };
        let work = WorkRange::of(&[moves(Bytes::gib(2))]);
        let told = |bytes, tools: &[PipelineTool]| work.unequal(&moves(bytes), tools).is_some();
        assert!(told(Bytes::gib(1), &[]) && told(Bytes::gib(3), &[]));
        assert!(
            !told(Bytes::gib(1), &[PipelineTool::Cat]) && told(Bytes::gib(3), &[PipelineTool::Cat])
        );
    }

    #[test]
    fn a_handful_of_faults_is_no_sign() {
        assert_eq!([clear(100, 99), clear(100, 84), clear(99, 100)], [0, 16, 0]);
    }
}
