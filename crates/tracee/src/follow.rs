//! Follows a tree that is traced from before its first exec until its last thread has ended. Keeps track of
//! its threads, of shared memory, and passes the stops to the work that the tree is traced for.
//!
//! All threads are traced until they end. That includes threads that their maker wanted untraced
//! (`untraced`), and threads of processes that outlive the program. All die with this process
//! (`PTRACE_O_EXITKILL`). A new thread's first stop and its maker's event come in any order. The thread
//! begins when both have arrived, or when its maker was killed before its event.

use crate::ptrace::{PtraceStop, Regs, read_u64, request};
use crate::signals;
use crate::untraced::{self, ClearedFlags};
use crate::wait;
use pagewise_kernel::error::SysError;
use pagewise_kernel::proc::status;
use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{Receiver, Sender};

/// Events reported for every thread of the tree.
const EVENTS: i32 = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACESECCOMP
    | libc::PTRACE_O_EXITKILL;

/// A thread stopped at its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NewThread {
    pub(crate) tid: i32,
    pub(crate) pid: i32,
    /// Which thread made it; `None` if that could no longer be seen.
    pub(crate) birth: Option<ThreadBirth>,
}

impl NewThread {
    /// Whether it is the first thread of a process that does not share its memory.
    pub(crate) fn has_own_memory(&self) -> bool {
        self.tid == self.pid && self.birth.is_none_or(|birth| !birth.shares_memory)
    }
}

/// How a thread was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadBirth {
    /// The process of the thread that made it.
    pub(crate) maker: i32,
    /// The thread that made it.
    pub(crate) thread: i32,
    pub(crate) shares_memory: bool,
}

/// What a tree is traced for. A thread is stopped while its callback runs.
pub(crate) trait TraceWork {
    /// State of a thread from the entry of a call to its exit.
    type Call: Copy;

    /// Whether a thread stops before it ends, with its memory still present.
    const SEES_EXITS: bool = false;

    /// A thread begins.
    fn begin(&mut self, new: NewThread);

    /// A new program image exists. `Some` requests a report at the exit of the exec.
    fn executed(&mut self, pid: i32) -> Option<Self::Call>;

    /// A call selected by the filter is about to be made. `Some` requests a report at its exit.
    fn entered(&mut self, tid: i32, pid: i32) -> Option<Self::Call>;

    /// The call has returned.
    fn left(&mut self, tid: i32, pid: i32, call: Self::Call);

    /// A signal is about to be delivered. Returns the signal to deliver instead.
    fn signalled(&mut self, tid: i32, pid: i32, signal: i32) -> i32;

    /// Whether the thread is to stop at the start of its handler for this signal, which is about to be
    /// delivered. That stop is reported as another signal (SIGTRAP).
    fn stops_in_handler(&mut self, _tid: i32, _signal: i32) -> bool {
        false
    }

    /// A thread is about to end. Called only with [`Self::SEES_EXITS`].
    fn exiting(&mut self, _tid: i32, _pid: i32) {}

    fn ended(&mut self, tid: i32);
}

/// A thread and its current call.
#[derive(Debug)]
struct FollowedThread<C> {
    pid: i32,
    call: Option<C>,
    /// Set while it makes another thread that was to be untraced.
    cleared: Option<ClearedFlags>,
}

impl<C> FollowedThread<C> {
    fn of(pid: i32) -> Self {
        Self { pid, call: None, cleared: None }
    }

    /// Whether the exit of its current call is awaited.
    const fn is_in_call(&self) -> bool {
        self.call.is_some() || self.cleared.is_some()
    }
}

pub(crate) struct TreeFollower<W: TraceWork> {
    root: i32,
    threads: HashMap<i32, FollowedThread<W::Call>>,
    /// New threads that are stopped until their maker's event arrives.
    newborn: HashSet<i32>,
    /// Events of makers about threads that have not stopped yet.
    told: HashMap<i32, ThreadBirth>,
    root_is_over: bool,
    work: W,
}

/// Traces the tree of the child `root` until its last thread has ended. `root` has not executed its program
/// and carries the filter of `work`. Sends on `seized` when the child may be released. Does not reap `root`:
/// the owner of the other side of `reaped` does, and this function waits for it.
///
/// # Errors
/// When `root` cannot be traced, or when the kernel refuses a request that it granted before.
pub(crate) fn follow<W: TraceWork>(
    root: i32,
    seized: &Sender<Result<(), SysError>>,
    reaped: &Receiver<()>,
    work: W,
) -> Result<Option<W>, SysError> {
    let exits = if W::SEES_EXITS { libc::PTRACE_O_TRACEEXIT } else { 0 };
    let done = request::seize(root, EVENTS | exits);
    let is_seized = done.is_ok();
    // If the receiver is gone, it has dropped the child, which ends it.
    let _unheard = seized.send(done);
    if !is_seized {
        return Ok(None);
    }
    let mut follower = TreeFollower::new(root, work);
    follower.serve(reaped)?;
    Ok(Some(follower.work))
}

impl<W: TraceWork> TreeFollower<W> {
    fn new(root: i32, work: W) -> Self {
        Self {
            root,
            threads: HashMap::from([(root, FollowedThread::of(root))]),
            newborn: HashSet::new(),
            told: HashMap::new(),
            root_is_over: false,
            work,
        }
    }

