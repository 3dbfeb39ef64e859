//! The loop that serves the stops of a tree, and what it knows of its threads.

use super::Touched;
use super::space::{Covered, NoSpace, Space};
use crate::perf::faults::Refusal;
use crate::ptrace::{Stop, request};
use crate::recorder::exec_stop;
use crate::{signals, wait};
use pagewise_kernel::error::SysError;
use pagewise_kernel::proc::status;
use pagewise_model::Fact;
use pagewise_model::fault::{ExactTouch, ExecCounts};
use std::collections::{HashMap, HashSet};
use std::sync::mpsc::Receiver;

/// What a thread is in the midst of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    /// Nothing that is waited for.
    Running,
    /// An exec whose image is there: at its exit the program can be made to call.
    Exec,
    /// A call that maps or moves so many bytes.
    Mapping { bytes: u64 },
}

#[derive(Debug)]
struct Thread {
    pid: i32,
    doing: Doing,
}

pub(super) struct Engine {
    root: i32,
    /// Seccomp filters of the tree: those of before us, and ours.
    filters: Option<u32>,
    threads: HashMap<i32, Thread>,
    spaces: HashMap<i32, Space>,
    /// New threads that stand still and wait for their maker to tell what they are.
    newborn: HashSet<i32>,
    /// What makers have told of threads that have not stopped yet: whether they share its memory.
    told: HashMap<i32, bool>,
    exact: ExactTouch,
    exec: Option<Fact<ExecCounts>>,
    refusal: Option<Refusal>,
    root_is_over: bool,
}

impl Engine {
    /// For the tree of `root`, which is seized and has not run yet.
    pub(super) fn new(root: i32) -> Self {
        let thread = Thread { pid: root, doing: Doing::Running };
        Self {
            root,
            filters: None,
            threads: HashMap::from([(root, thread)]),
            spaces: HashMap::new(),
            newborn: HashSet::new(),
            told: HashMap::new(),
            exact: ExactTouch::default(),
            exec: None,
            refusal: None,
            root_is_over: false,
        }
    }

    pub(super) fn finish(self) -> Touched {
        let no_exec = || Fact::missing("the program was not executed");
        let exec = self.exec.unwrap_or_else(no_exec);
        Touched { exact: self.exact, exec, refusal: self.refusal }
    }

