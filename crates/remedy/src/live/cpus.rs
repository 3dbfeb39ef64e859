//! The CPUs that the threads of a service may run on.
//!
//! A thread is known by its number and its start, and so is a process that has left the tree: another that has the
//! number by now is nobody's to change. Threads with other CPUs than those that were set have chosen them, and keep
//! them.
//!
//! Not seen: a thread that chooses exactly the CPUs that were set. The kernel keeps no record of who set them
//! (sched_setaffinity(2)), so such a thread gets its former ones back.

use super::Applied;
use pagewise_kernel::affinity;
use pagewise_kernel::proc::image::Birth;
use pagewise_kernel::proc::tree;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Passes over all threads: one that is born while its parent still has the affinity inherits it.
const PASSES: u32 = 20;

/// A thread or process, and the CPUs of its own.
type Own = (Birth, Vec<u32>);

/// What threads may run on now, and what they are to run on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Affinities {
    cpus: Vec<u32>,
    /// By number.
    threads: BTreeMap<i32, Own>,
    /// By number, of its first thread.
    processes: BTreeMap<i32, Own>,
    /// The service's own.
    usual: Vec<u32>,
}

impl Affinities {
    /// Those of the threads of these processes, the service's first one among them.
    pub(super) fn read(root: i32, pids: &[i32], cpus: &[u32]) -> Result<Self, String> {
        let usual = affinity::get(root).map_err(|error| error.to_string())?;
        let cpus = cpus.to_vec();
        let mut all = Self { cpus, threads: BTreeMap::new(), processes: BTreeMap::new(), usual };
        // One that has ended meanwhile needs none.
        let own = |id| Some((id, (Birth::of(id).ok()?, affinity::get(id).ok()?)));
        for &pid in pids {
            all.processes.extend(own(pid));
            all.threads.extend(tree::threads(pid).unwrap_or_default().into_iter().filter_map(own));
        }
        if all.threads.values().all(|(_, own)| *own == all.cpus) {
            return Err(format!("all its threads run on {:?} already", all.cpus));
        }
        Ok(all)
    }

    pub(super) fn change(&self, applied: &mut Applied) {
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

    /// Gives threads that still have ours their own again; how many still have it. `pids` lists the service's
    /// processes now.
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

    /// One pass; threads that had ours when they were looked at.
    fn pass(&self, pids: &[i32]) -> u64 {
        let mut found = 0;
        // Processes that were there and have left the tree since.
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

    /// What a thread of a process is to have.
    fn own(&self, pid: i32, tid: i32) -> &Vec<u32> {
        let is_it = |(birth, _): &&Own| birth.is_there();
        let thread = self.threads.get(&tid).filter(is_it);
        let process = || self.processes.get(&pid).filter(is_it);
        thread.or_else(process).map_or(&self.usual, |(_, own)| own)
    }
}
