//! Memory bandwidth: every byte of a large buffer read, written, copied, by one CPU alone and by all
//! together, in GiB/s.
//!
//! Each thread has two buffers, on huge pages if available, larger than its share of the caches, and
//! processes them several times. All threads begin together. The total rate is their bytes over the time from
//! the first beginning to the last end. Not seen: memory of other NUMA nodes (each thread touches its own
//! buffers first, so they are local).

use crate::error::PriceError;
use crate::gate::{self, GatedThread};
use crate::stream::{StreamBuffers, rate};
use pagewise_kernel::{affinity, clock};
use pagewise_model::bench::tlb::{MemoryBandwidth, MemoryRates};
use pagewise_model::{Bytes, Fact, Measured, Nanos};

/// Most and least size of a buffer, and its unit.
const LARGEST: Bytes = Bytes::mib(64);
const SMALLEST: Bytes = Bytes::mib(8);
/// Passes over a buffer.
const PASSES: u64 = 3;
/// Kinds of work: read, write, copy.
const WORKS: usize = 3;
/// Time of one repeat with one thread, at a slow rate; more threads share the memory.
const ONCE: Nanos = Nanos::millis(120);

/// Approximate time of one repeat, with one CPU and with all.
pub(super) fn time(cpus: usize) -> Nanos {
    Nanos(ONCE.0 * (1 + cpus.min(8) as u64))
}

/// Memory of all buffers.
pub(super) fn memory(cpus: usize, most: Bytes) -> Bytes {
    buffer(cpus, most).map_or(Bytes(0), |each| Bytes(each.0 * 2 * cpus as u64))
}

/// Size of a buffer, if there is memory for two of each CPU.
fn buffer(cpus: usize, most: Bytes) -> Option<Bytes> {
    let each = Bytes(most.0 / (2 * cpus.max(1) as u64)).min(LARGEST);
    (each >= SMALLEST).then_some(each)
}

type Values = Result<Vec<[f64; WORKS]>, String>;

/// The repeats.
#[derive(Debug)]
pub(super) struct BandwidthRounds {
    cpus: Vec<u32>,
    buffer: Bytes,
    one: Values,
    all: Values,
}

impl BandwidthRounds {
    pub(super) fn new(cpus: &[u32], most: Bytes) -> Self {
        let buffer = buffer(cpus.len(), most);
        let (one, all) = match (buffer, cpus.len()) {
            (None, _) => {
                let why = "too little memory for buffers beyond the caches".to_owned();
                (Err(why.clone()), Err(why))
            }
            (Some(_), ..2) => (Ok(Vec::new()), Err("only one CPU may be used here".to_owned())),
            (Some(_), _) => (Ok(Vec::new()), Ok(Vec::new())),
        };
        Self { cpus: cpus.to_vec(), buffer: buffer.unwrap_or_default(), one, all }
    }

    /// Takes one repeat, with one CPU and with all.
    pub(super) fn step(&mut self) {
        let alone = self.cpus.get(..1).unwrap_or_default();
        step(&mut self.one, alone, self.buffer);
        step(&mut self.all, &self.cpus, self.buffer);
    }

    pub(super) fn finish(self) -> MemoryBandwidth {
        MemoryBandwidth {
            buffer_bytes: self.buffer,
            cpus: u32::try_from(self.cpus.len()).unwrap_or(u32::MAX),
            one: rates(self.one),
            all: rates(self.all),
        }
    }
}

fn step(values: &mut Values, cpus: &[u32], each: Bytes) {
    if let Ok(taken) = values {
        match together(cpus, each) {
            Ok(rates) => taken.push(rates),
            Err(error) => *values = Err(error.to_string()),
        }
    }
}

fn rates(values: Values) -> MemoryRates {
    let taken = match values {
        Err(why) => return MemoryRates::missing(&why),
        Ok(taken) => taken,
    };
    let of = |work: usize| {
        let values: Vec<f64> = taken.iter().map(|rates| rates[work]).collect();
        Measured::from_values(&values).map_or(Fact::missing("not measured"), Fact::Known)
    };
    MemoryRates { read_gib_per_s: of(0), write_gib_per_s: of(1), copy_gib_per_s: of(2) }
}

/// The rates of one thread on each of `cpus`, all at work at the same time.
fn together(cpus: &[u32], each: Bytes) -> Result<[f64; WORKS], PriceError> {
    let spans = gate::together(cpus.to_vec(), |cpu, at| work(cpu, each, at))?;
    let bytes = Bytes(each.0 * PASSES * cpus.len() as u64);
    Ok(std::array::from_fn(|work| {
        let begin = spans.iter().map(|span| span[work].0.0).min().unwrap_or(0);
        let end = spans.iter().map(|span| span[work].1.0).max().unwrap_or(0);
        rate(bytes, end.saturating_sub(begin).max(1) as f64)
    }))
}

/// Beginning and end of each kind of work.
type Spans = [(Nanos, Nanos); WORKS];

fn work(cpu: u32, each: Bytes, at: &GatedThread<'_>) -> Result<Spans, PriceError> {
    affinity::set(0, &[cpu])?;
    let mut buffers = StreamBuffers::new(each)?;
    let works: [fn(&mut StreamBuffers); WORKS] =
        [|buffers| buffers.read(), StreamBuffers::write, StreamBuffers::copy];
    let mut spans = [(Nanos(0), Nanos(0)); WORKS];
    for (nth, (work, span)) in works.iter().zip(&mut spans).enumerate() {
        at.pass(nth + 1)?;
        let begin = clock::now();
        (0..PASSES).for_each(|_| work(&mut buffers));
        *span = (begin, clock::now());
    }
    Ok(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_rate_or_a_reason() {
        let cpus = affinity::get(0).expect("CPUs");
        let mut rounds = BandwidthRounds::new(&cpus, Bytes(SMALLEST.0 * 2 * cpus.len() as u64));
        rounds.step();
        let found = rounds.finish();
        assert_eq!(found.buffer_bytes, SMALLEST);
        for (name, fact) in found.one.named() {
            assert!(fact.known().is_some_and(|m| m.median > 0.0 && m.n == 1), "{name}: {fact:?}");
        }
        for (name, fact) in found.all.named() {
            let reported = fact.known().is_some_and(|m| m.median > 0.0) || fact.reason().is_some();
            assert!(reported, "{name}: {fact:?}");
        }
    }

    #[test]
    fn without_memory_there_is_a_reason() {
        let mut rounds = BandwidthRounds::new(&[0], Bytes::mib(1));
        rounds.step();
        let found = rounds.finish();
        assert!(found.one.read_gib_per_s.reason().is_some_and(|why| why.contains("memory")));
        assert_eq!(memory(4, Bytes::mib(1)), Bytes(0));
        assert_eq!(memory(2, Bytes::gib(4)), Bytes(4 * LARGEST.0));
    }

    #[test]
    fn one_that_fails_ends_all() {
        assert!(together(&[0, u32::MAX], SMALLEST).is_err(), "there is no such CPU");
    }
}
