//! Faults counted by what they have in common.

use pagewise_model::fault::{FaultTally, GroupTally};
use rustc_hash::FxHashMap;
use std::hash::Hash;

/// A tally for each key.
#[derive(Debug)]
pub(super) struct FaultGroups<K>(FxHashMap<K, FaultTally>);

impl<K> Default for FaultGroups<K> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<K: Copy + Eq + Hash + Ord> FaultGroups<K> {
    pub(super) fn add(&mut self, key: K, more: FaultTally) {
        add(self.0.entry(key).or_default(), more);
    }

    /// The most time first, then the most faults.
    pub(super) fn ranked(&self) -> Vec<GroupTally<K>> {
        let mut all: Vec<_> =
            self.0.iter().map(|(kind, tally)| GroupTally { kind: *kind, tally: *tally }).collect();
        all.sort_by_key(|group| (std::cmp::Reverse(rank(&group.tally)), group.kind));
        all
    }
}

/// By time, then by number.
pub(super) fn rank(tally: &FaultTally) -> (u64, u64) {
    (tally.time_ns.0, tally.faults)
}

/// Adds `more` to `sum`.
pub(super) fn add(sum: &mut FaultTally, more: FaultTally) {
    sum.faults += more.faults;
    sum.major_faults += more.major_faults;
    sum.again_faults += more.again_faults;
    sum.raced_faults += more.raced_faults;
    sum.time_ns += more.time_ns;
}
