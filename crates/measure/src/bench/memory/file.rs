//! One sample of a cached file that is read through a private mapping, in a child.
//!
//! The file has no name and was written a base page at a time, as a start from disk leaves programs in the
//! page cache. It is read once before each sample, so that all of it is cached. A fault maps the pages
//! around it (mm/memory.c, `do_fault_around`), so there are fewer faults than pages.

use super::child::{self, Cycle};
use super::present::Present;
use super::spent::{Taken, spend};
use crate::error::PriceError;
use crate::kernels::mapping::Mapping;
use crate::prices::file::{BLOCK, create_cached};
use pagewise_kernel::page_size;
use pagewise_model::bench::memory::Way;
use pagewise_model::{Bytes, Fact};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

/// Pages of the small cycle.
const SMALL: u64 = 32;

/// The file of a run.
#[derive(Debug)]
pub(super) struct Cached {
    file: File,
    len: usize,
}

impl Cached {
    /// `size` bytes that are in the page cache.
    pub(super) fn new(size: Bytes) -> Result<Self, PriceError> {
        let len = usize::try_from(size.0).unwrap_or(usize::MAX);
        let page = usize::try_from(page_size::base().bytes()).unwrap_or(BLOCK);
        let file = create_cached(&std::env::temp_dir(), len, page)?;
        Ok(Self { file, len })
    }

    /// Takes a sample in a child of the calling thread, on its CPU.
    pub(super) fn take(&self, way: Way) -> Result<Taken, PriceError> {
        self.read_through()?;
        let mut present = Present::new();
        let cycle = |len| map_and_read(&self.file, len, way, &mut present);
        let small = (SMALL * page_size::base().bytes()) as usize;
        let worker = child::start(cycle, small.min(self.len), self.len)?;
        Ok(child::run(&worker)?.taken(Fact::Known(page_size::base())))
    }

    /// Brings back what the kernel may have taken out of the cache meanwhile.
    fn read_through(&self) -> Result<(), PriceError> {
        let mut block = vec![0; BLOCK];
        for offset in (0..self.len as u64).step_by(BLOCK) {
            self.file
                .read_at(&mut block, offset)
                .map_err(PriceError::sys("pread", "the scratch file"))?;
        }
        Ok(())
    }
}

fn map_and_read(file: &File, len: usize, way: Way, present: &mut Present) -> Result<Cycle, Errno> {
    let (mut setup, map) = spend(|| Mapping::private_file(file.as_fd(), len))?;
    let map = map?;
    let (filled, done) = spend(|| match way {
        Way::FilePopulateRead => map.fill_for_reading(),
        Way::FileWillneed => map.will_need(),
        _ => Ok(()),
    })?;
    done?;
    setup += filled;
    let before = present.count(map.address(), len).ok();
    let (touch, ()) = spend(|| map.read_pages())?;
    let (teardown, ()) = spend(|| drop(map))?;
    Ok(Cycle { setup, touch, teardown, present: before })
}
