//! Prices of private memory. Each says what is inside the clock, and what it does not see.

use crate::error::PriceError;
use crate::kernels::mapping::PlainMapping;
use crate::sample::{PriceProbe, time_cpu};
use pagewise_kernel::region::{MemoryRegion, RegionPages};
use pagewise_kernel::worker::ForkedWorker;
use pagewise_kernel::{SysError, page_size};
use pagewise_model::Bytes;
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::AsFd;
use std::rc::Rc;

/// First touch of an anonymous base page on demand, ns per page.
///
/// The clock runs over a touch of each page of a fresh mapping and over its unmapping: exception,
/// charge to the memory cgroup, allocation, clearing, page-table entry and LRU, and later their
/// undoing (`do_anonymous_page` and `zap_pte_range` in mm/memory.c). The mapping is larger than the
/// private caches, as the memory of programs that fault a lot is. The repeat before freed the same
/// amount a moment ago, so a virtual machine's host backs it. Not seen: contention between threads
/// that fault in one address space.
#[derive(Debug)]
pub(crate) struct AnonFaultProbe {
    /// Size of the mapping.
    pub(crate) len: usize,
}

impl PriceProbe for AnonFaultProbe {
    const NAME: &'static str = "the anonymous fault";

    fn measure_once(&mut self) -> Result<f64, PriceError> {
        let map = PlainMapping::anonymous(self.len)?;
        map.keep_base_pages()?;
        let (ns, ()) = time_cpu(|| {
            map.write_pages();
            drop(map);
        });
        Ok(ns * page_size::base().bytes() as f64 / self.len as f64)
    }
}

/// Huge pages of one repeat.
const HUGE_PAGES: u64 = 16;

/// First touch of a transparent huge page, ns per huge page.
///
/// One byte is written in each huge page of an aligned region that has the advice. smaps must then show the
/// whole region huge; otherwise the price is missing. The clock includes the unmapping
/// (`do_huge_pmd_anonymous_page` in mm/huge_memory.c). Not seen: compaction, when free huge pages have run
/// out.
#[derive(Debug)]
pub(crate) struct HugeFaultProbe;

impl PriceProbe for HugeFaultProbe {
    const NAME: &'static str = "the huge fault";

    fn measure_once(&mut self) -> Result<f64, PriceError> {
        let page = Bytes(page_size::huge().bytes());
        let mut region = MemoryRegion::new(Bytes(page.0 * HUGE_PAGES), RegionPages::Huge)?;
        let (touch_ns, _) = time_cpu(|| region.touch(page));
        if region.huge_bytes()? < region.size() {
            return Err(PriceError::Unavailable("the kernel gave base pages only".to_owned()));
        }
        let (unmap_ns, ()) = time_cpu(|| drop(region));
        Ok((touch_ns + unmap_ns) / HUGE_PAGES as f64)
    }
}

/// A copy-on-write fault, ns per page.
///
/// A private mapping of a cached file is mapped for reading outside the clock; then each page is
/// written once (`do_wp_page` in mm/memory.c: allocate, copy, replace the entry, flush it) and all
/// is unmapped. A fork's shared pages take the same way. Not seen: a write that finds no page mapped
/// yet, which saves the replacement.
///
/// Runs in a child, because a mapped file may raise `SIGBUS`.
#[derive(Debug)]
pub(crate) struct CowFaultProbe {
    worker: ForkedWorker,
}

impl CowFaultProbe {
    /// A probe over `len` bytes of a cached file.
    pub(crate) fn new(file: Rc<File>, len: usize) -> Result<Self, PriceError> {
        Ok(Self { worker: ForkedWorker::start(move |_| time_copies(&file, len))? })
    }
}

/// ns per page over one mapping of `len` bytes.
fn time_copies(file: &File, len: usize) -> Result<f64, Errno> {
    let map = PlainMapping::private_file(file.as_fd(), len)?;
    map.populate_read();
    let (ns, ()) = time_cpu(|| {
        map.write_pages();
        drop(map);
    });
    Ok(ns * page_size::base().bytes() as f64 / len as f64)
}

impl PriceProbe for CowFaultProbe {
    const NAME: &'static str = "the copy-on-write fault";

    fn measure_once(&mut self) -> Result<f64, PriceError> {
        Ok(self.worker.ask(0)?)
    }
}

