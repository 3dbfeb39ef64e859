//! Marks in memory by which its owner is known. Each is a structure that refers to itself, so that chance does not
//! make one.
//!
//! | owner | what is checked |
//! |---|---|
//! | a thread | its descriptor holds its own address twice (glibc and musl, x86-64: `tcbhead_t`) |
//! | glibc's malloc, large block | no size before it, whole pages, the bit for mapped blocks (`IS_MMAPPED`) |
//! | V8 | a chunk of 256 KiB alignment holds its size and the bounds of its area, which lie in it |
//! | PHP | a chunk of 2 MiB alignment, and the next of its ring, which leads back to it (`zend_mm_chunk`) |
//! | Python | a pool whose last offset follows from the size of its objects (`pool_header`) |
//!
//! Offsets are those of 64-bit programs. Other versions of a structure are not recognized, and nothing is named by it.

use super::reader::MemoryWords;
use pagewise_kernel::page_size;
use pagewise_model::Bytes;

const WORD: u64 = 8;
/// Descriptors of threads lie at multiples of this, at most this far from the end of a stack.
const DESCRIPTOR_ALIGNMENT: u64 = 64;
const DESCRIPTOR_REACH: u64 = Bytes::kib(64).0;
/// The word of a descriptor that repeats its address.
const SELF: u64 = 2 * WORD;

/// glibc maps no smaller block by itself, unless its threshold was lowered.
const LEAST_BLOCK: u64 = Bytes::kib(128).0;
const MAPPED: u64 = 2;
const FLAGS: u64 = 7;

pub(super) const V8_ALIGNMENT: u64 = Bytes::kib(256).0;
pub(super) const PHP_CHUNK: u64 = Bytes::mib(2).0;

/// The address of the descriptor of a thread near the end of `start..end`.
pub(super) fn descriptor(words: &mut dyn MemoryWords, start: u64, end: u64) -> Option<u64> {
    let first =
        start.max(end.saturating_sub(DESCRIPTOR_REACH)).next_multiple_of(DESCRIPTOR_ALIGNMENT);
    let count = end.saturating_sub(first) / DESCRIPTOR_ALIGNMENT;
    let mut places = (0..count).rev().map(|nth| first + nth * DESCRIPTOR_ALIGNMENT);
    places.find(|at| words.word(*at) == Some(*at) && words.word(at + SELF) == Some(*at))
}

/// The length of the large block of malloc at `at`, a whole page, which ends by `end`.
pub(super) fn large_block(words: &mut dyn MemoryWords, at: u64, end: u64) -> Option<u64> {
    let (before, word) = (words.word(at)?, words.word(at + WORD)?);
    let size = word & !FLAGS;
    let is_one = before == 0
        && word & FLAGS == MAPPED
        && size.is_multiple_of(page_size::base().bytes())
        && size >= LEAST_BLOCK
        && size <= end - at;
    is_one.then_some(size)
}

/// The length of V8's chunk at `at`, a multiple of its alignment, which ends by `end`.
pub(super) fn v8_chunk(words: &mut dyn MemoryWords, at: u64, end: u64) -> Option<u64> {
    let size = words.word(at)?;
    let (from, to) = (words.word(at + 3 * WORD)?, words.word(at + 4 * WORD)?);
    let is_one = size.is_multiple_of(page_size::base().bytes())
        && size > 0
        && size <= V8_ALIGNMENT.max(end - at)
        && at < from
        && from < to
        && to <= at + size;
    is_one.then(|| size.min(end - at))
}

/// Whether PHP has a chunk at `at`, a multiple of its size.
pub(super) fn is_php_chunk(words: &mut dyn MemoryWords, at: u64) -> bool {
    let mut word = |address: u64| words.word(address).filter(|word| *word > 0);
    let (Some(_heap), Some(next)) = (word(at), word(at + WORD)) else { return false };
    // A single chunk is its own successor.
    next.is_multiple_of(PHP_CHUNK) && word(next + 2 * WORD) == Some(at)
}

/// A pool of Python's small objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PythonPool {
    pub(super) size: u64,
    /// Of objects in use, with the header.
    pub(super) live: u64,
}

