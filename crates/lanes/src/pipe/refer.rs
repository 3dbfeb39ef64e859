//! Bytes passed to a pipe by reference: the sides of [`Writer`] for [`Frozen`] and [`Dropped`].
//!
//! The buffers make the calls (`splice(2)` from a sealed memfd, `vmsplice(2)`). Here they are attempted with
//! SPLICE_F_NONBLOCK and waited for like all calls of the writer. If a descriptor or kernel refuses
//! references, the bytes are written instead, and the writer remembers it. What a reader does with the
//! references is not seen and does not matter: these buffers never change. Every base page or part of one
//! takes a slot of the pipe, so small pieces fill it as fast as large ones.

use super::writer::write_some;
use super::{PipeBase, Writer};
use crate::buffer::{Dropped, Frozen, SendError, SendWay};
use crate::end::DescriptorKind;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::pipe::SpliceFlags;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

impl Writer {
    /// Sends a range of frozen bytes, all of it: by reference into a pipe, otherwise as `write` does. The
    /// same bytes can be sent again immediately, here and elsewhere.
    ///
    /// # Errors
    ///
    /// EINVAL for a range beyond the content; what `write(2)` gives; EINTR after a signal where a
    /// [`PipeStop`](super::PipeStop) ends waits.
    ///
    /// # Examples
    ///
    /// ```
    /// use pagewise_lanes::buffer::Frozen;
    /// use std::io::Read;
    /// let line = Frozen::new(b"y\n")?;
    /// let (mut reader, mut writer) = pagewise_lanes::pipe::pair()?;
    /// for _ in 0..3 {
    ///     writer.send(&line, 0..2)?;
    /// }
    /// drop(writer);
    /// let mut text = String::new();
    /// reader.read_to_string(&mut text)?;
    /// assert_eq!(text, "y\ny\ny\n");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn send(&mut self, from: &Frozen, bytes: Range<usize>) -> Result<SendWay, SendError> {
        if bytes.start > bytes.end || bytes.end > from.len() {
            return Err(SendError { call: "send", errno: Errno::INVAL, taken: 0 });
        }
        let by = self.sending.get_or_insert(SendWay::first(self.base.fd.as_fd()));
        let base = &mut self.base;
        base.all(bytes.len(), by, |base, taken, by| {
            let rest = bytes.start + taken..bytes.end;
            base.refer(*by, |fd, flags, write| from.send_some(fd, rest.clone(), flags, by, write))
        })
    }

    /// Gives away all of the first `len` bytes of a region's [`Dropped::as_mut_slice`]. They go by reference
    /// into a pipe if the kernel shares pages, otherwise by `write(2)`.
    ///
    /// # Errors
    ///
    /// EINVAL if there are fewer than `len`; what `write(2)` gives. The bytes not taken are the
    /// first of [`Dropped::as_mut_slice`] then.
    ///
    /// # Examples
    ///
    /// ```
    /// use pagewise_lanes::buffer::{Dropped, BufferPages};
    /// use std::io::Read;
    /// let (mut reader, mut writer) = pagewise_lanes::pipe::pair()?;
    /// let mut region = Dropped::new(64 * 1024, BufferPages::Base)?;
    /// region.space(5)?[..5].copy_from_slice(b"never");
    /// writer.give(&mut region, 5)?;
    /// region.space(6)?[..6].copy_from_slice(b" again");
    /// writer.give(&mut region, 6)?;
    /// drop(writer);
    /// let mut text = String::new();
    /// reader.read_to_string(&mut text)?;
    /// assert_eq!(text, "never again");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn give(&mut self, from: &mut Dropped, len: usize) -> Result<SendWay, SendError> {
        if len > from.as_mut_slice().len() {
            return Err(SendError { call: "give", errno: Errno::INVAL, taken: 0 });
        }
        let first = || SendWay::first_of_memory(self.base.fd.as_fd());
        let by = self.giving.get_or_insert_with(first);
        let base = &mut self.base;
        base.all(len, by, |base, taken, by| {
            base.refer(*by, |fd, flags, write| from.give_some(fd, len - taken, flags, by, write))
        })
    }
}

/// The copy that a buffer calls if references are refused.
type Copy<'a> = &'a mut dyn FnMut(&[u8]) -> Result<usize, Errno>;

impl PipeBase {
    /// Makes one call of a buffer: by reference, waiting as the end waits, or by a copy that waits the same
    /// way.
    fn refer(
        &mut self,
        by: SendWay,
        mut call: impl FnMut(BorrowedFd<'_>, SpliceFlags, Copy<'_>) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let Self { fd, end, attempt, waiter, .. } = self;
        let fd = fd.as_fd();
        match by {
            SendWay::ByReference => {
                let is_pipe = end.kind == DescriptorKind::Pipe;
                // Refused just now and nothing moved: the next round copies.
                let mut again = |_: &[u8]| Err(Errno::INTR);
                waiter.run(is_pipe, (fd, PollFlags::OUT), |moment| {
                    call(fd, moment.splice_flags(), &mut again)
                })
            }
            SendWay::Copied => {
                let mut copy = |bytes: &[u8]| write_some(fd, attempt, waiter, bytes);
                call(fd, SpliceFlags::empty(), &mut copy)
            }
        }
    }

    /// Moves `len` bytes: `some` gets the number moved so far and moves some more.
    fn all(
        &mut self,
        len: usize,
        by: &mut SendWay,
        mut some: impl FnMut(&mut Self, usize, &mut SendWay) -> Result<usize, Errno>,
    ) -> Result<SendWay, SendError> {
        let mut taken = 0;
        while taken < len {
            match some(self, taken, by) {
                Ok(n) => taken += n,
                Err(errno) if self.waiter.goes_on(errno) => {}
                Err(errno) => {
                    let call = if *by == SendWay::Copied { "write" } else { "splice" };
                    return Err(SendError { call, errno, taken });
                }
            }
        }
        Ok(*by)
    }
}
