//! First touches against a known truth: N pages take N faults, filled memory takes none, and advice to read
//! ahead maps nothing. A caller that stops early gets the results so far.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "a test program")]

use pagewise_measure::BenchCallbacks;
use pagewise_measure::bench::memory::{MemoryBenchPlan, MemoryBenchRequest, run};
use pagewise_model::bench::memory::{
    MemoryBenchPhase, MemoryBenchPoint, MemoryBenchReport, MemoryBenchWay,
};
use pagewise_model::{Bytes, Fact};
use std::sync::atomic::{AtomicU32, Ordering};

fn request(only: &[&str]) -> MemoryBenchRequest {
    MemoryBenchRequest {
        only: only.iter().map(|word| (*word).to_owned()).collect(),
        size: Some(Bytes::mib(4)),
        threads: 2,
        repeats: 2,
        quick: true,
        seed: 3,
    }
}

fn touch(only: &[&str], stop: &(dyn Fn() -> bool + Sync)) -> MemoryBenchReport {
    let plan = MemoryBenchPlan::new(request(only)).unwrap();
    let callbacks =
        BenchCallbacks { shuffle: &mut |order| order.reverse(), stop, show: &mut |_| {} };
    run(&plan, callbacks)
}

fn all_of(only: &[&str]) -> MemoryBenchReport {
    touch(only, &|| false)
}

/// Whether this kernel lacks the way. If so, prints a line.
fn lacks(touches: &MemoryBenchReport, way: MemoryBenchWay) -> bool {
    let missing = touches.unavailable.iter().find(|missing| missing.way == way);
    missing.inspect(|missing| println!("SKIP {}: {}", way.into_str(), missing.why)).is_some()
}

fn assert_whole(point: &MemoryBenchPoint) {
    assert_eq!((point.refused.as_deref(), point.samples.len()), (None, 2), "{point:?}");
    assert!(point.samples.iter().all(|sample| sample.touch_ns.0 > 0), "{point:?}");
    assert!(point.page_ns(MemoryBenchPhase::Whole).unwrap().median > 0.0, "{point:?}");
}

#[test]
fn each_page_touched_on_demand_is_a_fault() {
    let touches = all_of(&["on-demand"]);
    let pages = touches.size_bytes.pages(touches.base_page_bytes);
    for point in &touches.points {
        assert_whole(point);
        assert_eq!((point.used_pages, &point.expected_faults), (pages, &Fact::Known(pages)));
        assert_eq!(point.has_expected_faults(), Some(true), "{point:?}");
        assert_eq!(point.page_bytes, Fact::Known(touches.base_page_bytes));
    }
    assert_eq!(touches.plain(MemoryBenchWay::OnDemand).unwrap().resident_bytes(), Some(Bytes(0)));
    let several = touches.points.iter().filter(|p| p.threads > 1).count();
    assert_eq!(several, usize::from(touches.cpus.len() > 1));
}

#[test]
fn memory_that_was_filled_takes_no_fault() {
    let touches = all_of(&["map-populate", "populate-write", "populate-pieces"]);
    for point in &touches.points {
        if point.refused.as_deref().is_some_and(|why| why.contains("Invalid argument")) {
            println!("SKIP {}: before Linux 5.14", point.label());
            continue;
        }
        assert_whole(point);
        assert_eq!(point.has_expected_faults(), Some(true), "{point:?}");
        if point.threads == 1 && point.way != MemoryBenchWay::PopulatePieces {
            assert_eq!(point.resident_bytes(), Some(point.mapped_bytes), "{point:?}");
        }
    }
    let seldom = touches.find(MemoryBenchWay::MapPopulate, 10, 1).unwrap();
    let wasted = seldom.wasted_bytes(touches.base_page_bytes);
    assert!(wasted.0 > seldom.mapped_bytes.0 * 8 / 10, "{wasted}");
}

