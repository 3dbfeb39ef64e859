//! Counting the calls that change an address space. Pure.

use pagewise_model::Bytes;
use pagewise_model::look::MapChurn;

/// From this size on a mapping counts as large.
const LARGE: Bytes = Bytes::mib(8);
/// From this size on malloc's blocks may be on huge pages.
const LEAST_BLOCK: Bytes = Bytes::mib(2);
/// Programs map their own memory in multiples of this. malloc adds a header and rounds up to a page
/// (sysmalloc_mmap in malloc/malloc.c), so only 1 in 16 of its blocks of any size has such a size.
const ROUND: u64 = 64 << 10;

/// Size of the memory that a call of `mmap` or `mremap` leaves behind, if malloc may have made it for one block
/// and the block may be on huge pages.
pub(super) fn block(number: i64, args: &[u64; 6]) -> Option<Bytes> {
    let size = match number {
        libc::SYS_mmap if is_heap(args) => Bytes(args[1]),
        libc::SYS_mremap => Bytes(args[2]),
        _ => return None,
    };
    (size >= LEAST_BLOCK).then_some(size)
}

/// Whether a block of this size is malloc's, by its size alone.
pub(super) const fn is_size_of_malloc(size: Bytes) -> bool {
    !size.0.is_multiple_of(ROUND)
}

/// Counts one call of `mmap`, `munmap`, `mremap` or `madvise` with these arguments; `is_block` if malloc made
/// it for one large block.
///
/// Only anonymous private memory counts as mapped. Reserved address space (`PROT_NONE`) and thread stacks are
/// not heap and are left out.
pub(super) fn count(churn: &mut MapChurn, number: i64, args: &[u64; 6], is_block: bool) {
    let size = Bytes(args[1]);
    match number {
        libc::SYS_mmap => {
            if is_heap(args) {
                count_map(churn, size);
            }
            if is_block {
                churn.block_mmap_bytes += size;
            }
        }
        libc::SYS_munmap => {
            churn.munmap_calls += 1;
            churn.munmap_bytes += size;
        }
        libc::SYS_mremap => {
            churn.mremap_calls += 1;
            if is_block {
                churn.block_mmap_bytes += Bytes(args[2].saturating_sub(size.0));
            }
        }
        libc::SYS_madvise => match args[2] as i32 {
            libc::MADV_DONTNEED | libc::MADV_FREE => {
                churn.dontneed_calls += 1;
                churn.dontneed_bytes += size;
            }
            libc::MADV_HUGEPAGE => churn.hugepage_advice_calls += 1,
            _ => {}
        },
        _ => {}
    }
}

/// Whether this `mmap` call makes anonymous private memory that is neither reserved only nor a stack.
fn is_heap(args: &[u64; 6]) -> bool {
    let flags = args[3] as i32;
    let wanted = libc::MAP_ANONYMOUS | libc::MAP_PRIVATE;
    flags & wanted == wanted && flags & libc::MAP_STACK == 0 && args[2] != 0
}

fn count_map(churn: &mut MapChurn, size: Bytes) {
    churn.mmap_calls += 1;
    churn.mmap_bytes += size;
    churn.largest_mmap_bytes = churn.largest_mmap_bytes.max(size);
    if size >= LARGE {
        churn.large_mmap_calls += 1;
        churn.large_mmap_bytes += size;
    }
}

/// Counts a move of the program break from `old` to `new`.
pub(super) fn count_brk(churn: &mut MapChurn, old: u64, new: u64) {
    if new > old {
        churn.brk_grow_calls += 1;
        churn.brk_grow_bytes += Bytes(new - old);
    } else if new < old {
        churn.brk_shrink_calls += 1;
        churn.brk_shrink_bytes += Bytes(old - new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heap_mappings_count_and_others_do_not() {
        let mut churn = MapChurn::default();
        let flags = (libc::MAP_ANONYMOUS | libc::MAP_PRIVATE) as u64;
        count(&mut churn, libc::SYS_mmap, &[0, 4096, 3, flags, 0, 0], false);
        count(&mut churn, libc::SYS_mmap, &[0, 9 << 20, 3, flags, 0, 0], false);
        count(&mut churn, libc::SYS_mmap, &[0, 9 << 20, 0, flags, 0, 0], false);
        count(&mut churn, libc::SYS_mmap, &[0, 4096, 1, libc::MAP_PRIVATE as u64, 3, 0], false);
        count(&mut churn, libc::SYS_munmap, &[0, 4096, 0, 0, 0, 0], false);
        count(&mut churn, libc::SYS_madvise, &[0, 8192, libc::MADV_FREE as u64, 0, 0, 0], false);
        assert_eq!((churn.mmap_calls, churn.large_mmap_calls), (2, 1));
        assert_eq!(churn.mmap_bytes, Bytes(4096 + (9 << 20)));
        assert_eq!((churn.munmap_calls, churn.dontneed_bytes), (1, Bytes(8192)));
    }

    #[test]
    fn blocks_of_malloc_are_counted_with_their_growth() {
        let mut churn = MapChurn::default();
        let flags = (libc::MAP_ANONYMOUS | libc::MAP_PRIVATE) as u64;
        let map = |bytes: u64| [0, bytes, 3, flags, 0, 0];
        count(&mut churn, libc::SYS_mmap, &map(3 << 20), true);
        count(&mut churn, libc::SYS_mmap, &map(3 << 20), false);
        count(&mut churn, libc::SYS_mremap, &[0, 3 << 20, 5 << 20, 1, 0, 0], true);
        count(&mut churn, libc::SYS_mremap, &[0, 5 << 20, 4 << 20, 1, 0, 0], true);
        assert_eq!(churn.block_mmap_bytes, Bytes::mib(5));
        assert_eq!(block(libc::SYS_mmap, &map((2 << 20) - 1)), None);
        assert_eq!(block(libc::SYS_mmap, &map(2 << 20)), Some(Bytes::mib(2)));
        assert_eq!(block(libc::SYS_mremap, &[0, 1 << 20, 3 << 20, 1, 0, 0]), Some(Bytes::mib(3)));
        assert_eq!(block(libc::SYS_munmap, &map(3 << 20)), None);
        assert!(is_size_of_malloc(Bytes((2 << 20) + 4096)) && !is_size_of_malloc(Bytes::mib(2)));
    }

    #[test]
    fn the_break_grows_and_shrinks() {
        let mut churn = MapChurn::default();
        count_brk(&mut churn, 100, 300);
        count_brk(&mut churn, 300, 300);
        count_brk(&mut churn, 300, 250);
        assert_eq!((churn.brk_grow_calls, churn.brk_grow_bytes), (1, Bytes(200)));
        assert_eq!((churn.brk_shrink_calls, churn.brk_shrink_bytes), (1, Bytes(50)));
    }
}
