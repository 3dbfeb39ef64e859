//! Copying through a pipe, ns per KiB.
//!
//! One thread writes 64 KiB into a pipe of the default size and reads them back: both copies, the
//! allocation and freeing of the pipe's pages, two system calls (fs/pipe.c). Nobody sleeps, so
//! wake-ups are not in it. Not seen: the transfer between the caches of two cores.

use super::scratch::BLOCK;
use crate::error::PriceError;
use crate::sample::{Probe, time_cpu};
use pagewise_kernel::SysError;
use std::os::fd::OwnedFd;

/// Blocks of one repeat.
const BLOCKS: usize = 128;

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
        let (reader, writer) = pagewise_kernel::pipe::pipe()?;
        if pagewise_kernel::pipe::capacity(&writer)?.0 < BLOCK as u64 {
            return Err(PriceError::Unavailable("new pipes of this user are shrunk".to_owned()));
        }
        Ok(Self { reader, writer, buffer: vec![0x5a; BLOCK] })
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
        let (ns, done) = time_cpu(|| (0..BLOCKS).try_for_each(|_| self.copy_block()));
        done?;
        Ok(ns * 1024.0 / (BLOCKS * BLOCK) as f64)
    }
}
