//! The functions of one file: where each begins, what is there, and whether it has been called.

use super::code_x86_64::{BREAK, may_break};
use std::ops::Range;
use std::path::PathBuf;

/// Bytes of code that tell what a function is.
pub(super) const HEAD: usize = 16;

#[derive(Debug)]
pub(super) struct Object {
    pub(super) path: PathBuf,
    /// Offsets in the file, rising.
    starts: Vec<u64>,
    /// The byte that is there; [`BREAK`] as long as it has not been read, and where it stays.
    bytes: Vec<u8>,
    called: Vec<bool>,
    /// What follows that byte.
    rest: Vec<Rest>,
}

/// The bytes after the first one, filled up with breakpoints at the end of the code.
type Rest = [u8; HEAD - 1];

/// Fewer bytes than these do not tell a function.
const LEAST_TELLING: usize = 6;

impl Object {
    pub(super) fn new(path: PathBuf, mut starts: Vec<u64>) -> Self {
        starts.sort_unstable();
        starts.dedup();
        let (bytes, called) = (vec![BREAK; starts.len()], vec![false; starts.len()]);
        let rest = vec![[BREAK; HEAD - 1]; starts.len()];
        Self { path, starts, bytes, called, rest }
    }

    /// How many functions.
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The functions that begin in this part of the file, by place.
    pub(super) fn within(&self, part: Range<u64>) -> Range<usize> {
        let place = |offset: u64| self.starts.partition_point(|start| *start < offset);
        place(part.start)..place(part.end)
    }

    /// Where a function begins.
    pub(super) fn start(&self, place: usize) -> u64 {
        self.starts[place]
    }

    /// The function that begins at `offset`, with the byte that belongs there.
    pub(super) fn at(&self, offset: u64) -> Option<(usize, u8)> {
        let place = self.starts.binary_search(&offset).ok()?;
        let byte = self.bytes[place];
        (byte != BREAK).then_some((place, byte))
    }

    /// Puts breakpoints into `code`, which is the file's from `offset` on, at the functions of `places`
    /// that have not been called yet; whether there is any.
    pub(super) fn arm(&mut self, places: Range<usize>, offset: u64, code: &mut [u8]) -> bool {
        let mut is_armed = false;
        for place in places {
            let at = (self.starts[place] - offset) as usize;
            let head = at..code.len().min(at.saturating_add(HEAD));
            let Some(head) = code.get(head).filter(|head| may_break(head)) else { continue };
            self.bytes[place] = head[0];
            self.rest[place][..head.len() - 1].copy_from_slice(&head[1..]);
            if !self.called[place] {
                code[at] = BREAK;
                is_armed = true;
            }
        }
        is_armed
    }

    /// The first bytes of the functions of which `code` could be a copy, taken with breakpoints.
    pub(super) fn copied(&self, code: &[u8; HEAD]) -> impl Iterator<Item = u8> {
        let places = (0..self.starts.len()).filter(|place| self.is_copy(*place, code));
        places.map(|place| self.bytes[place])
    }

    /// Whether `code` looks like this function, or like it and what comes after.
    fn is_copy(&self, place: usize, code: &[u8; HEAD]) -> bool {
        let rest = &self.rest[place];
        let next = self.starts.get(place + 1).map_or(u64::MAX, |next| *next);
        let own = usize::try_from(next - self.starts[place] - 1).unwrap_or(usize::MAX);
        [own.min(rest.len()), rest.len()].into_iter().any(|len| {
            let mut both = rest[..len].iter().zip(&code[1..]);
            let told = both.clone().filter(|(own, copy)| own == copy).count();
            told >= LEAST_TELLING && both.all(|(own, copy)| own == copy || *copy == BREAK)
        })
    }

    /// Notes a call; whether it is the first.
    pub(super) fn call(&mut self, place: usize) -> bool {
        !std::mem::replace(&mut self.called[place], true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_armed_once_and_found_by_their_place() {
        let mut object = Object::new("x".into(), vec![0x20, 0x10, 0x12, 0x20]);
        assert_eq!((object.len(), object.within(0x11..0x20)), (3, 1..2));
        let mut code: [u8; 32] = std::array::from_fn(|at| 0x80 + at as u8);
        code[2] = BREAK;
        assert_eq!(object.at(0x10), None);
        assert!(object.arm(0..3, 0x10, &mut code));
        assert_eq!((code[0], code[2], code[0x10]), (BREAK, BREAK, BREAK));
        assert_eq!(object.at(0x10), Some((0, 0x80)));
        assert_eq!(object.at(0x12), None, "that one was there before");
        let copy = |code: [u8; HEAD]| object.copied(&code).collect::<Vec<_>>();
        assert_eq!(copy(std::array::from_fn(|at| code[at])), [0x80]);
        let alone = std::array::from_fn(|at| if at < 10 { code[at] } else { 0 });
        assert!(copy(alone).is_empty(), "what comes after its two bytes is another's");
        assert_eq!(copy(std::array::from_fn(|at| code[at + 16])), [0x90]);
        assert!(object.call(0) && !object.call(0));
        let mut code = [0x90; 16];
        assert!(!object.arm(0..1, 0x10, &mut code));
        assert_eq!(code, [0x90; 16]);
    }
}
