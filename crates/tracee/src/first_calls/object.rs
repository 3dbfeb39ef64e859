//! The functions of one file: where each begins, its first bytes, and whether it has been called.

use super::code_x86_64::{BREAK, may_break, own_bytes};
use std::ops::Range;
use std::path::PathBuf;

/// Number of code bytes that identify a function.
pub(super) const HEAD: usize = 16;

#[derive(Debug)]
pub(super) struct ObjectFunctions {
    pub(super) path: PathBuf,
    /// File offsets in rising order.
    starts: Vec<u64>,
    /// The original first byte. [`BREAK`] until it has been read, and for functions that get no breakpoint.
    bytes: Vec<u8>,
    called: Vec<bool>,
    /// The bytes that follow.
    rest: Vec<Rest>,
    /// Number of bytes in `rest` that belong to the function itself.
    own: Vec<u8>,
}

/// The bytes after the first one, filled up with breakpoints at the end of the code.
type Rest = [u8; HEAD - 1];

/// Minimum number of matching bytes to recognise a copy, of part of a function or of a whole one.
const LEAST_OF_PART: usize = 6;
const LEAST_OF_WHOLE: usize = 2;

/// A function that some code may be a copy of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FunctionMatch {
    /// Number of bytes that match.
    pub(super) bytes: usize,
    /// Its first byte.
    pub(super) first: u8,
}

impl ObjectFunctions {
    pub(super) fn new(path: PathBuf, mut starts: Vec<u64>) -> Self {
        starts.sort_unstable();
        starts.dedup();
        let (bytes, called) = (vec![BREAK; starts.len()], vec![false; starts.len()]);
        let rest = vec![[BREAK; HEAD - 1]; starts.len()];
        let own = vec![0; starts.len()];
        Self { path, starts, bytes, called, rest, own }
    }

    /// Number of functions.
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Indexes of the functions that begin in this part of the file.
    pub(super) fn within(&self, part: Range<u64>) -> Range<usize> {
        let place = |offset: u64| self.starts.partition_point(|start| *start < offset);
        place(part.start)..place(part.end)
    }

    /// File offset of the function with this index.
    pub(super) fn start(&self, place: usize) -> u64 {
        self.starts[place]
    }

    /// The function that begins at `offset`, and its original first byte.
    pub(super) fn at(&self, offset: u64) -> Option<(usize, u8)> {
        let place = self.starts.binary_search(&offset).ok()?;
        let byte = self.bytes[place];
        (byte != BREAK).then_some((place, byte))
    }

    /// Writes breakpoints into `code`, which is the file's content from `offset` on, for the functions of
    /// `places` that have not been called yet. Returns whether it set any. A function whose copy could not be
    /// identified gets none, because a program may copy its code.
    pub(super) fn arm(&mut self, places: Range<usize>, offset: u64, code: &mut [u8]) -> bool {
        let mut is_armed = false;
        for place in places {
            let at = (self.starts[place] - offset) as usize;
            let head = at..code.len().min(at.saturating_add(HEAD));
            let Some(head) = code.get(head).filter(|head| may_break(head)) else { continue };
            let own = own_bytes(head).saturating_sub(1);
            if own < LEAST_OF_WHOLE {
                continue;
            }
            self.own[place] = own as u8;
            self.bytes[place] = head[0];
            self.rest[place][..head.len() - 1].copy_from_slice(&head[1..]);
            if !self.called[place] {
                code[at] = BREAK;
                is_armed = true;
            }
        }
        is_armed
    }

    /// The functions that `code` may be a copy of, breakpoints included.
    pub(super) fn copied(&self, code: &[u8; HEAD]) -> impl Iterator<Item = FunctionMatch> {
        (0..self.starts.len()).filter_map(|place| {
            let bytes = self.likeness(place, code)?;
            Some(FunctionMatch { bytes, first: self.bytes[place] })
        })
    }

    /// Number of bytes that match if `code` is a copy of this function and its successors, or of the function
    /// alone.
    fn likeness(&self, place: usize, code: &[u8; HEAD]) -> Option<usize> {
        let (rest, copy) = (&self.rest[place], &code[1..]);
        let is_same = |len: usize| {
            rest[..len].iter().zip(copy).all(|(own, copy)| own == copy || *copy == BREAK)
        };
        let told =
            |len: usize| rest[..len].iter().zip(copy).filter(|(own, copy)| own == copy).count();
        let (whole, all) = (usize::from(self.own[place]), rest.len());
        if is_same(all) && told(all) >= LEAST_OF_PART {
            return Some(told(all));
        }
        (whole >= LEAST_OF_WHOLE && is_same(whole) && told(whole) == whole).then_some(whole)
    }

    /// Records a call. Returns whether it is the first.
    pub(super) fn call(&mut self, place: usize) -> bool {
        !std::mem::replace(&mut self.called[place], true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_armed_once_and_found_by_their_place() {
        let mut object = ObjectFunctions::new("x".into(), vec![0x20, 0x10, 0x12, 0x1a, 0x20, 0x28]);
        assert_eq!((object.len(), object.within(0x11..0x20)), (5, 1..3));
        let mut code: [u8; 32] = std::array::from_fn(|at| 0x80 + at as u8);
        code[2] = BREAK;
        // A lone return, and a whole function: `mov $1, %eax; ret`.
        code[0x0a] = 0xc3;
        code[0x18..0x1e].copy_from_slice(b"\xb8\x01\0\0\0\xc3");
        assert_eq!(object.at(0x10), None);
        assert!(object.arm(0..5, 0x10, &mut code));
        let starts = [0, 2, 0xa, 0x10, 0x18].map(|at| code[at]);
        assert_eq!(starts, [BREAK, BREAK, 0xc3, BREAK, BREAK]);
        assert_eq!(object.at(0x10), Some((0, 0x80)));
        assert_eq!(object.at(0x12), None, "that one was there before");
        assert_eq!(object.at(0x1a), None, "no copy of it could be told");
        let copy = |code: [u8; HEAD]| {
            object.copied(&code).map(|copied| (copied.bytes, copied.first)).collect::<Vec<_>>()
        };
        assert_eq!(copy(std::array::from_fn(|at| code[at])), [(15, 0x80)]);
        let alone = std::array::from_fn(|at| if at < 5 { code[at] } else { 0 });
        assert!(copy(alone).is_empty(), "a part of it, and few bytes");
        let small = std::array::from_fn(|at| if at < 6 { code[at + 0x18] } else { 0x77 });
        assert_eq!(copy(small), [(5, 0xb8)]);
        assert!(object.call(0) && !object.call(0));
        let mut code = [0x90; 16];
        assert!(!object.arm(0..1, 0x10, &mut code));
        assert_eq!(code, [0x90; 16]);
    }
}
