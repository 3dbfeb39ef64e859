//! What the kernel's counters of each thread say at each of its system calls.
//!
//! Faults that a thread takes inside a call (the kernel copies into its memory, populates, pins,
//! builds an image) are in rusage, and without rights in no event; those of pinning are in none at
//! all. Here the whole tree is traced (ptrace(2), PTRACE_O_TRACESYSGOOD): the counter of a thread
//! (`/proc/TID/task/TID/stat`, fields 10 and 12) is read where a call begins and where it ends, and
//! what lies between was taken inside; when that was is kept, so that recorded faults can be told from
//! those outside. A new thread or process has begun with a counter of 0, so its first stop tells what
//! being made has cost it. Threads are let go when they are about to exit, so
//! that their parents wait for them as ever; the tracing ends with the program.
//!
//! Not seen: faults outside of calls that the kernel takes (signal frames, the end of a process).
//! A traced program runs like one under strace(1): one with rights of another user (setuid) runs
//! without them, and it cannot trace others. Cost: two stops of some 20 us a call. Pages, order and
//! price of faults stay what they are; the time between them does not.

mod names;

use super::exec_stop;
use crate::launch::{LaunchError, Running, Suspended};
use crate::ptrace::Stop;
use crate::ptrace::request::{self, Call};
use crate::{signals, wait};
use pagewise_kernel::proc::{stat, status};
use pagewise_kernel::{SysError, clock};
use pagewise_model::fault::{CallKind, CallTally, ExecCounts, Inside, ThreadCalls};
use pagewise_model::{Fact, Nanos};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

/// What is reported of every thread of the tree.
const EVENTS: i32 = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACEEXIT;

/// What following a program has come to.
#[derive(Debug)]
pub(crate) struct Followed {
    /// The counts when the program had just been executed.
    pub(crate) exec: Fact<ExecCounts>,
    pub(crate) calls: Fact<ThreadCalls>,
}

/// A program that is being followed.
#[derive(Debug)]
pub(crate) struct Following(JoinHandle<Result<Follower, SysError>>);

impl Following {
    /// Waits for the end of the program, which should be near.
    pub(crate) fn finish(self) -> Followed {
        match self.0.join() {
            Ok(Ok(follower)) => follower.finish(),
            Ok(Err(error)) => Followed::nothing(&error.to_string()),
            Err(_) => Followed::nothing("the thread that follows calls died"),
        }
    }
}

impl Followed {
    /// Of a program whose calls are not followed.
    pub(crate) fn at_exec(exec: Fact<ExecCounts>) -> Self {
        Self { exec, calls: Fact::missing("not requested") }
    }

    fn nothing(why: &str) -> Self {
        Self { exec: Fact::missing(why), calls: Fact::missing(why) }
    }
}

/// Lets the child become its program and follows it and its tree.
///
/// # Errors
/// [`LaunchError`] when the program cannot be started.
pub(crate) fn release(child: Suspended) -> Result<(Running, Following), LaunchError> {
    let pid = child.pid();
    let (seized, is_seized) = mpsc::channel::<()>();
    let follow = move || {
        request::seize(pid, EVENTS)?;
        drop(seized);
        Follower::new(pid).serve()
    };
    let thread = thread::Builder::new().name("calls".to_owned()).spawn(follow);
    let thread = thread.map_err(|e| LaunchError::call("clone", "a thread that follows", &e))?;
    // Nothing is sent: the other end goes once the child is seized, or cannot be.
    let _seized = is_seized.recv();
    let running = child.release_unconfirmed()?;
    match running.exec_error() {
        None => Ok((running, Following(thread))),
        Some(error) => {
            // In this order: waiting for a child takes the stops that another thread is owed.
            let _nothing = thread.join();
            let _gone = wait::reap(pid);
            Err(error)
        }
    }
}

/// A thread of the tree.
#[derive(Debug, Clone, Copy)]
struct Thread {
    pid: i32,
    call: Option<Entered>,
}

/// The call that a thread is in.
#[derive(Debug, Clone, Copy)]
struct Entered {
    call: Call,
    at: Nanos,
    /// Of the thread until then.
    faults: u64,
}

#[derive(Debug)]
struct Follower {
    root: i32,
    threads: HashMap<i32, Thread>,
    exec: Option<Fact<ExecCounts>>,
    by_call: BTreeMap<Call, u64>,
    /// Taken by threads and processes until their first stop.
    at_birth: u64,
    /// When faults were taken that are in the counts above.
    inside: Vec<Inside>,
}

