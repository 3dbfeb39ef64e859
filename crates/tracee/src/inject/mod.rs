//! One system call, made by another process on our behalf.
//!
//! A thread of the target is stopped for some tens of microseconds. By the *frame* method a signal
//! frame that restores the thread is written into unused stack, then one `PTRACE_SETREGS` makes the
//! thread execute a `syscall; ret` of its vDSO with that frame on top: it makes the call, returns
//! into a restorer, and `rt_sigreturn` brings everything back. That single request is the commit:
//! before it nothing has changed, after it the thread needs nobody. The tracer may be killed at
//! any moment. Signals are blocked for the call only after the commit, as the frame brings the mask
//! back.
//!
//! Where no restorer or no stack is found, programs that pagewise itself started are served by
//! setting registers, running the call, and restoring (*registers* method), under
//! `PTRACE_O_EXITKILL`: our death kills the target rather than leaving it with foreign registers.
//!
//! A call that only our stop interrupted is issued again ([`restart`]); a thread that has a signal
//! waiting or is inside a restartable sequence is let go and tried again. The token is only had by
//! seize and interrupt, which stop on the way to user mode: never inside an `execve`, where the
//! first injected call would be overwritten by the result of the exec.
//!
//! Not seen: a program that counts on a signal to interrupt a blocking call without a signal mask
//! (`alarm` then `read`) may take that signal just before the call is issued again, as it may take
//! it just before the first one.

#[cfg(target_arch = "x86_64")]
mod frame_x86_64;
mod layout;
mod restart;
mod subject;

use crate::ptrace::{Halt, Regs, Stop, Stopped, request, write_memory};
use pagewise_kernel::error::SysError;
use pagewise_model::Nanos;
use std::time::{Duration, Instant};
use subject::Subject;

pub use restart::{Sleep, is_plain_eintr, resume};
pub use subject::has_pending_signal;

/// Why a process is not one to inject into.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A kernel thread or a process that has ended.
    #[error("it has no memory of its own")]
    NoMemory,
    /// Another tracer has it.
    #[error("process {0} traces it already")]
    Traced(i64),
    /// A seccomp filter of its own might kill it.
    #[error("it runs under a seccomp filter of its own")]
    Seccomp,
    /// A shadow stack forbids the return into the restorer.
    #[error("it runs with a shadow stack")]
    ShadowStack,
    /// No `syscall; ret` in its code.
    #[error("no system call instruction was found in its code")]
    NoCallSite,
    /// No restorer, and it was not started by pagewise.
    #[error("no signal restorer was found in its code")]
    NoRestorer,
    /// No thread has a stack with room for a frame.
    #[error("no room for a signal frame on its stack")]
    NoStack,
    /// A 32-bit task.
    #[error("it runs 32-bit code")]
    ThirtyTwoBit,
    /// The extended register state is not in the format expected.
    #[error("the format of its extended registers is not known")]
    ExtendedState,
    /// It slept in a call that has been interrupted before, in every attempt.
    #[error("it is in a sleep that was interrupted before")]
    ContinuedSleep,
    /// It was handling signals, stopping or in a restartable sequence in every attempt.
    #[error("it was busy with signals in every attempt")]
    Busy,
}

