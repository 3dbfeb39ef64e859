//! Runs a program from start to end: calls watchers when they are due, enforces limits, and returns what the
//! run used.
//!
//! The loop sleeps in `poll(2)` on the program's pidfd. It wakes up when the program ends, a stop is
//! requested, a watcher or limit is due, or an inherited orphan has ended and must be reaped. There are no
//! other wake-ups. After the start-up a watcher rests for twenty times the CPU time of its look, however soon
//! it wants to look again. Wall time runs from the byte that releases the program to the pidfd's event;
//! `exec` lies inside.
//!
//! Not seen: work of processes that outlive the program, except that they are killed and counted.

use crate::checkpoint::at_checkpoint;
use crate::child_ends::ChildEnds;
use crate::descendants::{self, ExceptedChildren, KillOutcome};
use crate::launch::{
    self, LaunchError, ObservationOptions, ProgramLaunch, RunningProgram, SuspendedProgram,
};
use crate::limits::{BrokenLimit, LimitMonitor};
use crate::mapped_file::MappedFiles;
use crate::memory_use::MemorySampler;
use crate::perf::PerfObservers;
use crate::recorder::FaultRecording;
use crate::run_delay::DelaySampler;
use crate::tool_links::StartWatch;
use crate::tree::ProcessTree;
use crate::wait;
use crate::watcher::{MakeWatcher, RunWatcher, WatchContext, WatchReport};
use pagewise_kernel::proc::{fd, own_pid, vmstat};
use pagewise_kernel::{affinity, own_usage, thp};
use pagewise_model::Fact;
use pagewise_model::code_tlb::CodeMissCounts;
use pagewise_model::fault::FaultReport;
use pagewise_model::look::{CpuSamples, UserSamples, WalkCounts};
use pagewise_model::machine::SmallFolios;
use pagewise_model::profile::StackSamples;
use pagewise_model::units::Nanos;
use pagewise_model::usage::ProgramUsage;
use rustix::event::{PollFd, PollFlags};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// A run that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FinishedRun {
    /// What the program used.
    pub usage: ProgramUsage,
    /// Report of each watcher, in the order of the plan.
    pub watches: Vec<WatchReport>,
    /// CPU time of this process while the program ran.
    pub supervisor_ns: Nanos,
    /// Huge pages allocated by faults on the whole machine meanwhile (`thp_fault_alloc`).
    pub huge_faults: u64,
    /// Folios of 64 KiB allocated by faults on the whole machine meanwhile.
    pub folio_faults: u64,
    /// File pages mapped by one huge-page entry, on the whole machine, meanwhile (`thp_file_mapped`).
    #[serde(default)]
    pub huge_file_maps: u64,
    /// The kernel reports that all files its settings make it open were opened meanwhile: the tools file and
    /// preloaded libraries. False if there are no such files.
    pub files_opened: bool,
    /// Processes it left behind that were alive at its end and were killed, without the program itself.
    pub leftovers_killed: u32,
    /// CPUs it was allowed to use when it ended, as the kernel says; empty if unknown.
    pub cpus_at_end: Vec<u32>,
    /// It was killed because it exceeded its time limit.
    pub timed_out: bool,
    /// It was killed because it exceeded its memory limit.
    pub over_memory: bool,
    /// CPU samples, when they were asked for.
    pub samples: Fact<CpuSamples>,
    /// Samples with whole stacks, when they were asked for.
    pub profile: Fact<StackSamples>,
    /// Samples in user mode, when they were asked for.
    pub user: Fact<UserSamples>,
    /// Page-walk counts, when they were asked for.
    pub walks: Fact<WalkCounts>,
    /// Counts of misses of the TLB for code, with the page walks.
    pub code_misses: Fact<CodeMissCounts>,
    /// Page faults, if a recorder was given.
    pub faults: Fact<FaultReport>,
}

