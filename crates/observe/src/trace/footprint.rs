//! How fast a program starts to use pages other than those its TLB keeps, from the accessed bits of its page
//! table.
//!
//! The *footprint* is the number of pages used within a time. A buffer that keeps the last C used pages
//! misses at the rate at which the footprint grows when it equals C (higher-order theory of locality, Xiang
//! et al. 2013). That growth slows down with the footprint, so the growth at a smaller C is an upper bound. C
//! is that of the smallest relevant TLB ([`KEPT`]).
//!
//! The processor sets the accessed bit of a page-table entry when it walks the table for it. All bits of the
//! process are cleared (`clear_refs` in `proc(5)`), and it runs on at full speed. After 0.25, 0.5, 1, 2 and 4
//! ms of CPU time the set bits are counted (`Referenced` in `smaps`), while its thread is stopped. Memory on
//! huge pages does not count, nor pages that faults brought in. Clearing flushes no TLB, so pages that are
//! still in it do not count until they are evicted. Setting a bit takes extra time ([`marking`]), which is
//! subtracted from the CPU time for each page used.
//!
//! A count costs some 50 ns per resident page. All counts together take at most about 0.4 s, or a tenth of
//! the whole. Code pages count like data. Not seen: the time of a single walk, and that walks overlap.

use super::marking;
use super::pattern::{BUDGET, LIVES};
use pagewise_kernel::proc::{smaps, stat};
use pagewise_kernel::{SysError, clock, page_size};
use pagewise_model::look::FootprintGrowth;
use pagewise_model::{Bytes, Fact, Nanos};
use std::time::{Duration, Instant};

/// CPU time after which pages are first counted; it doubles from count to count.
const FIRST: Nanos = Nanos(250_000);
/// CPU time after which pages are counted for the last time.
const LAST: Nanos = Nanos::millis(4);
/// A process is left to run no longer for a probe, as its thread may wait and as others wait for us.
const LONGEST: Duration = Duration::from_millis(30);
/// Entries of the smallest second-level TLB in processors of the last ten years.
const KEPT: u64 = 1024;
/// Minimum time that a probe represents: the first one has none before it.
const LEAST_TIME: Duration = Duration::from_millis(20);
/// At least one in this many parts of a window's time remains after the setting of bits is subtracted.
const LEAST_LEFT: u64 = 8;

/// The result of one count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FootprintCount {
    /// Base pages used since the bits were cleared.
    used: u64,
    /// Base pages resident.
    resident: u64,
    faults: u64,
    cpu: Nanos,
}

impl FootprintCount {
    fn open(pid: i32) -> Result<Self, SysError> {
        let cpu = clock::process_cpu(pid)?;
        let faults = stat::read(pid)?.minor_faults;
        let (mut used, mut resident) = (Bytes(0), Bytes(0));
        for entry in smaps::read(pid)? {
            let small = Bytes(entry.residency.rss.0.saturating_sub(entry.residency.huge().0));
            used += entry.residency.referenced.min(small);
            resident += small;
        }
        let page = page_size::base();
        Ok(Self { used: used.pages(page), resident: resident.pages(page), faults, cpu })
    }

    /// Pages of before that were used, and CPU time, since the count `begin`.
    fn since(&self, begin: &Self) -> (u64, Nanos) {
        let faults = self.faults.saturating_sub(begin.faults);
        let new = faults.max(self.resident.saturating_sub(begin.resident));
        let used = self.used.saturating_sub(begin.used).saturating_sub(new);
        (used, Nanos(self.cpu.0.saturating_sub(begin.cpu.0)))
    }
}

/// The footprint from one moment on.
#[derive(Debug)]
pub(super) struct FootprintProbe {
    pid: i32,
    at: Instant,
    begin: FootprintCount,
    /// Pages and CPU time at the last count.
    last: (u64, Nanos),
    /// CPU time at which the next count is due.
    next: Nanos,
    is_over: bool,
    /// Growth between the last two counts, in pages per ms of CPU time.
    growth: Option<f64>,
    /// CPU time to set the accessed bit of a page.
    marking: Nanos,
    spent: Duration,
}

impl FootprintProbe {
    /// Begins with process `pid`, one of whose threads is stopped.
    fn begin(pid: i32, marking: Nanos) -> Result<Self, SysError> {
        let at = Instant::now();
        smaps::clear_referenced(pid)?;
        let begin = FootprintCount::open(pid)?;
        let spent = at.elapsed();
        Ok(Self {
            pid,
            at,
            begin,
            last: (0, Nanos(0)),
            next: FIRST,
            is_over: false,
            growth: None,
            marking,
            spent,
        })
    }

