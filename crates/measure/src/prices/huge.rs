//! First touch of a transparent huge page, ns per huge page.
//!
//! One byte is written in each huge page of an aligned region that has the advice; smaps must then
//! show the whole region huge, else there is no price. The clock includes the unmapping
//! (`do_huge_pmd_anonymous_page` in mm/huge_memory.c). Not seen: compaction, when free huge pages
//! have run out.

use crate::error::PriceError;
use crate::sample::{Probe, time_cpu};
use pagewise_kernel::page_size;
use pagewise_kernel::region::{Pages, Region};
use pagewise_model::Bytes;

/// Huge pages of one repeat.
const COUNT: u64 = 16;

/// The probe.
#[derive(Debug)]
pub(crate) struct Huge;

impl Probe for Huge {
    const NAME: &'static str = "the huge fault";

    fn measure_once(&mut self) -> Result<f64, PriceError> {
        let page = Bytes(page_size::huge().bytes());
        let mut region = Region::new(Bytes(page.0 * COUNT), Pages::Huge)?;
        let (touch_ns, _) = time_cpu(|| region.touch(page));
        if region.huge_bytes()? < region.size() {
            return Err(PriceError::Unavailable("the kernel gave base pages only".to_owned()));
        }
        let (unmap_ns, ()) = time_cpu(|| drop(region));
        Ok((touch_ns + unmap_ns) / COUNT as f64)
    }
}
