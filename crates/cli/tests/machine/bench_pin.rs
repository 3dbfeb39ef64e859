//! `bench pin` on this machine: measured, proven, kept, drawn; and as a user without rights.

use crate::helper::{PROGRAM, Place, experiment, install, interrupted, only_turn, said};
use pagewise_model::bench::pin::PinWay;
use pagewise_model::bench::tlb::PageKind;
use pagewise_model::body::{BenchReport, RunBody};
use pagewise_model::run::SavedRun;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const WORDS: [&str; 6] =
    ["bench", "pin", "--quick", "--pages=base,thp", "--size=4K,64K", "--repeats=2"];

#[test]
fn pins_are_measured_kept_and_drawn() {
    let _turn = only_turn();
    let place = Place::new();
    let file = |name: &str| place.path().join(name).display().to_string();
    let (csv, html) = (file("a.csv"), file("a.html"));
    let more = ["--json", "--csv", &csv, "--chart", &html];
    let Some(done) = experiment(|| place.pagewise(&[&WORDS[..], &more].concat())) else { return };
    if done.status.code() == Some(3) {
        println!("SKIP pins_are_measured_kept_and_drawn: {}", said(&done.stderr));
        return;
    }
    assert_eq!(done.status.code(), Some(0), "{}", said(&done.stderr));
    assert!(said(&done.stderr).contains("2 fresh mappings of each"), "{}", said(&done.stderr));
    let run = SavedRun::from_json(&done.stdout).unwrap();
    let Some(RunBody::Bench(BenchReport::Pin(pins))) = run.body else { panic!("no pins") };
    let base = pins.points.iter().filter(|point| point.pages == PageKind::Base);
    for point in base.filter(|point| point.refused.is_none()) {
        assert_eq!(point.page_bytes.known(), Some(&pins.base_page_bytes), "{point:?}");
        assert_eq!(point.samples.len(), 2, "{point:?}");
    }
    let missing: Vec<PinWay> = pins.missing_ways.iter().map(|missing| missing.way).collect();
    for way in PinWay::ALL {
        let is_there = pins.points.iter().any(|point| point.way == way);
        assert_ne!(is_there, missing.contains(&way), "{way:?}");
    }
    let rows: usize = pins.points.iter().map(|point| point.samples.len().max(1)).sum();
    assert_eq!(std::fs::read_to_string(&csv).unwrap().lines().count(), 1 + rows);
    assert_eq!(pins.judgement.unwrap().advice.len(), 3);
    assert!(std::fs::read_to_string(&html).unwrap().contains("</html>"));
    let shown = place.pagewise(&["show", &run.id]).output().unwrap();
    assert!(said(&shown.stdout).contains("\n  do     "), "{}", said(&shown.stdout));
    let refused = place.pagewise(&["bench", "pin", "--size", "3K"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused.stderr));
}

#[test]
fn without_rights_what_is_missing_is_named() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP without_rights_what_is_missing_is_named: only root can become another user");
        return;
    }
    let _turn = only_turn();
    let dir = tempfile::Builder::new().prefix("pagewise-pin-").tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let program = dir.path().join("pagewise");
    install(Path::new(PROGRAM), &program);
    let ran = experiment(|| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
        command.args(WORDS).args(["--json", "--quiet"]).current_dir(dir.path());
        command.env("HOME", dir.path()).env_remove("XDG_STATE_HOME");
        command
    });
    let Some(done) = ran else { return };
    if done.status.code() == Some(3) {
        println!("SKIP without_rights_what_is_missing_is_named: {}", said(&done.stderr));
        return;
    }
    assert_eq!(done.status.code(), Some(0), "{}", said(&done.stderr));
    let Some(RunBody::Bench(BenchReport::Pin(pins))) =
        SavedRun::from_json(&done.stdout).unwrap().body
    else {
        panic!("no pins")
    };
    let kernel = pins.missing_ways.iter().find(|missing| missing.way == PinWay::GupTest).unwrap();
    assert!(kernel.why.contains("gup_test") && !kernel.next.is_empty(), "{kernel:?}");
    assert!(pins.points.iter().any(|point| !point.samples.is_empty()));
}

#[test]
fn what_is_known_is_reported_when_it_ends_early() {
    let _turn = only_turn();
    let place = Place::new();
    let words = ["bench", "pin", "--pages=base", "--repeats=1000"];
    let _done = interrupted(|| place.pagewise(&words), "fresh mappings of each");
}
