//! `pagewise faults --exact` against programs whose touches are known. The working set that a recording saves
//! is tested on files proven cold.

use super::*;
use rustix::fs::{Advice, fadvise};
use std::fs::File;

const PAGES: usize = 256;

/// The program under test; `None` without a C compiler.
fn program() -> Option<PathBuf> {
    Some(Programs::get()?.path("faults"))
}

/// Records `words` with `options`. `None`, after a `SKIP` line, if that is refused here.
fn record(place: &Place, test: &str, options: &[&str], words: &[&str]) -> Option<Run> {
    let saved = place.path().join("run.json");
    let mut all = vec!["faults", "--format", "json", "--save", saved.to_str().unwrap()];
    all.extend(options);
    all.push("--");
    all.extend(words);
    let done = place.pagewise(&all).output().unwrap();
    if refused(test, &done) {
        return None;
    }
    let ranges = ranges(&said(&done.stderr));
    Some(read(test, done, &ranges, &saved))
}

#[test]
fn each_cached_page_of_a_file_is_a_fault_of_its_own() {
    let (test, place) = ("each_cached_page_of_a_file", Place::new());
    let Some(program) = program() else { return };
    let words = [program.to_str().unwrap(), "cached", &PAGES.to_string()];
    let Some(plain) = record(&place, test, &[], &words) else { return };
    let Some(exact) = record(&place, test, &["--exact"], &words) else { return };
    assert_eq!(exact.in_user_mode().count(), PAGES);
    if plain.in_user_mode().count() == PAGES {
        println!("SKIP {test}: this kernel maps no pages around a fault");
    } else {
        // 16 pages for each window.
        assert!(plain.in_user_mode().count() < PAGES / 8, "{}", plain.in_user_mode().count());
    }
    let descriptor = |run: &Run| {
        let text = said(&run.done.stderr);
        text.lines().find(|line| line.starts_with("descriptor ")).unwrap().to_owned()
    };
    assert_eq!(descriptor(&plain), descriptor(&exact));
    assert!(exact.report["exact"]["mappings"].as_u64().unwrap() > 3, "{}", exact.report["exact"]);
    assert_eq!(exact.report["exact"]["left_programs"].as_array().unwrap().len(), 0);
    assert!(plain.report["exact"].is_null());
}

#[test]
fn children_and_what_they_execute_are_seen_page_by_page_too() {
    let (test, place) = ("children_and_what_they_execute", Place::new());
    let Some(program) = program() else { return };
    let pages = PAGES.to_string();
    let program = program.to_str().unwrap();
    let words = [program, "cached-fork", &pages];
    let Some(forked) = record(&place, test, &["--exact"], &words) else { return };
    assert_eq!(forked.in_user_mode().count(), 2 * PAGES);
    let script = format!("{program} cached {pages}; exit 7");
    let started = record(&place, test, &["--exact"], &["sh", "-c", &script]).unwrap();
    assert_eq!((started.in_user_mode().count(), started.done.status.code()), (PAGES, Some(7)));
    let threads = record(&place, test, &["--exact"], &[program, "threads", &pages, "8"]).unwrap();
    assert_eq!(threads.in_user_mode().count(), 8 * PAGES);
    let handler = record(&place, test, &["--exact"], &[program, "handler", "20"]).unwrap();
    assert_eq!(handler.done.status.code(), Some(0), "{}", said(&handler.done.stderr));
}

#[test]
fn no_times_are_kept_and_none_can_be_asked_for() {
    let (test, place) = ("no_times_are_kept", Place::new());
    let refused = |options: &[&str]| {
        let words = [&["faults", "--exact"], options, &["--", "true"]].concat();
        place.pagewise(&words).output().unwrap().status.code()
    };
    assert_eq!(refused(&["--max-fault-time", "1s"]), Some(2));
    assert_eq!(refused(&["--format", "folded-ns"]), Some(2));
    let Some(seen) = record(&place, test, &["--exact"], &["true"]) else { return };
    let list = said(&seen.done.stdout);
    let faults: Vec<Value> = list.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!faults.is_empty() && faults.iter().all(|f| f["latency_ns"].is_null()));
    assert!(seen.report["latency"]["missing"].is_string(), "{}", seen.report["latency"]);
    assert_eq!(seen.report["total"]["time_ns"], 0);
    let whole = place.pagewise(&["faults", "--exact", "--verbose", "--", "true"]).output().unwrap();
    let text = said(&whole.stderr);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("no times are recorded") && !text.contains("of wall"), "{text}");
}

