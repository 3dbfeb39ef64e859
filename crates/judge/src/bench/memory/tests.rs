//! Touches with a known truth: what each way costs, what the kernel counted, what the host did.

use super::judge;
use crate::bench::fairness::{check, factor, noise};
use crate::stats::Rng;
use pagewise_model::bench::memory::{
    HostBackingCost, HugePageSplit, MemoryBenchPoint, MemoryBenchReport, MemoryBenchSample,
    MemoryBenchWay, PopulatePressure, PopulatedFile,
};
use pagewise_model::bench::pipe::ClaimAnswer;
use pagewise_model::{Bytes, Fact, Measured, Nanos, PageSize};
use proptest::prelude::*;

const PAGES: u64 = 4096;
const HUGE_PAGES: u64 = 8;
const REPEATS: u32 = 10;

/// A way that takes `page_ns` nanoseconds for each page used, with noise of 1%.
fn point(way: MemoryBenchWay, page_ns: f64, faults: u64, resident_pages: u64) -> MemoryBenchPoint {
    let mut rng = Rng::new(11);
    let sample = |repeat| MemoryBenchSample {
        repeat,
        place: repeat,
        setup_ns: Nanos(0),
        touch_ns: Nanos::from_f64(page_ns * PAGES as f64 * (0.01 * rng.normal()).exp()),
        teardown_ns: Nanos(0),
        cpu_ns: Nanos(0),
        setup_faults: 0,
        touch_faults: faults,
        resident_bytes: Fact::Known(Bytes(resident_pages * PageSize::BASE_4K.bytes())),
    };
    MemoryBenchPoint {
        way,
        every_pages: 1,
        threads: 1,
        mapped_bytes: Bytes::mib(16),
        used_pages: PAGES,
        page_bytes: Fact::Known(PageSize::BASE_4K),
        expected_faults: Fact::Known(faults),
        samples: (0..REPEATS).map(sample).collect(),
        refused: None,
    }
}

fn touches(points: Vec<MemoryBenchPoint>) -> MemoryBenchReport {
    MemoryBenchReport {
        seed: 1,
        repeats: REPEATS,
        quick: false,
        cpus: vec![0, 1],
        size_bytes: Bytes::mib(16),
        most_bytes: Bytes::gib(1),
        bound_by: "available memory".into(),
        base_page_bytes: PageSize::BASE_4K,
        huge_page_bytes: PageSize::PMD_2M,
        points,
        unavailable: Vec::new(),
        host: Vec::new(),
        split: Fact::missing("not requested"),
        shared_pool: Fact::missing("not requested"),
        pressure: Fact::missing("not requested"),
        judgement: None,
    }
}

/// What an ordinary kernel does.
fn usual() -> Vec<MemoryBenchPoint> {
    vec![
        point(MemoryBenchWay::OnDemand, 1000.0, PAGES, 0),
        point(MemoryBenchWay::Thp, 200.0, HUGE_PAGES, 0),
        point(MemoryBenchWay::MapPopulate, 700.0, 0, PAGES),
        MemoryBenchPoint {
            every_pages: 10,
            used_pages: PAGES / 10,
            ..point(MemoryBenchWay::MapPopulate, 700.0, 0, PAGES)
        },
        point(MemoryBenchWay::PopulateWrite, 720.0, 0, PAGES),
        point(MemoryBenchWay::Willneed, 1001.0, PAGES, 0),
        point(MemoryBenchWay::FileFaultAround, 100.0, PAGES / 16, 0),
        point(MemoryBenchWay::FileWillneed, 101.0, PAGES / 16, 0),
    ]
}

fn answer(touches: &MemoryBenchReport, part: &str) -> Option<ClaimAnswer> {
    let claims = judge(touches).claims;
    claims.iter().find(|claim| claim.claim.contains(part)).map(|claim| claim.answer)
}

