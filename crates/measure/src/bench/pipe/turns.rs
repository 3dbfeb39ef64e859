//! A pipe that is filled and emptied in turn, so that no side waits for room or data: by one thread, or by
//! two on separate CPUs, of which one is always idle.
//!
//! Each turn is timed by the CPU time of its thread, so that other load is excluded. This adds one system
//! call to a turn of some hundred slots, the same with one thread and with two. The idle thread spins on a
//! number in memory, not on the pipe. Or it checks the number between naps, so that its CPU is idle for as
//! long as that of an end that sleeps. None of that is timed.

use super::end::{failed, length};
use crate::error::PriceError;
use crate::sample::time_cpu;
use pagewise_kernel::{SysError, affinity, pipe};
use pagewise_model::measured::median;
use pagewise_model::{Bytes, Nanos};
use rustix::pipe::SpliceFlags;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Capacity wanted of a pipe that is to hold much.
pub(crate) const CAPACITY: Bytes = Bytes::mib(1);
/// Bytes per read, if bytes are read.
const READ: usize = 256 << 10;
/// Repeats of a price, and fillings of the pipe in each.
const REPEATS: usize = 7;
const FILLINGS: usize = 32;

/// A pipe with an outlet whose data is discarded.
pub(crate) struct PipeLoop {
    pub(crate) reader: OwnedFd,
    pub(crate) writer: OwnedFd,
    pub(crate) capacity: usize,
    out: LoopOutlet,
}

/// Where the bytes go.
enum LoopOutlet {
    Null(File),
    Memory(Mutex<Vec<u8>>),
}

/// A thread that empties.
#[derive(Debug, Clone, Copy)]
pub(super) struct EmptyingThread {
    pub(super) cpu: u32,
    /// Whether who looks on sleeps meanwhile, so that its CPU is idle.
    pub(super) sleeps: bool,
}

/// The cost of a filling.
pub(super) struct FillingCost {
    pub(super) bytes: usize,
    pub(super) slots: u64,
    /// Time spent making the bytes. It does not count as filling.
    pub(super) own: Nanos,
}

impl FillingCost {
    /// Of bytes that were there.
    pub(super) fn of_bytes(bytes: usize, slots: u64) -> Self {
        Self { bytes, slots, own: Nanos(0) }
    }
}

type Filled = Result<FillingCost, PriceError>;

impl PipeLoop {
    /// Emptied by reference. The pipe is set to `capacity` if permitted.
    pub(crate) fn into_null(capacity: Bytes) -> Result<Self, PriceError> {
        let null = File::options().write(true).open("/dev/null");
        Self::new(
            capacity,
            LoopOutlet::Null(null.map_err(|e| SysError::new("open", "/dev/null", e))?),
        )
    }

    /// Emptied by reading.
    pub(super) fn into_memory(capacity: Bytes) -> Result<Self, PriceError> {
        Self::new(capacity, LoopOutlet::Memory(Mutex::new(vec![0; READ])))
    }

    fn new(capacity: Bytes, out: LoopOutlet) -> Result<Self, PriceError> {
        let (reader, writer) = pipe::pipe()?;
        // Beyond the user's limits, the pipe keeps its size.
        let held = pipe::set_capacity(&writer, capacity).or_else(|_| pipe::capacity(&writer))?;
        Ok(Self { reader, writer, capacity: length(held)?, out })
    }

    /// Empties the pipe of `bytes` bytes. Returns the CPU time, in nanoseconds.
    pub(crate) fn empty(&self, bytes: usize) -> Result<f64, PriceError> {
        let (ns, done) = time_cpu(|| self.take_out(bytes));
        done.map(|()| ns)
    }

    fn take_out(&self, mut left: usize) -> Result<(), PriceError> {
        while left > 0 {
            left -= match &self.out {
                LoopOutlet::Null(null) => {
                    let now = SpliceFlags::NONBLOCK;
                    let moved = rustix::pipe::splice(&self.reader, None, null, None, left, now);
                    moved.map_err(failed("splice"))?
                }
                LoopOutlet::Memory(into) => {
                    let mut into = into.lock().unwrap_or_else(PoisonError::into_inner);
                    rustix::io::read(&self.reader, &mut into[..]).map_err(failed("read"))?
                }
            };
        }
        Ok(())
    }

    /// Nanoseconds a slot of filling by `fill` and emptying, by another thread if one is given: the
    /// median.
    pub(super) fn price(
        &self,
        other: Option<EmptyingThread>,
        mut fill: impl FnMut(&Self) -> Filled,
    ) -> Result<f64, PriceError> {
        let fill = || fill(self);
        match other {
            None => in_turn(fill, |bytes| self.empty(bytes)),
            Some(other) => self.price_apart(other, fill),
        }
    }

    fn price_apart(
        &self,
        other: EmptyingThread,
        fill: impl FnMut() -> Filled,
    ) -> Result<f64, PriceError> {
        let baton = Baton { sleeps: other.sleeps, ..Baton::default() };
        std::thread::scope(|scope| {
            let emptying = scope.spawn(|| {
                let done = self.empty_on(other.cpu, &baton);
                baton.end();
                done
            });
            let ended = || PriceError::Unavailable("the other thread ended".to_owned());
            let price = in_turn(fill, |bytes| baton.pass(bytes).ok_or_else(ended));
            baton.end();
            match emptying.join() {
                Ok(done) => done.and(price),
                Err(_) => Err(PriceError::Unavailable("the other thread panicked".to_owned())),
            }
        })
    }

