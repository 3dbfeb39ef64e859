//! The speed of each CPU and of memory while a program runs, sampled beside it.
//!
//! A CPU shares its core, and memory its channels, with other programs, and in a guest with other guests. As
//! they come and go, a program takes longer or shorter. A thread of this process on each CPU wakes every 8 ms
//! and times two things: arithmetic in registers that fills the core's units (some 20 us), and dependent
//! loads from a set that caches do not hold (some 60 us). That is about 1% of a CPU. The clock is the
//! thread's own CPU time: waiting for a CPU is not slowness. A run's figures are the geometric means of each
//! CPU's, weighted by the time in which it was busy (`/proc/stat`).
//!
//! Not seen: which program kept a CPU busy, runs of less than two samples, CPUs beyond the first 64, and the
//! memory of nodes other than the set's. What the program itself does to core and memory is part of the
//! figures.

use crate::cycle::link_lines;
use crate::error::PriceError;
use crate::kernels::list::ChaseList;
use pagewise_kernel::proc::system_stat;
use pagewise_kernel::region::{MemoryRegion, RegionPages};
use pagewise_kernel::{SysError, affinity, clock, topology};
use pagewise_model::usage::MachineSpeed;
use pagewise_model::{Bytes, Nanos};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Rounds of arithmetic of a sample.
const ROUNDS: u64 = 6000;
/// Loads of a sample.
const LOADS: u64 = 300;
/// Time from one sample to the next.
const EVERY: Duration = Duration::from_millis(8);
/// A run with fewer samples has no figures.
const LEAST_SAMPLES: u32 = 2;
/// CPUs that are sampled.
const MOST_CPUS: usize = 64;
/// The set is twice the largest cache, within these.
const LEAST_SET: Bytes = Bytes::mib(64);
const MOST_SET: Bytes = Bytes::mib(256);
/// Share of the room for experiments that the set may take.
const SHARE: u64 = 8;

/// Threads that sample when asked to, one on each CPU.
#[derive(Debug)]
pub struct SpeedSamplers(Vec<SpeedSampler>);

#[derive(Debug)]
struct SpeedSampler {
    cpu: u32,
    /// Begins a run, and ends it.
    turns: Sender<()>,
    sums: Receiver<SpeedSums>,
}

/// Sums of logarithms of ns.
#[derive(Debug, Clone, Copy, Default)]
struct SpeedSums {
    samples: u32,
    round: f64,
    load: f64,
}

impl SpeedSamplers {
    /// Starts the threads. Takes memory from `room`, the room for experiments.
    ///
    /// # Errors
    /// If there is not enough memory, or a thread cannot be started.
    pub fn start(room: Bytes) -> Result<Self, PriceError> {
        let set = set_bytes();
        if set.0 > room.0 / SHARE {
            return Err(PriceError::Unavailable(format!("{set} of memory is too much here")));
        }
        let mut region = MemoryRegion::new(set, RegionPages::Huge)?;
        region.populate()?;
        let list = Arc::new(link_lines(region));
        let cpus = affinity::get(0)?;
        let samplers = cpus.into_iter().take(MOST_CPUS).map(|cpu| SpeedSampler::start(cpu, &list));
        Ok(Self(samplers.collect::<Result<_, _>>()?))
    }

    /// Does `work`. Also returns the speeds meanwhile, if they could be sampled.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> (T, Option<MachineSpeed>) {
        let before = system_stat::busy_by_cpu().unwrap_or_default();
        let begun = self.0.iter().all(|sampler| sampler.turns.send(()).is_ok());
        let done = work();
        let ended = begun && self.0.iter().all(|sampler| sampler.turns.send(()).is_ok());
        if !ended {
            return (done, None);
        }
        let sums: Vec<(u32, Option<SpeedSums>)> =
            self.0.iter().map(|sampler| (sampler.cpu, sampler.sums.recv().ok())).collect();
        let after = system_stat::busy_by_cpu().unwrap_or_default();
        (done, weighted(&sums, &before, &after))
    }
}

impl SpeedSampler {
    fn start(cpu: u32, list: &Arc<ChaseList>) -> Result<Self, PriceError> {
        let (turns, asked) = channel();
        let (answers, sums) = channel();
        let list = Arc::clone(list);
        std::thread::Builder::new()
            .name(format!("speed of CPU {cpu}"))
            .spawn(move || {
                if affinity::set(0, &[cpu]).is_ok() {
                    serve(&list, &asked, &answers);
                }
            })
            .map_err(|e| SysError::new("clone", "a thread", e))?;
        Ok(Self { cpu, turns, sums })
    }
}

