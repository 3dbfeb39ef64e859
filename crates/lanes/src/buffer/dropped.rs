//! Memory that is given away: filled, handed over by reference, and replaced before anybody can
//! write there again.
//!
//! `vmsplice(2)` puts references to the pages into the pipe. They stay what they were when given,
//! because [`Dropped`] lets nobody write what was given: [`Dropped::as_mut_slice`] is only the
//! rest, and when that is used up the pages are replaced by new ones (`madvise(2)`, MADV_DONTNEED).
//! The old ones belong to whoever holds references, wherever the reader sends them on, and are
//! freed with the last. Only bytes that the kernel has taken count as given; after a short count or
//! an error the rest is still ours, and a region dropped half given is safe, because a reference
//! holds its page. SPLICE_F_GIFT is never set: it gains nothing.
//!
//! The price against a copy by `write(2)` is a new zeroed page for each page given: worth it where
//! huge pages make faults cheap or the reader passes the bytes on. [`Dropped::returning`] makes a
//! region that is taken back instead: the kernel copies the pages that anybody still refers to, when
//! they are written, and the others are used again as they are. Where vmsplice copies anyway (the
//! [probe](crate::probe) says so) `write(2)` is used, and pages stay.
//!
//! Not seen: whether the reader has read. Memory in use is what readers hold, at most the
//! pipe's capacity for readers that copy, plus the region.

#![allow(unsafe_code, reason = "vmsplice of bytes that this type never writes again")]

use super::proof;
use super::region::{Pages, Region};
use super::returning::{self, References};
use super::send::{SendError, Sent, send_all, write};
use rustix::io::Errno;
use rustix::pipe::SpliceFlags;
use std::os::fd::{AsFd, BorrowedFd};

/// Memory whose content is given away.
///
/// # Examples
///
/// ```
/// use pagewise_lanes::buffer::{Dropped, Pages};
/// use std::io::Read;
/// let mut region = Dropped::new(64 * 1024, Pages::Base)?;
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
    memory: Region,
    /// Bytes of this round that were handed over; none of them is written before `renew`.
    given: usize,
    /// Whether any of them went by reference.
    held: bool,
    /// What pages that are used again when nobody refers to them any more need known; none where
    /// every round has others.
    returns: Option<References>,
}

impl Dropped {
    /// A region of `size` bytes, rounded up to whole pages of the kind wanted.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub fn new(size: usize, pages: Pages) -> Result<Self, Errno> {
        Self::over(size, pages, None)
    }

    /// As [`Dropped::new`], but the bytes stay when the region is used up: what is not written anew
    /// is as it was, and pages that nobody refers to any more are neither replaced nor cleared.
    ///
    /// Each time the region is used up a child process is made that ends at once. So this is for
    /// small processes and for regions of several times what the pipe holds; in a large process
    /// [`Dropped::new`] is faster. And it is for readers that do not multiply what they get: in a
    /// process that uses O_DIRECT or the like, a base page of which readers made more than 500
    /// references themselves (tee(2)) could change under them.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    ///
    /// # Examples
    ///
    /// ```
    /// use pagewise_lanes::buffer::{Dropped, Pages};
    /// use std::io::Read;
    /// let mut region = Dropped::returning(16 * 1024, Pages::Base)?;
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
    pub fn returning(size: usize, pages: Pages) -> Result<Self, Errno> {
        Self::over(size, pages, Some(References::default()))
    }

    fn over(size: usize, pages: Pages, returns: Option<References>) -> Result<Self, Errno> {
        Ok(Self { memory: Region::anonymous(size, pages)?, given: 0, held: false, returns })
    }

    /// Size of the whole region in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.memory.len()
    }

    /// The bytes not given yet, from which [`Dropped::give`] takes the first; the whole region
    /// after all were given. What is in there beforehand is of no meaning, unless the region is
    /// [returning](Dropped::returning).
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.memory.as_mut_bytes()[self.given..]
    }

    /// As [`Dropped::as_mut_slice`], with room for `len` bytes: if there is less, the region is
    /// renewed and given out as a whole. Bytes written and not given are then lost for the reader.
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

    /// Gives the first `len` bytes of [`Dropped::as_mut_slice`] to any descriptor, all of them,
    /// waiting where it is full: into a pipe by reference, elsewhere and where the kernel refuses
    /// that, by `write(2)`.
    ///
    /// # Errors
    ///
    /// EINVAL if there are fewer than `len`; what `write(2)` gives. The bytes not taken are the
    /// first of [`Dropped::as_mut_slice`] then.
    pub fn give(&mut self, to: impl AsFd, len: usize) -> Result<Sent, SendError> {
        if len > self.capacity() - self.given {
            return Err(SendError { call: "give", errno: Errno::INVAL, taken: 0 });
        }
        let to = to.as_fd();
        send_all(to, len, "vmsplice", Sent::first_of_memory(to), |taken, by| {
            self.give_some(to, len - taken, SpliceFlags::empty(), by, |bytes| write(to, bytes))
        })
    }

    /// Gives some of the first `len` bytes left, of which there must be as many, by one call: by
    /// reference, where `flags` says whether to wait, or by `write` once that was refused. `by`
    /// starts as [`Sent::first_of_memory`] says of `to` and tells afterwards how they went.
    pub(crate) fn give_some(
        &mut self,
        to: BorrowedFd<'_>,
        len: usize,
        flags: SpliceFlags,
        by: &mut Sent,
        write: impl FnOnce(&[u8]) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let (bytes, memory) = (self.given..self.given + len, &self.memory);
        let range = bytes.clone();
        let refer = || {
            // SAFETY: `to` can be written, as `Sent::first` has seen. The bytes taken are counted
            // as given below, and given bytes are lent to nobody for writing until their pages
            // have been replaced, or are copied by the kernel when they are written. The rest of
            // the range stays ours.
            unsafe { memory.vmsplice(to, range, flags) }
        };
        let n = by.some(refer, || write(&memory.as_bytes()[bytes]))?.min(len);
        if *by == Sent::ByReference {
            self.held = true;
            if let Some(references) = &mut self.returns {
                references.note(self.given, n);
            }
        }
        self.given += n;
        if self.given == self.capacity() {
            // Where this fails nothing is lost: `given` stays, nothing is lent, `renew` tells.
            let _later = self.renew();
        }
        Ok(n)
    }

    /// Bytes of the smallest page that a part of the region lies on, as the kernel maps it now;
    /// pages that were never written count as the smallest.
    ///
    /// # Errors
    ///
    /// What reading `/proc/self/smaps` gives.
    pub fn page_size(&self) -> std::io::Result<usize> {
        proof::page_size(&self.memory)
    }
}
