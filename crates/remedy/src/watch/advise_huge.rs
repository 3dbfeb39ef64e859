//! Watcher of `heap-huge=inject`: one `madvise(MADV_HUGEPAGE)` on each new large mapping.
//!
//! Advice is recorded by process and address range, however the kernel splits or joins mappings. A range that
//! is unmapped at a look is forgotten, and so are all ranges of a process that has executed another program.
//! Mappings that exist at the first look of a process count as new: their present content stays on small
//! pages, and what is touched later becomes huge.
//!
//! Looks come every 4 ms while mappings appear, and every 16 ms after a second without new ones. A tree with
//! very many mappings is looked at less often (`run` in tracee). A process that refuses for a temporary
//! reason is tried again, later each time. A process id that was reused is skipped.
//!
//! Not seen: a mapping that is freed and created again at the same address between two looks (also by an exec
//! of the same file without address randomisation) keeps its small pages.

use super::Rhythm;
use pagewise_kernel::proc::{maps, status};
use pagewise_model::{Bytes, Nanos};
use pagewise_tracee::inject::{
    CallInjector, InjectError, InjectMethod, ProcessIdentity, ProcessOwner,
};
use pagewise_tracee::tree::ProcessTree;
use pagewise_tracee::watcher::{RunWatcher, WatchReport};
use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt;

/// Pause between two looks after the set-up phase: a mapping gets its advice within 5 ms of its creation.
const STEADY: Nanos = Nanos::millis(4);
/// After this many lasting refusals, a process is skipped.
const PATIENCE: u32 = 8;
/// Shortest pause before a process that refused is tried again; below, the longest.
const BACK_OFF: Nanos = Nanos::millis(8);
const LONGEST_BACK_OFF: Nanos = Nanos::secs(1);

pub(super) struct HugeAdviceWatcher {
    min: Bytes,
    growth_limit: Bytes,
    injector: CallInjector,
    seen: HashMap<i32, AdvisedProcess>,
    /// Time of the last advice, since the start of the program.
    last_new: Nanos,
    done: AdviceTotals,
    refusals: BTreeMap<String, u64>,
    limit_reached: bool,
}

/// What has been done.
#[derive(Debug, Default)]
struct AdviceTotals {
    advised: u64,
    bytes: Bytes,
    by_registers: u64,
    stopped_ns: Nanos,
    longest_ns: Nanos,
}

/// State of one process.
#[derive(Debug)]
struct AdvisedProcess {
    process: ProcessIdentity,
    /// Device and inode of the program it runs.
    program: Option<(u64, u64)>,
    advised: AddressRanges,
    /// Lasting refusals since the last success.
    refused: u32,
    /// Temporary failures since the last success; below, the last of them.
    postponed: u32,
    reason: Option<String>,
    not_before: Nanos,
}

impl AdvisedProcess {
    const fn new(process: ProcessIdentity, program: Option<(u64, u64)>) -> Self {
        Self {
            process,
            program,
            advised: AddressRanges(Vec::new()),
            refused: 0,
            postponed: 0,
            reason: None,
            not_before: Nanos(0),
        }
    }

    fn succeed(&mut self, start: u64, end: u64) {
        self.advised.add(start, end);
        (self.refused, self.postponed, self.reason) = (0, 0, None);
    }

    /// Tries again later. `reason` is reported if the process ends before.
    fn postpone(&mut self, now: Nanos, reason: Option<String>) {
        let pause = BACK_OFF.0.saturating_mul(1 << self.postponed.min(20));
        self.not_before = now + Nanos(pause).min(LONGEST_BACK_OFF);
        self.postponed += 1;
        self.reason = reason;
    }
}

/// Disjoint address ranges in ascending order.
#[derive(Debug, Default)]
struct AddressRanges(Vec<(u64, u64)>);

impl AddressRanges {
    fn add(&mut self, start: u64, end: u64) {
        self.0.push((start, end));
        self.0.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::with_capacity(self.0.len());
        for &(start, end) in &self.0 {
            match joined.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => joined.push((start, end)),
            }
        }
        self.0 = joined;
    }

    /// Drops addresses outside `mapped`, which is in ascending order.
    fn keep(&mut self, mapped: &[(u64, u64)]) {
        for (start, end) in std::mem::take(&mut self.0) {
            let first = mapped.partition_point(|range| range.1 <= start);
            for range in mapped[first..].iter().take_while(|range| range.0 < end) {
                self.0.push((start.max(range.0), end.min(range.1)));
            }
        }
    }

    /// The parts of a range that this does not contain.
    fn gaps(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let mut gaps = Vec::new();
        let mut from = start;
        for &(known, until) in self.0.iter().filter(|r| r.1 > start && r.0 < end) {
            if known > from {
                gaps.push((from, known));
            }
            from = until;
        }
        if from < end {
            gaps.push((from, end));
        }
        gaps
    }
}

