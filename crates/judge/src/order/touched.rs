//! What a start touched of its program's file, and what that would be with larger pages.
//!
//! Pages are counted by the addresses of the file, segment by segment: segments of different rights share no page.
//! A fault maps a window of fault-around, or a page if that is larger. A page that is written counts as a fault,
//! because the kernel copies it. A kernel with larger pages needs programs that are linked for them; the
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

/// A fault on a base page of a program's file in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageFault {
    /// Address of the page in the process.
    pub address: u64,
    /// Offset in the file; `None` for zeroed data behind it.
    pub offset: Option<Bytes>,
    pub is_code: bool,
    /// Whether it wrote; `None` if that is not known.
    pub is_write: Option<bool>,
}

/// Pages of a segment, by address in the file.
#[derive(Debug, Default)]
struct TouchedSegment {
    all: BTreeSet<u64>,
    written: BTreeSet<u64>,
}

impl TouchedSegment {
    fn read(&self) -> impl Iterator<Item = Range<u64>> {
        ranges(self.all.difference(&self.written))
    }

    fn pages(&self, size: PageSize) -> u64 {
        pages(ranges(self.all.iter()), size.bytes(), 0)
    }

    fn faults(&self, size: PageSize) -> f64 {
        match size.bytes() < WINDOW.0 {
            true => {
                let written = pages(ranges(self.written.iter()), size.bytes(), 0);
                windows(self.read(), WINDOW) + written as f64
            }
            false => self.pages(size) as f64,
        }
    }
}

fn ranges<'a>(pages: impl Iterator<Item = &'a u64>) -> impl Iterator<Item = Range<u64>> {
    pages.map(|at| *at..*at + PageSize::BASE_4K.bytes())
}

/// The pages that one process touched of a file with these segments (by address). Nothing if it ran no code there.
#[must_use]
pub fn touched_file(segments: &[LoadSegment], faults: &[ImageFault]) -> TouchedFile {
    let page = PageSize::BASE_4K.bytes();
    let Some(base) = faults.iter().find_map(|one| base(segments, one)) else {
        return TouchedFile::default();
    };
    let mut parts: BTreeMap<usize, TouchedSegment> = BTreeMap::new();
    for one in faults {
        let address = one.address.wrapping_sub(base);
        let behind = segments.partition_point(|part| part.address / page * page <= address);
        let Some(at) = behind.checked_sub(1) else { continue };
        let part = parts.entry(at).or_default();
        part.all.insert(address);
        if segments[at].is_writable && one.is_write.unwrap_or(true) {
            part.written.insert(address);
        }
    }
    let all: u64 = parts.values().map(|part| part.all.len() as u64).sum();
    let forecast = |size: PageSize| {
        let memory = parts.values().map(|part| part.pages(size) * size.bytes()).sum();
        PageForecast {
            page_bytes: Bytes(size.bytes()),
            faults: parts.values().map(|part| part.faults(size)).sum::<f64>().round() as u64,
            memory_bytes: Bytes(memory),
            untouched_bytes: Bytes(memory - all * page),
        }
    };
    let code: BTreeSet<u64> =
        faults.iter().filter(|one| one.is_code).map(|one| one.address).collect();
    TouchedFile {
        pages: all,
        code_pages: code.len() as u64,
        windows: parts.values().map(|part| windows(part.read(), WINDOW)).sum(),
        sizes: SIZES.map(forecast).to_vec(),
    }
}

/// Where the kernel put address 0 of the file, by a page of code.
fn base(segments: &[LoadSegment], seen: &ImageFault) -> Option<u64> {
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

    /// Faults on pages of a file that is loaded at page 1000.
    fn seen(numbers: &[u64], is_code: bool, is_write: Option<bool>) -> Vec<ImageFault> {
        let page = |number: &u64| ImageFault {
            address: (1000 + number) * PAGE,
            offset: Some(Bytes(number * PAGE)),
            is_code,
            is_write,
        };
        numbers.iter().map(page).collect()
    }

    #[test]
    fn larger_pages_hold_what_lies_together() {
        let segments = [segment(0, 64, false), segment(64, 8, true)];
        let code = seen(&[0, 1, 2, 3, 4, 40, 4], true, Some(false));
        let touched = [code, seen(&[64], false, Some(true)), seen(&[70], false, None)].concat();
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
        // One that is only read lies in a window.
        let read =
            touched_file(&segments, &[&touched[..7], &seen(&[70], false, Some(false))].concat());
        assert!((read.windows - 3.25).abs() < 1e-9 && read.sizes[0].faults == 3, "{read:?}");
    }

    #[test]
    fn a_file_that_ran_no_code_has_nothing() {
        let segments = [segment(0, 4, false)];
        assert_eq!(touched_file(&segments, &seen(&[1], false, None)), TouchedFile::default());
        assert_eq!(touched_file(&segments, &seen(&[9], true, None)), TouchedFile::default());
    }
}
