//! In which part of a program's life a fault came.
//!
//! Borders follow from faults and mappings alone, for each process from its last exec on:
//!
//! - *kernel exec*: faults in the kernel before the first in user mode (seen only with the right to record
//!   them);
//! - *loader*: until the last executable part of a file is mapped before the program's own code runs;
//! - *relocation*: until the loader last writes to the data of another file, or changes the rights of a
//!   non-code part of a file (the protection of relocated data);
//! - *constructors*: until the program's own code first faults, on the fetch of its first instruction. The
//!   program's own constructors run after that and are not distinguished;
//! - *main*: from there until the steady state;
//! - *steady state*: after a first touch of a page of code or data of a file, if the program's run time
//!   doubles before the next such touch. So a page first touched at exit does not move the border.
//!
//! A program without a loader begins with main. So does a process that is older than the recording, or was
//! forked; its time starts there. A process forked in its parent's steady state begins with the steady state.

use super::groups::{self, FaultGroups};
use pagewise_model::Nanos;
use pagewise_model::fault::event::MapEvent;
use pagewise_model::fault::{AccessKind, FaultTally, GroupTally, MappingKind, ProgramPhase};
use rustc_hash::FxHashMap;

/// A fault, as far as phases need it.
#[derive(Debug, Clone, Copy)]
pub(super) struct PhaseFault<'a> {
    pub(super) pid: i32,
    pub(super) at: Nanos,
    /// File of the instruction. Empty for code of no file.
    pub(super) code_path: &'a str,
    pub(super) touched_path: &'a str,
    pub(super) touched: MappingKind,
    pub(super) access: AccessKind,
    pub(super) in_kernel: bool,
    pub(super) is_first_touch: bool,
}

/// All processes.
#[derive(Debug, Default)]
pub(super) struct FaultPhases {
    processes: FxHashMap<i32, PhaseProgress>,
    tallies: FaultGroups<ProgramPhase>,
}

/// How far a process has come, and faults whose phase is known later.
#[derive(Debug, Clone, Default)]
struct PhaseProgress {
    stage: ProcessStage,
    started: Nanos,
    /// File of the program, and of its loader.
    own: String,
    loader: String,
    /// Since the last executable part was mapped, up to the last sign of relocation.
    relocating: FaultTally,
    /// Since then; from main on: since the last new page of a file.
    since: FaultTally,
    /// When the last new page of a file was touched, from the start on.
    last_new: Nanos,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ProcessStage {
    /// Nothing has run in user mode.
    Exec,
    /// The loader is at work.
    Start,
    #[default]
    Main,
    Steady,
}

impl FaultPhases {
    pub(super) fn exec(&mut self, pid: i32, at: Nanos) {
        self.end(pid, at);
        let fresh =
            PhaseProgress { stage: ProcessStage::Exec, started: at, ..PhaseProgress::default() };
        self.processes.insert(pid, fresh);
    }

    pub(super) fn fork(&mut self, pid: i32, parent_pid: i32, at: Nanos) {
        if pid == parent_pid {
            return;
        }
        let is_steady =
            self.processes.get(&parent_pid).is_some_and(|p| p.stage == ProcessStage::Steady);
        let stage = if is_steady { ProcessStage::Steady } else { ProcessStage::Main };
        self.processes
            .insert(pid, PhaseProgress { stage, started: at, ..PhaseProgress::default() });
    }

    pub(super) fn map(&mut self, map: &MapEvent) {
        let Some(process) = self.processes.get_mut(&map.pid) else { return };
        if !map.path.starts_with('/') {
            return;
        }
        match (process.stage, map.is_executable) {
            (ProcessStage::Exec, true) if process.own.is_empty() => {
                process.own.clone_from(&map.path)
            }
            (ProcessStage::Exec, true) if process.loader.is_empty() && map.path != process.own => {
                process.loader.clone_from(&map.path);
            }
            (ProcessStage::Start, true) => {
                self.tallies.add(ProgramPhase::Loader, process.take_all())
            }
            (ProcessStage::Start, false) => process.relocated(),
            _ => {}
        }
    }

    /// Adds a fault, which has come to `tally`.
    pub(super) fn fault(&mut self, seen: &PhaseFault<'_>, tally: FaultTally) {
        let fresh = || PhaseProgress { started: seen.at, ..PhaseProgress::default() };
        let process = self.processes.entry(seen.pid).or_insert_with(fresh);
        if process.stage == ProcessStage::Exec && !seen.in_kernel {
            let has_loader = !process.loader.is_empty();
            process.stage = if has_loader { ProcessStage::Start } else { ProcessStage::Main };
        }
        let is_own = !process.own.is_empty() && seen.code_path == process.own;
        if process.stage == ProcessStage::Start && is_own {
            process.stage = ProcessStage::Main;
            self.tallies.add(ProgramPhase::Relocation, std::mem::take(&mut process.relocating));
            self.tallies.add(ProgramPhase::Constructors, process.take_since());
        }
        if let Some((phase, faults)) = process.count(seen, tally) {
            self.tallies.add(phase, faults);
        }
    }