impl HugeAdviceWatcher {
    pub(super) fn new(min: Bytes, growth_limit: Bytes) -> Self {
        Self {
            min,
            growth_limit,
            injector: CallInjector::new(ProcessOwner::Ours),
            seen: HashMap::new(),
            last_new: Nanos(0),
            done: AdviceTotals::default(),
            refusals: BTreeMap::new(),
            limit_reached: false,
        }
    }

    fn over_limit(&self, tree: &ProcessTree) -> bool {
        let rss = |pid: &i32| status::read(*pid).ok().and_then(|s| s.rss_anon).unwrap_or_default();
        let total: u64 = tree.pids().iter().map(|pid| rss(pid).0).sum();
        total > self.growth_limit.0
    }

    /// Drops processes that have ended. What was postponed for them has not been done.
    fn forget(&mut self, tree: &ProcessTree) {
        let is_gone = |pid: &i32| !tree.pids().contains(pid);
        let gone: Vec<i32> = self.seen.keys().copied().filter(is_gone).collect();
        for reason in gone.iter().filter_map(|pid| self.seen.remove(pid)?.reason) {
            *self.refusals.entry(reason).or_default() += 1;
        }
    }

    fn visit(&mut self, pid: i32, now: Nanos) {
        let Ok(process) = ProcessIdentity::find(pid) else { return };
        let program = program_of(pid);
        let known = self.seen.entry(pid).or_insert_with(|| AdvisedProcess::new(process, program));
        let has_given_up = known.refused >= PATIENCE && known.program == program;
        if known.process != process || has_given_up || now < known.not_before {
            return;
        }
        if known.program != program {
            *known = AdvisedProcess::new(process, program);
        }
        let Ok(mappings) = maps::read(pid) else { return };
        for (start, end) in fresh(&mut known.advised, &mappings, self.min) {
            if !self.advise(process, pid, now, start, end) {
                break;
            }
        }
    }

    /// False if other ranges of the process should not be tried now.
    fn advise(
        &mut self,
        process: ProcessIdentity,
        pid: i32,
        now: Nanos,
        start: u64,
        end: u64,
    ) -> bool {
        let result = self.injector.advise_huge(process, start, end - start);
        let Some(known) = self.seen.get_mut(&pid) else { return false };
        match result {
            Ok(how) => {
                known.succeed(start, end);
                self.last_new = now;
                self.done.advised += 1;
                self.done.bytes += Bytes(end - start);
                self.done.by_registers += u64::from(how.method == InjectMethod::Registers);
                self.done.stopped_ns += how.stop_ns;
                self.done.longest_ns = self.done.longest_ns.max(how.stop_ns);
                return true;
            }
            Err(InjectError::Gone) => {}
            // The end of a thread or a mapping needs no report.
            Err(error) if error.is_gone() => known.postpone(now, None),
            Err(error) if error.passes() => known.postpone(now, Some(error.to_string())),
            Err(error) => {
                known.refused += 1;
                *self.refusals.entry(error.to_string()).or_default() += 1;
            }
        }
        false
    }
}

/// Device and inode of the program that a process runs.
fn program_of(pid: i32) -> Option<(u64, u64)> {
    std::fs::metadata(format!("/proc/{pid}/exe")).ok().map(|meta| (meta.dev(), meta.ino()))
}

/// The large ranges among `mappings` without advice. Drops unmapped ranges from `advised`.
fn fresh(advised: &mut AddressRanges, mappings: &[maps::Mapping], min: Bytes) -> Vec<(u64, u64)> {
    let fits = |m: &&maps::Mapping| m.is_anonymous() && m.perms.write && !is_stack(m);
    let mapped: Vec<(u64, u64)> = mappings.iter().filter(fits).map(|m| (m.start, m.end)).collect();
    advised.keep(&mapped);
    let mut fresh: Vec<(u64, u64)> =
        mapped.iter().flat_map(|&(start, end)| advised.gaps(start, end)).collect();
    fresh.retain(|(start, end)| Bytes(end - start) >= min);
    fresh
}

fn is_stack(mapping: &maps::Mapping) -> bool {
    mapping.path.to_string_lossy().starts_with("[stack")
}

impl RunWatcher for HugeAdviceWatcher {
    fn name(&self) -> &str {
        crate::heap_huge::WATCH
    }

