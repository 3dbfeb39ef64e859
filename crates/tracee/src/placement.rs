//! Places processes that are connected by pipes on different CPUs.
//!
//! The descriptors show which process writes to which: a process with a writing end feeds every other process
//! with a reading end of the same pipe. Along such a chain the given CPUs alternate, so that neighbours run
//! on different ones. Placement only restricts the scheduler's choice: it changes the affinity of all threads
//! of a process and nothing else. Processes started later inherit it.
//!
//! Cost: the descriptor scan of `pipes`, and 1-2 us for each thread placed.

use crate::pipes::PipeEnd;
use pagewise_kernel::proc::tree;
use pagewise_kernel::{SysError, affinity};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Which process feeds which, by pipes that are not `foreign`.
#[must_use]
pub fn edges(ends: &[PipeEnd], foreign: &HashSet<u64>) -> BTreeSet<(i32, i32)> {
    let mut readers: HashMap<u64, BTreeSet<i32>> = HashMap::new();
    for end in ends.iter().filter(|e| e.reads) {
        readers.entry(end.inode).or_default().insert(end.pid);
    }
    let mut found = BTreeSet::new();
    for end in ends.iter().filter(|e| e.writes && !foreign.contains(&e.inode)) {
        for reader in readers.get(&end.inode).into_iter().flatten() {
            if *reader != end.pid {
                found.insert((end.pid, *reader));
            }
        }
    }
    found
}

/// Assigns CPUs to processes. A process keeps its CPU.
#[derive(Debug)]
pub struct CpuPlacer {
    cpus: Vec<u32>,
    placed: BTreeMap<i32, u32>,
}

impl CpuPlacer {
    /// A placer that alternates over `cpus`.
    #[must_use]
    pub const fn new(cpus: Vec<u32>) -> Self {
        Self { cpus, placed: BTreeMap::new() }
    }

    /// The processes of `edges` without a CPU, with one for each: the CPU after its feeder's, or the first
    /// CPU.
    pub fn assign(&mut self, edges: &BTreeSet<(i32, i32)>) -> Vec<(i32, u32)> {
        let alive: BTreeSet<i32> = edges.iter().flat_map(|(a, b)| [*a, *b]).collect();
        self.placed.retain(|pid, _| alive.contains(pid));
        let mut fresh = Vec::new();
        if alive.iter().all(|pid| self.placed.contains_key(pid)) {
            return fresh;
        }
        for pid in sources_first(edges, &alive) {
            if self.placed.contains_key(&pid) {
                continue;
            }
            let feeder = edges
                .iter()
                .filter(|(_, to)| *to == pid)
                .find_map(|(from, _)| self.placed.get(from));
            let reader = edges
                .iter()
                .filter(|(from, _)| *from == pid)
                .find_map(|(_, to)| self.placed.get(to));
            let Some(cpu) = self.next_to(feeder.or(reader).copied()) else { break };
            self.placed.insert(pid, cpu);
            fresh.push((pid, cpu));
        }
        fresh
    }

    fn next_to(&self, neighbour: Option<u32>) -> Option<u32> {
        let place = neighbour.and_then(|n| self.cpus.iter().position(|c| *c == n));
        let next = place.map_or(0, |p| (p + 1) % self.cpus.len().max(1));
        self.cpus.get(next).copied()
    }
}

/// Processes ordered so that feeders come before the processes they feed, else by id. In a cycle, the lowest
/// id comes next.
fn sources_first(edges: &BTreeSet<(i32, i32)>, all: &BTreeSet<i32>) -> Vec<i32> {
    let mut feeders: HashMap<i32, usize> = HashMap::new();
    edges.iter().for_each(|(_, to)| *feeders.entry(*to).or_default() += 1);
    let mut left = all.clone();
    let mut free: BTreeSet<i32> =
        all.iter().copied().filter(|pid| !feeders.contains_key(pid)).collect();
    let mut order = Vec::with_capacity(all.len());
    while let Some(next) = free.pop_first().or_else(|| left.first().copied()) {
        left.remove(&next);
        order.push(next);
        for (_, to) in edges.range((next, i32::MIN)..=(next, i32::MAX)) {
            let count = feeders.entry(*to).or_default();
            *count = count.saturating_sub(1);
            if *count == 0 && left.contains(to) {
                free.insert(*to);
            }
        }
    }
    order
}

/// Puts every thread of `pid` on `cpu`; returns the number of threads placed.
///
/// # Errors
/// When no thread could be placed. A process that has ended has no threads and is not an error.
pub fn place(pid: i32, cpu: u32) -> Result<u32, SysError> {
    let mut placed = 0;
    let mut refused = None;
    for thread in tree::threads(pid).unwrap_or_default() {
        match affinity::set(thread, &[cpu]) {
            Ok(()) => placed += 1,
            Err(error) if error.is_gone() => {}
            Err(error) => refused = Some(error),
        }
    }
    match refused {
        Some(error) if placed == 0 => Err(error),
        _ => Ok(placed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipe(inode: u64, writer: i32, reader: i32) -> [PipeEnd; 2] {
        let end = |pid, writes: bool| PipeEnd { pid, fd: 0, inode, reads: !writes, writes };
        [end(writer, true), end(reader, false)]
    }

    #[test]
    fn edges_leave_out_foreign_pipes_and_oneself() {
        let ends = [pipe(1, 10, 11), pipe(2, 11, 12), pipe(3, 12, 13), pipe(4, 10, 10)].concat();
        let found = edges(&ends, &HashSet::from([3]));
        assert_eq!(found, BTreeSet::from([(10, 11), (11, 12)]));
    }

    #[test]
    fn a_chain_alternates_whatever_the_order_of_ids() {
        let chain = BTreeSet::from([(30, 20), (20, 10)]);
        let mut placer = CpuPlacer::new(vec![0, 1]);
        let placed: BTreeMap<_, _> = placer.assign(&chain).into_iter().collect();
        assert_eq!(placed, BTreeMap::from([(30, 0), (20, 1), (10, 0)]));
        assert!(placer.assign(&chain).is_empty());
        let longer = BTreeSet::from([(30, 20), (20, 10), (10, 40)]);
        assert_eq!(placer.assign(&longer), [(40, 1)]);
    }

    #[test]
    fn feeders_come_first_and_the_lowest_id_breaks_a_cycle() {
        let order = |edges: &[(i32, i32)]| {
            let edges = BTreeSet::from_iter(edges.iter().copied());
            let all = edges.iter().flat_map(|(a, b)| [*a, *b]).collect();
            sources_first(&edges, &all)
        };
        assert_eq!(order(&[(30, 20), (20, 10), (30, 10)]), [30, 20, 10]);
        assert_eq!(order(&[(2, 1), (1, 2), (2, 3), (9, 4)]), [9, 4, 1, 2, 3]);
        let chain: Vec<(i32, i32)> = (0..5_000).map(|n| (5_000 - n, 4_999 - n)).collect();
        assert!(order(&chain).into_iter().eq((0..=5_000).rev()));
    }

    #[test]
    fn a_cycle_ends_and_no_cpus_places_nobody() {
        let ring = BTreeSet::from([(1, 2), (2, 1)]);
        let mut placer = CpuPlacer::new(vec![4, 5]);
        let cpus: BTreeSet<u32> = placer.assign(&ring).into_iter().map(|(_, c)| c).collect();
        assert_eq!(cpus, BTreeSet::from([4, 5]));
        assert!(CpuPlacer::new(vec![]).assign(&ring).is_empty());
    }
}
