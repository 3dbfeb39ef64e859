//! `check`: budgets from a file against real programs, and the output for build servers.

use crate::helper::{Place, only_turn, said};
use pagewise_kernel::lock::ExperimentLock;
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Output, Stdio};
use std::time::Duration;

const PAGE_TOUCHER: &str =
    "import mmap,sys\nm=mmap.mmap(-1, 64<<20)\nfor i in range(0, 64<<20, mmap.PAGESIZE): m[i]=1\n";

fn check(place: &Place, text: &str, words: &[&str]) -> Output {
    std::fs::write(place.path().join("pagewise.toml"), text).unwrap();
    let mut command = place.pagewise(&["check"]);
    command.args(words).current_dir(place.path()).output().unwrap()
}

/// True if faults cannot be recorded for this account: `check` ends with 3 and says so.
fn is_refused(done: &Output) -> bool {
    let refused =
        done.status.code() == Some(3) && said(&done.stderr).contains("cannot be recorded");
    if refused {
        println!("SKIP check: {}", said(&done.stderr));
    }
    refused
}

#[test]
fn budgets_that_are_kept_pass_and_one_that_is_not_fails_the_build() {
    let place = Place::new();
    std::fs::write(place.path().join("touch.py"), PAGE_TOUCHER).unwrap();
    let wide = "[check.wide]\ncommand = [\"true\"]\nmax-faults = 100000\nmax-copied = \"1M\"\n\
                max-wakeups = 1000\nmax-resident = \"512M\"\n";
    let done = check(&place, wide, &["--quiet"]);
    if is_refused(&done) {
        return;
    }
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert!(said(&done.stdout).ends_with("1 passed\n"), "{done:?}");
    let strict = format!(
        "{wide}[check.strict]\ncommand = [\"python3\", \"touch.py\"]\nruns = 1\nmax-resident = \"48M\"\nmax-faults = 9000000\n"
    );
    let words = ["--junit", "j.xml", "--markdown", "s.md"];
    let done = check(&place, &strict, &words);
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    assert!(said(&done.stdout).contains("1 passed, 1 broken"), "{done:?}");
    let read = |name: &str| std::fs::read_to_string(place.path().join(name)).unwrap();
    assert!(
        read("j.xml").contains("name=\"resident memory\"><failure message="),
        "{}",
        read("j.xml")
    );
    assert!(read("s.md").contains("| strict | resident memory |"), "{}", read("s.md"));
    let only = check(&place, &strict, &["wide", "--json"]);
    assert_eq!(only.status.code(), Some(0));
    let json: serde_json::Value = serde_json::from_slice(&only.stdout).unwrap();
    assert_eq!(json.as_array().unwrap().len(), 1);
    assert!(json[0]["items"].as_array().unwrap().iter().all(|item| item["kept"] == "passed"));
}

#[test]
fn a_program_that_fails_is_no_pass() {
    let place = Place::new();
    let fails = "[check.fails]\ncommand = [\"false\"]\nruns = 1\nmax-faults = 100000\n";
    let done = check(&place, fails, &[]);
    if is_refused(&done) {
        return;
    }
    assert_eq!(done.status.code(), Some(2), "{done:?}");
    assert!(said(&done.stdout).contains("exit status 1"), "{done:?}");
    let expected = fails.replace("runs = 1", "exit-status = 1\nruns = 1");
    assert_eq!(check(&place, &expected, &[]).status.code(), Some(0));
    let missing = fails.replace("false", "/no/such/program");
    let done = check(&place, &missing, &[]);
    assert_eq!(done.status.code(), Some(2));
    assert!(said(&done.stdout).contains("/no/such/program"), "{done:?}");
}

#[test]
fn what_cannot_be_checked_is_one_line() {
    let place = Place::new();
    let refused = |text: &str, words: &[&str]| {
        let done = check(&place, text, words);
        assert_eq!(done.status.code(), Some(2), "{done:?}");
        said(&done.stderr)
    };
    assert!(refused("\n", &[]).contains("holds no budgets"));
    assert!(refused("", &[]).contains("the file is empty"));
    assert!(refused("[check.a]\nmax-faults = 1\n", &[]).contains("has no command"));
    assert!(refused("[check.a]\n", &["b"]).contains("[check.b]"));
    assert!(refused("[check.a]\nmax-fault = 1\n", &[]).contains("line 2"));
    let empty = refused("[check.a]\ncommand = [\"true\"]\nruns = 2\n", &[]);
    assert!(empty.contains("[check.a] has no budget") && empty.contains("help: "), "{empty}");
    // A memory budget does not limit faults.
    std::fs::write(
        place.path().join("pagewise.toml"),
        "[check.a]\ncommand = [\"true\"]\nmax-resident = \"40M\"\n",
    )
    .unwrap();
    let mut faults = place.pagewise(&["faults", "--budget", "a"]);
    let done = faults.current_dir(place.path()).output().unwrap();
    assert_eq!(done.status.code(), Some(2), "{done:?}");
    assert!(said(&done.stderr).contains("the budget a limits no faults"), "{done:?}");
    let done = place.pagewise(&["check", "--file", "/no/such/file"]).output().unwrap();
    assert!(said(&done.stderr).contains("/no/such/file"), "{done:?}");
}