impl FinishedRun {
    /// A run with no recorded data except `usage`.
    #[must_use]
    pub fn new(usage: ProgramUsage) -> Self {
        const NOT_ASKED: &str = "not requested";
        Self {
            usage,
            watches: Vec::new(),
            supervisor_ns: Nanos(0),
            huge_faults: 0,
            folio_faults: 0,
            huge_file_maps: 0,
            files_opened: false,
            leftovers_killed: 0,
            cpus_at_end: Vec::new(),
            timed_out: false,
            over_memory: false,
            samples: Fact::missing(NOT_ASKED),
            profile: Fact::missing(NOT_ASKED),
            user: Fact::missing(NOT_ASKED),
            walks: Fact::missing(NOT_ASKED),
            code_misses: Fact::missing(NOT_ASKED),
            faults: Fact::missing(NOT_ASKED),
        }
    }
}

/// How a run ended.
#[derive(Debug)]
pub enum RunOutcome {
    /// By itself or by a limit.
    Finished(Box<FinishedRun>),
    /// A stop was requested through the descriptor; the tree has been killed.
    Stopped,
}

/// Runs `launch`, an experiment, to its end. `make` creates the watcher for each watch of its settings. The
/// run stops early when `stop` becomes readable.
///
/// This process becomes a subreaper. It must have no other children: at the end all its descendants are
/// killed.
///
/// # Errors
/// [`LaunchError`] when the program could not be started or waited for, or some of its processes are still
/// alive.
pub fn run(
    launch: &ProgramLaunch,
    make: MakeWatcher<'_>,
    stop: Option<BorrowedFd<'_>>,
) -> Result<RunOutcome, LaunchError> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|e| LaunchError::errno("prctl(PR_SET_CHILD_SUBREAPER)", "this process", e))?;
    let outcome = run_once(launch, make, stop)?;
    // The helpers have ended by now: no descendant may be left.
    descendants::end_all(&ExceptedChildren::default()).check(launch.shown())?;
    Ok(outcome)
}

fn run_once(
    launch: &ProgramLaunch,
    make: MakeWatcher<'_>,
    stop: Option<BorrowedFd<'_>>,
) -> Result<RunOutcome, LaunchError> {
    let ends = ChildEnds::watch()?;
    let child = launch::spawn(launch, &[])?;
    let mut watchers = watchers(launch, &child, make);
    let observers =
        PerfObservers::attach(child.pid(), &launch.observe, &MappedFiles::default(), None);
    let recording = FaultRecording::beside(&launch.recorder, child.pid());
    let starts = StartWatch::of(&launch.settings)?;
    let huge_before = HugeCounts::now();
    let mut limits = LimitMonitor::of(launch, Arc::default());
    let mut samplers = RunSamplers::of(&launch.observe);
    let mut running = child.release()?;
    let cpu_before = wait::own_cpu_time();
    let reaped_before = own_usage::children().ok();
    let helpers: HashSet<i32> = running.helpers().into_iter().chain(recording.pid()).collect();
    let tree = ProcessTree::new(running.pid(), helpers.iter().copied());
    let except = ExceptedChildren { helpers, unreaped: Some(running.pid()) };
    let mut beside = RunSupervision { running: &running, tree, except: &except, ends: &ends, stop };
    let end = beside.supervise(&mut watchers, &mut limits, &mut samplers);
    let mut supervisor_ns = Nanos(wait::own_cpu_time().0.saturating_sub(cpu_before.0));
    let KillOutcome { killed, alive } = descendants::end_all(&except);
    KillOutcome { killed, alive }.check(launch.shown())?;
    let wall = match end {
        WaitEnd::Seen(wall) => wall,
        WaitEnd::Limit => running.started().elapsed().into(),
        WaitEnd::Told => {
            let _killed = wait::reap(running.pid());
            return Ok(RunOutcome::Stopped);
        }
    };
    let cpus_at_end = affinity::get(running.pid()).unwrap_or_default();
    let usage = || wait::usage(running.pid(), wall, running.io());
    let usage = samplers.finish(running.pid(), usage)?;
    let reaped = reaped_before.zip(own_usage::children().ok());
    let usage = at_checkpoint(usage, launch.checkpoint, limits.reached(), reaped);
    let huge = HugeCounts::now().since(huge_before);
    for drain in std::mem::take(&mut running.drains) {
        supervisor_ns += drain.finish(stop)?;
    }
    let observed = observers.finish();
    Ok(RunOutcome::Finished(Box::new(FinishedRun {
        faults: recording.conclude(&usage),
        usage,
        watches: watchers.iter_mut().map(|w| w.watcher.finish()).collect(),
        supervisor_ns,
        huge_faults: huge.faults,
        folio_faults: huge.folios,
        huge_file_maps: huge.file_maps,
        files_opened: starts.seen()?,
        leftovers_killed: killed,
        cpus_at_end,
        timed_out: matches!(limits.broken(), Some(BrokenLimit::Time(_))),
        over_memory: matches!(limits.broken(), Some(BrokenLimit::Memory(_))),
        samples: observed.samples,
        profile: observed.profile,
        user: observed.user,
        walks: observed.walks,
        code_misses: observed.code_misses,
    })))
}

