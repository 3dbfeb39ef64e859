//! Work on each program of a traced tree, and its results.

use super::Touched;
use super::reads::{self, Reading, Reads};
use super::space::{Covered, NoSpace, Space};
use crate::follow::{Newborn, Work};
use crate::perf::faults::Refusal;
use crate::ptrace::request;
use crate::recorder::exec_stop;
use crate::wait;
use pagewise_kernel::clock;
use pagewise_kernel::proc::status;
use pagewise_model::fault::{ExactTouch, ExecCounts};
use pagewise_model::{Fact, Nanos};
use std::collections::HashMap;

/// What a thread is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    /// An exec whose image exists: at its exit, the program can be made to make a call.
    Exec,
    /// A call that maps or moves this many bytes.
    Mapping {
        bytes: u64,
    },
    Reading(Reading),
}

pub(super) struct Engine {
    root: i32,
    /// Number of seccomp filters in the tree, including pagewise's.
    filters: Option<u32>,
    spaces: HashMap<i32, Space>,
    exact: ExactTouch,
    exec: Option<Fact<ExecCounts>>,
    refusal: Option<Refusal>,
    reads: Reads,
    began: Option<Nanos>,
}

impl Engine {
    /// For the tree of `root`, which has not run yet.
    pub(super) fn new(root: i32) -> Self {
        Self {
            root,
            filters: None,
            spaces: HashMap::new(),
            exact: ExactTouch::default(),
            exec: None,
            refusal: None,
            reads: Reads::default(),
            began: None,
        }
    }

    pub(super) fn finish(self) -> Touched {
        let no_exec = || Fact::missing("the program was not executed");
        let exec = self.exec.unwrap_or_else(no_exec);
        let reads = self.reads.finish();
        Touched { exact: self.exact, exec, refusal: self.refusal, reads }
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

    /// Whether the first program is about to begin: nothing has been registered yet.
    fn is_first(&self) -> bool {
        self.exact == ExactTouch::default()
    }

    /// Records why the first program cannot be observed page by page. It does not start.
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

impl Work for Engine {
    type Call = Doing;

    /// A process with its own memory begins in the same way as a program.
    fn begin(&mut self, new: Newborn) {
        if new.has_own_memory() {
            self.take_space(new.pid);
        }
    }

    fn executed(&mut self, pid: i32) -> Option<Doing> {
        self.spaces.remove(&pid);
        self.began.get_or_insert_with(clock::now);
        if self.exec.is_none() {
            self.exec = Some(exec_stop::counts(pid).into());
            self.filters = status::read(pid).ok().and_then(|status| status.seccomp_filters);
        }
        Some(Doing::Exec)
    }

    /// A call that maps a file, moves a mapping or reads.
    fn entered(&mut self, tid: i32, pid: i32) -> Option<Doing> {
        let regs = request::get_regs(tid).ok()?;
        if reads::CALLS.contains(&(regs.orig_rax as i64)) {
            return self.reads.enter(tid, &regs).map(Doing::Reading);
        }
        let space = self.spaces.get(&pid)?;
        match regs.orig_rax as i64 {
            libc::SYS_mmap => Some(Doing::Mapping { bytes: regs.rsi }),
            libc::SYS_mremap if space.holds(regs.rdi) => Some(Doing::Mapping { bytes: regs.rdx }),
            _ => None,
        }
    }

    fn left(&mut self, tid: i32, pid: i32, call: Doing) {
        match call {
            Doing::Exec => self.take_space(pid),
            Doing::Mapping { bytes } => self.cover(tid, pid, bytes),
            Doing::Reading(reading) => {
                let bytes = request::get_regs(tid).map_or(0, |regs| regs.rax as i64);
                let since = clock::now().0.saturating_sub(self.began.unwrap_or_default().0);
                self.reads.leave(reading, u64::try_from(bytes).unwrap_or(0), Nanos(since));
            }
        }
    }

    fn signalled(&mut self, _tid: i32, _pid: i32, signal: i32) -> i32 {
        signal
    }

    fn ended(&mut self, tid: i32) {
        self.spaces.remove(&tid);
    }
}
