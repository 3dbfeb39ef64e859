//! Memory that a program uses while it runs: the sum of the proportional set sizes of its processes.
//!
//! A page that several processes map counts as one (`Pss` of `/proc/PID/smaps_rollup`, Linux 4.14). The size
//! is interpolated linearly between two samples. Before the first and after the last sample it is constant.
//!
//! Not seen: memory that comes and goes between two samples; programs that end before the first sample. The
//! kernel itself keeps the peak of a single process (`ru_maxrss`).
//!
//! Cost: a sample walks the page tables, some 10 ms of CPU time per GiB of small pages, and 30 us per
//! process. Faults of a process wait while it is walked (`mmap_lock`). After a sample the sampler rests for
//! [`REST`] times its CPU time, and at least [`PERIOD`]. So it takes at most 0.5% of a CPU.

use crate::tree::ProcessTree;
use pagewise_kernel::clock;
use pagewise_kernel::proc::{smaps, status};
use pagewise_model::service::ServerMemory;
use pagewise_model::usage::MemoryUse;
use pagewise_model::{Bytes, Nanos};

/// Minimum time between two samples.
const PERIOD: Nanos = Nanos::millis(10);
/// Time of the first sample after the start.
const FIRST: Nanos = Nanos::millis(2);
/// Minimum pause after a sample, as a multiple of its CPU time.
const REST: u64 = 200;

/// Number of parts of a run whose memory is reported.
const PARTS: u64 = 32;
/// Maximum number of samples kept until the end of the run shows how long its parts are.
const KEPT: usize = 512;

/// What the processes `pids` hold now. Processes that have ended hold nothing.
#[must_use]
pub fn holding(pids: &[i32]) -> ServerMemory {
    let mut all = ServerMemory::default();
    for pid in pids {
        let resident = smaps::rollup(*pid).unwrap_or_default();
        all.pss_bytes += resident.pss;
        all.anon_huge_bytes += resident.anon_huge;
        all.file_huge_bytes += resident.file_pmd;
        let tables = status::read(*pid).ok().and_then(|status| status.page_tables);
        all.page_table_bytes += tables.unwrap_or_default();
    }
    all
}

/// Samples the memory of a program.
#[derive(Debug)]
pub(crate) struct MemorySampler {
    next: Nanos,
    /// Time and size of the last sample.
    last: Option<(Nanos, Bytes)>,
    /// Bytes times nanoseconds up to the last sample.
    integral: f64,
    peak: ServerMemory,
    samples: u32,
    /// The largest sample of each group with its time; at most [`KEPT`].
    kept: Vec<(Nanos, Bytes)>,
    /// Number of samples per group; below, the number in the last group so far.
    each: u32,
    in_last: u32,
}

impl MemorySampler {
    pub(crate) fn new() -> Self {
        Self {
            next: FIRST,
            last: None,
            integral: 0.0,
            peak: ServerMemory::default(),
            samples: 0,
            kept: Vec::new(),
            each: 1,
            in_last: 0,
        }
    }

    /// When the next sample is due.
    pub(crate) const fn due(&self) -> Nanos {
        self.next
    }

    /// Takes a sample if it is due.
    pub(crate) fn look(&mut self, tree: &mut ProcessTree, now: Nanos) {
        if now < self.next {
            return;
        }
        let begin = clock::thread_cpu();
        tree.refresh();
        let holding = holding(tree.pids());
        let took = clock::thread_cpu().0.saturating_sub(begin.0);
        self.next = now + PERIOD.max(Nanos(took.saturating_mul(REST)));
        self.add(now, holding);
    }

    fn add(&mut self, now: Nanos, holding: ServerMemory) {
        let (since, before) = self.last.unwrap_or((Nanos(0), holding.pss_bytes));
        let mean = f64::midpoint(before.0 as f64, holding.pss_bytes.0 as f64);
        self.integral += now.0.saturating_sub(since.0) as f64 * mean;
        self.last = Some((now, holding.pss_bytes));
        if holding.pss_bytes >= self.peak.pss_bytes {
            self.peak = holding;
        }
        self.samples = self.samples.saturating_add(1);
        self.keep(now, holding.pss_bytes);
    }

