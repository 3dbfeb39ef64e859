//! A fault on a mapped file that is in the page cache, ns per fault, and the pages it maps.
//!
//! Each page is read once, upwards; the kernel maps a window around each fault (`do_fault_around`
//! in mm/memory.c, `fault_around_bytes`), so most touches do not fault. Faults are counted by the
//! kernel. The clock includes the unmapping. Not seen: faults that wait for a device.

use crate::error::PriceError;
use crate::kernels::mapping::Mapping;
use crate::kernels::usage::read_thread_usage;
use crate::sample::{Probe, time};
use pagewise_kernel::page_size;
use std::fs::File;
use std::os::fd::AsFd;
use std::rc::Rc;

/// The probe.
#[derive(Debug)]
pub(crate) struct FileFault {
    file: Rc<File>,
    len: usize,
    pages_per_fault: f64,
}

impl FileFault {
    /// A probe over `len` bytes of a cached file.
    pub(crate) fn new(file: Rc<File>, len: usize) -> Self {
        Self { file, len, pages_per_fault: 1.0 }
    }

    /// Pages that one fault of the last repeat mapped.
    pub(crate) fn pages_per_fault(&self) -> f64 {
        self.pages_per_fault
    }
}

impl Probe for FileFault {
    const NAME: &'static str = "the file fault";

    fn measure_once(&mut self) -> Result<f64, PriceError> {
        let map = Mapping::private_file(self.file.as_fd(), self.len)?;
        let before = read_thread_usage()?.minor_faults;
        let (touch_ns, ()) = time(|| map.read_pages());
        let faults = read_thread_usage()?.minor_faults.saturating_sub(before).max(1) as f64;
        let (unmap_ns, ()) = time(|| drop(map));
        self.pages_per_fault = self.len as f64 / page_size::base().bytes() as f64 / faults;
        Ok((touch_ns + unmap_ns) / faults)
    }
}
