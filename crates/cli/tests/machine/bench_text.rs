//! `bench text` on this machine: measured, proven, kept, drawn; and ended early.

use crate::helper::{
    Place, await_gone, compile, experiment, interrupt, interrupted, only_turn, said,
};
use pagewise_model::Fact;
use pagewise_model::bench::text_load::TextLoadReport;
use pagewise_model::bench::tlb::PageKind;
use pagewise_model::body::{BenchReport, RunBody};
use pagewise_model::run::SavedRun;
use std::process::Command;

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
fn misses_of_a_program_are_estimated_from_its_steps() {
    let _turn = only_turn();
    let place = Place::new();
    let program = ["awk", "BEGIN { while (i++ < 3000000) s += i }"];
    let words = [&["bench", "text", "--json", "--rerun-safe", "--pairs=8", "--"][..], &program];
    let Some(done) = experiment(|| place.pagewise(&words.concat())) else { return };
    let run = SavedRun::from_json(&done.stdout).unwrap();
    let Some(RunBody::TextTrial(trial)) = run.body else { panic!("{}", said(&done.stderr)) };
    match &trial.estimate {
        Fact::Known(found) => {
            assert!(found.bursts >= 5 && found.instructions >= 50_000, "{found:?}");
            assert!(found.base.low <= found.base.per_1000, "{found:?}");
            assert!(found.base.per_1000 < 2.0 && found.huge.per_1000 < 0.5, "a loop: {found:?}");
        }
        Fact::Missing(why) => {
            println!("SKIP misses_of_a_program_are_estimated_from_its_steps: {why}")
        }
    }
    assert!(!said(&done.stdout).contains("\"stepped\""), "the steps are not saved");
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

/// A session that measures throughput. `None`, after a `SKIP` line, where code cannot be on huge pages.
fn throughput(make: impl Fn() -> Command) -> Option<TextLoadReport> {
    let done = experiment(make)?;
    if done.status.code() == Some(2) && said(&done.stderr).contains("be put on huge pages") {
        println!("SKIP bench text under load: no huge pages: {}", said(&done.stderr));
        return None;
    }
    assert_eq!(done.status.code(), Some(0), "{}", said(&done.stderr));
    let run = SavedRun::from_json(&done.stdout).unwrap();
    let Some(RunBody::Bench(BenchReport::TextLoad(load))) = run.body else { panic!("no load") };
    assert_eq!(load.off_huge_bytes.0, 0, "{load:?}");
    assert!(load.on_huge_bytes.0 > 0 && load.rounds_ns.0 > 0, "{load:?}");
    for pair in load.points.iter().flat_map(|point| &point.pairs) {
        for window in [pair.off, pair.on] {
            assert!(window.rate_per_second > 0.0 && window.cpu_ns > 0.0, "{pair:?}");
        }
    }
    Some(load)
}

/// The service with 7 MiB more of code, and its load with as many connections as clients.
fn service(place: &Place) -> Option<[String; 2]> {
    let wide = place.path().join("wide.s");
    std::fs::write(&wide, ".text\n.fill 7340032, 1, 0x90\n.section .note.GNU-stack\n").unwrap();
    let at = |name: &str| place.path().join(name);
    let options = ["-O2", "-pthread", wide.to_str().unwrap()];
    let built =
        compile("served.c", &options, &at("served")) && compile("shoot.c", &["-O2"], &at("shoot"));
    if !built {
        println!("SKIP bench text --clients: no C compiler");
        return None;
    }
    let serve = format!("{} {{port}} --heap 4 --cost 100", at("served").display());
    let load = format!("{} {{port}} 2000 --connections {{clients}}", at("shoot").display());
    Some([serve, load])
}

#[test]
fn servers_are_loaded_by_numbers_of_clients() {
    let _turn = only_turn();
    let place = Place::new();
    let Some([serve, load]) = service(&place) else { return };
    let session = |more: &[&str]| {
        let mut command = place.pagewise(&["bench", "text", "--ready=tcp:{port}"]);
        let metric = r"--metric=regex:requests (?<requests>\d+) errors (?<errors>\d+)";
        command.args(["--serve", &serve, "--load", &load, metric]).args(more);
        command.args(["--warmup=1s", "--budget=1s"]);
        command
    };
    let in_turn = ["--clients=3,1,3", "--in-turn", "--disturb", "--json"];
    let Some(done) = throughput(|| session(&in_turn)) else { return };
    let sizes: Vec<(u32, bool)> = done.points.iter().map(|one| (one.size, one.disturbed)).collect();
    assert_eq!(sizes, [(1, false), (3, false), (1, true), (3, true)]);
    assert!(done.points.iter().all(|point| point.pairs.len() == 2), "{done:?}");
    if done.cpus > 1 {
        let Some(once) = throughput(|| session(&["--clients=100%", "--json"])) else { return };
        assert_eq!((once.at_once, once.points[0].size), (true, done.cpus / 2));
    }
    if let Some(stopped) = interrupt(|| session(&["--clients=1"]), "clients: 1, off and on") {
        assert_eq!(stopped.status.code(), Some(130), "{}", said(&stopped.stderr));
    }
    assert!(await_gone(&place), "left: {:?}", place.alive());
    assert!(place.scratches().is_empty(), "{:?}", place.scratches());
}

#[test]
fn copies_of_a_program_run_at_once() {
    let _turn = only_turn();
    let place = Place::new();
    let wide = place.path().join("wide");
    if !compile("wide_text.c", &["-O2"], &wide) {
        println!("SKIP bench text --jobs: no C compiler");
        return;
    }
    let session = |words: &[&str]| {
        let mut command = place.pagewise(&["bench", "text", "--jobs=1,2", "--json"]);
        command.args(["--input=/dev/null", "--budget=1s"]).args(words);
        command
    };
    let wide = wide.to_str().unwrap();
    let Some(done) = throughput(|| session(&["--", wide])) else { return };
    assert_eq!(done.points.iter().map(|point| point.size).collect::<Vec<_>>(), [1, 2]);
    let Some(small) = experiment(|| session(&["--", "true"])) else { return };
    assert_eq!(small.status.code(), Some(2));
    assert!(said(&small.stderr).contains("cannot be put on huge pages"), "{}", said(&small.stderr));
    assert!(place.scratches().is_empty(), "{:?}", place.scratches());
}
