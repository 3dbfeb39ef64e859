//! Profiles running processes without stopping them, until the first one ends, the time is over, or the user
//! has seen enough.
//!
//! It covers a process and all its descendants that this account may observe, with all threads of each
//! (`perf::running`). Mappings and names are read once all threads are followed: code mapped in between is
//! reported by both. CPU time (by the kernel's ticks) and faults are read before and after, so some figures
//! exist even without the right to sample. A process that has been waited for by then has no figures left.

use super::record::ProfileRecord;
use super::{ClockEvents, CpuClockProfiler};
use crate::mapped_file::MappedFiles;
use crate::perf::sampling::refusal;
use crate::perf::{event, running};
use crate::target::{RecordingCourse, TargetProcess};
use pagewise_kernel::proc::stat::{self, ProcessStat};
use pagewise_kernel::proc::tree;
use pagewise_kernel::{SysError, clock};
use pagewise_model::profile::{FollowedProcess, StackSamples};
use pagewise_model::{Fact, Nanos};

/// Profiles `target` and its descendants, and opens their code in `files`. Never stops them.
#[must_use]
pub fn profile_running(
    target: &TargetProcess,
    files: &MappedFiles,
    until: &RecordingCourse<'_>,
) -> (Fact<StackSamples>, FollowedProcess) {
    let pid = target.pid();
    let (profiling, followed) = follow(pid, files);
    let threads = match &profiling {
        Fact::Known(_) => followed.threads,
        Fact::Missing(_) => tree::threads(pid).map_or(0, |threads| threads.len() as u64),
    };
    let (before, start) = (target.stat(), clock::now());
    (until.begun)(threads);
    let has_ended = target.attend(until);
    let wall_ns = Nanos(clock::now().0.saturating_sub(start.0));
    let after = target.stat();
    let between = |of: fn(&ProcessStat) -> u64| {
        let (before, after) = (before.known()?, after.known()?);
        Some(of(after).saturating_sub(of(before)))
    };
    let samples = profiling.and_then(CpuClockProfiler::finish);
    let course = FollowedProcess {
        pid,
        threads,
        children: followed.children,
        unseen_children: followed.unseen_children,
        wall_ns,
        user_ns: between(|stat| stat.user_ticks).map(ticks),
        sys_ns: between(|stat| stat.system_ticks).map(ticks),
        faults: between(ProcessStat::faults_with_children),
        has_ended,
    };
    (samples, course)
}

fn ticks(count: u64) -> Nanos {
    let a_second = rustix::param::clock_ticks_per_second().max(1);
    Nanos(count.saturating_mul(1_000_000_000 / a_second))
}

/// Processes that a profile follows from its beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ProfiledProcesses {
    /// Threads of the process and of its descendants.
    threads: u64,
    /// Number of descendants.
    children: u64,
    /// Descendants that may not be observed.
    unseen_children: u64,
}

/// Starts sampling process `pid` and all its descendants from now on, or says why not.
fn follow(pid: i32, files: &MappedFiles) -> (Fact<CpuClockProfiler>, ProfiledProcesses) {
    event::allow_descriptors();
    let mut events = match ClockEvents::open(false) {
        Ok(events) => events,
        Err(error) => return (Fact::Missing(refusal(&error)), ProfiledProcesses::default()),
    };
    let mut followed = ProfiledProcesses::default();
    let mut processes = vec![pid];
    if let Err(error) = events.add_process(pid) {
        return (Fact::Missing(refusal(&error)), followed);
    }
    // A process that has ended has no descendants.
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
    (CpuClockProfiler::start(events, before, files, None), followed)
}

impl ClockEvents {
    /// Opens the events of every thread of process `pid`.
    fn add_process(&mut self, pid: i32) -> Result<(), SysError> {
        running::add_threads(self, pid, |all, tid| all.rings.owns(tid), Self::add_thread)
    }
}

/// The name of a process and its mapped code.
fn what_was_before(pid: i32) -> Vec<ProfileRecord> {
    let name =
        stat::read(pid).map(|stat| ProfileRecord::Name { pid, name: stat.comm, is_exec: true });
    let code = running::mapped(pid).filter(|map| map.is_executable);
    name.into_iter().chain(code.map(ProfileRecord::Map)).collect()
}
