//! Reading out of the page cache, ns per read.
//!
//! pread(2) of a cached file into one buffer, as reading programs do: the call, the look-up of the
//! folios and the copy (`filemap_read` in mm/filemap.c). Three sizes: one byte is the call and the
//! look-up; a copy of more than 64 KiB at once takes half as long again per byte on some CPUs, whose
//! string instruction then changes its way. The file is larger than the private caches, the buffer
//! is not. Not seen: reads that go to a device.

use super::scratch::BLOCK;
use super::transfers::{Transfer, Transfers};
use crate::error::PriceError;
use crate::sample::{Probe, time_cpu};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

/// Sizes of a read, smallest first; the last stands for all above it.
const SIZES: [usize; 3] = [1, BLOCK, 4 * BLOCK];
/// Most reads of one repeat.
const READS: usize = 512;

/// All sizes.
pub(crate) type FileReads = Transfers<FileRead>;

/// Starts the series over a cached file of `len` bytes.
pub(crate) fn start(file: &Rc<File>, len: usize) -> FileReads {
    let probe = |size| FileRead { file: Rc::clone(file), len, buffer: vec![0; size] };
    Transfers::start(SIZES.map(|size| Ok(probe(size))))
}

/// The probe of one size.
#[derive(Debug)]
pub(crate) struct FileRead {
    file: Rc<File>,
    len: usize,
    buffer: Vec<u8>,
}

impl Probe for FileRead {
    const NAME: &'static str = "the file read";

    fn measure_once(&mut self) -> Result<f64, PriceError> {
        let size = self.buffer.len();
        let reads = (self.len / size).clamp(1, READS);
        let step = self.len / reads;
        let (ns, done) = time_cpu(|| {
            (0..reads)
                .try_for_each(|i| self.file.read_exact_at(&mut self.buffer, (i * step) as u64))
        });
        done.map_err(PriceError::sys("pread", "the scratch file"))?;
        Ok(ns / reads as f64)
    }
}

impl Transfer for FileRead {
    fn bytes(&self) -> usize {
        self.buffer.len()
    }
}
