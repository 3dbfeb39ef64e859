//! The half that copies out and acknowledges.

use super::account::RingAccount;
use rustix::io::Errno;
use std::io::Read;
use std::os::fd::OwnedFd;

/// Informs the writer of a ring how much may be written again.
#[derive(Debug)]
pub struct RingAcknowledger(pub(super) RingAccount);

impl RingAcknowledger {
    /// Acknowledges the next `bytes` bytes, in the order in which they were sent. Acknowledgements beyond the
    /// bytes sent have no effect until those are sent.
    pub fn acknowledge(&self, bytes: usize) {
        self.0.add(bytes as u64);
    }
}

/// The reading half of a ring. Reads by copying; it does not show its descriptor.
#[derive(Debug)]
pub struct RingReader {
    pipe: Option<OwnedFd>,
    acknowledger: RingAcknowledger,
}

impl RingReader {
    pub(super) fn new(pipe: OwnedFd, acknowledger: RingAcknowledger) -> Self {
        Self { pipe: Some(pipe), acknowledger }
    }

    /// The half as two descriptors, for another process (`unix(7)`, SCM_RIGHTS, or inherited): the pipe and
    /// the shared count, for [`RingReader::from_files`] there.
    ///
    /// # Errors
    ///
    /// EMFILE; the ring is then at its end.
    ///
    /// # Safety
    ///
    /// Only one [`RingReader`] made of these two may read from the pipe, and only it may write to the count.
    /// Bytes that are spliced or teed out of the pipe change when their region is written again.
    #[allow(unsafe_code, reason = "a contract that only the caller can keep")]
    pub unsafe fn into_files(mut self) -> Result<[OwnedFd; 2], Errno> {
        let pipe = self.pipe.take().ok_or(Errno::BADF)?;
        Ok([pipe, self.acknowledger.0.file()?])
    }

    /// The half that [`RingReader::into_files`] gave out.
    ///
    /// # Errors
    ///
    /// EINVAL if the second is not a shared count; what `mmap(2)` gives.
    pub fn from_files([pipe, count]: [OwnedFd; 2]) -> Result<Self, Errno> {
        Ok(Self::new(pipe, RingAcknowledger(RingAccount::open(count)?)))
    }
}

impl Read for RingReader {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let Some(pipe) = &self.pipe else { return Ok(0) };
        let n = rustix::io::read(pipe, into)?;
        self.acknowledger.acknowledge(n);
        Ok(n)
    }
}

impl Drop for RingReader {
    fn drop(&mut self) {
        // A sleeping writer then finds the pipe closed immediately.
        if self.pipe.take().is_some() {
            self.acknowledger.0.ring();
        }
    }
}
