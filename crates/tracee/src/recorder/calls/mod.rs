//! Reads the kernel's fault counters of each thread at each of its system calls.
//!
//! Faults inside a call (the kernel copies to memory, populates, pins, builds an image) are in rusage, but
//! without privileges in no event. Faults of pinning are in no event at all. Here the whole tree is traced
//! (ptrace(2), PTRACE_O_TRACESYSGOOD). The counter of a thread (`/proc/TID/task/TID/stat`, fields 10 and 12)
//! is read where a call begins and where it ends; the difference was taken inside. The times are kept, so
//! that recorded faults can be distinguished from those outside. A new thread or process starts with a
//! counter of 0, so its first stop shows the cost of its creation. Threads are released when they are about
//! to exit, so that their parents wait for them as usual. Tracing ends with the program.
//!
//! Not seen: kernel faults outside of calls (signal frames, the end of a process).
//!
//! A traced program runs as under strace(1): a set-user-id program runs without its rights, and the program
//! cannot trace others. Cost: two stops of some 20 us per call. Number, order and cost of faults stay the
//! same; the time between them does not.

mod names;

use super::exec_stop;
use crate::launch::{LaunchError, RunningProgram, SuspendedProgram};
use crate::ptrace::PtraceStop;
use crate::ptrace::request::{self, SyscallNumber};
use crate::{signals, wait};
use pagewise_kernel::proc::{stat, status};
use pagewise_kernel::{SysError, clock};
use pagewise_model::fault::{CallKind, CallSpan, CallTally, ExecCounts, ThreadCalls};
use pagewise_model::{Fact, Nanos};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

/// Events reported for every thread of the tree.
const EVENTS: i32 = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACEEXIT;

/// Result of following a program.
#[derive(Debug)]
pub(crate) struct FollowOutcome {
    /// Counts right after the program was executed.
    pub(crate) exec: Fact<ExecCounts>,
    pub(crate) calls: Fact<ThreadCalls>,
}

/// A program that is being followed.
#[derive(Debug)]
pub(crate) struct FollowedProgram(JoinHandle<Result<CallFollower, SysError>>);

impl FollowedProgram {
    /// Waits for the end of the program, which should be near.
    pub(crate) fn finish(self) -> FollowOutcome {
        match self.0.join() {
            Ok(Ok(follower)) => follower.finish(),
            Ok(Err(error)) => FollowOutcome::nothing(&error.to_string()),
            Err(_) => FollowOutcome::nothing("the thread that follows calls died"),
        }
    }
}

impl FollowOutcome {
    /// For a program whose calls are not followed.
    pub(crate) fn at_exec(exec: Fact<ExecCounts>) -> Self {
        Self { exec, calls: Fact::missing("not requested") }
    }

    fn nothing(why: &str) -> Self {
        Self { exec: Fact::missing(why), calls: Fact::missing(why) }
    }
}

/// Releases the child, so that it executes its program, and follows it and its tree.
///
/// # Errors
/// [`LaunchError`] when the program cannot be started.
pub(crate) fn release(
    child: SuspendedProgram,
) -> Result<(RunningProgram, FollowedProgram), LaunchError> {
    let pid = child.pid();
    let (seized, is_seized) = mpsc::channel::<()>();
    let follow = move || {
        request::seize(pid, EVENTS)?;
        drop(seized);
        CallFollower::new(pid).serve()
    };
    let thread = thread::Builder::new().name("calls".to_owned()).spawn(follow);
    let thread = thread.map_err(|e| LaunchError::call("clone", "a thread that follows", &e))?;
    // Nothing is sent: the channel closes when the child is seized, or cannot be.
    let _seized = is_seized.recv();
    let running = child.release_unconfirmed()?;
    match running.exec_error() {
        None => Ok((running, FollowedProgram(thread))),
        Some(error) => {
            // In this order: waiting for a child consumes the stops that another thread waits for.
            let _nothing = thread.join();
            let _gone = wait::reap(pid);
            Err(error)
        }
    }
}