/// A watcher and when it is due.
pub(crate) struct ScheduledWatcher {
    pub(crate) watcher: Box<dyn RunWatcher>,
    due: Option<Nanos>,
}

impl ScheduledWatcher {
    fn at_once(watcher: Box<dyn RunWatcher>) -> Self {
        Self { watcher, due: Some(Nanos(0)) }
    }
}

/// The watchers of `launch`, each due immediately.
pub(crate) fn watchers(
    launch: &ProgramLaunch,
    child: &SuspendedProgram,
    make: MakeWatcher<'_>,
) -> Vec<ScheduledWatcher> {
    if launch.settings.watches.is_empty() {
        return Vec::new();
    }
    // Before `exec` the child holds only what this process holds and what it was given.
    let foreign_pipes = [own_pid(), child.pid()].into_iter().flat_map(pipes_of).collect();
    let context = WatchContext { pid: child.pid(), foreign_pipes };
    let schedule = |watch| ScheduledWatcher::at_once(make(watch, &context));
    launch.settings.watches.iter().map(schedule).collect()
}

fn pipes_of(pid: i32) -> HashSet<u64> {
    let held = fd::list(pid).unwrap_or_default();
    held.into_iter()
        .filter_map(|d| {
            if let fd::DescriptorTarget::Pipe(inode) = d.target { Some(inode) } else { None }
        })
        .collect()
}

/// Minimum rest of a watcher after a look, as a multiple of its CPU time. So it takes at most a twentieth of
/// a CPU, however many processes it looks at.
const REST: u64 = 20;

/// Until this time after the start, a rest is only as long as the look.
const START_UP: Nanos = Nanos::millis(20);

/// The clocks that schedule watchers.
pub(crate) struct WatchClocks<'a> {
    /// Time since the start of the program.
    pub(crate) since_start: &'a dyn Fn() -> Nanos,
    /// CPU time of this thread. Not wall time: on a busy machine a look is long, but waiting costs nothing.
    pub(crate) cpu: &'a dyn Fn() -> Nanos,
}

/// Calls the watchers that are due. Returns when the next one is due.
pub(crate) fn tick(
    watchers: &mut [ScheduledWatcher],
    tree: &mut ProcessTree,
    clocks: &WatchClocks<'_>,
) -> Option<Nanos> {
    let now = (clocks.since_start)();
    let is_due = |one: &ScheduledWatcher| one.due.is_some_and(|due| due <= now);
    if watchers.iter().any(is_due) {
        let since = |begin: Nanos| Nanos((clocks.cpu)().0.saturating_sub(begin.0));
        let begin = (clocks.cpu)();
        tree.refresh();
        let refresh = since(begin);
        for one in watchers.iter_mut().filter(|one| is_due(one)) {
            let begin = (clocks.cpu)();
            let wanted = one.watcher.tick(tree, (clocks.since_start)());
            let took = refresh + since(begin);
            let end = (clocks.since_start)();
            let rest = if end < START_UP { 1 } else { REST };
            let rested = end + Nanos(took.0.saturating_mul(rest));
            one.due = wanted.map(|due| due.max(rested));
        }
    }
    watchers.iter().filter_map(|one| one.due).min()
}

