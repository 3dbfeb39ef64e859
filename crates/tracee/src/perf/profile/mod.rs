//! Samples of the CPU clock of a tree, with the stacks of kernel and program.
//!
//! This extends [`super::sampling`] by data about each sample: the name of the process, its callers as far as
//! frame pointers lead (PERF_SAMPLE_CALLCHAIN), and the file that each piece of code came from
//! (PERF_RECORD_MMAP2). All events write into one ring per CPU, which a thread empties (`drainer`). They are
//! processed in the order of their times, so that a name is the one at that moment.
//!
//! A program is followed from its exec on, or running processes from now on, without stopping them. Every
//! thread gets its own events. Threads made meanwhile inherit them or are found by listing again
//! (`perf::running`). The clock is found by trying:
//!
//! - **of each CPU** ([`SamplingClock::Cpus`]): it samples whatever runs on the CPU, and samples of other programs are
//!   dropped (`kin`). The threads' own events report only names and mappings. For root, CAP_PERFMON, or with
//!   `kernel.perf_event_paranoid` at 0 or below.
//! - **of each task** ([`SamplingClock::Tasks`]), with the rights of [`super::sampling`]. It starts with its task, not
//!   in step with its parent's (kernel/events/core.c, `perf_swevent_start_hrtimer`), and ends before the task
//!   releases its memory (kernel/exit.c, `do_exit`). So the first period of each process and thread is not
//!   seen, which is counted, nor is most of exit.
//!
//! With a [`Walker`], the innermost part of each stack is copied instead and walked by the tables of its
//! files. This uses the clock of each task, so that no other program's memory is copied.
//!
//! Not seen: without a walker, callers in programs built without frame pointers, beyond the innermost
//! function; children of a running process that this account may not observe, and their descendants.
//!
//! Overhead: about 2-5 us per sample, 0.5-1% of CPU time; 10-20 us if stacks are copied. Clocks of whole CPUs
//! cause it on all CPUs, for every program there. Their lost samples may have been of other programs.

mod counts;
mod kin;
mod record;
mod running;

use super::drainer::{DRAIN_EVERY, DRAIN_SOON, RingCollector, RingDrainer};
use super::event;
use super::merge::RingMerge;
use super::rings::CpuRings;
use super::sampling::{PERIOD_NS, RING_BYTES, refusal};
use super::streams::EVERYBODY;
use crate::mapped_file::MappedFiles;
use counts::ProfileCounts;
use pagewise_kernel::perf::bindings as b;
use pagewise_kernel::perf::perf_event_attr;
use pagewise_kernel::{SysError, clock};
use pagewise_model::fault::event::FrameRegisters;
use pagewise_model::profile::{SamplingClock, StackSamples};
use pagewise_model::{Fact, Nanos};
use record::{EventReceiver, ProfileEvent, ProfileRecord};
pub use running::profile_running;
use std::time::Duration;

/// Bytes of each stack that are copied for a walker.
const COPIED_BYTES: u32 = 8 << 10;
/// Wanted size of a ring for copied stacks.
const COPIED_RING_BYTES: usize = 4 << 20;

/// Walks copied stacks.
pub trait WalkStack: std::fmt::Debug + Send {
    /// The callers of a thread of process `pid` with these registers, of whose stack the innermost `bytes`
    /// were copied: its own address, then return addresses from the inside out. `code` says which code is
    /// mapped where.
    fn walk(
        &mut self,
        pid: i32,
        registers: &FrameRegisters,
        bytes: &[u8],
        code: FindCode<'_>,
    ) -> Vec<u64>;
}

/// The walker for the stacks of a profile.
pub type Walker = Box<dyn WalkStack>;

