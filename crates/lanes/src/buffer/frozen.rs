//! Bytes that never change again: a write-sealed memfd, spliced any number of times.
//!
//! The memory is filled first and then frozen, and only frozen bytes can be sent. Usually it is a
//! memfd under the seals F_SEAL_WRITE, GROW, SHRINK and SEAL (`fcntl(2)`, `memfd_create(2)`). From
//! then on the kernel refuses every write, writable mapping, hole and truncation from any process. So
//! references in pipes (`splice(2)` with a separate offset) show the same bytes for ever.
//! The seal is set before the first send, because the kernel refuses it (EBUSY) while references to the
//! pages exist. If memfd or seals are not allowed, or on request, it is private memory without the right
//! to be written (`mprotect(2)`), sent by `vmsplice(2)`. There this type, not the kernel, keeps other
//! code of the process from writing.
//!
//! From a sixteenth of a huge page up, content is put on huge pages, where each slot of a pipe
//! costs less to fill. MADV_COLLAPSE (`madvise(2)`, Linux 6.1) does that without privilege and
//! whatever the setting for shared memory is. [`Frozen::page_size`] proves it. Content is then
//! padded with zeroes to whole huge pages, in memory but not when sent.
//!
//! Not seen: whether a receiver has read the bytes. Overhead: making one costs some 50 us, the
//! faults of its pages, and with huge pages one more copy. Sending costs one slot of the pipe for each
//! base page, and no copy.

use super::draft::Draft;
use super::proof;
use super::region::BufferRegion;
use super::sealed::SealedMemfd;
use super::send::{SendError, SendWay, send_all, write};
use super::still::ReadOnlyMemory;
use rustix::io::Errno;
use rustix::pipe::SpliceFlags;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// What keeps frozen bytes from changing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrozenStore {
    /// A memfd that the kernel has sealed.
    Sealed,
    /// Private memory of this process without the right to be written.
    Private,
}

#[derive(Debug)]
enum FrozenMemory {
    Sealed(SealedMemfd),
    Private(ReadOnlyMemory),
}

#[derive(Debug)]
struct FrozenContent {
    memory: FrozenMemory,
    len: usize,
}

/// Bytes that never change again, to be sent by reference any number of times, from any thread;
/// clones are handles to the same bytes.
///
/// # Examples
///
/// ```
/// use pagewise_lanes::buffer::Frozen;
/// use std::io::Read;
/// let hello = Frozen::new(b"hello, world\n")?;
/// let (mut reader, writer) = std::io::pipe()?;
/// for _ in 0..3 {
///     hello.send(&writer, 7..13)?;
/// }
/// drop(writer);
/// let mut text = String::new();
/// reader.read_to_string(&mut text)?;
/// assert_eq!(text, "world\nworld\nworld\n");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Frozen(Arc<FrozenContent>);

impl Frozen {
    /// Freezes a copy of `bytes`.
    ///
    /// # Errors
    ///
    /// As [`Frozen::build`].
    pub fn new(bytes: &[u8]) -> Result<Self, Errno> {
        Self::build(bytes.len(), |space| space.copy_from_slice(bytes))
    }

