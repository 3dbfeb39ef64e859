//! A map of generated code, as its generator writes it for perf: for each piece a line `START SIZE NAME`, in
//! hexadecimal (tools/perf/Documentation/jit-interface.txt).
//!
//! A later piece replaces those that it overlaps: the generator has moved or discarded the old code. Another
//! program writes the content, so other lines are skipped, and sizes are bounded.

use std::collections::BTreeMap;

/// Pieces that are kept.
const MOST_PIECES: usize = 1_000_000;
/// Characters of a name that are kept.
const LONGEST_NAME: usize = 400;
/// Larger pieces are ignored.
const LARGEST_PIECE: u64 = 1 << 30;

/// Pieces of code by their first address; none overlaps another.
#[derive(Debug, Default)]
pub(super) struct PerfMap {
    pieces: BTreeMap<u64, PerfMapEntry>,
}

#[derive(Debug)]
struct PerfMapEntry {
    end: u64,
    name: Box<str>,
}

impl PerfMap {
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let mut map = Self::default();
        for (start, end, name) in bytes.split(|byte| *byte == b'\n').filter_map(line) {
            if map.pieces.len() >= MOST_PIECES {
                break;
            }
            let overlapped = map.pieces.range(..end).rev().take_while(|(_, old)| old.end > start);
            let overlapped: Vec<u64> = overlapped.map(|(old, _)| *old).collect();
            for old in overlapped {
                map.pieces.remove(&old);
            }
            map.pieces.insert(start, PerfMapEntry { end, name: name.into() });
        }
        map
    }

    /// First address and name of the piece that `address` is in.
    pub(super) fn find(&self, address: u64) -> Option<(u64, &str)> {
        let (start, piece) = self.pieces.range(..=address).next_back()?;
        (address < piece.end).then_some((*start, &*piece.name))
    }
}

/// First address, end and name.
fn line(bytes: &[u8]) -> Option<(u64, u64, String)> {
    let mut fields = bytes.splitn(3, |byte| *byte == b' ');
    let (start, size) = (hex(fields.next()?)?, hex(fields.next()?)?);
    let name = fields.next()?.trim_ascii();
    let end = start.checked_add(size).filter(|_| (1..=LARGEST_PIECE).contains(&size))?;
    // A character has four bytes at most.
    let name = name.get(..LONGEST_NAME * 4).unwrap_or(name);
    let name: String = String::from_utf8_lossy(name).chars().take(LONGEST_NAME).collect();
    (!name.is_empty()).then_some((start, end, name))
}

/// A number with or without `0x` in front.
fn hex(text: &[u8]) -> Option<u64> {
    let text = text.strip_prefix(b"0x").unwrap_or(text);
    let is_digits = !text.is_empty() && text.iter().all(u8::is_ascii_hexdigit);
    u64::from_str_radix(std::str::from_utf8(text).ok().filter(|_| is_digits)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pieces_are_found_by_their_addresses() {
        let map = PerfMap::parse(b"7f00 10 py::work:/x/job.py\n0x8000 0x0020 void Job.fill(int)\n");
        assert_eq!(map.find(0x7f00), Some((0x7f00, "py::work:/x/job.py")));
        assert_eq!(map.find(0x7f0f), Some((0x7f00, "py::work:/x/job.py")));
        assert_eq!(map.find(0x7f10), None);
        assert_eq!(map.find(0x801f), Some((0x8000, "void Job.fill(int)")));
        assert_eq!(map.find(0x7eff), None);
    }

    #[test]
    fn what_is_made_later_takes_the_place_of_what_was_there() {
        let map = PerfMap::parse(b"100 10 a\n110 10 b\n200 100 c\n108 10 d\n280 8 e\n");
        assert_eq!(map.find(0x100), None);
        assert_eq!(map.find(0x11f), None);
        assert_eq!(map.find(0x108), Some((0x108, "d")));
        assert_eq!(map.find(0x200), None);
        assert_eq!(map.find(0x287), Some((0x280, "e")));
    }

    #[test]
    fn lines_that_are_none_are_passed_over() {
        let hostile: &[u8] = b"\n \nzz 1 a\n1 zz a\n1 1\n1 1 \n0 0 zero\nffffffffffffffff 2 over\n\
            -1 1 minus\n+1 1 plus\n1 ffffffff huge\n10000000000000000 1 long\n5 1 \xff\xfe\n";
        let map = PerfMap::parse(hostile);
        assert_eq!(map.pieces.len(), 1);
        assert_eq!(map.find(5), Some((5, "\u{fffd}\u{fffd}")));
    }

    #[test]
    fn names_are_cut() {
        let text = format!("1 1 {}", "\u{e9}".repeat(5000));
        let (_, name) =
            PerfMap::parse(text.as_bytes()).find(1).map(|(at, n)| (at, n.len())).unwrap();
        assert!(name <= LONGEST_NAME * 4, "{name}");
    }

    proptest! {
        #[test]
        fn no_content_overlaps_or_panics(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let map = PerfMap::parse(&bytes);
            let ends = map.pieces.values().map(|piece| piece.end);
            prop_assert!(map.pieces.keys().skip(1).zip(ends).all(|(next, end)| end <= *next));
        }

        #[test]
        fn no_pieces_overlap(pieces in proptest::collection::vec((0_u64..99, 0_u64..40), 0..60)) {
            let lines = pieces.iter().map(|(start, size)| format!("{start:x} {size:x} n\n"));
            let map = PerfMap::parse(lines.collect::<String>().as_bytes());
            let ends = map.pieces.values().map(|piece| piece.end);
            prop_assert!(map.pieces.keys().skip(1).zip(ends).all(|(next, end)| end <= *next));
        }
    }
}
