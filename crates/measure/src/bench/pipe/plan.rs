//! What a ladder will measure, and how long it takes. Shown before anything starts.

use crate::bench::frame::BenchCost;
use crate::error::PriceError;
use pagewise_kernel::{affinity, limits, page_size, topology};
use pagewise_model::bench::pipe::{CpuPlacement, PipeConsumption, PipeRung, RungSwitch};
use pagewise_model::{Bytes, Nanos};

/// Bytes of the small repeat that goes before.
pub(super) const PILOT: Bytes = Bytes::mib(32);
/// Fewest bytes of a repeat that is sized by time.
pub(super) const FEWEST: Bytes = Bytes::mib(16);
/// Most bytes of such a repeat.
pub(super) const MOST: Bytes = Bytes::gib(32);
/// Time of a pair outside the clock: two processes, their buffers, a file's window.
const START: Nanos = Nanos::millis(15);
/// Time of one round of yardsticks.
const YARDSTICKS: Nanos = Nanos::millis(120);
/// Rate for estimates if no rate is known: that of a slow pipe.
const SLOW_BYTES_PER_S: u64 = 1 << 30;
/// A pair that has not ended after this time plus the time for its bytes is stuck.
const STUCK: Nanos = Nanos::secs(30);
/// Buffers and files of one pair in addition to those of the rung.
const OTHERWISE: Bytes = Bytes::mib(48);
const YARDSTICK_MEMORY: Bytes = Bytes::mib(130);

/// The measurements to make.
#[derive(Debug, Clone)]
pub struct PipePlan {
    /// The points, in display order.
    pub points: Vec<(PipeRung, PipeConsumption)>,
    /// Fresh pairs of each point.
    pub repeats: u32,
    /// Bytes of each repeat. `None` lets each point move as much as fills `repeat_ns`.
    pub bytes: Option<Bytes>,
    /// Time of a repeat, if no number of bytes is given.
    pub repeat_ns: Nanos,
    /// Seed of the order, for the record.
    pub seed: u64,
    /// The points are a grid over sizes.
    pub sweep: bool,
    /// The points are pairs, without and with this switch.
    pub compared: Option<RungSwitch>,
}

impl PipePlan {
    /// What the plan costs, if it may start.
    ///
    /// # Errors
    /// If there is nothing to measure, or not enough memory.
    pub fn cost(&self) -> Result<BenchCost, PriceError> {
        let largest = self.points.iter().map(|(rung, _)| rung.buffer_bytes).max();
        let largest =
            largest.ok_or_else(|| PriceError::Unavailable("no points to measure".to_owned()))?;
        // Two buffers of the producer, one of the consumer, each rounded up to huge pages.
        let rounded = largest.0.saturating_add(page_size::huge().bytes());
        let pair = Bytes(rounded.saturating_mul(3)) + OTHERWISE;
        let memory_bytes = pair.max(YARDSTICK_MEMORY);
        let allowed = limits::experiment_memory()?.bytes;
        if memory_bytes > allowed {
            return Err(PriceError::Unavailable(format!(
                "buffers of {memory_bytes} exceed the memory available to an experiment ({allowed})"
            )));
        }
        let points = self.points.len() as u64;
        let repeats = points * u64::from(self.repeats);
        let pairs = points + repeats;
        let one = self.bytes.map_or(self.repeat_ns, at_slow_rate);
        let pilots = Nanos(at_slow_rate(self.pilot()).0 / 2);
        let about = repeats.saturating_mul(one.0 + START.0)
            + points * (pilots.0 + START.0)
            + u64::from(self.repeats) * YARDSTICKS.0;
        let cap_ns = Nanos(about.saturating_mul(2)) + STUCK + STUCK;
        Ok(BenchCost { points, samples: pairs, about_ns: Nanos(about), cap_ns, memory_bytes })
    }

    /// Bytes of the small repeat that goes before.
    pub(super) fn pilot(&self) -> Bytes {
        self.bytes.map_or(PILOT, |bytes| bytes.min(PILOT))
    }

