//! Clearing a base page, ns per page.
//!
//! The kernel clears a fresh page through its direct map, one string operation a page
//! (`clear_page`), on a page that was last used some time ago. Here user space does the same to
//! resident memory, on huge pages where they can be had because the direct map has them too, over
//! a buffer larger than the private caches. Not seen: the fault around it.

use crate::error::PriceError;
use crate::sample::{Probe, time_cpu};
use pagewise_kernel::page_size;
use pagewise_kernel::region::{Pages, Region};
use pagewise_model::Bytes;

/// The probe.
#[derive(Debug)]
pub(crate) struct Zero {
    buffer: Region,
}

impl Zero {
    /// A resident buffer of `len` bytes.
    pub(crate) fn new(len: usize) -> Result<Self, PriceError> {
        let size = Bytes(len as u64);
        let buffer = Region::new(size, Pages::Huge).or_else(|_| Region::new(size, Pages::Base));
        let mut buffer = buffer?;
        buffer.populate()?;
        Ok(Self { buffer })
    }
}

impl Probe for Zero {
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