    /// The process ends, or becomes another program.
    pub(super) fn end(&mut self, pid: i32, at: Nanos) {
        let Some(mut process) = self.processes.remove(&pid) else { return };
        let phase = match process.stage {
            ProcessStage::Exec => ProgramPhase::Exec,
            // It never reached its own code.
            ProcessStage::Start => ProgramPhase::Loader,
            ProcessStage::Main | ProcessStage::Steady => process.reach(at),
        };
        self.tallies.add(phase, process.take_all());
    }

    /// The faults of each phase that had any, in time order. `at` is the end of all.
    pub(super) fn conclude(&mut self, at: Nanos) -> Vec<GroupTally<ProgramPhase>> {
        let left: Vec<i32> = self.processes.keys().copied().collect();
        left.into_iter().for_each(|pid| self.end(pid, at));
        let mut phases = self.tallies.ranked();
        phases.retain(|group| group.tally.faults > 0);
        phases.sort_by_key(|group| group.kind);
        phases
    }
}

impl PhaseProgress {
    fn take_since(&mut self) -> FaultTally {
        std::mem::take(&mut self.since)
    }

    /// What came since, with what came up to the last sign of relocation.
    fn take_all(&mut self) -> FaultTally {
        self.relocated();
        std::mem::take(&mut self.relocating)
    }

    /// A sign of relocation: the faults before it belong to relocation.
    fn relocated(&mut self) {
        let since = self.take_since();
        groups::add(&mut self.relocating, since);
    }

    /// Counts a fault. Returns the faults whose phase this fault decides.
    fn count(
        &mut self,
        seen: &PhaseFault<'_>,
        tally: FaultTally,
    ) -> Option<(ProgramPhase, FaultTally)> {
        match self.stage {
            ProcessStage::Exec => Some((ProgramPhase::Exec, tally)),
            ProcessStage::Steady => Some((ProgramPhase::Steady, tally)),
            ProcessStage::Start => {
                groups::add(&mut self.since, tally);
                if self.is_relocation(seen) {
                    self.relocated();
                }
                None
            }
            ProcessStage::Main => {
                groups::add(&mut self.since, tally);
                seen.is_new_image_page().then(|| (self.reach(seen.at), self.take_since()))
            }
        }
    }

    fn is_relocation(&self, seen: &PhaseFault<'_>) -> bool {
        seen.access == AccessKind::Write
            && seen.touched == MappingKind::Data
            && seen.code_path == self.loader
            && seen.touched_path != self.loader
    }

    /// The phase of what came since the last new page of a file, now that another is touched, or
    /// the end is reached, at `at`. Of several threads the earlier one may be reported later.
    fn reach(&mut self, at: Nanos) -> ProgramPhase {
        let now = Nanos(at.0.saturating_sub(self.started.0));
        let is_settled = now.0 >= self.last_new.0.saturating_mul(2) && self.last_new > Nanos(0);
        if self.stage == ProcessStage::Steady || is_settled {
            self.stage = ProcessStage::Steady;
            return ProgramPhase::Steady;
        }
        self.last_new = self.last_new.max(now);
        ProgramPhase::Main
    }
}

impl PhaseFault<'_> {
    fn is_new_image_page(&self) -> bool {
        self.is_first_touch && matches!(self.touched, MappingKind::Code | MappingKind::Data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::Bytes;

    const OWN: &str = "/bin/x";
    const LOADER: &str = "/lib/ld.so";

    fn one() -> FaultTally {
        FaultTally { faults: 1, ..FaultTally::default() }
    }

    fn map(path: &str, is_executable: bool) -> MapEvent {
        MapEvent {
            pid: 1,
            start_address: 0x1000,
            size_bytes: Bytes(0x1000),
            offset_bytes: Bytes(0),
            is_executable,
            is_shared: false,
            path: path.to_owned(),
            file: None,
        }
    }

    fn seen<'a>(
        at: u64,
        code_path: &'a str,
        touched_path: &'a str,
        touched: MappingKind,
    ) -> PhaseFault<'a> {
        PhaseFault {
            pid: 1,
            at: Nanos(at),
            code_path,
            touched_path,
            touched,
            access: AccessKind::Write,
            in_kernel: false,
            is_first_touch: true,
        }
    }