/// Twice the largest cache of the first CPU, as a power of two.
fn set_bytes() -> Bytes {
    let caches = topology::data_caches(0).unwrap_or_default();
    let largest = caches.last().map_or(0, |(_, size)| size.0);
    let set = largest.saturating_mul(2).clamp(LEAST_SET.0, MOST_SET.0);
    Bytes(set.next_power_of_two())
}

/// Means over the CPUs, weighted by the time in which each was busy between the two readings.
fn weighted(
    sums: &[(u32, Option<SpeedSums>)],
    before: &BTreeMap<u32, Nanos>,
    after: &BTreeMap<u32, Nanos>,
) -> Option<MachineSpeed> {
    let (mut weight, mut round, mut load) = (0.0, 0.0, 0.0);
    for (cpu, sums) in sums {
        let sums = (*sums)?;
        let busy = after.get(cpu)?.0.saturating_sub(before.get(cpu)?.0) as f64;
        if busy > 0.0 && sums.samples >= LEAST_SAMPLES {
            weight += busy;
            round += busy * sums.round / f64::from(sums.samples);
            load += busy * sums.load / f64::from(sums.samples);
        }
    }
    (weight > 0.0)
        .then(|| MachineSpeed { round_ns: (round / weight).exp(), load_ns: (load / weight).exp() })
}

/// Samples between each two turns until the channel is closed.
fn serve(list: &ChaseList, turns: &Receiver<()>, sums: &Sender<SpeedSums>) {
    let mut at = 0;
    while turns.recv().is_ok() {
        let mut sum = SpeedSums::default();
        loop {
            match turns.recv_timeout(EVERY) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let begun = clock::thread_cpu();
            black_box(fill_units(black_box(ROUNDS)));
            let between = clock::thread_cpu();
            let Some(next) = list.walk(at, LOADS) else { return };
            let ended = clock::thread_cpu();
            at = next;
            sum.samples += 1;
            sum.round += log_each(begun, between, ROUNDS);
            sum.load += log_each(between, ended, LOADS);
        }
        if sums.send(sum).is_err() {
            return;
        }
    }
}

fn log_each(from: Nanos, to: Nanos, count: u64) -> f64 {
    (to.0.saturating_sub(from.0).max(1) as f64 / count as f64).ln()
}

/// Six independent chains: they need the core's units more than their latency.
fn fill_units(rounds: u64) -> u64 {
    let mut chains = [1_u64, 2, 3, 4, 5, 6];
    for round in 0..rounds {
        for chain in &mut chains {
            *chain = chain.wrapping_add(round).rotate_left(7) ^ round;
        }
    }
    chains.into_iter().fold(0, |all, chain| all ^ chain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_busy_cpu_has_a_speed() {
        let speeds = SpeedSamplers::start(Bytes::gib(16)).expect("memory");
        for _ in 0..2 {
            let busy = Instant::now();
            let (rounds, speed) = speeds.during(|| {
                let mut rounds = 0;
                while busy.elapsed() < Duration::from_millis(200) {
                    rounds += fill_units(black_box(100)) & 1;
                }
                rounds
            });
            let MachineSpeed { round_ns, load_ns } = speed.expect("a speed");
            assert!((0.01..1000.0).contains(&round_ns), "{round_ns} ns, {rounds}");
            assert!((1.0..5000.0).contains(&load_ns), "{load_ns} ns");
        }
    }

    #[test]
    fn means_are_weighted_by_busy_time_and_short_runs_have_none() {
        let sums = |samples, ns: f64| {
            let log = ns.ln() * f64::from(samples);
            Some(SpeedSums { samples, round: log, load: log })
        };
        let before = BTreeMap::from([(0, Nanos(0)), (1, Nanos(5))]);
        let after = BTreeMap::from([(0, Nanos(100)), (1, Nanos(105))]);
        let speed = weighted(&[(0, sums(4, 2.0)), (1, sums(9, 8.0))], &before, &after).unwrap();
        assert!((speed.round_ns - 4.0).abs() < 1e-9 && (speed.load_ns - 4.0).abs() < 1e-9);
        let idle = BTreeMap::from([(0, Nanos(100)), (1, Nanos(5))]);
        let speed = weighted(&[(0, sums(4, 2.0)), (1, sums(9, 8.0))], &before, &idle).unwrap();
        assert!((speed.round_ns - 2.0).abs() < 1e-9);
        assert_eq!(weighted(&[(0, sums(1, 2.0))], &before, &after), None);
        assert_eq!(weighted(&[(0, None)], &before, &after), None);
        assert_eq!(weighted(&[(7, sums(4, 2.0))], &before, &after), None);
    }

    #[test]
    fn a_small_machine_goes_without() {
        let error = SpeedSamplers::start(Bytes::mib(64)).expect_err("too much");
        assert!(error.to_string().contains("too much here"));
    }
}
