//! First touch of an anonymous base page on demand, ns per page.
//!
//! The clock runs over a touch of each page of a fresh mapping and over its unmapping: exception,
//! charge to the memory cgroup, allocation, clearing, page-table entry and LRU, and later their
//! undoing (`do_anonymous_page` and `zap_pte_range` in mm/memory.c). The mapping is larger than the
//! private caches, as the memory of programs that fault a lot is. The repeat before freed the same
//! amount a moment ago, so a virtual machine's host backs it. Not seen: contention between threads
//! that fault in one address space.

use crate::error::PriceError;
use crate::kernels::mapping::Mapping;
use crate::sample::{Probe, time_cpu};
use pagewise_kernel::page_size;

/// The probe.
#[derive(Debug)]
pub(crate) struct Anon {
    /// Size of the mapping.
    pub(crate) len: usize,
}

impl Probe for Anon {
    const NAME: &'static str = "the anonymous fault";

    fn measure_once(&mut self) -> Result<f64, PriceError> {
        let map = Mapping::anonymous(self.len)?;
        map.keep_base_pages()?;
        let (ns, ()) = time_cpu(|| {
            map.write_pages();
            drop(map);
        });
        Ok(ns * page_size::base().bytes() as f64 / self.len as f64)
    }
}
