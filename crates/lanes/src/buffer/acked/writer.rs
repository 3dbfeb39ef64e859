//! The half that fills regions and passes them on.

#![allow(unsafe_code, reason = "vmsplice of regions that wait for their acknowledgement")]

use super::account::RingAccount;
use super::reader::RingAcknowledger;
use crate::buffer::region::{BufferPages, BufferRegion};
use crate::buffer::send::{SendError, SendWay, send_all, write};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::pipe::SpliceFlags;
use std::ops::{Deref, DerefMut, Range};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// How often the count is looked at before the writer sleeps: some 10 us, less than a wake-up
/// costs.
const LOOKS: u32 = 400;

/// The longest sleep before the writer checks whether the reader still exists.
const NAP: Duration = Duration::from_millis(10);

/// The writing half of a ring.
#[derive(Debug)]
pub struct RingWriter {
    pipe: OwnedFd,
    account: RingAccount,
    memory: BufferRegion,
    /// Bytes of a region.
    size: usize,
    /// For each region, how many bytes must be acknowledged before it is written again.
    needed: Vec<u64>,
    /// The region to be filled next.
    next: usize,
    /// Bytes sent so far.
    sent: u64,
    by: SendWay,
}

impl RingWriter {
    /// A ring that sends to any pipe, whose reader acknowledges through the [`RingAcknowledger`].
    ///
    /// # Errors
    ///
    /// As [`super::ring`].
    ///
    /// # Safety
    ///
    /// The reader of the pipe must not acknowledge a byte before it has been copied and no reference to its
    /// page is left: not in this pipe, and not where it was spliced or teed to. Otherwise bytes change after
    /// they were passed on. That is not undefined behaviour of this process, but wrong data.
    pub unsafe fn over(
        pipe: OwnedFd,
        regions: usize,
        size: usize,
        pages: BufferPages,
    ) -> Result<(Self, RingAcknowledger), Errno> {
        Self::between(pipe, regions, size, pages)
    }

    pub(super) fn between(
        pipe: OwnedFd,
        regions: usize,
        size: usize,
        pages: BufferPages,
    ) -> Result<(Self, RingAcknowledger), Errno> {
        let unit = BufferPages::Base.size();
        let size = size.max(1).checked_next_multiple_of(unit).ok_or(Errno::NOMEM)?;
        let total = size.checked_mul(regions).ok_or(Errno::NOMEM)?;
        if regions == 0 {
            return Err(Errno::INVAL);
        }
        let account = RingAccount::new()?;
        let acknowledger = RingAcknowledger(account.share()?);
        let memory = BufferRegion::anonymous(total, pages)?;
        let by = SendWay::first_of_memory(pipe.as_fd());
        let needed = vec![0; regions];
        Ok((Self { pipe, account, memory, size, needed, next: 0, sent: 0, by }, acknowledger))
    }

    /// Bytes of a region.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// The next region, for writing. Waits until the reader has copied its previous content.
    ///
    /// # Errors
    ///
    /// EPIPE if the reader has closed its end.
    pub fn space(&mut self) -> Result<RingSpace<'_>, Errno> {
        let needed = self.needed[self.next];
        for _ in 0..LOOKS {
            if self.is_copied(needed) {
                return Ok(RingSpace(self));
            }
            std::hint::spin_loop();
        }
        while !self.is_copied(needed) {
            if self.is_reader_gone()? {
                return Err(Errno::PIPE);
            }
            self.account.sleep(needed, NAP);
        }
        Ok(RingSpace(self))
    }

    /// Whether the first `needed` bytes sent were copied. Acknowledgements of bytes that were never sent do
    /// not count.
    fn is_copied(&self, needed: u64) -> bool {
        self.account.copied().min(self.sent) >= needed
    }

    fn is_reader_gone(&self) -> Result<bool, Errno> {
        let mut list = [PollFd::from_borrowed_fd(self.pipe.as_fd(), PollFlags::empty())];
        match rustix::event::poll(&mut list, Some(&Timespec::default())) {
            Ok(_) => Ok(list[0].revents().contains(PollFlags::ERR)),
            Err(Errno::INTR) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    fn range(&self) -> Range<usize> {
        self.next * self.size..(self.next + 1) * self.size
    }

    fn send(&mut self, len: usize) -> Result<SendWay, SendError> {
        let (pipe, start) = (self.pipe.as_fd(), self.range().start);
        let (memory, by, sent) = (&self.memory, self.by, &mut self.sent);
        let needed = &mut self.needed[self.next];
        let result = send_all(pipe, len, "vmsplice", by, false, |taken, by| {
            let bytes = start + taken..start + len;
            let range = bytes.clone();
            // SAFETY: the pipe can be written, as `SendWay::first` has seen. The region is lent for
            // writing again only after the reader has acknowledged these bytes, which by the
            // contract of `over`, or because `Reader` only copies, means that no reference is left.
            let refer = || unsafe { memory.vmsplice(pipe, range, SpliceFlags::empty()) };
            let n = by.some(refer, || write(pipe, &memory.as_bytes()[bytes]))?;
            *sent += n as u64;
            if *by == SendWay::ByReference {
                *needed = *sent;
            }
            Ok(n)
        });
        self.next = (self.next + 1) % self.needed.len();
        self.by = *result.as_ref().unwrap_or(&self.by);
        result
    }
}

/// A region that may be written, until it is sent. Dropped unsent, it is the next one again.
#[derive(Debug)]
pub struct RingSpace<'a>(&'a mut RingWriter);

impl RingSpace<'_> {
    /// Passes on all of the first `len` bytes, and waits while the pipe is full.
    ///
    /// # Errors
    ///
    /// EINVAL if `len` is more than the region has; the errors of `write(2)`; EPIPE if the reader has closed
    /// its end.
    pub fn send(self, len: usize) -> Result<SendWay, SendError> {
        if len > self.0.size {
            return Err(SendError { call: "send", errno: Errno::INVAL, taken: 0 });
        }
        self.0.send(len)
    }
}

impl Deref for RingSpace<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0.memory.as_bytes()[self.0.range()]
    }
}

impl DerefMut for RingSpace<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        let range = self.0.range();
        &mut self.0.memory.as_mut_bytes()[range]
    }
}
