//! Handles children that their maker wants untraced (`CLONE_UNTRACED`) in a tree that must be traced.
//!
//! Such a child inherits the filter, but no tracer would answer its stops: its calls fail with ENOSYS
//! (seccomp(2)), and a breakpoint in its memory kills it. So its maker stops before the call
//! ([`seccomp::begin`]), and the flag is cleared: in the register, or in the arguments of clone3(2). At the
//! exit of the call the maker's flag is restored. If the arguments cannot be written, the call is refused
//! with ENOSYS.
//!
//! Visible to the program: the child is traced, and its copy of the register or of the arguments has the flag
//! cleared.

use crate::ptrace::{Regs, read_u64, request};
use pagewise_kernel::error::SysError;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

#[cfg(doc)]
use crate::seccomp;

const UNTRACED: u64 = libc::CLONE_UNTRACED as u64;

/// Flags that were cleared for a thread in a call that creates another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClearedFlags {
    /// The original flags.
    flags: u64,
    /// Address of the flags; `None` if they are in the register of the first argument.
    address: Option<u64>,
}

/// Kind of a stopped call, as far as tracing is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloneCall {
    /// It creates no thread.
    Other,
    /// It creates a thread that is traced anyway.
    Traced,
    /// It creates a thread that is traced because the flag was cleared. Restore the flag at the exit.
    Cleared(ClearedFlags),
}

/// Ensures that the child which thread `tid`, stopped at the entry of a call, creates by it is traced.
///
/// # Errors
/// When the thread has ended.
pub fn enter(tid: i32) -> Result<CloneCall, SysError> {
    let regs = request::get_regs(tid)?;
    let (flags, address) = match regs.orig_rax as i64 {
        libc::SYS_clone => (regs.rdi, None),
        // The kernel refuses arguments that cannot be read.
        libc::SYS_clone3 => (read_u64(tid, regs.rdi).unwrap_or(0), Some(regs.rdi)),
        _ => return Ok(CloneCall::Other),
    };
    if flags & UNTRACED == 0 {
        return Ok(CloneCall::Traced);
    }
    let cleared = ClearedFlags { flags, address };
    match cleared.write(tid, &regs, flags & !UNTRACED) {
        Ok(()) => Ok(CloneCall::Cleared(cleared)),
        Err(_) => {
            request::set_regs(tid, &Regs { orig_rax: u64::MAX, ..regs })?;
            Ok(CloneCall::Traced)
        }
    }
}

impl ClearedFlags {
    /// Restores the flags of thread `tid`, which is stopped at the exit of the call.
    ///
    /// # Errors
    /// When the thread has ended.
    pub fn leave(self, tid: i32) -> Result<(), SysError> {
        self.write(tid, &request::get_regs(tid)?, self.flags)
    }

    fn write(self, tid: i32, regs: &Regs, flags: u64) -> Result<(), SysError> {
        let Some(address) = self.address else {
            return request::set_regs(tid, &Regs { rdi: flags, ..*regs });
        };
        // Ignores page protection: the arguments may be constants.
        let path = format!("/proc/{tid}/mem");
        let memory = OpenOptions::new().write(true).open(&path);
        let written = memory.and_then(|memory| memory.write_all_at(&flags.to_ne_bytes(), address));
        written.map_err(|source| SysError { call: "pwrite", subject: path, source })
    }
}
