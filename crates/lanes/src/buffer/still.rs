//! Private memory that is never written again: its right to be written is removed
//! (`mprotect(2)`), and no function of this type restores it while the memory is mapped.
//!
//! References to its pages (`vmsplice(2)`) therefore show the same bytes for ever, even after the
//! memory is unmapped or the process has ended, because each reference holds its page. Forked children
//! share the memory and cannot write it either.

#![allow(unsafe_code, reason = "vmsplice of memory that this type keeps as it is")]

use super::region::BufferRegion;
use rustix::io::Errno;
use rustix::pipe::SpliceFlags;
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// Memory that never changes again.
#[derive(Debug)]
pub(super) struct ReadOnlyMemory(BufferRegion);

impl ReadOnlyMemory {
    /// Stills an anonymous region.
    pub(super) fn new(mut memory: BufferRegion) -> Result<Self, Errno> {
        memory.forbid_writing()?;
        Ok(Self(memory))
    }

    /// The bytes.
    pub(super) fn memory(&self) -> &BufferRegion {
        &self.0
    }

    /// Passes some of `bytes` to a pipe by reference.
    pub(super) fn vmsplice(
        &self,
        to: BorrowedFd<'_>,
        bytes: Range<usize>,
        flags: SpliceFlags,
    ) -> Result<usize, Errno> {
        // SAFETY: the region is owned by `self`, which gives no `&mut` to it, and is mapped read
        // only, so its bytes never change; for the same reason the kernel answers EFAULT at the
        // reading end of a pipe instead of writing there.
        unsafe { self.0.vmsplice(to, bytes, flags) }
    }
}
