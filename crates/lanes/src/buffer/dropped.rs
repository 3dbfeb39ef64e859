//! Memory that is given away: filled, passed on by reference, and replaced before it can be written
//! again.
//!
//! `vmsplice(2)` puts references to the pages into the pipe. Their content stays as given, because
//! [`Dropped`] gives no write access to given bytes: [`Dropped::as_mut_slice`] is only the rest. When
//! that is used up, new pages replace the old ones (`madvise(2)`, MADV_DONTNEED). The old pages belong
//! to the holders of references, wherever the reader sends them, and are freed with the last reference.
//! Only bytes that the kernel has taken count as given. After a short count or an error the rest is
//! still ours. Dropping a region that is half given is safe, because a reference holds its page.
//! SPLICE_F_GIFT is never set: it gains nothing.
//!
//! Compared with a copy by `write(2)`, each given page costs a new zeroed page. That pays if huge pages
//! make faults cheap or the reader passes the bytes on. [`Dropped::returning`] makes a region that is
//! taken back instead: on a write, the kernel copies the pages that are still referenced, and the others
//! are reused directly. If vmsplice copies anyway (the [probe](crate::probe) shows it), `write(2)` is
//! used, and pages stay.
//!
//! Not seen: whether the reader has read. Memory in use is the memory that readers hold (at most the
//! pipe's capacity for readers that copy), plus the region.

#![allow(unsafe_code, reason = "vmsplice of bytes that this type never writes again")]

use super::proof;
use super::region::{BufferPages, BufferRegion};
use super::returning::{self, PageReferences};
use super::send::{SendError, SendWay, send_all, write};
use rustix::io::Errno;
use rustix::pipe::SpliceFlags;
use std::os::fd::{AsFd, BorrowedFd};

/// Memory whose content is given away.
///
/// # Examples
///
/// ```
/// use pagewise_lanes::buffer::{Dropped, BufferPages};
/// use std::io::Read;
/// let mut region = Dropped::new(64 * 1024, BufferPages::Base)?;
/// let (mut reader, writer) = std::io::pipe()?;
/// for round in 0..3_u8 {
///     region.space(5000)?[..5000].fill(b'a' + round);
///     region.give(&writer, 5000)?;
/// }
/// drop(writer);
/// let mut text = Vec::new();
/// reader.read_to_end(&mut text)?;
/// assert_eq!((text[4999], text[5000], text[14_999]), (b'a', b'b', b'c'));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Dropped {
    memory: BufferRegion,
    /// Bytes of this round that were passed on. None of them is written before `renew`.
    given: usize,
    /// Whether any of them went by reference.
    held: bool,
    /// The state of returning pages. `None` if every round has new pages.
    returns: Option<PageReferences>,
}