/// Why the wait for a program ended.
enum WaitEnd {
    /// It ended, after this time.
    Seen(Nanos),
    /// It broke a limit.
    Limit,
    /// A stop was requested through the descriptor.
    Told,
}

/// The samplers of a run, as requested.
struct RunSamplers {
    memory: Option<MemorySampler>,
    run_delay: Option<DelaySampler>,
}

impl RunSamplers {
    fn of(observe: &ObservationOptions) -> Self {
        Self {
            memory: observe.memory.then(MemorySampler::new),
            run_delay: observe.run_delay.then(DelaySampler::new),
        }
    }

    /// Adds what they found about the ended program `pid`, which has not been reaped; `usage` reaps it.
    fn finish(
        self,
        pid: i32,
        usage: impl FnOnce() -> Result<ProgramUsage, LaunchError>,
    ) -> Result<ProgramUsage, LaunchError> {
        let run_delay_ns = self.run_delay.and_then(|sampler| sampler.finish(pid));
        let usage = usage()?;
        let memory = self.memory.and_then(|sampler| sampler.finish(usage.wall_ns));
        Ok(ProgramUsage { memory, run_delay_ns, ..usage })
    }

    /// Takes the samples that are due.
    fn look(&mut self, tree: &mut ProcessTree, now: Nanos) {
        if let Some(memory) = &mut self.memory {
            memory.look(tree, now);
        }
        if let Some(run_delay) = &mut self.run_delay {
            run_delay.look(tree, now);
        }
    }

    /// When the next sample is due.
    fn due(&self) -> Option<Nanos> {
        let memory = self.memory.as_ref().map(MemorySampler::due);
        memory.into_iter().chain(self.run_delay.as_ref().map(DelaySampler::due)).min()
    }
}

/// What supervises a run.
struct RunSupervision<'a> {
    running: &'a RunningProgram,
    tree: ProcessTree,
    except: &'a ExceptedChildren,
    ends: &'a ChildEnds,
    stop: Option<BorrowedFd<'a>>,
}

impl RunSupervision<'_> {
    /// Waits for the end of the program, until a limit is broken or `stop` becomes readable.
    fn supervise(
        &mut self,
        watchers: &mut [ScheduledWatcher],
        limits: &mut LimitMonitor,
        samplers: &mut RunSamplers,
    ) -> WaitEnd {
        let running = self.running;
        let since_start = || Nanos::from(running.started().elapsed());
        let clocks =
            WatchClocks { since_start: &since_start, cpu: &pagewise_kernel::clock::thread_cpu };
        loop {
            let watch_due = tick(watchers, &mut self.tree, &clocks);
            if limits.look(&mut self.tree, since_start()) {
                return WaitEnd::Limit;
            }
            samplers.look(&mut self.tree, since_start());
            let due = [watch_due, limits.due(), samplers.due()].into_iter().flatten().min();
            let timeout = due.map(|due| Nanos(due.0.saturating_sub(since_start().0)));
            let fds =
                [Some(running.pidfd()), Some(self.ends.fd()), self.stop].into_iter().flatten();
            let mut fds: Vec<_> =
                fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            wait::sleep(&mut fds, timeout);
            let wall = since_start();
            let is_ready = |index: usize| fds.get(index).is_some_and(|fd| !fd.revents().is_empty());
            if is_ready(0) {
                return WaitEnd::Seen(wall);
            }
            if is_ready(2) {
                return WaitEnd::Told;
            }
            if is_ready(1) {
                self.ends.take();
                descendants::reap_ended(self.except);
            }
        }
    }
}

