//! Faults counted by what they have in common.

use pagewise_model::fault::{GroupTally, Tally};
use rustc_hash::FxHashMap;
use std::hash::Hash;

/// A tally for each key.
#[derive(Debug)]
pub(super) struct Groups<K>(FxHashMap<K, Tally>);

impl<K> Default for Groups<K> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<K: Copy + Eq + Hash + Ord> Groups<K> {
    pub(super) fn add(&mut self, key: K, more: Tally) {
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
pub(super) fn rank(tally: &Tally) -> (u64, u64) {
    (tally.time_ns.0, tally.faults)
}

/// Adds `more` to `sum`.
pub(super) fn add(sum: &mut Tally, more: Tally) {
    sum.faults += more.faults;
    sum.major_faults += more.major_faults;
    sum.again_faults += more.again_faults;
    sum.raced_faults += more.raced_faults;
    sum.time_ns += more.time_ns;
}
