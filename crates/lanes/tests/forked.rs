//! Buffers and `fork(2)`: a child keeps frozen bytes, but not writable ones.

#![allow(unsafe_code, clippy::unwrap_used, reason = "a signal by hand; a test fails by panicking")]

mod child;

use child::{alone, fork, wait};
use pagewise_lanes::buffer::{BufferPages, Dropped, Frozen};
use std::io::Read;

const LEN: usize = 30_000;

#[test]
fn frozen_bytes_are_the_childs_too() {
    let _alone = alone();
    let fill = |space: &mut [u8]| space.fill(7);
    for frozen in [Frozen::build(LEN, fill).unwrap(), Frozen::build_private(LEN, fill).unwrap()] {
        let (mut reader, writer) = std::io::pipe().unwrap();
        frozen.send(&writer, 0..10).unwrap();
        let pid = fork(|| {
            let is_same = frozen.as_bytes().iter().all(|byte| *byte == 7);
            is_same && frozen.send(&writer, 10..LEN).is_ok()
        });
        drop(writer);
        let mut got = Vec::new();
        reader.read_to_end(&mut got).unwrap();
        assert_eq!((wait(pid), got.len()), (0, LEN));
        assert!(got.iter().all(|byte| *byte == 7));
    }
}

#[test]
fn a_child_does_not_inherit_what_can_be_written() {
    let _alone = alone();
    for make in [Dropped::new, Dropped::returning] {
        let (_reader, writer) = std::io::pipe().unwrap();
        let mut region = make(LEN, BufferPages::Base).unwrap();
        // The same after a renewal, which may fork a child itself.
        region.give(&writer, 10).unwrap();
        region.renew().unwrap();
        region.as_mut_slice().fill(1);
        let pid = fork(|| {
            // SAFETY: sets the default, so that the runtime prints nothing.
            unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
            region.as_mut_slice().fill(2);
            true
        });
        assert_eq!(libc::WTERMSIG(wait(pid)), libc::SIGSEGV);
        assert!(region.as_mut_slice().iter().all(|byte| *byte == 1));
    }
}

#[test]
fn without_a_huge_page_to_try_huge_pages_are_not_trusted() {
    let _alone = alone();
    let pid = fork(|| {
        // SAFETY: takes no pointer; from now on this child gets base pages only.
        unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
        let (_reader, writer) = std::io::pipe().unwrap();
        let mut region = Dropped::returning(LEN, BufferPages::Huge).unwrap();
        let before = region.as_mut_slice().as_ptr();
        region.give(&writer, 10).unwrap();
        region.renew().unwrap();
        // The content has been moved.
        region.as_mut_slice().as_ptr() != before
    });
    assert_eq!(wait(pid), 0);
}
