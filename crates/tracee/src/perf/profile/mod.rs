//! Samples of the CPU clock over a tree, with the stacks of kernel and program.
//!
//! What [`super::sampling`] counts, with more about each sample: the process by its name, its own callers
//! as far as frame pointers lead (PERF_SAMPLE_CALLCHAIN), and which file each piece of code came from
//! (PERF_RECORD_MMAP2). All events write into one ring per CPU, emptied by a thread (`drainer`), and are
//! taken in the order of their times, so that a name is that of its moment.
//!
//! A program is followed from its exec on, or processes that run already from now on, without stopping
//! them: every thread gets its own events, those made meanwhile inherit them or are found by listing
//! again (`perf::running`). Rights are those of [`super::sampling`].
//!
//! Not seen: callers in programs built without frame pointers, beyond the innermost function; the first
//! period of each process and thread (the clock of an inherited event starts with its task, not in step
//! with its parent's: kernel/events/core.c, `perf_swevent_start_hrtimer`), which is counted; what a task releases at
//! its exit, before which its events end (kernel/exit.c); children
//! of a running process that this account may not observe, and what they make. Overhead: about
//! 2-5 us a sample, 0.5-1% of CPU time.

mod counts;
mod course;
mod record;
mod running;
mod spaces;

use super::drainer::{Collect, Drainer};
use super::event;
use super::merge::Merge;
use super::rings::Rings;
use super::sampling::{PERIOD_NS, RING_BYTES, refusal};
use counts::Counts;
pub use course::profile_running;
use pagewise_kernel::perf::bindings as b;
use pagewise_kernel::perf::perf_event_attr;
use pagewise_kernel::{SysError, clock};
use pagewise_model::profile::StackSamples;
use pagewise_model::{Fact, Nanos};
use record::{Event, Told};

/// A profile under way.
#[derive(Debug)]
pub struct Profiling(Drainer<Collected>);

impl Profiling {
    /// Starts sampling `pid` from its exec on, or says why not.
    #[must_use]
    pub fn attach(pid: i32) -> Fact<Self> {
        let events = Events::open(true).and_then(|mut events| {
            events.add_thread(pid)?;
            Ok(events)
        });
        match events {
            Ok(events) => Self::start(events, Vec::new()),
            Err(error) => Fact::Missing(refusal(&error)),
        }
    }

    /// Collects what `events` tell; `before` is what holds at the beginning.
    fn start(events: Events, before: Vec<Told>) -> Fact<Self> {
        let mut counts = Counts::default();
        for told in before {
            counts.take(Event { at_ns: Nanos(0), told });
        }
        let merge = Merge::default();
        let collected = Collected { rings: events.rings, merge, ready: Vec::new(), counts };
        Drainer::start(collected).map(Self)
    }

    /// Stops and names what was seen.
    #[must_use]
    pub fn finish(self) -> Fact<StackSamples> {
        self.0.finish(|collected, symbols| collected.counts.resolve(symbols, Nanos(PERIOD_NS)))
    }
}

/// The events of the threads, which tell of nothing but samples.
#[derive(Debug)]
struct Events {
    rings: Rings<()>,
    attr: perf_event_attr,
}

impl Events {
    /// None yet, for a program that is to be executed or for one that runs.
    fn open(on_exec: bool) -> Result<Self, SysError> {
        let rings = Rings::open(&event::online_cpus(), RING_BYTES, RING_BYTES, !on_exec)?;
        Ok(Self { rings, attr: attributes(on_exec) })
    }

    /// Opens the events of thread `tid`, one on every CPU.
    fn add_thread(&mut self, tid: i32) -> Result<(), SysError> {
        self.rings.add_event((), &self.attr, tid)
    }
}

/// The rings and what was in them.
#[derive(Debug)]
struct Collected {
    rings: Rings<()>,
    merge: Merge<Event>,
    /// Events on their way from the one to the other.
    ready: Vec<Event>,
    counts: Counts,
}

impl Collect for Collected {
    fn collect(&mut self, last: bool) {
        self.merge.begin_round(clock::now());
        self.rings.drain(|number, bytes, streams| {
            record::parse(bytes, streams, &mut |event| self.merge.add(number, event));
        });
        if last {
            self.merge.end();
        }
        self.merge.release(&mut self.ready, usize::MAX);
        self.ready.drain(..).for_each(|event| self.counts.take(event));
    }
}

fn attributes(on_exec: bool) -> perf_event_attr {
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
    event::tell_of_processes(&mut attr);
    attr
}
