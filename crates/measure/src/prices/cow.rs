//! A copy-on-write fault, ns per page.
//!
//! A private mapping of a cached file is mapped for reading outside the clock; then each page is
//! written once (`do_wp_page` in mm/memory.c: allocate, copy, replace the entry, flush it) and all
//! is unmapped. A fork's shared pages take the same way. Not seen: a write that finds no page mapped
//! yet, which saves the replacement.

use crate::error::PriceError;
use crate::kernels::mapping::Mapping;
use crate::sample::{Probe, time_cpu};
use pagewise_kernel::page_size;
use std::fs::File;
use std::os::fd::AsFd;
use std::rc::Rc;

/// The probe.
#[derive(Debug)]
pub(crate) struct Cow {
    /// A cached file.
    pub(crate) file: Rc<File>,
    /// Bytes of it to map.
    pub(crate) len: usize,
}

impl Probe for Cow {
    const NAME: &'static str = "the copy-on-write fault";

    fn measure_once(&mut self) -> Result<f64, PriceError> {
        let map = Mapping::private_file(self.file.as_fd(), self.len)?;
        map.populate_read();
        let (ns, ()) = time_cpu(|| {
            map.write_pages();
            drop(map);
        });
        Ok(ns * page_size::base().bytes() as f64 / self.len as f64)
    }
}
