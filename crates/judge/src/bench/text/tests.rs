//! Jumps with a known truth: how many translations of code two TLBs hold, and what a miss costs.

use super::*;
use crate::bench::fairness::{check, factor, noise};
use crate::stats::Rng;
use pagewise_model::bench::pipe::ClaimAnswer;
use pagewise_model::bench::text::TextBenchSample;
use pagewise_model::bench::tlb::{ClaimedTlb, RatioSteadiness, TlbSide};
use pagewise_model::{Fact, PageSize};
use proptest::prelude::*;

const DENSE: Bytes = Bytes::kib(4);
const APART: Bytes = Bytes::kib(68);
const HUGE: Bytes = Bytes::mib(2);
/// Entries of the two TLB levels for base pages, and of the first level for huge pages, with the cost of a
/// miss in each.
const ENTRIES: [u64; 2] = [512, 2048];
const HUGE_ENTRIES: u64 = 64;
const COST_NS: [f64; 2] = [4.0, 20.0];

fn point(order: JumpOrder, pages: PageKind, apart: Bytes, jumps: u64, ns: f64) -> TextBenchPoint {
    let sample = |repeat: u32| TextBenchSample {
        repeat,
        place: repeat,
        jump_ns: ns * (1.0 + 0.001 * f64::from(repeat % 3)),
        within_share: 0.001,
        misses_per_1000_instructions: None,
    };
    let samples = (0..10).map(sample).collect();
    TextBenchPoint { samples, ..TextBenchPoint::new(order, pages, apart, jumps) }
}

/// Time of a jump among this many jumps: caches make it slower.
fn plain_ns(jumps: u64) -> f64 {
    if jumps > 512 { 25.0 } else { 7.0 }
}

fn extra_ns(pages: u64) -> f64 {
    let of = |level: usize| if pages > ENTRIES[level] { COST_NS[level] } else { 0.0 };
    of(0) + of(1)
}

fn counts(from: u32, to: u32) -> Vec<u64> {
    (from..to).flat_map(|bits| (0..6).map(move |i| (1_u64 << bits) * (6 + i) / 6)).collect()
}

fn points() -> Vec<TextBenchPoint> {
    let mut points = Vec::new();
    for jumps in counts(4, 13) {
        let plain = plain_ns(jumps);
        points.push(point(JumpOrder::Changing, PageKind::Thp, DENSE, jumps, plain));
        points.push(point(
            JumpOrder::Changing,
            PageKind::Base,
            APART,
            jumps,
            plain + extra_ns(jumps),
        ));
        points.push(point(
            JumpOrder::Changing,
            PageKind::Base,
            DENSE,
            jumps,
            plain + extra_ns(jumps),
        ));
        for kind in [PageKind::Base, PageKind::Thp] {
            points.push(point(JumpOrder::Repeated, kind, DENSE, jumps, plain / 4.0));
        }
    }
    for jumps in counts(4, 7) {
        let extra = if jumps > HUGE_ENTRIES { 5.0 } else { 0.0 };
        points.push(point(
            JumpOrder::Changing,
            PageKind::Thp,
            HUGE,
            jumps,
            plain_ns(jumps) + extra,
        ));
    }
    points
}

fn jumps(points: Vec<TextBenchPoint>) -> TextBenchReport {
    TextBenchReport {
        seed: 1,
        repeats: 10,
        quick: false,
        cpu: 0,
        most_bytes: Bytes::gib(1),
        bound_by: "available memory".to_owned(),
        base_page_bytes: PageSize::BASE_4K,
        huge_page_bytes: PageSize::PMD_2M,
        points,
        unavailable: Vec::new(),
        counter: Fact::missing("no hardware counters"),
        claimed: Vec::new(),
        judgement: None,
    }
}

fn tlb(level: u8, page: PageSize, entries: u32, side: TlbSide) -> ClaimedTlb {
    ClaimedTlb { level, side, page_bytes: vec![page], entries, scaled_entries: None }
}

fn is_about(found: u64, truth: u64) -> bool {
    (found as f64 / truth as f64 - 1.0).abs() < 0.2
}

