//! Ratios that are known, and why they are not the same each time.

use super::*;
use pagewise_model::bench::tlb::{RatioSteadiness, TlbRatio};

const LIST: TlbPath = TlbPath::List { order: AccessOrder::Random, npad: 7 };

/// Ten pairs: the ratio with a deviation between mappings, and pieces that differ within a walk.
fn ratio(truth: f64, between: f64, within_share: f64) -> TlbRatio {
    let mut rng = Rng::new(5);
    let base: Vec<f64> = (0..10).map(|_| 50.0 * (between * rng.normal()).exp()).collect();
    let huge: Vec<f64> = (0..10).map(|_| 50.0 * truth * (between * rng.normal()).exp()).collect();
    let mut points = vec![
        point(LIST, PageKind::Base, 1 << 13, &base),
        point(LIST, PageKind::Thp, 1 << 13, &huge),
    ];
    for sample in points.iter_mut().flat_map(|p| &mut p.samples) {
        sample.within_share = within_share;
    }
    let ratios = judge(&walks(points)).ratios;
    assert_eq!(ratios.len(), 1, "{ratios:?}");
    ratios[0].clone()
}

#[test]
fn a_steady_ratio_is_what_it_is() {
    let found = ratio(0.8, 0.01, 0.01);
    assert_eq!((found.set_bytes, found.steadiness), (Bytes::kib(512), RatioSteadiness::Steady));
    assert!((found.ratio - 0.8).abs() < 0.02, "{found:?}");
    let (low, high) = *found.interval.known().unwrap();
    assert!(low <= 0.8 && 0.8 <= high, "{found:?}");
}

#[test]
fn mappings_that_differ_while_their_pieces_agree_are_placement() {
    assert_eq!(ratio(1.0, 0.15, 0.01).steadiness, RatioSteadiness::Placement);
}

#[test]
fn pieces_that_differ_as_much_are_a_disturbance() {
    assert_eq!(ratio(1.0, 0.15, 0.25).steadiness, RatioSteadiness::Disturbed);
}

#[test]
fn few_mappings_have_no_interval() {
    let points = vec![
        point(LIST, PageKind::Base, 1 << 10, &[10.0, 10.0]),
        point(LIST, PageKind::Pool, 1 << 10, &[9.0, 9.0]),
        point(LIST, PageKind::Thp, 1 << 11, &[9.0]),
    ];
    let ratios = judge(&walks(points)).ratios;
    assert_eq!(ratios.len(), 1, "a set without base pages has none: {ratios:?}");
    assert!(ratios[0].interval.reason().is_some() && (ratios[0].ratio - 0.9).abs() < 1e-9);
    assert_eq!((ratios[0].pages, ratios[0].steadiness), (PageKind::Pool, RatioSteadiness::Steady));
}