/// The pool at `at`, of `size`.
pub(super) fn python_pool(words: &mut dyn MemoryWords, at: u64, size: u64) -> Option<PythonPool> {
    const HEADER: u64 = 6 * WORD;
    const LARGEST: u64 = 512;
    let high = |word: u64| word >> u32::BITS;
    let low = |word: u64| word & u64::from(u32::MAX);
    let count = low(words.word(at)?);
    let (class, offsets) = (high(words.word(at + 4 * WORD)?), words.word(at + 5 * WORD)?);
    let object = (class + 1) * 16;
    let (next, last) = (low(offsets), high(offsets));
    let links = [words.word(at + 2 * WORD)?, words.word(at + 3 * WORD)?];
    let is_one = object <= LARGEST
        && last == size - object
        && (HEADER..=size).contains(&next)
        && count <= (size - HEADER) / object
        && links.iter().all(|link| link.is_multiple_of(16));
    is_one.then(|| PythonPool { size, live: if count == 0 { 0 } else { HEADER + count * object } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    struct Laid(HashMap<u64, u64>);

    impl MemoryWords for Laid {
        fn word(&mut self, address: u64) -> Option<u64> {
            Some(self.0.get(&address).copied().unwrap_or(0))
        }
    }

    const AT: u64 = PHP_CHUNK;

    fn laid(words: &[(u64, u64)]) -> Laid {
        Laid(words.iter().map(|(nth, word)| (AT + nth * WORD, *word)).collect())
    }

    #[test]
    fn a_descriptor_holds_its_address_twice() {
        let end = AT + 4 * DESCRIPTOR_REACH;
        let at = end - 640;
        let mut words = Laid(HashMap::from([(at, at), (at + SELF, at)]));
        assert_eq!(descriptor(&mut words, AT, end), Some(at));
        assert_eq!(
            descriptor(&mut words, AT, end + DESCRIPTOR_REACH),
            None,
            "too far from the end"
        );
        words.0.insert(at + SELF, 0);
        assert_eq!(descriptor(&mut words, AT, end), None);
    }

    #[test]
    fn large_blocks_are_whole_pages() {
        let size = 2 * LEAST_BLOCK;
        let of = |word, end| large_block(&mut laid(&[(1, word)]), AT, end);
        assert_eq!(of(size | MAPPED, AT + 2 * size), Some(size));
        assert_eq!(of(size | MAPPED, AT + size - 1), None);
        assert_eq!(of(size | 1, AT + 2 * size), None);
        assert_eq!(of((size + 16) | MAPPED, AT + 2 * size), None);
        assert_eq!(of(0, AT + size), None);
    }

    #[test]
    fn chunks_of_v8_hold_their_area() {
        let size = V8_ALIGNMENT;
        let chunk = [(0, size), (3, AT + 0x1148), (4, AT + size)];
        assert_eq!(v8_chunk(&mut laid(&chunk), AT, AT + 4 * size), Some(size));
        assert_eq!(v8_chunk(&mut laid(&[(0, size), (3, 1), (4, 2)]), AT, AT + size), None);
        assert_eq!(v8_chunk(&mut laid(&[]), AT, AT + size), None);
        // For chunks with code, the first pages have other rights, so they are a separate mapping.
        assert_eq!(v8_chunk(&mut laid(&chunk), AT, AT + 64), Some(64));
    }

    #[test]
    fn chunks_of_php_are_a_ring() {
        let ring = [(0, AT + 64), (1, AT), (2, AT)];
        assert!(is_php_chunk(&mut laid(&ring), AT));
        assert!(!is_php_chunk(&mut laid(&ring[..2]), AT));
        let far = 9 * PHP_CHUNK;
        let mut two = laid(&[(0, AT + 64), (1, far), (2, far)]);
        two.0.insert(far + 2 * WORD, AT);
        assert!(is_php_chunk(&mut two, AT));
    }

    #[test]
    fn pools_of_python_end_where_their_class_says() {
        let size = Bytes::kib(16).0;
        let object = 64;
        let class = (object / 16 - 1) << 32;
        let offsets = (size - object) << 32 | 1000;
        let pool = |count| laid(&[(0, count), (2, AT), (3, AT), (4, class), (5, offsets)]);
        let found = python_pool(&mut pool(10), AT, size);
        assert_eq!(found, Some(PythonPool { size, live: 48 + 640 }));
        assert_eq!(python_pool(&mut pool(0), AT, size).map(|pool| pool.live), Some(0));
        assert_eq!(python_pool(&mut pool(1000), AT, size), None);
        assert_eq!(python_pool(&mut pool(10), AT, size / 2), None);
        assert_eq!(python_pool(&mut laid(&[]), AT, size), None);
    }
}
