//! One function per `ptrace(2)` request and per way to wait, on a thread id.
//!
//! These are safe in Rust's sense: the kernel checks the relation of tracer and thread, and every pointer
//! passed is a local buffer. The caller is responsible for their effect on the other program.
#![allow(unsafe_code, reason = "the system calls of this file have no safe form")]

use super::stop::PtraceStop;
use crate::ptrace::Regs;
use libc::{c_int, c_void};
use pagewise_kernel::error::SysError;
use pagewise_kernel::proc::status;
use std::io;
use std::mem::MaybeUninit;

/// The register set of the extended state of x86, from `<elf.h>`.
const NT_X86_XSTATE: usize = 0x202;

/// No processor has a larger state. Beyond this size a full buffer is accepted.
const MOST_XSTATE: usize = 1 << 20;

/// The type of a request in the header of the C library.
#[cfg(target_env = "musl")]
type Request = c_int;
#[cfg(not(target_env = "musl"))]
type Request = libc::c_uint;

/// From `<linux/ptrace.h>`, as is [`RseqConfiguration`]; musl's headers lack both.
const PTRACE_GET_RSEQ_CONFIGURATION: Request = 0x420f;

/// `struct ptrace_rseq_configuration`.
#[repr(C)]
struct RseqConfiguration {
    rseq_abi_pointer: u64,
    rseq_abi_size: u32,
    signature: u32,
    flags: u32,
    pad: u32,
}

fn ptrace(
    name: &'static str,
    request: Request,
    tid: i32,
    address: usize,
    data: *mut c_void,
) -> Result<i64, SysError> {
    // SAFETY: `data` is an integer for requests that take one, or points to a live local buffer of the size
    // that the request writes or reads. The callers below ensure that.
    let result = unsafe { libc::ptrace(request, tid, address as *mut c_void, data) };
    if result < 0 {
        let source = io::Error::last_os_error();
        return Err(SysError { call: name, subject: format!("thread {tid}"), source });
    }
    Ok(result)
}

fn number(name: &'static str, request: Request, tid: i32, data: usize) -> Result<(), SysError> {
    ptrace(name, request, tid, 0, data as *mut c_void).map(drop)
}

/// Attaches without stopping the thread (`PTRACE_SEIZE`), with `PTRACE_O_*` options.
///
/// # Errors
/// EPERM without permission, or if it is traced already; ESRCH if it has ended.
pub fn seize(tid: i32, options: c_int) -> Result<(), SysError> {
    number("PTRACE_SEIZE", libc::PTRACE_SEIZE, tid, options as usize)
}

/// Asks a seized thread to stop.
///
/// # Errors
/// ESRCH when it is gone.
pub fn interrupt(tid: i32) -> Result<(), SysError> {
    number("PTRACE_INTERRUPT", libc::PTRACE_INTERRUPT, tid, 0)
}

/// Changes the options of a stopped thread.
///
/// # Errors
/// ESRCH when it is gone or not stopped.
pub fn set_options(tid: i32, options: c_int) -> Result<(), SysError> {
    number("PTRACE_SETOPTIONS", libc::PTRACE_SETOPTIONS, tid, options as usize)
}

/// Resumes, delivering `signal` (0: none).
///
/// # Errors
/// ESRCH when it is gone or not stopped.
pub fn cont(tid: i32, signal: i32) -> Result<(), SysError> {
    number("PTRACE_CONT", libc::PTRACE_CONT, tid, signal as usize)
}

/// Resumes until the next entry to or exit from a system call.
///
/// # Errors
/// ESRCH when it is gone or not stopped.
pub fn syscall(tid: i32, signal: i32) -> Result<(), SysError> {
    number("PTRACE_SYSCALL", libc::PTRACE_SYSCALL, tid, signal as usize)
}

/// Runs one instruction.
///
/// # Errors
/// ESRCH when it is gone or not stopped.
pub fn singlestep(tid: i32, signal: i32) -> Result<(), SysError> {
    number("PTRACE_SINGLESTEP", libc::PTRACE_SINGLESTEP, tid, signal as usize)
}