/// Why a call was not made, or failed.
#[derive(Debug, thiserror::Error)]
pub enum InjectError {
    /// It cannot be done safely.
    #[error("cannot inject a call: {0}")]
    Refused(#[from] Refusal),
    /// The process or the thread ended.
    #[error("the process ended")]
    Gone,
    /// The call was made and failed.
    #[error("{call} in process {pid}: {source}")]
    Call {
        /// The call.
        call: &'static str,
        /// The process.
        pid: i32,
        /// Its error.
        source: std::io::Error,
    },
    /// The call is committed, but its result could not be seen.
    #[error("the result of the injected call was lost")]
    Unseen,
    /// One of our own calls failed.
    #[error(transparent)]
    Sys(#[from] SysError),
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// A system call to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Call {
    name: &'static str,
    number: i64,
    args: [u64; 3],
}

/// Has process `pid`, started by pagewise, call `madvise(start, len, MADV_HUGEPAGE)`.
///
/// # Errors
/// See [`InjectError`]; the process goes on unharmed in every case.
pub fn advise_huge(pid: i32, start: u64, len: u64) -> Result<Advised, InjectError> {
    advise_huge_of(Owner::Ours, pid, start, len)
}

/// The same for a process of the given owner.
///
/// # Errors
/// See [`InjectError`]; the process goes on unharmed in every case.
pub fn advise_huge_of(
    owner: Owner,
    pid: i32,
    start: u64,
    len: u64,
) -> Result<Advised, InjectError> {
    let args = [start, len, libc::MADV_HUGEPAGE as u64];
    let call = Call { name: "madvise", number: libc::SYS_madvise, args };
    let (result, advised) = inject(owner, pid, call)?;
    if result < 0 {
        let source = std::io::Error::from_raw_os_error(i32::try_from(-result).unwrap_or(0));
        return Err(InjectError::Call { call: call.name, pid, source });
    }
    Ok(advised)
}

/// Rounds over all threads before giving up, and the pause between them.
const ROUNDS: u32 = 20;
const PAUSE: Duration = Duration::from_micros(300);

fn inject(owner: Owner, pid: i32, call: Call) -> Result<(i64, Advised), InjectError> {
    let mut last = InjectError::Refused(Refusal::Busy);
    for round in 0..ROUNDS {
        if round > 0 {
            std::thread::sleep(PAUSE);
        }
        let subject = Subject::inspect(pid)?;
        let mut lasting = true;
        for &tid in &subject.threads {
            match attempt(owner, &subject, tid, call) {
                Err(InjectError::Refused(why)) => {
                    lasting &= !matches!(why, Refusal::Busy | Refusal::ContinuedSleep);
                    last = why.into();
                }
                Err(InjectError::Gone) if tid != pid => {}
                done => return done,
            }
        }
        if lasting && !subject.threads.is_empty() {
            break;
        }
    }
    Err(last)
}

fn attempt(
    owner: Owner,
    subject: &Subject,
    tid: i32,
    call: Call,
) -> Result<(i64, Advised), InjectError> {
    let begin = Instant::now();
    let exit_kill = if owner == Owner::Ours { libc::PTRACE_O_EXITKILL } else { 0 };
    let mut thread = match Stopped::halt(tid, libc::PTRACE_O_TRACESYSGOOD | exit_kill)? {
        Halt::Stopped(thread) => thread,
        Halt::Busy => return Err(Refusal::Busy.into()),
        Halt::Gone => return Err(InjectError::Gone),
    };
    let regs = thread.regs()?;
    if regs.cs & 0xffff != 0x33 {
        return Err(Refusal::ThirtyTwoBit.into());
    }
    if has_pending_signal(tid)? {
        return Err(Refusal::Busy.into());
    }
    let outcome = if subject::in_restartable_sequence(subject.pid, tid, regs.rip)
        || !layout::still_there(subject.pid, subject.sites)
    {
        Err(Refusal::Busy.into())
    } else {
        make(owner, subject, &mut thread, &regs, call)
    };
    // A refusal always comes before the commit: the thread is as it stopped.
    if matches!(outcome, Err(InjectError::Refused(_))) && is_plain_eintr(&regs) {
        thread.set_regs(&resume(&regs, Sleep::Continue))?;
    }
    thread.release()?;
    let (result, method) = outcome?;
    Ok((result, Advised { stop_ns: begin.elapsed().into(), method }))
}

fn make(
    owner: Owner,
    subject: &Subject,
    thread: &mut Stopped,
    regs: &Regs,
    call: Call,
) -> Result<(i64, Method), InjectError> {
    let by_frame = by_frame(subject, thread, regs, call);
    match by_frame {
        Err(InjectError::Refused(why)) if owner == Owner::Other => Err(why.into()),
        Err(InjectError::Refused(_)) => {
            by_registers(subject, thread, regs, call).map(|result| (result, Method::Registers))
        }
        other => other.map(|result| (result, Method::Frame)),
    }
}

/// The registers with which the thread makes `call` at the call site with its stack at `sp`.
fn call_regs(regs: &Regs, site: u64, sp: u64, call: Call) -> Regs {
    let mut next = *regs;
    next.rip = site;
    next.rsp = sp;
    next.rax = call.number as u64;
    next.orig_rax = u64::MAX;
    [next.rdi, next.rsi, next.rdx] = call.args;
    // No single steps and no backward string operations while the call is made.
    next.eflags &= !0x500;
    next
}

fn by_frame(
    subject: &Subject,
    thread: &mut Stopped,
    regs: &Regs,
    call: Call,
) -> Result<i64, InjectError> {
    let restorer = subject.sites.restorer.ok_or(Refusal::NoRestorer)?;
    if restart::is_continued_sleep(regs) {
        return Err(Refusal::ContinuedSleep.into());
    }
    let tid = thread.tid();
    let xstate = request::get_xstate(tid).map_err(|_| Refusal::ExtendedState)?;
    let mask = request::get_sigmask(tid)?;
    let room = frame_x86_64::room(xstate.len());
    let (top, marked) = subject.frame_top(tid, regs.rsp, room)?;
    let next = resume(regs, Sleep::Anew);
    let place = frame_x86_64::component_place;
    let frame = frame_x86_64::build(&next, mask, &xstate, restorer, top, place)
        .ok_or(Refusal::ExtendedState)?;
    if marked {
        let at = subject::mark_place(top, room);
        write_memory(subject.pid, at, &subject::MARK).map_err(|_| Refusal::NoStack)?;
    }
    write_memory(subject.pid, frame.base, &frame.bytes).map_err(|_| Refusal::NoStack)?;
    thread.set_regs(&call_regs(regs, subject.sites.call, frame.base, call))?;
    request::set_sigmask(tid, u64::MAX)?;
    let result = run_call(thread, subject.sites.call)?;
    // On through the return and the restorer: when it is let go nothing of ours is in use.
    for _ in 0..2 {
        if thread.run_to_syscall()? != Stop::Syscall {
            return Err(InjectError::Unseen);
        }
    }
    Ok(result)
}

fn by_registers(
    subject: &Subject,
    thread: &mut Stopped,
    regs: &Regs,
    call: Call,
) -> Result<i64, InjectError> {
    let mask = request::get_sigmask(thread.tid())?;
    thread.set_regs(&call_regs(regs, subject.sites.call, regs.rsp, call))?;
    request::set_sigmask(thread.tid(), u64::MAX)?;
    let result = run_call(thread, subject.sites.call);
    if !matches!(result, Err(InjectError::Gone)) {
        thread.set_regs(&resume(regs, Sleep::Continue))?;
        request::set_sigmask(thread.tid(), mask)?;
    }
    result
}

/// Runs a prepared thread over the call; its result.
fn run_call(thread: &mut Stopped, site: u64) -> Result<i64, InjectError> {
    for _ in 0..2 {
        match thread.run_to_syscall()? {
            Stop::Syscall => {}
            stop if stop.is_end() => return Err(InjectError::Gone),
            _ => return Err(InjectError::Unseen),
        }
    }
    let regs = thread.regs()?;
    if regs.rip == site + 2 { Ok(regs.rax as i64) } else { Err(InjectError::Unseen) }
}
