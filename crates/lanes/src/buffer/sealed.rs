//! A memfd in its two states: loose, while it is filled, then sealed.
//!
//! A sealed one has F_SEAL_WRITE, GROW, SHRINK and SEAL (`fcntl(2)`): no write, no new writable mapping, no
//! hole, no truncation, and seals cannot be removed. F_SEAL_WRITE is refused with EBUSY while a writable
//! mapping exists or references to pages are held. The kernel waits up to some 0.1 s for those (mm/memfd.c).

#![allow(unsafe_code, reason = "file mappings as bytes, which the seals make sound")]

use super::region::{BufferPages, BufferRegion};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::pipe::SpliceFlags;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The seals that keep every byte of a file unchanged. Seals cannot be removed, so F_SEAL_SEAL adds nothing
/// to that.
const UNCHANGING: SealFlags = SealFlags::WRITE.union(SealFlags::GROW).union(SealFlags::SHRINK);

/// A private memfd that is being filled. Its descriptor is never given away.
#[derive(Debug)]
pub(super) struct LooseMemfd {
    file: OwnedFd,
    memory: BufferRegion,
}

/// A memfd that no process can change, and its bytes.
#[derive(Debug)]
pub(super) struct SealedMemfd {
    file: OwnedFd,
    view: BufferRegion,
}

impl LooseMemfd {
    /// At least `len` bytes of zeroes.
    pub(super) fn new(len: usize, pages: BufferPages) -> Result<Self, Errno> {
        let whole = len.max(1).checked_next_multiple_of(pages.size()).ok_or(Errno::NOMEM)?;
        let file = memfd()?;
        rustix::fs::ftruncate(&file, whole as u64)?;
        // SAFETY: the file was made here, is as long as the region, and its only descriptor stays
        // in this value, which does nothing to it before the region is gone.
        let memory = unsafe { BufferRegion::of_file(file.as_fd(), whole, pages) }?;
        Ok(Self { file, memory })
    }

    /// The memory to fill.
    pub(super) fn memory(&mut self) -> &mut BufferRegion {
        &mut self.memory
    }

    /// Seals the file. If the kernel refuses, returns a private copy of the bytes. Causes are a filter, or a
    /// child that was forked while the region was being mapped and holds it.
    pub(super) fn seal(self) -> Result<Result<SealedMemfd, BufferRegion>, Errno> {
        let Self { file, memory } = self;
        let (len, pages) = (memory.len(), memory.pages());
        drop(memory);
        if rustix::fs::fcntl_add_seals(&file, UNCHANGING | SealFlags::SEAL).is_err() {
            let mut copy = BufferRegion::anonymous(len, pages)?;
            read_exact(file.as_fd(), copy.as_mut_bytes())?;
            return Ok(Err(copy));
        }
        // SAFETY: the seals just set forbid everybody to write, shorten or punch the file, for
        // ever.
        let view = unsafe { BufferRegion::view(file.as_fd(), len, pages) }?;
        Ok(Ok(SealedMemfd { file, view }))
    }
}

impl SealedMemfd {
    /// The first `len` bytes of a memfd that was sealed elsewhere. EPERM without the seals, EINVAL for a
    /// shorter file.
    pub(super) fn open(file: OwnedFd, len: usize) -> Result<Self, Errno> {
        if !rustix::fs::fcntl_get_seals(&file)?.contains(UNCHANGING) {
            return Err(Errno::PERM);
        }
        let size = usize::try_from(rustix::fs::fstat(&file)?.st_size).map_err(|_| Errno::INVAL)?;
        if size < len.max(1) {
            return Err(Errno::INVAL);
        }
        let whole = len.checked_next_multiple_of(BufferPages::Huge.size());
        let has_huge =
            BufferPages::for_len(len) == BufferPages::Huge && whole.is_some_and(|n| n <= size);
        let pages = if has_huge { BufferPages::Huge } else { BufferPages::Base };
        // SAFETY: the seals that were found forbid everybody to write, shorten or punch the file, for
        // ever, and it reaches to the last page that is mapped.
        let view = unsafe { BufferRegion::view(file.as_fd(), len, pages) }?;
        Ok(Self { file, view })
    }

    /// The bytes.
    pub(super) fn memory(&self) -> &BufferRegion {
        &self.view
    }

    /// The descriptor.
    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// `splice(2)` with a separate offset: passes some of `bytes` to a pipe by reference.
    pub(super) fn splice(
        &self,
        to: BorrowedFd<'_>,
        bytes: Range<usize>,
        flags: SpliceFlags,
    ) -> Result<usize, Errno> {
        let mut at = bytes.start as u64;
        rustix::pipe::splice(&self.file, Some(&mut at), to, None, bytes.len(), flags)
    }
}

/// A memfd that can be sealed. Not executable, if the kernel supports that flag (Linux 6.3).
fn memfd() -> Result<OwnedFd, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match rustix::fs::memfd_create(c"frozen", flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => rustix::fs::memfd_create(c"frozen", flags),
        other => other,
    }
}

/// Fills `into` from the beginning of a file.
fn read_exact(file: BorrowedFd<'_>, mut into: &mut [u8]) -> Result<(), Errno> {
    let mut at = 0;
    while !into.is_empty() {
        match rustix::io::pread(file, &mut *into, at) {
            Ok(0) => return Err(Errno::IO),
            Ok(n) => {
                at += n as u64;
                into = &mut into[n..];
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