/// Finds the file (its name in [`MappedFiles`]) and the offset in it for the code at an address. The name is
/// empty for code without a file. `None` if there is no code.
pub type FindCode<'a> = &'a dyn Fn(u64) -> Option<(&'a str, u64)>;

/// A profile in progress.
#[derive(Debug)]
pub struct CpuClockProfiler(RingDrainer<ProfileCollector>);

impl CpuClockProfiler {
    /// Starts sampling `pid` from its exec on, or says why not. `walker`, if any, walks its stacks. Its code
    /// is opened in `files`.
    #[must_use]
    pub fn attach(pid: i32, files: &MappedFiles, walker: Option<Walker>) -> Fact<Self> {
        let walker = walker.filter(|_| cfg!(target_arch = "x86_64"));
        let events =
            if walker.is_some() { ClockEvents::of_stacks() } else { ClockEvents::open(true) };
        Self::follow(pid, events, files, walker, refusal)
    }

    /// Like [`CpuClockProfiler::attach`], without the kernel's part and by the clock of each task.
    #[must_use]
    pub fn attach_to_user_mode(pid: i32, files: &MappedFiles) -> Fact<Self> {
        Self::follow(pid, ClockEvents::of_user_mode(), files, None, refusal_in_user_mode)
    }

    fn follow(
        pid: i32,
        events: Result<ClockEvents, SysError>,
        files: &MappedFiles,
        walker: Option<Walker>,
        refusal: fn(&SysError) -> String,
    ) -> Fact<Self> {
        let events = events.and_then(|mut events| {
            events.add_thread(pid)?;
            Ok(events)
        });
        match events {
            Ok(events) => Self::start(events, Vec::new(), files, walker),
            Err(error) => Fact::Missing(refusal(&error)),
        }
    }

    /// Collects what `events` report; `before` is the state at the beginning.
    fn start(
        events: ClockEvents,
        before: Vec<ProfileRecord>,
        files: &MappedFiles,
        walker: Option<Walker>,
    ) -> Fact<Self> {
        let mut counts = ProfileCounts::new(events.clock, files.clone(), walker);
        for told in before {
            counts.take(ProfileEvent { at_ns: Nanos(0), told });
        }
        let merge = RingMerge::default();
        let collected = ProfileCollector { rings: events.rings, merge, ready: Vec::new(), counts };
        RingDrainer::start(collected).map(Self)
    }

    /// Stops sampling and names the stacks.
    #[must_use]
    pub fn finish(self) -> Fact<StackSamples> {
        self.0.finish(|collected, symbols| collected.counts.resolve(symbols, Nanos(PERIOD_NS)))
    }
}

/// The events. All their records are samples or side-band data.
#[derive(Debug)]
struct ClockEvents {
    rings: CpuRings<()>,
    /// Attributes of the event that each thread gets.
    attr: perf_event_attr,
    clock: SamplingClock,
}

impl ClockEvents {
    /// Opens the rings for a program to be executed, or for a running one. No thread has events yet.
    fn open(on_exec: bool) -> Result<Self, SysError> {
        Self::of_cpus(on_exec).or_else(|error| {
            let clock = SamplingClock::Tasks { why: of_cpus_refused(&error) };
            Ok(Self { rings: rings(on_exec)?, attr: task_clock(on_exec), clock })
        })
    }

    /// Uses clocks of whole CPUs, which run from now on.
    fn of_cpus(on_exec: bool) -> Result<Self, SysError> {
        let mut rings = rings(on_exec)?;
        rings.add_event((), &cpu_clock(), EVERYBODY)?;
        Ok(Self { rings, attr: names(on_exec), clock: SamplingClock::Cpus })
    }

    /// Copies the program's stacks, from its exec on.
    fn of_stacks() -> Result<Self, SysError> {
        let mut attr = task_clock(true);
        attr.set_exclude_callchain_user(1);
        event::copy_stacks(&mut attr, COPIED_BYTES);
        let rings = CpuRings::open(&event::online_cpus(), COPIED_RING_BYTES, RING_BYTES, false)?;
        let clock =
            SamplingClock::Tasks { why: "stacks are copied, of the program only".to_owned() };
        Ok(Self { rings, attr, clock })
    }

    /// Samples user mode only, from the exec on.
    fn of_user_mode() -> Result<Self, SysError> {
        let mut attr = task_clock(true);
        attr.set_exclude_kernel(1);
        attr.set_exclude_callchain_kernel(1);
        let clock = SamplingClock::Tasks { why: "only user mode was requested".to_owned() };
        Ok(Self { rings: rings(true)?, attr, clock })
    }

    /// Opens the events of thread `tid`, one on every CPU.
    fn add_thread(&mut self, tid: i32) -> Result<(), SysError> {
        self.rings.add_event((), &self.attr, tid)
    }
}

/// The rings and the events read from them.
#[derive(Debug)]
struct ProfileCollector {
    rings: CpuRings<()>,
    merge: RingMerge<ProfileEvent>,
    /// Events released by `merge`, not yet counted.
    ready: Vec<ProfileEvent>,
    counts: ProfileCounts,
}

impl RingCollector for ProfileCollector {
    fn pause(&self) -> Duration {
        if self.counts.walks() { DRAIN_SOON } else { DRAIN_EVERY }
    }

    fn collect(&mut self, last: bool) {
        self.merge.begin_round(clock::now());
        let (merge, counts) = (&mut self.merge, &mut self.counts);
        self.rings.drain(|ring, bytes, streams| {
            record::parse(bytes, streams, &mut RingReceiver { ring, merge, counts });
        });
        if last {
            self.counts.found_lost(self.rings.lost());
            self.merge.end();
        }
        self.merge.release(&mut self.ready, usize::MAX);
        self.ready.drain(..).for_each(|event| self.counts.take(event));
    }
}

/// Receives the events of one ring.
struct RingReceiver<'a> {
    ring: usize,
    merge: &'a mut RingMerge<ProfileEvent>,
    counts: &'a mut ProfileCounts,
}

