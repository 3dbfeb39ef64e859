//! Latencies in buckets whose width is a thirty-second of a power of two: 15 KiB whatever their
//! number, and each figure read from it is within 3% above the true one.

use pagewise_model::Nanos;
use pagewise_model::fault::FaultLatencies;

/// Bits of a value that choose the bucket within its power of two.
const FINE_BITS: u32 = 5;
const FINE: usize = 1 << FINE_BITS;
const BUCKETS: usize = (u64::BITS - FINE_BITS + 1) as usize * FINE;

/// Latencies, counted.
#[derive(Debug)]
pub(super) struct LatencyHistogram {
    counts: Vec<u64>,
    total: u64,
    sum: Nanos,
    max: Nanos,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0, sum: Nanos(0), max: Nanos(0) }
    }
}

impl LatencyHistogram {
    pub(super) fn add(&mut self, latency: Nanos) {
        if let Some(count) = self.counts.get_mut(bucket(latency.0)) {
            *count += 1;
        }
        self.total += 1;
        self.sum += latency;
        self.max = self.max.max(latency);
    }

    /// The summary. `None` without latencies.
    pub(super) fn latencies(&self) -> Option<FaultLatencies> {
        (self.total > 0).then(|| FaultLatencies {
            faults: self.total,
            p50_ns: self.quantile(0.5),
            p99_ns: self.quantile(0.99),
            p999_ns: self.quantile(0.999),
            max_ns: self.max,
            total_ns: self.sum,
        })
    }

    /// The smallest value that at least this share of latencies do not exceed, up to the width of its bucket.
    fn quantile(&self, share: f64) -> Nanos {
        let rank = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Nanos(last_of(index)).min(self.max);
            }
        }
        self.max
    }
}

fn bucket(value: u64) -> usize {
    if value < FINE as u64 {
        return value as usize;
    }
    let power = value.ilog2();
    let fine = (value >> (power - FINE_BITS)) as usize & (FINE - 1);
    (power - FINE_BITS + 1) as usize * FINE + fine
}

/// Largest value of a bucket.
fn last_of(index: usize) -> u64 {
    if index < FINE {
        return index as u64;
    }
    let shift = (index / FINE - 1) as u32;
    let first = (FINE + index % FINE) as u64;
    let width = 1_u64 << shift;
    (first << shift).saturating_add(width - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket_and_close_to_its_end() {
        for value in (0..2000).chain((0..64).map(|n| 1_u64 << n)).chain([u64::MAX]) {
            let index = bucket(value);
            assert!(index < BUCKETS, "{value}");
            let last = last_of(index);
            assert!(last >= value && last - value <= value / 32, "{value}: {last}");
        }
        assert!((0..2000).is_sorted_by_key(bucket));
    }

    #[test]
    fn quantiles_of_known_values() {
        let mut histogram = LatencyHistogram::default();
        assert!(histogram.latencies().is_none());
        (1..=1000).for_each(|n| histogram.add(Nanos(n * 100)));
        let seen = histogram.latencies().expect("there are some");
        let near = |got: Nanos, want: u64| got.0 >= want && got.0 <= want + want / 32;
        assert!(near(seen.p50_ns, 50_000), "{seen:?}");
        assert!(near(seen.p99_ns, 99_000) && near(seen.p999_ns, 99_900), "{seen:?}");
        assert_eq!((seen.max_ns, seen.total_ns), (Nanos(100_000), Nanos(50_050_000)));
    }
}