/// Leaves a thread in its job-control stop, but lets it report the end of that stop.
///
/// # Errors
/// ESRCH when it is gone or not in such a stop.
pub fn listen(tid: i32) -> Result<(), SysError> {
    number("PTRACE_LISTEN", libc::PTRACE_LISTEN, tid, 0)
}

/// Releases the thread, delivering `signal` (0: none).
///
/// # Errors
/// ESRCH when it is gone or not stopped.
pub fn detach(tid: i32, signal: i32) -> Result<(), SysError> {
    number("PTRACE_DETACH", libc::PTRACE_DETACH, tid, signal as usize)
}

/// The number that belongs to an event: child id, exit status, former thread id.
///
/// # Errors
/// ESRCH when it is gone or not stopped.
pub fn event_message(tid: i32) -> Result<u64, SysError> {
    let mut message: libc::c_ulong = 0;
    let data = (&raw mut message).cast();
    ptrace("PTRACE_GETEVENTMSG", libc::PTRACE_GETEVENTMSG as Request, tid, 0, data)?;
    Ok(message)
}

/// The general registers.
///
/// # Errors
/// ESRCH when it is gone or not stopped.
pub fn get_regs(tid: i32) -> Result<Regs, SysError> {
    let mut regs = super::cleared();
    let data = (&raw mut regs).cast();
    ptrace("PTRACE_GETREGS", libc::PTRACE_GETREGS as Request, tid, 0, data)?;
    Ok(regs)
}

/// Sets the general registers, in one atomic step from the thread's point of view.
///
/// # Errors
/// ESRCH when it is gone or not stopped, EIO for values that the kernel does not take.
pub fn set_regs(tid: i32, regs: &Regs) -> Result<(), SysError> {
    let data = (&raw const *regs).cast_mut().cast();
    ptrace("PTRACE_SETREGS", libc::PTRACE_SETREGS as Request, tid, 0, data).map(drop)
}

/// The extended register state in the standard XSAVE format.
///
/// # Errors
/// ENODEV on a processor without XSAVE, ESRCH when it is gone or not stopped.
pub fn get_xstate(tid: i32) -> Result<Vec<u8>, SysError> {
    let mut state = vec![0_u8; 1 << 10];
    loop {
        let mut iov = libc::iovec { iov_base: state.as_mut_ptr().cast(), iov_len: state.len() };
        let data = (&raw mut iov).cast();
        ptrace("PTRACE_GETREGSET", libc::PTRACE_GETREGSET as Request, tid, NT_X86_XSTATE, data)?;
        // A full buffer may hold only a part: the kernel truncates silently.
        if iov.iov_len < state.len() || state.len() >= MOST_XSTATE {
            state.truncate(iov.iov_len);
            return Ok(state);
        }
        state.resize(2 * state.len(), 0);
    }
}

/// The signal mask that applies after the current call.
///
/// # Errors
/// ESRCH when it is gone or not stopped.
pub fn get_sigmask(tid: i32) -> Result<u64, SysError> {
    let mut mask = 0_u64;
    let data = (&raw mut mask).cast();
    ptrace("PTRACE_GETSIGMASK", libc::PTRACE_GETSIGMASK as Request, tid, 8, data)?;
    Ok(mask)
}

/// Sets the signal mask.
///
/// # Errors
/// ESRCH when it is gone or not stopped.
pub fn set_sigmask(tid: i32, mask: u64) -> Result<(), SysError> {
    let data = (&raw const mask).cast_mut().cast();
    ptrace("PTRACE_SETSIGMASK", libc::PTRACE_SETSIGMASK as Request, tid, 8, data).map(drop)
}

/// The `si_code` of the signal that a thread is stopped for.
///
/// # Errors
/// EINVAL in a group stop, ESRCH when it is gone or not stopped.
pub fn signal_code(tid: i32) -> Result<i32, SysError> {
    signal_info(tid).map(|info| info.si_code)
}