/// State of a thread of the tree.
#[derive(Debug, Clone, Copy)]
struct CallingThread {
    pid: i32,
    call: Option<EnteredCall>,
}

/// The current call of a thread.
#[derive(Debug, Clone, Copy)]
struct EnteredCall {
    call: SyscallNumber,
    at: Nanos,
    /// Fault count of the thread at the entry.
    faults: u64,
}

#[derive(Debug)]
struct CallFollower {
    root: i32,
    threads: HashMap<i32, CallingThread>,
    exec: Option<Fact<ExecCounts>>,
    by_call: BTreeMap<SyscallNumber, u64>,
    /// Faults of threads and processes before their first stop.
    at_birth: u64,
    /// Time spans of the faults that are in the counts above.
    inside: Vec<CallSpan>,
}

impl CallFollower {
    fn new(root: i32) -> Self {
        let first = CallingThread { pid: root, call: None };
        Self {
            root,
            threads: HashMap::from([(root, first)]),
            exec: None,
            by_call: BTreeMap::new(),
            at_birth: 0,
            inside: Vec::new(),
        }
    }

    /// Serves stops until the program has ended. Threads that it leaves behind are released when this thread
    /// ends.
    fn serve(mut self) -> Result<Self, SysError> {
        while self.threads.values().any(|thread| thread.pid == self.root) {
            let found = request::wait_stops()?;
            if found.is_empty() {
                break;
            }
            for (tid, stop) in found {
                if stop.is_end() {
                    self.threads.remove(&tid);
                } else {
                    // A thread killed meanwhile reports its end separately.
                    drop(self.stopped(tid, stop));
                }
            }
        }
        Ok(self)
    }

    fn stopped(&mut self, tid: i32, stop: PtraceStop) -> Result<(), SysError> {
        self.add_new(tid)?;
        match stop {
            PtraceStop::Signal(signal) => request::syscall(tid, signal),
            PtraceStop::Group(_) => signals::park(tid, self.root),
            PtraceStop::Exit => {
                self.threads.remove(&tid);
                request::detach(tid, 0)
            }
            PtraceStop::Exec => {
                self.executed(tid)?;
                request::syscall(tid, 0)
            }
            PtraceStop::Syscall => {
                self.at_call(tid)?;
                request::syscall(tid, 0)
            }
            _ => request::syscall(tid, 0),
        }
    }

    /// Adds a thread at its first stop.
    fn add_new(&mut self, tid: i32) -> Result<(), SysError> {
        if self.threads.contains_key(&tid) {
            return Ok(());
        }
        let pid = status::read(tid)?.tgid.unwrap_or(tid);
        self.at_birth += stat::read_thread(tid)?.faults();
        self.inside_since_birth(tid);
        self.threads.insert(tid, CallingThread { pid, call: None });
        Ok(())
    }

    fn inside_since_birth(&mut self, tid: i32) {
        self.inside.push(CallSpan { tid, from_ns: Nanos(0), until_ns: clock::now() });
    }

    fn at_call(&mut self, tid: i32) -> Result<(), SysError> {
        let (at, faults) = (clock::now(), stat::read_thread(tid)?.faults());
        let entered = request::call_entered(tid)?.map(|call| EnteredCall { call, at, faults });
        let Some(thread) = self.threads.get_mut(&tid) else { return Ok(()) };
        let before = std::mem::replace(&mut thread.call, entered);
        if let (None, Some(before)) = (entered, before) {
            let taken = faults.saturating_sub(before.faults);
            *self.by_call.entry(before.call).or_default() += taken;
            if taken > 0 {
                self.inside.push(CallSpan { tid, from_ns: before.at, until_ns: at });
            }
        }
        Ok(())
    }

