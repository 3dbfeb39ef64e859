//! `bench tlb` on this machine: measured, proven, kept, drawn; and ended early.

use crate::helper::{Place, experiment, interrupted, only_turn, said};
use pagewise_model::bench::tlb::PageKind;
use pagewise_model::body::{BenchReport, RunBody};
use pagewise_model::run::SavedRun;
use std::process::Command;

fn bench<'a>(place: &Place, words: &[&'a str]) -> Command {
    let always: [&'a str; 6] =
        ["bench", "tlb", "--only=lists", "--npad=7", "--smallest=4K", "--order=random"];
    place.pagewise(&[&always, words].concat())
}

#[test]
fn walks_are_measured_kept_and_drawn() {
    let _turn = only_turn();
    let place = Place::new();
    let file = |name: &str| place.path().join(name).display().to_string();
    let (csv, svg, html) = (file("a.csv"), file("a.svg"), file("a.html"));
    let words = ["--largest=64K", "--repeats=2", "--json", "--csv", &csv, "--chart", &svg];
    let Some(done) = experiment(|| bench(&place, &words)) else { return };
    assert_eq!(done.status.code(), Some(0), "{}", said(&done.stderr));
    assert!(said(&done.stderr).contains("2 fresh mappings of each"), "{}", said(&done.stderr));
    let run = SavedRun::from_json(&done.stdout).unwrap();
    let Some(RunBody::Bench(BenchReport::Tlb(walks))) = run.body else { panic!("no walks") };
    let base = walks.points.iter().filter(|p| p.pages == PageKind::Base);
    let samples: Vec<usize> = base
        .map(|point| {
            assert_eq!(point.page_bytes.known(), Some(&walks.base_page_bytes), "{point:?}");
            point.samples.len()
        })
        .collect();
    assert_eq!(samples, [2; 5]);
    let rows: usize = walks.points.iter().map(|p| p.samples.len().max(1)).sum();
    assert_eq!(std::fs::read_to_string(&csv).unwrap().lines().count(), 1 + rows);
    assert_eq!(walks.judgement.unwrap().advice.len(), 3);
    assert!(std::fs::read_to_string(&svg).unwrap().contains("</svg>"));
    let shown = place.pagewise(&["show", &run.id]).output().unwrap();
    assert!(said(&shown.stdout).contains("\n  do     "), "{}", said(&shown.stdout));
    let words = ["--npad=5", "--chart", &html];
    assert_eq!(bench(&place, &words).output().unwrap().status.code(), Some(2));
}

#[test]
fn what_is_known_is_reported_when_it_ends_early() {
    let _turn = only_turn();
    let place = Place::new();
    let words = ["--largest=1M", "--repeats=1000"];
    let _done = interrupted(|| bench(&place, &words), "fresh mappings of each");
}
