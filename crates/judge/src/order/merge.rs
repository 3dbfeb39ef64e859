//! Merges several first-call orders into one, by function name.
//!
//! Functions that the same workloads call form a group. Groups are sorted by the weight of the workloads that
//! call them. So the functions that all workloads share come first, and no workload has its functions
//! scattered over the others'. Within a group the order is that of its heaviest workload. `best` gives a
//! better order, but needs a build, because it uses sizes.

use std::cmp::Reverse;
use std::collections::HashMap;

/// A workload: what it weighs, and the functions that it calls.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadCalls {
    /// How much it counts.
    pub weight: f64,
    /// Names by first call.
    pub names: Vec<String>,
}

/// One order for all of `workloads`.
#[must_use]
pub fn merge(workloads: &[WorkloadCalls]) -> Vec<String> {
    let mut places: HashMap<&str, Vec<Option<usize>>> = HashMap::new();
    for (at, workload) in workloads.iter().enumerate() {
        for (place, name) in workload.names.iter().enumerate() {
            let of_name = places.entry(name).or_insert_with(|| vec![None; workloads.len()]);
            of_name[at].get_or_insert(place);
        }
    }
    let mut heaviest: Vec<usize> = (0..workloads.len()).collect();
    heaviest.sort_by(|a, b| workloads[*b].weight.total_cmp(&workloads[*a].weight));
    let key = |places: &[Option<usize>]| {
        let by_weight: Vec<Option<usize>> = heaviest.iter().map(|at| places[*at]).collect();
        let called = |(at, place): (usize, &Option<usize>)| {
            place.map_or(0.0, |_| workloads[heaviest[at]].weight)
        };
        let weight: f64 = by_weight.iter().enumerate().map(called).sum();
        let group: Vec<_> = by_weight.iter().map(|place| Reverse(place.is_some())).collect();
        let place = by_weight.iter().flatten().next().copied();
        (weight, group, place)
    };
    let mut names: Vec<_> = places.iter().map(|(name, places)| (key(places), *name)).collect();
    names.sort_by(|((weight, group, place), name), ((weight2, group2, place2), name2)| {
        weight2.total_cmp(weight).then((group, place, name).cmp(&(group2, place2, name2)))
    });
    names.into_iter().map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(weight: f64, names: &[&str]) -> WorkloadCalls {
        WorkloadCalls { weight, names: names.iter().map(|name| (*name).to_owned()).collect() }
    }

    #[test]
    fn what_all_call_comes_first_and_the_rest_by_weight() {
        let merged = merge(&[
            calls(1.0, &["main", "help", "usage", "print", "main"]),
            calls(5.0, &["start", "main", "work", "print"]),
        ]);
        assert_eq!(merged, ["main", "print", "start", "work", "help", "usage"]);
    }

    #[test]
    fn two_light_workloads_together_outweigh_a_heavier_one() {
        let merged = merge(&[calls(3.0, &["a"]), calls(2.0, &["x", "b"]), calls(2.0, &["b", "y"])]);
        assert_eq!(merged, ["b", "a", "x", "y"]);
        assert!(merge(&[]).is_empty());
    }
}