/// The current stop of a seized thread, even if a wait has already reported it.
///
/// # Errors
/// ESRCH when it is gone or not stopped.
pub fn present_stop(tid: i32) -> Result<PtraceStop, SysError> {
    let info = signal_info(tid)?;
    // `ptrace_notify` (kernel/signal.c) makes the code of what it reports the status of the stop.
    let is_event = info.si_code >> 8 == libc::PTRACE_EVENT_STOP;
    let is_call = info.si_signo == libc::SIGTRAP && info.si_code == libc::SIGTRAP | 0x80;
    let code = if is_event || is_call { info.si_code } else { info.si_signo };
    Ok(PtraceStop::decode(code << 8 | 0x7f))
}

fn signal_info(tid: i32) -> Result<libc::siginfo_t, SysError> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let data = info.as_mut_ptr().cast();
    ptrace("PTRACE_GETSIGINFO", libc::PTRACE_GETSIGINFO as Request, tid, 0, data)?;
    // SAFETY: zeroed is a valid value of this struct of integers, and the kernel has filled it.
    Ok(unsafe { info.assume_init() })
}

/// Request number and `op` of an entry, from `<linux/ptrace.h>`.
const GET_SYSCALL_INFO: Request = 0x420e;
const SYSCALL_INFO_ENTRY: u8 = 1;

/// True if a thread in a system call stop is at the entry, false at the exit.
///
/// # Errors
/// EIO on kernels before 5.3, ESRCH when it is gone or not stopped.
pub fn is_call_entry(tid: i32) -> Result<bool, SysError> {
    call_entered(tid).map(|call| call.is_some())
}

/// A system call: its table (`AUDIT_ARCH_*` of `<linux/audit.h>`) and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SyscallNumber {
    pub architecture: u32,
    pub number: u64,
}

/// The call that a thread in a system call stop is about to make; `None` at the exit of one.
///
/// # Errors
/// EIO on kernels before 5.3, ESRCH when it is gone or not stopped.
pub fn call_entered(tid: i32) -> Result<Option<SyscallNumber>, SysError> {
    const NUMBER_AT: usize = 24;
    let info = syscall_info(tid)?;
    let number = info[NUMBER_AT..].first_chunk::<8>().map(|bytes| u64::from_ne_bytes(*bytes));
    let architecture = architecture_of(&info);
    let call = number.map(|number| SyscallNumber { architecture, number });
    Ok(call.filter(|_| info[0] == SYSCALL_INFO_ENTRY))
}

/// A `struct ptrace_syscall_info`.
type SyscallInfo = [u8; 88];

fn syscall_info(tid: i32) -> Result<SyscallInfo, SysError> {
    let mut info = [0_u8; 88];
    let (size, data) = (info.len(), info.as_mut_ptr().cast());
    ptrace("PTRACE_GET_SYSCALL_INFO", GET_SYSCALL_INFO, tid, size, data)?;
    Ok(info)
}

