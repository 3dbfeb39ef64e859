//! A copy-on-write fault, ns per page.
//!
//! A private mapping of a cached file is mapped for reading outside the clock; then each page is
//! written once (`do_wp_page` in mm/memory.c: allocate, copy, replace the entry, flush it) and all
//! is unmapped. A fork's shared pages take the same way. Not seen: a write that finds no page mapped
//! yet, which saves the replacement.
//!
//! Runs in a child, because a mapped file may raise `SIGBUS`.

use crate::error::PriceError;
use crate::kernels::mapping::Mapping;
use crate::sample::{Probe, time_cpu};
use pagewise_kernel::page_size;
use pagewise_kernel::worker::Worker;
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::AsFd;
use std::rc::Rc;

/// The probe.
#[derive(Debug)]
pub(crate) struct Cow {
    worker: Worker,
}

impl Cow {
    /// A probe over `len` bytes of a cached file.
    pub(crate) fn new(file: Rc<File>, len: usize) -> Result<Self, PriceError> {
        Ok(Self { worker: Worker::start(move |_| time_copies(&file, len))? })
    }
}

/// ns per page over one mapping of `len` bytes.
fn time_copies(file: &File, len: usize) -> Result<f64, Errno> {
    let map = Mapping::private_file(file.as_fd(), len)?;
    map.populate_read();
    let (ns, ()) = time_cpu(|| {
        map.write_pages();
        drop(map);
    });
    Ok(ns * page_size::base().bytes() as f64 / len as f64)
}

impl Probe for Cow {
    const NAME: &'static str = "the copy-on-write fault";

    fn measure_once(&mut self) -> Result<f64, PriceError> {
        Ok(self.worker.ask(0)?)
    }
}
