//! Following a process that is running already, without stopping it.
//!
//! Every thread gets its own events. Threads that are made meanwhile inherit them from a thread
//! that has some, or are found by listing again, until a listing holds nothing new; one that was
//! found and has inherited as well is counted once (`streams`). Faults count from the moment on at
//! which all threads are followed. What was mapped before is read from `/proc/PID/maps` afterwards,
//! so that no mapping falls between the two. Children that live already are not followed.
//!
//! The process is not stopped, traced or written to. perf_event_open(2) asks for the right to read
//! it (`PTRACE_MODE_READ_REALCREDS`), which `ptrace_scope` does not narrow. Cost to it: some 5 us of
//! interrupts per thread, event and CPU, once.

use super::{Before, FaultRings, Refusal, refusal};
use crate::perf::event;
use pagewise_kernel::proc::stat::{self, Stat};
use pagewise_kernel::proc::{maps, tree};
use pagewise_kernel::{SysError, clock};
use pagewise_model::Bytes;
use pagewise_model::fault::Stacks;
use pagewise_model::fault::event::{Event, Map, What};

/// Listings after which the newest threads are taken to have inherited.
const MOST_LISTINGS: u32 = 20;

impl FaultRings {
    /// Follows process `pid` from now on; with the ends of all faults or of major ones alone, and with
    /// these stacks.
    ///
    /// # Errors
    /// [`Refusal`] where not even faults in user mode can be recorded, or the process is gone.
    pub fn attach(pid: i32, all_ends: bool, stacks: Stacks) -> Result<Self, Refusal> {
        event::allow_descriptors();
        let follow = |rings: &mut Self| rings.add_all_threads(pid);
        let mut all = Self::choose(false, all_ends, stacks, &follow).map_err(|e| refusal(&e))?;
        let stat = stat::read(pid).ok();
        all.since = clock::now();
        all.before = Before {
            faults: stat.as_ref().map(Stat::faults_with_children),
            threads: stat.map_or(0, |stat| u64::from(stat.threads)),
        };
        all.add_what_was_before(pid);
        Ok(all)
    }

    fn add_all_threads(&mut self, pid: i32) -> Result<(), SysError> {
        for _ in 0..MOST_LISTINGS {
            let listed = tree::threads(pid)?;
            let new: Vec<i32> = listed.into_iter().filter(|tid| !self.streams.owns(*tid)).collect();
            let mut added = 0;
            for tid in new {
                match self.add_thread(tid) {
                    Ok(()) => added += 1,
                    // It has ended since it was listed, or is ending.
                    Err(error) if error.is_gone() => {}
                    Err(error) => return Err(error),
                }
            }
            if added == 0 {
                break;
            }
        }
        if self.events.is_empty() {
            let subject = format!("process {pid}");
            return Err(SysError::new("perf_event_open", subject, rustix::io::Errno::SRCH));
        }
        Ok(())
    }

    /// Its threads beyond the first, and its mappings.
    fn add_what_was_before(&mut self, pid: i32) {
        let at_ns = self.since;
        let others = tree::threads(pid).map_or(0, |threads| threads.len().saturating_sub(1));
        for _ in 0..others {
            self.merge.add(0, Event { at_ns, what: What::Fork { pid, parent_pid: pid } });
        }
        // A process that has ended meanwhile has none, and no more faults.
        for mapping in maps::read(pid).unwrap_or_default() {
            let map = Map {
                pid,
                start_address: mapping.start,
                size_bytes: mapping.size(),
                offset_bytes: Bytes(mapping.offset),
                is_executable: mapping.perms.exec,
                is_shared: mapping.perms.shared,
                path: mapping.path.to_string_lossy().into_owned(),
            };
            self.merge.add(0, Event { at_ns, what: What::Map(map) });
        }
    }
}
