//! Samples of the CPU clock over a tree, with the stacks of kernel and program.
//!
//! What [`super::sampling`] counts, with more about each sample: the process by its name, its own callers
//! as far as frame pointers lead (PERF_SAMPLE_CALLCHAIN), and which file each piece of code came from
//! (PERF_RECORD_MMAP2). All events write into one ring per CPU, drained every [`DRAIN_EVERY`] by a
//! thread, and are taken in the order of their times, so that a name is that of its moment.
//!
//! A program is followed from its exec on, or processes that run already from now on, without stopping
//! them: every thread gets its own events, those made meanwhile inherit them or are found by listing
//! again (as `faults::running` does). Rights are those of [`super::sampling`].
//!
//! Not seen: callers in programs built without frame pointers, beyond the innermost function; children
//! of a running process that this account may not observe, and what they make. Overhead: about
//! 2-5 us a sample, 0.5-1% of CPU time.

mod counts;
mod course;
mod record;
mod running;
mod spaces;

use super::event;
use super::merge::Merge;
use super::ring::Ring;
use super::sampling::{DRAIN_EVERY, PERIOD_NS, RING_BYTES, refusal};
use counts::Counts;
pub use course::profile_running;
use pagewise_kernel::kallsyms::KernelSymbols;
use pagewise_kernel::perf::bindings as b;
use pagewise_kernel::perf::perf_event_attr;
use pagewise_kernel::{SysError, clock};
use pagewise_model::profile::StackSamples;
use pagewise_model::{Fact, Nanos};
use record::{Event, Streams, Told};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};

/// A profile under way.
#[derive(Debug)]
pub struct Profiling {
    symbols: KernelSymbols,
    stop: mpsc::Sender<()>,
    drainer: JoinHandle<Counts>,
}

impl Profiling {
    /// Starts sampling `pid` from its exec on, or says why not.
    #[must_use]
    pub fn attach(pid: i32) -> Fact<Self> {
        let rings = Rings::open(true).and_then(|mut rings| {
            rings.add_thread(pid)?;
            Ok(rings)
        });
        rings.map_or_else(
            |error| Fact::Missing(refusal(&error)),
            |rings| Self::start(rings, Vec::new()),
        )
    }

    /// Drains `rings`; `before` is what holds at the beginning.
    fn start(rings: Rings, before: Vec<Told>) -> Fact<Self> {
        let symbols = match KernelSymbols::read() {
            Ok(symbols) => symbols,
            Err(error) => return Fact::Missing(error.to_string()),
        };
        let (stop, stopped) = mpsc::channel();
        let spawned = thread::Builder::new()
            .name("perf-drain".to_owned())
            .spawn(move || rings.drain_until(before, &stopped));
        match spawned {
            Ok(drainer) => Fact::Known(Self { symbols, stop, drainer }),
            Err(error) => Fact::Missing(format!("start a thread for samples: {error}")),
        }
    }

    /// Stops and names what was seen.
    #[must_use]
    pub fn finish(self) -> Fact<StackSamples> {
        drop(self.stop);
        match self.drainer.join() {
            Ok(counts) => Fact::Known(counts.resolve(&self.symbols, Nanos(PERIOD_NS))),
            Err(_) => Fact::missing("the thread that collects samples died"),
        }
    }
}

/// One ring per online CPU, and the events that write into them.
#[derive(Debug)]
struct Rings {
    rings: Vec<(i32, Ring)>,
    events: Vec<OwnedFd>,
    streams: Streams,
    on_exec: bool,
}

impl Rings {
    /// Rings without events, for a program that is to be executed or for one that runs.
    fn open(on_exec: bool) -> Result<Self, SysError> {
        let mut rings = Vec::new();
        for cpu in event::online_cpus() {
            match Ring::open(&event::ring(RING_BYTES), 0, cpu, RING_BYTES) {
                Ok(ring) => rings.push((i32::try_from(cpu).unwrap_or(i32::MAX), ring)),
                // A CPU that has gone offline meanwhile.
                Err(error) if error.errno() == Some(libc::ENODEV) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self { rings, events: Vec::new(), streams: Streams::new(!on_exec), on_exec })
    }

    /// Opens the events of thread `tid`, one on every CPU.
    fn add_thread(&mut self, tid: i32) -> Result<(), SysError> {
        let attr = attributes(self.on_exec);
        for (cpu, ring) in &self.rings {
            match ring.open_event(&attr, tid, *cpu) {
                Ok((id, event)) => {
                    self.streams.add(id, (), tid);
                    self.events.push(event);
                }
                Err(error) if error.errno() == Some(libc::ENODEV) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Runs until the other end of `stopped` is dropped, then empties the rings a last time.
    fn drain_until(mut self, before: Vec<Told>, stopped: &mpsc::Receiver<()>) -> Counts {
        let mut counts = Counts::default();
        let mut merge = Merge::default();
        let mut events: Vec<Event> = Vec::new();
        for told in before {
            counts.take(Event { at_ns: Nanos(0), told });
        }
        loop {
            let last = stopped.recv_timeout(DRAIN_EVERY) != Err(RecvTimeoutError::Timeout);
            merge.begin_round(clock::now());
            for (number, (_, ring)) in self.rings.iter_mut().enumerate() {
                let (bytes, streams) = (ring.drain(), &mut self.streams);
                record::parse(bytes, streams, &mut |event| merge.add(number, event));
            }
            if last {
                merge.end();
            }
            merge.release(&mut events, usize::MAX);
            events.drain(..).for_each(|event| counts.take(event));
            if last {
                return counts;
            }
        }
    }
}

fn attributes(on_exec: bool) -> perf_event_attr {
    let mut attr = event::attributes(b::PERF_TYPE_SOFTWARE, u64::from(b::PERF_COUNT_SW_CPU_CLOCK));
    attr.__bindgen_anon_1.sample_period = PERIOD_NS;
    attr.sample_type = u64::from(
        b::PERF_SAMPLE_IDENTIFIER
            | b::PERF_SAMPLE_IP
            | b::PERF_SAMPLE_TID
            | b::PERF_SAMPLE_TIME
            | b::PERF_SAMPLE_CALLCHAIN,
    );
    if !on_exec {
        attr.set_enable_on_exec(0);
        attr.set_disabled(0);
    }
    attr.set_exclude_kernel(0);
    attr.set_use_clockid(1);
    attr.clockid = libc::CLOCK_MONOTONIC;
    attr.set_sample_id_all(1);
    attr.set_mmap(1);
    attr.set_mmap2(1);
    attr.set_comm(1);
    attr.set_comm_exec(1);
    attr.set_task(1);
    attr
}
