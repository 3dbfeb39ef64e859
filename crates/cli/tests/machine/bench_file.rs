//! `bench file` on this machine: read, proven, kept, drawn; bad input; and ended early.

use crate::helper::{Place, await_gone, experiment, interrupted, only_turn, said};
use pagewise_model::body::{BenchReport, RunBody};
use pagewise_model::run::SavedRun;
use std::process::Command;

fn bench<'a>(place: &Place, words: &[&'a str]) -> Command {
    let always: [&'a str; 4] = ["bench", "file", "--cache=warm", "--quick"];
    place.pagewise(&[&always, words].concat())
}

#[test]
fn readings_are_measured_kept_and_drawn() {
    let _turn = only_turn();
    let place = Place::new();
    let file = |name: &str| place.path().join(name).display().to_string();
    let (csv, svg, html) = (file("a.csv"), file("a.svg"), file("a.html"));
    let dir = place.path().display().to_string();
    let words = [
        "--size=8M",
        "--dir",
        &dir,
        "--block=16K",
        "--repeats=1",
        "--only=blocks,passes",
        "--passes=2",
        "--json",
        "--csv",
        &csv,
        "--chart",
        &svg,
    ];
    let Some(done) = experiment(|| bench(&place, &words)) else { return };
    assert_eq!(done.status.code(), Some(0), "{}", said(&done.stderr));
    assert!(said(&done.stderr).contains("33 cells, 33 fresh processes"), "{}", said(&done.stderr));
    let run = SavedRun::from_json(&done.stdout).unwrap();
    let Some(RunBody::Bench(BenchReport::File(readings))) = run.body else { panic!("no readings") };
    assert_eq!(readings.points.len(), 15 + 14 + 4);
    for point in &readings.points {
        assert_eq!((point.samples.len(), &point.refused), (1, &None), "{point:?}");
    }
    let judgement = readings.judgement.unwrap();
    assert_eq!((judgement.refusals.len(), judgement.advice.len()), (0, 3));
    assert_eq!(judgement.accounts.len(), 33, "all have one thread");
    assert!(judgement.claims.len() >= 5, "{:?}", judgement.claims);
    assert_eq!(std::fs::read_to_string(&csv).unwrap().lines().count(), 1 + 33);
    assert!(std::fs::read_to_string(&svg).unwrap().contains("</svg>"));
    let shown = place.pagewise(&["show", &run.id]).output().unwrap();
    assert!(said(&shown.stdout).contains("\n  do     "), "{}", said(&shown.stdout));
    let words = ["--block=513", "--chart", &html];
    assert_eq!(bench(&place, &words).output().unwrap().status.code(), Some(2));
}

#[test]
fn written_blocks_are_measured_and_leave_nothing() {
    let _turn = only_turn();
    let place = Place::new();
    let dir = place.path().display().to_string();
    let csv = place.path().join("a.csv");
    let words = ["bench", "file", "--write", "--size=8M", "--block=16K", "--repeats=1", "--json"];
    let done = experiment(|| {
        let mut command = place.pagewise(&words);
        command.args(["--dir", &dir, "--csv"]).arg(&csv);
        command
    });
    let Some(done) = done else { return };
    assert_eq!(done.status.code(), Some(0), "{}", said(&done.stderr));
    let run = SavedRun::from_json(&done.stdout).unwrap();
    let Some(RunBody::Bench(BenchReport::File(readings))) = run.body else { panic!("no readings") };
    assert_eq!(readings.points.len(), 2 * 4);
    let judgement = readings.judgement.as_ref().unwrap();
    assert_eq!((judgement.refusals.len(), judgement.claims.len()), (0, 3), "{judgement:?}");
    let csv = std::fs::read_to_string(csv).unwrap();
    for way in ["write", "write-fsync", "mmap-write", "mmap-write-msync"] {
        assert_eq!(
            csv.lines().filter(|line| line.contains(&format!(",{way},"))).count(),
            2,
            "{csv}"
        );
    }
    let left: Vec<_> = std::fs::read_dir(place.path()).unwrap().flatten().collect();
    assert!(!left.iter().any(|f| f.file_name().to_string_lossy().contains("file")), "{left:?}");
    let mine = place.path().join("mine");
    std::fs::write(&mine, vec![1; 1 << 20]).unwrap();
    let refused = place.pagewise(&["bench", "file", "--write", "--file"]).arg(&mine).output();
    assert_eq!(refused.unwrap().status.code(), Some(2));
    assert!(std::fs::read(&mine).unwrap().iter().all(|byte| *byte == 1));
}

#[test]
fn what_cannot_be_read_is_one_line() {
    let _turn = only_turn();
    let place = Place::new();
    let small = place.path().join("small");
    std::fs::write(&small, "a few bytes").unwrap();
    let dir = place.path().display().to_string();
    for (path, why) in [
        (dir.as_str(), "is a directory"),
        (small.to_str().unwrap(), "less than one block"),
        ("/nonexistent", "cannot be opened"),
        ("/dev/null", "is not a regular file"),
    ] {
        let done = bench(&place, &["--file", path]).output().unwrap();
        let reported = said(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{reported}");
        assert!(
            reported.lines().count() == 2 && reported.contains(why) && reported.contains("help: "),
            "{reported}"
        );
    }
    let large = bench(&place, &["--size=1048576G"]).output().unwrap();
    assert_eq!(large.status.code(), Some(3), "{}", said(&large.stderr));
    assert!(said(&large.stderr).contains("no space for a file"), "{}", said(&large.stderr));
}

#[test]
fn what_is_known_is_reported_when_it_ends_early() {
    let _turn = only_turn();
    let place = Place::new();
    let dir = place.path().display().to_string();
    let words = ["--size=8M", "--dir", &dir, "--repeats=1000"];
    if interrupted(|| bench(&place, &words), "fresh processes").is_none() {
        return;
    }
    assert!(await_gone(&place), "a reader was left behind");
    let left: Vec<_> = std::fs::read_dir(place.path()).unwrap().flatten().collect();
    let files = left.iter().filter(|entry| entry.file_name().to_string_lossy().contains("file"));
    assert_eq!(files.count(), 0, "{left:?}");
}
