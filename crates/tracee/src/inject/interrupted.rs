//! The last call of a stopped thread: finds by which table it was made, and issues it again if only the
//! tracer's stop ended it.
//!
//! 64-bit code may make calls by the 32-bit table (`int 0x80`). The code segment does not show this, but the
//! kernel does (PTRACE_GET_SYSCALL_INFO, Linux 5.3). Such a call has other numbers, and the kernel continues
//! it by another `restart_syscall`. A thread in such a call is released unchanged.

use super::restart::{RestartMode, is_plain_eintr, resume};
use super::subject::has_pending_signal;
use crate::ptrace::{Regs, request};
use crate::seccomp::ARCHITECTURE;
use pagewise_kernel::error::SysError;

/// Code segment of 64-bit user code.
const CODE_64: u64 = 0x33;
/// Bit that is set in the call numbers of the x32 table.
const X32: u64 = 0x4000_0000;

/// True for a stopped thread that runs 64-bit code and is not in a call of another table.
#[must_use]
pub(super) fn is_native(tid: i32, regs: &Regs) -> bool {
    if regs.cs & 0xffff != CODE_64 {
        return false;
    }
    if (regs.orig_rax as i64) < 0 {
        return true;
    }
    let is_ours = |architecture| architecture == ARCHITECTURE && regs.orig_rax & X32 == 0;
    request::call_architecture(tid).map_or(true, is_ours)
}

/// Makes the stopped thread `tid` repeat a call that returned EINTR only because of the tracer's stop.
/// Applies only to calls that have no effect when they return EINTR.
///
/// # Errors
/// When it has been killed.
pub fn reissue(tid: i32) -> Result<(), SysError> {
    let regs = request::get_regs(tid)?;
    if is_plain_eintr(&regs) && is_native(tid, &regs) && !has_pending_signal(tid)? {
        request::set_regs(tid, &resume(&regs, RestartMode::Continue))?;
    }
    Ok(())
}