#[test]
fn ratios_are_against_the_baseline_of_each_way() {
    let judged = judge(&touches(usual()));
    let of = |way, every| {
        let found = judged.ratios.iter().find(|r| r.way == way && r.every_pages == every);
        found.unwrap_or_else(|| panic!("{way:?} in {judged:?}")).ratio
    };
    assert!((of(MemoryBenchWay::Thp, 1) - 0.2).abs() < 0.01);
    assert!(
        (of(MemoryBenchWay::FileWillneed, 1) - 1.01).abs() < 0.02,
        "against the file, not on demand"
    );
    assert!((of(MemoryBenchWay::MapPopulate, 10) - 7.0).abs() < 0.1, "for each page used");
    assert!(judged.ratios.iter().all(|r| r.way != MemoryBenchWay::OnDemand), "not against itself");
    let thp = judged
        .ratios
        .iter()
        .find(|r| r.way == MemoryBenchWay::Thp)
        .and_then(|r| r.interval.known());
    assert!(thp.is_some_and(|(low, high)| *low <= 0.21 && *high >= 0.19), "{thp:?}");
}

#[test]
fn a_baseline_with_as_many_threads_is_taken() {
    let two = |way, ns| MemoryBenchPoint { threads: 2, ..point(way, ns, PAGES, 0) };
    let points = vec![
        point(MemoryBenchWay::OnDemand, 1000.0, PAGES, 0),
        two(MemoryBenchWay::OnDemand, 500.0),
        two(MemoryBenchWay::Thp, 250.0),
    ];
    let judged = judge(&touches(points));
    assert_eq!(judged.ratios.len(), 1, "{judged:?}");
    assert!((judged.ratios[0].ratio - 0.5).abs() < 0.01);
    assert!(
        judged.advice[2].contains("Touch large memory first with several threads"),
        "{judged:?}"
    );
}

#[test]
fn claims_are_answered_by_counts() {
    let usual = touches(usual());
    assert_eq!(answer(&usual, "one fault instead of 512"), Some(ClaimAnswer::Confirmed));
    assert_eq!(answer(&usual, "MAP_POPULATE leaves"), Some(ClaimAnswer::Confirmed));
    assert_eq!(answer(&usual, "populating memory is faster"), Some(ClaimAnswer::Confirmed));
    assert_eq!(answer(&usual, "MADV_WILLNEED fills anonymous"), Some(ClaimAnswer::Refuted));
    assert_eq!(answer(&usual, "POSIX_MADV_WILLNEED maps"), Some(ClaimAnswer::Refuted));
    assert_eq!(answer(&usual, "stays whole"), None, "nothing was split");
}

#[test]
fn a_kernel_that_does_otherwise_is_reported() {
    let mut points = usual();
    points[2] = MemoryBenchPoint {
        expected_faults: Fact::Known(0),
        ..point(MemoryBenchWay::MapPopulate, 700.0, PAGES / 2, PAGES / 2)
    };
    points[4] = point(MemoryBenchWay::PopulateWrite, 1300.0, 0, PAGES);
    points[5] = MemoryBenchPoint {
        expected_faults: Fact::Known(PAGES),
        ..point(MemoryBenchWay::Willneed, 900.0, 0, PAGES)
    };
    points[7] = point(MemoryBenchWay::FileWillneed, 50.0, 0, PAGES);
    let other = touches(points);
    assert_eq!(answer(&other, "MAP_POPULATE leaves"), Some(ClaimAnswer::Refuted));
    assert_eq!(answer(&other, "populating memory is faster"), Some(ClaimAnswer::Refuted));
    assert_eq!(answer(&other, "MADV_WILLNEED fills anonymous"), Some(ClaimAnswer::Confirmed));
    assert_eq!(answer(&other, "POSIX_MADV_WILLNEED maps"), Some(ClaimAnswer::Confirmed));
}

#[test]
fn a_split_page_is_reported_by_what_is_left_of_it() {
    let mut some = touches(usual());
    let ns = |ns| Measured::from_values(&[ns]).unwrap_or_else(|| panic!("{ns}"));
    let split = HugePageSplit {
        huge_pages: 8,
        before_bytes: Bytes::mib(16),
        after_bytes: Bytes(0),
        split_ns: ns(3000.0),
        mend_ns: ns(1500.0),
        base_split_ns: ns(1000.0),
        base_mend_ns: ns(900.0),
    };
    some.split = Fact::Known(split.clone());
    assert_eq!(answer(&some, "stays whole"), Some(ClaimAnswer::Refuted));
    some.split = Fact::Known(HugePageSplit { after_bytes: Bytes::mib(16), ..split });
    assert_eq!(answer(&some, "stays whole"), Some(ClaimAnswer::Confirmed));
}

