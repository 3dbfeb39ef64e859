//! Work on each program of a traced tree, and its results.

use super::TouchOutcome;
use super::reads::{self, PendingRead, ReadHistory};
use super::space::{RegistrationCounts, UserfaultRefusal, UserfaultSpace};
use crate::follow::{NewThread, TraceWork};
use crate::perf::faults::RecordingRefusal;
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
pub(super) enum TouchActivity {
    /// An exec whose image exists: at its exit, the program can be made to make a call.
    Exec,
    /// A call that maps or moves this many bytes.
    Mapping {
        bytes: u64,
    },
    Reading(PendingRead),
}

pub(super) struct TouchEngine {
    root: i32,
    /// Number of seccomp filters in the tree, including pagewise's.
    filters: Option<u32>,
    spaces: HashMap<i32, UserfaultSpace>,
    exact: ExactTouch,
    exec: Option<Fact<ExecCounts>>,
    refusal: Option<RecordingRefusal>,
    reads: ReadHistory,
    began: Option<Nanos>,
}

impl TouchEngine {
    /// For the tree of `root`, which has not run yet.
    pub(super) fn new(root: i32) -> Self {
        Self {
            root,
            filters: None,
            spaces: HashMap::new(),
            exact: ExactTouch::default(),
            exec: None,
            refusal: None,
            reads: ReadHistory::default(),
            began: None,
        }
    }

    pub(super) fn finish(self) -> TouchOutcome {
        let no_exec = || Fact::missing("the program was not executed");
        let exec = self.exec.unwrap_or_else(no_exec);
        let reads = self.reads.finish();
        TouchOutcome { exact: self.exact, exec, refusal: self.refusal, reads }
    }

    fn take_space(&mut self, pid: i32) {
        match UserfaultSpace::take(pid, self.filters) {
            Ok((space, covered)) => {
                self.count(covered);
                self.spaces.insert(pid, space);
            }
            Err(UserfaultRefusal::Shared | UserfaultRefusal::Gone) => {}
            Err(UserfaultRefusal::Left(why)) if self.is_first() => self.refuse(why),
            Err(UserfaultRefusal::Left(why)) => self.exact.leave(&why),
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
        self.refusal = Some(RecordingRefusal { why, help: help.to_owned() });
        wait::kill(self.root, libc::SIGKILL);
    }

    fn count(&mut self, covered: RegistrationCounts) {
        self.exact.mappings += covered.mappings;
        self.exact.left_mappings += covered.left;
    }

    fn cover(&mut self, tid: i32, pid: i32, bytes: u64) {
        let Ok(regs) = request::get_regs(tid) else { return };
        let is_error = (-4095..0).contains(&(regs.rax as i64));
        if let Some(space) = self.spaces.get_mut(&pid).filter(|_| !is_error) {
            let covered = match space.cover(regs.rax, bytes) {
                Ok(()) => RegistrationCounts { mappings: 1, left: 0 },
                Err(_) => RegistrationCounts { mappings: 0, left: 1 },
            };
            self.count(covered);
        }
    }
}

impl TraceWork for TouchEngine {
    type Call = TouchActivity;

    /// A process with its own memory begins in the same way as a program.
    fn begin(&mut self, new: NewThread) {
        if new.has_own_memory() {
            self.take_space(new.pid);
        }
    }

    fn executed(&mut self, pid: i32) -> Option<TouchActivity> {
        self.spaces.remove(&pid);
        self.began.get_or_insert_with(clock::now);
        if self.exec.is_none() {
            self.exec = Some(exec_stop::counts(pid).into());
            self.filters = status::read(pid).ok().and_then(|status| status.seccomp_filters);
        }
        Some(TouchActivity::Exec)
    }

    /// A call that maps a file, moves a mapping or reads.
    fn entered(&mut self, tid: i32, pid: i32) -> Option<TouchActivity> {
        let regs = request::get_regs(tid).ok()?;
        if reads::CALLS.contains(&(regs.orig_rax as i64)) {
            return self.reads.enter(tid, &regs).map(TouchActivity::Reading);
        }
        let space = self.spaces.get(&pid)?;
        match regs.orig_rax as i64 {
            libc::SYS_mmap => Some(TouchActivity::Mapping { bytes: regs.rsi }),
            libc::SYS_mremap if space.holds(regs.rdi) => {
                Some(TouchActivity::Mapping { bytes: regs.rdx })
            }
            _ => None,
        }
    }

    fn left(&mut self, tid: i32, pid: i32, call: TouchActivity) {
        match call {
            TouchActivity::Exec => self.take_space(pid),
            TouchActivity::Mapping { bytes } => self.cover(tid, pid, bytes),
            TouchActivity::Reading(reading) => {
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
