//! The cost of giving a part of a huge page different rights.
//!
//! One base page of each huge page is made read-only, so its mapping must be split (mm/huge_memory.c,
//! `__split_huge_pmd`). Then it is made writable again. The rights are as before, but the page stays split
//! until khugepaged merges it. `AnonHugePages` before and after is the proof. The same calls on base pages
//! show the cost of the mapping itself, which is split and merged each time.

use crate::error::PriceError;
use crate::kernels::touch;
use crate::kinds::MachinePageSizes;
use pagewise_kernel::region::MemoryRegion;
use pagewise_model::bench::PageKind;
use pagewise_model::bench::memory::HugePageSplit;
use pagewise_model::{Bytes, Fact, Measured};

/// Huge pages of a repeat.
const COUNT: u64 = 8;

/// The repeats.
#[derive(Debug)]
pub(super) struct SplitRepeats {
    kinds: MachinePageSizes,
    /// Nanoseconds for each huge page, of both calls.
    huge: Vec<[f64; 2]>,
    base: Vec<[f64; 2]>,
    /// Memory on huge pages before and behind the last one.
    bytes: (Bytes, Bytes),
    refused: Option<String>,
}

impl SplitRepeats {
    pub(super) fn new(kinds: MachinePageSizes) -> Self {
        let bytes = (Bytes(0), Bytes(0));
        Self { kinds, huge: Vec::new(), base: Vec::new(), bytes, refused: None }
    }

    /// Memory of a repeat.
    pub(super) fn memory(kinds: MachinePageSizes) -> Bytes {
        Bytes(COUNT * kinds.huge().bytes())
    }

    /// One repeat on each kind of page.
    pub(super) fn step(&mut self) {
        if self.refused.is_none()
            && let Err(error) = self.split()
        {
            self.refused = Some(error.to_string());
        }
    }

    fn split(&mut self) -> Result<(), PriceError> {
        let mut region = self.filled(PageKind::Base)?;
        self.base.push(self.change(&mut region)?);
        let mut region = self.filled(PageKind::Thp)?;
        let before = region.huge_bytes()?;
        self.huge.push(self.change(&mut region)?);
        self.bytes = (before, region.huge_bytes()?);
        Ok(())
    }

    fn filled(&self, kind: PageKind) -> Result<MemoryRegion, PriceError> {
        let mut region = self.kinds.map(kind, Self::memory(self.kinds))?;
        region.populate()?;
        self.kinds.prove(kind, &region)?;
        Ok(region)
    }

    fn change(&self, region: &mut MemoryRegion) -> Result<[f64; 2], PriceError> {
        let (unit, part) = (self.kinds.huge().bytes(), self.kinds.base().bytes());
        let both = touch::take_rights_and_return(region, unit as usize, part as usize)
            .map_err(PriceError::sys("mprotect", "a base page of each huge one"))?;
        Ok(both.map(|ns| ns / COUNT as f64))
    }

    pub(super) fn finish(self) -> Fact<HugePageSplit> {
        if let Some(why) = self.refused {
            return Fact::missing(why);
        }
        let of = |all: &[[f64; 2]], nth: usize| {
            Measured::from_values(&all.iter().map(|both| both[nth]).collect::<Vec<f64>>())
        };
        let all = (of(&self.huge, 0), of(&self.huge, 1), of(&self.base, 0), of(&self.base, 1));
        let (Some(split_ns), Some(mend_ns), Some(base_split_ns), Some(base_mend_ns)) = all else {
            return Fact::missing("no repeat was made");
        };
        let (before_bytes, after_bytes) = self.bytes;
        Fact::Known(HugePageSplit {
            huge_pages: COUNT,
            before_bytes,
            after_bytes,
            split_ns,
            mend_ns,
            base_split_ns,
            base_mend_ns,
        })
    }
}

#[cfg(test)]
#[allow(clippy::print_stderr, reason = "a skipped test says so")]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_was_split_stays_split() {
        let mut splits = SplitRepeats::new(MachinePageSizes::here());
        splits.step();
        match splits.finish() {
            Fact::Known(split) => {
                assert_eq!(split.before_bytes, SplitRepeats::memory(MachinePageSizes::here()));
                assert_eq!(split.after_bytes, Bytes(0), "{split:?}");
                assert!(split.split_ns.median > 0.0 && split.base_mend_ns.median > 0.0);
            }
            Fact::Missing(why) => eprintln!("SKIP a_page_that_was_split_stays_split: {why}"),
        }
    }
}
