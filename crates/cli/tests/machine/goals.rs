//! Memory as a goal and allocators as a remedy, on programs with known memory and known time in malloc
//! (`tests/programs/mallocs.c`).

use crate::helper::{Place, compile, experiment, said};
use pagewise_kernel::{linker_cache, thp};
use pagewise_model::machine::SmallFolios;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// The program. `None`, after a `SKIP` line, without a compiler.
fn built(place: &Place, test: &str) -> Option<PathBuf> {
    let to = place.path().join("mallocs");
    let is_built = compile("mallocs.c", &["-O1", "-pthread"], &to);
    if !is_built {
        println!("SKIP {test}: no C compiler");
    }
    is_built.then_some(to)
}

/// A session of `tune` with these options and this command, as JSON.
fn tuned(place: &Place, options: &[&str], command: &[&str]) -> Option<Value> {
    let done = experiment(|| {
        let mut tune = place.pagewise(&["tune", "--json", "--quiet", "--budget", "60s"]);
        tune.args(options).arg("--").args(command);
        tune
    })?;
    let shown = said(&done.stdout);
    Some(serde_json::from_str(&shown).unwrap_or_else(|_| panic!("{shown}{}", said(&done.stderr))))
}

/// What the counter of an arm read in each of its runs.
fn counted(run: &Value, arm: &str) -> Vec<u64> {
    let blocks = run["experiment"]["blocks"].as_array().unwrap_or_else(|| panic!("{run:#}"));
    let points = blocks.iter().flat_map(|block| block["points"].as_array().unwrap());
    let of_arm = points.filter(|point| point["arm"] == arm);
    of_arm.map(|point| point["mechanism"].as_u64().unwrap()).collect()
}

fn verdict<'a>(run: &'a Value, arm: &str) -> &'a Value {
    let verdicts = run["experiment"]["verdicts"].as_array().unwrap_or_else(|| panic!("{run:#}"));
    verdicts.iter().find(|verdict| verdict["arm"] == arm).unwrap_or_else(|| panic!("{run:#}"))
}

#[test]
fn one_arena_gives_back_what_eight_keep() {
    let place = Place::new();
    let Some(program) = built(&place, "one_arena_gives_back_what_eight_keep") else { return };
    let command = [program.to_str().unwrap(), "arenas", "8", "10"];
    let options = ["--goal", "memory", "--guard", "time<+50%", "--only", "arenas=1"];
    let Some(run) = tuned(&place, &options, &command) else { return };
    let of = verdict(&run, "arenas=1");
    assert_eq!(of["word"], "keep", "{of:#}");
    let ratio = of["effect"]["ratio"].as_f64().unwrap();
    // 8 times 10 MiB become 10 MiB, plus a little for the program itself.
    assert!((0.1..0.4).contains(&ratio), "{ratio}");
    assert_eq!(run["experiment"]["design"]["quantity"], "memory");
    let receipt = run["receipt"]["environment"][0].as_str().unwrap();
    assert!(receipt.contains("glibc.malloc.arena_max=1"), "{receipt}");
    is_kept(&place);
}

/// The newest run's gain is applied, measured again, exported, pooled and reverted.
fn is_kept(place: &Place) {
    let run = |words: &[&str]| place.pagewise(words).output().unwrap();
    let env = place.path().join("kept.env");
    let applied = run(&["apply", "last", "--env-file", env.to_str().unwrap(), "--yes"]);
    assert!(applied.status.success(), "{applied:?}");
    let script = run(&["fleet", "script", "last", "--slurm", "--hosts", "3"]);
    let line = "pagewise tune --only arenas=1 --rerun-safe --wait 1h --json --quiet --goal memory \
                --guard 'time<+50%' --seed";
    assert!(said(&script.stdout).contains(line), "{script:?}");
    let again = run(&["recheck", "--quiet", "--json", "--budget", "60s"]);
    if said(&again.stderr).contains("another experiment runs") {
        return println!("SKIP recheck: {}", said(&again.stderr));
    }
    assert_eq!(again.status.code(), Some(0), "{again:?}");
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!((&again[0]["standing"], &again[0]["arm"]), (&"holds".into(), &"arenas=1".into()));
    let metrics = said(&run(&["export-metrics"]).stdout);
    let holds = metrics.lines().find(|line| line.starts_with("pagewise_receipt_holds{"));
    assert!(holds.is_some_and(|line| line.ends_with(" 1")), "{metrics}");
    let runs = place.path().join(".local/state/pagewise/runs");
    let merged = run(&["merge", runs.to_str().unwrap(), "--json"]);
    let merged: Value = serde_json::from_slice(&merged.stdout).unwrap();
    assert_eq!((&merged[0]["word"], &merged[0]["pooled"]["hosts"]), (&"keep".into(), &2.into()));
    assert!(run(&["apply", "--undo"]).status.success() && !env.exists());
}