    /// How long the process should go on before the next count.
    pub(super) fn pause(&self) -> Duration {
        Nanos(self.next.0 - self.last.1.0).duration()
    }

    /// True while there is more to see. Clearing and counting do not count as time: with a GiB resident they
    /// alone take longer.
    pub(super) fn goes_on(&self) -> bool {
        !self.is_over && self.at.elapsed().saturating_sub(self.spent) < LONGEST
    }

    /// True if its process has run long enough for the next count. An earlier stop would only cost CPU time.
    pub(super) fn is_due(&self) -> bool {
        clock::process_cpu(self.pid).is_ok_and(|cpu| cpu >= self.begin.cpu + self.next)
    }

    /// Counts, if it is due. The thread must be stopped.
    pub(super) fn count(&mut self) {
        if !self.is_due() {
            return;
        }
        let at = Instant::now();
        self.is_over = match FootprintCount::open(self.pid) {
            Ok(count) => !self.take(count.since(&self.begin)),
            Err(_) => true,
        };
        self.spent += at.elapsed();
    }

    /// Ends the probe: the process does something else now.
    pub(super) const fn end(&mut self) {
        self.is_over = true;
    }

    /// Takes a count; true while there is more to see.
    fn take(&mut self, now: (u64, Nanos)) -> bool {
        let pages = now.0.saturating_sub(self.last.0);
        let took = now.1.0.saturating_sub(self.last.1.0);
        let marks = pages.saturating_mul(self.marking.0);
        let ns = took.saturating_sub(marks).max(took / LEAST_LEFT);
        self.growth = (ns > 0).then(|| pages as f64 * 1e6 / ns as f64).or(self.growth);
        self.last = now;
        self.next = Nanos(now.1.0 * 2);
        now.0 < KEPT && now.1 < LAST
    }
}

/// Keeps what the probes found.
#[derive(Debug)]
pub(super) struct FootprintRecord {
    begin: Instant,
    /// Growths, and the time from the probe before.
    growths: Vec<(f64, Duration)>,
    since: Option<Instant>,
    /// What setting an accessed bit costs, once it was needed.
    marking: Option<Nanos>,
    spent: Duration,
    refused: Option<String>,
}

impl FootprintRecord {
    /// None yet.
    pub(super) fn new() -> Self {
        let begin = Instant::now();
        let (growths, spent) = (Vec::new(), Duration::ZERO);
        Self { begin, growths, since: None, marking: None, spent, refused: None }
    }

    /// A probe of process `pid`, if time remains and none was refused.
    pub(super) fn begin(&mut self, pid: i32) -> Option<FootprintProbe> {
        let is_long = self.spent >= BUDGET && self.spent >= self.begin.elapsed() / LIVES;
        if self.refused.is_some() || is_long {
            return None;
        }
        match self.marking().and_then(|marking| FootprintProbe::begin(pid, marking)) {
            Ok(probe) => Some(probe),
            Err(error) if error.is_gone() && !is_without_bits(pid) => None,
            Err(error) => {
                self.refused = Some(error.to_string());
                None
            }
        }
    }

    /// What setting an accessed bit costs; measured the first time.
    fn marking(&mut self) -> Result<Nanos, SysError> {
        match self.marking {
            Some(known) => Ok(known),
            None => Ok(*self.marking.insert(marking::cost()?)),
        }
    }

    /// Takes what `probe` found.
    pub(super) fn take(&mut self, probe: &FootprintProbe) {
        self.spent += probe.spent;
        if let Some(growth) = probe.growth {
            let before = self.since.replace(probe.at).unwrap_or(probe.at);
            self.growths.push((growth, probe.at - before));
        }
    }

    /// The mean over the probed time. Missing if there was no probe.
    pub(super) fn finish(self) -> Fact<FootprintGrowth> {
        if self.growths.is_empty() {
            let none = || "no thread ran long enough".to_owned();
            return Fact::missing(self.refused.unwrap_or_else(none));
        }
        let time = |before: &Duration| before.max(&LEAST_TIME).as_secs_f64();
        let all: f64 = self.growths.iter().map(|(_, before)| time(before)).sum();
        let sum: f64 = self.growths.iter().map(|(growth, before)| growth * time(before)).sum();
        let probes = u32::try_from(self.growths.len()).unwrap_or(u32::MAX);
        Fact::Known(FootprintGrowth { probes, new_pages_per_ms: sum / all })
    }
}

