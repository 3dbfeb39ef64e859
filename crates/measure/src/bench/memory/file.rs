//! One sample of a cached file that a child reads through a private mapping.
//!
//! The file has no name. It was written one base page at a time, as a start from disk leaves programs in the
//! page cache. It is read once before each sample, so that all of it is cached. A fault maps the pages around
//! it (mm/memory.c, `do_fault_around`), so there are fewer faults than pages.

use super::child::{self, MappingCycle, PagemapCounter, SamplePhases, spend};
use crate::error::PriceError;
use crate::kernels::mapping::PlainMapping;
use crate::prices::file::{BLOCK, create_cached};
use pagewise_kernel::memory_group::MemoryCgroup;
use pagewise_kernel::own_usage::{ProcessUsage, process};
use pagewise_kernel::{SysError, cachestat, clock, page_size};
use pagewise_model::bench::memory::{MemoryBenchWay, PopulatePressure, PopulatedFile};
use pagewise_model::{Bytes, Fact, Nanos};
use rustix::fs::{Advice, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::CStr;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

/// Pages of the small cycle.
const SMALL: u64 = 32;

/// The file of a run.
#[derive(Debug)]
pub(super) struct MemoryBenchFile {
    file: File,
    len: usize,
}

impl MemoryBenchFile {
    /// `size` bytes that are in the page cache.
    pub(super) fn new(size: Bytes) -> Result<Self, PriceError> {
        let len = usize::try_from(size.0).unwrap_or(usize::MAX);
        let page = usize::try_from(page_size::base().bytes()).unwrap_or(BLOCK);
        let file = create_cached(&std::env::temp_dir(), len, page)?;
        Ok(Self { file, len })
    }

    /// Takes a sample in a child of the calling thread, on its CPU.
    pub(super) fn take(&self, way: MemoryBenchWay) -> Result<SamplePhases, PriceError> {
        self.read_through()?;
        let mut present = PagemapCounter::new();
        let cycle = |len| map_and_read(&self.file, len, way, &mut present);
        let small = (SMALL * page_size::base().bytes()) as usize;
        let worker = child::start(cycle, small.min(self.len), self.len)?;
        Ok(child::run(&worker)?.taken(Fact::Known(page_size::base())))
    }

    /// Reads pages back that the kernel may have evicted meanwhile.
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

fn map_and_read(
    file: &File,
    len: usize,
    way: MemoryBenchWay,
    present: &mut PagemapCounter,
) -> Result<MappingCycle, Errno> {
    let (mut setup, map) = spend(|| PlainMapping::private_file(file.as_fd(), len))?;
    let map = map?;
    let (filled, done) = spend(|| match way {
        MemoryBenchWay::FilePopulateRead => map.fill_for_reading(),
        MemoryBenchWay::FileWillneed => map.will_need(),
        _ => Ok(()),
    })?;
    done?;
    setup += filled;
    let before = present.count(map.address(), len).ok();
    let (touch, ()) = spend(|| map.read_pages())?;
    let (teardown, ()) = spend(|| drop(map))?;
    Ok(MappingCycle { setup, touch, teardown, present: before })
}

// A file mapped with `MAP_POPULATE` when memory is short.
//
// Populating is best effort: mmap(2) does not report pages that it could not fill, or that were reclaimed
// before it returned. Two children map one file that is on disk but not in the page cache. One runs without a
// limit, one in a cgroup that may hold half of the file (`kernel::memory_group`). When the call returns, the
// mapped pages are counted in `/proc/self/pagemap`. Then each page is read once, and the kernel counts the
// faults that wait for the device. The first pages filled are the first reclaimed, so reading in order meets
// each page just after it was evicted.
//
// Not seen: anonymous memory. Without swap none of it can be reclaimed, so the group's process would be
// killed. These times include the device.

/// The group may hold one in this many of the file's bytes.
const SHARE: u64 = 2;

/// Both of them over a file of `size`.
pub(super) fn measure(size: Bytes) -> Result<PopulatePressure, PriceError> {
    let len = usize::try_from(size.0).unwrap_or(usize::MAX);
    let limit_bytes = Bytes(size.0 / SHARE);
    let group = MemoryCgroup::new(limit_bytes)?;
    let file = create_cached(&std::env::temp_dir(), len, BLOCK)?;
    file.sync_all().map_err(PriceError::sys("fsync", "the scratch file"))?;
    let alone = populate(&file, len, None)?;
    let limited = populate(&file, len, Some(&group.entrance()))?;
    Ok(PopulatePressure { file_bytes: size, limit_bytes, alone, limited })
}

/// Populates the uncached file in a child that first enters a group, and returns what was populated.
fn populate(file: &File, len: usize, group: Option<&CStr>) -> Result<PopulatedFile, PriceError> {
    drop_cached(file)?;
    let mut present = PagemapCounter::new();
    let worker = child::serve(|| {
        if let Some(entrance) = group {
            let door = rustix::fs::open(entrance, OFlags::WRONLY, Mode::empty())?;
            rustix::io::write(&door, b"0")?;
        }
        populate_once(file, len, &mut present)
    })?;
    let [setup, pages, touch, major_faults] = child::figures(&worker)?;
    Ok(PopulatedFile {
        setup_ns: Nanos(setup),
        resident_bytes: Bytes(pages.saturating_mul(page_size::base().bytes())),
        touch_ns: Nanos(touch),
        major_faults,
    })
}

/// Time of the mapping, pages mapped by it, time of reading each page, faults that waited meanwhile.
fn populate_once(file: &File, len: usize, present: &mut PagemapCounter) -> Result<[u64; 4], Errno> {
    let begin = clock::now();
    let map = PlainMapping::populated_file(file, len)?;
    let mapped = clock::now();
    let pages = present.count(map.address(), len)?;
    let ProcessUsage { major_faults: before, .. } = process()?;
    let start = clock::now();
    map.read_pages();
    let end = clock::now();
    let waited = process()?.major_faults.saturating_sub(before);
    Ok([mapped.0.saturating_sub(begin.0), pages, end.0.saturating_sub(start.0), waited])
}

/// Drops the file from the page cache. An error if pages remain.
fn drop_cached(file: &File) -> Result<(), PriceError> {
    let failed = |errno| SysError::new("posix_fadvise", "the scratch file", errno);
    rustix::fs::fadvise(file, 0, None, Advice::DontNeed).map_err(failed)?;
    let left = cachestat::read(file, "the scratch file")?.cached_bytes;
    if left > Bytes(0) {
        let why =
            format!("{left} of the scratch file stay cached: set TMPDIR to a directory on a disk");
        return Err(PriceError::Unavailable(why));
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::print_stderr, reason = "a skipped test says so")]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_mapped_than_the_group_may_hold() {
        let size = Bytes::mib(32);
        match measure(size) {
            Ok(found) => {
                assert_eq!(found.alone.resident_bytes, size, "{found:?}");
                assert_eq!(found.alone.major_faults, 0);
                assert!(found.limited.resident_bytes <= found.limit_bytes, "{found:?}");
                assert!(found.limited.major_faults > 0, "{found:?}");
            }
            Err(why) => eprintln!("SKIP no_more_is_mapped_than_the_group_may_hold: {why}"),
        }
    }
}
