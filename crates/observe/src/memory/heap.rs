//! The blocks of a heap of glibc's malloc, by their headers (malloc/malloc.c, "malloc_chunk"; malloc/arena.c,
//! "heap_info").
//!
//! A block begins with two words: the size of the previous block, if that is free, and its own size, whose
//! lowest bits say whether the previous block is in use. So a heap is a chain. The chain is trusted only if
//! it reaches the end of the heap exactly and each free block has the size that the next one states. The
//! state of an arena is not read. The start of the chain is searched instead, so this does not depend on the
//! layout of one glibc version.
//!
//! Not seen: blocks in the caches of threads (`tcache`) and fast bins, which are marked as in use. They count
//! as live.

use super::reader::{MemoryWords, bytes_in};
use pagewise_kernel::page_size;
use pagewise_model::Bytes;
use pagewise_model::address::ScannedRange;
use pagewise_model::memory_account::MallocBlocks;

const WORD: u64 = 8;
/// Blocks begin at multiples of it.
const ALIGNMENT: u64 = 16;
/// The smallest block.
const LEAST: u64 = 32;
const PREVIOUS_IN_USE: u64 = 1;
const FLAGS: u64 = 7;
/// `sizeof (struct malloc_chunk)`: what `malloc_trim` leaves of a free block.
const KEPT: u64 = 48;
/// Larger requests would get a separate mapping, if this threshold did not grow.
const LARGE: u64 = Bytes::kib(128).0;
/// An arena begins with a state of at most this many bytes. A static program has its thread data before its
/// heap.
const LONGEST_STATE: u64 = Bytes::kib(8).0;
/// How often a heap is walked that changes meanwhile.
const ATTEMPTS: usize = 3;

/// Heaps of other arenas begin at multiples of it: twice the largest threshold for mappings.
pub(super) const HEAP_ALIGNMENT: u64 = Bytes::mib(64).0;

/// The head of a heap that is not the main one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeapHead {
    /// The state of its arena, in the first heap of that.
    pub(super) arena: u64,
    /// The earliest start of the chain of blocks.
    pub(super) first: u64,
    /// What its blocks fill.
    pub(super) size: u64,
    /// What of it may be touched.
    pub(super) open: u64,
}

/// The head of the heap at `base`. `None` if there is none.
pub(super) fn head(words: &mut dyn MemoryWords, base: u64) -> Option<HeapHead> {
    let word = |words: &mut dyn MemoryWords, nth: u64| words.word(base + nth * WORD);
    let (arena, previous) = (word(words, 0)?, word(words, 1)?);
    let (size, open) = (word(words, 2)?, word(words, 3)?);
    let page = page_size::base().bytes();
    // The state follows the head of the first heap, so this is the length of the head.
    let length = arena % HEAP_ALIGNMENT;
    let is_first = previous == 0;
    let is_one = matches!(length, 32 | 48)
        && previous.is_multiple_of(HEAP_ALIGNMENT)
        && is_first == (arena == base + length)
        && size > 0
        && size.is_multiple_of(page)
        && (size..=HEAP_ALIGNMENT).contains(&open);
    is_one.then_some(HeapHead { arena, first: base + length, size, open })
}

/// Where a chain begins and ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChunkChain {
    /// It begins here or a little later.
    pub(super) from: u64,
    pub(super) end: u64,
}

/// The blocks of the heap `chain`, with the resident ranges `resident`. Calls `again` before it rereads
/// anything.
pub(super) fn blocks<W: MemoryWords>(
    words: &mut W,
    chain: ChunkChain,
    resident: &[ScannedRange],
    again: impl Fn(&mut W),
) -> Result<MallocBlocks, &'static str> {
    for _ in 0..ATTEMPTS {
        if let Some(found) =
            starts(words, chain).find_map(|start| walk(words, start, chain.end, resident))
        {
            return Ok(found);
        }
        again(words);
    }
    Err(
        "the chain of its blocks does not reach its end: it changed meanwhile, or is of another allocator",
    )
}

/// Addresses at which the chain may begin.
fn starts<W: MemoryWords>(words: &mut W, chain: ChunkChain) -> std::vec::IntoIter<u64> {
    let last = chain.end.min(chain.from + LONGEST_STATE);
    let candidates = (chain.from..last).step_by(ALIGNMENT as usize);
    let is_block = |at: &u64| {
        let size = words.word(*at + WORD).unwrap_or(0);
        let length = size & !FLAGS;
        size & PREVIOUS_IN_USE != 0 && length >= LEAST && length <= chain.end - *at
    };
    candidates.filter(is_block).collect::<Vec<u64>>().into_iter()
}

