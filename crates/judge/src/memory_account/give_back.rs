//! What each remedy could give back at most. The bounds overlap: a freed block counts for each remedy that would
//! not keep it.

use pagewise_model::Bytes;
use pagewise_model::memory_account::{GiveBack, Malloc, ProcessAccount};

/// A remedy, what of malloc it could give back, and why.
type OfMalloc = (&'static str, fn(&Malloc) -> Bytes, &'static str);

const OF_MALLOC: [OfMalloc; 3] = [
    (
        "arenas",
        |malloc| malloc.freed_elsewhere_bytes,
        "freed blocks of other arenas than the main one",
    ),
    (
        "trim",
        |malloc| malloc.top_bytes + malloc.large_bytes,
        "free ends of heaps, and large freed blocks",
    ),
    ("allocator", |malloc| malloc.freed_bytes, "all freed blocks"),
];

/// The remedies with something to give back, the largest first.
pub(super) fn all(processes: &[ProcessAccount]) -> Vec<GiveBack> {
    let sum = |of: &dyn Fn(&ProcessAccount) -> Bytes| {
        processes.iter().fold(Bytes(0), |sum, process| sum + of(process))
    };
    let mallocs = OF_MALLOC.map(|(remedy, of, why)| {
        let bytes = sum(&|process| process.malloc.as_ref().map_or(Bytes(0), of));
        GiveBack { remedy: remedy.to_owned(), bytes, why: why.to_owned() }
    });
    let zeros = sum(&|process| process.half_used.known().map_or(Bytes(0), |half| half.zero_bytes));
    let small = GiveBack {
        remedy: "heap-small".to_owned(),
        bytes: zeros,
        why: "base pages of zeros in huge pages".to_owned(),
    };
    let mut all: Vec<GiveBack> = mallocs.into_iter().chain([small]).collect();
    all.retain(|one| one.bytes > Bytes(0));
    all.sort_by_key(|one| std::cmp::Reverse(one.bytes));
    all
}
