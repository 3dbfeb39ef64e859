//! What the touches of a recording would come to with another page size.
//!
//! Touched pages that lie in one larger page, within one mapping, come in together. The faults on that larger
//! page are those of its part with the most faults. So a copy on write counts as often as it happens, and so
//! does a mapping that is emptied and refilled. Pages of a file are aligned by file offset, others by
//! address. Sizes of 16 and 64 KiB model the base page of another kernel, where a mapping's last page is
//! whole. 2 MiB models huge pages of this kernel. A huge page is used only if all of it lies in the mapping,
//! at an address that fits its offset. Elsewhere the base pages remain.
//!
//! Fault-around stays as in the recording: each of its windows is one touch. What it mapped beside the fault
//! counts as untouched, as does what a large folio brought along. A page that only the kernel touched is not
//! known here. Mappings are taken in their last state. The first touches of private memory that huge pages
//! would save bound what a remedy with huge pages can save.

use super::mappings::{MappingExtent, ProcessMappings};
use super::touched::PageTouchCounts;
use pagewise_model::fault::PageForecast;
use pagewise_model::{Bytes, PageSize};

/// Base pages of other kernels.
const OTHER_BASES: [PageSize; 2] = [PageSize::BASE_16K, PageSize::BASE_64K];

/// Sums over the processes that have ended.
#[derive(Debug)]
pub(super) struct PageSizeForecasts {
    base: PageSize,
    all: Vec<PageSizeForecast>,
}

#[derive(Debug)]
struct PageSizeForecast {
    size: PageSize,
    is_huge: bool,
    faults: u64,
    memory: u64,
    /// Base pages touched.
    touched: u64,
    /// Faults on private memory whose page came in with another one.
    spared: u64,
    /// The page that is being filled; pages come in the order of their addresses.
    current: Option<LargerPage>,
}

/// Touched base pages that lie in one page.
#[derive(Debug, Clone, Copy)]
struct LargerPage {
    /// Where its mapping starts, and its number and size there.
    key: (u64, u64, u64),
    /// Faults on the part that had the most.
    most: u64,
}

impl PageSizeForecasts {
    pub(super) fn new(base: PageSize) -> Self {
        let one = |size, is_huge| PageSizeForecast {
            size,
            is_huge,
            faults: 0,
            memory: 0,
            touched: 0,
            spared: 0,
            current: None,
        };
        let larger = OTHER_BASES.into_iter().filter(|size| *size > base);
        let mut all = vec![one(base, false)];
        all.extend(larger.map(|size| one(size, false)));
        if PageSize::PMD_2M > base {
            all.push(one(PageSize::PMD_2M, true));
        }
        Self { base, all }
    }

    /// Adds a process that has faulted on `touched`.
    pub(super) fn add(&mut self, touched: &PageTouchCounts, mappings: &ProcessMappings) {
        let mut extent: Option<MappingExtent> = None;
        for (page, faults) in touched.pages() {
            let address = page.saturating_mul(self.base.bytes());
            let known = extent.filter(|extent| extent.contains(address));
            let place = known.unwrap_or_else(|| mappings.extent(address));
            extent = Some(place);
            for forecast in &mut self.all {
                forecast.add(place, address, faults, self.base);
            }
        }
        for forecast in &mut self.all {
            forecast.close();
        }
    }

    /// One forecast for each size, the base page first. Empty if nothing was touched.
    pub(super) fn forecasts(&self) -> Vec<PageForecast> {
        let forecast = |one: &PageSizeForecast| PageForecast {
            page_bytes: Bytes(one.size.bytes()),
            faults: one.faults,
            memory_bytes: Bytes(one.memory),
            untouched_bytes: Bytes(
                one.memory.saturating_sub(one.touched.saturating_mul(self.base.bytes())),
            ),
        };
        self.all.iter().filter(|one| one.touched > 0).map(forecast).collect()
    }

    /// First touches of private memory that would not fault with huge pages. 0 if there is no forecast for
    /// huge pages.
    pub(super) fn spared_by_huge_pages(&self) -> u64 {
        self.all.iter().find(|one| one.is_huge).map_or(0, |one| one.spared)
    }
}

impl PageSizeForecast {
    fn add(&mut self, place: MappingExtent, address: u64, faults: u64, base: PageSize) {
        self.touched += 1;
        let size = match self.is_huge && !place.holds_whole(address, self.size) {
            true => base,
            false => self.size,
        };
        let key = (place.start, place.position(address) / size.bytes(), size.bytes());
        match &mut self.current {
            Some(group) if group.key == key => {
                group.most = group.most.max(faults);
                self.spared += u64::from(place.is_private);
            }
            _ => {
                self.close();
                self.current = Some(LargerPage { key, most: faults });
            }
        }
    }