/// The sums over a chain from `start` on. `None` if it does not end at `end`.
fn walk(
    words: &mut dyn MemoryWords,
    start: u64,
    end: u64,
    resident: &[ScannedRange],
) -> Option<MallocBlocks> {
    let mut sums = ChunkSums { resident, found: MallocBlocks::default() };
    let mut before: Option<(u64, u64)> = None;
    let mut at = start;
    loop {
        let word = words.word(at + WORD)?;
        let size = word & !FLAGS;
        let is_used = word & PREVIOUS_IN_USE != 0;
        if let Some((previous, length)) = before {
            if !is_used && words.word(at)? != length {
                return None;
            }
            sums.add(previous, length, !is_used);
        }
        let next = at.checked_add(size)?;
        match size {
            _ if next == end => {
                sums.top(at, end);
                break;
            }
            // The rest of a heap whose arena has continued in another one.
            0 if end - at <= LEAST => break,
            0 => return None,
            _ if !size.is_multiple_of(ALIGNMENT) || next > end => return None,
            _ => before = Some((at, size)),
        }
        at = next;
    }
    let mut found = sums.found;
    let whole = bytes_in(resident, start, end);
    found.live_bytes = Bytes(whole.saturating_sub(found.freed_bytes.0));
    Some(found)
}

struct ChunkSums<'a> {
    resident: &'a [ScannedRange],
    found: MallocBlocks,
}

