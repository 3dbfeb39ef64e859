//! The CPUs that the threads of a service may run on.
//!
//! A thread is identified by its number and its start time, and so is a process that has left the tree.
//! Another process that has the number by now is never changed. Threads with other CPUs than those that were
//! set have chosen them, and keep them.
//!
//! Not seen: a thread that chooses exactly the CPUs that were set. The kernel does not record who set them
//! (sched_setaffinity(2)), so such a thread gets its previous CPUs back.

use super::LiveResult;
use pagewise_kernel::affinity;
use pagewise_kernel::proc::image::TaskIdentity;
use pagewise_kernel::proc::tree;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Passes over all threads: a new thread inherits the affinity if its parent still has it.
const PASSES: u32 = 20;

/// A thread or process, and its original CPUs.
type Own = (TaskIdentity, Vec<u32>);

/// Current CPUs of the threads, and the CPUs to set.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ThreadAffinities {
    cpus: Vec<u32>,
    /// By number.
    threads: BTreeMap<i32, Own>,
    /// By process id: the CPUs of the first thread.
    processes: BTreeMap<i32, Own>,
    /// The CPUs of the service's first process.
    usual: Vec<u32>,
}

impl ThreadAffinities {
    /// Reads those of the threads of these processes. `root` is the service's first process.
    pub(super) fn read(root: i32, pids: &[i32], cpus: &[u32]) -> Result<Self, String> {
        let usual = affinity::get(root).map_err(|error| error.to_string())?;
        let cpus = cpus.to_vec();
        let mut all = Self { cpus, threads: BTreeMap::new(), processes: BTreeMap::new(), usual };
        // A thread that has ended meanwhile is skipped.
        let own = |id| Some((id, (TaskIdentity::of(id).ok()?, affinity::get(id).ok()?)));
        for &pid in pids {
            all.processes.extend(own(pid));
            all.threads.extend(tree::threads(pid).unwrap_or_default().into_iter().filter_map(own));
        }
        if all.threads.values().all(|(_, own)| *own == all.cpus) {
            return Err(format!("all its threads run on {:?} already", all.cpus));
        }
        Ok(all)
    }

    pub(super) fn change(&self, applied: &mut LiveResult) {
        for (birth, _) in self.threads.values().filter(|(birth, _)| birth.is_there()) {
            match affinity::set(birth.id(), &self.cpus) {
                Ok(()) => applied.changed += 1,
                Err(error) if error.is_gone() => {}
                Err(error) => {
                    applied.refused += 1;
                    applied.why = Some(error.to_string());
                }
            }
        }
    }

    /// Restores the original CPUs of threads that still have the set ones. Returns how many still have them.
    /// `pids` lists the current processes of the service.
    pub(super) fn restore(&self, pids: &dyn Fn() -> Vec<i32>) -> u64 {
        let mut left = 0;
        for _ in 0..PASSES {
            left = self.pass(&pids());
            if left == 0 {
                break;
            }
        }
        left
    }

    /// Makes one pass. Returns how many threads had the set CPUs when they were examined.
    fn pass(&self, pids: &[i32]) -> u64 {
        let mut found = 0;
        // Known processes that have left the tree since.
        let has_left = |(pid, (birth, _)): &(&i32, &Own)| !pids.contains(pid) && birth.is_there();
        let left = self.processes.iter().filter(has_left).map(|(pid, _)| pid);
        for &pid in pids.iter().chain(left) {
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

    /// The CPUs that a thread of a process should have.
    fn own(&self, pid: i32, tid: i32) -> &Vec<u32> {
        let is_it = |(birth, _): &&Own| birth.is_there();
        let thread = self.threads.get(&tid).filter(is_it);
        let process = || self.processes.get(&pid).filter(is_it);
        thread.or_else(process).map_or(&self.usual, |(_, own)| own)
    }
}
