//! The CPUs that the threads of a service may run on.

use super::Applied;
use pagewise_kernel::affinity;
use pagewise_kernel::proc::{stat, tree};
use pagewise_tracee::tree::Tree;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Passes over all threads: one that is born while its parent still has the affinity inherits it.
const PASSES: u32 = 20;

/// What threads may run on now, and what they are to run on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Affinities {
    cpus: Vec<u32>,
    /// By thread, with when it was born.
    threads: BTreeMap<i32, (u64, Vec<u32>)>,
    /// By process, of its first thread.
    processes: BTreeMap<i32, Vec<u32>>,
    /// The service's own.
    usual: Vec<u32>,
}

impl Affinities {
    /// Those of the threads of these processes, the service's first one among them.
    pub(super) fn read(root: i32, pids: &[i32], cpus: &[u32]) -> Result<Self, String> {
        let usual = affinity::get(root).map_err(|error| error.to_string())?;
        let cpus = cpus.to_vec();
        let mut all = Self { cpus, threads: BTreeMap::new(), processes: BTreeMap::new(), usual };
        for &pid in pids {
            all.processes.extend(affinity::get(pid).ok().map(|own| (pid, own)));
            for tid in tree::threads(pid).unwrap_or_default() {
                // One that has ended meanwhile needs none.
                let (Ok(own), Ok(stat)) = (affinity::get(tid), stat::read_thread(tid)) else {
                    continue;
                };
                all.threads.insert(tid, (stat.start_ticks, own));
            }
        }
        if all.threads.values().all(|(_, own)| *own == all.cpus) {
            return Err(format!("all its threads run on {:?} already", all.cpus));
        }
        Ok(all)
    }

    pub(super) fn change(&self, applied: &mut Applied) {
        for tid in self.threads.keys() {
            match affinity::set(*tid, &self.cpus) {
                Ok(()) => applied.changed += 1,
                Err(error) if error.is_gone() => {}
                Err(error) => {
                    applied.refused += 1;
                    applied.why = Some(error.to_string());
                }
            }
        }
    }

    /// Gives threads that still have ours their own again; how many still have it.
    pub(super) fn restore(&self, live: &mut Tree) -> u64 {
        let mut left = 0;
        for _ in 0..PASSES {
            live.refresh();
            left = self.pass(live.pids());
            if left == 0 {
                break;
            }
        }
        left
    }

    /// One pass; threads that had ours when they were looked at.
    fn pass(&self, pids: &[i32]) -> u64 {
        let mut found = 0;
        // Processes that were there and have left the tree since.
        let gone = self.processes.keys().filter(|pid| !pids.contains(pid));
        for &pid in pids.iter().chain(gone) {
            for tid in tree::threads(pid).unwrap_or_default() {
                let own = self.own(pid, tid);
                let has_ours = affinity::get(tid).is_ok_and(|now| now == self.cpus);
                if has_ours && *own != self.cpus {
                    found += 1;
                    let _gone_or_again = affinity::set(tid, own);
                }
            }
        }
        found
    }

    /// What a thread of a process is to have.
    fn own(&self, pid: i32, tid: i32) -> &Vec<u32> {
        let born = stat::read_thread(tid).map(|stat| stat.start_ticks).ok();
        let known = self.threads.get(&tid).filter(|(ticks, _)| Some(*ticks) == born);
        let of_process = || self.processes.get(&pid).unwrap_or(&self.usual);
        known.map_or_else(of_process, |(_, own)| own)
    }
}
