//! A tree that is traced from before its first exec until the last of its threads has ended: who is
//! there, who shares whose memory, and the stops that go to what it is traced for.
//!
//! All threads are traced until they end, also those that their maker wanted untraced (`untraced`) and those of
//! processes that outlive the program; they die with this process (`PTRACE_O_EXITKILL`). A new thread and the event of its maker come in any order:
//! it begins when both are there, or when its maker has been killed before it could tell.

use crate::ptrace::{Regs, Stop, read_u64, request};
use crate::signals;
use crate::untraced::{self, Cleared};
use crate::wait;
use pagewise_kernel::error::SysError;
use pagewise_kernel::proc::status;
use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{Receiver, Sender};

/// What is reported of every thread of the tree.
const EVENTS: i32 = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACESECCOMP
    | libc::PTRACE_O_EXITKILL;

/// A thread that stands at its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Newborn {
    pub(crate) tid: i32,
    pub(crate) pid: i32,
    /// Who made it, where that could still be seen.
    pub(crate) birth: Option<Birth>,
}

impl Newborn {
    /// Whether it is the first thread of a process with memory of its own.
    pub(crate) fn has_own_memory(&self) -> bool {
        self.tid == self.pid && self.birth.is_none_or(|birth| !birth.shares_memory)
    }
}

/// How a thread was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Birth {
    /// The process of the thread that made it.
    pub(crate) maker: i32,
    /// That thread.
    pub(crate) thread: i32,
    pub(crate) shares_memory: bool,
}

/// What a tree is traced for. Threads stand still while they are served here.
pub(crate) trait Work {
    /// What a thread is in the midst of, from the entry of a call to its exit.
    type Call: Copy;

    /// Whether a thread stops before it ends, its memory still there.
    const SEES_EXITS: bool = false;

    /// A thread begins.
    fn begin(&mut self, new: Newborn);

    /// The image of a new program is there; with `Some` the exit of the exec is reported as well.
    fn executed(&mut self, pid: i32) -> Option<Self::Call>;

    /// A call that the filter stops is about to be made; with `Some` its exit is reported as well.
    fn entered(&mut self, tid: i32, pid: i32) -> Option<Self::Call>;

    /// That call has been made.
    fn left(&mut self, tid: i32, pid: i32, call: Self::Call);

    /// A signal is about to be delivered; the one that is.
    fn signalled(&mut self, tid: i32, pid: i32, signal: i32) -> i32;

    /// Whether the thread is to stop at the beginning of its handler for this signal, which is about to be
    /// delivered: another one (SIGTRAP) is reported then.
    fn stops_in_handler(&mut self, _tid: i32, _signal: i32) -> bool {
        false
    }

    /// A thread is about to end; only where [`Self::SEES_EXITS`].
    fn exiting(&mut self, _tid: i32, _pid: i32) {}

    fn ended(&mut self, tid: i32);
}

/// A thread, and the call that it is in.
#[derive(Debug)]
struct Thread<C> {
    pid: i32,
    call: Option<C>,
    /// It makes another thread, which was to be untraced.
    cleared: Option<Cleared>,
}

impl<C> Thread<C> {
    fn of(pid: i32) -> Self {
        Self { pid, call: None, cleared: None }
    }

    /// Whether the exit of its call is waited for.
    const fn is_in_call(&self) -> bool {
        self.call.is_some() || self.cleared.is_some()
    }
}

pub(crate) struct Follower<W: Work> {
    root: i32,
    threads: HashMap<i32, Thread<W::Call>>,
    /// New threads that stand still and wait for their maker to tell what they are.
    newborn: HashSet<i32>,
    /// What makers have told of threads that have not stopped yet.
    told: HashMap<i32, Birth>,
    root_is_over: bool,
    work: W,
}

/// Traces the tree of our child `root`, which has not executed its program and carries the filter of
/// `work`, until its last thread has ended. Says through `seized` when the child may be let go. The
/// end of `root` is left to whoever holds the other side of `reaped`, and waited for there.
///
/// # Errors
/// When `root` cannot be traced, or the kernel refuses what it has granted before.
pub(crate) fn follow<W: Work>(
    root: i32,
    seized: &Sender<Result<(), SysError>>,
    reaped: &Receiver<()>,
    work: W,
) -> Result<Option<W>, SysError> {
    let exits = if W::SEES_EXITS { libc::PTRACE_O_TRACEEXIT } else { 0 };
    let done = request::seize(root, EVENTS | exits);
    let is_seized = done.is_ok();
    // Whoever does not listen any more has dropped the child, which is ended by that.
    let _unheard = seized.send(done);
    if !is_seized {
        return Ok(None);
    }
    let mut follower = Follower::new(root, work);
    follower.serve(reaped)?;
    Ok(Some(follower.work))
}

impl<W: Work> Follower<W> {
    fn new(root: i32, work: W) -> Self {
        Self {
            root,
            threads: HashMap::from([(root, Thread::of(root))]),
            newborn: HashSet::new(),
            told: HashMap::new(),
            root_is_over: false,
            work,
        }
    }

