//! What a load from memory costs while a program runs, sampled beside it.
//!
//! Memory is shared with other programs, and in a guest with other guests: as they come and go, a load
//! takes longer or less, and with it the program. A thread of ours follows a list through a set that
//! caches do not hold, 300 loads every 8 ms (some 60 us, less than 1% of a CPU). It runs wherever the
//! scheduler puts it, mostly on a CPU that is idle, and its clock is its own CPU time: waiting for a CPU
//! is not latency. The figure of a run is the geometric mean.
//!
//! Not seen: what slows the processor and not memory, and the memory of another node than the thread's.
//! The program's own traffic is part of the figure.

use crate::cycle::link_lines;
use crate::error::PriceError;
use crate::kernels::list::List;
use pagewise_kernel::region::{Pages, Region};
use pagewise_kernel::{SysError, clock, topology};
use pagewise_model::Bytes;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Loads of a sample.
const LOADS: u64 = 300;
/// Time from one sample to the next.
const EVERY: Duration = Duration::from_millis(8);
/// The set is twice the largest cache, within these.
const LEAST_SET: Bytes = Bytes::mib(64);
const MOST_SET: Bytes = Bytes::mib(256);
/// Share of the room for experiments that the set may take.
const SHARE: u64 = 8;

/// A thread that samples when asked to.
#[derive(Debug)]
pub struct Latency {
    /// Begins a run, and ends it.
    turns: Sender<()>,
    figures: Receiver<Option<f64>>,
}

impl Latency {
    /// Starts the thread, in `room` for experiments.
    ///
    /// # Errors
    /// Where there is not memory enough.
    pub fn start(room: Bytes) -> Result<Self, PriceError> {
        let set = set_bytes();
        if set.0 > room.0 / SHARE {
            return Err(PriceError::Unavailable(format!("{set} of memory are too much here")));
        }
        let mut region = Region::new(set, Pages::Huge)?;
        region.populate()?;
        let list = link_lines(region);
        let (turns, asked) = channel();
        let (answers, figures) = channel();
        std::thread::Builder::new()
            .name("latency".to_owned())
            .spawn(move || serve(&list, &asked, &answers))
            .map_err(|e| SysError::new("clone", "a thread", e))?;
        Ok(Self { turns, figures })
    }

    /// Does `work`; time of a load meanwhile in ns, where it could be sampled.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> (T, Option<f64>) {
        let begun = self.turns.send(());
        let done = work();
        let ended = begun.and_then(|()| self.turns.send(()));
        (done, ended.ok().and_then(|()| self.figures.recv().ok()).flatten())
    }
}

/// Twice the largest cache of the first CPU, as a power of two.
fn set_bytes() -> Bytes {
    let caches = topology::data_caches(0).unwrap_or_default();
    let largest = caches.last().map_or(0, |(_, size)| size.0);
    let set = largest.saturating_mul(2).clamp(LEAST_SET.0, MOST_SET.0);
    Bytes(set.next_power_of_two())
}

/// Samples between each two turns until nobody asks any more.
fn serve(list: &List, turns: &Receiver<()>, figures: &Sender<Option<f64>>) {
    let mut at = 0;
    while turns.recv().is_ok() {
        let (mut sum, mut samples) = (0.0, 0_u32);
        loop {
            let begun = clock::thread_cpu();
            let Some(next) = list.walk(at, LOADS) else { return };
            let took = clock::thread_cpu().0.saturating_sub(begun.0);
            at = next;
            sum += (took.max(1) as f64 / LOADS as f64).ln();
            samples += 1;
            match turns.recv_timeout(EVERY) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        if figures.send(Some((sum / f64::from(samples)).exp())).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_takes_as_long_as_memory_needs() {
        let latency = Latency::start(Bytes::gib(16)).expect("memory");
        for _ in 0..2 {
            let (slept, load) = latency.during(|| std::thread::sleep(Duration::from_millis(60)));
            let load = load.expect("a figure");
            assert!((1.0..5000.0).contains(&load), "{load} ns");
            assert_eq!(slept, ());
        }
    }

    #[test]
    fn a_small_machine_goes_without() {
        let error = Latency::start(Bytes::mib(64)).expect_err("too much");
        assert!(error.to_string().contains("too much here"));
    }
}
