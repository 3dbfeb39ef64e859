//! What each remedy could give back at most. The bounds overlap: a freed block counts for each remedy that
//! would not keep it.
//!
//! glibc's blocks are multiples of 16 bytes, at least 32, with a header of 8. Another allocator could save at
//! most [`LEAST_SAVED`] bytes in a block, whatever size was requested. If CPython's own pools are switched
//! off, it serves their blocks too, so all of them count. Not counted: what threads cache (`tcache`), at most
//! 0.2 MiB for each thread.

use pagewise_model::Bytes;
use pagewise_model::memory_account::{
    MallocAccount, MemoryAccount, MemorySaving, PYTHON_OBJECTS, ProcessAccount,
};

/// A block of 32 bytes of which 8 are used.
const LEAST_SAVED: u64 = 24;

/// The remedy that does not change malloc.
const OF_HUGE_PAGES: &str = "heap-small";

/// A remedy, what of a process it could give back, and why.
type Bound = (&'static str, fn(&ProcessAccount) -> Bytes, &'static str);

const BOUNDS: [Bound; 4] = [
    ("arenas", |process| of_malloc(process, arenas), "freed blocks, of other arenas too"),
    ("trim", |process| of_malloc(process, |malloc| malloc.whole_pages_bytes), "whole freed pages"),
    ("allocator", allocator, "freed blocks, and what another one could save on each live block"),
    (OF_HUGE_PAGES, zeros, "base pages of zeros in huge pages"),
];

fn of_malloc(process: &ProcessAccount, of: impl Fn(&MallocAccount) -> Bytes) -> Bytes {
    process.malloc.as_ref().map_or(Bytes(0), of)
}

/// With one arena, any thread could have used the free memory of any other.
fn arenas(malloc: &MallocAccount) -> Bytes {
    if malloc.arenas > 1 { malloc.freed_bytes } else { Bytes(0) }
}

fn allocator(process: &ProcessAccount) -> Bytes {
    let blocks = of_malloc(process, |malloc| {
        let saved = malloc.live_blocks.saturating_mul(LEAST_SAVED);
        malloc.freed_bytes + Bytes(saved).min(malloc.live_bytes)
    });
    let pools = process.parts.iter().filter(|part| part.name == PYTHON_OBJECTS);
    pools.fold(blocks, |sum, part| sum + part.rss_bytes)
}

fn zeros(process: &ProcessAccount) -> Bytes {
    process.half_used.known().map_or(Bytes(0), |half| half.zero_bytes)
}

fn sum((remedy, of, why): Bound, processes: &[ProcessAccount]) -> MemorySaving {
    let bytes = processes.iter().fold(Bytes(0), |sum, process| sum + of(process));
    MemorySaving { remedy: remedy.to_owned(), bytes, why: why.to_owned() }
}

/// The remedies with something to give back, the largest first.
pub(super) fn all(processes: &[ProcessAccount]) -> Vec<MemorySaving> {
    let mut all: Vec<MemorySaving> = BOUNDS.map(|bound| sum(bound, processes)).into();
    all.retain(|one| one.bytes > Bytes(0));
    all.sort_by_key(|one| std::cmp::Reverse(one.bytes));
    all
}

/// What `remedy` could give back at most. `None` if the account has no bound for it, or is incomplete.
#[must_use]
pub fn at_most(account: &MemoryAccount, remedy: &str) -> Option<MemorySaving> {
    let bound = BOUNDS.into_iter().find(|(name, ..)| *name == remedy)?;
    let is_known = |process: &ProcessAccount| {
        let walked = |malloc: &MallocAccount| malloc.not_walked.is_empty();
        process.unread.is_none()
            && match remedy {
                OF_HUGE_PAGES => process.half_used.known().is_some(),
                _ => process.malloc.as_ref().is_none_or(walked),
            }
    };
    let is_whole = account.unseen_processes == 0 && account.processes.iter().all(is_known);
    is_whole.then(|| sum(bound, &account.processes))
}
