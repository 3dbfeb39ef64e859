//! A program passed through: status, signals, descriptors, stopping.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says when it skips"
)]

mod helper;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn agent(mode: &str, argv: &[&str]) -> Command {
    let mut command = Command::new(helper::agent());
    command.arg(mode).args(argv);
    command
}

fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

fn state(pid: i32) -> Option<char> {
    pagewise_kernel::proc::stat::read(pid).ok().map(|s| s.state)
}

fn wait_for(mut ready: impl FnMut() -> bool) {
    let start = Instant::now();
    while !ready() {
        assert!(start.elapsed() < Duration::from_secs(20), "it never came");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A program under `mode` that says its process id and then does `script`.
fn started(mode: &str, script: &str) -> (Child, i32, BufReader<std::process::ChildStdout>) {
    let mut child = agent(mode, &["sh", "-c", &format!("echo $$; {script}")])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    (child, line.trim().parse().unwrap(), out)
}

#[test]
fn status_signal_death_and_refusals_are_passed_on() {
    for mode in ["exec", "through", "observe"] {
        for status in [0, 7, 255] {
            let script = format!("exit {status}");
            let end = agent(mode, &["sh", "-c", &script]).status().unwrap();
            assert_eq!(end.code(), Some(status), "{mode}");
        }
        for number in [libc::SIGTERM, libc::SIGKILL, libc::SIGSEGV] {
            let script = format!("kill -{number} $$");
            let end = agent(mode, &["sh", "-c", &script]).status().unwrap();
            assert_eq!(end.signal(), Some(number), "{mode}");
        }
        let missing = agent(mode, &["no-such-command-here"]).stderr(Stdio::null()).status();
        assert_eq!(missing.unwrap().code(), Some(127), "{mode}");
        let directory = agent(mode, &["/"]).stderr(Stdio::null()).status();
        assert_eq!(directory.unwrap().code(), Some(126), "{mode}");
    }
}

#[test]
fn exec_leaves_no_process_of_ours() {
    let (mut child, pid, _out) = started("exec", "exec sleep 600");
    assert_eq!(Ok(pid), i32::try_from(child.id()));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn nothing_of_ours_leaks_into_the_program() {
    let script = "ls /proc/self/fd; grep -E '^Sig(Ign|Blk)' /proc/self/status";
    for mode in ["exec", "through", "observe"] {
        let out = agent(mode, &["sh", "-c", script]).output().unwrap();
        let direct = Command::new("sh").args(["-c", script]).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(text(&out.stdout), text(&direct.stdout), "{mode}");
    }
}

/// What a shell's `exec` of `argv` prints after it did `before`.
fn after(before: &str, argv: &[&str]) -> String {
    let script = format!("{before}; exec \"$@\"");
    let out = Command::new("sh").args(["-c", &script, "sh"]).args(argv).output().unwrap();
    assert!(out.status.success(), "{out:?}");
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn signals_ignored_at_the_start_stay_ignored() {
    let helper = helper::agent();
    let program = ["grep", "^SigIgn", "/proc/self/status"];
    for before in ["trap '' PIPE CHLD", "trap '' HUP", "trap - PIPE CHLD HUP"] {
        let direct = after(before, &program);
        for mode in ["exec", "through", "observe"] {
            let argv = [&[helper.to_str().unwrap(), mode], &program[..]].concat();
            assert_eq!(after(before, &argv), direct, "{mode} after {before}");
        }
    }
}

#[test]
fn variables_that_name_us_name_the_program() {
    let helper = helper::agent();
    let before = "export LISTEN_PID=$$ LISTEN_PIDFDID=77 WATCHDOG_PID=1 OTHER_PID=$$; echo $$";
    for mode in ["exec", "through", "observe"] {
        let script = "echo $$ $LISTEN_PID $WATCHDOG_PID $OTHER_PID ${LISTEN_PIDFDID-none}";
        let argv = [helper.to_str().unwrap(), mode, "sh", "-c", script];
        let text = after(before, &argv);
        let words: Vec<&str> = text.split_whitespace().collect();
        let [us, program, rest @ ..] = words.as_slice() else { panic!("{text}") };
        let inode = if mode == "exec" { "77" } else { "none" };
        assert_eq!(rest, [program, "1", us, inode], "{mode}");
        assert_eq!(us == program, mode == "exec");
    }
}

/// A program under `through` that says which signals it hears, and its lines.
fn listening() -> (Child, BufReader<std::process::ChildStdout>) {
    listening_after("echo ready")
}

/// The same; when it listens it does `first`, which says that it is ready.
fn listening_after(first: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let script = format!(
        "for s in INT QUIT ABRT USR1 USR2 TERM 36; do trap \"echo $s\" $s; done; \
         trap 'exit 9' HUP; {first}; while :; do sleep 0.05 & wait; done"
    );
    let mut command = agent("through", &["sh", "-c", &script]);
    let mut child = command.process_group(0).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(line(&mut out), "ready");
    (child, out)
}

fn line(out: &mut BufReader<std::process::ChildStdout>) -> String {
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

#[test]
fn a_signal_sent_to_us_reaches_the_program() {
    let (mut child, mut out) = listening();
    let us = child.id().to_string();
    for name in ["INT", "QUIT", "ABRT", "USR1", "TERM", "36"] {
        assert!(Command::new("kill").args(["-s", name, &us]).status().unwrap().success());
        assert_eq!(line(&mut out), name);
    }
    signal(child.id(), rustix::process::Signal::HUP);
    assert_eq!(child.wait().unwrap().code(), Some(9));
}

#[test]
fn a_signal_sent_to_the_group_reaches_the_program_once() {
    let (mut child, mut out) = listening();
    let group = group(&child);
    let mut heard = Vec::new();
    for round in 1..=3 {
        rustix::process::kill_process_group(group, rustix::process::Signal::TERM).unwrap();
        while !heard.ends_with(&["TERM".to_owned()]) {
            heard.push(line(&mut out));
        }
        // Handed on together with what came before it.
        signal(child.id(), rustix::process::Signal::USR1);
        while heard.iter().filter(|name| *name == "USR1").count() < round {
            heard.push(line(&mut out));
        }
    }
    rustix::process::kill_process_group(group, rustix::process::Signal::HUP).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(9));
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    heard.extend(rest.lines().map(str::to_owned));
    assert_eq!(heard.iter().filter(|name| *name == "TERM").count(), 3, "{heard:?}");
}

fn group(child: &Child) -> rustix::process::Pid {
    rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap()
}

#[test]
fn a_stop_sent_to_the_group_reaches_the_program_once() {
    use rustix::process::{Signal, kill_process_group};
    // Only the first one stops it, when we have taken ours and have not handed it on yet.
    let stop =
        "trap 'echo TSTP; [ \"$n\" ] || { n=1; sleep 0.005; kill -STOP $$; }' TSTP; echo ready";
    let (mut child, mut out) = listening_after(stop);
    let us = i32::try_from(child.id()).unwrap();
    kill_process_group(group(&child), Signal::TSTP).unwrap();
    assert_eq!(line(&mut out), "TSTP");
    wait_for(|| state(us) == Some('T'));
    kill_process_group(group(&child), Signal::CONT).unwrap();
    // Handed on after what was kept before it.
    signal(child.id(), Signal::USR1);
    assert_eq!(line(&mut out), "USR1");
    signal(child.id(), Signal::HUP);
    assert_eq!(child.wait().unwrap().code(), Some(9));
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}

#[test]
fn a_signal_is_not_taken_for_one_that_the_program_sent_before() {
    use rustix::process::{Signal, kill_process_group};
    // When we stop with it we have seen what it sent to the group.
    let (mut child, mut out) = listening_after("echo ready; kill -s USR2 0; kill -STOP $$");
    let us = i32::try_from(child.id()).unwrap();
    assert_eq!(line(&mut out), "USR2");
    wait_for(|| state(us) == Some('T'));
    kill_process_group(group(&child), Signal::CONT).unwrap();
    signal(child.id(), Signal::USR2);
    let last = Command::new("kill").args(["-s", "36", &us.to_string()]).status().unwrap();
    assert!(last.success());
    assert_eq!(line(&mut out), "USR2");
    assert_eq!(line(&mut out), "36");
    signal(child.id(), Signal::HUP);
    assert_eq!(child.wait().unwrap().code(), Some(9));
}

#[test]
fn we_stop_and_go_on_with_the_program() {
    let (mut child, pid, _out) = started("through", "exec sleep 600");
    let us = i32::try_from(child.id()).unwrap();
    signal(u32::try_from(pid).unwrap(), rustix::process::Signal::STOP);
    wait_for(|| state(us) == Some('T'));
    signal(child.id(), rustix::process::Signal::CONT);
    wait_for(|| state(us) != Some('T') && state(pid) != Some('T'));
    signal(child.id(), rustix::process::Signal::TERM);
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
}

#[test]
fn what_runs_in_the_background_lives_on_and_the_program_dies_with_us() {
    let (mut child, _pid, mut out) = started("through", "sleep 600 >/dev/null & echo $!");
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let background: i32 = line.trim().parse().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(matches!(state(background), Some('S' | 'R' | 'D')));
    signal(u32::try_from(background).unwrap(), rustix::process::Signal::KILL);

    let (mut child, pid, _out) = started("through", "exec sleep 600");
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for(|| matches!(state(pid), None | Some('Z')));
}

#[test]
fn as_an_ordinary_user_the_same_holds() {
    helper::run_again_as_an_ordinary_user();
}
