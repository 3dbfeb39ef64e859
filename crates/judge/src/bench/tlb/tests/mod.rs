//! Curves with a known truth: how many entries two TLBs have, how they replace them, how noisy the
//! machine is.

mod claims;
mod ratios;

use super::judge;
use super::knees::{CurvePoint, TranslationCurve, find};
use crate::stats::Rng;
use pagewise_model::bench::tlb::{
    AccessOrder, ClaimedTlb, MemoryBandwidth, MemoryRates, PageKind, TlbBenchReport, TlbPath,
    TlbPoint, TlbSample, TlbSide,
};
use pagewise_model::{Bytes, Fact, PageSize};

const FASTEST_NS: f64 = 1.2;
const APART: Bytes = Bytes::kib(68);

/// How a TLB forgets when pages are visited in a fixed cycle.
#[derive(Clone, Copy, PartialEq)]
enum Replacement {
    /// Least recently used: one page too many and every load misses.
    Oldest,
    /// By chance: the share of misses grows.
    Chance,
}

/// Share of loads that miss `entries` entries in a cycle through `pages`.
fn misses(pages: u64, entries: u64, replacement: Replacement) -> f64 {
    if pages <= entries {
        return 0.0;
    }
    match replacement {
        Replacement::Oldest => 1.0,
        Replacement::Chance => 1.0 - entries as f64 / pages as f64,
    }
}

/// Entries of two levels, and what a miss of each costs.
#[derive(Clone, Copy)]
struct Truth {
    entries: [u64; 2],
    cost_ns: [f64; 2],
    replacement: Replacement,
}

impl Truth {
    fn extra_ns(&self, pages: u64) -> f64 {
        let of = |level: usize| {
            self.cost_ns[level] * misses(pages, self.entries[level], self.replacement)
        };
        of(0) + of(1)
    }
}

const TWO_LEVELS: Truth =
    Truth { entries: [72, 3072], cost_ns: [2.0, 9.0], replacement: Replacement::Oldest };

fn counts() -> Vec<u64> {
    let octave = |bits: u32| (0..8).map(move |i| (1_u64 << bits) * (8 + i) / 8);
    (4..13).flat_map(octave).chain([8192]).collect()
}

/// Ten mappings with noise of this share of a load.
fn curve(truth: &Truth, noise_share: f64, rng: &mut Rng) -> TranslationCurve {
    let noise_ns = noise_share * FASTEST_NS;
    let step = |pages: u64, rng: &mut Rng| {
        let extra_ns = truth.extra_ns(pages) + noise_ns * rng.normal() / 10_f64.sqrt();
        let load_ns = FASTEST_NS + truth.extra_ns(pages);
        // The quartile of a normal deviation.
        let low_ns = extra_ns - 0.67 * noise_ns;
        CurvePoint { pages, extra_ns, noise_ns: noise_ns / 10_f64.sqrt(), low_ns, load_ns }
    };
    let steps = counts().into_iter().map(|pages| step(pages, rng)).collect();
    TranslationCurve {
        pages: PageKind::Base,
        apart_bytes: APART,
        steps,
        fastest_ns: FASTEST_NS,
        repeats: 10,
    }
}

fn within(found: u64, truth: u64, share: f64) -> bool {
    (found as f64 / truth as f64 - 1.0).abs() <= share
}

#[test]
fn knees_are_where_the_entries_end() {
    for replacement in [Replacement::Oldest, Replacement::Chance] {
        for entries in [[64, 1536], [72, 3072], [96, 4096], [32, 512]] {
            let truth = Truth { entries, replacement, ..TWO_LEVELS };
            let knees = find(&curve(&truth, 0.0, &mut Rng::new(1)));
            let found: Vec<u64> = knees.iter().map(|knee| knee.about_pages).collect();
            assert_eq!(found.len(), 2, "{entries:?}: {knees:?}");
            for (found, truth) in found.iter().zip(entries) {
                assert!(within(*found, truth, 0.15), "{found} for {truth}: {knees:?}");
            }
            assert!(knees[0].from_ns < 0.1 && knees[0].to_ns > 1.0, "{knees:?}");
        }
    }
}

#[test]
fn noise_moves_no_knee_and_makes_none() {
    let mut rng = Rng::new(11);
    let mut right = 0;
    for _ in 0..200 {
        let knees = find(&curve(&TWO_LEVELS, 0.25, &mut rng));
        let found: Vec<u64> = knees.iter().map(|knee| knee.about_pages).collect();
        let are_right = matches!(found.as_slice(), [first, second]
            if within(*first, 72, 0.2) && within(*second, 3072, 0.2));
        right += u32::from(are_right);
    }
    assert!(right >= 195, "{right} of 200");
    let flat = Truth { cost_ns: [0.0, 0.0], ..TWO_LEVELS };
    let false_knees = (0..200).map(|_| find(&curve(&flat, 0.25, &mut rng)).len()).sum::<usize>();
    assert!(false_knees <= 2, "{false_knees} knees in 200 flat curves");
}

