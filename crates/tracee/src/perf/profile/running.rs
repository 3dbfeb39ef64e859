//! Following processes that are running already, without stopping them.
//!
//! A process and all below it that this account may observe. Those that are made meanwhile inherit
//! the events of their makers. What is mapped, and under which name, is read when all threads are
//! followed: code that was mapped in between is told by both.

use super::record::Told;
use super::{Profiling, Rings};
use crate::perf::event;
use crate::perf::sampling::refusal;
use pagewise_kernel::SysError;
use pagewise_kernel::proc::{maps, stat, tree};
use pagewise_model::fault::event::Map;
use pagewise_model::{Bytes, Fact};

/// Listings after which the newest threads are taken to have inherited.
const MOST_LISTINGS: u32 = 20;

/// Whom a profile follows from its beginning on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Followed {
    /// Threads of the process and of those below it.
    pub(super) threads: u64,
    /// Processes below it.
    pub(super) children: u64,
    /// Processes below it that may not be observed.
    pub(super) unseen_children: u64,
}

/// Starts sampling process `pid` and all below it from now on, or says why not.
pub(super) fn follow(pid: i32) -> (Fact<Profiling>, Followed) {
    event::allow_descriptors();
    let mut rings = match Rings::open(false) {
        Ok(rings) => rings,
        Err(error) => return (Fact::Missing(refusal(&error)), Followed::default()),
    };
    let mut followed = Followed::default();
    let mut processes = vec![pid];
    if let Err(error) = rings.add_process(pid) {
        return (Fact::Missing(refusal(&error)), followed);
    }
    // A process that has ended has nothing below it.
    for child in tree::descendants(pid).unwrap_or_default() {
        match rings.add_process(child) {
            Ok(()) => processes.push(child),
            Err(error) if error.is_gone() => {}
            Err(_) => followed.unseen_children += 1,
        }
    }
    followed.children = processes.len() as u64 - 1;
    let threads = |pid: &i32| tree::threads(*pid).map_or(0, |threads| threads.len() as u64);
    followed.threads = processes.iter().map(threads).sum();
    let before = processes.iter().flat_map(|pid| what_was_before(*pid)).collect();
    (Profiling::start(rings, before), followed)
}

impl Rings {
    /// Opens the events of every thread of process `pid`.
    fn add_process(&mut self, pid: i32) -> Result<(), SysError> {
        let mut has_any = false;
        for _ in 0..MOST_LISTINGS {
            let listed = tree::threads(pid)?;
            let new: Vec<i32> = listed.into_iter().filter(|tid| !self.streams.owns(*tid)).collect();
            let mut added = false;
            for tid in new {
                match self.add_thread(tid) {
                    Ok(()) => added = true,
                    // It has ended since it was listed, or is ending.
                    Err(error) if error.is_gone() => {}
                    Err(error) => return Err(error),
                }
            }
            has_any |= added;
            if !added {
                break;
            }
        }
        if has_any {
            return Ok(());
        }
        let subject = format!("process {pid}");
        Err(SysError::new("perf_event_open", subject, rustix::io::Errno::SRCH))
    }
}

/// The name of a process and the code that it has mapped.
fn what_was_before(pid: i32) -> Vec<Told> {
    let name = stat::read(pid).map(|stat| Told::Name { pid, name: stat.comm, is_exec: true });
    let code = maps::read(pid).unwrap_or_default().into_iter().filter(|map| map.perms.exec);
    let maps = code.map(|mapping| {
        Told::Map(Map {
            pid,
            start_address: mapping.start,
            size_bytes: mapping.size(),
            offset_bytes: Bytes(mapping.offset),
            is_executable: true,
            is_shared: mapping.perms.shared,
            path: mapping.path.to_string_lossy().into_owned(),
        })
    });
    name.into_iter().chain(maps).collect()
}
