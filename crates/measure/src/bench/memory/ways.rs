//! The ways that are available here. Each is tried before anything is announced. For an unavailable way, the
//! message says what would make it available.

use super::anonymous::MappingHoles;
use super::pool::ReservedPool;
use crate::error::PriceError;
use crate::kinds::MachinePageSizes;
use pagewise_kernel::thp::{self, ThpSizeControl};
use pagewise_kernel::userfault::MissingPageServer;
use pagewise_model::bench::PageKind;
use pagewise_model::bench::memory::{MemoryBenchWay, Unavailable};
use pagewise_model::bench::tlb;
use pagewise_model::{Bytes, PageSize};

/// The file that offers a size between base and huge.
const SIZE_CONTROL: &str =
    "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/hugepages-<n>kB/enabled";

/// The sizes between base and huge that the kernel offers for anonymous memory.
#[derive(Debug, Clone)]
pub(super) struct MthpSizes {
    /// Sizes that a program can get by advice, smallest first.
    enabled: Vec<PageSize>,
    /// The other sizes, each with the setting in its file.
    disabled: Vec<(PageSize, String)>,
    huge: PageSize,
    /// Whether huge pages may be had as well.
    has_huge: bool,
}

impl MthpSizes {
    pub(super) fn here(kinds: MachinePageSizes) -> Self {
        let whole = thp::enabled().unwrap_or_default();
        Self::sort(thp::sizes().unwrap_or_default(), &whole, kinds.huge())
    }

    fn sort(offered: Vec<ThpSizeControl>, whole: &str, huge: PageSize) -> Self {
        let mut sizes = Self {
            enabled: Vec::new(),
            disabled: Vec::new(),
            huge,
            has_huge: is_advised("inherit", whole),
        };
        for ThpSizeControl { size, enabled, .. } in offered {
            let Some(word) = enabled else { continue };
            match (size == huge, is_advised(&word, whole)) {
                (true, is_on) => sizes.has_huge = is_on,
                (false, true) => sizes.enabled.push(size),
                (false, false) => sizes.disabled.push((size, word)),
            }
        }
        sizes
    }

    /// Every size as a way, including the unavailable ones.
    pub(super) fn ways(&self) -> impl Iterator<Item = MemoryBenchWay> {
        let disabled = self.disabled.iter().map(|(size, _)| size);
        self.enabled.iter().chain(disabled).map(|size| MemoryBenchWay::Mthp { page_bytes: *size })
    }

    /// The holes that leave only pages of this size: in each stretch of the next larger size that the
    /// kernel would take.
    pub(super) fn holes(&self, page: PageSize) -> MappingHoles {
        let larger = self.enabled.iter().copied().filter(|size| *size > page);
        let huge = self.has_huge.then_some(self.huge);
        let next = larger.chain(huge).min().unwrap_or(self.huge);
        MappingHoles { stretch: Bytes(next.bytes()), hole: Bytes(page.bytes()) }
    }

    fn refuse(&self, page: PageSize) -> Option<Unavailable> {
        let (size, word) = self.disabled.iter().find(|(size, _)| *size == page)?;
        Some(Unavailable {
            way: MemoryBenchWay::Mthp { page_bytes: *size },
            why: format!("its file `enabled` says `{word}`"),
            next: SIZE_CONTROL.to_owned(),
        })
    }
}

/// Whether a program gets pages of a size by advice. `word` is the setting of the size, `whole` the global
/// one.
fn is_advised(word: &str, whole: &str) -> bool {
    let word = if word == "inherit" { whole } else { word };
    matches!(word, "always" | "madvise")
}

