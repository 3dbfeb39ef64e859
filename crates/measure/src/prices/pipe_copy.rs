//! Transfers through a pipe, ns per transfer.
//!
//! One thread writes a block into a pipe of the default size and reads it back: both copies, the allocation
//! and freeing of the pipe's pages, two system calls (fs/pipe.c). There are three sizes, because the parts do
//! not grow together. One byte is nearly all calls. A pipe keeps two pages when they are emptied
//! (`tmp_page`), so up to two pages only copying is added. From there on each page is allocated and charged
//! each time, which costs more than its copies. Between the sizes the time is linear in the bytes, to about
//! 15%.
//!
//! Neither side sleeps, so wake-ups are not included. A new pipe holds less than 64 KiB if this user's pipes
//! exceed `fs.pipe-user-pages-soft` (two pages) or base pages are few. The largest transfer is then what the
//! pipe holds, as in the pipes of this user's programs. Not seen: the transfer between the caches of two
//! cores.

use super::file::BLOCK;
use crate::error::PriceError;
use crate::sample::{PriceProbe, time_cpu};
use crate::sample::{TransferProbe, TransferSeries};
use pagewise_kernel::{SysError, page_size};
use std::os::fd::OwnedFd;

/// Blocks of one repeat.
const BLOCKS: usize = 128;
/// Pages that a pipe keeps for its next writes.
const KEPT_PAGES: usize = 2;

pub(crate) type PipeTransfers = TransferSeries<PipeCopyProbe>;

/// Starts the series.
pub(crate) fn start() -> PipeTransfers {
    let page = usize::try_from(page_size::base().bytes()).unwrap_or(BLOCK);
    TransferSeries::start([1, KEPT_PAGES * page, BLOCK].map(PipeCopyProbe::new))
}

/// The probe of one size.
#[derive(Debug)]
pub(crate) struct PipeCopyProbe {
    reader: OwnedFd,
    writer: OwnedFd,
    buffer: Vec<u8>,
}

impl PipeCopyProbe {
    /// A pipe and a buffer of `len` bytes.
    pub(crate) fn new(len: usize) -> Result<Self, PriceError> {
        Ok(Self::through(pagewise_kernel::pipe::pipe()?, len)?)
    }

    /// A buffer for this pipe: a write of more than the pipe holds would wait for ever.
    fn through((reader, writer): (OwnedFd, OwnedFd), len: usize) -> Result<Self, SysError> {
        let capacity = pagewise_kernel::pipe::capacity(&writer)?;
        let len = usize::try_from(capacity.0).map_or(len, |capacity| capacity.min(len));
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

impl PriceProbe for PipeCopyProbe {
    const NAME: &'static str = "the pipe copy";

    fn measure_once(&mut self) -> Result<f64, PriceError> {
        let (ns, done) = time_cpu(|| (0..BLOCKS).try_for_each(|_| self.copy_block()));
        done?;
        Ok(ns / BLOCKS as f64)
    }
}

impl TransferProbe for PipeCopyProbe {
    fn bytes(&self) -> usize {
        self.buffer.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_kernel::pipe;
    use pagewise_model::Bytes;

    #[test]
    fn a_shrunk_pipe_has_a_price() {
        let ends = pipe::pipe().expect("a pipe");
        let two_pages = Bytes(2 * page_size::base().bytes());
        let held = pipe::set_capacity(&ends.1, two_pages).expect("smaller");
        let mut probe = PipeCopyProbe::through(ends, BLOCK).expect("a probe");
        assert_eq!(probe.buffer.len() as u64, held.0);
        assert!(probe.measure_once().expect("a price") > 0.0);
    }
}
