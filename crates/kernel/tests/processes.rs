//! Live tests on known children of this test.
#![allow(
    clippy::print_stderr,
    clippy::unwrap_used,
    missing_docs,
    reason = "a skipped test says so; a failed set-up fails the test"
)]

use pagewise_kernel::lock::{ExperimentLock, LockError, SettingsLock};
use pagewise_kernel::proc::{fd, io, own_pid, smaps, stat, tree};
use pagewise_kernel::{affinity, pidfd, pipe};
use pagewise_model::Bytes;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A child that is killed when the test ends, however the test ends.
struct Running(Child);

impl Running {
    fn start(script: &str) -> Self {
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }
    fn pid(&self) -> i32 {
        self.0.id().cast_signed()
    }
    fn line(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn descendants_are_found_both_ways() {
    // The grandchild waits until the standard input that it inherits ends.
    let mut shell = Running::start("exec 3<&0; sh -c 'cat <&3 & echo $!; wait' & wait");
    let grandchild: i32 = shell.line().parse().unwrap();
    let mut scanner = tree::DescendantScanner::new(shell.pid());
    for _ in 0..2 {
        let scanned = scanner.scan().unwrap();
        assert_eq!(scanned.len(), 2, "{scanned:?}");
        assert_eq!(scanned[1], grandchild, "parents before children");
        assert_eq!(tree::descendants(shell.pid()).unwrap(), scanned);
    }
    let middle = stat::read(grandchild).unwrap().ppid;
    assert_eq!(tree::children(shell.pid()).unwrap(), [middle]);
    assert_eq!(tree::children(middle).unwrap(), [grandchild]);
    assert!(tree::descendants(own_pid()).unwrap().contains(&grandchild));
}

#[test]
fn an_orphan_stays_in_the_tree_of_a_scanner() {
    let mut shell = Running::start("exec 3<&0; sh -c 'cat <&3 & echo $!; read x' ; wait; cat");
    let orphan: i32 = shell.line().parse().unwrap();
    let mut scanner = tree::DescendantScanner::new(shell.pid());
    assert!(scanner.scan().unwrap().contains(&orphan));
    let middle = stat::read(orphan).unwrap().ppid;
    pidfd::send_signal(pidfd::open(middle).unwrap(), 9).unwrap();
    while stat::read(orphan).unwrap().ppid == middle {
        std::thread::yield_now();
    }
    assert!(scanner.scan().unwrap().contains(&orphan));
    assert!(scanner.scan().unwrap().contains(&orphan));
    pidfd::send_signal(pidfd::open(orphan).unwrap(), 9).unwrap();
}

#[test]
fn a_process_that_is_gone_says_so() {
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id().cast_signed();
    child.wait().unwrap();
    assert!(stat::read(pid).unwrap_err().is_gone());
    assert!(tree::children(pid).unwrap_err().is_gone());
    assert!(pidfd::open(pid).unwrap_err().is_gone());
}

#[test]
fn a_pipe_of_a_child_is_grown_from_outside() {
    let mut child = Running::start("echo ready; cat");
    assert_eq!(child.line(), "ready");
    let target = pidfd::open(child.pid()).unwrap();
    let theirs = match pidfd::get_fd(&target, 0) {
        Ok(fd) => fd,
        Err(error) => {
            eprintln!("SKIP a_pipe_of_a_child_is_grown_from_outside: {error}");
            return;
        }
    };
    let now = pipe::set_capacity(&theirs, Bytes::kib(256)).unwrap();
    assert_eq!(now, Bytes::kib(256));
    let ours = child.0.stdin.as_ref().unwrap();
    assert_eq!(pipe::capacity(ours).unwrap(), now);
    let seen = fd::list(child.pid()).unwrap();
    let own = fd::list(own_pid()).unwrap();
    let mine = own.iter().find(|d| d.fd == ours.as_raw_fd()).unwrap();
    assert_eq!(seen[0].target, mine.target);
    assert!(seen[0].readable && !seen[0].writable);
}

#[test]
fn io_counts_what_went_through() {
    let mut child = Running::start("echo ready; cat; exec 1>&-; read x");
    assert_eq!(child.line(), "ready");
    let before = io::read(child.pid()).unwrap();
    assert!(before.write_chars >= Bytes(6));
    child.0.stdin.as_mut().unwrap().write_all(b"x\n").unwrap();
    assert!(smaps::rollup(child.pid()).unwrap().rss > Bytes(0));
}

#[test]
fn affinity_of_a_child_is_set() {
    let child = Running::start("cat");
    let cpus = affinity::get(0).unwrap();
    affinity::set(child.pid(), &cpus[..1]).unwrap();
    assert_eq!(affinity::get(child.pid()).unwrap(), &cpus[..1]);
}

#[test]
fn the_lock_names_its_holder_and_goes_with_it() {
    let name = format!("pagewise-test-{}", own_pid());
    let held = ExperimentLock::acquire_named(name.as_bytes()).unwrap();
    for _ in 0..40 {
        match ExperimentLock::acquire_named(name.as_bytes()) {
            Err(LockError::Held(holder)) => {
                let own = rustix::process::geteuid().as_raw();
                assert_eq!((holder.pid, holder.uid), (Some(own_pid()), Some(own)));
            }
            other => panic!("{other:?}"),
        }
    }
    drop(held);
    // A child that another test has just forked holds the socket until its exec.
    let is_free = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        ExperimentLock::acquire_named(name.as_bytes()).is_ok()
    });
    assert!(is_free);
}