    /// Serves the tree until its last thread has ended. See [`super::serve`].
    pub(super) fn serve(&mut self, reaped: &Receiver<()>) -> Result<(), SysError> {
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
            Stop::Signal(signal) => ignore_gone(request::cont(tid, signal)),
            Stop::Group(_) => ignore_gone(signals::park(tid, self.root)),
            Stop::Interrupted if !self.threads.contains_key(&tid) => self.arrive(tid),
            Stop::Child => self.learn(tid, false),
            Stop::Vfork => self.learn(tid, true),
            Stop::Exec => self.exec(tid),
            Stop::Seccomp => self.enter(tid),
            Stop::Syscall => self.leave(tid),
            _ => ignore_gone(request::cont(tid, 0)),
        }
    }

    fn end(&mut self, tid: i32) {
        self.threads.remove(&tid);
        self.spaces.remove(&tid);
        self.begin_orphans();
    }

    /// The maker of a new process may have been killed before it could tell of it.
    fn begin_orphans(&mut self) {
        for orphan in std::mem::take(&mut self.newborn) {
            self.begin(orphan, false);
        }
    }

    /// A new thread stands at its beginning.
    fn arrive(&mut self, tid: i32) {
        match self.told.remove(&tid) {
            Some(shares) => self.begin(tid, shares),
            None => {
                self.newborn.insert(tid);
            }
        }
    }

    /// A thread has made another one, which shares its memory or has its own.
    fn learn(&mut self, tid: i32, shares: bool) {
        if let Ok(child) = request::event_message(tid) {
            let child = child as i32;
            if self.newborn.remove(&child) {
                self.begin(child, shares);
            } else {
                self.told.insert(child, shares);
            }
        }
        ignore_gone(request::cont(tid, 0));
    }

    /// Lets a new thread begin, one of a process with memory of its own as a program is let begin.
    fn begin(&mut self, tid: i32, shares: bool) {
        let pid = status::read(tid).ok().and_then(|status| status.tgid).unwrap_or(tid);
        self.threads.insert(tid, Thread { pid, doing: Doing::Running });
        if tid == pid && !shares {
            self.take_space(pid);
        }
        ignore_gone(request::cont(tid, 0));
    }

    fn take_space(&mut self, pid: i32) {
        match Space::take(pid, self.filters) {
            Ok((space, covered)) => {
                self.count(covered);
                self.spaces.insert(pid, space);
            }
            Err(NoSpace::Shared | NoSpace::Gone) => {}
            Err(NoSpace::Left(why)) if self.is_first() => self.refuse(why),
            Err(NoSpace::Left(why)) => self.exact.leave(&why),
        }
    }

    /// Nothing has been registered yet: the first program is about to begin.
    fn is_first(&self) -> bool {
        self.exact == ExactTouch::default()
    }

    /// The first program cannot be seen page by page: it does not begin.
    fn refuse(&mut self, why: String) {
        let help = "use Linux 6.7 with userfaultfd(2), in a container allow it in the seccomp profile; without --exact, faults are recorded, but not each page";
        let why = format!("cannot turn off fault-around: {why}");
        self.refusal = Some(Refusal { why, help: help.to_owned() });
        wait::kill(self.root, libc::SIGKILL);
    }

    fn count(&mut self, covered: Covered) {
        self.exact.mappings += covered.mappings;
        self.exact.left_mappings += covered.left;
    }

    /// The image of a new program is there; the memory of the one before is gone.
    fn exec(&mut self, tid: i32) {
        self.threads.retain(|other, thread| thread.pid != tid || *other == tid);
        self.spaces.remove(&tid);
        if self.exec.is_none() {
            self.exec = Some(exec_stop::counts(tid).into());
            self.filters = status::read(tid).ok().and_then(|status| status.seccomp_filters);
        }
        self.threads.insert(tid, Thread { pid: tid, doing: Doing::Exec });
        // Its other threads have ended, the first of them without a report.
        self.begin_orphans();
        ignore_gone(request::syscall(tid, 0));
    }

    /// A call that maps a file, or moves a mapping, is about to be made.
    fn enter(&mut self, tid: i32) {
        let bytes = request::get_regs(tid).ok().and_then(|regs| {
            let thread = self.threads.get(&tid)?;
            let space = self.spaces.get(&thread.pid)?;
            match regs.orig_rax as i64 {
                libc::SYS_mmap => Some(regs.rsi),
                libc::SYS_mremap if space.holds(regs.rdi) => Some(regs.rdx),
                _ => None,
            }
        });
        let thread = self.threads.get_mut(&tid).zip(bytes);
        ignore_gone(match thread {
            Some((thread, bytes)) => {
                thread.doing = Doing::Mapping { bytes };
                request::syscall(tid, 0)
            }
            None => request::cont(tid, 0),
        });
    }

    /// A call has been made, and its thread has not gone on.
    fn leave(&mut self, tid: i32) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return ignore_gone(request::cont(tid, 0));
        };
        let pid = thread.pid;
        match std::mem::replace(&mut thread.doing, Doing::Running) {
            Doing::Running => {}
            Doing::Exec => self.take_space(pid),
            Doing::Mapping { bytes } => self.cover(tid, pid, bytes),
        }
        ignore_gone(request::cont(tid, 0));
    }

    fn cover(&mut self, tid: i32, pid: i32, bytes: u64) {
        let Ok(regs) = request::get_regs(tid) else { return };
        let is_error = (-4095..0).contains(&(regs.rax as i64));
        if let Some(space) = self.spaces.get_mut(&pid).filter(|_| !is_error) {
            let covered = match space.cover(regs.rax, bytes) {
                Ok(()) => Covered { mappings: 1, left: 0 },
                Err(_) => Covered { mappings: 0, left: 1 },
            };
            self.count(covered);
        }
    }
}

/// A thread that was killed in between reports its end by itself.
fn ignore_gone<T>(result: Result<T, SysError>) {
    drop(result);
}
