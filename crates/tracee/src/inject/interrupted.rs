//! A stopped thread's last call: by which table it was made, and issuing it again where our stop
//! alone has ended it.
//!
//! 64-bit code may make calls by the 32-bit table (`int 0x80`). The code segment does not tell; the
//! kernel does (PTRACE_GET_SYSCALL_INFO, Linux 5.3). Such a call has other numbers, and the kernel
//! goes on with it by another `restart_syscall`: a thread that is in one is let go as it is.

use super::restart::{Sleep, is_plain_eintr, resume};
use super::subject::has_pending_signal;
use crate::ptrace::{Regs, request};
use crate::seccomp::ARCHITECTURE;
use pagewise_kernel::error::SysError;

/// Code segment of 64-bit user code.
const CODE_64: u64 = 0x33;
/// Set in the numbers of the x32 table.
const X32: u64 = 0x4000_0000;

/// True for a stopped thread that runs 64-bit code and is in no call of another table.
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

/// Has the stopped thread `tid` issue the call again that came back with EINTR because of our stop
/// alone, if it is one that has done nothing then.
///
/// # Errors
/// When it has been killed.
pub fn reissue(tid: i32) -> Result<(), SysError> {
    let regs = request::get_regs(tid)?;
    if is_plain_eintr(&regs) && is_native(tid, &regs) && !has_pending_signal(tid)? {
        request::set_regs(tid, &resume(&regs, Sleep::Continue))?;
    }
    Ok(())
}
