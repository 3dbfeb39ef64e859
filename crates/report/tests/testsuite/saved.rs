//! Every kind of run is restored from its saved form. Its body keeps the name that other programs read it by.

use crate::support::{
    PLAIN, bench_of, code, doctor, faults, file, first_touch, jump, ladder, pin, profile, walk,
};
use pagewise_model::bench::fork::ForkBenchReport;
use pagewise_model::body::{BenchReport, RunBody};
use pagewise_model::cache_list::CacheRestore;
use pagewise_model::run::{RunKind, SavedRun};
use pagewise_model::text_trial::TextTrial;
use pagewise_model::units::PageSize;
use pagewise_model::{Bytes, Fact};
use pagewise_report::{headline, render};

fn restored() -> SavedRun {
    let done = CacheRestore {
        files: Vec::new(),
        read_bytes: Bytes(1),
        limit_bytes: Bytes(2),
        rate_bytes: None,
        ended_early: None,
        interrupted: true,
    };
    let mut run = SavedRun::new(RunKind::Cache, String::new(), 0, Vec::new());
    run.body = Some(RunBody::CacheRestore(done));
    run
}

fn forks() -> SavedRun {
    let mut run = bench_of("fork", "f-0001");
    run.body = Some(RunBody::Bench(BenchReport::Fork(ForkBenchReport {
        seed: 1,
        repeats: 2,
        quick: true,
        cpu: 0,
        base_page_bytes: PageSize::BASE_4K,
        huge_page_bytes: PageSize::PMD_2M,
        points: Vec::new(),
        unavailable: Vec::new(),
        judgement: None,
    })));
    run
}

fn text_trial() -> SavedRun {
    let none = || Fact::missing("no counters here");
    let mut run = bench_of("text", "x-0002");
    run.body = Some(RunBody::TextTrial(TextTrial {
        pairs: 1,
        files: Vec::new(),
        left: Vec::new(),
        off_walks: none(),
        on_walks: none(),
        off_misses: Fact::missing("no counters here"),
        on_misses: Fact::missing("no counters here"),
        estimate: Fact::missing("not stepped"),
    }));
    run
}

#[test]
fn every_body_comes_back_under_its_name() {
    let all = [
        ("checkup", doctor()),
        ("faults", faults::run()),
        ("profile", profile::run(profile::profile())),
        ("cache", code::cache_run(code::cached())),
        ("cache_restore", restored()),
        ("text", code::text_run(code::explained())),
        ("text_trial", text_trial()),
        ("bench_pipe", ladder::bench(ladder::ladder())),
        ("bench_tlb", walk::bench(walk::walks())),
        ("bench_memory", first_touch::bench(first_touch::touches())),
        ("bench_file", file::bench(file::readings())),
        ("bench_pin", pin::bench(pin::pins())),
        ("bench_fork", forks()),
        ("bench_text", jump::bench(jump::jumps())),
        ("bench_text_load", crate::text_load::bench(crate::text_load::loaded())),
    ];
    for (name, run) in all {
        let saved: serde_json::Value = serde_json::from_str(&run.to_json()).unwrap();
        assert!(saved[name].is_object(), "{name}: {saved}");
        // Its last digits may differ: the parser may be off by one unit in the last place.
        let again = SavedRun::from_json(run.to_json().as_bytes()).unwrap();
        assert!(run.body.is_some(), "{name}");
        assert_eq!(headline(&again), headline(&run), "{name}");
        assert_eq!(render(&again, &PLAIN), render(&run, &PLAIN), "{name}");
    }
}

#[test]
fn benches_of_schema_5_are_read_under_their_former_keys() {
    let former = [
        ("bench_pipe", "ladder", ladder::bench(ladder::ladder())),
        ("bench_tlb", "walks", walk::bench(walk::walks())),
        ("bench_memory", "first_touch", first_touch::bench(first_touch::touches())),
        ("bench_file", "readings", file::bench(file::readings())),
        ("bench_pin", "pins", pin::bench(pin::pins())),
        ("bench_fork", "forks", forks()),
        ("bench_text", "jumps", jump::bench(jump::jumps())),
    ];
    for (name, old, run) in former {
        let mut saved: serde_json::Value = serde_json::from_str(&run.to_json()).unwrap();
        let bench = saved.as_object_mut().unwrap().remove(name).unwrap();
        saved[old] = bench;
        saved["schema"] = 5.into();
        let again = SavedRun::from_json(saved.to_string().as_bytes()).unwrap();
        assert_eq!(render(&again, &PLAIN), render(&run, &PLAIN), "{old}");
    }
}
