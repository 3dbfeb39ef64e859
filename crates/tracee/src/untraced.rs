//! Children that their maker wants to have untraced (`CLONE_UNTRACED`), in a tree that must be traced.
//!
//! Nobody would answer for the stops of a filter that such a child inherits: its calls fail with ENOSYS
//! (seccomp(2)), and a breakpoint in its memory kills it. So its maker stops before the call ([`seccomp::begin`]),
//! and the flag is cleared: in the register, or in the arguments of clone3(2). At the exit of the call the maker has its
//! own back. Where the arguments cannot be written, the call is refused with ENOSYS.
//!
//! Not the same: the child is traced, and has the cleared flag in its copy of the register or of the arguments.

use crate::ptrace::{Regs, read_u64, request};
use pagewise_kernel::error::SysError;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

#[cfg(doc)]
use crate::seccomp;

const UNTRACED: u64 = libc::CLONE_UNTRACED as u64;

/// What a thread in a call that makes another one has had cleared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cleared {
    /// The flags as they were.
    flags: u64,
    /// Where they lie; in the register of the first argument where absent.
    address: Option<u64>,
}

/// What a stopped call of thread `tid` is, as far as this is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// It makes no thread.
    Other,
    /// It makes one that is traced.
    Traced,
    /// It makes one that is traced by what was cleared; put it back at the exit.
    Cleared(Cleared),
}

/// Sees to it that what thread `tid`, which stands at the entry of a call, makes by it is traced.
///
/// # Errors
/// When the thread is gone.
pub fn enter(tid: i32) -> Result<Call, SysError> {
    let regs = request::get_regs(tid)?;
    let (flags, address) = match regs.orig_rax as i64 {
        libc::SYS_clone => (regs.rdi, None),
        // What cannot be read the kernel refuses.
        libc::SYS_clone3 => (read_u64(tid, regs.rdi).unwrap_or(0), Some(regs.rdi)),
        _ => return Ok(Call::Other),
    };
    if flags & UNTRACED == 0 {
        return Ok(Call::Traced);
    }
    let cleared = Cleared { flags, address };
    match cleared.write(tid, &regs, flags & !UNTRACED) {
        Ok(()) => Ok(Call::Cleared(cleared)),
        Err(_) => {
            request::set_regs(tid, &Regs { orig_rax: u64::MAX, ..regs })?;
            Ok(Call::Traced)
        }
    }
}

impl Cleared {
    /// Gives thread `tid`, which stands at the exit of the call, its flags back.
    ///
    /// # Errors
    /// When the thread is gone.
    pub fn leave(self, tid: i32) -> Result<(), SysError> {
        self.write(tid, &request::get_regs(tid)?, self.flags)
    }

    fn write(self, tid: i32, regs: &Regs, flags: u64) -> Result<(), SysError> {
        let Some(address) = self.address else {
            return request::set_regs(tid, &Regs { rdi: flags, ..*regs });
        };
        // Whatever the protection: they may be constants.
        let path = format!("/proc/{tid}/mem");
        let memory = OpenOptions::new().write(true).open(&path);
        let written = memory.and_then(|memory| memory.write_all_at(&flags.to_ne_bytes(), address));
        written.map_err(|source| SysError { call: "pwrite", subject: path, source })
    }
}
