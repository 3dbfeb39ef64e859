//! `pagewise faults` against programs whose faults are known. The tests run as this user and, if this one is
//! root, also as a user without any rights.

mod account;
mod callers;
mod clock;
mod containers;
mod killed;
mod kinds;
mod lines;
mod running;
mod timed;
mod touch;

use crate::helper::{NOBODY, Place, compile, said, users};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde_json::Value;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const PAGES: u64 = 300;

/// The programs under test, in a place where everybody may execute them. `None` without a C compiler.
struct Programs {
    dir: tempfile::TempDir,
}

impl Programs {
    fn get() -> Option<&'static Self> {
        static BUILT: OnceLock<Option<Programs>> = OnceLock::new();
        let built = BUILT.get_or_init(Self::build).as_ref();
        if built.is_none() {
            println!("SKIP live tests of faults: no C compiler");
        }
        built
    }

    fn build() -> Option<Self> {
        let dir = crate::helper::open_place("pagewise-faults-");
        let options = ["-O1", "-g", "-pthread"];
        compile("faults.c", &options, &dir.path().join("faults")).then_some(Self { dir })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A new directory in which every account may write.
    fn open_dir(&self) -> tempfile::TempDir {
        let dir = tempfile::tempdir_in(self.dir.path()).unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        dir
    }

    /// `pagewise faults` with these options, on the program with these words.
    fn command(&self, user: Option<u32>, options: &[&str], words: &[&str]) -> Command {
        self.pagewise("faults", user, options, words)
    }

    /// Another command of pagewise, with these options, on the program with these words.
    fn pagewise(&self, name: &str, user: Option<u32>, options: &[&str], words: &[&str]) -> Command {
        let mut command = Command::new(self.path("pagewise"));
        command.arg(name).args(options).arg("--").arg(self.path("faults")).args(words);
        command.env("HOME", self.dir.path()).env_remove("XDG_STATE_HOME").env("LC_ALL", "C");
        command.stdin(Stdio::null());
        if let Some(user) = user {
            command.uid(user).gid(user).env("XDG_STATE_HOME", self.path(&format!("state-{user}")));
        }
        command
    }
}

/// One fault of the list.
struct Seen {
    tid: i64,
    page: u64,
    access: String,
    cause: String,
    served: String,
    page_bytes: Option<u64>,
    labels: Vec<String>,
    paired: bool,
}

/// The result of a run, and the faults on the ranges that the program named.
struct Run {
    done: Output,
    within: Vec<Seen>,
    report: Value,
}

/// A host that takes the recorder's CPU for longer than a ring has room makes it lose records. One run of this
/// many loses none, unless the account may lock little memory for rings (`ulimit -l`).
const TRIES: usize = 5;

impl Run {
    fn in_user_mode(&self) -> impl Iterator<Item = &Seen> {
        self.within.iter().filter(|f| !f.labels.iter().any(|label| label == "kernel_mode"))
    }

    fn count(&self, is: impl Fn(&Seen) -> bool) -> u64 {
        self.in_user_mode().filter(|f| is(f)).count() as u64
    }

    fn sees_kernel(&self) -> bool {
        self.report["step"] == "perf_all"
    }

    fn number(&self, key: &str) -> i64 {
        self.report.pointer(key).and_then(Value::as_i64).unwrap()
    }
}

fn refused(test: &str, done: &Output) -> bool {
    let text = said(&done.stderr);
    let refused = done.status.code() == Some(3);
    if refused {
        println!("SKIP {test}: {}", text.lines().next().unwrap_or_default());
        assert!(text.contains("help: "), "{text}");
    }
    refused
}

/// Runs the program and reads the list and the saved form; `None` where recording is refused.
fn run(test: &str, user: Option<u32>, words: &[&str]) -> Option<Run> {
    run_with(test, user, &[], words)
}