#[test]
fn the_first_question_for_the_holder_is_answered() {
    let name = format!("pagewise-test-first-{}", own_pid());
    let _held = ExperimentLock::acquire_named(name.as_bytes()).unwrap();
    let error = ExperimentLock::acquire_named(name.as_bytes()).unwrap_err();
    assert!(error.to_string().contains(&format!("(pid {}, ", own_pid())), "{error}");
}

#[test]
fn a_holder_outside_our_pid_namespace_has_no_pid() {
    const TEST: &str = "a_holder_outside_our_pid_namespace_has_no_pid";
    const VARIABLE: &str = "PAGEWISE_TEST_HELD";
    if let Some(name) = std::env::var_os(VARIABLE) {
        let error = ExperimentLock::acquire_named(name.as_encoded_bytes()).unwrap_err();
        let LockError::Held(holder) = error else { panic!("{error:?}") };
        assert_eq!((holder.pid, holder.command), (None, None));
        return;
    }
    let name = format!("pagewise-test-namespace-{}", own_pid());
    let _held = ExperimentLock::acquire_named(name.as_bytes()).unwrap();
    let mut inside = Command::new("unshare");
    inside.args(["--user", "--map-root-user", "--pid", "--fork", "--"]);
    if !inside.arg("true").status().is_ok_and(|s| s.success()) {
        eprintln!("SKIP {TEST}: no new pid namespace for this account");
        return;
    }
    let mut inside = Command::new("unshare");
    inside.args(["--user", "--map-root-user", "--pid", "--fork", "--"]);
    inside.arg(std::env::current_exe().unwrap()).args(["--exact", TEST]).env(VARIABLE, &name);
    let output = inside.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn the_lock_is_not_inherited_by_programs() {
    let name = format!("pagewise-test-exec-{}", own_pid());
    let held = ExperimentLock::acquire_named(name.as_bytes()).unwrap();
    let mut child = Running::start("echo ready; cat");
    assert_eq!(child.line(), "ready");
    drop(held);
    ExperimentLock::acquire_named(name.as_bytes()).unwrap();
}

/// Starts a process that holds the settings lock in `directory` until it is killed.
fn holder_of_settings(test: &str, directory: &std::path::Path, before: &[&str]) -> Child {
    let own = std::env::current_exe().unwrap();
    let mut command = Command::new(before.first().map_or(own.as_os_str(), |word| word.as_ref()));
    if !before.is_empty() {
        command.args(&before[1..]).arg(&own);
    }
    command.args(["--exact", test, "--nocapture"]).env("PAGEWISE_TEST_SETTINGS", directory);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("held") {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "the holder ended");
    }
    child
}

#[test]
fn the_lock_of_settings_ends_with_its_holder_and_not_before() {
    const TEST: &str = "the_lock_of_settings_ends_with_its_holder_and_not_before";
    if let Some(directory) = std::env::var_os("PAGEWISE_TEST_SETTINGS") {
        let _held = SettingsLock::acquire_in(directory.as_ref()).unwrap();
        writeln!(std::io::stdout(), "held").unwrap();
        std::thread::sleep(Duration::from_secs(60));
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let spaces: [&[&str]; 2] = [&[], &["unshare", "-U", "-r", "-n", "-i", "--"]];
    for before in spaces {
        if !before.is_empty()
            && !Command::new("unshare")
                .args(["-U", "-r", "-n", "true"])
                .status()
                .is_ok_and(|s| s.success())
        {
            eprintln!("SKIP {TEST} in other namespaces: this account has none");
            continue;
        }
        let mut holder = holder_of_settings(TEST, dir.path(), before);
        for _ in 0..3 {
            let error = SettingsLock::acquire_in(dir.path()).unwrap_err();
            assert!(matches!(error, LockError::Changing(_)), "{error}");
            assert!(error.to_string().contains(&format!("(pid {}", holder.id())), "{error}");
        }
        holder.kill().unwrap();
        holder.wait().unwrap();
        SettingsLock::acquire_in(dir.path()).unwrap();
    }
    let link = dir.path().join("link");
    std::fs::create_dir(&link).unwrap();
    std::os::unix::fs::symlink("/dev/null", link.join("lock")).unwrap();
    assert!(SettingsLock::acquire_in(&link).is_err(), "no link is followed");
}