    /// Freezes `len` bytes that `fill` writes; they are zero before.
    ///
    /// # Errors
    ///
    /// ENOMEM. If a sealed memfd is refused, private memory is used instead.
    ///
    /// # Examples
    ///
    /// ```
    /// use pagewise_lanes::buffer::Frozen;
    /// let numbers = Frozen::build(4096, |space| {
    ///     for (number, byte) in space.iter_mut().enumerate() {
    ///         *byte = number as u8;
    ///     }
    /// })?;
    /// assert_eq!(numbers.as_bytes()[4095], 255);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn build(len: usize, fill: impl FnOnce(&mut [u8])) -> Result<Self, Errno> {
        let mut draft = Draft::new(len)?;
        fill(draft.as_mut_slice());
        draft.freeze()
    }

    /// As [`Frozen::build`], in private memory from the start: sent by `vmsplice(2)`, and without a
    /// descriptor.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub fn build_private(len: usize, fill: impl FnOnce(&mut [u8])) -> Result<Self, Errno> {
        let mut draft = Draft::private(len)?;
        fill(draft.as_mut_slice());
        draft.freeze()
    }

    /// Takes the first `len` bytes of a sealed memfd, such as one that another process got from
    /// [`Frozen::memfd`] and passed on. Nothing is copied. The seals are checked, so no process can change
    /// the bytes any more, not even the one that made the file.
    ///
    /// # Errors
    ///
    /// EINVAL for a file that is no memfd or is shorter, EPERM for one that misses a seal; what `mmap(2)`
    /// gives.
    ///
    /// # Examples
    ///
    /// ```
    /// use pagewise_lanes::buffer::Frozen;
    /// let hello = Frozen::new(b"hello")?;
    /// let Some(file) = hello.memfd() else { return Ok(()) };
    /// let same = Frozen::from_memfd(file.try_clone_to_owned()?, hello.len())?;
    /// assert_eq!(same.as_bytes(), b"hello");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn from_memfd(file: impl Into<OwnedFd>, len: usize) -> Result<Self, Errno> {
        Ok(Self::sealed(SealedMemfd::open(file.into(), len)?, len))
    }

    /// The first `len` bytes of a memfd.
    pub(super) fn sealed(memory: SealedMemfd, len: usize) -> Self {
        Self::from_memory(FrozenMemory::Sealed(memory), len)
    }

    /// The first `len` bytes of private memory.
    pub(super) fn still(mut memory: BufferRegion, len: usize) -> Result<Self, Errno> {
        memory.collapse();
        Ok(Self::from_memory(FrozenMemory::Private(ReadOnlyMemory::new(memory)?), len))
    }

    fn from_memory(memory: FrozenMemory, len: usize) -> Self {
        Self(Arc::new(FrozenContent { memory, len }))
    }

    fn memory(&self) -> &BufferRegion {
        match &self.0.memory {
            FrozenMemory::Sealed(sealed) => sealed.memory(),
            FrozenMemory::Private(still) => still.memory(),
        }
    }

    /// The bytes. A plain slice is sound, because they can no longer be written or shortened: no
    /// SIGBUS, and no hidden change.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.memory().as_bytes()[..self.0.len]
    }

    /// Number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether the content is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// What keeps the bytes from changing.
    #[must_use]
    pub fn store(&self) -> FrozenStore {
        match self.0.memory {
            FrozenMemory::Sealed(_) => FrozenStore::Sealed,
            FrozenMemory::Private(_) => FrozenStore::Private,
        }
    }

    /// The sealed memfd, to be passed to other processes (`unix(7)`, SCM_RIGHTS), which can map it
    /// and trust it once they have checked its seals.
    #[must_use]
    pub fn memfd(&self) -> Option<BorrowedFd<'_>> {
        match &self.0.memory {
            FrozenMemory::Sealed(sealed) => Some(sealed.file()),
            FrozenMemory::Private(_) => None,
        }
    }

    /// Size in bytes of the smallest page under any part of the content, as the kernel maps it now.
    ///
    /// # Errors
    ///
    /// Those of reading `/proc/self/smaps`.
    pub fn page_size(&self) -> std::io::Result<usize> {
        proof::page_size(self.memory())
    }

    /// Sends all `bytes` of the content to any descriptor, and waits while it is full. Into a pipe they go by
    /// reference. Elsewhere, or if the kernel refuses that, by `write(2)`.
    ///
    /// # Errors
    ///
    /// EINVAL for a range beyond the content; the errors of `write(2)`. EPIPE comes with SIGPIPE unless the
    /// caller ignores it, as Rust programs do.
    pub fn send(&self, to: impl AsFd, bytes: Range<usize>) -> Result<SendWay, SendError> {
        self.send_all(to.as_fd(), bytes, false)
    }

    /// As [`Frozen::send`], but a signal ends it: EINTR, with the number of bytes taken until then.
    ///
    /// # Errors
    ///
    /// As [`Frozen::send`], and EINTR.
    pub fn send_interruptibly(
        &self,
        to: impl AsFd,
        bytes: Range<usize>,
    ) -> Result<SendWay, SendError> {
        self.send_all(to.as_fd(), bytes, true)
    }

    fn send_all(
        &self,
        to: BorrowedFd<'_>,
        bytes: Range<usize>,
        interrupts: bool,
    ) -> Result<SendWay, SendError> {
        if bytes.start > bytes.end || bytes.end > self.0.len {
            return Err(SendError { call: "send", errno: Errno::INVAL, taken: 0 });
        }
        let len = bytes.len();
        let call = match self.store() {
            FrozenStore::Sealed => "splice",
            FrozenStore::Private => "vmsplice",
        };
        send_all(to, len, call, SendWay::first(to), interrupts, |taken, by| {
            self.send_some(to, bytes.start + taken..bytes.end, SpliceFlags::empty(), by, |bytes| {
                write(to, bytes)
            })
        })
    }

    /// Sends some of `bytes`, which lie within the content, by one call: by reference, where
    /// `flags` sets whether to wait, or by `write` once that was refused. `by` starts as
    /// [`SendWay::first`] of `to` and afterwards shows how they went.
    pub(crate) fn send_some(
        &self,
        to: BorrowedFd<'_>,
        bytes: Range<usize>,
        flags: SpliceFlags,
        by: &mut SendWay,
        write: impl FnOnce(&[u8]) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let range = bytes.clone();
        let refer = || match &self.0.memory {
            FrozenMemory::Sealed(sealed) => sealed.splice(to, range, flags),
            FrozenMemory::Private(still) => still.vmsplice(to, range, flags),
        };
        by.some(refer, || write(&self.as_bytes()[bytes]))
    }
}