impl ChunkSums<'_> {
    fn add(&mut self, start: u64, size: u64, is_free: bool) {
        if !is_free {
            self.found.live_blocks += 1;
            return;
        }
        let pages = self.free(start, start + size);
        if size >= LARGE {
            self.found.large_bytes += pages;
        }
    }

    fn top(&mut self, start: u64, end: u64) {
        self.found.top_bytes = self.free(start, end);
    }

    /// Counts a free block; its whole pages.
    fn free(&mut self, start: u64, end: u64) -> Bytes {
        let page = page_size::base().bytes();
        let first = (start + KEPT).next_multiple_of(page);
        let last = end - end % page;
        let pages = if first < last { bytes_in(self.resident, first, last) } else { 0 };
        self.found.freed_blocks += 1;
        self.found.freed_bytes += Bytes(bytes_in(self.resident, start, end));
        self.found.whole_pages_bytes += Bytes(pages);
        Bytes(pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::address::VirtualAddress;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Words of a heap that a test lays out.
    #[derive(Default)]
    struct Laid(HashMap<u64, u64>);

    impl MemoryWords for Laid {
        fn word(&mut self, address: u64) -> Option<u64> {
            Some(self.0.get(&address).copied().unwrap_or(0))
        }
    }

    const BASE: u64 = HEAP_ALIGNMENT;

    /// Blocks of these sizes from `from` on, each in use or not; the last one is the end of the heap.
    fn laid(from: u64, sizes: &[(u64, bool)]) -> (Laid, u64) {
        let mut words = HashMap::new();
        let (mut at, mut before) = (from, None);
        for (size, in_use) in sizes {
            let flag = match before {
                Some((length, false)) => {
                    words.insert(at, length);
                    0
                }
                _ => PREVIOUS_IN_USE,
            };
            words.insert(at + WORD, size | flag);
            before = Some((*size, *in_use));
            at += size;
        }
        (Laid(words), at)
    }

    fn all(start: u64, end: u64) -> [ScannedRange; 1] {
        [ScannedRange {
            start: VirtualAddress(start),
            end: VirtualAddress(end),
            is_huge: false,
            is_zero: false,
        }]
    }

    fn found(words: &mut Laid, from: u64, end: u64) -> Result<MallocBlocks, &'static str> {
        blocks(words, ChunkChain { from, end }, &all(from, end), |_| {})
    }

    #[test]
    fn live_and_freed_blocks_are_distinguished() {
        let page = page_size::base().bytes();
        let sizes = [
            (64, true),
            (10 * page, false),
            (96, true),
            (LARGE * 2, false),
            (32, true),
            (5 * page, false),
        ];
        let (mut words, end) = laid(BASE + 80, &sizes);
        let seen = found(&mut words, BASE, end).unwrap();
        assert_eq!((seen.live_blocks, seen.freed_blocks), (3, 3));
        assert_eq!(seen.freed_bytes, Bytes(15 * page + LARGE * 2));
        // The state before the first block is not a block.
        assert_eq!(seen.live_bytes, Bytes(64 + 96 + 32));
        let short = |bytes: Bytes, of: u64| (of - 2 * page..=of).contains(&bytes.0);
        assert!(short(seen.top_bytes, 5 * page) && short(seen.large_bytes, LARGE * 2), "{seen:?}");
        let lost = seen.freed_bytes.0 - seen.whole_pages_bytes.0;
        assert!(lost <= 6 * page, "two at most of each block: {seen:?}");
    }

    #[test]
    fn only_resident_bytes_count() {
        let page = page_size::base().bytes();
        let (mut words, end) =
            laid(BASE, &[(64, true), (8 * page, false), (page, true), (64, false)]);
        let chain = ChunkChain { from: BASE, end };
        let seen = blocks(&mut words, chain, &all(BASE, BASE + 2 * page), |_| {}).unwrap();
        assert_eq!(seen.freed_bytes, Bytes(2 * page - 64));
        assert_eq!((seen.live_bytes, seen.whole_pages_bytes), (Bytes(64), Bytes(page)));
    }

    #[test]
    fn a_heap_that_its_arena_has_left_ends_in_a_fence() {
        let (mut words, end) = laid(BASE, &[(64, true), (128, false), (16, true)]);
        words.0.insert(end + WORD, PREVIOUS_IN_USE);
        let seen = found(&mut words, BASE, end + 16).unwrap();
        assert_eq!((seen.freed_bytes, seen.top_bytes), (Bytes(128), Bytes(0)));
    }

    #[test]
    fn what_does_not_fit_is_no_heap() {
        let sizes = [(64, true), (128, false), (64, true)];
        let (mut words, end) = laid(BASE, &sizes);
        assert!(found(&mut words, BASE, end + 64).is_err());
        // The size at the end of a free block is another one.
        words.0.insert(BASE + 64 + 128, 96);
        assert!(found(&mut words, BASE, end).is_err());
        assert!(found(&mut Laid::default(), BASE, BASE + LARGE).is_err());
    }

    #[test]
    fn heads_are_checked() {
        let page = page_size::base().bytes();
        let head_of = |words: [u64; 4]| {
            let words = words.into_iter().enumerate();
            head(&mut Laid(words.map(|(nth, word)| (BASE + 8 * nth as u64, word)).collect()), BASE)
        };
        let first = head_of([BASE + 48, 0, 2 * page, 4 * page]).unwrap();
        assert_eq!((first.first, first.size, first.open), (BASE + 48, 2 * page, 4 * page));
        assert!(
            head_of([4 * BASE + 48, 4 * BASE, page, page])
                .is_some_and(|head| head.arena == 4 * BASE + 48)
        );
        assert_eq!(head_of([BASE + 40, 0, page, page]), None);
        assert_eq!(head_of([BASE + 48, 0, 3 * page, page]), None);
        assert_eq!(
            head_of([4 * BASE + 48, 0, page, page]),
            None,
            "of the first heap of another arena"
        );
        assert_eq!(head_of([0; 4]), None);
    }

    proptest! {
        #[test]
        fn any_words_are_accepted(words in prop::collection::hash_map(0_u64..900, any::<u64>(), 0..60)) {
            let mut laid = Laid(words.into_iter().map(|(at, word)| (BASE + 8 * at, word)).collect());
            let _ = found(&mut laid, BASE, BASE + 8 * 900);
            let _ = head(&mut laid, BASE);
        }

        #[test]
        fn sums_are_what_was_laid(sizes in prop::collection::vec((2_u64..4000, any::<bool>()), 1..60)) {
            // Two free blocks are never next to each other.
            let mut last = true;
            let sizes: Vec<(u64, bool)> = sizes.into_iter().map(|(size, used)| {
                last = used || !last;
                (16 * size, last)
            }).chain([(64, true), (256, false)]).collect();
            let (mut words, end) = laid(BASE, &sizes);
            let seen = found(&mut words, BASE, end).unwrap();
            let freed: u64 = sizes.iter().filter(|(_, used)| !used).map(|(size, _)| size).sum();
            prop_assert_eq!(seen.freed_bytes.0, freed);
            prop_assert_eq!(seen.live_bytes.0, end - BASE - freed);
        }
    }
}
