//! One system call, made by another process on our behalf.
//!
//! A thread of the target is stopped for the time of about 30 system calls of ours and the target's
//! way to them: some tens of microseconds on an idle machine, and longer where the two wait for a
//! CPU. What takes long (mappings, code) is read before. By the *frame* method a signal
//! frame that restores the thread is written into unused stack, then one `PTRACE_SETREGS` makes the
//! thread execute a `syscall; ret` of the code that it has mapped with that frame on top: it makes
//! the call, returns into a restorer, and `rt_sigreturn` brings everything back. That single request
//! is the commit: before it nothing has changed, after it the thread needs nobody. The tracer may be
//! killed at any moment. Signals are blocked for the call only after the commit, as the frame brings
//! the mask back.
//!
//! Where no restorer or no stack is found, and for threads in a sleep that a frame would start
//! anew, programs that pagewise itself started are served by setting registers, running the call,
//! and restoring (*registers* method), under `PTRACE_O_EXITKILL`: our death kills the target rather
//! than leaving it with foreign registers.
//!
//! Threads that take no harm are tried first. One in a call that would be late or wrong after a
//! stop is never stopped, nor is one that may just be leaving such a call ([`running`]), unless it enters
//! the call between the look and the stop: then it is late by that moment. A call that only our stop interrupted is issued again where that is safe
//! ([`restart`]); a thread that has a signal waiting or is inside a restartable sequence is let go
//! and tried again. A thread is only stopped by
//! seize and interrupt, which stop on the way to user mode: never inside an `execve`, where the
//! first injected call would be overwritten by the result of the exec.
//!
//! Whatever becomes of a thread that is held, it is let go or its end is waited for ([`held`]). A
//! process is known by its number and the time of its start ([`Process`]), which are compared while a
//! thread of it is held: a number that comes again is never taken for it.
//!
//! Not seen: a program that counts on a signal to interrupt a blocking call without a signal mask
//! (`alarm` then `read`) may take that signal just before the call is issued again, as it may take
//! it just before the first one. While a thread is held, PTRACE_ATTACH by the program itself fails
//! with EPERM. A file system in user space (FUSE) may be told of the interruption of a call.

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
mod subject;
mod threads;

pub(crate) use call::{Call, call_regs};
pub use error::{InjectError, Refusal};
pub use held::{Halt, Held, Tracer};
pub use injector::Injector;
pub use interrupted::reissue;

use pagewise_kernel::error::SysError;
use pagewise_kernel::proc::stat;
use pagewise_model::Nanos;

/// A process, whoever has its number later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    pid: i32,
    start_ticks: u64,
}

impl Process {
    /// The one that has this number now.
    ///
    /// # Errors
    /// When there is none.
    pub fn find(pid: i32) -> Result<Self, SysError> {
        Ok(Self { pid, start_ticks: stat::read(pid)?.start_ticks })
    }

    /// True while the number is its own.
    fn is_there(self) -> bool {
        Self::find(self.pid).is_ok_and(|now| now == self)
    }
}

/// Whose process it is: what our death may do to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// Started by pagewise: it may be killed with us.
    Ours,
    /// Anyone else's: must survive us in any case.
    Other,
}

/// By which way the call was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// By a signal frame: safe against our death.
    Frame,
    /// By setting and restoring registers, the target killed if we die.
    Registers,
}

/// A huge-page advice that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advised {
    /// From the stop of the thread to its release.
    pub stop_ns: Nanos,
    pub method: Method,
}