    /// Handles events of the tree until its last thread has ended.
    fn serve(&mut self, reaped: &Receiver<()>) -> Result<(), SysError> {
        loop {
            let found = request::wait_stops()?;
            if found.is_empty() {
                return Ok(());
            }
            for (tid, stop) in found {
                if tid == self.root && stop.is_end() {
                    if std::mem::replace(&mut self.root_is_over, true) {
                        // The reaper is gone, and with it any reason to wait for the other threads.
                        return Ok(());
                    }
                    // The thread that started `root` reads its status and usage. It is reaped once that
                    // thread reports or is gone.
                    let _told = reaped.recv();
                }
                self.handle(tid, stop);
            }
        }
    }

    fn handle(&mut self, tid: i32, stop: PtraceStop) {
        match stop {
            stop if stop.is_end() => self.end(tid),
            PtraceStop::Signal(signal) => {
                let pid = self.threads.get(&tid).map_or(tid, |thread| thread.pid);
                let signal = self.work.signalled(tid, pid, signal);
                ignore_gone(match signal != 0 && self.work.stops_in_handler(tid, signal) {
                    true => request::singlestep(tid, signal),
                    false => request::cont(tid, signal),
                });
            }
            PtraceStop::Group(_) => ignore_gone(signals::park(tid, self.root)),
            PtraceStop::Interrupted if !self.threads.contains_key(&tid) => self.arrive(tid),
            PtraceStop::Child => self.learn(tid, false),
            PtraceStop::Vfork => self.learn(tid, true),
            PtraceStop::Exec => self.executed(tid),
            PtraceStop::Seccomp => self.enter(tid),
            PtraceStop::Syscall => self.leave(tid),
            PtraceStop::Exit => {
                let pid = self.threads.get(&tid).map_or(tid, |thread| thread.pid);
                self.work.exiting(tid, pid);
                ignore_gone(request::cont(tid, 0));
            }
            _ => ignore_gone(request::cont(tid, 0)),
        }
    }

    fn end(&mut self, tid: i32) {
        if tid != self.root {
            // An orphan becomes a child of a subreaper, and remains a zombie until it is reaped.
            let _taken = wait::reap_if_ended(tid);
        }
        self.threads.remove(&tid);
        self.work.ended(tid);
        self.begin_orphans();
    }

    /// Begins new processes whose maker was killed before its event.
    fn begin_orphans(&mut self) {
        for orphan in std::mem::take(&mut self.newborn) {
            self.begin(orphan, None);
        }
    }

    /// A new thread has reached its first stop.
    fn arrive(&mut self, tid: i32) {
        match self.told.remove(&tid) {
            Some(birth) => self.begin(tid, Some(birth)),
            None => {
                self.newborn.insert(tid);
            }
        }
    }

    /// A thread has made another thread.
    fn learn(&mut self, maker: i32, is_vfork: bool) {
        if let Ok(child) = request::event_message(maker) {
            let child = child as i32;
            let pid = self.threads.get(&maker).map_or(maker, |thread| thread.pid);
            let shares_memory = is_vfork || shares_memory(maker);
            let birth = ThreadBirth { maker: pid, thread: maker, shares_memory };
            if self.newborn.remove(&child) {
                self.begin(child, Some(birth));
            } else {
                self.told.insert(child, birth);
            }
        }
        self.go_on(maker);
    }

    fn begin(&mut self, tid: i32, birth: Option<ThreadBirth>) {
        let pid = status::read(tid).ok().and_then(|status| status.tgid).unwrap_or(tid);
        self.threads.insert(tid, FollowedThread::of(pid));
        self.work.begin(NewThread { tid, pid, birth });
        ignore_gone(request::cont(tid, 0));
    }

    /// A new program image exists; the previous memory is gone.
    fn executed(&mut self, tid: i32) {
        self.threads.retain(|other, thread| thread.pid != tid || *other == tid);
        let call = self.work.executed(tid);
        self.threads.insert(tid, FollowedThread { call, ..FollowedThread::of(tid) });
        // The other threads of the process have ended; the main one ends without a report.
        self.begin_orphans();
        self.go_on(tid);
    }

    fn enter(&mut self, tid: i32) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            match untraced::enter(tid) {
                Ok(untraced::CloneCall::Other) => thread.call = self.work.entered(tid, thread.pid),
                Ok(untraced::CloneCall::Cleared(cleared)) => thread.cleared = Some(cleared),
                Ok(untraced::CloneCall::Traced) | Err(_) => {}
            }
        }
        self.go_on(tid);
    }

    /// Resumes a thread, up to the exit of its call if that is awaited.
    fn go_on(&self, tid: i32) {
        ignore_gone(match self.threads.get(&tid).is_some_and(FollowedThread::is_in_call) {
            true => request::syscall(tid, 0),
            false => request::cont(tid, 0),
        });
    }

    /// A call has returned, and its thread is still stopped.
    fn leave(&mut self, tid: i32) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            if let Some(cleared) = thread.cleared.take() {
                ignore_gone(cleared.leave(tid));
            }
            if let Some(call) = thread.call.take() {
                self.work.left(tid, thread.pid, call);
            }
        }
        ignore_gone(request::cont(tid, 0));
    }
}

/// Whether the thread or process that `maker` is just creating shares its memory. `maker` is stopped in that
/// call.
fn shares_memory(maker: i32) -> bool {
    let shares = |flags: u64| flags & libc::CLONE_VM as u64 != 0;
    let flags = |regs: Regs| match regs.orig_rax as i64 {
        libc::SYS_clone => Some(regs.rdi),
        libc::SYS_clone3 => read_u64(maker, regs.rdi).ok(),
        _ => None,
    };
    request::get_regs(maker).ok().and_then(flags).is_some_and(shares)
}

/// Drops the result. A thread that was killed meanwhile reports its end separately.
pub(crate) fn ignore_gone<T>(result: Result<T, SysError>) {
    drop(result);
}