impl Dropped {
    /// A region of `size` bytes, rounded up to whole pages of the kind wanted.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub fn new(size: usize, pages: BufferPages) -> Result<Self, Errno> {
        Self::over(size, pages, None)
    }

    /// As [`Dropped::new`], but the bytes stay when the region is used up: bytes that you do not write
    /// keep their value, and pages without references are neither replaced nor cleared.
    ///
    /// Each time the region is used up, the kernel copies the page tables of the process. Use this in
    /// small processes and for regions of several times the pipe's capacity; in a large process
    /// [`Dropped::new`] is faster. Use it only with readers that do not multiply references: in a
    /// process that uses O_DIRECT or the like, a base page to which readers added more than 500
    /// references themselves (tee(2)) could change under them.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    ///
    /// # Examples
    ///
    /// ```
    /// use pagewise_lanes::buffer::{Dropped, BufferPages};
    /// use std::io::Read;
    /// let mut region = Dropped::returning(16 * 1024, BufferPages::Base)?;
    /// let (mut reader, writer) = std::io::pipe()?;
    /// region.as_mut_slice().fill(b'-');
    /// for round in 0..3_u8 {
    ///     region.space(16 * 1024)?[0] = b'a' + round;
    ///     region.give(&writer, 16 * 1024)?;
    /// }
    /// drop(writer);
    /// let mut text = Vec::new();
    /// reader.read_to_end(&mut text)?;
    /// assert_eq!((text[0], text[16 * 1024], text[32 * 1024]), (b'a', b'b', b'c'));
    /// assert_eq!(text.iter().filter(|byte| **byte == b'-').count(), 3 * 16 * 1024 - 3);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn returning(size: usize, pages: BufferPages) -> Result<Self, Errno> {
        Self::over(size, pages, Some(PageReferences::default()))
    }

    fn over(
        size: usize,
        pages: BufferPages,
        returns: Option<PageReferences>,
    ) -> Result<Self, Errno> {
        Ok(Self { memory: BufferRegion::anonymous(size, pages)?, given: 0, held: false, returns })
    }

    /// Size of the whole region in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.memory.len()
    }

    /// The bytes not given yet, from which [`Dropped::give`] takes the first; the whole region
    /// after all were given. Its earlier content has no meaning, unless the region is
    /// [returning](Dropped::returning).
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.memory.as_mut_bytes()[self.given..]
    }

    /// As [`Dropped::as_mut_slice`], with room for `len` bytes: if there is less, the whole region is
    /// renewed and returned. The reader then never gets bytes that were written and not given.
    ///
    /// # Errors
    ///
    /// EINVAL if `len` is more than the capacity; as [`Dropped::renew`].
    pub fn space(&mut self, len: usize) -> Result<&mut [u8], Errno> {
        if len > self.capacity() {
            return Err(Errno::INVAL);
        }
        if len > self.capacity() - self.given {
            self.renew()?;
        }
        Ok(self.as_mut_slice())
    }

    /// Replaces the pages or takes them back now, so that the whole region can be written.
    ///
    /// # Errors
    ///
    /// ENOMEM; the region then gives out no byte that was given.
    pub fn renew(&mut self) -> Result<(), Errno> {
        match &mut self.returns {
            _ if !self.held => {}
            None => self.memory.drop_pages()?,
            Some(references) => returning::take_back(&mut self.memory, references)?,
        }
        (self.given, self.held) = (0, false);
        Ok(())
    }

    /// Gives all of the first `len` bytes of [`Dropped::as_mut_slice`] to any descriptor, and waits while it
    /// is full. Into a pipe they go by reference. Elsewhere, or if the kernel refuses that, by `write(2)`.
    ///
    /// # Errors
    ///
    /// EINVAL if there are fewer than `len`; the errors of `write(2)`. The bytes not taken are then the first
    /// of [`Dropped::as_mut_slice`].
    pub fn give(&mut self, to: impl AsFd, len: usize) -> Result<SendWay, SendError> {
        if len > self.capacity() - self.given {
            return Err(SendError { call: "give", errno: Errno::INVAL, taken: 0 });
        }
        let to = to.as_fd();
        send_all(to, len, "vmsplice", SendWay::first_of_memory(to), false, |taken, by| {
            self.give_some(to, len - taken, SpliceFlags::empty(), by, |bytes| write(to, bytes))
        })
    }

    /// Gives some of the first `len` bytes left by one call. At least `len` must be left. They go by
    /// reference, where `flags` sets whether to wait, or by `write` once that was refused. `by` starts as
    /// [`SendWay::first_of_memory`] of `to` and afterwards shows how they went.
    pub(crate) fn give_some(
        &mut self,
        to: BorrowedFd<'_>,
        len: usize,
        flags: SpliceFlags,
        by: &mut SendWay,
        write: impl FnOnce(&[u8]) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let (bytes, memory) = (self.given..self.given + len, &self.memory);
        let range = bytes.clone();
        let refer = || {
            // SAFETY: `to` can be written, as `SendWay::first` has seen. The bytes taken are counted
            // as given below, and given bytes are not lent for writing until their pages
            // have been replaced, or are copied by the kernel when they are written. The rest of
            // the range stays ours.
            unsafe { memory.vmsplice(to, range, flags) }
        };
        let n = by.some(refer, || write(&memory.as_bytes()[bytes]))?.min(len);
        if *by == SendWay::ByReference {
            self.held = true;
            if let Some(references) = &mut self.returns {
                references.note(self.given, n);
            }
        }
        self.given += n;
        if self.given == self.capacity() {
            // A failure here loses nothing: `given` stays, nothing is lent, and `renew` reports it later.
            let _later = self.renew();
        }
        Ok(n)
    }

    /// Moves a region of huge pages, of which nothing was given, onto huge pages if the kernel can do it.
    pub(crate) fn make_huge(&mut self) {
        self.memory.make_huge();
    }

    /// Whether [`Self::renew`] takes pages back that no reader holds, without moving their content and without a child.
    pub(crate) fn returns_without_child(&self) -> bool {
        self.returns.is_some() && returning::works_without_child(self.memory.pages())
    }

    /// Size in bytes of the smallest page under any part of the region, as the kernel maps it now. Pages that
    /// were never written count as the smallest.
    ///
    /// # Errors
    ///
    /// Those of reading `/proc/self/smaps`.
    pub fn page_size(&self) -> std::io::Result<usize> {
        proof::page_size(&self.memory)
    }
}