#[test]
fn knees_are_where_translations_of_code_run_out() {
    let knees = judge(&jumps(points())).knees;
    let of = |pages| knees.iter().filter(move |k| k.pages == pages).map(|k| k.about_pages);
    let base: Vec<u64> = of(PageKind::Base).collect();
    assert!(matches!(base[..], [a, b] if is_about(a, 512) && is_about(b, 2048)), "{knees:?}");
    let huge: Vec<u64> = of(PageKind::Thp).collect();
    assert!(matches!(huge[..], [one] if is_about(one, HUGE_ENTRIES)), "{knees:?}");
}

#[test]
fn caches_and_predictors_make_no_knee() {
    let same = |p: TextBenchPoint| TextBenchPoint {
        samples: point(p.order, p.pages, p.apart_bytes, p.jumps, plain_ns(p.jumps)).samples,
        ..p
    };
    let judged = judge(&jumps(points().into_iter().map(same).collect()));
    assert_eq!(judged.knees, []);
    assert!(judged.advice[0].starts_with("Do not expect"), "{:?}", judged.advice);
}

#[test]
fn claims_are_confirmed_by_knees_and_refuted_by_none() {
    let mut jumps = jumps(points());
    jumps.claimed = vec![
        tlb(1, PageSize::BASE_4K, 64, TlbSide::Code),
        tlb(2, PageSize::BASE_4K, 2048, TlbSide::Unified),
        tlb(1, PageSize::PMD_2M, 64, TlbSide::Code),
        tlb(1, PageSize::BASE_4K, 96, TlbSide::Data),
    ];
    let claims = judge(&jumps).claims;
    let answers: Vec<ClaimAnswer> = claims.iter().map(|claim| claim.answer).collect();
    assert_eq!(
        answers,
        [ClaimAnswer::CannotTell, ClaimAnswer::Confirmed, ClaimAnswer::Confirmed],
        "{claims:?}"
    );
    assert!(claims[0].why.contains("the end may be invisible"), "{claims:?}");
    assert!(claims[1].why.starts_with("a jump costs"), "{claims:?}");
}

#[test]
fn ratios_are_those_of_each_order_and_size() {
    let ratios = judge(&jumps(points())).ratios;
    let at = |order, jumps: u64| {
        let is_it = |r: &&TextBenchRatio| (r.order, r.set_bytes) == (order, Bytes(jumps * DENSE.0));
        ratios.iter().find(is_it).expect("a ratio")
    };
    let far = at(JumpOrder::Changing, 4096);
    assert!((far.ratio - 25.0 / 49.0).abs() < 0.01, "{far:?}");
    assert_eq!((far.pages, far.steadiness), (PageKind::Thp, RatioSteadiness::Steady));
    assert!((at(JumpOrder::Repeated, 4096).ratio - 1.0).abs() < 0.01);
}

#[test]
fn there_are_always_three_sentences() {
    let base_alone = points().into_iter().filter(|p| p.pages == PageKind::Base).collect();
    for points in [Vec::new(), base_alone, points()] {
        let judged = judge(&jumps(points));
        assert_eq!(judged.advice.len(), 3);
        assert!(judged.advice.iter().all(|s| s.ends_with('.') && s.len() > 30), "{judged:?}");
    }
    let all = judge(&jumps(points())).advice;
    assert!(all[0].starts_with("Put code") && all[1].contains("base pages"), "{all:?}");
    assert!(all[2].contains("for predicted jumps"), "{all:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn claims_keep_to_the_rule(noise in noise(), entries in 16_u32..9000) {
        let (seed, repeats, spread) = noise;
        let mut rng = Rng::new(seed);
        let mut jumps = jumps(points());
        for point in &mut jumps.points {
            point.samples.truncate(repeats);
            point.samples.iter_mut().for_each(|s| s.jump_ns *= factor(&mut rng, spread));
        }
        jumps.claimed = vec![
            tlb(1, PageSize::BASE_4K, entries, TlbSide::Code),
            tlb(2, PageSize::BASE_4K, 2048, TlbSide::Unified),
        ];
        let judged = judge(&jumps);
        check(&judged.claims)?;
        prop_assert!(repeats >= 6 || !judged.advice[0].starts_with("Put code"), "{:?}", judged.advice);
        prop_assert!(repeats >= 6 || !judged.advice[2].contains("no gain"), "{:?}", judged.advice);
    }
}
