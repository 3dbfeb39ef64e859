//! Kinds of pages: which sizes they have here, how memory on them is had, and whether it is.

use crate::error::PriceError;
use pagewise_kernel::region::{MemoryRegion, RegionPages};
use pagewise_kernel::{SysError, hugetlb, page_size, thp};
use pagewise_model::bench::PageKind;
use pagewise_model::bench::tlb::UnavailablePages;
use pagewise_model::{Bytes, PageSize};

/// The page sizes of this machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MachinePageSizes {
    base: PageSize,
    huge: PageSize,
    /// The page size of the next larger pool. `None` if the kernel has none.
    giant: Option<PageSize>,
}

impl MachinePageSizes {
    pub(crate) fn here() -> Self {
        let huge = page_size::huge();
        let pools = hugetlb::sizes().unwrap_or_default();
        let giant = pools.into_iter().find(|page| *page > huge);
        Self { base: page_size::base(), huge, giant }
    }

    /// The page size of a kind. `None` if the machine has no such pages.
    pub(crate) const fn page(self, kind: PageKind) -> Option<PageSize> {
        match kind {
            PageKind::Base => Some(self.base),
            PageKind::Thp | PageKind::Pool => Some(self.huge),
            PageKind::Giant => self.giant,
        }
    }

    pub(crate) const fn base(self) -> PageSize {
        self.base
    }

    pub(crate) const fn huge(self) -> PageSize {
        self.huge
    }

    /// The memory that a set takes on pages of a kind.
    pub(crate) fn resident(self, kind: PageKind, set: Bytes) -> Bytes {
        let page = self.page(kind).unwrap_or(self.base).bytes();
        Bytes(set.0.checked_next_multiple_of(page).unwrap_or(u64::MAX))
    }

    /// Memory on pages of a kind, not yet touched.
    pub(crate) fn map(self, kind: PageKind, size: Bytes) -> Result<MemoryRegion, PriceError> {
        let region = match (kind, self.page(kind)) {
            (PageKind::Base, _) => MemoryRegion::new(size, RegionPages::Base),
            (PageKind::Thp, _) => MemoryRegion::new(size, RegionPages::Huge),
            (PageKind::Pool | PageKind::Giant, Some(page)) => MemoryRegion::from_pool(size, page),
            (PageKind::Pool | PageKind::Giant, None) => {
                return Err(PriceError::Unavailable("the kernel has no larger pages".to_owned()));
            }
        };
        Ok(region?)
    }

    /// Fails unless all of `region` that is resident is on pages of the kind.
    pub(crate) fn prove(
        self,
        kind: PageKind,
        region: &MemoryRegion,
    ) -> Result<PageSize, PriceError> {
        let wanted = self.page(kind).unwrap_or(self.base);
        match region.proven_page()? {
            Some(page) if page == wanted => Ok(page),
            Some(page) => Err(PriceError::Unavailable(format!("the kernel gave pages of {page}"))),
            None => {
                let huge = region.huge_bytes()?;
                let text = format!("the kernel gave huge pages for {huge} of {}", region.size());
                Err(PriceError::Unavailable(text))
            }
        }
    }

    /// Takes one page of the kind, and gives it back.
    pub(crate) fn try_one(self, kind: PageKind) -> Result<(), UnavailablePages> {
        let taken = || {
            let size = Bytes(self.page(kind).unwrap_or(self.base).bytes());
            let mut region = self.map(kind, size)?;
            region.populate()?;
            self.prove(kind, &region)
        };
        taken().map(drop).map_err(|error| UnavailablePages {
            pages: kind,
            why: error.to_string(),
            next: self.next_step(kind, &error),
        })
    }

    fn next_step(self, kind: PageKind, error: &PriceError) -> String {
        match (kind, self.page(kind)) {
            (PageKind::Thp, _) if thp::enabled().is_ok_and(|word| word == "never") => {
                "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled".to_owned()
            }
            (PageKind::Base | PageKind::Thp, _) => {
                "try again when more contiguous memory is free".to_owned()
            }
            (PageKind::Pool | PageKind::Giant, Some(page)) => pool_step(page, error),
            (PageKind::Pool | PageKind::Giant, None) => {
                "neither the processor nor the kernel offers them".to_owned()
            }
        }
    }
}

/// How a pool gets pages: those of 1 GiB are hardly ever free in one piece after the boot.
fn pool_step(page: PageSize, error: &PriceError) -> String {
    let count = Bytes::gib(1).pages(page).max(1);
    let early = Bytes(page.bytes()) >= Bytes::gib(1);
    let boot = if early { ", or boot with hugepagesz=1G hugepages=1" } else { "" };
    let limited = matches!(error, PriceError::Sys(SysError { call: "madvise", .. }));
    let group = if limited { ", and raise the hugetlb limit of this cgroup" } else { "" };
    format!("as root: echo {count} > {}{boot}{group}", hugetlb::control(page))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_proven_or_says_what_to_do() {
        let kinds = MachinePageSizes::here();
        assert!(kinds.try_one(PageKind::Base).is_ok());
        for kind in PageKind::ALL {
            if let Err(missing) = kinds.try_one(kind) {
                assert_eq!(missing.pages, kind);
                assert!(!missing.why.is_empty() && !missing.next.is_empty(), "{missing:?}");
            }
        }
    }

    #[test]
    fn base_pages_do_not_pass_for_huge_ones() {
        let kinds = MachinePageSizes::here();
        let mut region = kinds.map(PageKind::Base, Bytes::mib(1)).expect("memory");
        region.populate().expect("memory");
        assert_eq!(kinds.prove(PageKind::Base, &region).expect("proven"), kinds.base());
        let refused = kinds.prove(PageKind::Thp, &region).expect_err("not huge").to_string();
        assert!(refused.contains("the kernel gave pages of"), "{refused}");
    }

    #[test]
    fn whole_pages_are_taken() {
        let kinds = MachinePageSizes::here();
        let set = Bytes(kinds.huge().bytes() + 1);
        assert_eq!(kinds.resident(PageKind::Thp, set), Bytes(2 * kinds.huge().bytes()));
    }
}
