//! Whichever process dies, nothing that was started stays alive.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says when it skips"
)]

mod helper;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// A front with a program that has children, some in another session, and their process IDs.
fn front(list: &Path) -> (Child, BufReader<ChildStdout>, i32, Vec<i32>) {
    let script = format!(
        "setsid sleep 600 & echo $! >> {0}; (sleep 600 & echo $! >> {0}); echo $$ >> {0}; sleep 600",
        list.display()
    );
    let mut child = Command::new(helper::agent())
        .args(["front", "/bin/sh", "-c", &script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let supervisor = line.trim().strip_prefix("supervisor ").unwrap().parse().unwrap();
    let pids = wait_for(|| {
        let text = std::fs::read_to_string(list).unwrap_or_default();
        let pids: Vec<i32> = text.lines().filter_map(|l| l.parse().ok()).collect();
        (pids.len() == 3).then_some(pids)
    });
    assert!(pids.iter().all(|pid| alive(*pid)));
    (child, out, supervisor, pids)
}

fn wait_for<T>(mut ready: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "it never came");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn alive(pid: i32) -> bool {
    pagewise_kernel::proc::stat::read(pid).is_ok_and(|s| !s.is_zombie())
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn the_fronts_death_ends_everything() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, _out, supervisor, pids) = front(&dir.path().join("pids"));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for(|| (!pids.iter().any(|pid| alive(*pid)) && !alive(supervisor)).then_some(()));
}

#[test]
fn the_supervisors_death_ends_everything_and_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, mut out, supervisor, pids) = front(&dir.path().join("pids"));
    kill(supervisor);
    let mut text = String::new();
    out.read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(text.starts_with("died killed by signal 9"), "{text}");
    assert!(!pids.iter().any(|pid| alive(*pid)), "{text}");
}

#[test]
fn the_supervisor_leaves_signals_of_a_terminal_to_the_front() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, _out, supervisor, pids) = front(&dir.path().join("pids"));
    let target = rustix::process::Pid::from_raw(supervisor).unwrap();
    for signal in
        [rustix::process::Signal::INT, rustix::process::Signal::TERM, rustix::process::Signal::HUP]
    {
        rustix::process::kill_process(target, signal).unwrap();
    }
    std::thread::sleep(Duration::from_millis(50));
    assert!(alive(supervisor) && pids.iter().all(|pid| alive(*pid)));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for(|| (!alive(supervisor)).then_some(()));
}

#[test]
fn as_an_ordinary_user_the_same_holds() {
    helper::run_again_as_an_ordinary_user();
}
