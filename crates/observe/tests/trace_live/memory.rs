//! The calls by which a program maps memory, and whether it switched huge pages off.

use super::{BLOCK, built, look, own};
use pagewise_kernel::page_size;
use pagewise_model::Bytes;
use pagewise_model::usage::ProgramEnd;
use pagewise_tracee::launch::ProgramLaunch;
use std::ffi::OsString;

pub(super) fn mapping_calls_are_counted_exactly() {
    let seen = look(&ProgramLaunch::experiment(own(&["maps"])));
    let churn = &seen.processes[0].churn;
    assert_eq!(churn.large_mmap_calls, 100, "{churn:?}");
    // The block and one more page with the allocator's header.
    let one = Bytes(BLOCK.0 + page_size::base().bytes());
    assert_eq!(churn.large_mmap_bytes, Bytes(100 * one.0));
    assert_eq!(churn.largest_mmap_bytes, one);
    assert_eq!(churn.block_mmap_bytes, churn.large_mmap_bytes);
    assert!(churn.munmap_calls >= 100 && churn.munmap_bytes.0 >= 100 * one.0);
    assert_eq!(seen.ended, ProgramEnd::Exited(0));
    assert!(seen.pattern.known().is_none());
}

pub(super) fn blocks_of_malloc_are_told_by_their_caller() {
    let test = "blocks_of_malloc_are_told_by_their_caller";
    let Some((_place, program)) = built(test, "blocks") else { return };
    let mib = |count: u64| Bytes::mib(count).0;
    for (words, blocks) in [("block", mib(40)), ("grows", mib(80)), ("own", 0)] {
        let argv = [program.clone().into_os_string(), words.into()].to_vec();
        let seen = look(&ProgramLaunch::experiment(argv));
        let churn = &seen.processes[0].churn;
        let header = page_size::base().bytes();
        assert!(
            (blocks..=blocks + 2 * header).contains(&churn.block_mmap_bytes.0),
            "{words}: {churn:?}"
        );
    }
}

pub(super) fn huge_pages_switched_off_are_seen() {
    let Some((_place, heap)) = built("huge_pages_switched_off_are_seen", "heap") else { return };
    for (words, off) in [(&[][..], false), (&["disabled"][..], true)] {
        let argv = std::iter::once(heap.clone().into_os_string());
        let argv = argv.chain(words.iter().map(OsString::from)).collect();
        let seen = look(&ProgramLaunch::experiment(argv));
        assert_eq!(seen.processes[0].huge_pages_off, off, "{words:?}");
    }
}
