//! `bench text` on this machine: measured, proven, kept, drawn; and ended early.

use crate::helper::{Place, experiment, interrupted, only_turn, said};
use pagewise_model::bench::tlb::PageKind;
use pagewise_model::body::{BenchReport, RunBody};
use pagewise_model::run::SavedRun;

#[test]
fn jumps_are_measured_kept_and_drawn() {
    let _turn = only_turn();
    let place = Place::new();
    let file = |name: &str| place.path().join(name).display().to_string();
    let (csv, svg) = (file("a.csv"), file("a.svg"));
    let words = [
        "bench",
        "text",
        "--only=sizes",
        "--largest=512K",
        "--repeats=2",
        "--json",
        "--csv",
        &csv,
        "--chart",
        &svg,
    ];
    let Some(done) = experiment(|| place.pagewise(&words)) else { return };
    if done.status.code() == Some(3) {
        println!("SKIP jumps_are_measured_kept_and_drawn: {}", said(&done.stderr));
        return;
    }
    assert_eq!(done.status.code(), Some(0), "{}", said(&done.stderr));
    assert!(said(&done.stderr).contains("2 fresh mappings of each"), "{}", said(&done.stderr));
    let run = SavedRun::from_json(&done.stdout).unwrap();
    let Some(RunBody::Bench(BenchReport::Text(jumps))) = run.body else { panic!("no jumps") };
    let base: Vec<_> = jumps.points.iter().filter(|p| p.pages == PageKind::Base).collect();
    assert!(base.iter().any(|p| p.jumps == 16) && base.iter().any(|p| p.jumps == 128));
    for point in base {
        assert_eq!(point.page_bytes.known(), Some(&jumps.base_page_bytes), "{point:?}");
        assert_eq!(point.samples.len(), 2, "{point:?}");
    }
    let huge = jumps.points.iter().filter(|p| p.pages == PageKind::Thp && p.refused.is_none());
    for point in huge {
        assert_eq!(point.page_bytes.known(), Some(&jumps.huge_page_bytes), "{point:?}");
    }
    let rows: usize = jumps.points.iter().map(|p| p.samples.len().max(1)).sum();
    assert_eq!(std::fs::read_to_string(&csv).unwrap().lines().count(), 1 + rows);
    assert_eq!(jumps.judgement.unwrap().advice.len(), 3);
    assert!(std::fs::read_to_string(&svg).unwrap().contains("</svg>"));
    let shown = place.pagewise(&["show", &run.id]).output().unwrap();
    assert!(said(&shown.stdout).contains("\n  do     "), "{}", said(&shown.stdout));
}

#[test]
fn what_makes_no_sense_is_reported() {
    let place = Place::new();
    let words = ["bench", "text", "--smallest=2M", "--largest=1M"];
    let refused = place.pagewise(&words).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused.stderr));
    assert!(said(&refused.stderr).contains("help:"), "{}", said(&refused.stderr));
}

#[test]
fn what_is_known_is_reported_when_it_ends_early() {
    let _turn = only_turn();
    let place = Place::new();
    let words = ["bench", "text", "--largest=1M", "--repeats=1000"];
    let _done = interrupted(|| place.pagewise(&words), "fresh mappings of each");
}