fn architecture_of(info: &SyscallInfo) -> u32 {
    const ARCHITECTURE_AT: usize = 4;
    info[ARCHITECTURE_AT..].first_chunk::<4>().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

/// The table (`AUDIT_ARCH_*`) of the current or last call of a stopped thread.
///
/// # Errors
/// EIO on kernels before 5.3, ESRCH when it is gone or not stopped.
pub fn call_architecture(tid: i32) -> Result<u32, SysError> {
    syscall_info(tid).map(|info| architecture_of(&info))
}

/// Address of the thread's registered restartable-sequence area, if it has one.
///
/// # Errors
/// EIO on kernels before 5.13, ESRCH when it is gone or not stopped.
pub fn rseq_area(tid: i32) -> Result<Option<u64>, SysError> {
    let mut area =
        RseqConfiguration { rseq_abi_pointer: 0, rseq_abi_size: 0, signature: 0, flags: 0, pad: 0 };
    let size = size_of_val(&area);
    let data = (&raw mut area).cast();
    ptrace("PTRACE_GET_RSEQ_CONFIGURATION", PTRACE_GET_RSEQ_CONFIGURATION, tid, size, data)?;
    Ok((area.rseq_abi_pointer != 0).then_some(area.rseq_abi_pointer))
}

/// Waits for `tid` (-1: any child or tracee of this thread) to stop or end. Without `block`, returns `None`
/// if nothing has happened.
///
/// # Errors
/// ECHILD when there is nothing to wait for.
pub fn wait(tid: i32, block: bool) -> Result<Option<(i32, PtraceStop)>, SysError> {
    let flags = libc::__WALL | libc::__WNOTHREAD | if block { 0 } else { libc::WNOHANG };
    loop {
        let mut status = 0;
        // SAFETY: `status` is a live local that the call writes.
        let who = unsafe { libc::waitpid(tid, &raw mut status, flags) };
        if who > 0 {
            return Ok(Some((who, PtraceStop::decode(status))));
        }
        if who == 0 {
            return Ok(None);
        }
        let source = io::Error::last_os_error();
        if source.kind() != io::ErrorKind::Interrupted {
            return Err(SysError { call: "waitpid", subject: format!("thread {tid}"), source });
        }
    }
}

/// Waits for one seized thread to stop or end, without a time limit. See [`poll_stop`].
///
/// # Errors
/// ECHILD when the thread is not seized by us.
pub fn wait_stop(tid: i32) -> Result<PtraceStop, SysError> {
    loop {
        wait_id(tid, libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT)?;
        // The thread may have been killed since it was seen, and its end may not be reportable yet.
        if let Some(stop) = poll_stop(tid)? {
            return Ok(stop);
        }
    }
}

/// The stop or the end of one seized thread, if either has happened. Only stops are consumed, so a death in
/// between cannot be consumed by mistake. The end of a direct child of this process is reported but left for
/// the code that waits for the child. The end of any other thread is passed on to its parent.
///
/// # Errors
/// ECHILD when the thread is not seized by us.
pub fn poll_stop(tid: i32) -> Result<Option<PtraceStop>, SysError> {
    match wait_id(tid, libc::WSTOPPED | libc::WNOHANG) {
        Ok(Some((_, status))) => return Ok(Some(PtraceStop::decode(status << 8 | 0x7f))),
        // A thread that has ended can no longer be waited for stops.
        Err(error) if error.errno() != Some(libc::ECHILD) => return Err(error),
        Ok(None) | Err(_) => {}
    }
    // Stops of tracees are reported even if only ends are requested: a stop that has just come is handled
    // later.
    match wait_id(tid, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT)? {
        None | Some((libc::CLD_TRAPPED | libc::CLD_STOPPED | libc::CLD_CONTINUED, _)) => {
            return Ok(None);
        }
        Some(_) => {}
    }
    if !is_own_child(tid) {
        wait_id(tid, libc::WEXITED | libc::WNOHANG)?;
    }
    Ok(Some(PtraceStop::Exited(0)))
}

/// Stops and ends of the threads that the calling thread has seized. Waits for the first one; returns an
/// empty list when nothing is seized any more. Ends are treated as by [`poll_stop`]; another thread of this
/// process may reap its own child first.
///
/// Returns all that have come, because the kernel searches the threads in a fixed order. A tracer that
/// resumes each one as it is found never reaches the last threads of a busy program.
///
/// # Errors
/// When the kernel refuses.
pub fn wait_stops() -> Result<Vec<(i32, PtraceStop)>, SysError> {
    let mut found = Vec::new();
    loop {
        match find_any_stop(if found.is_empty() { 0 } else { libc::WNOHANG }) {
            // The end of a direct child is not consumed here, so it is found again.
            Ok(Some(next)) if next.1.is_end() && found.contains(&next) => return Ok(found),
            Ok(Some(next)) => found.push(next),
            Ok(None) if found.is_empty() => {}
            Ok(None) => return Ok(found),
            Err(error) if error.errno() == Some(libc::ECHILD) => return Ok(found),
            Err(error) => return Err(error),
        }
    }
}

/// The stop or the end of any thread that the calling thread has seized, if one has come. See [`wait_stops`].
///
/// # Errors
/// ECHILD when nothing is seized.
pub fn poll_any_stop() -> Result<Option<(i32, PtraceStop)>, SysError> {
    find_any_stop(libc::WNOHANG)
}

fn find_any_stop(block: c_int) -> Result<Option<(i32, PtraceStop)>, SysError> {
    let flags = libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT | libc::__WNOTHREAD | block;
    let Some((tid, ..)) = wait_for(libc::P_ALL, 0, flags)? else { return Ok(None) };
    match poll_stop(tid) {
        // Its end was consumed after it was found.
        Err(error) if error.errno() == Some(libc::ECHILD) => Ok(Some((tid, PtraceStop::Exited(0)))),
        other => Ok(other?.map(|stop| (tid, stop))),
    }
}

/// `waitid(2)` for one thread: `si_code` and `si_status`, or `None` when `WNOHANG` found nothing.
fn wait_id(tid: i32, flags: c_int) -> Result<Option<(c_int, c_int)>, SysError> {
    let found = wait_for(libc::P_PID, tid.unsigned_abs(), flags)?;
    Ok(found.map(|(_, code, status)| (code, status)))
}

/// `waitid(2)`: the thread, `si_code` and `si_status`, or `None` when `WNOHANG` found nothing.
fn wait_for(
    kind: libc::idtype_t,
    id: libc::id_t,
    flags: c_int,
) -> Result<Option<(i32, c_int, c_int)>, SysError> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let flags = flags | libc::__WALL;
    loop {
        // SAFETY: `info` is a live local of the type that the call fills.
        let failed = unsafe { libc::waitid(kind, id, info.as_mut_ptr(), flags) };
        if failed == 0 {
            break;
        }
        let source = io::Error::last_os_error();
        if source.kind() != io::ErrorKind::Interrupted {
            return Err(SysError { call: "waitid", subject: format!("thread {id}"), source });
        }
    }
    // SAFETY: zeroed is a valid value of this struct of integers, and the kernel has filled it.
    let info = unsafe { info.assume_init() };
    // SAFETY: the kernel has filled the fields of a SIGCHLD, or left them zero.
    let who = unsafe { info.si_pid() };
    // SAFETY: as above.
    let status = unsafe { info.si_status() };
    Ok((who != 0).then_some((who, info.si_code, status)))
}

