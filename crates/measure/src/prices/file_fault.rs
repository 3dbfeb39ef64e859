//! A fault on a mapped file that is in the page cache, ns per fault, and the pages it maps.
//!
//! The kernel maps a window around each fault (`do_fault_around` in mm/memory.c,
//! `fault_around_bytes`, more with large folios). How many pages that is comes from a pass over all
//! pages with the faults counted by the kernel. The clock then runs over one touch in each window
//! and over the unmapping: the first touches of the other pages are TLB misses, which are the
//! program's own. The file is mapped several times over, as the
//! same libraries are by one program after another: the kernel's descriptors of its pages are cold
//! in the first pass and warm in the others. Not seen: faults that wait for a device.

use crate::error::PriceError;
use crate::kernels::mapping::Mapping;
use crate::kernels::usage::thread_faults;
use crate::sample::{Probe, time_cpu};
use pagewise_kernel::page_size;
use std::fs::File;
use std::os::fd::AsFd;
use std::rc::Rc;

/// Mappings of one repeat.
const PASSES: u32 = 4;

/// The probe.
#[derive(Debug)]
pub(crate) struct FileFault {
    file: Rc<File>,
    len: usize,
    pages_per_fault: f64,
}

impl FileFault {
    /// A probe over `len` bytes of a cached file.
    pub(crate) fn new(file: Rc<File>, len: usize) -> Result<Self, PriceError> {
        let map = Mapping::private_file(file.as_fd(), len)?;
        let before = thread_faults()?;
        map.read_pages(1);
        let faults = thread_faults()?.saturating_sub(before).max(1);
        let pages = len as f64 / page_size::base().bytes() as f64;
        Ok(Self { file, len, pages_per_fault: pages / faults as f64 })
    }

    /// Pages that one fault maps.
    pub(crate) fn pages_per_fault(&self) -> f64 {
        self.pages_per_fault
    }
}

impl Probe for FileFault {
    const NAME: &'static str = "the file fault";

    fn measure_once(&mut self) -> Result<f64, PriceError> {
        let window = self.pages_per_fault as usize;
        let before = thread_faults()?;
        let (ns, done) = time_cpu(|| {
            (0..PASSES).try_for_each(|_| {
                Mapping::private_file(self.file.as_fd(), self.len).map(|map| map.read_pages(window))
            })
        });
        done?;
        let faults = thread_faults()?.saturating_sub(before).max(1);
        Ok(ns / faults as f64)
    }
}