    fn close(&mut self) {
        if let Some(group) = self.current.take() {
            self.faults += group.most;
            self.memory += group.key.2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    const START: u64 = 64 * MIB;

    fn recorded(
        extents: &[(u64, u64, Option<u64>)],
        touches: &[u64],
    ) -> (PageTouchCounts, ProcessMappings) {
        let mut touched = PageTouchCounts::default();
        for address in touches {
            touched.add(address / PageSize::BASE_4K.bytes());
        }
        let mut mappings = ProcessMappings::default();
        for (start, size, offset) in extents {
            mappings.insert_plain(*start, start + size, *offset);
        }
        (touched, mappings)
    }

    fn forecasts(extents: &[(u64, u64, Option<u64>)], touches: &[u64]) -> Vec<(u64, u64)> {
        let (touched, mappings) = recorded(extents, touches);
        let mut all = PageSizeForecasts::new(PageSize::BASE_4K);
        all.add(&touched, &mappings);
        all.forecasts().iter().map(|one| (one.faults, one.untouched_bytes.0 / KIB)).collect()
    }

    fn pages(from: u64, count: u64) -> Vec<u64> {
        (0..count).map(|page| from + page * 4 * KIB).collect()
    }

    #[test]
    fn neighbours_come_in_together() {
        let seen = forecasts(&[(START, 4 * MIB, None)], &pages(START, 512));
        assert_eq!(seen, [(512, 0), (128, 0), (32, 0), (1, 0)]);
        let sparse: Vec<u64> = (0..32).map(|n| START + n * 64 * KIB).collect();
        let seen = forecasts(&[(START, 4 * MIB, None)], &sparse);
        assert_eq!(seen, [(32, 0), (32, 32 * 12), (32, 32 * 60), (1, 2048 - 128)]);
    }

    #[test]
    fn what_is_faulted_on_again_counts_as_often_as_its_busiest_part() {
        let mut touches = pages(START, 4);
        touches.extend([START, START, START + 4 * KIB]);
        let seen = forecasts(&[(START, MIB, None)], &touches);
        assert_eq!(seen, [(7, 0), (3, 0), (3, 48), (7, 0)], "1 MiB holds no huge page");
    }

    #[test]
    fn huge_pages_spare_touches_of_private_memory_that_is_a_whole_page_of_it() {
        let spared = |extents: &[(u64, u64, Option<u64>)], touches: &[u64]| {
            let (touched, mappings) = recorded(extents, touches);
            let mut all = PageSizeForecasts::new(PageSize::BASE_4K);
            all.add(&touched, &mappings);
            let forecast = all.forecasts();
            let fewer = forecast[0].faults - forecast[3].faults;
            assert!(all.spared_by_huge_pages() <= fewer, "{fewer}");
            all.spared_by_huge_pages()
        };
        let whole = [(START, 4 * MIB, None)];
        assert_eq!(spared(&whole, &pages(START, 1024)), 1022);
        // One page of each; each page three times.
        assert_eq!(spared(&whole, &[START, START + 2 * MIB]), 0);
        let thrice: Vec<u64> = (0..3).flat_map(|_| pages(START, 512)).collect();
        assert_eq!(spared(&whole, &thrice), 511);
        // A file, and a range that is no whole huge page.
        assert_eq!(spared(&[(START, 4 * MIB, Some(0))], &pages(START, 1024)), 0);
        assert_eq!(spared(&[(START, MIB, None)], &pages(START, 256)), 0);
    }

    #[test]
    fn files_are_aligned_by_their_offset_and_mappings_are_not_joined() {
        // 8 KiB of a file from 8 KiB on, then memory of no file: two pages of 16 KiB.
        let extents = [(START, 8 * KIB, Some(8 * KIB)), (START + 8 * KIB, MIB, None)];
        let seen = forecasts(&extents, &pages(START, 4));
        assert_eq!(seen[1], (2, 16));
        // 16 KiB from offset 8 KiB on lie in two pages of the file.
        let seen = forecasts(&[(START, MIB, Some(8 * KIB))], &pages(START, 4));
        assert_eq!(seen[1], (2, 16));
    }

    #[test]
    fn a_huge_page_needs_a_mapping_that_holds_it_and_an_address_that_fits() {
        let whole = pages(START + 2 * MIB, 2);
        let seen = forecasts(&[(START + MIB, 4 * MIB, None)], &whole);
        assert_eq!(seen[3], (1, 2048 - 8));
        let seen = forecasts(&[(START + MIB, 4 * MIB, None)], &pages(START + MIB, 2));
        assert_eq!(seen[3], (2, 0), "its first MiB is no whole page");
        let seen = forecasts(&[(START, 4 * MIB, Some(4 * KIB))], &whole);
        assert_eq!(seen[3], (2, 0), "the offset is a page beside");
        let seen = forecasts(&[], &whole);
        assert_eq!(seen[3], (2, 0), "no mapping is known");
    }
}