    /// Keeps the largest sample of each group. When the room is used up, doubles the group size.
    fn keep(&mut self, now: Nanos, held: Bytes) {
        match self.kept.last_mut() {
            Some(last) if self.in_last < self.each => {
                *last = larger(*last, (now, held));
                self.in_last += 1;
                return;
            }
            _ => {}
        }
        if self.kept.len() == KEPT {
            let pairs = self.kept.chunks(2);
            self.kept = pairs.filter_map(|pair| pair.iter().copied().reduce(larger)).collect();
            self.each *= 2;
        }
        self.kept.push((now, held));
        self.in_last = 1;
    }

    /// The largest sample in each part of `wall`. A part without a sample gets the last one before it.
    fn over_time(&self, wall: Nanos) -> Vec<Bytes> {
        let first = self.kept.first().map_or(Bytes(0), |(_, held)| *held);
        let mut parts: Vec<Option<Bytes>> = vec![None; PARTS as usize];
        for (at, held) in &self.kept {
            let part = (u128::from(at.0) * u128::from(PARTS) / u128::from(wall.0.max(1))) as usize;
            let largest = &mut parts[part.min(PARTS as usize - 1)];
            *largest = (*largest).max(Some(*held));
        }
        let held = |last: &mut Bytes, part: Option<Bytes>| {
            *last = part.unwrap_or(*last);
            Some(*last)
        };
        parts.into_iter().scan(first, held).collect()
    }

    /// Memory use of a program that ended after `wall`; `None` if it ended before the first sample.
    pub(crate) fn finish(&self, wall: Nanos) -> Option<MemoryUse> {
        let (since, last) = self.last?;
        let rest = wall.0.saturating_sub(since.0) as f64 * last.0 as f64;
        let mean = (self.integral + rest) / since.0.max(wall.0).max(1) as f64;
        Some(MemoryUse {
            mean_pss_bytes: Bytes(mean.round() as u64),
            peak_pss_bytes: self.peak.pss_bytes,
            page_table_bytes: self.peak.page_table_bytes,
            huge_bytes: self.peak.anon_huge_bytes,
            samples: self.samples,
            over_time_bytes: self.over_time(wall),
        })
    }
}

/// The larger of two samples.
fn larger(one: (Nanos, Bytes), other: (Nanos, Bytes)) -> (Nanos, Bytes) {
    if other.1 > one.1 { other } else { one }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(mebibytes: u64) -> ServerMemory {
        ServerMemory { pss_bytes: Bytes::mib(mebibytes), ..ServerMemory::default() }
    }

    #[test]
    fn the_mean_is_over_time_and_the_peak_is_the_largest_sample() {
        let mut sampler = MemorySampler::new();
        assert_eq!(sampler.finish(Nanos::secs(1)), None);
        sampler.add(Nanos::millis(100), of(10));
        sampler.add(Nanos::millis(200), of(30));
        sampler.add(Nanos::millis(300), of(10));
        let used = sampler.finish(Nanos::millis(400)).unwrap();
        // 10 for 100 ms, 20 on average for 200 ms, 10 for 100 ms.
        assert_eq!(used.mean_pss_bytes, Bytes::mib(15));
        assert_eq!((used.peak_pss_bytes, used.samples), (Bytes::mib(30), 3));
        let parts = used.over_time_bytes;
        assert_eq!(parts.len(), 32);
        assert_eq!(
            (parts[0], parts[15], parts[16], parts[31]),
            (Bytes::mib(10), Bytes::mib(10), Bytes::mib(30), Bytes::mib(10))
        );
    }

    #[test]
    fn a_long_run_keeps_its_peak() {
        let mut sampler = MemorySampler::new();
        for second in 0..10_000 {
            sampler.add(Nanos::secs(second), of(if second == 7_777 { 99 } else { 10 }));
        }
        let parts = sampler.finish(Nanos::secs(10_000)).unwrap().over_time_bytes;
        let above = |least| parts.iter().filter(|held| **held > Bytes::mib(least)).count();
        assert_eq!((parts.len(), above(9), above(98)), (32, 32, 1));
        assert!(sampler.kept.len() <= KEPT);
    }

    #[test]
    fn this_process_holds_something() {
        let own = i32::try_from(std::process::id()).unwrap();
        let held = holding(&[own, i32::MAX]);
        assert!(held.pss_bytes > Bytes::kib(100) && held.page_table_bytes > Bytes(0), "{held:?}");
    }
}
