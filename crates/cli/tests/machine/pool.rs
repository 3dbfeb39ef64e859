//! The remedy `pool` and the reservation of pages, against the kernel's own count. The requested pages exist
//! while the program runs, they are used, and they are gone afterwards, however the program ends.
//!
//! A few pages of the machine's pool are reserved for a moment. Only root can do that.

use crate::helper::{PROGRAM, Place, compile, is_root, only_turn, said};
use pagewise_kernel::hugetlb;
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Pages in the pool now, without those that leave with their users.
fn pages() -> u64 {
    hugetlb::pool(hugetlb::usual().unwrap()).unwrap().pages
}

/// A small C program. `None` without a compiler.
fn built(place: &Place, source: &str) -> Option<PathBuf> {
    let to = place.path().join(source.trim_end_matches(".c"));
    compile(source, &["-O2", "-pthread"], &to).then_some(to)
}

fn run(place: &Place, with: &[&str], program: &Path, words: &[&str]) -> Command {
    let mut command = place.pagewise(&["run"]);
    command.args(with).arg("--").arg(program).args(words);
    command
}

/// Why pages cannot be reserved here, if the program reported a reason.
fn refusal(reported: &str) -> Option<&str> {
    reported.lines().find(|line| line.ends_with("; started without it"))
}

/// The output of a run that reserves pages. `None`, after a `SKIP` line, if it cannot reserve them.
fn reserved(test: &str, mut command: Command) -> Option<Output> {
    let done = command.output().unwrap();
    let reported = said(&done.stderr);
    let Some(why) = refusal(&reported) else { return Some(done) };
    println!("SKIP {test}: {why}");
    None
}

/// A place for a test that needs root and a compiler.
fn fit(test: &str, source: &str) -> Option<(Place, PathBuf)> {
    let place = Place::new();
    let program = built(&place, source);
    if program.is_none() || !is_root() {
        println!("SKIP {test}: it needs root and a C compiler");
    }
    program.filter(|_| is_root()).map(|program| (place, program))
}

#[test]
fn a_heap_lies_on_reserved_pages_for_the_time_of_the_run() {
    const TEST: &str = "a_heap_lies_on_reserved_pages_for_the_time_of_the_run";
    let _turn = only_turn();
    let Some((place, program)) = fit(TEST, "table_walk.c") else { return };
    let words = ["random", "8", "20000000"];
    let plain = Command::new(&program).args(words).output().unwrap();
    let before = pages();
    let command = run(&place, &["-v", "--system", "--with", "pool=16M"], &program, &words);
    let Some(done) = reserved(TEST, command) else { return };
    let reported = said(&done.stderr);
    assert_eq!((done.status.code(), &done.stdout), (Some(0), &plain.stdout), "{reported}");
    // The table and what lies before it take 5 pages of 2 MiB. The rest of the heap takes one.
    assert!(
        reported.contains("pool: at least 1") && reported.contains("MiB on pages of the pool"),
        "{reported}"
    );
    assert_eq!(pages(), before);
    assert!(!Path::new("/run/pagewise/pool-changed.json").exists(), "no record is left");
}

#[test]
fn a_program_starts_plainly_where_the_pool_is_too_small() {
    let _turn = only_turn();
    let place = Place::new();
    let script = "echo ${GLIBC_TUNABLES-unset}; exit 7";
    let huge = format!("pool={}", pagewise_kernel::machine::machine().memory_bytes.0);
    let mut command = place.pagewise(&["run", "--with", &huge, "--", "sh", "-c", script]);
    let done = command.env_remove("GLIBC_TUNABLES").output().unwrap();
    assert_eq!((done.status.code(), done.stdout), (Some(7), b"unset\n".to_vec()));
    let reported = said(&done.stderr);
    assert!(
        reported.contains("use --system as root") && refusal(&reported).is_some(),
        "{reported}"
    );
    if is_root() {
        let mut command =
            place.pagewise(&["run", "--system", "--with", &huge, "--", "sh", "-c", script]);
        let done = command.env_remove("GLIBC_TUNABLES").output().unwrap();
        assert_eq!((done.status.code(), done.stdout), (Some(7), b"unset\n".to_vec()));
        assert!(refusal(&said(&done.stderr)).is_some(), "a quarter of the memory stays");
    }
    let refused = place.pagewise(&["run", "--system", "--", "true"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused.stderr).contains("none of these remedies changes the machine"));
}

/// A program that runs on reserved pages until it is stopped. `None` if these are not available.
fn endless(test: &str, place: &Place, program: &Path, before: u64) -> Option<Child> {
    let words = ["random", "2", "1000000000000"];
    let mut command = run(place, &["--system", "--with", "pool=8M"], program, &words);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    // The program runs once it has taken pages.
    let is_used = || {
        let pool = hugetlb::pool(hugetlb::usual().unwrap()).unwrap();
        pool.pages > before && pool.available_pages() < pool.pages
    };
    while !is_used() {
        if Instant::now() > deadline || child.try_wait().unwrap().is_some() {
            child.kill().unwrap();
            let done = child.wait_with_output().unwrap();
            println!("SKIP {test}: {}", said(&done.stderr));
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Some(child)
}

#[test]
fn a_signal_that_ends_the_run_gives_the_pages_back() {
    const TEST: &str = "a_signal_that_ends_the_run_gives_the_pages_back";
    let _turn = only_turn();
    let Some((place, program)) = fit(TEST, "table_walk.c") else { return };
    let before = pages();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let Some(mut child) = endless(TEST, &place, &program, before) else { return };
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(signal.as_raw()));
        assert_eq!(pages(), before, "{signal:?}");
    }
}

#[test]
fn the_next_start_gives_back_what_a_kill_has_left() {
    const TEST: &str = "the_next_start_gives_back_what_a_kill_has_left";
    let _turn = only_turn();
    let Some((place, program)) = fit(TEST, "table_walk.c") else { return };
    let before = pages();
    let Some(mut child) = endless(TEST, &place, &program, before) else { return };
    let meanwhile = place.pagewise(&["history"]).output().unwrap();
    assert!(meanwhile.stderr.is_empty(), "the owner lives: {}", said(&meanwhile.stderr));
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    assert!(pages() > before, "nobody was left to give them back");
    let next = place.pagewise(&["history"]).output().unwrap();
    assert!(said(&next.stderr).contains("reserved by a killed run"));
    assert_eq!(pages(), before);
    let later = place.pagewise(&["history"]).output().unwrap();
    assert!(later.stderr.is_empty(), "{}", said(&later.stderr));
}

#[test]
fn threads_live_on_where_the_pool_runs_out() {
    const TEST: &str = "threads_live_on_where_the_pool_runs_out";
    let _turn = only_turn();
    let Some((place, program)) = fit(TEST, "pool_heap.c") else { return };
    let words = ["threads", "8"];
    let plain = Command::new(&program).args(words).output().unwrap();
    let command = run(&place, &["--system", "--with", "pool=4M"], &program, &words);
    let Some(done) = reserved(TEST, command) else { return };
    assert_eq!((done.status.code(), done.stdout), (Some(0), plain.stdout));
}

#[test]
fn everybody_is_told_of_the_option() {
    let help = said(&Command::new(PROGRAM).args(["tune", "--help"]).output().unwrap().stdout);
    assert!(help.contains("--system"), "{help}");
}
