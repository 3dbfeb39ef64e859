//! Copying out of the page cache, ns per KiB.
//!
//! pread(2) of a cached file, 64 KiB at a time into one buffer, as reading programs do: look-up of
//! the folios and the copy (`filemap_read` in mm/filemap.c). The file is larger than the private
//! caches, the buffer is not. Not seen: reads that go to a device.

use super::scratch::BLOCK;
use crate::error::PriceError;
use crate::sample::{Probe, time_cpu};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

/// The probe.
#[derive(Debug)]
pub(crate) struct FileCopy {
    file: Rc<File>,
    len: usize,
    buffer: Vec<u8>,
}

impl FileCopy {
    /// A probe over `len` bytes of a cached file.
    pub(crate) fn new(file: Rc<File>, len: usize) -> Self {
        Self { file, len, buffer: vec![0; BLOCK] }
    }
}

impl Probe for FileCopy {
    const NAME: &'static str = "the file copy";

    fn measure_once(&mut self) -> Result<f64, PriceError> {
        let (ns, done) = time_cpu(|| {
            (0..self.len)
                .step_by(BLOCK)
                .try_for_each(|offset| self.file.read_exact_at(&mut self.buffer, offset as u64))
        });
        done.map_err(PriceError::sys("pread", "the scratch file"))?;
        Ok(ns * 1024.0 / self.len as f64)
    }
}