    fn empty_on(&self, cpu: u32, baton: &Baton) -> Result<(), PriceError> {
        affinity::set(0, &[cpu])?;
        while let Some(bytes) = baton.wait_for() {
            baton.give_back(self.empty(bytes)?);
        }
        Ok(())
    }
}

/// Nanoseconds per slot of filling and emptying in turn, the median over repeats. The first repeat warms up.
/// `empty` returns the time it took.
fn in_turn(
    mut fill: impl FnMut() -> Filled,
    mut empty: impl FnMut(usize) -> Result<f64, PriceError>,
) -> Result<f64, PriceError> {
    let mut values = Vec::with_capacity(REPEATS);
    for repeat in 0..=REPEATS {
        let (mut ns, mut slots) = (0.0, 0);
        for _ in 0..FILLINGS {
            let (filling_ns, filled) = time_cpu(&mut fill);
            let filled = filled?;
            let filling_ns = (filling_ns - filled.own.0 as f64).max(0.0);
            (ns, slots) = (ns + filling_ns + empty(filled.bytes)?, slots + filled.slots);
        }
        if repeat > 0 && slots > 0 {
            values.push(ns / slots as f64);
        }
    }
    median(&values).ok_or_else(|| PriceError::Unavailable("no slot was filled".to_owned()))
}

/// Says whose turn it is.
#[derive(Debug, Default)]
struct Baton {
    /// Bytes to empty: it is the emptying side's turn. 0: the filling side's turn. [`END`]: the end.
    bytes: AtomicUsize,
    /// Nanoseconds that the last emptying took.
    spent_ns: AtomicU64,
    sleeps: bool,
}

/// Sleep between two checks: about as long as the ends of a rung sleep.
const NAP: Duration = Duration::from_micros(20);

const END: usize = usize::MAX;

impl Baton {
    /// Lets the other side empty `bytes`, and waits; the nanoseconds it took, or none when that side
    /// has ended.
    fn pass(&self, bytes: usize) -> Option<f64> {
        // If it has ended meanwhile, that stays.
        self.bytes.compare_exchange(0, bytes, Ordering::AcqRel, Ordering::Acquire).ok()?;
        let is_back = self.spin_while(|now| now == bytes) == 0;
        is_back.then(|| self.spent_ns.load(Ordering::Acquire) as f64)
    }

    /// Waits for bytes to empty. `None` at the end.
    fn wait_for(&self) -> Option<usize> {
        Some(self.spin_while(|now| now == 0)).filter(|bytes| *bytes != END)
    }

    /// Reports that the bytes have been emptied in `ns` nanoseconds.
    fn give_back(&self, ns: f64) {
        self.spent_ns.store(ns as u64, Ordering::Release);
        // An end that was signalled meanwhile is kept.
        let _ended = self
            .bytes
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| (now != END).then_some(0));
    }

    fn end(&self) {
        self.bytes.store(END, Ordering::Release);
    }

    fn spin_while(&self, is_theirs: impl Fn(usize) -> bool) -> usize {
        loop {
            let now = self.bytes.load(Ordering::Acquire);
            if !is_theirs(now) {
                return now;
            }
            match self.sleeps {
                true => std::thread::sleep(NAP),
                false => std::hint::spin_loop(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::pipe::plan::AllowedCpus;
    use pagewise_model::bench::pipe::CpuPlacement;

    fn write(target: &PipeLoop) -> Filled {
        let content = [7; 8192];
        let bytes = rustix::io::write(&target.writer, &content).map_err(failed("write"))?;
        Ok(FillingCost::of_bytes(bytes, 2))
    }

    #[test]
    #[allow(clippy::print_stdout, reason = "a skipped test says so")]
    fn both_ways_out_have_a_price_on_one_core_and_on_two() {
        let other = AllowedCpus::allowed().seats(CpuPlacement::TwoCores).map(|seats| seats.reader);
        let cpus = match other {
            Ok(cpu) => vec![None, cpu],
            Err(why) => {
                println!("SKIP both_ways_out_have_a_price_on_two: {why}");
                vec![None]
            }
        };
        for target in
            [PipeLoop::into_null(CAPACITY).unwrap(), PipeLoop::into_memory(CAPACITY).unwrap()]
        {
            for cpu in &cpus {
                for sleeps in [false, true] {
                    let other = cpu.map(|cpu| EmptyingThread { cpu, sleeps });
                    assert!(target.price(other, write).unwrap() > 0.0);
                }
            }
        }
    }

    #[test]
    fn an_error_of_either_side_ends_both() {
        let target = PipeLoop::into_null(CAPACITY).unwrap();
        let cpu = AllowedCpus::allowed().first().unwrap();
        let refuse = |_: &PipeLoop| Err(PriceError::Unavailable("no".to_owned()));
        let other = Some(EmptyingThread { cpu, sleeps: false });
        assert_eq!(target.price(other, refuse).unwrap_err().to_string(), "no");
        // More is to be emptied than there is.
        let lie =
            |target: &PipeLoop| write(target).map(|took| FillingCost::of_bytes(took.bytes + 1, 2));
        let error = target.price(other, lie).unwrap_err().to_string();
        assert!(error.contains("splice"), "{error}");
    }
}