/// Copying the page tables at a fork, ns per base page that the parent has touched.
///
/// fork(2) copies an entry for each page of private memory and write-protects it in the parent
/// (`copy_page_range` in mm/memory.c). The clock runs over a fork with some MiB touched and over one without;
/// the price is the difference. Not seen: the tear-down when the child ends. Not seen either: the first write
/// to each shared page copies it, which is the copy-on-write fault. Runs in a child, so that nothing else of
/// this process is shared.
#[derive(Debug)]
pub(crate) struct ForkTablesProbe {
    worker: ForkedWorker,
}

impl ForkTablesProbe {
    /// A probe with `len` bytes touched.
    pub(crate) fn new(len: usize) -> Result<Self, PriceError> {
        Ok(Self { worker: ForkedWorker::start(move |_| time_tables(len))? })
    }
}

/// ns per page over `len` bytes.
fn time_tables(len: usize) -> Result<f64, Errno> {
    let errno = |error: SysError| Errno::from_raw_os_error(error.errno().unwrap_or(libc::EIO));
    let fork = || {
        let (ns, child) = time_cpu(|| ForkedWorker::start(|_| Ok(0.0)));
        child.map(|_ended| ns).map_err(errno)
    };
    let without = fork()?;
    let map = PlainMapping::anonymous(len).map_err(errno)?;
    map.keep_base_pages().map_err(errno)?;
    map.write_pages();
    let with = fork()?;
    Ok((with - without).max(0.0) * page_size::base().bytes() as f64 / len as f64)
}

impl PriceProbe for ForkTablesProbe {
    const NAME: &'static str = "the page tables of a fork";

    fn measure_once(&mut self) -> Result<f64, PriceError> {
        Ok(self.worker.ask(0)?)
    }
}

/// Clearing a base page, ns per page.
///
/// The kernel clears a fresh page through its direct map, one string operation a page (`clear_page`), on a
/// page that was last used some time ago. Here user space does the same to resident memory. It uses huge
/// pages if available, because the direct map has them too, and a buffer larger than the private caches. Not
/// seen: the fault around it.
#[derive(Debug)]
pub(crate) struct PageClearProbe {
    buffer: MemoryRegion,
}

impl PageClearProbe {
    /// A resident buffer of `len` bytes.
    pub(crate) fn new(len: usize) -> Result<Self, PriceError> {
        let size = Bytes(len as u64);
        let buffer = MemoryRegion::new(size, RegionPages::Huge)
            .or_else(|_| MemoryRegion::new(size, RegionPages::Base));
        let mut buffer = buffer?;
        buffer.populate()?;
        Ok(Self { buffer })
    }
}

impl PriceProbe for PageClearProbe {
    const NAME: &'static str = "the clearing of a page";

    fn measure_once(&mut self) -> Result<f64, PriceError> {
        let page = usize::try_from(page_size::base().bytes()).unwrap_or(usize::MAX);
        let bytes = self.buffer.as_mut_slice();
        let pages = bytes.len() / page;
        let (ns, ()) = time_cpu(|| {
            for page in bytes.chunks_exact_mut(page) {
                std::hint::black_box(page).fill(0);
            }
        });
        Ok(ns / pages as f64)
    }
}

/// Pairs of one repeat.
const PAIRS: u32 = 1_000;
/// Size of a region.
const LEN: usize = 256 << 10;

/// mmap(2) and munmap(2) of one untouched region, ns per pair.
///
/// Private anonymous memory of 256 KiB (more than glibc's first threshold for mappings). Its cost does not
/// depend on its size while it is untouched (mm/vma.c). It lies next to memory of the same kind, as a large
/// allocation of a program does. The kernel merges the two and splits them again, which costs a third more
/// than a separate mapping. Not seen: page tables of touched memory and their flush, which are in the prices
/// of the faults.
#[derive(Debug)]
pub(crate) struct MapUnmapProbe;

impl PriceProbe for MapUnmapProbe {
    const NAME: &'static str = "the mapping pair";

    fn measure_once(&mut self) -> Result<f64, PriceError> {
        // Mappings are placed downwards, each below the one before.
        let _neighbour = PlainMapping::anonymous(LEN)?;
        let (ns, done) =
            time_cpu(|| (0..PAIRS).try_for_each(|_| PlainMapping::anonymous(LEN).map(drop)));
        done?;
        Ok(ns / f64::from(PAIRS))
    }
}
