//! The published profiles of the producer beside the samples of this machine.
//!
//! The study of [`super::claims`] profiled three of its rungs, on a kernel without pressure-stall accounting. It
//! gives the functions of the producer's call with the largest shares of all samples of both ends. Each share
//! includes what the function calls. Later kernels have other names for some of the functions.

use super::claims::{PUBLISHED, find};
use crate::activity::strip_suffixes;
use pagewise_model::bench::pipe::{PipeBenchReport, PipePoint, PipeWork, PublishedShare};
use pagewise_model::look::{CpuSamples, KernelStack};

/// A line of a published profile.
struct ProfileLine {
    /// Place of the rung among the published ones.
    rung: usize,
    work: PipeWork,
    share: f64,
    /// Part of the name of the producer's call.
    call: &'static str,
    /// The function: its name in the profile, then those on other kernels.
    names: &'static [&'static str],
}

const fn line(
    rung: usize,
    (work, share): (PipeWork, f64),
    call: &'static str,
    names: &'static [&'static str],
) -> ProfileLine {
    ProfileLine { rung, work, share, call, names }
}

const PROFILES: [ProfileLine; 6] = [
    line(0, (PipeWork::Copy, 0.2408), "pipe_write", &["copy_page_from_iter"]),
    line(
        0,
        (PipeWork::PageAllocation, 0.1176),
        "pipe_write",
        &["__alloc_pages", "__alloc_pages_nodemask", "__alloc_frozen_pages"],
    ),
    line(
        2,
        (PipeWork::Pinning, 0.1788),
        "vmsplice",
        &["iov_iter_get_pages", "iov_iter_get_pages2"],
    ),
    line(2, (PipeWork::Locks, 0.1657), "vmsplice", &["__mutex_lock", "__mutex_lock_slowpath"]),
    line(3, (PipeWork::Waiting, 0.149), "vmsplice", &["wait_for_space"]),
    line(3, (PipeWork::Wakeups, 0.0827), "vmsplice", &["__wake_up_common_lock", "__wake_up"]),
];

/// The published profile of `point` with the shares of `samples`; empty if the study did not profile its rung.
pub(super) fn beside(
    ladder: &PipeBenchReport,
    point: &PipePoint,
    samples: &CpuSamples,
) -> Vec<PublishedShare> {
    let is_of_point = |line: &&ProfileLine| {
        find(ladder, &PUBLISHED[line.rung]).is_some_and(|found| std::ptr::eq(found, point))
    };
    let share = |line: &ProfileLine| PublishedShare {
        work: line.work,
        function: line.names[0].to_owned(),
        published_share: line.share,
        share: line.count(samples) as f64 / samples.total() as f64,
    };
    match samples.total() {
        0 => Vec::new(),
        _ => PROFILES.iter().filter(is_of_point).map(share).collect(),
    }
}

impl ProfileLine {
    fn count(&self, samples: &CpuSamples) -> u64 {
        let is_within = |stack: &&KernelStack| {
            let has = |is: &dyn Fn(&str) -> bool| stack.symbols.iter().any(|name| is(name));
            has(&|name| name.contains(self.call))
                && has(&|name| self.names.contains(&strip_suffixes(name)))
        };
        samples.stacks.iter().filter(is_within).map(|stack| stack.count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    #[test]
    fn every_supported_kernel_has_each_function_under_one_of_its_names() {
        let mut kernels: HashMap<&str, HashSet<&str>> = HashMap::new();
        let mut releases = Vec::new();
        for line in include_str!("../../../tests/fixtures/symbols.txt").lines() {
            match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                Some(names) => releases = names.split(' ').collect(),
                None => releases.iter().for_each(|release| {
                    kernels.entry(release).or_default().extend(line.split_ascii_whitespace());
                }),
            }
        }
        assert_eq!(kernels.len(), 7);
        for (release, functions) in kernels {
            for line in &PROFILES {
                let is_known = line.names.iter().any(|name| functions.contains(name));
                assert!(is_known, "Linux {release}: {:?}", line.names);
            }
        }
    }
}