    fn counts(phases: &mut FaultPhases, end: u64) -> Vec<(ProgramPhase, u64)> {
        phases.conclude(Nanos(end)).iter().map(|group| (group.kind, group.tally.faults)).collect()
    }

    fn started() -> FaultPhases {
        let mut phases = FaultPhases::default();
        phases.exec(1, Nanos(0));
        phases.map(&map(OWN, true));
        phases.map(&map(LOADER, true));
        phases
    }

    #[test]
    fn a_program_with_a_loader_goes_through_all_phases() {
        use MappingKind::{Anonymous, Code, Data};
        let mut phases = started();
        let kernel = PhaseFault { in_kernel: true, ..seen(1, "", OWN, Data) };
        phases.fault(&kernel, one());
        phases.fault(&seen(2, LOADER, LOADER, Code), one());
        phases.fault(&seen(3, LOADER, LOADER, Data), one());
        // Mapping a library clears the end of its last page. This is not relocation.
        phases.map(&map("/lib/a.so", true));
        phases.fault(&seen(4, LOADER, "/lib/a.so", Data), one());
        phases.map(&map("/lib/b.so", true));
        phases.fault(&seen(5, LOADER, "/lib/b.so", Data), one());
        phases.fault(&seen(6, "/lib/b.so", "/lib/b.so", Code), one());
        phases.fault(&seen(7, LOADER, OWN, Data), one());
        phases.fault(&seen(8, "/lib/a.so", "/lib/a.so", Code), one());
        phases.map(&map("/lib/a.so", false));
        phases.fault(&seen(9, "/lib/a.so", "", Anonymous), one());
        phases.fault(&seen(10, OWN, OWN, Code), one());
        phases.fault(&seen(11, "/lib/a.so", "", Anonymous), one());
        phases.fault(&seen(30, OWN, "", Anonymous), one());
        phases.fault(&seen(31, OWN, OWN, Code), one());
        let want = [
            (ProgramPhase::Exec, 1),
            (ProgramPhase::Loader, 3),
            (ProgramPhase::Relocation, 4),
            (ProgramPhase::Constructors, 1),
            (ProgramPhase::Main, 1),
            (ProgramPhase::Steady, 3),
        ];
        assert_eq!(counts(&mut phases, 32), want);
    }

    #[test]
    fn a_burst_at_the_end_does_not_move_the_steady_state() {
        use MappingKind::{Anonymous, Code};
        let run = |times: &[u64], end| {
            let mut phases = started();
            phases.fault(&seen(1, OWN, OWN, Code), one());
            for at in times {
                phases.fault(&seen(*at, OWN, "", Anonymous), one());
            }
            phases.fault(&seen(end, OWN, OWN, Code), one());
            counts(&mut phases, end)
        };
        assert_eq!(run(&[2, 3, 50], 100), [(ProgramPhase::Main, 1), (ProgramPhase::Steady, 4)]);
        assert_eq!(run(&[], 1), [(ProgramPhase::Main, 2)]);
    }

    #[test]
    fn a_fault_that_is_reported_late_takes_no_time_back() {
        let mut phases = started();
        for at in [100, 60, 150] {
            phases.fault(&seen(at, OWN, OWN, MappingKind::Code), one());
        }
        assert_eq!(counts(&mut phases, 199), [(ProgramPhase::Main, 3)]);
    }

    #[test]
    fn a_static_program_begins_with_main_and_one_that_ends_early_with_the_loader() {
        let mut phases = FaultPhases::default();
        phases.exec(1, Nanos(0));
        phases.map(&map(OWN, true));
        phases.fault(&seen(5, OWN, OWN, MappingKind::Code), one());
        assert_eq!(counts(&mut phases, 6), [(ProgramPhase::Main, 1)]);
        let mut phases = started();
        phases.fault(&seen(5, LOADER, LOADER, MappingKind::Code), one());
        phases.exec(1, Nanos(9));
        assert_eq!(counts(&mut phases, 9), [(ProgramPhase::Loader, 1)]);
    }

    #[test]
    fn a_forked_process_begins_where_its_parent_is() {
        let mut phases = started();
        phases.fault(&seen(5, OWN, OWN, MappingKind::Code), one());
        phases.fork(2, 1, Nanos(6));
        let child = PhaseFault { pid: 2, ..seen(7, OWN, OWN, MappingKind::Code) };
        phases.fault(&child, one());
        phases.fork(1, 1, Nanos(6));
        assert_eq!(counts(&mut phases, 8), [(ProgramPhase::Main, 2)]);
    }
}