    fn tick(&mut self, tree: &ProcessTree, since_start: Nanos) -> Option<Nanos> {
        self.limit_reached = self.limit_reached || self.over_limit(tree);
        self.forget(tree);
        if !self.limit_reached {
            for pid in tree.pids() {
                self.visit(*pid, since_start);
            }
        }
        let quiet = Nanos(since_start.0.saturating_sub(self.last_new.0));
        (!self.limit_reached).then(|| Rhythm { steady: STEADY }.next(since_start, quiet))
    }

    fn finish(&mut self) -> WatchReport {
        self.forget(&ProcessTree::new(0, []));
        let mut notes = Vec::new();
        let done = &self.done;
        if done.advised > 0 {
            notes.push(format!(
                "{} mapping(s), {} advised; program stopped for {} in total, {} at most",
                done.advised, done.bytes, done.stopped_ns, done.longest_ns
            ));
        }
        if done.by_registers > 0 {
            notes.push(format!(
                "{} of them through registers: if pagewise had died at that moment, the program would have died too",
                done.by_registers
            ));
        }
        let refused = |(why, n): (&String, &u64)| format!("{n} not advised: {why}");
        let mut failures: Vec<String> = self.refusals.iter().map(refused).collect();
        if self.limit_reached {
            failures.push(format!(
                "stopped advising huge pages: the program reached {} of memory",
                self.growth_limit
            ));
        }
        let watch = self.name().to_owned();
        WatchReport { watch, counter: done.advised, notes, failures }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = Bytes::mib(1).0;
    const MIN: Bytes = Bytes::mib(8);

    /// Anonymous mappings between these addresses in MiB.
    fn mappings(ranges: &[(u64, u64)]) -> Vec<maps::Mapping> {
        let line = |&(start, end): &(u64, u64)| {
            format!("{:x}-{:x} rw-p 00000000 00:00 0\n", start * MIB, end * MIB)
        };
        maps::parse(ranges.iter().map(line).collect::<String>().as_bytes())
    }

    fn own() -> ProcessIdentity {
        ProcessIdentity::find(pagewise_kernel::proc::own_pid()).unwrap()
    }

    /// Ranges that get advice at each look, in MiB.
    fn look(advised: &mut AddressRanges, ranges: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let found = fresh(advised, &mappings(ranges), MIN);
        for &(start, end) in &found {
            advised.add(start, end);
        }
        found.into_iter().map(|(start, end)| (start / MIB, end / MIB)).collect()
    }

    #[test]
    fn a_range_is_advised_once_however_mappings_join() {
        let mut advised = AddressRanges::default();
        assert_eq!(look(&mut advised, &[(100, 110), (110, 120)]), [(100, 110), (110, 120)]);
        assert_eq!(look(&mut advised, &[(100, 120)]), []);
        assert_eq!(look(&mut advised, &[(92, 124)]), [(92, 100)], "4 MiB are not worth a stop");
        assert_eq!(look(&mut advised, &[(92, 130)]), [(120, 130)]);
        assert_eq!(look(&mut advised, &[(92, 99), (99, 130)]), []);
    }

    #[test]
    fn what_was_unmapped_at_a_look_is_advised_again() {
        let mut advised = AddressRanges::default();
        assert_eq!(look(&mut advised, &[(100, 140)]), [(100, 140)]);
        assert_eq!(look(&mut advised, &[(100, 110), (130, 140)]), []);
        assert_eq!(look(&mut advised, &[(100, 140)]), [(110, 130)]);
        assert_eq!(look(&mut advised, &[]), []);
        assert_eq!(look(&mut advised, &[(100, 140)]), [(100, 140)]);
    }

    #[test]
    fn failures_that_pass_put_off_and_are_forgotten_at_a_success() {
        let mut known = AdvisedProcess::new(own(), None);
        let mut last = Nanos(0);
        for _ in 0..40 {
            known.postpone(Nanos::secs(1), Some("busy".to_owned()));
            assert!(known.not_before >= last && known.not_before <= Nanos::secs(2));
            last = known.not_before;
        }
        assert_eq!((last, known.refused), (Nanos::secs(2), 0));
        known.refused = PATIENCE - 1;
        known.succeed(0, 1);
        assert_eq!((known.refused, known.postponed, known.reason), (0, 0, None));
    }

    #[test]
    fn a_process_that_ends_while_put_off_counts_as_refused() {
        let mut watcher = HugeAdviceWatcher::new(MIN, Bytes::mib(64));
        let mut known = AdvisedProcess::new(own(), None);
        known.postpone(Nanos(0), Some("busy".to_owned()));
        watcher.seen.insert(i32::MAX, known);
        assert_eq!(watcher.finish().failures, ["1 not advised: busy"]);
    }
}