impl Follower {
    fn new(root: i32) -> Self {
        let first = Thread { pid: root, call: None };
        Self {
            root,
            threads: HashMap::from([(root, first)]),
            exec: None,
            by_call: BTreeMap::new(),
            at_birth: 0,
            inside: Vec::new(),
        }
    }

    /// Serves stops until the program has ended; what it leaves behind is let go with this thread.
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
                    // A thread that is killed while it is served tells its end by itself.
                    drop(self.stopped(tid, stop));
                }
            }
        }
        Ok(self)
    }

    fn stopped(&mut self, tid: i32, stop: Stop) -> Result<(), SysError> {
        self.add_new(tid)?;
        match stop {
            Stop::Signal(signal) => request::syscall(tid, signal),
            Stop::Group(_) => signals::park(tid, self.root),
            Stop::Exit => {
                self.threads.remove(&tid);
                request::detach(tid, 0)
            }
            Stop::Exec => {
                self.executed(tid)?;
                request::syscall(tid, 0)
            }
            Stop::Syscall => {
                self.at_call(tid)?;
                request::syscall(tid, 0)
            }
            _ => request::syscall(tid, 0),
        }
    }

    /// A thread that stops for the first time.
    fn add_new(&mut self, tid: i32) -> Result<(), SysError> {
        if self.threads.contains_key(&tid) {
            return Ok(());
        }
        let pid = status::read(tid)?.tgid.unwrap_or(tid);
        self.at_birth += stat::read_thread(tid)?.faults();
        self.inside_since_birth(tid);
        self.threads.insert(tid, Thread { pid, call: None });
        Ok(())
    }

    fn inside_since_birth(&mut self, tid: i32) {
        self.inside.push(Inside { tid, from_ns: Nanos(0), until_ns: clock::now() });
    }

    fn at_call(&mut self, tid: i32) -> Result<(), SysError> {
        let (at, faults) = (clock::now(), stat::read_thread(tid)?.faults());
        let entered = request::call_entered(tid)?.map(|call| Entered { call, at, faults });
        let Some(thread) = self.threads.get_mut(&tid) else { return Ok(()) };
        let before = std::mem::replace(&mut thread.call, entered);
        if let (None, Some(before)) = (entered, before) {
            let taken = faults.saturating_sub(before.faults);
            *self.by_call.entry(before.call).or_default() += taken;
            if taken > 0 {
                self.inside.push(Inside { tid, from_ns: before.at, until_ns: at });
            }
        }
        Ok(())
    }

    /// The first image is there, or one after it. A thread that was not the first of its process
    /// has taken that one's number; all others of the process have ended.
    fn executed(&mut self, tid: i32) -> Result<(), SysError> {
        if self.exec.is_none() {
            self.exec = Some(exec_stop::counts(tid).into());
            self.inside_since_birth(tid);
        }
        let former = i32::try_from(request::event_message(tid)?).unwrap_or(tid);
        let call = self.threads.get(&former).and_then(|thread| thread.call);
        self.threads.retain(|other, thread| thread.pid != tid || *other == tid);
        self.threads.insert(tid, Thread { pid: tid, call });
        Ok(())
    }

    fn finish(mut self) -> Followed {
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
        Followed {
            exec: self.exec.unwrap_or_else(|| Fact::missing("no program was executed")),
            calls: Fact::Known(ThreadCalls { calls, inside: self.inside }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::{self, Launch};
    use pagewise_model::usage::Ended;

    /// Runs `script` in a shell; `None` where it cannot be traced.
    fn followed(script: &str) -> Option<(Followed, Ended, u64)> {
        let argv = ["sh", "-c", script].map(Into::into).to_vec();
        let child = launch::spawn(&Launch::experiment(argv), &[]).unwrap();
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
        assert_eq!(ended, Ended::Exited(3));
        let calls = followed.calls.known().unwrap();
        let start = calls.faults(CallKind::Start);
        // cat was made and executed: its stack and its image at the least.
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
        assert_eq!(ended, Ended::Exited(0));
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
        let child = launch::spawn(&Launch::experiment(vec![damaged.into()]), &[]).unwrap();
        assert!(release(child).is_err());
    }
}
