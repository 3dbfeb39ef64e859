//! Following a process that is running already, without stopping it.
//!
//! How all its threads are found is `perf::running`'s. Faults count from the moment on at which they are
//! followed. What was mapped before is read from `/proc/PID/maps` afterwards, so that no mapping falls
//! between the two. Children that live already are not followed.

use super::{Before, Detail, FaultRings, Refusal, refusal};
use crate::perf::{event, running};
use pagewise_kernel::clock;
use pagewise_kernel::proc::stat::{self, Stat};
use pagewise_kernel::proc::tree;
use pagewise_model::fault::Stacks;
use pagewise_model::fault::event::{Event, What};

impl FaultRings {
    /// Follows process `pid` from now on; with the ends of all faults or of major ones alone, and with
    /// these stacks.
    ///
    /// # Errors
    /// [`Refusal`] where not even faults in user mode can be recorded, or the process is gone.
    pub fn attach(pid: i32, detail: Detail, stacks: Stacks) -> Result<Self, Refusal> {
        event::allow_descriptors();
        let owns = |all: &Self, tid| all.rings.owns(tid);
        let follow = |all: &mut Self| running::add_threads(all, pid, owns, Self::add_thread);
        let mut all = Self::choose(false, detail, stacks, &follow).map_err(|e| refusal(&e))?;
        let stat = stat::read(pid).ok();
        all.since = clock::now();
        all.before = Before {
            faults: stat.as_ref().map(Stat::faults_with_children),
            threads: stat.map_or(0, |stat| u64::from(stat.threads)),
        };
        all.add_what_was_before(pid);
        Ok(all)
    }

    /// Its threads beyond the first, and its mappings.
    fn add_what_was_before(&mut self, pid: i32) {
        let at_ns = self.since;
        let others = tree::threads(pid).map_or(0, |threads| threads.len().saturating_sub(1));
        for _ in 0..others {
            self.merge.add(0, Event { at_ns, what: What::Fork { pid, parent_pid: pid } });
        }
        for map in running::mapped(pid) {
            self.merge.add(0, Event { at_ns, what: What::Map(map) });
        }
    }
}
