//! Which code touched held memory, from constructed events.

use super::*;
use pagewise_model::fault::event::MremapEvent;
use pagewise_model::fault::{MemorySites, ResidentPages};

const PAGE: u64 = 4096;

/// A touch of page `page` by the instruction in line `line` of the program.
fn touch(at: u64, pid: i32, page: u64, line: u64) -> FaultEvent {
    let mut event = begin(at, pid, DATA + page * PAGE);
    if let FaultEventPayload::Begin(begin) = &mut event.what {
        (begin.pid, begin.ip_address) = (pid, IP + line * 16);
    }
    event
}

fn pages(pid: i32, from: u64, to: u64, block: u64) -> ResidentPages {
    ResidentPages {
        pid,
        start_address: DATA + from * PAGE,
        end_address: DATA + to * PAGE,
        block_bytes: Bytes(block * PAGE),
    }
}

/// Pages by line, and pages without an owner, of a program that writes.
fn held(events: Vec<FaultEvent>, resident: &[ResidentPages]) -> (Vec<(u64, u64)>, u64) {
    let (wanted, sees) = options(false);
    let wanted = FaultRecordingOptions { sites: true, list: false, ..wanted };
    let mut analysis = FaultAnalysis::new(PageSize::BASE_4K, wanted, sees);
    for event in [map(IP, 4096, true, "/bin/x")].into_iter().chain(events) {
        analysis.take(event, &mut Writes);
    }
    analysis.hold(resident);
    let MemorySites { sites, unseen_bytes, .. } = analysis.memory_sites(&mut Writes);
    let line = |one: &pagewise_model::fault::MemorySite| {
        u64::from(one.site.source.as_ref().unwrap().line) - 0x2000 / 16
    };
    let mut all: Vec<_> = sites.iter().map(|one| (line(one), one.bytes.0 / PAGE)).collect();
    all.sort_unstable();
    (all, unseen_bytes.0 / PAGE)
}

#[test]
fn a_page_that_is_there_belongs_to_the_last_who_found_it_absent() {
    let touches = vec![
        touch(10, 1, 0, 1),
        touch(20, 1, 1, 1),
        touch(30, 1, 2, 1),
        touch(40, 1, 1, 2),
        present(touch(50, 1, 2, 3)),
    ];
    assert_eq!(held(touches.clone(), &[pages(1, 0, 4, 1)]), (vec![(1, 2), (2, 1)], 1));
    assert_eq!(held(touches.clone(), &[pages(1, 1, 2, 1)]), (vec![(2, 1)], 0));
    assert_eq!(held(touches, &[]), (vec![], 0));
}

#[test]
fn pages_without_a_fault_came_with_the_newest_of_their_block() {
    let touches = vec![touch(10, 1, 0, 1), touch(20, 1, 5, 2), touch(30, 1, 6, 3)];
    assert_eq!(held(touches, &[pages(1, 0, 12, 4)]), (vec![(1, 4), (2, 1), (3, 3)], 4));
}

#[test]
fn stacks_name_functions_of_scripts_with_their_lines() {
    let stacks = |code: u64| {
        let mut event = touch(10, 1, 0, 0);
        if let FaultEventPayload::Begin(begin) = &mut event.what {
            begin.ip_address = code;
        }
        let (wanted, sees) = options(false);
        let wanted = FaultRecordingOptions { sites: true, list: false, ..wanted };
        let mut analysis = FaultAnalysis::new(PageSize::BASE_4K, wanted, sees);
        for event in [map(IP, 4096, true, "/bin/x"), event] {
            analysis.take(event, &mut Writes);
        }
        analysis.hold(&[pages(1, 0, 1, 1)]);
        analysis.memory_sites(&mut Writes).stacks
    };
    // Code of no file is of a script.
    assert_eq!(stacks(0x5000_0000)[0].frames, ["1#5242880 job.py:7"]);
    assert_eq!(stacks(IP)[0].frames, ["/bin/x#32"]);
}

#[test]
fn pages_keep_their_owner_when_they_are_moved() {
    let moved = MremapEvent {
        pid: 1,
        from_address: DATA,
        to_address: DATA + PAGE,
        size_bytes: Bytes(2 * PAGE),
    };
    let moved = FaultEvent { at_ns: Nanos(30), what: FaultEventPayload::Move(moved) };
    let touches = vec![touch(10, 1, 0, 1), touch(20, 1, 1, 2), moved, touch(40, 1, 3, 3)];
    let expected = (vec![(1, 1), (2, 1), (3, 1)], 1);
    assert_eq!(held(touches, &[pages(1, 0, 4, 1)]), expected);
}

#[test]
fn what_a_fork_shares_counts_once() {
    let fork =
        FaultEvent { at_ns: Nanos(30), what: FaultEventPayload::Fork { pid: 2, parent_pid: 1 } };
    let copied = present(touch(40, 2, 1, 2));
    let touches = vec![touch(10, 1, 0, 1), touch(20, 1, 1, 1), fork, copied];
    let both = [pages(1, 0, 2, 1), pages(2, 0, 2, 1)];
    assert_eq!(held(touches.clone(), &both), (vec![(1, 2), (2, 1)], 0));
    // The process that made it has ended.
    assert_eq!(held(touches, &both[1..]), (vec![(1, 1), (2, 1)], 0));
}
