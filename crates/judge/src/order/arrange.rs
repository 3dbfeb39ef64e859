//! One order of functions for several workloads.
//!
//! Concatenated first-call orders serve later workloads badly: the functions they share with earlier ones lie
//! scattered among functions they do not need. Here the functions that are called by the same workloads form
//! a group. The sequence of groups is searched for the fewest weighted faults: each group is moved to each
//! other place for as long as that helps. The functions of a workload then lie in few runs. Within a group
//! functions stay in first-call order.

use pagewise_model::pieces::{BuildSymbol, Workload};
use pagewise_model::{Bytes, PageSize};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// What one fault on a file maps: the default of the kernel's `fault_around_bytes`.
pub(super) const WINDOW: Bytes = Bytes::kib(64);
/// Workloads that can differ from each other; more than this count as one.
const MOST_WORKLOADS: usize = 64;
/// Number of groups that are moved. The smallest groups beyond these stay at the end.
const MOST_GROUPS: usize = 48;

/// Places of the functions that any workload calls, in the order that takes the fewest faults, if one
/// maps `window`.
pub(super) fn arrange(
    functions: &[BuildSymbol],
    workloads: &[Workload],
    window: Bytes,
) -> Vec<usize> {
    let mut groups = groups(functions, workloads);
    let moved = groups.len().min(MOST_GROUPS);
    let mut best = faults(&groups, workloads, window);
    loop {
        let before = best;
        for from in 0..moved {
            for to in 0..moved {
                let mut tried = groups.clone();
                let group = tried.remove(from);
                tried.insert(to, group);
                let cost = faults(&tried, workloads, window);
                if cost + 1e-9 < best {
                    (groups, best) = (tried, cost);
                }
            }
        }
        if best >= before {
            return groups.into_iter().flat_map(|group| group.functions).collect();
        }
    }
}

/// The first calls of the workloads, one after the other, by weight.
pub(super) fn first_calls(workloads: &[Workload]) -> Vec<usize> {
    let mut sorted: Vec<&Workload> = workloads.iter().collect();
    sorted.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    let mut seen = std::collections::HashSet::new();
    sorted.iter().flat_map(|one| &one.calls).copied().filter(|at| seen.insert(*at)).collect()
}

/// Functions that the same workloads call.
#[derive(Debug, Clone)]
struct FunctionGroup {
    /// A bit for each workload.
    callers: u64,
    functions: Vec<usize>,
    bytes: u64,
}

/// The groups, those of the most workloads first, then the largest.
fn groups(functions: &[BuildSymbol], workloads: &[Workload]) -> Vec<FunctionGroup> {
    let mut callers: HashMap<usize, u64> = HashMap::new();
    for (number, workload) in workloads.iter().enumerate() {
        for at in &workload.calls {
            *callers.entry(*at).or_default() |= 1 << number.min(MOST_WORKLOADS - 1);
        }
    }
    let mut groups: BTreeMap<u64, FunctionGroup> = BTreeMap::new();
    for at in first_calls(workloads) {
        let callers = callers.get(&at).copied().unwrap_or_default();
        let group = groups.entry(callers).or_insert(FunctionGroup {
            callers,
            functions: Vec::new(),
            bytes: 0,
        });
        group.functions.push(at);
        group.bytes += functions.get(at).map_or(0, |function| function.bytes.0);
    }
    let mut groups: Vec<FunctionGroup> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse((group.callers.count_ones(), group.bytes)));
    groups
}

/// Weighted faults of all workloads with the groups in this sequence.
fn faults(groups: &[FunctionGroup], workloads: &[Workload], window: Bytes) -> f64 {
    let mut ranges: Vec<(u64, Range<u64>)> = Vec::with_capacity(groups.len());
    let mut end = 0;
    for group in groups {
        ranges.push((group.callers, end..end + group.bytes));
        end += group.bytes;
    }
    let of = |number: usize| {
        let bit = 1 << number.min(MOST_WORKLOADS - 1);
        let called = ranges.iter().filter(move |(callers, _)| callers & bit != 0);
        windows(called.map(|(_, range)| range.clone()), window)
    };
    workloads.iter().enumerate().map(|(number, workload)| workload.weight * of(number)).sum()
}

/// Number of windows that these ranges touch, averaged over all page offsets.
pub(super) fn windows(ranges: impl Iterator<Item = Range<u64>>, window: Bytes) -> f64 {
    let page = PageSize::BASE_4K.bytes();
    let offsets = window.0 / page;
    let ranges: Vec<Range<u64>> = ranges.collect();
    let all: u64 =
        (0..offsets).map(|offset| pages(ranges.iter().cloned(), window.0, offset * page)).sum();
    all as f64 / offsets as f64
}

/// Pages of a size that hold some of these ranges, moved by an offset.
pub(super) fn pages(ranges: impl Iterator<Item = Range<u64>>, size: u64, offset: u64) -> u64 {
    let of = |range: Range<u64>| {
        (range.start + offset) / size..=(range.end.max(range.start + 1) - 1 + offset) / size
    };
    let mut all: Vec<_> = ranges.map(of).map(|pages| (*pages.start(), *pages.end())).collect();
    all.sort_unstable();
    let (mut count, mut next) = (0, 0);
    for (first, last) in all {
        let first = first.max(next);
        if last >= first {
            count += last - first + 1;
            next = last + 1;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::Bytes;

    fn program(sizes: &[u64]) -> Vec<BuildSymbol> {
        let function = |(at, kib): (usize, &u64)| BuildSymbol {
            name: at.to_string(),
            bytes: Bytes::kib(*kib),
            ..BuildSymbol::default()
        };
        sizes.iter().enumerate().map(function).collect()
    }

    fn workload(calls: &[usize]) -> Workload {
        Workload { weight: 1.0, calls: calls.to_vec(), ..Workload::default() }
    }

    #[test]
    fn what_two_share_lies_between_what_each_has_of_its_own() {
        let functions = program(&[256, 256, 256]);
        // The first calls 0 and 1, the second 1 and 2.
        let order = arrange(&functions, &[workload(&[0, 1]), workload(&[2, 1])], WINDOW);
        assert_eq!(order[1], 1, "{order:?}");
    }

    #[test]
    fn one_workload_keeps_its_order() {
        let functions = program(&[4, 8, 12]);
        assert_eq!(arrange(&functions, &[workload(&[2, 0, 1])], WINDOW), [2, 0, 1]);
    }

    #[test]
    fn first_calls_of_the_heaviest_come_first() {
        let heavy = Workload { weight: 2.0, ..workload(&[3, 1]) };
        assert_eq!(first_calls(&[workload(&[0, 1]), heavy]), [3, 1, 0]);
    }
}
