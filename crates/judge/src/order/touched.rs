//! What a start touched of its program's file, and what that would be with larger pages.
//!
//! Pages are counted by the addresses of the file, segment by segment: segments of different rights share no page.
//! A fault maps a window of fault-around, or a page if that is larger. Each page of a segment that is written
//! counts as a fault: the kernel copies it. A kernel with larger pages needs programs that are linked for them; the
//! linker then moves segments apart, which is not modelled.

use super::arrange::{WINDOW, pages, windows};
use pagewise_model::builds::TouchedFile;
use pagewise_model::fault::PageForecast;
use pagewise_model::text::LoadSegment;
use pagewise_model::{Bytes, PageSize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Page sizes of Linux: of x86-64, of others, and of huge pages.
pub(super) const SIZES: [PageSize; 4] =
    [PageSize::BASE_4K, PageSize::BASE_16K, PageSize::BASE_64K, PageSize::PMD_2M];

/// A base page of a program's file in the memory of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImagePage {
    /// Address in the process.
    pub address: u64,
    /// Offset in the file; `None` for zeroed data behind it.
    pub offset: Option<Bytes>,
    pub is_code: bool,
}

/// The pages that one process touched of a file with these segments (by address). Nothing if it ran no code there.
#[must_use]
pub fn touched_file(segments: &[LoadSegment], touched: &[ImagePage]) -> TouchedFile {
    let page = PageSize::BASE_4K.bytes();
    let Some(base) = touched.iter().find_map(|one| base(segments, one)) else {
        return TouchedFile::default();
    };
    let mut by_segment: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
    for one in touched {
        let address = one.address.wrapping_sub(base);
        let behind = segments.partition_point(|part| part.address / page * page <= address);
        if let Some(at) = behind.checked_sub(1) {
            by_segment.entry(at).or_default().insert(address);
        }
    }
    let parts: Vec<(&LoadSegment, Vec<Range<u64>>)> = by_segment
        .iter()
        .map(|(at, all)| (&segments[*at], all.iter().map(|at| *at..*at + page).collect()))
        .collect();
    let code: BTreeSet<u64> =
        touched.iter().filter(|one| one.is_code).map(|one| one.address).collect();
    let read = |(part, _): &&(&LoadSegment, Vec<Range<u64>>)| !part.is_writable;
    let all: u64 = by_segment.values().map(|all| all.len() as u64).sum();
    let forecast = |size: PageSize| {
        let count = |all: &[Range<u64>]| pages(all.iter().cloned(), size.bytes(), 0);
        let faults = |(part, all): &(&LoadSegment, Vec<Range<u64>>)| match part.is_writable {
            false if size.bytes() < WINDOW.0 => windows(all.iter().cloned(), WINDOW),
            _ => count(all) as f64,
        };
        let memory = parts.iter().map(|(_, all)| count(all) * size.bytes()).sum();
        PageForecast {
            page_bytes: Bytes(size.bytes()),
            faults: parts.iter().map(faults).sum::<f64>().round() as u64,
            memory_bytes: Bytes(memory),
            untouched_bytes: Bytes(memory - all * page),
        }
    };
    TouchedFile {
        pages: all,
        code_pages: code.len() as u64,
        windows: parts
            .iter()
            .filter(read)
            .map(|(_, all)| windows(all.iter().cloned(), WINDOW))
            .sum(),
        sizes: SIZES.map(forecast).to_vec(),
    }
}

/// Where the kernel put address 0 of the file, by a page of code.
fn base(segments: &[LoadSegment], seen: &ImagePage) -> Option<u64> {
    let page = PageSize::BASE_4K.bytes();
    let offset = seen.offset.filter(|_| seen.is_code)?.0;
    let first = |part: &LoadSegment| part.offset_bytes.0 / page * page;
    let mut code = segments.iter().filter(|part| part.is_executable);
    let part =
        code.find(|part| (first(part)..part.offset_bytes.0 + part.file_bytes.0).contains(&offset))?;
    Some(seen.address.wrapping_sub(part.address / page * page + offset - first(part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = PageSize::BASE_4K.bytes();

    fn segment(first: u64, pages: u64, is_writable: bool) -> LoadSegment {
        LoadSegment {
            offset_bytes: Bytes(first * PAGE),
            address: first * PAGE,
            file_bytes: Bytes(pages * PAGE),
            align_bytes: Bytes(PAGE),
            is_writable,
            is_executable: !is_writable,
        }
    }

    /// Pages of a file that is loaded at page 1000.
    fn seen(numbers: &[u64], is_code: bool) -> Vec<ImagePage> {
        let page = |number: &u64| ImagePage {
            address: (1000 + number) * PAGE,
            offset: Some(Bytes(number * PAGE)),
            is_code,
        };
        numbers.iter().map(page).collect()
    }

    #[test]
    fn larger_pages_hold_what_lies_together() {
        let segments = [segment(0, 64, false), segment(64, 8, true)];
        let touched = [seen(&[0, 1, 2, 3, 4, 40, 4], true), seen(&[64, 70], false)].concat();
        let file = touched_file(&segments, &touched);
        assert_eq!((file.pages, file.code_pages), (8, 6));
        let pages: Vec<u64> =
            file.sizes.iter().map(|one| one.memory_bytes.0 / one.page_bytes.0).collect();
        // Code in 3 pages of 16 KiB, data in 2; then 2 and 1, then one for each segment.
        assert_eq!(pages, [8, 5, 3, 2]);
        assert_eq!(file.sizes[1].untouched_bytes, Bytes::kib(5 * 16 - 8 * 4));
        // Five pages lie in one window, or in two for 4 of 16 places; each page of data is a fault.
        assert!((file.windows - 2.25).abs() < 1e-9, "{file:?}");
        let faults: Vec<u64> = file.sizes.iter().map(|one| one.faults).collect();
        assert_eq!(faults, [4, 4, 3, 2]);
    }

    #[test]
    fn a_file_that_ran_no_code_has_nothing() {
        let segments = [segment(0, 4, false)];
        assert_eq!(touched_file(&segments, &seen(&[1], false)), TouchedFile::default());
        assert_eq!(touched_file(&segments, &seen(&[9], true)), TouchedFile::default());
    }
}