/// [`run`] with more options.
fn run_with(test: &str, user: Option<u32>, more: &[&str], words: &[&str]) -> Option<Run> {
    let programs = Programs::get()?;
    let place = programs.open_dir();
    let saved = place.path().join("run.json");
    let options = [&["--format", "json", "--save", saved.to_str().unwrap()], more].concat();
    let mut lost = 0;
    for _run in 0..TRIES {
        let done = programs.command(user, &options, words).output().unwrap();
        if refused(test, &done) {
            return None;
        }
        lost = lost_records(&saved);
        if lost == 0 {
            let ranges = ranges(&said(&done.stderr));
            return Some(read(test, done, &ranges, &saved));
        }
        std::fs::remove_file(&saved).unwrap();
    }
    println!("SKIP {test}: {lost} records lost in the last of {TRIES} runs (user {user:?})");
    None
}

fn lost_records(saved: &Path) -> u64 {
    let saved: Value = serde_json::from_slice(&std::fs::read(saved).unwrap()).unwrap();
    saved["faults"]["lost_records"].as_u64().unwrap()
}

/// The faults recorded on `ranges`, from the list on standard output and from the saved form.
fn read(test: &str, done: Output, ranges: &[(u64, u64)], saved: &Path) -> Run {
    let saved: Value = serde_json::from_slice(&std::fs::read(saved).unwrap()).unwrap();
    let list = said(&done.stdout);
    let faults: Vec<Value> = list.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(faults.len() as u64, saved["faults"]["total"]["faults"].as_u64().unwrap());
    let order = faults.iter().map(|f| f["order"].as_u64().unwrap());
    assert!(order.eq(0..faults.len() as u64), "{test}");
    assert_eq!(saved["faults"]["lost_records"], 0, "{test}");
    let within = |seen: &Seen| ranges.iter().any(|(from, to)| (*from..*to).contains(&seen.page));
    let within = faults.iter().map(seen).filter(within).collect();
    Run { done, within, report: saved["faults"].clone() }
}

/// The ranges that the program has named.
fn ranges(output: &str) -> Vec<(u64, u64)> {
    let number = |word: Option<&str>| u64::from_str_radix(word.unwrap(), 16).unwrap();
    let range = |line: &str| {
        let mut words = line.strip_prefix("range ")?.split(' ');
        Some((number(words.next()), number(words.next())))
    };
    output.lines().filter_map(range).collect()
}

fn seen(fault: &Value) -> Seen {
    let text = |key: &str| fault[key].as_str().unwrap().to_owned();
    let labels = fault["labels"].as_array().unwrap().iter();
    Seen {
        tid: fault["tid"].as_i64().unwrap(),
        page: fault["page_address"].as_u64().unwrap(),
        access: text("access"),
        cause: text("cause"),
        served: text("served"),
        page_bytes: fault["page_bytes"].as_u64(),
        labels: labels.map(|label| label.as_str().unwrap().to_owned()).collect(),
        paired: fault["latency_ns"].as_u64().is_some_and(|ns| ns > 0),
    }
}

/// Calls `check` with the run of `words` for each user.
fn each(test: &str, words: &[&str], check: impl Fn(&Run)) {
    for user in users() {
        if let Some(run) = run(test, user, words) {
            check(&run);
        }
    }
}

fn each_of(how: &str, check: impl Fn(&Run)) {
    each(how, &[how, &PAGES.to_string()], check);
}

/// The kernel reports page sizes since Linux 5.11.
fn tells_sizes(run: &Run) -> bool {
    run.within.iter().any(|f| f.cause != "unknown")
}

#[test]
fn every_first_write_is_one_fault() {
    each_of("write", |run| {
        assert_eq!(run.within.len() as u64, PAGES);
        assert!(run.within.iter().all(|f| f.paired && f.served == "minor"));
        if cfg!(target_arch = "x86_64") {
            assert_eq!(run.count(|f| f.access == "write"), PAGES);
        }
        if tells_sizes(run) {
            assert_eq!(run.count(|f| f.cause == "absent"), PAGES);
        }
        assert!(run.within.iter().all(|f| f.labels.is_empty()));
    });
}