/// True for a process that is there in a kernel without `clear_refs` (`CONFIG_PROC_PAGE_MONITOR`).
fn is_without_bits(pid: i32) -> bool {
    stat::read(pid).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe() -> FootprintProbe {
        let begin = FootprintCount { used: 3, resident: 5000, faults: 70, cpu: Nanos::millis(9) };
        let (last, next, spent) = ((0, Nanos(0)), FIRST, Duration::ZERO);
        let (at, marking) = (Instant::now(), Nanos(0));
        FootprintProbe {
            pid: 0,
            at,
            begin,
            last,
            next,
            is_over: false,
            growth: None,
            marking,
            spent,
        }
    }

    #[test]
    fn pages_of_faults_and_time_of_others_do_not_count() {
        let begin = probe().begin;
        let later = |used, resident, faults| FootprintCount {
            used,
            resident,
            faults,
            cpu: Nanos::millis(11),
        };
        assert_eq!(later(903, 5000, 70).since(&begin), (900, Nanos::millis(2)));
        assert_eq!(later(903, 5000, 170).since(&begin).0, 800, "given back and faulted in again");
        assert_eq!(later(903, 5160, 80).since(&begin).0, 740, "sixteen by each fault");
        assert_eq!(later(2, 4000, 70).since(&begin).0, 0);
    }

    #[test]
    fn growth_is_that_of_the_last_window() {
        // A few pages, used again and again: almost none are new at the end.
        let mut hot = probe();
        let counts = [(400, 250), (470, 500), (490, 1000), (498, 2000), (500, 4000)];
        let steps = counts.map(|(pages, us)| hot.take((pages, Nanos(us * 1000))));
        assert_eq!((steps, hot.growth), ([true, true, true, true, false], Some(1.0)));
        // The capacity is soon reached: the growth up to there.
        let mut wide = probe();
        assert!(wide.take((900, Nanos(250_000))));
        assert!(!wide.take((1400, Nanos(500_000))));
        assert_eq!(wide.growth, Some(2000.0));
    }

    #[test]
    fn the_setting_of_bits_is_not_the_programs_time() {
        let mut marked = FootprintProbe { marking: Nanos(500), ..probe() };
        marked.take((1000, Nanos::millis(1)));
        assert_eq!(marked.growth, Some(2000.0), "half the time went into setting them");
        let mut dearer = FootprintProbe { marking: Nanos(5000), ..probe() };
        dearer.take((1000, Nanos::millis(1)));
        assert_eq!(dearer.growth, Some(8000.0), "an eighth is left at least");
    }

    #[test]
    fn a_slow_count_does_not_end_a_probe() {
        let long_ago = Instant::now() - LONGEST * 4;
        let counted = FootprintProbe { at: long_ago, spent: LONGEST * 4, ..probe() };
        assert!(counted.goes_on(), "all the time went into clearing and counting");
        assert!(!FootprintProbe { at: long_ago, ..probe() }.goes_on(), "the process had that time");
        let mut over = probe();
        over.end();
        assert!(!over.goes_on());
    }

    #[test]
    fn counts_come_at_doubled_times() {
        let mut probe = probe();
        assert_eq!(probe.pause(), Duration::from_micros(250));
        assert!(probe.take((10, Nanos(300_000))));
        assert_eq!(probe.pause(), Duration::from_micros(300));
    }

    #[test]
    fn what_is_refused_is_reported_and_not_tried_again() {
        let mut none = FootprintRecord::new();
        assert!(none.begin(i32::MAX).is_none() && none.refused.is_none(), "it is gone");
        assert!(none.finish().reason().is_some_and(|why| why.contains("long enough")));
        let refused = FootprintRecord { refused: Some("no".into()), ..FootprintRecord::new() };
        assert_eq!(refused.finish().reason(), Some("no"));
    }

    #[test]
    fn a_probe_stands_for_the_time_before_it() {
        let mut found = FootprintRecord::new();
        let begin = Instant::now();
        for (pages, ms) in [(500, 0), (1500, 20), (900, 100)] {
            let mut probe = probe();
            probe.at = begin + Duration::from_millis(ms);
            probe.take((pages, Nanos::millis(1)));
            found.take(&probe);
        }
        let Fact::Known(footprint) = found.finish() else { panic!("three probes") };
        assert_eq!(footprint.probes, 3);
        let mean = (500.0 * 20.0 + 1500.0 * 20.0 + 900.0 * 80.0) / 120.0;
        assert!((footprint.new_pages_per_ms - mean).abs() < 1e-9);
    }
}