#[test]
fn a_huge_page_is_one_fault() {
    let touches = all_of(&["thp"]);
    if lacks(&touches, MemoryBenchWay::Thp) {
        return;
    }
    for point in &touches.points {
        if let Some(why) = &point.refused {
            println!("SKIP {}: {why}", point.label());
            continue;
        }
        assert_whole(point);
        assert_eq!(point.page_bytes, Fact::Known(touches.huge_page_bytes));
        assert_eq!(point.has_expected_faults(), Some(true), "{point:?}");
    }
}

#[test]
fn advice_to_read_ahead_maps_nothing() {
    let touches = all_of(&["willneed", "file", "file-willneed"]);
    let of = |way| touches.plain(way).unwrap();
    if of(MemoryBenchWay::Willneed).refused.is_none() {
        assert_whole(of(MemoryBenchWay::Willneed));
        assert_eq!(of(MemoryBenchWay::Willneed).resident_bytes(), Some(Bytes(0)));
        assert_eq!(of(MemoryBenchWay::Willneed).has_expected_faults(), Some(true));
    }
    let (with, without) = (of(MemoryBenchWay::FileWillneed), of(MemoryBenchWay::FileFaultAround));
    assert_whole(with);
    assert_whole(without);
    assert_eq!(with.resident_bytes(), Some(Bytes(0)));
    let (with, without) = (with.touch_faults().unwrap(), without.touch_faults().unwrap());
    assert!(with.abs_diff(without) <= 8 + without / 10, "{with} and {without} faults");
}

#[test]
fn a_file_that_was_filled_in_takes_no_fault() {
    let touches = all_of(&["file-populate"]);
    let point = touches.plain(MemoryBenchWay::FilePopulateRead).unwrap();
    if let Some(why) = &point.refused {
        println!("SKIP file-populate: {why}");
        return;
    }
    assert_whole(point);
    assert_eq!(point.has_expected_faults(), Some(true), "{point:?}");
    assert_eq!(point.resident_bytes(), Some(point.mapped_bytes), "{point:?}");
}

#[test]
fn each_write_to_a_page_that_fork_shares_is_a_copy() {
    let touches = all_of(&["fork-cow"]);
    let point = touches.plain(MemoryBenchWay::ForkCow).unwrap();
    assert_whole(point);
    assert_eq!(point.has_expected_faults(), Some(true), "{point:?}");
    assert_eq!(point.resident_bytes(), Some(point.mapped_bytes), "the child has them all mapped");
}

#[test]
fn faults_that_a_thread_answers_are_as_many_as_pages() {
    let touches = all_of(&["userfaultfd"]);
    if lacks(&touches, MemoryBenchWay::Userfaultfd) {
        return;
    }
    let point = touches.plain(MemoryBenchWay::Userfaultfd).unwrap();
    assert_whole(point);
    assert_eq!(point.touch_faults(), Some(point.used_pages), "{point:?}");
}

#[test]
fn what_is_not_to_be_had_says_what_would_help() {
    let touches = all_of(&["on-demand", "mthp", "pool-map", "pool-memfd", "pool-shm", "pool-file"]);
    let missing = &touches.unavailable;
    assert!(missing.iter().all(|m| !m.why.is_empty() && !m.next.is_empty()), "{missing:?}");
    let points = touches.points.iter().filter(|p| p.way != MemoryBenchWay::OnDemand);
    for point in points.filter(|p| p.refused.is_none()) {
        assert_whole(point);
        assert_eq!(point.has_expected_faults(), Some(true), "{point:?}");
    }
}

#[test]
fn an_interrupt_leaves_what_is_known() {
    let left = AtomicU32::new(40);
    let stop =
        || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_err();
    let touches = touch(&["on-demand", "populate-write", "map-populate"], &stop);
    let whole = touches.points.iter().filter(|p| p.samples.len() == 2).count();
    assert!(whole < touches.points.len(), "{touches:?}");
    let reasons = touches.points.iter().filter_map(|p| p.refused.as_deref());
    assert!(reasons.into_iter().all(|why| why == "interrupted"));
}
