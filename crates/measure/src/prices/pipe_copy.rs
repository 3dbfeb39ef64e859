//! Copying through a pipe, ns per KiB.
//!
//! One thread writes 64 KiB into a pipe of the default size and reads them back: both copies, the
//! allocation and freeing of the pipe's pages, two system calls (fs/pipe.c). Nobody sleeps, so
//! wake-ups are not in it. A new pipe holds less where this user's pipes pass
//! `fs.pipe-user-pages-soft` (two pages) or base pages are few; then as much as it holds goes
//! through at a time, as in the pipes that this user's programs get. Not seen: the transfer between
//! the caches of two cores.

use super::scratch::BLOCK;
use crate::error::PriceError;
use crate::sample::{Probe, time_cpu};
use pagewise_kernel::SysError;
use std::os::fd::OwnedFd;

/// Bytes of one repeat.
const AMOUNT: usize = 128 * BLOCK;

/// The probe.
#[derive(Debug)]
pub(crate) struct PipeCopy {
    reader: OwnedFd,
    writer: OwnedFd,
    buffer: Vec<u8>,
}

impl PipeCopy {
    /// A pipe and a buffer.
    pub(crate) fn new() -> Result<Self, PriceError> {
        Self::through(pagewise_kernel::pipe::pipe()?)
    }

    /// A buffer for this pipe: a write of more than the pipe holds would wait for ever.
    fn through((reader, writer): (OwnedFd, OwnedFd)) -> Result<Self, PriceError> {
        let capacity = pagewise_kernel::pipe::capacity(&writer)?;
        let len = usize::try_from(capacity.0).map_or(BLOCK, |capacity| capacity.min(BLOCK));
        Ok(Self { reader, writer, buffer: vec![0x5a; len] })
    }

    fn copy_block(&mut self) -> Result<(), PriceError> {
        let sent = rustix::io::write(&self.writer, &self.buffer)
            .map_err(|e| SysError::new("write", "a pipe", e))?;
        let mut left = sent;
        while left > 0 {
            left -= rustix::io::read(&self.reader, &mut self.buffer[..left])
                .map_err(|e| SysError::new("read", "a pipe", e))?;
        }
        Ok(())
    }
}

impl Probe for PipeCopy {
    const NAME: &'static str = "the pipe copy";

    fn measure_once(&mut self) -> Result<f64, PriceError> {
        let blocks = AMOUNT / self.buffer.len();
        let (ns, done) = time_cpu(|| (0..blocks).try_for_each(|_| self.copy_block()));
        done?;
        Ok(ns * 1024.0 / (blocks * self.buffer.len()) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_kernel::{page_size, pipe};
    use pagewise_model::Bytes;

    #[test]
    fn a_shrunk_pipe_has_a_price() {
        let ends = pipe::pipe().expect("a pipe");
        let two_pages = Bytes(2 * page_size::base().bytes());
        let held = pipe::set_capacity(&ends.1, two_pages).expect("smaller");
        let mut probe = PipeCopy::through(ends).expect("a probe");
        assert_eq!(probe.buffer.len() as u64, held.0);
        assert!(probe.measure_once().expect("a price") > 0.0);
    }
}
