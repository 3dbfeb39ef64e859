//! The parts of files that a recording has touched, from its list of faults.
//!
//! A fault on a cached page of a file also maps its window of fault-around. Later touches there cause no
//! fault. So the whole window counts as touched, unless the recording was exact. Faults that are known to
//! have failed touched nothing. Files that cannot be found again by a path (deleted files, memory files) are
//! left out. Reads by system calls cause no faults; an exact recording lists them separately.

use super::around::WINDOW;
use pagewise_model::fault::{
    FaultNames, FaultOutcome, FaultPlace, MappingKind, PageFault, WorkingSetRange,
};
use pagewise_model::{Bytes, Nanos, PageSize};
use std::collections::BTreeMap;

/// First touches of files so far.
#[derive(Debug)]
pub struct FirstTouches {
    page: PageSize,
    /// What one fault stands for.
    window: Bytes,
    /// By file, by the first byte of a part: its end and its first touch.
    files: BTreeMap<String, BTreeMap<u64, (u64, Nanos)>>,
}

impl FirstTouches {
    /// Nothing seen yet, of a recording with base pages of `page`.
    #[must_use]
    pub const fn new(page: PageSize, is_exact: bool) -> Self {
        let window = if is_exact { Bytes(page.bytes()) } else { WINDOW };
        Self { page, window, files: BTreeMap::new() }
    }

    /// Takes a part of the list.
    pub fn take(&mut self, names: &FaultNames, faults: &[PageFault]) {
        for fault in faults {
            let place = names.place(fault).filter(|place| is_kept(place));
            let is_served = fault.served != FaultOutcome::No;
            if let Some((place, offset)) = place.zip(fault.offset_bytes).filter(|_| is_served) {
                self.touch(&place.path, offset, fault);
            }
        }
    }

    fn touch(&mut self, path: &str, offset: Bytes, fault: &PageFault) {
        let size = self.window.0.max(self.page.bytes());
        // Windows are aligned by address, not by offset.
        let start = offset.0.saturating_sub(fault.page_address % size);
        let end = offset.0.saturating_add(size - fault.page_address % size);
        if !self.files.contains_key(path) {
            self.files.insert(path.to_owned(), BTreeMap::new());
        }
        let Some(parts) = self.files.get_mut(path) else { return };
        let part = parts.entry(start).or_insert((end, fault.since_first_ns));
        part.0 = part.0.max(end);
        part.1 = part.1.min(fault.since_first_ns);
    }

    /// Takes parts of files that were read.
    pub fn take_reads(&mut self, reads: Vec<(String, Vec<WorkingSetRange>)>) {
        for (path, ranges) in reads.into_iter().filter(|(path, _)| is_there(path)) {
            let parts = self.files.entry(path).or_default();
            for range in ranges {
                let start = range.offset_bytes.0;
                let end = start.saturating_add(range.length_bytes.0);
                let part = parts.entry(start).or_insert((end, range.first_touch_ns));
                *part = (part.0.max(end), part.1.min(range.first_touch_ns));
            }
        }
    }

    /// The parts of each file in its order, those that overlap put together.
    #[must_use]
    pub fn ranges(self) -> Vec<(String, Vec<WorkingSetRange>)> {
        self.files.into_iter().map(|(path, parts)| (path, merged(parts))).collect()
    }
}

fn is_kept(place: &FaultPlace) -> bool {
    matches!(place.kind, MappingKind::Code | MappingKind::Data | MappingKind::File)
        && is_there(&place.path)
}

/// Whether a file can be found again.
fn is_there(path: &str) -> bool {
    path.starts_with('/') && !path.ends_with(" (deleted)")
}