#[test]
fn a_first_level_is_found_though_the_cost_of_the_second_swings() {
    let mut curve = curve(&TWO_LEVELS, 0.1, &mut Rng::new(4));
    for (at, step) in curve.steps.iter_mut().filter(|step| step.pages > 3072).enumerate() {
        step.extra_ns *= if at % 3 == 2 { 40.0 } else { 4.0 };
        step.noise_ns = 30.0;
    }
    let knees = find(&curve);
    assert_eq!(knees.len(), 2, "every repeat is above, however much they differ: {knees:?}");
    assert!(within(knees[0].about_pages, 72, 0.2), "{knees:?}");
    assert!((knees[0].to_ns - 2.0).abs() < 0.3, "{knees:?}");
    assert!(within(knees[1].about_pages, 3072, 0.2), "{knees:?}");
}

#[test]
fn one_stray_is_no_knee() {
    let flat = Truth { cost_ns: [0.0, 0.0], ..TWO_LEVELS };
    let mut curve = curve(&flat, 0.0, &mut Rng::new(1));
    curve.steps[20].extra_ns = 30.0;
    let last = curve.steps.len() - 1;
    curve.steps[last].extra_ns = 30.0;
    assert_eq!(find(&curve), []);
}

#[test]
fn too_few_steps_have_no_knee() {
    let whole = curve(&TWO_LEVELS, 0.0, &mut Rng::new(1));
    for len in 0..4 {
        let cut = TranslationCurve { steps: whole.steps[..len].to_vec(), ..whole.clone() };
        assert_eq!(find(&cut), []);
    }
}

fn samples(values: impl IntoIterator<Item = f64>) -> Vec<TlbSample> {
    let one = |(repeat, load_ns)| TlbSample { repeat, place: repeat, load_ns, within_share: 0.005 };
    (0..).zip(values).map(one).collect()
}

fn point(path: TlbPath, pages: PageKind, elements: u64, values: &[f64]) -> TlbPoint {
    let page_bytes = match pages {
        PageKind::Base => PageSize::BASE_4K,
        _ => PageSize::PMD_2M,
    };
    TlbPoint {
        page_bytes: Fact::Known(page_bytes),
        samples: samples(values.iter().copied()),
        ..TlbPoint::new(path, pages, elements)
    }
}

fn walks(points: Vec<TlbPoint>) -> TlbBenchReport {
    TlbBenchReport {
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
        bandwidth: MemoryBandwidth {
            buffer_bytes: Bytes::mib(64),
            cpus: 2,
            one: MemoryRates::missing("not measured"),
            all: MemoryRates::missing("not measured"),
        },
        claimed: Vec::new(),
        caches: Vec::new(),
        judgement: None,
    }
}

fn tlb(level: u8, page: PageSize, entries: u32) -> ClaimedTlb {
    ClaimedTlb { level, side: TlbSide::Data, page_bytes: vec![page], entries, scaled_entries: None }
}

/// Lines on base pages by `truth`, packed ones, and lines on huge pages that cost `huge_share` of what
/// those on base pages do.
fn lines(truth: &Truth, huge_share: f64) -> Vec<TlbPoint> {
    let path = TlbPath::Lines { apart_bytes: APART };
    let mut points = Vec::new();
    for count in counts() {
        let extra = truth.extra_ns(count);
        let noisy = |ns: f64| (0..10).map(|i| ns + 0.01 * f64::from(i % 3)).collect::<Vec<f64>>();
        points.push(point(TlbPath::PACKED, PageKind::Thp, count, &noisy(FASTEST_NS)));
        points.push(point(path, PageKind::Base, count, &noisy(FASTEST_NS + extra)));
        if count <= 1024 {
            let huge = noisy(FASTEST_NS + huge_share * extra);
            points.push(point(path, PageKind::Thp, count, &huge));
        }
    }
    points
}

#[test]
fn how_the_host_backs_huge_pages_is_seen_by_what_they_cost() {
    for share in [0.0, 0.95] {
        let judged = judge(&walks(lines(&TWO_LEVELS, share)));
        let found = judged.huge_translation_share.known().copied().unwrap();
        assert!((found - share).abs() < 0.05, "{found} for {share}");
        assert_eq!(judged.knees.len(), 2, "{:?}", judged.knees);
    }
    let flat = Truth { cost_ns: [0.0, 0.0], ..TWO_LEVELS };
    assert!(judge(&walks(lines(&flat, 1.0))).huge_translation_share.reason().is_some());
    assert!(judge(&walks(Vec::new())).huge_translation_share.reason().is_some());
}

#[test]
fn there_are_always_three_sentences() {
    let list = TlbPath::List { order: AccessOrder::Random, npad: 7 };
    let pair = |base: f64, huge: f64| {
        vec![
            point(list, PageKind::Base, 1 << 20, &[base; 10]),
            point(list, PageKind::Thp, 1 << 20, &[huge; 10]),
        ]
    };
    for points in [Vec::new(), pair(100.0, 80.0), pair(100.0, 100.0), lines(&TWO_LEVELS, 0.0)] {
        let advice = judge(&walks(points)).advice;
        assert_eq!(advice.len(), 3);
        assert!(advice.iter().all(|s| s.ends_with('.') && s.len() > 30), "{advice:?}");
    }
    let gain = judge(&walks(pair(100.0, 80.0))).advice;
    assert!(gain[0].contains("64.0 MiB") && gain[0].contains("20%"), "{gain:?}");
    let none = judge(&walks(pair(100.0, 100.0))).advice;
    assert!(none[0].starts_with("Do not expect"), "{none:?}");
}