impl EventReceiver for RingReceiver<'_> {
    fn wants(&self, pid: i32) -> bool {
        self.counts.may_count(pid)
    }

    fn take(&mut self, event: ProfileEvent) {
        if let ProfileRecord::Fork { pid, .. } = event.told {
            self.counts.expect(pid);
        }
        self.merge.add(self.ring, event);
    }
}

fn rings(on_exec: bool) -> Result<CpuRings<()>, SysError> {
    CpuRings::open(&event::online_cpus(), RING_BYTES, RING_BYTES, !on_exec)
}

/// Why user mode cannot be sampled.
fn refusal_in_user_mode(error: &SysError) -> String {
    match error.errno() {
        Some(libc::EACCES | libc::EPERM) => "this account may not take CPU samples; \
            `sysctl kernel.perf_event_paranoid=2` or CAP_PERFMON allows user-mode samples"
            .to_owned(),
        _ => refusal(error),
    }
}

/// Why clocks of whole CPUs are not available.
fn of_cpus_refused(error: &SysError) -> String {
    match error.errno() {
        Some(libc::EACCES | libc::EPERM) => {
            "sampling whole CPUs needs root, CAP_PERFMON, or `sysctl kernel.perf_event_paranoid=0`"
                .to_owned()
        }
        _ => format!("cannot sample whole CPUs: {error}"),
    }
}

/// The clock of a task. It also reports names and mappings of its process.
fn task_clock(on_exec: bool) -> perf_event_attr {
    let mut attr = clock(on_exec);
    event::tell_of_processes(&mut attr);
    attr
}

/// The clock of a CPU while it is not idle. It also reports all forks and exits there.
fn cpu_clock() -> perf_event_attr {
    let mut attr = clock(false);
    attr.set_inherit(0);
    attr.set_exclude_idle(1);
    attr.set_task(1);
    attr
}

/// Not a clock: reports the name and the mappings of a task's process.
fn names(on_exec: bool) -> perf_event_attr {
    let nothing = u64::from(b::PERF_COUNT_SW_DUMMY);
    let mut attr = event::followed(b::PERF_TYPE_SOFTWARE, nothing, on_exec);
    attr.sample_type =
        u64::from(b::PERF_SAMPLE_IDENTIFIER | b::PERF_SAMPLE_TID | b::PERF_SAMPLE_TIME);
    event::tell_of_processes(&mut attr);
    attr
}

fn clock(on_exec: bool) -> perf_event_attr {
    let clock = u64::from(b::PERF_COUNT_SW_CPU_CLOCK);
    let mut attr = event::followed(b::PERF_TYPE_SOFTWARE, clock, on_exec);
    attr.__bindgen_anon_1.sample_period = PERIOD_NS;
    attr.sample_type = u64::from(
        b::PERF_SAMPLE_IDENTIFIER
            | b::PERF_SAMPLE_IP
            | b::PERF_SAMPLE_TID
            | b::PERF_SAMPLE_TIME
            | b::PERF_SAMPLE_CALLCHAIN,
    );
    attr.set_exclude_kernel(0);
    attr
}