/// Counters of huge pages for the whole machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HugeCounts {
    /// Huge pages allocated by faults.
    pub(crate) faults: u64,
    /// Small folios allocated by faults.
    pub(crate) folios: u64,
    /// File mappings by one huge-page entry.
    pub(crate) file_maps: u64,
}

impl HugeCounts {
    /// Reads the counters; one that is missing is 0.
    pub(crate) fn now() -> Self {
        let counts = vmstat::read().ok();
        let count = |name| counts.as_ref().and_then(|counts| counts.get(name)).unwrap_or(0);
        let folios = thp::folio_faults(SmallFolios::SIZE).unwrap_or(0);
        Self { faults: count("thp_fault_alloc"), folios, file_maps: count("thp_file_mapped") }
    }

    /// Difference since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            faults: self.faults.saturating_sub(before.faults),
            folios: self.folios.saturating_sub(before.folios),
            file_maps: self.file_maps.saturating_sub(before.file_maps),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    struct Every {
        step: u64,
        calls: u64,
    }

    impl RunWatcher for Every {
        fn name(&self) -> &str {
            "every"
        }
        fn tick(&mut self, _tree: &ProcessTree, now: Nanos) -> Option<Nanos> {
            self.calls += 1;
            (self.calls < 3).then(|| now + Nanos(self.step))
        }
        fn finish(&mut self) -> WatchReport {
            WatchReport { watch: "every".into(), counter: self.calls, ..WatchReport::default() }
        }
    }

    #[test]
    fn watchers_are_called_when_due_and_not_before() {
        let mut tree = ProcessTree::new(1, []);
        let scheduled = |step| ScheduledWatcher::at_once(Box::new(Every { step, calls: 0 }));
        let mut all = [scheduled(10), scheduled(25)];
        let mut at = |now| {
            let clocks = WatchClocks { since_start: &|| Nanos(now), cpu: &|| Nanos(0) };
            tick(&mut all, &mut tree, &clocks)
        };
        assert_eq!(at(0), Some(Nanos(10)));
        assert_eq!(at(5), Some(Nanos(10)));
        assert_eq!(at(10), Some(Nanos(20)));
        assert_eq!(at(30), Some(Nanos(55)));
        assert_eq!(at(60), None);
        let counts: Vec<u64> = all.iter_mut().map(|w| w.watcher.finish().counter).collect();
        assert_eq!(counts, [3, 3]);
    }

    /// Asks for a look every 5 ms, and each look takes 2 ms of the shared CPU time.
    struct Slow(Rc<Cell<Nanos>>);

    impl RunWatcher for Slow {
        fn name(&self) -> &str {
            "slow"
        }
        fn tick(&mut self, _tree: &ProcessTree, now: Nanos) -> Option<Nanos> {
            self.0.set(self.0.get() + Nanos::millis(2));
            Some(now + Nanos::millis(5))
        }
        fn finish(&mut self) -> WatchReport {
            WatchReport::default()
        }
    }

    #[test]
    fn a_slow_look_is_followed_by_a_long_rest() {
        let clock = Rc::new(Cell::new(Nanos(0)));
        let mut tree = ProcessTree::new(1, []);
        let mut all = [ScheduledWatcher::at_once(Box::new(Slow(clock.clone())))];
        let mut at = |now: Nanos| {
            let clocks = WatchClocks { since_start: &|| now, cpu: &|| clock.get() };
            tick(&mut all, &mut tree, &clocks)
        };
        assert_eq!(at(Nanos(0)), Some(Nanos::millis(5)), "the program starts up");
        assert_eq!(at(Nanos::millis(19)), Some(Nanos::millis(24)));
        let start = Nanos::secs(1);
        assert_eq!(at(start), Some(start + Nanos::millis(20 * 2)));
    }
}
