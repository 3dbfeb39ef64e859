//! `bench memory` on this machine: measured, proven, kept, drawn; and ended early.

use crate::helper::{Place, experiment, interrupted, only_turn, said};
use pagewise_model::Fact;
use pagewise_model::bench::memory::MemoryBenchWay;
use pagewise_model::body::{BenchReport, RunBody};
use pagewise_model::run::SavedRun;
use std::process::Command;

fn bench<'a>(place: &Place, words: &[&'a str]) -> Command {
    let always: [&'a str; 4] = ["bench", "memory", "--only=on-demand,map-populate", "--size=2M"];
    place.pagewise(&[&always, words].concat())
}

#[test]
fn touches_are_measured_kept_and_drawn() {
    let _turn = only_turn();
    let place = Place::new();
    let file = |name: &str| place.path().join(name).display().to_string();
    let (csv, svg) = (file("a.csv"), file("a.svg"));
    let words = ["--repeats=2", "--threads=1", "--json", "--csv", &csv, "--chart", &svg];
    let Some(done) = experiment(|| bench(&place, &words)) else { return };
    assert_eq!(done.status.code(), Some(0), "{}", said(&done.stderr));
    assert!(said(&done.stderr).contains("3 points, 2 fresh mappings"), "{}", said(&done.stderr));
    let run = SavedRun::from_json(&done.stdout).unwrap();
    let Some(RunBody::Bench(BenchReport::Memory(touches))) = run.body else {
        panic!("no first touch")
    };
    let demand = touches.plain(MemoryBenchWay::OnDemand).unwrap();
    assert_eq!((demand.has_expected_faults(), demand.samples.len()), (Some(true), 2));
    assert_eq!(
        touches.plain(MemoryBenchWay::MapPopulate).unwrap().has_expected_faults(),
        Some(true)
    );
    assert_eq!(std::fs::read_to_string(&csv).unwrap().lines().count(), 1 + 3 * 2);
    assert_eq!(touches.judgement.unwrap().advice.len(), 3);
    assert!(std::fs::read_to_string(&svg).unwrap().contains("</svg>"));
    let shown = place.pagewise(&["show", &run.id]).output().unwrap();
    assert!(said(&shown.stdout).contains("\n  do     "), "{}", said(&shown.stdout));
}

#[test]
fn what_is_known_is_reported_when_it_ends_early() {
    let _turn = only_turn();
    let place = Place::new();
    let _done = interrupted(|| bench(&place, &["--repeats=1000"]), "1000 fresh mappings");
}

#[test]
fn memory_that_is_short_is_enough_to_know() {
    const TEST: &str = "memory_that_is_short_is_enough_to_know";
    let _turn = only_turn();
    let place = Place::new();
    let words = ["bench", "memory", "--only=pressure", "--json"];
    let Some(done) = experiment(|| place.pagewise(&words)) else { return };
    let Some(RunBody::Bench(BenchReport::Memory(touches))) =
        SavedRun::from_json(&done.stdout).unwrap().body
    else {
        panic!("no first touch")
    };
    if let Fact::Missing(why) = &touches.pressure {
        return println!("SKIP {TEST}: {why}");
    }
    assert_eq!((touches.points.len(), done.status.code()), (0, Some(0)), "{}", said(&done.stderr));
}
