//! The code of a program as it is mapped: which parts a start touched, and how many faults it takes to touch
//! pages of it.
//!
//! Faults are counted on the file itself: its code is mapped as the kernel would map it, and the pages are
//! entered one by one. What a fault brings along depends on the kernel, on the folios of the file in the page
//! cache, and on the position of a page in its fault-around window. Measuring avoids modelling any of that.
//! The kernel may load a program at any multiple of its alignment, so the count is the mean over the places
//! within a window. Pages that are not in the page cache are read.
//!
//! Overhead: 3 us for each page and place, 16 places.

use crate::text::ElfFile;
use pagewise_kernel::error::SysError;
use pagewise_kernel::file_view::{FileView, open_regular};
use pagewise_kernel::page_size;
use pagewise_model::Bytes;
use pagewise_model::fault::{WorkingSet, WorkingSetRange};
use pagewise_model::text::{ImagePlacement, LoadSegment};
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Places further apart than a window of fault-around are equivalent.
const WINDOW: Bytes = Bytes::kib(64);

/// The executable part of a program's file.
#[derive(Debug)]
pub struct ProgramCode {
    file: File,
    path: PathBuf,
    segment: LoadSegment,
    /// How far behind a boundary of huge pages it may begin, in bytes.
    places: Vec<u64>,
}

impl ProgramCode {
    /// Opens the program at `path`. `None` if it has no code that can be mapped.
    #[must_use]
    pub fn open(path: &Path) -> Option<Self> {
        let path = std::fs::canonicalize(path).ok()?;
        let (file, _length) = open_regular(&path).ok()?;
        let elf = ElfFile::read(&file).ok()?;
        let executable = |segment: &&LoadSegment| segment.is_executable;
        let segment = *elf.layout.segments.iter().find(executable)?;
        let aligned = elf.layout.segments.iter().map(|segment| segment.align_bytes.0).max();
        let step = aligned.unwrap_or_default().max(page_size::base().bytes());
        let count = match elf.layout.placement {
            ImagePlacement::Fixed => 1,
            _ => (WINDOW.0 / step).max(1),
        };
        let page = page_size::base().bytes();
        let first = segment.address / page * page;
        let place = |number: u64| (first + number * step) % page_size::huge().bytes();
        Some(Self { file, path, segment, places: (0..count).map(place).collect() })
    }

    /// The addresses of this program's code in `set`, by first touch. Empty if `set` does not contain the
    /// program.
    #[must_use]
    pub fn touched(&self, set: &WorkingSet) -> Vec<Range<u64>> {
        let segment = self.part();
        let address = |offset: u64| offset - segment.start + self.first_page();
        let file = set.files.iter().filter(|file| Path::new(&file.path) == self.path);
        let mut ranges: Vec<&WorkingSetRange> = file.flat_map(|file| &file.ranges).collect();
        ranges.sort_by_key(|range| range.first_touch_ns);
        ranges
            .into_iter()
            .map(|range| {
                let end = range.offset_bytes.0.saturating_add(range.length_bytes.0);
                range.offset_bytes.0.max(segment.start)..end.min(segment.end)
            })
            .filter(|range| range.start < range.end)
            .map(|range| address(range.start)..address(range.end))
            .collect()
    }

    /// Faults of touching pages at these addresses in this order, the mean over all places.
    ///
    /// # Errors
    /// If the file cannot be mapped, or is shortened meanwhile.
    pub fn faults(&self, addresses: &[u64]) -> Result<f64, SysError> {
        let mut sum = 0;
        for place in &self.places {
            let view = FileView::map_part(&self.file, self.part(), *place as usize)?;
            let within = addresses.iter().filter_map(|at| at.checked_sub(self.first_page()));
            sum += view.count_faults(within.map(|offset| offset as usize))?;
        }
        Ok(sum as f64 / self.places.len() as f64)
    }

    fn first_page(&self) -> u64 {
        self.segment.address - self.segment.address % page_size::base().bytes()
    }

    /// The part of the file that is mapped, from its first page on.
    fn part(&self) -> Range<u64> {
        let start = self.segment.offset_bytes.0;
        start - start % page_size::base().bytes()..start + self.segment.file_bytes.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::Nanos;
    use pagewise_model::fault::{WORKING_SET_SCHEMA, WorkingSetFile};

    fn own() -> ProgramCode {
        ProgramCode::open(&std::env::current_exe().unwrap()).unwrap()
    }

    #[test]
    fn one_fault_serves_a_page_however_often_it_is_touched() {
        let code = own();
        let first = code.first_page();
        assert!((code.faults(&[first, first]).unwrap() - 1.0).abs() < 1e-9);
        assert!(code.faults(&[]).unwrap().abs() < 1e-9);
        let apart = first + 2 * page_size::huge().bytes();
        if code.segment.file_bytes.0 > 3 * page_size::huge().bytes() {
            assert!(code.faults(&[first, apart]).unwrap() > 1.0);
        }
    }

    #[test]
    fn touched_code_is_that_of_the_program() {
        let (code, page) = (own(), page_size::base().bytes());
        let part = code.part();
        let range = |offset: u64, length: u64| WorkingSetRange {
            offset_bytes: Bytes(offset),
            length_bytes: Bytes(length),
            first_touch_ns: Nanos(0),
        };
        let file = |path: &Path| WorkingSetFile {
            path: path.to_string_lossy().into_owned(),
            size_bytes: Bytes(0),
            modified_unix_ns: 0,
            build_id: None,
            ranges: vec![
                WorkingSetRange { first_touch_ns: Nanos(9), ..range(0, part.start + page) },
                range(part.start + 3 * page, page),
            ],
        };
        let set = |path: &Path| WorkingSet {
            working_set_schema: WORKING_SET_SCHEMA,
            command: Vec::new(),
            files: vec![file(path)],
        };
        let first = code.first_page();
        let want = [first + 3 * page..first + 4 * page, first..first + page];
        assert_eq!(code.touched(&set(&code.path)), want);
        assert_eq!(code.touched(&set(Path::new("/elsewhere"))), []);
    }
}