/// Sends SIGTERM to the check of `first` when its file `mark` has `lines` lines. The check must end as
/// interrupted and not start the next table.
fn interrupt(first: &str, lines: usize) {
    let place = Place::new();
    let second = "[check.second]\ncommand = [\"touch\", \"second\"]\nmax-faults = 900000\n";
    std::fs::write(place.path().join("pagewise.toml"), format!("{first}{second}")).unwrap();
    let mut command = place.pagewise(&["check", "--quiet"]);
    command.current_dir(place.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mark = place.path().join("mark");
    let is_begun =
        || std::fs::read_to_string(&mark).is_ok_and(|mark| mark.lines().count() >= lines);
    while !is_begun() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(10));
    }
    if child.try_wait().unwrap().is_none() {
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    }
    let done = child.wait_with_output().unwrap();
    if is_refused(&done) || said(&done.stderr).contains("another experiment runs") {
        return println!("SKIP check that is interrupted: {}", said(&done.stderr));
    }
    assert_eq!(done.status.code(), Some(130), "{done:?}");
    assert!(!place.path().join("second").exists() && done.stdout.is_empty(), "{done:?}");
}

#[test]
fn an_interrupt_ends_it_where_the_program_ends_well_by_it_too() {
    interrupt(
        "[check.first]\ncommand = [\"sh\", \"-c\", \"trap 'exit 0' TERM; echo >>mark; while :; do sleep 0.1; done\"]\n\
         runs = 1\nmax-faults = 900000\n",
        1,
    );
}

#[test]
fn an_interrupt_ends_it_during_a_comparison() {
    let _turn = only_turn();
    // The arms are alike, so that the race does not settle soon.
    let command = "[\"sh\", \"-c\", \"echo >>mark; sleep 0.02\"]";
    for lines in [3, 30] {
        interrupt(
            &format!(
                "[check.first]\ncommand = {command}\nruns = 1\nmax-slower = \"0.01%\"\n\
                 baseline = {command}\ntime-budget = \"60s\"\n"
            ),
            lines,
        );
    }
}

#[test]
fn a_broken_budget_counts_where_this_machine_cannot_measure_another() {
    let _turn = only_turn();
    let Ok(_lock) = ExperimentLock::acquire() else {
        return println!("SKIP check beside an experiment: another one runs");
    };
    let place = Place::new();
    let text = "[check.a]\ncommand = [\"true\"]\nmax-faults = 1\n[check.b]\ncommand = [\"true\"]\n\
                baseline = [\"true\"]\nmax-slower = \"50%\"\n";
    let done = check(&place, text, &["--quiet", "--no-wait", "--junit", "j.xml"]);
    if is_refused(&done) {
        return;
    }
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    assert!(said(&done.stdout).ends_with("1 broken, 1 cannot tell\n"), "{done:?}");
    assert!(said(&done.stderr).contains("help: wait for it to end"), "{done:?}");
    let junit = std::fs::read_to_string(place.path().join("j.xml")).unwrap();
    assert!(junit.contains("cannot tell: another experiment runs"), "{junit}");
    let open = check(&place, text, &["--quiet", "--no-wait", "b"]);
    assert_eq!(open.status.code(), Some(3), "{open:?}");
}

#[test]
fn a_slower_program_breaks_its_limit_beside_the_baseline() {
    let _turn = only_turn();
    let place = Place::new();
    let text = "[check.slow]\ncommand = [\"sleep\", \"0.08\"]\nruns = 1\n\
                baseline = [\"sleep\", \"0.02\"]\nmax-slower = \"50%\"\ntime-budget = \"20s\"\n";
    let done = check(&place, text, &["--quiet"]);
    if is_refused(&done) || said(&done.stderr).contains("another experiment runs") {
        return println!("SKIP check beside a baseline: {}", said(&done.stderr));
    }
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    assert!(said(&done.stdout).contains("wall time beside the baseline"), "{done:?}");
}