#[test]
fn a_write_after_a_read_is_a_second_fault_on_the_page() {
    each_of("read-write", |run| {
        assert_eq!(run.within.len() as u64, 2 * PAGES);
        assert_eq!(run.count(|f| f.labels.iter().any(|l| l == "again")), PAGES);
        if cfg!(target_arch = "x86_64") && tells_sizes(run) {
            assert_eq!(run.count(|f| f.access == "read" && f.cause == "absent"), PAGES);
            assert_eq!(run.count(|f| f.access == "write" && f.cause == "protection"), PAGES);
            assert_eq!(run.count(|f| f.labels.iter().any(|l| l == "copy_on_write")), PAGES);
        }
    });
}

#[test]
fn populated_pages_are_in_rusage_and_in_no_event() {
    each_of("populate", |run| {
        assert_eq!(run.within.len(), 0);
        let left = run.number("/account/unexplained_faults/known");
        assert!(left >= PAGES.cast_signed(), "{}", run.report["account"]);
    });
}

#[test]
fn what_read_puts_into_fresh_memory_is_taken_in_the_kernel() {
    each_of("read-call", |run| {
        assert_eq!(run.in_user_mode().count(), 0);
        if run.sees_kernel() {
            assert_eq!(run.within.len() as u64, PAGES);
            assert!(run.number("/account/unexplained_faults/known") < 20);
        } else {
            assert!(run.number("/account/unexplained_faults/known") >= PAGES.cast_signed());
        }
    });
}

#[test]
fn a_forked_child_copies_each_page_it_writes() {
    each_of("fork", |run| {
        assert_eq!(run.number("/processes"), 2);
        if tells_sizes(run) {
            assert_eq!(run.count(|f| f.cause == "absent"), PAGES);
            // Parent and child share each page. The first to write to a page copies it.
            assert_eq!(run.count(|f| f.cause == "protection"), PAGES);
        }
        assert_eq!(run.within.len() as u64, 2 * PAGES);
    });
}

#[test]
fn a_huge_page_is_one_fault() {
    let enabled = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    if !enabled.is_ok_and(|text| text.contains("[madvise]") || text.contains("[always]")) {
        println!("SKIP a_huge_page_is_one_fault: transparent huge pages are off");
        return;
    }
    each_of("huge", |run| {
        let base = rustix::param::page_size() as u64;
        let huge = run.count(|f| f.page_bytes.is_some_and(|bytes| bytes > base));
        if run.within.len() == 1 {
            assert!(huge == 1 || !tells_sizes(run));
        } else {
            println!("SKIP a_huge_page_is_one_fault: no huge page was free");
            assert_eq!(huge, 0);
        }
    });
}

#[test]
fn threads_keep_their_faults_apart() {
    each("threads", &["threads", &PAGES.to_string(), "16"], |run| {
        assert_eq!(run.within.len() as u64, 16 * PAGES);
        assert!(run.within.iter().all(|f| f.paired));
        assert_eq!(run.number("/unpaired_ends"), 0);
    });
}

#[test]
fn programs_executed_by_the_program_are_followed() {
    for how in ["exec", "vfork"] {
        each_of(how, |run| {
            assert_eq!(run.within.len() as u64, PAGES, "{how}");
            assert_eq!(run.number("/executed"), 2, "{how}");
            assert_eq!(run.number("/processes"), if how == "exec" { 1 } else { 2 }, "{how}");
        });
    }
}

#[test]
fn a_program_that_dies_by_a_signal_is_recorded_and_so_do_we() {
    each_of("killed", |run| {
        assert_eq!(run.within.len() as u64, PAGES);
        assert_eq!(run.done.status.signal(), Some(Signal::KILL.as_raw()));
    });
}

#[test]
fn a_fault_that_is_not_allowed_has_no_end() {
    each_of("handler", |run| {
        assert_eq!(run.count(|f| f.served == "no" && !f.paired), PAGES);
        assert_eq!(run.count(|f| f.served == "minor" && f.paired), PAGES);
        assert!(run.number("/account/failed_faults/known") >= PAGES.cast_signed());
    });
}