fn is_own_child(tid: i32) -> bool {
    let own = i32::try_from(std::process::id()).ok();
    status::read(tid).is_ok_and(|status| status.tgid == Some(tid) && status.ppid == own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waiting;

    #[test]
    fn the_extended_state_is_whole() {
        let Some((mut child, pid)) = waiting::seized_cat("the_extended_state_is_whole") else {
            return;
        };
        interrupt(pid).unwrap();
        assert_eq!(wait_stop(pid).unwrap(), PtraceStop::Interrupted);
        match get_xstate(pid) {
            Ok(state) => {
                let mut room = vec![0_u8; MOST_XSTATE];
                let mut iov =
                    libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
                let data = (&raw mut iov).cast();
                let request = libc::PTRACE_GETREGSET as Request;
                ptrace("PTRACE_GETREGSET", request, pid, NT_X86_XSTATE, data).unwrap();
                assert_eq!(state, room[..iov.iov_len]);
            }
            Err(error) => assert_eq!(error.errno(), Some(libc::ENODEV)),
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn the_end_of_a_child_is_left_for_its_parent() {
        let test = "the_end_of_a_child_is_left_for_its_parent";
        let Some((mut child, pid)) = waiting::seized_cat(test) else { return };
        assert_eq!(poll_stop(pid).unwrap(), None);
        interrupt(pid).unwrap();
        assert_eq!(wait_stop(pid).unwrap(), PtraceStop::Interrupted);
        assert_eq!(poll_stop(pid).unwrap(), None, "a stop is reported once");
        child.kill().unwrap();
        assert!(wait_stop(pid).unwrap().is_end());
        assert!(poll_stop(pid).unwrap().is_some_and(PtraceStop::is_end));
        assert!(!child.wait().unwrap().success());
    }
}
