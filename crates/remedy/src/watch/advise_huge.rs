//! Watcher of `heap-huge=inject`: one `madvise(MADV_HUGEPAGE)` on each new large mapping.
//!
//! A mapping is known by process, start and end; one that grows in place is advised again for
//! its new part. Mappings present at the first look of a process count as new: what they already
//! hold stays small, what is touched later becomes huge.

use super::Rhythm;
use pagewise_kernel::proc::{maps, status};
use pagewise_model::{Bytes, Nanos};
use pagewise_tracee::inject::{InjectError, advise_huge};
use pagewise_tracee::tree::Tree;
use pagewise_tracee::watcher::{WatchReport, Watcher};
use std::collections::{BTreeMap, HashMap};

/// Pause between two looks after the set-up phase: a mapping is advised within 5 ms of its birth.
const STEADY: Nanos = Nanos::millis(4);
/// A process that refuses this often is left alone.
const PATIENCE: u32 = 8;

/// The watcher.
pub(super) struct AdviseHuge {
    min: Bytes,
    growth_limit: Bytes,
    seen: HashMap<i32, Known>,
    advised: u64,
    advised_bytes: Bytes,
    stopped_ns: Nanos,
    longest_ns: Nanos,
    refusals: BTreeMap<String, u64>,
    limit_reached: bool,
}

/// What is known of one process.
#[derive(Debug, Default)]
struct Known {
    /// Advised ranges: start to end.
    ranges: HashMap<u64, u64>,
    refused: u32,
}

impl Known {
    /// Not advised yet, or grown since by enough to be worth another stop.
    fn is_new(&self, start: u64, end: u64, min: Bytes) -> bool {
        self.ranges.get(&start).is_none_or(|known| end >= known.saturating_add(min.0))
    }
}

impl AdviseHuge {
    pub(super) fn new(min: Bytes, growth_limit: Bytes) -> Self {
        Self {
            min,
            growth_limit,
            seen: HashMap::new(),
            advised: 0,
            advised_bytes: Bytes(0),
            stopped_ns: Nanos(0),
            longest_ns: Nanos(0),
            refusals: BTreeMap::new(),
            limit_reached: false,
        }
    }

    fn over_limit(&self, tree: &Tree) -> bool {
        let rss = |pid: &i32| status::read(*pid).ok().and_then(|s| s.rss_anon).unwrap_or_default();
        let total: u64 = tree.pids().iter().map(|pid| rss(pid).0).sum();
        total > self.growth_limit.0
    }

    fn visit(&mut self, pid: i32) {
        let Ok(mappings) = maps::read(pid) else { return };
        let known = self.seen.entry(pid).or_default();
        if known.refused >= PATIENCE {
            return;
        }
        known.ranges.retain(|start, _| mappings.iter().any(|m| m.start == *start));
        let fresh: Vec<(u64, u64)> = mappings
            .iter()
            .filter(|m| m.is_anonymous() && m.perms.write && !is_stack(m) && m.size() >= self.min)
            .filter(|m| known.is_new(m.start, m.end, self.min))
            .map(|m| (m.start, m.end))
            .collect();
        for (start, end) in fresh {
            self.advise(pid, start, end);
        }
    }

    fn advise(&mut self, pid: i32, start: u64, end: u64) {
        match advise_huge(pid, start, end - start) {
            Ok(done) => {
                self.advised += 1;
                self.advised_bytes += Bytes(end - start);
                self.stopped_ns += done.stop_ns;
                self.longest_ns = self.longest_ns.max(done.stop_ns);
                self.seen.entry(pid).or_default().ranges.insert(start, end);
            }
            Err(InjectError::Gone) => {}
            Err(error) => {
                self.seen.entry(pid).or_default().refused += 1;
                *self.refusals.entry(error.to_string()).or_default() += 1;
            }
        }
    }
}

fn is_stack(mapping: &maps::Mapping) -> bool {
    mapping.path.to_string_lossy().starts_with("[stack")
}

impl Watcher for AdviseHuge {
    fn name(&self) -> &str {
        crate::heap_huge::WATCH
    }

    fn tick(&mut self, tree: &Tree, since_start: Nanos) -> Option<Nanos> {
        self.limit_reached = self.limit_reached || self.over_limit(tree);
        if self.limit_reached {
            return None;
        }
        self.seen.retain(|pid, _| tree.pids().contains(pid));
        for pid in tree.pids() {
            self.visit(*pid);
        }
        Some(Rhythm { steady: STEADY }.next(since_start).min(since_start + STEADY))
    }

    fn finish(&mut self) -> WatchReport {
        let mut notes = Vec::new();
        if self.advised > 0 {
            notes.push(format!(
                "{} mapping(s), {} advised; stopped for {} in all, {} at most",
                self.advised, self.advised_bytes, self.stopped_ns, self.longest_ns
            ));
        }
        let refused = |(why, n): (&String, &u64)| format!("{n} refused: {why}");
        let mut failures: Vec<String> = self.refusals.iter().map(refused).collect();
        if self.limit_reached {
            failures.push(format!("no more advice beyond {} of memory", self.growth_limit));
        }
        let watch = self.name().to_owned();
        WatchReport { watch, counter: self.advised, notes, failures }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_advised_again_only_when_it_grew_enough() {
        let mut known = Known::default();
        let min = Bytes::mib(8);
        assert!(known.is_new(0, min.0, min));
        known.ranges.insert(0, min.0);
        assert!(!known.is_new(0, min.0, min));
        assert!(!known.is_new(0, min.0 + 1, min));
        assert!(known.is_new(0, 2 * min.0, min));
    }
}
