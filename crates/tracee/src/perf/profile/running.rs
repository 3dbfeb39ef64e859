//! Following processes that are running already, without stopping them.
//!
//! A process and all below it that this account may observe, all threads of each (`perf::running`). What is mapped, and under which name, is read when all threads are
//! followed: code that was mapped in between is told by both.

use super::record::Told;
use super::{Events, Profiling};
use crate::perf::sampling::refusal;
use crate::perf::{event, running};
use pagewise_kernel::SysError;
use pagewise_kernel::proc::{stat, tree};
use pagewise_model::Fact;

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
    let mut events = match Events::open(false) {
        Ok(events) => events,
        Err(error) => return (Fact::Missing(refusal(&error)), Followed::default()),
    };
    let mut followed = Followed::default();
    let mut processes = vec![pid];
    if let Err(error) = events.add_process(pid) {
        return (Fact::Missing(refusal(&error)), followed);
    }
    // A process that has ended has nothing below it.
    for child in tree::descendants(pid).unwrap_or_default() {
        match events.add_process(child) {
            Ok(()) => processes.push(child),
            Err(error) if error.is_gone() => {}
            Err(_) => followed.unseen_children += 1,
        }
    }
    followed.children = processes.len() as u64 - 1;
    let threads = |pid: &i32| tree::threads(*pid).map_or(0, |threads| threads.len() as u64);
    followed.threads = processes.iter().map(threads).sum();
    let before = processes.iter().flat_map(|pid| what_was_before(*pid)).collect();
    (Profiling::start(events, before), followed)
}

impl Events {
    /// Opens the events of every thread of process `pid`.
    fn add_process(&mut self, pid: i32) -> Result<(), SysError> {
        running::add_threads(self, pid, |all, tid| all.rings.owns(tid), Self::add_thread)
    }
}

/// The name of a process and the code that it has mapped.
fn what_was_before(pid: i32) -> Vec<Told> {
    let name = stat::read(pid).map(|stat| Told::Name { pid, name: stat.comm, is_exec: true });
    let code = running::mapped(pid).filter(|map| map.is_executable);
    name.into_iter().chain(code.map(Told::Map)).collect()
}
