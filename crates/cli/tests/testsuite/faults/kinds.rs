//! Kinds of memory, threads and exits with known faults.

use super::*;
use std::collections::{HashMap, HashSet};

fn has(seen: &Seen, label: &str) -> bool {
    seen.labels.iter().any(|one| one == label)
}

#[test]
fn shared_memory_and_a_copy_of_a_file_take_a_fault_for_each_page_written() {
    for how in ["shared", "file"] {
        each_of(how, |run| {
            assert_eq!(run.within.len() as u64, PAGES, "{how}");
            if tells_sizes(run) {
                assert_eq!(run.count(|f| f.cause == "absent"), PAGES, "{how}");
            }
            // A shared page, or one that did not exist before, is not copied on a write.
            assert_eq!(run.count(|f| has(f, "copy_on_write")), 0, "{how}");
        });
    }
}

#[test]
fn faults_in_a_signal_handler_are_like_others() {
    each_of("in-handler", |run| {
        assert_eq!(run.within.len() as u64, PAGES);
        assert!(run.within.iter().all(|f| f.paired && f.served == "minor"));
    });
}

#[test]
fn a_program_that_dies_in_a_fault_leaves_that_one_unserved() {
    each_of("dies", |run| {
        assert_eq!(run.done.status.signal(), Some(Signal::SEGV.as_raw()));
        assert_eq!(run.count(|f| f.served == "minor" && f.paired), PAGES);
        assert_eq!(run.count(|f| f.served == "no" && !f.paired), 1);
        assert!(run.number("/account/failed_faults/known") >= 1);
    });
}

#[test]
fn every_program_of_a_chain_is_one_of_one_process() {
    each("chain", &["chain", &PAGES.to_string(), "10"], |run| {
        assert_eq!(run.within.len() as u64, PAGES);
        assert_eq!((run.number("/executed"), run.number("/processes")), (11, 1));
    });
}

#[test]
fn many_threads_on_few_processors_lose_nothing() {
    each("many threads", &["threads", &PAGES.to_string(), "64"], |run| {
        assert_eq!(run.within.len() as u64, 64 * PAGES);
        assert!(run.within.iter().all(|f| f.paired));
        assert_eq!(run.number("/unpaired_ends"), 0);
    });
}

#[test]
fn records_that_find_no_room_are_counted() {
    let Some(programs) = Programs::get() else { return };
    let place = programs.open_dir();
    let saved = place.path().join("run.json");
    let words = ["threads", &PAGES.to_string(), "64"];
    let wanted = programs.command(None, &["--save", saved.to_str().unwrap()], &words);
    let mut little = Command::new("sh");
    little.args(["-c", "ulimit -l 64 && exec \"$@\"", "sh"]).arg(wanted.get_program());
    little.args(wanted.get_args()).env("HOME", place.path()).env_remove("XDG_STATE_HOME");
    if rustix::process::geteuid().is_root() {
        little.uid(NOBODY).gid(NOBODY);
    }
    let done = little.output().unwrap();
    if refused("little locked memory", &done) {
        return;
    }
    let report: Value = serde_json::from_slice(&std::fs::read(saved).unwrap()).unwrap();
    let number = |key: &str| report["faults"].pointer(key).and_then(Value::as_u64).unwrap();
    let lost = number("/lost_records");
    let starts = number("/total/faults");
    let ends = starts - number("/unpaired_begins") + number("/unpaired_ends");
    let all = 2 * 64 * PAGES;
    assert!((all..all + 2000).contains(&(starts + ends + lost)), "{starts} + {ends} + {lost}");
    let text = said(&done.stderr);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(text.contains("a higher ulimit -l"), lost > 0, "{text}");
}

#[test]
fn only_faults_of_several_threads_on_a_page_are_raced() {
    each("race", &["race", &PAGES.to_string(), "8"], |run| {
        let mut threads: HashMap<u64, HashSet<i64>> = HashMap::new();
        for seen in &run.within {
            threads.entry(seen.page).or_default().insert(seen.tid);
        }
        assert_eq!(threads.len() as u64, PAGES);
        assert!(run.within.iter().all(|f| f.paired));
        let raced = run.within.iter().filter(|f| has(f, "raced"));
        assert!(raced.clone().all(|f| threads[&f.page].len() > 1));
        if threads.values().any(|tids| tids.len() > 1) && raced.count() == 0 {
            println!("SKIP part of race: no two faults overlapped");
        }
        let total = run.number("/total/raced_faults");
        assert!(total >= run.count(|f| has(f, "raced")).cast_signed());
    });
}

#[test]
fn without_latency_every_fault_is_there_and_no_time() {
    for user in users() {
        let words = ["write", &PAGES.to_string()];
        let Some(run) = run_with("no-latency", user, &["--no-latency"], &words) else { continue };
        assert_eq!(run.within.len() as u64, PAGES);
        assert!(run.within.iter().all(|f| !f.paired && f.served == "unknown"));
        assert!(run.report["latency"]["missing"].as_str().unwrap().contains("--no-latency"));
        assert_eq!((run.number("/total/time_ns"), run.number("/unpaired_ends")), (0, 0));
        if cfg!(target_arch = "x86_64") {
            assert_eq!(run.count(|f| f.access == "write"), PAGES);
        }
    }
}

#[test]
fn the_processors_word_is_used_where_it_may_be_read() {
    let readable = std::fs::metadata("/sys/kernel/tracing/events/exceptions").is_ok();
    for user in users() {
        let words = ["read-write", &PAGES.to_string()];
        let Some(run) = run("error codes", user, &words) else { continue };
        let used = run.report["has_error_codes"].as_bool().unwrap();
        let is_root = user.is_none() && rustix::process::geteuid().is_root();
        assert!(!used || run.sees_kernel());
        if is_root && readable && cfg!(target_arch = "x86_64") && run.sees_kernel() {
            assert!(used, "{}", run.report["step"]);
            // If the kernel touched a page for the program, its access and cause are known.
            assert!(run.within.iter().all(|f| f.access != "unknown" && f.cause != "unknown"));
        } else {
            println!("SKIP error codes: they may not be read");
        }
    }
}

#[test]
fn code_of_the_vdso_is_known_although_the_program_has_ended() {
    let (test, place) = ("code_of_the_vdso", Place::new());
    let done = place.pagewise(&["faults", "--format", "json", "--", "date"]).output().unwrap();
    if refused(test, &done) {
        return;
    }
    let list = said(&done.stdout);
    let faults: Vec<Value> = list.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let in_vdso: Vec<&Value> = faults.iter().filter(|f| f["function_path"] == "[vdso]").collect();
    if in_vdso.is_empty() {
        println!("SKIP {test}: nothing in it faulted");
    } else if cfg!(target_arch = "x86_64") {
        assert!(in_vdso.iter().all(|f| f["access"] != "unknown"), "{in_vdso:?}");
    }
}
