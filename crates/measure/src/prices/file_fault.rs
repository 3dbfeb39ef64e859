//! A fault on a mapped file that is in the page cache, ns per fault, and the pages it maps.
//!
//! The kernel maps a window around each fault (`do_fault_around` in mm/memory.c,
//! `fault_around_bytes`, more with large folios). How many pages that is comes from a pass over all
//! pages with the faults counted by the kernel. The clock then runs over one touch in each window,
//! in no order, as programs and libraries are entered, and over the unmapping: the first touches of the other pages are TLB misses, which are the
//! program's own. The file is mapped several times over, as the
//! same libraries are by one program after another: the kernel's descriptors of its pages are cold
//! in the first pass and warm in the others. The cache holds the file in single base pages, as a
//! start from disk leaves programs and libraries (`do_sync_mmap_readahead`). Not seen: faults that
//! wait for a device, and larger folios, which files have that were copied or read beforehand: a
//! fault that maps one folio of 16 pages costs half, and folios above that map more per fault.
//!
//! Runs in a child, because a mapped file may raise `SIGBUS`.

use crate::error::PriceError;
use crate::kernels::mapping::Mapping;
use crate::kernels::usage::thread_faults;
use crate::sample::{Probe, time_cpu};
use pagewise_kernel::page_size;
use pagewise_kernel::worker::Worker;
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::AsFd;
use std::rc::Rc;

/// Mappings of one repeat.
const PASSES: u32 = 4;
/// The request to count; any other is the window of a timed repeat.
const COUNT: u64 = 0;

/// The probe.
#[derive(Debug)]
pub(crate) struct FileFault {
    worker: Worker,
    pages_per_fault: f64,
}

impl FileFault {
    /// A probe over `len` bytes of a cached file.
    pub(crate) fn new(file: Rc<File>, len: usize) -> Result<Self, PriceError> {
        let worker = Worker::start(move |request| match request {
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
    let map = Mapping::private_file(file.as_fd(), len)?;
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
            Mapping::private_file(file.as_fd(), len).map(|map| map.read_windows(window))
        })
    });
    done?;
    let faults = thread_faults()?.saturating_sub(before).max(1);
    Ok(ns / faults as f64)
}

impl Probe for FileFault {
    const NAME: &'static str = "the file fault";

    fn measure_once(&mut self) -> Result<f64, PriceError> {
        Ok(self.worker.ask((self.pages_per_fault as u64).max(1))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prices::cow::Cow;
    use crate::prices::scratch;

    #[test]
    fn a_file_that_is_shortened_ends_the_price_and_nothing_else() {
        let len = 16 * scratch::BLOCK;
        let file = Rc::new(
            scratch::create_cached(&std::env::temp_dir(), len, scratch::BLOCK).expect("a file"),
        );
        let mut faults = FileFault::new(Rc::clone(&file), len).expect("a probe");
        let mut copies = Cow::new(Rc::clone(&file), len).expect("a probe");
        assert!(faults.pages_per_fault() >= 1.0);
        assert!(faults.measure_once().expect("a price") > 0.0);
        assert!(copies.measure_once().expect("a price") > 0.0);
        file.set_len(0).expect("shortened");
        assert!(faults.measure_once().is_err() && copies.measure_once().is_err());
    }
}