#[test]
fn the_account_of_a_small_program_closes() {
    each("write", &["write", "1"], |run| {
        if run.report["account"]["before_exec_faults"]["known"].is_null() {
            println!("SKIP the_account_of_a_small_program_closes: it could not be traced");
            return;
        }
        // Faults that the kernel takes for the program itself, which only maps, prints and ends.
        let left = run.number("/account/unexplained_faults/known");
        assert!((0..8).contains(&left), "{}", run.report["account"]);
    });
}

#[test]
fn the_programs_status_streams_and_signals_are_its_own() {
    let place = Place::new();
    let script = "cat; echo err >&2; exit 7";
    let mut child = place
        .pagewise(&["faults", "--", "sh", "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"through\n").unwrap();
    let done = child.wait_with_output().unwrap();
    if refused("the_programs_status", &done) {
        return;
    }
    assert_eq!((done.status.code(), &done.stdout[..]), (Some(7), &b"through\n"[..]));
    assert!(said(&done.stderr).starts_with("err\n"), "{}", said(&done.stderr));
    let script = "trap 'echo caught; exit 5' TERM; echo ready; while :; do sleep 0.02; done";
    let mut child = place
        .pagewise(&["faults", "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut ready = [0; 6];
    out.read_exact(&mut ready).unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!((rest.as_str(), child.wait().unwrap().code()), ("caught\n", Some(5)));
}

#[test]
fn a_traced_program_that_stops_stops_us_too() {
    let place = Place::new();
    for option in ["--account", "--exact"] {
        let mut child = place
            .pagewise(&["faults", option, "--", "sh", "-c", "kill -STOP $$; exit 5"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        if stops(&mut child) {
            kill_process(Pid::from_child(&child), Signal::CONT).unwrap();
            assert_eq!(child.wait().unwrap().code(), Some(5), "{option}");
        } else {
            assert_eq!(child.wait().unwrap().code(), Some(3), "{option}");
            println!("SKIP a_traced_program_that_stops {option}: faults are not recorded here");
        }
    }
}

/// Waits until `child` stops; false when it ends.
fn stops(child: &mut Child) -> bool {
    let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(20) {
        let id = WaitId::Pid(Pid::from_child(child));
        match waitid(id, options | WaitIdOptions::NOHANG).unwrap() {
            Some(status) => return status.stopped(),
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    child.kill().unwrap();
    panic!("it goes on while its program has stopped");
}

#[test]
fn a_broken_budget_fails_a_program_that_succeeded() {
    let Some(programs) = Programs::get() else { return };
    let pages = PAGES.to_string();
    let code = |options: &[&str], words: &[&str]| {
        let done = programs.command(None, options, words).output().unwrap();
        (done.status.code(), said(&done.stderr))
    };
    let (status, text) =
        code(&["--max-faults", "10", "--max-touched-pages", "5"], &["write", &pages]);
    if status == Some(3) {
        println!("SKIP a_broken_budget_fails: {text}");
        return;
    }
    assert_eq!(status, Some(1), "{text}");
    let reported = text.lines().filter(|line| line.contains(" allowed")).count();
    assert_eq!(reported, 2, "{text}");
    assert_eq!(code(&["--max-faults", "100000"], &["write", &pages]).0, Some(0));
    // A program that fails keeps its exit status.
    assert_eq!(code(&["--max-faults", "10"], &["no such way", &pages]).0, Some(2));
}

#[test]
fn a_program_that_cannot_be_started_is_reported_as_by_run() {
    let place = Place::new();
    let status = |words: &[&str]| place.pagewise(words).output().unwrap().status.code();
    assert_eq!(status(&["faults", "--", "/nonexistent/program"]), Some(127));
    assert_eq!(status(&["faults", "--", "/etc/passwd"]), Some(126));
    assert_eq!(status(&["faults"]), Some(2));
    assert_eq!(status(&["faults", "--json", "--all", "--", "true"]), Some(2));
}