    /// A new image exists, the first or a later one. If a thread other than the first called exec, it takes
    /// the process's number. All other threads of the process have ended.
    fn executed(&mut self, tid: i32) -> Result<(), SysError> {
        if self.exec.is_none() {
            self.exec = Some(exec_stop::counts(tid).into());
            self.inside_since_birth(tid);
        }
        let former = i32::try_from(request::event_message(tid)?).unwrap_or(tid);
        let call = self.threads.get(&former).and_then(|thread| thread.call);
        self.threads.retain(|other, thread| thread.pid != tid || *other == tid);
        self.threads.insert(tid, CallingThread { pid: tid, call });
        Ok(())
    }

    fn finish(mut self) -> FollowOutcome {
        self.inside.sort_unstable();
        let named = self.by_call.into_iter().map(|(call, faults)| {
            let (call, kind) = names::of(call);
            CallTally { call, kind, faults }
        });
        let born =
            CallTally { call: "(start)".to_owned(), kind: CallKind::Start, faults: self.at_birth };
        let mut calls: Vec<CallTally> =
            named.chain([born]).filter(|tally| tally.faults > 0).collect();
        calls.sort_by(|a, b| (Reverse(a.faults), &a.call).cmp(&(Reverse(b.faults), &b.call)));
        FollowOutcome {
            exec: self.exec.unwrap_or_else(|| Fact::missing("no program was executed")),
            calls: Fact::Known(ThreadCalls { calls, inside: self.inside }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::{self, ProgramLaunch};
    use pagewise_model::usage::ProgramEnd;

    /// Runs `script` in a shell; `None` if it cannot be traced.
    fn followed(script: &str) -> Option<(FollowOutcome, ProgramEnd, u64)> {
        let argv = ["sh", "-c", script].map(Into::into).to_vec();
        let child = launch::spawn(&ProgramLaunch::experiment(argv), &[]).unwrap();
        let (running, following) = release(child).unwrap();
        let followed = following.finish();
        let (status, usage) = wait::reap(running.pid()).unwrap();
        let counted = usage.ru_minflt.unsigned_abs() + usage.ru_majflt.unsigned_abs();
        followed.exec.known()?;
        Some((followed, wait::ended(status), counted))
    }

    #[test]
    fn a_tree_runs_to_its_end_and_its_calls_are_counted() {
        let script = "(exit 3); a=$?; true | cat; trap : USR1; kill -USR1 $$; exit $a";
        let Some((followed, ended, counted)) = followed(script) else { return };
        assert_eq!(ended, ProgramEnd::Exited(3));
        let calls = followed.calls.known().unwrap();
        let start = calls.faults(CallKind::Start);
        // cat was created and executed: that takes at least its stack and its image.
        assert!(start >= 5 && start < counted, "{calls:?} of {counted}");
        assert!(calls.calls.iter().any(|call| call.call == "execve"), "{calls:?}");
        assert!(calls.calls.windows(2).all(|two| two[0].faults >= two[1].faults));
        // The first exec, three children, and the exec of one.
        assert!(calls.inside.len() >= 5, "{calls:?}");
        assert!(calls.inside.iter().all(|inside| inside.from_ns < inside.until_ns), "{calls:?}");
        assert!(calls.inside.is_sorted());
    }

    #[test]
    fn what_a_program_leaves_behind_lives_on() {
        let dir = tempfile::tempdir().unwrap();
        let done = dir.path().join("done");
        let script = format!("(sleep 0.2; echo > {}) & exit 0", done.display());
        let Some((_, ended, _)) = followed(&script) else { return };
        assert_eq!(ended, ProgramEnd::Exited(0));
        let start = std::time::Instant::now();
        while !done.exists() {
            assert!(start.elapsed().as_secs() < 20, "it has been stopped");
            thread::yield_now();
        }
    }

    #[test]
    fn a_program_that_cannot_be_executed_is_told() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let damaged = dir.path().join("damaged");
        std::fs::write(&damaged, b"\x7fELF\0\0\0\0").unwrap();
        std::fs::set_permissions(&damaged, std::fs::Permissions::from_mode(0o755)).unwrap();
        let child = launch::spawn(&ProgramLaunch::experiment(vec![damaged.into()]), &[]).unwrap();
        assert!(release(child).is_err());
    }
}
