//! Samples of pages of the reserved pool, by all ways to get them, each in a child. Also what two processes
//! see of one file on hugetlbfs.
//!
//! The child runs the whole cycle once before it counts, so that a host has backed the pool's pages. Every
//! touch of a missing page is one fault, which clears a huge page (mm/hugetlb.c, `hugetlb_no_page`). The
//! pages left the free list when the pool was made.

use super::child::PagemapCounter;
use super::child::{self, MappingCycle};
use super::child::{SamplePhases, spend};
use crate::error::PriceError;
use crate::kernels::mapping::{self, PlainMapping};
use pagewise_kernel::worker::ForkedWorker;
use pagewise_kernel::{SysError, hugetlb};
use pagewise_model::bench::memory::{MemoryBenchWay, SharedPool};
use pagewise_model::{Bytes, Fact, PageSize};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Requests to the process that looks at the file of another.
const SEE: u64 = 0;
const FAULTS: u64 = 1;
const EXECUTE: u64 = 2;

/// The pool of one page size, and the directory of its files.
#[derive(Debug)]
pub(super) struct ReservedPool {
    page: PageSize,
    mount: Option<PathBuf>,
    directory: CString,
}

impl ReservedPool {
    pub(super) fn here(page: PageSize) -> Self {
        let mount = hugetlb::mount(page).ok().flatten();
        let path = mount.clone().unwrap_or_default().into_os_string().into_vec();
        Self { page, mount, directory: CString::new(path).unwrap_or_default() }
    }

    /// Whether files can be made on the pool's pages at all.
    pub(super) fn has_mount(&self) -> bool {
        self.mount.is_some()
    }

    /// The part of `size` that is free in the pool, at least a page.
    pub(super) fn share_of(&self, size: Bytes) -> Bytes {
        let pages = hugetlb::pool(self.page).map_or(0, |pool| pool.available_pages()).max(1);
        Bytes(size.0.min(pages.saturating_mul(self.page.bytes())))
    }

    /// Takes a sample of `size` in a child of the calling thread, on its CPU.
    pub(super) fn take(
        &self,
        way: MemoryBenchWay,
        size: Bytes,
    ) -> Result<SamplePhases, PriceError> {
        let len = size.0 as usize;
        let mut present = PagemapCounter::new();
        let cycle = |len| cycle(way, self.page, &self.directory, len, &mut present);
        let cycle = child::run(&child::start(cycle, len, len)?)?;
        let page = match cycle.touch.faults {
            faults if faults <= 2 * size.pages(self.page) + 16 => Fact::Known(self.page),
            faults => Fact::missing(format!("{faults} faults are more than the pool's pages take")),
        };
        Ok(cycle.taken(page))
    }

    /// Has one process fill a file and another look at it.
    pub(super) fn share(&self, size: Bytes) -> Result<SharedPool, PriceError> {
        let (len, step) = (size.0 as usize, self.page.bytes() as usize);
        let file = mapping::pooled_file_in(&self.directory, len)
            .map_err(|errno| SysError::new("open", "a file on hugetlbfs", errno))?;
        let writer = ForkedWorker::start(|_| {
            PlainMapping::shared_file(&file, len)?.write_pages();
            Ok(0.0)
        })?;
        writer.ask(0)?;
        let mut faults = 0;
        let reader = ForkedWorker::start(|request| match request {
            SEE => {
                let map = PlainMapping::shared_file(&file, len)?;
                let (spent, seen) = spend(|| map.count_written(step))?;
                faults = spent.faults;
                Ok(seen as f64)
            }
            FAULTS => Ok(faults as f64),
            EXECUTE => PlainMapping::can_execute(&file, len).map(|()| 1.0),
            _ => Err(Errno::INVAL),
        })?;
        let executable = match reader.ask(EXECUTE) {
            Ok(_) => Fact::Known(true),
            Err(e) if matches!(e.errno(), Some(libc::EPERM | libc::EACCES)) => Fact::Known(false),
            Err(e) => Fact::missing(e.to_string()),
        };
        // The first request only faults in its own code and stack.
        reader.ask(SEE)?;
        Ok(SharedPool {
            mount: self.mount.as_ref().map_or_else(String::new, |m| m.display().to_string()),
            pages: size.pages(self.page),
            seen_pages: reader.ask(SEE)? as u64,
            second_faults: reader.ask(FAULTS)? as u64,
            executable,
        })
    }
}

fn cycle(
    way: MemoryBenchWay,
    page: PageSize,
    directory: &CStr,
    len: usize,
    present: &mut PagemapCounter,
) -> Result<MappingCycle, Errno> {
    let (setup, map) = spend(|| match way {
        MemoryBenchWay::PoolMemfd => mapping::pooled_memory_file(len, page),
        MemoryBenchWay::PoolShm => mapping::pooled_segment(len, page),
        MemoryBenchWay::PoolFile => mapping::pooled_file_in(directory, len)
            .and_then(|file| PlainMapping::shared_file(file, len)),
        _ => mapping::pooled(len, page),
    })?;
    let map = map?;
    let before = present.count(map.address(), len).ok();
    let (touch, ()) = spend(|| map.write_pages())?;
    let (teardown, ()) = spend(|| drop(map))?;
    Ok(MappingCycle { setup, touch, teardown, present: before })
}