fn merged(parts: BTreeMap<u64, (u64, Nanos)>) -> Vec<WorkingSetRange> {
    let mut all: Vec<(u64, u64, Nanos)> = Vec::new();
    for (start, (end, at)) in parts {
        match all.last_mut() {
            // Adjacent ranges are kept apart: `order predict` needs the order in which pages are touched.
            Some(last) if start < last.1 || (start == last.1 && at == last.2) => {
                *last = (last.0, last.1.max(end), last.2.min(at))
            }
            _ => all.push((start, end, at)),
        }
    }
    let range = |(start, end, first_touch_ns): (u64, u64, Nanos)| WorkingSetRange {
        offset_bytes: Bytes(start),
        length_bytes: Bytes(end - start),
        first_touch_ns,
    };
    all.into_iter().map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::Fact;
    use pagewise_model::fault::{AccessKind, FaultCause};

    const KIB: u64 = 1 << 10;

    fn fault(at: u64, page_address: u64, offset: u64, place: u32) -> PageFault {
        PageFault {
            order: 0,
            since_first_ns: Nanos(at),
            latency_ns: Fact::Known(Nanos(1)),
            pid: 1,
            tid: 1,
            page_address,
            ip_address: 0,
            access: AccessKind::Read,
            cause: FaultCause::Absent,
            served: FaultOutcome::Minor,
            page_bytes: None,
            offset_bytes: Some(Bytes(offset)),
            place,
            site: 0,
            stack: None,
            labels: Vec::new(),
        }
    }

    fn names() -> FaultNames {
        let place = |kind, path: &str| FaultPlace { kind, path: path.into() };
        FaultNames {
            places: vec![
                place(MappingKind::Code, "/lib/a"),
                place(MappingKind::File, "/tmp/b (deleted)"),
                place(MappingKind::Anonymous, ""),
            ],
            ..FaultNames::default()
        }
    }

    fn ranges(is_exact: bool, faults: &[PageFault]) -> Vec<(u64, u64, u64)> {
        let mut touches = FirstTouches::new(PageSize::BASE_4K, is_exact);
        touches.take(&names(), faults);
        let all = touches.ranges();
        assert!(all.len() <= 1 && all.iter().all(|(path, _)| path == "/lib/a"), "{all:?}");
        let plain = |r: &WorkingSetRange| (r.offset_bytes.0, r.length_bytes.0, r.first_touch_ns.0);
        all.iter().flat_map(|(_, ranges)| ranges.iter().map(plain)).collect()
    }

    #[test]
    fn a_fault_stands_for_its_window_by_address() {
        // The page is the third of its window: the window begins two pages before its offset.
        let one = fault(5, 0x10_2000, 40 * KIB, 0);
        assert_eq!(ranges(false, std::slice::from_ref(&one)), [(32 * KIB, 64 * KIB, 5)]);
        assert_eq!(ranges(true, &[one]), [(40 * KIB, 4 * KIB, 5)]);
        let early = fault(5, 0x10_2000, 4 * KIB, 0);
        assert_eq!(ranges(false, &[early]), [(0, 60 * KIB, 5)]);
    }

    #[test]
    fn parts_are_one_if_touched_at_once_and_keep_the_earlier_touch() {
        let pages = [(9, 8), (3, 4), (7, 20), (8, 4), (9, 12)];
        let faults = pages.map(|(at, kib)| fault(at, 0x10_0000 + kib * KIB, kib * KIB, 0));
        let want = [(4 * KIB, 4 * KIB, 3), (8 * KIB, 8 * KIB, 9), (20 * KIB, 4 * KIB, 7)];
        assert_eq!(ranges(true, &faults), want);
    }

    #[test]
    fn what_was_read_joins_what_was_mapped() {
        let read = |at: u64, offset: u64, length: u64| WorkingSetRange {
            offset_bytes: Bytes(offset),
            length_bytes: Bytes(length),
            first_touch_ns: Nanos(at),
        };
        let mut touches = FirstTouches::new(PageSize::BASE_4K, true);
        touches.take(&names(), &[fault(5, 0x10_2000, 40 * KIB, 0)]);
        let reads = vec![read(3, 44 * KIB, 8 * KIB), read(9, 40 * KIB, 4 * KIB), read(2, 0, KIB)];
        touches.take_reads(vec![
            ("/lib/a".to_owned(), reads),
            ("/tmp/b (deleted)".to_owned(), vec![read(1, 0, KIB)]),
            ("pipe:[1]".to_owned(), vec![read(1, 0, KIB)]),
        ]);
        let want = vec![read(2, 0, KIB), read(5, 40 * KIB, 4 * KIB), read(3, 44 * KIB, 8 * KIB)];
        assert_eq!(touches.ranges(), [("/lib/a".to_owned(), want)]);
    }

    #[test]
    fn what_is_no_file_to_be_found_again_is_left_out() {
        let mut failed = fault(1, 0x10_0000, 0, 0);
        failed.served = FaultOutcome::No;
        let faults = [failed, fault(1, 0x20_0000, 0, 1), fault(1, 0x30_0000, 0, 2)];
        assert!(ranges(true, &faults).is_empty());
        assert!(ranges(true, &[fault(1, 0x10_0000, 0, 9)]).is_empty());
    }
}