#[test]
fn status_signals_and_what_is_left_behind_are_the_programs_own() {
    let (test, place) = ("status_signals_and_what_is_left_behind", Place::new());
    let done = place.path().join("done");
    let script =
        format!("(sleep 0.1; echo > {}) & trap : USR1; kill -USR1 $$; exit 9", done.display());
    // Two threads of pagewise see the program end, and either may be first.
    for _ in 0..20 {
        let Some(seen) = record(&place, test, &["--exact"], &["sh", "-c", &script]) else { return };
        assert_eq!(seen.done.status.code(), Some(9));
        assert!(done.exists(), "what the program has left behind is waited for");
        std::fs::remove_file(&done).unwrap();
    }
    let seen = record(&place, test, &["--exact"], &["sh", "-c", "kill -TERM $$"]).unwrap();
    assert_eq!(seen.done.status.signal(), Some(Signal::TERM.as_raw()));
    let missing = place.pagewise(&["faults", "--exact", "--", "/nonexistent/x"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(127));
}

/// Drops a file's pages from the page cache.
fn evict(path: &Path) {
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
}

/// Major faults of a start of `words`.
fn major_faults(place: &Place, test: &str, words: &[&str]) -> Option<u64> {
    let seen = record(place, test, &[], words)?;
    assert_eq!(seen.done.status.code(), Some(0), "{}", said(&seen.done.stderr));
    seen.report["total"]["major_faults"].as_u64()
}

#[test]
fn a_working_set_takes_the_major_faults_from_a_cold_start() {
    let (test, place) = ("a_working_set_takes_the_major_faults", Place::new());
    let Some(program) = program() else { return };
    let data = place.path().join("data");
    let pages = 1024;
    std::fs::write(&data, vec![1_u8; pages * rustix::param::page_size()]).unwrap();
    let (set, count) = (place.path().join("set"), pages.to_string());
    let [data_name, set_name] = [&data, &set].map(|path| path.to_str().unwrap());
    let start = [program.to_str().unwrap(), "map", &count, data_name];
    let options = ["--exact", "--save-working-set", set_name];
    let Some(recorded) = record(&place, test, &options, &start) else { return };
    assert!(said(&recorded.done.stderr).contains("working set: "), "{:?}", recorded.done);
    let saved: Value = serde_json::from_slice(&std::fs::read(&set).unwrap()).unwrap();
    let file = saved["files"].as_array().unwrap().iter().find(|f| f["path"] == data_name).unwrap();
    let ranges = file["ranges"].as_array().unwrap();
    let touched = ranges.iter().map(|range| range["length_bytes"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(file["size_bytes"], touched, "all of the file is touched: {ranges:?}");

    evict(&data);
    let cold = major_faults(&place, test, &start).unwrap();
    if cold < 10 {
        println!(
            "SKIP {test}: the pages of this file system cannot be dropped ({cold} major faults)"
        );
        return;
    }
    evict(&data);
    let with = format!("working-set={set_name}");
    let run = [&[crate::helper::PROGRAM, "run", "--with", &with, "--"], &start[..]].concat();
    let warmed = major_faults(&place, test, &run).unwrap();
    assert!(warmed * 10 <= cold, "{warmed} of {cold} major faults are left");
    println!("{test}: {cold} major faults cold, {warmed} after reading ahead");
}

/// Whether a page of a file is in the page cache.
fn is_cached(path: &Path, page: usize) -> bool {
    let (file, mut byte) = (File::open(path).unwrap(), [0]);
    let mut into = [std::io::IoSliceMut::new(&mut byte)];
    let offset = (page * rustix::param::page_size()) as u64;
    rustix::io::preadv2(&file, &mut into, offset, rustix::io::ReadWriteFlags::NOWAIT).is_ok()
}

#[test]
fn a_working_set_has_what_is_read_and_brings_it_back() {
    let (test, place) = ("a_working_set_has_what_is_read", Place::new());
    let [data, copy, set] = ["data", "copy", "set"].map(|name| place.path().join(name));
    let page = rustix::param::page_size();
    std::fs::write(&data, vec![1_u8; 512 * page]).unwrap();
    let [data_name, copy_name, set_name] = [&data, &copy, &set].map(|path| path.to_str().unwrap());
    let script = format!(
        "dd if={data_name} of={copy_name} bs={page} skip=8 count=4 status=none; cat {copy_name}; \
         dd if={data_name} bs={page} skip=400 count=1 status=none"
    );
    let options = ["--exact", "--save-working-set", set_name];
    let Some(recorded) = record(&place, test, &options, &["sh", "-c", &script]) else { return };
    let text = said(&recorded.done.stderr);
    assert!(text.contains(&format!("{copy_name}: it was written meanwhile")), "{text}");
    let saved: Value = serde_json::from_slice(&std::fs::read(&set).unwrap()).unwrap();
    let files = saved["files"].as_array().unwrap();
    assert!(!files.iter().any(|file| file["path"] == copy_name), "{files:?}");
    let file = files.iter().find(|file| file["path"] == data_name).unwrap();
    let ranges = file["ranges"].as_array().unwrap().iter();
    let pages = |value: &Value| value.as_u64().unwrap() as usize / page;
    let seen: Vec<_> =
        ranges.map(|r| (pages(&r["offset_bytes"]), pages(&r["length_bytes"]))).collect();
    assert_eq!(seen, [(8, 4), (400, 1)]);

    evict(&data);
    let read = [8, 9, 10, 11, 400];
    if read.iter().any(|page| is_cached(&data, *page)) {
        return println!("SKIP {test}: the pages of this file system cannot be dropped");
    }
    // The question itself may have brought some into the cache.
    evict(&data);
    let with = format!("working-set={set_name}");
    let done = place.pagewise(&["run", "--with", &with, "--", "true"]).output().unwrap();
    assert_eq!((done.status.code(), said(&done.stderr)), (Some(0), String::new()));
    assert!(read.iter().all(|page| is_cached(&data, *page)));
}

#[test]
fn a_working_set_of_files_that_have_changed_is_reported_and_the_program_runs() {
    let (test, place) = ("a_working_set_of_files_that_have_changed", Place::new());
    let Some(program) = program() else { return };
    let data = place.path().join("data");
    std::fs::write(&data, vec![1_u8; 64 * rustix::param::page_size()]).unwrap();
    let set = place.path().join("set");
    let start = [program.to_str().unwrap(), "map", "64", data.to_str().unwrap()];
    let options = ["--save-working-set", set.to_str().unwrap()];
    if record(&place, test, &options, &start).is_none() {
        return;
    }
    let with = format!("working-set={}", set.display());
    let run = || {
        let words = [&["run", "--with", &with, "--"], &start[..]].concat();
        let done = place.pagewise(&words).output().unwrap();
        (done.status.code(), said(&done.stderr))
    };
    assert_eq!(run(), (Some(0), String::new()));
    std::fs::write(&data, vec![1_u8; 65 * rustix::param::page_size()]).unwrap();
    let (status, text) = run();
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("data: its length has changed; left out"), "{text}");
    std::fs::remove_file(&set).unwrap();
    let (status, text) = run();
    assert!(status == Some(2) && text.contains("cannot read working set"), "{text}");
}

/// The personality(2) flags with which a program is started. `None`, after a `SKIP` line, if faults cannot be
/// recorded.
fn flags(place: &Place, test: &str, options: &[&str]) -> Option<(u64, Value)> {
    let seen = record(place, test, options, &["cat", "/proc/self/personality"])?;
    assert_eq!(seen.done.status.code(), Some(0), "{}", said(&seen.done.stderr));
    // With the list on standard output, the program's own output goes to standard error.
    let text = said(&seen.done.stderr);
    let line = text.lines().find(|line| line.len() == 8).expect("flags in hexadecimal");
    Some((u64::from_str_radix(line, 16).unwrap(), seen.report["fixed_addresses"].clone()))
}

#[test]
fn budgets_on_faults_and_pages_fix_addresses_and_others_do_not() {
    const NO_RANDOMIZE: u64 = 0x0004_0000;
    let (test, place) = ("budgets_on_faults_and_pages", Place::new());
    let Some((plain, is_fixed)) = flags(&place, test, &[]) else { return };
    if is_fixed == true {
        println!("SKIP {test}: addresses are fixed for all programs here");
        return;
    }
    for options in [["--max-major", "100000"], ["--max-fault-time", "1h"]] {
        assert_eq!(flags(&place, test, &options), Some((plain, false.into())), "{options:?}");
    }
    let fixed = [&["--max-faults", "100000"][..], &["--max-touched-pages", "100000"]];
    for options in fixed.into_iter().chain([&["--fixed-addresses"][..]]) {
        let want = Some((plain | NO_RANDOMIZE, true.into()));
        assert_eq!(flags(&place, test, options), want, "{options:?}");
    }
}

/// Pages of files mapped around faults in all of a program, and the faults on its own range.
#[derive(Debug)]
struct Along {
    faults: u64,
    mapped_pages: u64,
    untouched_pages: u64,
    in_range: u64,
}

impl Along {
    fn of(run: &Run) -> Self {
        let sums = &run.report["fault_around"];
        let number = |key: &str| sums[key].as_u64().unwrap();
        let pages = |key: &str| number(key) / rustix::param::page_size() as u64;
        Self {
            faults: number("faults"),
            mapped_pages: pages("mapped_bytes"),
            untouched_pages: pages("untouched_bytes"),
            in_range: run.in_user_mode().count() as u64,
        }
    }
}

#[test]
fn what_is_mapped_along_and_never_touched_is_what_the_program_left_out() {
    let (test, place) = ("what_is_mapped_along", Place::new());
    let Some(program) = program() else { return };
    let run = |exact: &[&str], how: &str| {
        let options = [exact, &["--fixed-addresses"]].concat();
        let words = [program.to_str().unwrap(), how, &PAGES.to_string()];
        record(&place, test, &options, &words).map(|run| Along::of(&run))
    };
    let Some(whole) = run(&["--exact"], "cached") else { return };
    let sparse = run(&["--exact"], "cached-windows").unwrap();
    let pages = PAGES as u64;
    let windows = pages * rustix::param::page_size() as u64 / (64 << 10);
    assert_eq!((whole.in_range, sparse.in_range), (pages, windows));
    // The program may touch a few pages of its own code more or less.
    let same = |a: u64, b: u64| a.abs_diff(b) <= 4;
    let left_out = sparse.untouched_pages - whole.untouched_pages;
    assert!(same(left_out, pages - windows), "{whole:?} {sparse:?}");
    assert!(same(sparse.mapped_pages, whole.mapped_pages), "{whole:?} {sparse:?}");
    // An ordinary run maps the predicted windows, and bounds the number of untouched pages.
    let plain = run(&[], "cached-windows").unwrap();
    if plain.in_range == windows {
        assert!(same(plain.faults, sparse.faults), "{plain:?} {sparse:?}");
        assert!(plain.untouched_pages + 4 >= sparse.untouched_pages, "{plain:?} {sparse:?}");
    } else {
        println!("SKIP part of {test}: this kernel does not map 64 KiB around a fault");
    }
}

#[test]
fn budgets_of_a_file_are_judged_and_its_command_is_run() {
    let place = Place::new();
    let file = place.path().join("pagewise.toml");
    let text = "[faults.strict]\ncommand = [\"true\"]\nmax-faults = 1\n\n\
                [faults.wide]\ncommand = [\"true\"]\nmax-faults = 100000\nmax-fault-time = \"1h\"\n";
    std::fs::write(&file, text).unwrap();
    let run = |words: &[&str]| {
        let words = [&["faults"], words].concat();
        let done = place.pagewise(&words).current_dir(place.path()).output().unwrap();
        (done.status.code(), said(&done.stderr))
    };
    let (status, text) = run(&["--budget", "strict"]);
    if status == Some(3) {
        println!("SKIP budgets_of_a_file: {text}");
        return;
    }
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains(" page faults, 1 allowed"), "{text}");
    assert_eq!(run(&["--budget", "wide"]).0, Some(0));
    assert_eq!(run(&["--budget", "strict", "--max-faults", "100000"]).0, Some(0), "typed first");
    assert_eq!(run(&["--budget", "wide", "--", "sh", "-c", "exit 4"]).0, Some(4));
    let (status, text) = run(&["--budgets", "pagewise.toml"]);
    assert!(status == Some(2) && text.contains("--budget NAME: strict, wide"), "{text}");
    let (status, text) = run(&["--exact", "--budget", "wide"]);
    assert!(status == Some(2) && text.contains("max-fault-time"), "{text}");
    // The configuration is not read unless something asks for it.
    std::fs::write(&file, "no toml").unwrap();
    assert_eq!(run(&["--", "true"]).0, Some(0));
    let (status, text) = run(&["--budget", "wide"]);
    assert!(status == Some(2) && text.contains("pagewise.toml` line 1"), "{text}");
}
