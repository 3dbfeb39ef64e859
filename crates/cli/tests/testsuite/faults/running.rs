//! `pagewise faults -p PID`.

use super::*;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout};

/// Threads that the program has before pagewise attaches to it.
const THREADS: u64 = 8;

/// A program that takes known faults on request.
struct Served {
    child: Child,
    tell: Option<ChildStdin>,
    reported: BufReader<ChildStdout>,
    range: String,
}

impl Served {
    fn start(programs: &Programs, user: Option<u32>) -> Self {
        let mut command = Command::new(programs.path("faults"));
        command.args(["serve", &PAGES.to_string(), &THREADS.to_string()]);
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let tell = child.stdin.take();
        let reported = BufReader::new(child.stdout.take().unwrap());
        let mut served = Self { child, tell, reported, range: String::new() };
        served.range = served.line();
        assert_eq!(served.line(), "ready\n");
        served
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.reported.read_line(&mut line).unwrap();
        line
    }

    /// Makes it take its faults once.
    fn round(&mut self) {
        self.tell.as_ref().unwrap().write_all(b".").unwrap();
        assert_eq!(self.line(), "done\n");
    }

    /// Lets it end by itself.
    fn end(mut self) {
        drop(self.tell.take());
        assert!(self.child.wait().unwrap().success());
        assert_eq!(self.line(), "");
    }
}

/// `pagewise faults -p` on a process, once it says that it is recording. `None` if it may not.
struct Recording {
    child: Child,
    reported: BufReader<std::process::ChildStderr>,
    saved: tempfile::TempDir,
}

impl Recording {
    fn start(programs: &Programs, user: Option<u32>, pid: u32, options: &[&str]) -> Option<Self> {
        let saved = programs.open_dir();
        let mut command = Command::new(programs.path("pagewise"));
        command.args(["faults", "-p", &pid.to_string(), "--format", "json"]).args(options);
        command.arg("--save").arg(saved.path().join("run.json"));
        command.env("HOME", programs.dir.path()).env_remove("XDG_STATE_HOME");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(user) = user {
            let state = programs.path(&format!("state-{user}"));
            command.uid(user).gid(user).env("XDG_STATE_HOME", state);
        }
        let mut child = command.spawn().unwrap();
        let mut reported = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        reported.read_line(&mut line).unwrap();
        if line.contains("recording process") {
            return Some(Self { child, reported, saved });
        }
        println!("SKIP attaching: {line}");
        assert_eq!(child.wait().unwrap().code(), Some(3), "{line}");
        None
    }

    fn finish(mut self, test: &str, range: &str) -> Run {
        let mut list = Vec::new();
        self.child.stdout.take().unwrap().read_to_end(&mut list).unwrap();
        let mut stderr = Vec::new();
        self.reported.read_to_end(&mut stderr).unwrap();
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{}", said(&stderr));
        let done = Output { status, stdout: list, stderr };
        read(test, done, &ranges(range), &self.saved.path().join("run.json"))
    }
}

/// Faults of one round: of the threads that existed before, of a new one, and of a child.
const A_ROUND: u64 = (THREADS + 2) * PAGES;

#[test]
fn a_running_process_is_recorded_and_left_as_it_was() {
    let Some(programs) = Programs::get() else { return };
    for user in users() {
        let mut served = Served::start(programs, user);
        served.round();
        let Some(recording) = Recording::start(programs, user, served.child.id(), &[]) else {
            served.end();
            continue;
        };
        served.round();
        served.round();
        kill_process(Pid::from_child(&recording.child), Signal::INT).unwrap();
        let run = recording.finish("running", &served.range);
        assert_eq!(run.within.len() as u64, 2 * A_ROUND);
        assert!(run.within.iter().all(|f| f.paired && f.served == "minor"));
        assert_eq!(run.count(|f| f.labels.iter().any(|l| l == "again")), 0);
        assert_eq!(run.report["attached"]["threads"].as_u64(), Some(THREADS + 1));
        assert_eq!(run.report["attached"]["has_ended"], false);
        // One child each round.
        assert_eq!(run.number("/processes"), 3);
        assert!(run.number("/account/rusage_faults/known") >= (2 * A_ROUND).cast_signed());
        served.round();
        served.end();
    }
}

#[test]
fn a_recording_ends_with_its_process() {
    let Some(programs) = Programs::get() else { return };
    for user in users() {
        let mut served = Served::start(programs, user);
        let options = ["--for", "1000s", "--no-latency"];
        let Some(recording) = Recording::start(programs, user, served.child.id(), &options) else {
            served.end();
            continue;
        };
        served.round();
        let range = served.range.clone();
        served.end();
        let run = recording.finish("ends", &range);
        assert_eq!(run.within.len() as u64, A_ROUND);
        assert_eq!(run.report["attached"]["has_ended"], true);
        assert!(run.report["account"]["populate_faults"]["missing"].is_string());
    }
}

#[test]
fn a_recording_ends_when_its_time_is_over() {
    let Some(programs) = Programs::get() else { return };
    let served = Served::start(programs, None);
    let options = ["--for", "10ms"];
    if let Some(recording) = Recording::start(programs, None, served.child.id(), &options) {
        let run = recording.finish("time", &served.range);
        assert_eq!((run.within.len(), run.number("/unpaired_ends")), (0, 0));
        assert!(run.number("/wall_ns") >= 10_000_000);
    }
    served.end();
}

#[test]
fn what_cannot_be_attached_to_is_one_line_and_exit_status_2() {
    let Some(programs) = Programs::get() else { return };
    let attach = |user: Option<u32>, words: &[&str]| {
        let mut command = Command::new(programs.path("pagewise"));
        command.arg("faults").args(words).stdin(Stdio::null());
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        let done = command.output().unwrap();
        (done.status.code(), said(&done.stderr))
    };
    for words in [
        &["-p", "0"][..],
        &["-p", "-1"],
        &["-p", "x"],
        &["-p", "1", "--", "true"],
        &["--for", "1s", "--", "true"],
        &["-p", "1", "--account"],
        &["--no-latency", "--format", "folded-ns", "--", "true"],
        &["--no-latency", "--max-fault-time", "1s", "--", "true"],
    ] {
        assert_eq!(attach(None, words).0, Some(2), "{words:?}");
    }
    let (code, text) = attach(None, &["-p", &i32::MAX.to_string()]);
    assert_eq!((code, text.lines().count()), (Some(2), 2), "{text}");
    assert!(text.contains("no process 2147483647 is running"), "{text}");
    let mut ended = Command::new("true").spawn().unwrap();
    let zombie = ended.id().to_string();
    let stat = || std::fs::read_to_string(format!("/proc/{zombie}/stat")).unwrap();
    while !stat().contains(") Z ") {
        std::thread::yield_now();
    }
    assert_eq!(attach(None, &["-p", &zombie]).0, Some(2));
    ended.wait().unwrap();
    if std::fs::read_to_string("/proc/2/comm").is_ok_and(|comm| comm == "kthreadd\n") {
        let (code, text) = attach(None, &["-p", "2"]);
        assert!(code == Some(2) && text.contains("kernel thread"), "{text}");
    }
    if rustix::process::geteuid().is_root() {
        let own = std::process::id().to_string();
        let (code, text) = attach(Some(NOBODY), &["-p", &own]);
        assert!(code == Some(2) && text.contains("help: "), "{text}");
        assert!(text.contains("may not be observed"), "{text}");
    } else {
        println!("SKIP part of what_cannot_be_attached_to: not root");
    }
}
