//! mmap(2) and munmap(2) of one untouched region, ns per pair.
//!
//! Private anonymous memory of 256 KiB (more than glibc's first threshold for mappings), whose cost
//! does not depend on its size while it is untouched (mm/vma.c). It lies next to memory of the same
//! kind, as a large allocation of a program does: the kernel joins the two and cuts them again,
//! which costs a third more than a mapping by itself. Not seen: page tables of touched memory and
//! their flush, which are in the prices of the faults.

use crate::error::PriceError;
use crate::kernels::mapping::Mapping;
use crate::sample::{Probe, time_cpu};

/// Pairs of one repeat.
const PAIRS: u32 = 1_000;
/// Size of a region.
const LEN: usize = 256 << 10;

/// The probe.
#[derive(Debug)]
pub(crate) struct MapUnmap;

impl Probe for MapUnmap {
    const NAME: &'static str = "the mapping pair";

    fn measure_once(&mut self) -> Result<f64, PriceError> {
        // Mappings are placed downwards, each below the one before.
        let _neighbour = Mapping::anonymous(LEN)?;
        let (ns, done) =
            time_cpu(|| (0..PAIRS).try_for_each(|_| Mapping::anonymous(LEN).map(drop)));
        done?;
        Ok(ns / f64::from(PAIRS))
    }
}