/// Tries a way. An error if it is not available.
pub(super) fn try_way(
    way: MemoryBenchWay,
    kinds: MachinePageSizes,
    sizes: &MthpSizes,
    pool: &ReservedPool,
) -> Result<(), Unavailable> {
    let of_kind = |kind| {
        let unavailable = |tlb::UnavailablePages { why, next, .. }| Unavailable { way, why, next };
        kinds.try_one(kind).map_err(unavailable)
    };
    match way {
        MemoryBenchWay::PoolMap | MemoryBenchWay::PoolMemfd => of_kind(PageKind::Pool),
        MemoryBenchWay::PoolShm | MemoryBenchWay::PoolFile => {
            of_kind(PageKind::Pool).and_then(|()| try_shared(way, kinds, pool))
        }
        MemoryBenchWay::Thp | MemoryBenchWay::ForkCowHuge => of_kind(PageKind::Thp),
        MemoryBenchWay::Mthp { page_bytes } => sizes.refuse(page_bytes).map_or(Ok(()), Err),
        MemoryBenchWay::Userfaultfd => {
            MissingPageServer::open().map(drop).map_err(|error| Unavailable {
                way,
                why: error.to_string(),
                next: "in a container: allow userfaultfd".to_owned(),
            })
        }
        _ => Ok(()),
    }
}

/// Tries a way to share the pool, which there is.
fn try_shared(
    way: MemoryBenchWay,
    kinds: MachinePageSizes,
    pool: &ReservedPool,
) -> Result<(), Unavailable> {
    if way == MemoryBenchWay::PoolFile && !pool.has_mount() {
        return Err(Unavailable {
            way,
            why: format!("no hugetlbfs with pages of {} is mounted", kinds.huge()),
            next: "as root: mount -t hugetlbfs none /mnt/huge".to_owned(),
        });
    }
    let next = match way {
        MemoryBenchWay::PoolFile => "create a directory there that this account may write to",
        _ => "run as root, or in the group of /proc/sys/vm/hugetlb_shm_group",
    };
    let taken = pool.take(way, Bytes(kinds.huge().bytes()));
    let unavailable =
        |error: PriceError| Unavailable { way, why: error.to_string(), next: next.to_owned() };
    taken.map(drop).map_err(unavailable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(kib: u64, enabled: Option<&str>) -> ThpSizeControl {
        let size = PageSize::new(Bytes::kib(kib).0).expect("a power of two");
        ThpSizeControl { size, enabled: enabled.map(str::to_owned), shmem_enabled: None }
    }

    fn sizes(whole: &str) -> MthpSizes {
        let offered = vec![
            control(8, None),
            control(16, Some("madvise")),
            control(64, Some("inherit")),
            control(128, Some("never")),
            control(2048, Some("inherit")),
        ];
        MthpSizes::sort(offered, whole, PageSize::PMD_2M)
    }

    #[test]
    fn sizes_are_had_by_their_own_word_or_by_that_of_all() {
        let found = sizes("madvise");
        assert_eq!(found.ways().count(), 3, "8 KiB is not offered for anonymous memory");
        let kib = |kib| PageSize::new(Bytes::kib(kib).0).expect("a power of two");
        let kinds = MachinePageSizes::here();
        let pool = ReservedPool::here(kinds.huge());
        let of =
            |size| try_way(MemoryBenchWay::Mthp { page_bytes: kib(size) }, kinds, &found, &pool);
        assert!(of(64).is_ok());
        let refused = of(128);
        assert!(refused.is_err_and(|missing| missing.why.contains("`never`")));
        assert_eq!(sizes("never").disabled.len(), 2);
    }

    #[test]
    fn holes_keep_the_next_larger_size_away() {
        let holes =
            |whole, kib| sizes(whole).holes(PageSize::new(Bytes::kib(kib).0).expect("size"));
        let of =
            |stretch, hole| MappingHoles { stretch: Bytes::kib(stretch), hole: Bytes::kib(hole) };
        assert_eq!(holes("always", 16), of(64, 16));
        assert_eq!(holes("always", 64), of(2048, 64));
        assert_eq!(holes("never", 16), of(2048, 16), "nothing larger is given");
    }
}
