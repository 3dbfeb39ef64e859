//! Prices of cached files, and the file that they are taken on.

use crate::error::PriceError;
use crate::kernels::mapping::PlainMapping;
use crate::sample::{PriceProbe, TransferProbe, TransferSeries, time_cpu};
use pagewise_kernel::own_usage::thread_faults;
use pagewise_kernel::worker::ForkedWorker;
use pagewise_kernel::{SysError, page_size};
use rustix::fs::{MemfdFlags, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;

/// Bytes of one read, write or copy of the copying prices.
pub(crate) const BLOCK: usize = 64 << 10;

/// A cached file without a name, for the prices of file work.
///
/// Uses `O_TMPFILE` on the file system of the cache directory, which typically holds programs' own files too.
/// If that is not supported, a memfd is used. The file is written in steps of 64 KiB, which give the folios
/// that copying tools leave, or a base page at a time, which gives the single pages that a start from disk
/// leaves of programs and libraries. It disappears with its last descriptor.
pub(crate) fn create_cached(dir: &Path, len: usize, step: usize) -> Result<File, PriceError> {
    fill(open_nameless(dir)?, len, step).or_else(|_| fill(open_memory()?, len, step))
}

fn open_nameless(dir: &Path) -> Result<File, PriceError> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(dir, flags, Mode::RUSR | Mode::WUSR) {
        Ok(fd) => Ok(fd.into()),
        Err(_) => open_memory(),
    }
}

fn open_memory() -> Result<File, PriceError> {
    let fd = rustix::fs::memfd_create("pagewise-scratch", MemfdFlags::CLOEXEC);
    Ok(fd.map_err(|e| SysError::new("memfd_create", "a scratch file", e))?.into())
}

fn fill(mut file: File, len: usize, step: usize) -> Result<File, PriceError> {
    let block = vec![0x5a_u8; step];
    for _ in 0..len.div_ceil(step) {
        file.write_all(&block).map_err(PriceError::sys("write", "the scratch file"))?;
    }
    Ok(file)
}

/// Mappings of one repeat.
const PASSES: u32 = 4;
/// The request to count; any other is the window of a timed repeat.
const COUNT: u64 = 0;

/// A fault on a mapped file that is in the page cache, ns per fault, and the pages it maps.
///
/// The kernel maps a window around each fault (`do_fault_around` in mm/memory.c, `fault_around_bytes`, more
/// with large folios). The number of pages comes from a pass over all pages while the kernel counts the
/// faults. The clock then runs over one touch in each window, in random order, as programs and libraries are
/// entered, and over the unmapping. The first touches of the other pages are TLB misses, which belong to the
/// program.
///
/// The file is mapped several times in turn, as one program after another maps the same libraries: the
/// kernel's page descriptors are cold in the first pass and warm in the others. The cache holds the file in
/// single base pages, as a start from disk leaves programs and libraries (`do_sync_mmap_readahead`). Not
/// seen: faults that wait for a device, and larger folios, which files have that were copied or read before.
/// A fault that maps one folio of 16 pages costs half, and folios above that map more per fault.
///
/// Runs in a child, because a mapped file may raise `SIGBUS`.
#[derive(Debug)]
pub(crate) struct FileFaultProbe {
    worker: ForkedWorker,
    pages_per_fault: f64,
}

impl FileFaultProbe {
    /// A probe over `len` bytes of a cached file.
    pub(crate) fn new(file: Rc<File>, len: usize) -> Result<Self, PriceError> {
        let worker = ForkedWorker::start(move |request| match request {
            COUNT => count_pages(&file, len),
            window => time_faults(&file, len, usize::try_from(window).unwrap_or(usize::MAX)),
        })?;
        let pages_per_fault = worker.ask(COUNT)?;
        Ok(Self { worker, pages_per_fault })
    }

    /// Pages that one fault maps.
    pub(crate) fn pages_per_fault(&self) -> f64 {
        self.pages_per_fault
    }
}

/// Pages that one fault maps.
fn count_pages(file: &File, len: usize) -> Result<f64, Errno> {
    let map = PlainMapping::private_file(file.as_fd(), len)?;
    let before = thread_faults()?;
    map.read_pages();
    let faults = thread_faults()?.saturating_sub(before).max(1);
    Ok(len as f64 / page_size::base().bytes() as f64 / faults as f64)
}

/// ns per fault, with one touch in each `window` of pages.
fn time_faults(file: &File, len: usize, window: usize) -> Result<f64, Errno> {
    let before = thread_faults()?;
    let (ns, done) = time_cpu(|| {
        (0..PASSES).try_for_each(|_| {
            PlainMapping::private_file(file.as_fd(), len).map(|map| map.read_windows(window))
        })
    });
    done?;
    let faults = thread_faults()?.saturating_sub(before).max(1);
    Ok(ns / faults as f64)
}

impl PriceProbe for FileFaultProbe {
    const NAME: &'static str = "the file fault";

    fn measure_once(&mut self) -> Result<f64, PriceError> {
        Ok(self.worker.ask((self.pages_per_fault as u64).max(1))?)
    }
}

/// Sizes of a read, smallest first. The last one also represents all larger sizes.
const SIZES: [usize; 3] = [1, BLOCK, 4 * BLOCK];
/// Most reads of one repeat.
const READS: usize = 512;

pub(crate) type FileReads = TransferSeries<FileReadProbe>;

/// Starts the series over a cached file of `len` bytes.
pub(crate) fn start_reads(file: &Rc<File>, len: usize) -> FileReads {
    let probe = |size| FileReadProbe { file: Rc::clone(file), len, buffer: vec![0; size] };
    TransferSeries::start(SIZES.map(|size| Ok(probe(size))))
}

/// Reading out of the page cache, ns per read.
///
/// pread(2) of a cached file into one buffer, as reading programs do: the call, the lookup of the folios and
/// the copy (`filemap_read` in mm/filemap.c). There are three sizes. One byte is the call and the lookup. A
/// single copy of more than 64 KiB takes half as long again per byte on some CPUs, whose string instruction
/// then works differently. The file is larger than the private caches, the buffer is not. Not seen: reads
/// that go to a device.
#[derive(Debug)]
pub(crate) struct FileReadProbe {
    file: Rc<File>,
    len: usize,
    buffer: Vec<u8>,
}

impl PriceProbe for FileReadProbe {
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

impl TransferProbe for FileReadProbe {
    fn bytes(&self) -> usize {
        self.buffer.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prices::memory::CowFaultProbe;

    #[test]
    fn a_directory_that_is_not_there_is_no_obstacle() {
        let file =
            create_cached(Path::new("/no/such/directory"), 2 * BLOCK, BLOCK).expect("a memfd");
        assert_eq!(file.metadata().expect("metadata").len(), 2 * BLOCK as u64);
    }

    #[test]
    fn a_file_that_is_shortened_ends_the_price_and_nothing_else() {
        let len = 16 * BLOCK;
        let file = Rc::new(create_cached(&std::env::temp_dir(), len, BLOCK).expect("a file"));
        let mut faults = FileFaultProbe::new(Rc::clone(&file), len).expect("a probe");
        let mut copies = CowFaultProbe::new(Rc::clone(&file), len).expect("a probe");
        assert!(faults.pages_per_fault() >= 1.0);
        assert!(faults.measure_once().expect("a price") > 0.0);
        assert!(copies.measure_once().expect("a price") > 0.0);
        file.set_len(0).expect("shortened");
        assert!(faults.measure_once().is_err() && copies.measure_once().is_err());
    }
}
