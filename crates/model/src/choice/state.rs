//! How the page cache holds a file, as far as the price of reading depends on it.

use super::residency;
use crate::bench::file::CacheResidency;
use crate::cache::{CacheSlot, CacheState, FolioClass};
use crate::schema::JsonSchema;
use crate::units::{Bytes, PageSize};
use serde::{Deserialize, Serialize};

/// Folios of at least this many base pages count as pieces. Copying tools leave such folios.
const PIECE_PAGES: u64 = 8;

/// The part of the cached bytes in one kind of folio.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FolioClassShare {
    pub folios: FolioClass,
    /// Share of the cached bytes.
    pub share: f64,
}

/// A file in the page cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileState {
    pub size_bytes: Bytes,
    /// Share of the file that is cached.
    pub cached_share: f64,
    /// Folios that hold the cached bytes; the shares add up to 1.
    pub folios: Vec<FolioClassShare>,
    /// Why folios below a huge page are assumed to have the size of pieces; none if their sizes were seen.
    pub assumed: Option<String>,
}

impl FileState {
    /// The state of a file of this size, from what was seen of its cache.
    #[must_use]
    pub fn from_cache(seen: &CacheState, size: Bytes, page: PageSize) -> Self {
        let part = |bytes: Bytes| (bytes.0 as f64 / size.0.max(1) as f64).clamp(0.0, 1.0);
        let cached_share = seen.cached_bytes.known().map_or_else(|| by_slots(seen), |c| part(*c));
        let huge = seen.huge_bytes.known().map_or(0.0, |bytes| part(*bytes)).min(cached_share);
        let small = seen.folios.known().map_or(0.0, |folios| {
            let is_small = |bytes: Bytes| bytes.0 < PIECE_PAGES * page.bytes();
            let all = folios.iter().filter(|share| is_small(share.folio_bytes));
            all.map(|share| part(share.total_bytes)).sum::<f64>()
        });
        let small = small.min(cached_share - huge);
        let nothing_seen = cached_share <= 0.0;
        let assumed = if nothing_seen {
            Some("the kernel chooses the folios for data that is not cached".to_owned())
        } else {
            // A file that is cached wholly in huge folios leaves nothing to assume.
            seen.folios.reason().filter(|_| huge < cached_share).map(str::to_owned)
        };
        let whole = if nothing_seen { 1.0 } else { cached_share };
        let pieces = if nothing_seen { 1.0 } else { cached_share - huge - small };
        let shares =
            [(FolioClass::Page, small), (FolioClass::Piece, pieces), (FolioClass::Huge, huge)];
        let folios = shares
            .into_iter()
            .filter(|(_, share)| *share > 0.0)
            .map(|(folios, share)| FolioClassShare { folios, share: share / whole })
            .collect();
        Self { size_bytes: size, cached_share, folios, assumed }
    }

    /// A file that is all cached, in folios of one kind.
    #[must_use]
    pub fn cached(size_bytes: Bytes, folios: FolioClass) -> Self {
        let folios = vec![FolioClassShare { folios, share: 1.0 }];
        Self { size_bytes, cached_share: 1.0, folios, assumed: None }
    }

    /// Residency of the file.
    #[must_use]
    pub fn residency(&self) -> CacheResidency {
        residency(self.cached_share)
    }
}

/// Share that is cached if only the first pages of slots could be checked.
fn by_slots(seen: &CacheState) -> f64 {
    let weight = |slot: &CacheSlot| match slot {
        CacheSlot::Huge | CacheSlot::Whole | CacheSlot::Asked => 1.0,
        CacheSlot::Part => 0.5,
        CacheSlot::Absent => 0.0,
    };
    let slots = &seen.slots.0;
    slots.iter().map(weight).sum::<f64>() / slots.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{FolioShare, SlotMap};
    use crate::measured::Fact;

    fn seen(cached: u64, huge: u64, folios: Fact<Vec<FolioShare>>) -> CacheState {
        CacheState {
            cached_bytes: Fact::Known(Bytes::mib(cached)),
            huge_bytes: Fact::Known(Bytes::mib(huge)),
            slots: SlotMap(vec![CacheSlot::Whole, CacheSlot::Part]),
            counts: Fact::missing("not asked"),
            folios,
        }
    }

    fn state(seen: &CacheState) -> FileState {
        FileState::from_cache(seen, Bytes::mib(16), PageSize::BASE_4K)
    }

    fn shares(state: &FileState) -> Vec<(FolioClass, f64)> {
        state.folios.iter().map(|part| (part.folios, part.share)).collect()
    }

    #[test]
    fn what_is_seen_is_divided() {
        let folio =
            |kib, mib| FolioShare { folio_bytes: Bytes::kib(kib), total_bytes: Bytes::mib(mib) };
        let folios = Fact::Known(vec![folio(4, 2), folio(64, 2), folio(2048, 4)]);
        let mixed = state(&seen(8, 4, folios));
        assert_eq!((mixed.cached_share, mixed.residency()), (0.5, CacheResidency::Cold));
        let expected =
            [(FolioClass::Page, 0.25), (FolioClass::Piece, 0.25), (FolioClass::Huge, 0.5)];
        assert_eq!((shares(&mixed), &mixed.assumed), (expected.to_vec(), &None));
    }

    #[test]
    fn what_is_not_seen_is_said() {
        let hidden = || Fact::missing("for root to see");
        let plain = state(&seen(16, 8, hidden()));
        assert_eq!(shares(&plain), [(FolioClass::Piece, 0.5), (FolioClass::Huge, 0.5)]);
        assert_eq!(plain.assumed.as_deref(), Some("for root to see"));
        assert_eq!(plain.residency(), CacheResidency::Warm);
        assert_eq!(state(&seen(16, 16, hidden())).assumed, None);
        let nothing = state(&seen(0, 0, hidden()));
        assert_eq!((shares(&nothing), nothing.cached_share), (vec![(FolioClass::Piece, 1.0)], 0.0));
        assert!(nothing.assumed.is_some());
    }

    #[test]
    fn slots_stand_in_where_nothing_is_counted() {
        let mut asked = seen(0, 0, Fact::missing("for root to see"));
        asked.cached_bytes = Fact::missing("not ours");
        assert_eq!(state(&asked).cached_share, 0.75);
    }
}
