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
//! Threads that take no harm are tried first; one whose timeout would start anew is stopped a few
//! times in its life at most, one in a call that must not be interrupted never (unless it enters
//! that call between the look and the stop). A call that only our stop interrupted is issued again
//! where that is safe ([`restart`]); a thread that has a signal waiting or is inside a restartable
//! sequence is let go and tried again. One that does not stop for now is let go later
//! ([`Injector::settle`]). The token is only had by
//! seize and interrupt, which stop on the way to user mode: never inside an `execve`, where the
//! first injected call would be overwritten by the result of the exec.
//!
//! Not seen: a program that counts on a signal to interrupt a blocking call without a signal mask
//! (`alarm` then `read`) may take that signal just before the call is issued again, as it may take
//! it just before the first one.

mod call;
mod error;
#[cfg(target_arch = "x86_64")]
mod frame_x86_64;
mod injector;
mod layout;
mod restart;
mod subject;
mod threads;

pub(crate) use call::{Call, call_regs};
pub use error::{InjectError, Refusal};
pub use injector::Injector;
pub use restart::{Sleep, is_plain_eintr, resume};
pub use subject::has_pending_signal;

use pagewise_model::Nanos;

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
    /// How.
    pub method: Method,
}