#[test]
fn a_mapping_that_was_not_filled_is_reported_where_the_machine_had_room() {
    let populated = |mib, major_faults| PopulatedFile {
        setup_ns: Nanos(1),
        resident_bytes: Bytes::mib(mib),
        touch_ns: Nanos(1),
        major_faults,
    };
    let reported = |alone, limited| {
        let pressure = PopulatePressure {
            file_bytes: Bytes::mib(64),
            limit_bytes: Bytes::mib(32),
            alone: populated(alone, 0),
            limited: populated(limited, 300),
        };
        answer(
            &MemoryBenchReport { pressure: Fact::Known(pressure), ..touches(usual()) },
            "is fully populated",
        )
    };
    assert_eq!(reported(64, 30), Some(ClaimAnswer::Refuted));
    assert_eq!(reported(64, 64), Some(ClaimAnswer::Confirmed));
    assert_eq!(reported(20, 18), None, "short of memory without a group");
}

#[test]
fn there_are_three_sentences_whatever_is_known() {
    let all = judge(&touches(usual())).advice;
    assert_eq!(all.len(), 3);
    assert!(all[0].contains("MADV_HUGEPAGE") && all[0].contains("80% less"), "{all:?}");
    assert!(all[1].contains("map-populate") && all[1].contains("wastes"), "{all:?}");
    let none = judge(&touches(Vec::new())).advice;
    assert_eq!(none.len(), 3);
    assert!(none.iter().all(|s| s.contains(": not measured. ")));
}

#[test]
fn no_gain_is_no_advice() {
    let points = vec![
        point(MemoryBenchWay::OnDemand, 1000.0, PAGES, 0),
        point(MemoryBenchWay::Thp, 1000.0, HUGE_PAGES, 0),
        point(MemoryBenchWay::PopulateWrite, 1100.0, 0, PAGES),
    ];
    let advice = judge(&touches(points)).advice;
    assert!(advice[0].starts_with("Do not expect larger pages"), "{advice:?}");
    assert!(advice[1].starts_with("Do not populate base pages"), "{advice:?}");
}

#[test]
fn too_few_mappings_prove_nothing() {
    let mut points = usual();
    points.iter_mut().for_each(|point| point.samples.truncate(5));
    let advice = judge(&touches(points)).advice;
    assert!(
        advice[0].contains(": open. thp takes 0.20 times as long; an interval needs 6"),
        "{advice:?}"
    );
    assert!(advice[1].contains(": open. map-populate"), "{advice:?}");
}

#[test]
fn a_host_that_backs_anew_is_reported_when_it_is_often() {
    let mut some = touches(usual());
    let host = |slow_chunks| HostBackingCost {
        is_huge: false,
        chunk_bytes: Bytes::mib(16),
        chunks: 100,
        slow_chunks,
        extra_page_ns: Fact::Known(900.0),
    };
    some.host = vec![host(40)];
    assert!(judge(&some).advice[2].contains("900 ns more (40 of 100"), "{:?}", judge(&some).advice);
    some.host = vec![host(1)];
    assert!(!judge(&some).advice[2].contains("900 ns"));
}

proptest! {
    #[test]
    fn claims_keep_to_the_rule(noise in noise()) {
        let (seed, repeats, spread) = noise;
        let mut rng = Rng::new(seed);
        let mut points = usual();
        for point in &mut points {
            point.samples.truncate(repeats);
            for sample in &mut point.samples {
                sample.touch_ns = Nanos::from_f64(sample.touch_ns.0 as f64 * factor(&mut rng, spread));
                sample.touch_faults = (sample.touch_faults as f64 * factor(&mut rng, spread)) as u64;
            }
        }
        let judged = judge(&touches(points));
        prop_assert!(judged.claims.len() >= 6 || repeats == 0, "{:?}", judged.claims);
        check(&judged.claims)?;
        let faster = judged.claims.iter().find(|claim| claim.claim.contains("is faster than"));
        let ratio = judged.ratios.iter().find(|r| r.way == MemoryBenchWay::PopulateWrite);
        let is_open = ratio.and_then(|r| r.interval.known()).is_none_or(|(low, high)| *low <= 1.0 && 1.0 <= *high);
        prop_assert!(faster.is_none_or(|claim| is_open == (claim.answer == ClaimAnswer::CannotTell)));
        // Nothing is advised that has no interval.
        let is_advised = |text: &String| text.starts_with("Put") || text.starts_with("Populate");
        prop_assert!(repeats >= 6 || !judged.advice.iter().any(is_advised), "{:?}", judged.advice);
    }
}
