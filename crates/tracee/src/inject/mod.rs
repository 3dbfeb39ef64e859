//! Makes another process execute one system call.
//!
//! A thread of the target is stopped for the duration of about 30 system calls here, plus the target's way to
//! them: some tens of microseconds on an idle machine, longer if the two wait for a CPU. Slow preparation
//! (reading mappings and code) happens before. The *frame* method writes a signal frame that restores the
//! thread to unused stack. Then one `PTRACE_SETREGS` points the thread at a `syscall; ret` in its own code,
//! with that frame on top of the stack. The thread makes the call, returns into a restorer, and
//! `rt_sigreturn` restores everything. That single request is the commit: before it nothing has changed,
//! after it the thread needs no tracer. The tracer may be killed at any moment. Signals are blocked for the
//! call only after the commit, because the frame restores the mask.
//!
//! The *registers* method is used if no restorer or stack is found, and for threads in a sleep that a frame
//! would restart. It sets registers, runs the call, and restores the registers. It is used only for programs
//! that pagewise started, under `PTRACE_O_EXITKILL`: if pagewise dies, the target is killed rather than left
//! with foreign registers.
//!
//! Threads that take no harm are tried first. A thread in a call that would be late or wrong after a stop is
//! never stopped. Nor is one that may be just leaving such a call ([`running`]). If a thread enters such a
//! call between the look and the stop, it is late by the duration of the stop. A call that only the tracer's
//! stop interrupted is issued again if that is safe ([`restart`]). A thread that has a signal pending or is
//! inside a restartable sequence is released and tried again. Threads are stopped only by seize and
//! interrupt, which take effect on the way to user mode. They never stop a thread inside an `execve`, where
//! the result of the exec would overwrite the first injected call.
//!
//! A held thread is always released, or its end is waited for ([`held`]). A process is identified by its
//! number and its start time ([`ProcessIdentity`]). Both are compared while one of its threads is held, so a reused
//! number is never mistaken for it.
//!
//! Work of ours may follow the call while the thread is held ([`HeldWork`]). Then all running threads of the
//! process stand still for it ([`standstill`]).
//!
//! Not seen: a program that relies on a signal to interrupt a blocking call without a signal mask (`alarm`
//! then `read`) may take that signal just before the call is issued again, as it may take it just before the
//! first one. While a thread is held, PTRACE_ATTACH by the program itself fails with EPERM. A file system in
//! user space (FUSE) may see the interruption of a call.

mod call;
mod error;
#[cfg(target_arch = "x86_64")]
mod frame_x86_64;
mod held;
mod injector;
mod interrupted;
mod layout;
mod restart;
mod running;
mod standstill;
mod subject;
mod threads;

pub(crate) use call::{InjectedCall, call_regs};
pub use error::{InjectError, InjectRefusal};
pub use held::{HaltOutcome, HeldThread, ThreadTracer};
pub use injector::{CallInjector, HeldWork};
pub use interrupted::reissue;

use pagewise_kernel::error::SysError;
use pagewise_kernel::proc::stat;
use pagewise_model::Nanos;

/// A process; never mistaken for a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessIdentity {
    pid: i32,
    start_ticks: u64,
}

impl ProcessIdentity {
    /// The process that has this number now.
    ///
    /// # Errors
    /// When no process has it.
    pub fn find(pid: i32) -> Result<Self, SysError> {
        Ok(Self { pid, start_ticks: stat::read(pid)?.start_ticks })
    }

    /// True while the number still belongs to it.
    fn is_there(self) -> bool {
        Self::find(self.pid).is_ok_and(|now| now == self)
    }
}

/// Who owns the process: decides what the end of this process may do to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessOwner {
    /// Started by pagewise: may be killed together with it.
    Ours,
    /// Started by others: must survive the end of pagewise in any case.
    Other,
}

/// How the call was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum InjectMethod {
    /// By a signal frame: safe even if the tracer dies.
    Frame,
    /// By setting and restoring registers: the target is killed if the tracer dies.
    Registers,
}

/// Advice that the kernel accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptedAdvice {
    /// Time from the stop of the thread to its release.
    pub stop_ns: Nanos,
    pub method: InjectMethod,
}