#[test]
fn time_in_malloc_is_seen_and_another_allocator_is_loaded() {
    let place = Place::new();
    let Some(program) = built(&place, "time_in_malloc_is_seen") else { return };
    let command = [program.to_str().unwrap(), "spin", "600000"];
    let Some(run) = tuned(&place, &["--advise"], &command) else { return };
    let costs = run["diagnosis"]["costs"].as_array().unwrap();
    match costs.iter().find(|cost| cost["kind"] == "malloc") {
        Some(cost) => assert!(cost["time_share"].as_f64().unwrap() > 0.5, "{cost:#}"),
        None => println!("SKIP time_in_malloc_is_seen: {}", run["look"]["user"]),
    }
    let Some(library) = linker_cache::allocators().into_iter().next() else {
        println!("SKIP time_in_malloc_is_seen: no other allocator is installed");
        return;
    };
    let loaded = place
        .pagewise(&["run", "--with", "allocator", "--", "cat", "/proc/self/maps"])
        .env("LD_PRELOAD", "/nonexistent/first.so")
        .output()
        .unwrap();
    let name = library.path.rsplit('/').next().unwrap();
    assert!(said(&loaded.stdout).contains(name), "{}", said(&loaded.stdout));
    assert_eq!(loaded.status.code(), Some(0));
}

#[test]
fn a_heap_on_small_folios_races() {
    const TEST: &str = "a_heap_on_small_folios_races";
    let place = Place::new();
    let Some(program) = built(&place, TEST) else { return };
    let words = || thp::word(thp::root(), SmallFolios::SIZE).ok();
    let before = words();
    let may_set = rustix::process::geteuid().is_root() && before.is_some();
    if !may_set || thp::enabled().ok().as_deref() != Some("madvise") {
        return println!("SKIP {TEST}: small folios cannot be switched on for heaps here");
    }
    let command = [program.to_str().unwrap(), "grow", "64"];
    let options = ["--system", "--only", "heap-mthp"];
    let Some(run) = tuned(&place, &options, &command) else { return };
    // 64 MiB of small blocks are 1024 folios; glibc 2.36 applies its tunable in most starts, not in all.
    let folios = counted(&run, "heap-mthp");
    assert!(folios.iter().any(|folios| *folios >= 512), "{folios:?}");
    assert_ne!(verdict(&run, "heap-mthp")["word"], "not_tried");
    assert_eq!(words(), before, "the switches are as they were");
}

#[test]
fn the_pools_of_python_race_against_an_allocator() {
    const TEST: &str = "the_pools_of_python_race_against_an_allocator";
    let place = Place::new();
    let Some(library) = linker_cache::allocators().into_iter().next() else {
        return println!("SKIP {TEST}: no other allocator is installed");
    };
    let own = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let Some(own) = own.ok().filter(|own| own.status.success()) else {
        return println!("SKIP {TEST}: no python3");
    };
    let python = said(&own.stdout).trim().to_owned();
    let named = linker_cache::ALLOCATORS.iter().find(|k| k.allocator == library.allocator);
    let arm = format!("allocator={}+python", named.unwrap().name);
    let command = [&python, "-c", "x = [str(i) for i in range(1000000)]"];
    let options = ["--goal", "memory", "--guard", "time<+300%"];
    let Some(run) = tuned(&place, &options, &command) else { return };
    let opened = counted(&run, &arm);
    assert!(!opened.is_empty() && opened.iter().all(|opened| *opened == 1), "{opened:?}");
    assert_ne!(verdict(&run, &arm)["word"], "not_tried");
    let candidates = run["candidates"].as_array().unwrap();
    let why = |name: &str| {
        let one = candidates.iter().find(|candidate| candidate["remedy"] == name).unwrap();
        one["why"].as_str().unwrap().to_owned()
    };
    match run["memory"].is_object() {
        // Its strings stay in its own pools until the end.
        true => assert!(why("trim").contains("it could gain at most"), "{}", why("trim")),
        false => println!("SKIP {TEST}: {}", run["warnings"]),
    }
}

#[test]
fn goals_and_guards_that_do_not_fit_are_refused() {
    let place = Place::new();
    for (options, expected) in [
        (["--goal", "p99"], "use time, cpu, memory"),
        (["--guard", "p99<+20%"], "use NAME<+N% with time, cpu, memory"),
        (["--guard", "errors=0"], "use NAME<+N% with time, cpu, memory"),
    ] {
        let done = place.pagewise(&["tune"]).args(options).args(["--", "true"]).output().unwrap();
        assert_eq!(done.status.code(), Some(2));
        assert!(said(&done.stderr).contains(expected), "{}", said(&done.stderr));
    }
}