    /// Serves the tree until its last thread has ended.
    fn serve(&mut self, reaped: &Receiver<()>) -> Result<(), SysError> {
        loop {
            let found = request::wait_stops()?;
            if found.is_empty() {
                return Ok(());
            }
            for (tid, stop) in found {
                if tid == self.root && stop.is_end() {
                    if std::mem::replace(&mut self.root_is_over, true) {
                        // Nobody takes it: nobody is left to wait for the others either.
                        return Ok(());
                    }
                    // Its status and usage are for whoever started it. Gone or told: it is reaped.
                    let _told = reaped.recv();
                }
                self.handle(tid, stop);
            }
        }
    }

    fn handle(&mut self, tid: i32, stop: Stop) {
        match stop {
            stop if stop.is_end() => self.end(tid),
            Stop::Signal(signal) => {
                let pid = self.threads.get(&tid).map_or(tid, |thread| thread.pid);
                let signal = self.work.signalled(tid, pid, signal);
                ignore_gone(match signal != 0 && self.work.stops_in_handler(tid, signal) {
                    true => request::singlestep(tid, signal),
                    false => request::cont(tid, signal),
                });
            }
            Stop::Group(_) => ignore_gone(signals::park(tid, self.root)),
            Stop::Interrupted if !self.threads.contains_key(&tid) => self.arrive(tid),
            Stop::Child => self.learn(tid, false),
            Stop::Vfork => self.learn(tid, true),
            Stop::Exec => self.executed(tid),
            Stop::Seccomp => self.enter(tid),
            Stop::Syscall => self.leave(tid),
            Stop::Exit => {
                let pid = self.threads.get(&tid).map_or(tid, |thread| thread.pid);
                self.work.exiting(tid, pid);
                ignore_gone(request::cont(tid, 0));
            }
            _ => ignore_gone(request::cont(tid, 0)),
        }
    }

    fn end(&mut self, tid: i32) {
        if tid != self.root {
            // An orphan is a child of a subreaper, and its end is found until somebody takes it.
            let _taken = wait::reap_if_ended(tid);
        }
        self.threads.remove(&tid);
        self.work.ended(tid);
        self.begin_orphans();
    }

    /// The maker of a new process may have been killed before it could tell of it.
    fn begin_orphans(&mut self) {
        for orphan in std::mem::take(&mut self.newborn) {
            self.begin(orphan, None);
        }
    }

    /// A new thread stands at its beginning.
    fn arrive(&mut self, tid: i32) {
        match self.told.remove(&tid) {
            Some(birth) => self.begin(tid, Some(birth)),
            None => {
                self.newborn.insert(tid);
            }
        }
    }

    /// A thread has made another one.
    fn learn(&mut self, maker: i32, is_vfork: bool) {
        if let Ok(child) = request::event_message(maker) {
            let child = child as i32;
            let pid = self.threads.get(&maker).map_or(maker, |thread| thread.pid);
            let shares_memory = is_vfork || shares_memory(maker);
            let birth = Birth { maker: pid, thread: maker, shares_memory };
            if self.newborn.remove(&child) {
                self.begin(child, Some(birth));
            } else {
                self.told.insert(child, birth);
            }
        }
        self.go_on(maker);
    }

    fn begin(&mut self, tid: i32, birth: Option<Birth>) {
        let pid = status::read(tid).ok().and_then(|status| status.tgid).unwrap_or(tid);
        self.threads.insert(tid, Thread::of(pid));
        self.work.begin(Newborn { tid, pid, birth });
        ignore_gone(request::cont(tid, 0));
    }

    /// The image of a new program is there; the memory of the one before is gone.
    fn executed(&mut self, tid: i32) {
        self.threads.retain(|other, thread| thread.pid != tid || *other == tid);
        let call = self.work.executed(tid);
        self.threads.insert(tid, Thread { call, ..Thread::of(tid) });
        // Its other threads have ended, the first of them without a report.
        self.begin_orphans();
        self.go_on(tid);
    }

    fn enter(&mut self, tid: i32) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            match untraced::enter(tid) {
                Ok(untraced::Call::Other) => thread.call = self.work.entered(tid, thread.pid),
                Ok(untraced::Call::Cleared(cleared)) => thread.cleared = Some(cleared),
                Ok(untraced::Call::Traced) | Err(_) => {}
            }
        }
        self.go_on(tid);
    }

    /// Lets a thread go on, up to the exit of its call where that is waited for.
    fn go_on(&self, tid: i32) {
        ignore_gone(match self.threads.get(&tid).is_some_and(Thread::is_in_call) {
            true => request::syscall(tid, 0),
            false => request::cont(tid, 0),
        });
    }

    /// A call has been made, and its thread has not gone on.
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

/// Whether what `maker`, which stands in the call that makes it, has made shares its memory.
fn shares_memory(maker: i32) -> bool {
    let shares = |flags: u64| flags & libc::CLONE_VM as u64 != 0;
    let flags = |regs: Regs| match regs.orig_rax as i64 {
        libc::SYS_clone => Some(regs.rdi),
        libc::SYS_clone3 => read_u64(maker, regs.rdi).ok(),
        _ => None,
    };
    request::get_regs(maker).ok().and_then(flags).is_some_and(shares)
}

/// A thread that was killed in between reports its end by itself.
pub(crate) fn ignore_gone<T>(result: Result<T, SysError>) {
    drop(result);
}