    /// Bytes of a repeat of a point that moved `rate` bytes a second in its pilot.
    pub(super) fn size(&self, rung: &PipeRung, rate: f64) -> Bytes {
        if let Some(bytes) = self.bytes {
            return bytes;
        }
        let wanted = Bytes((rate * self.repeat_ns.as_secs()) as u64);
        let unit = rung.buffer_bytes.0.max(1);
        // Whole buffers: the last call is like the others.
        let whole = wanted.clamp(FEWEST, MOST).0.checked_next_multiple_of(unit);
        Bytes(whole.unwrap_or(MOST.0))
    }

    /// How long one pair for `bytes` may take before it counts as stuck. Far longer than on a busy machine,
    /// and a fiftieth of a slow rate, because spinning may keep the other end off its CPU.
    pub(super) fn patience(bytes: Bytes) -> Nanos {
        STUCK + Nanos(at_slow_rate(bytes).0.saturating_mul(50))
    }
}

fn at_slow_rate(bytes: Bytes) -> Nanos {
    Nanos::from_f64(bytes.0 as f64 / SLOW_BYTES_PER_S as f64 * 1e9)
}

// CPUs for the two processes.

/// Where producer and consumer run. `None` if the scheduler chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PipeSeats {
    pub(super) writer: Option<u32>,
    pub(super) reader: Option<u32>,
}

/// CPUs that we may use, each with the first hardware thread of its core.
#[derive(Debug, Clone)]
pub(super) struct AllowedCpus(Vec<(u32, u32)>);

impl AllowedCpus {
    /// The CPUs of this process. A core that the kernel does not report is assumed to have one thread.
    pub(super) fn allowed() -> Self {
        let cpus = affinity::get(0).unwrap_or_default();
        let core = |cpu| topology::siblings(cpu).ok().and_then(|s| s.first().copied());
        Self(cpus.into_iter().map(|cpu| (cpu, core(cpu).unwrap_or(cpu))).collect())
    }

    /// The first CPU.
    pub(super) fn first(&self) -> Option<u32> {
        self.0.first().map(|(cpu, _)| *cpu)
    }

    /// Seats for a placement, or why there are none.
    pub(super) fn seats(&self, placement: CpuPlacement) -> Result<PipeSeats, String> {
        let pinned = |writer, reader| PipeSeats { writer: Some(writer), reader: Some(reader) };
        let (first, core) = *self.0.first().ok_or("no CPU is available")?;
        let partner = |same: bool| {
            let others = self.0.iter().skip(1);
            others.filter(|(_, c)| (*c == core) == same).map(|(cpu, _)| *cpu).next()
        };
        match placement {
            CpuPlacement::Free => Ok(PipeSeats { writer: None, reader: None }),
            CpuPlacement::SameCore => Ok(pinned(first, first)),
            CpuPlacement::TwoCores => partner(false)
                .map(|second| pinned(first, second))
                .ok_or_else(|| "only one core may be used here".to_owned()),
            CpuPlacement::Siblings => partner(true)
                .map(|second| pinned(first, second))
                .ok_or_else(|| "the first core has only one hardware thread".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_by_cores() {
        let two_threads = AllowedCpus(vec![(2, 2), (3, 2), (4, 4), (5, 4)]);
        let seats = |placement| two_threads.seats(placement).map(|s| (s.writer, s.reader));
        assert_eq!(seats(CpuPlacement::SameCore), Ok((Some(2), Some(2))));
        assert_eq!(seats(CpuPlacement::Siblings), Ok((Some(2), Some(3))));
        assert_eq!(seats(CpuPlacement::TwoCores), Ok((Some(2), Some(4))));
        assert_eq!(seats(CpuPlacement::Free), Ok((None, None)));
        let single = AllowedCpus(vec![(0, 0), (1, 1)]);
        assert!(single.seats(CpuPlacement::Siblings).is_err());
        assert!(AllowedCpus(vec![(0, 0)]).seats(CpuPlacement::TwoCores).is_err());
        assert!(AllowedCpus(Vec::new()).seats(CpuPlacement::SameCore).is_err());
    }
}
