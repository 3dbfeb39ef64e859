//! A program passed through: status, signals, descriptors, stopping.

#![allow(
    unsafe_code,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, says when it skips, and makes a terminal"
)]

mod helper;

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::ptr;
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

/// A program under `mode` that prints its process ID and then runs `script`.
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

/// What a shell's `exec` of `argv` prints after the commands `before`.
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

/// A program under `through` that prints each signal it gets, and its lines.
fn listening() -> (Child, BufReader<std::process::ChildStdout>) {
    listening_after("echo ready")
}

/// As [`listening`]. Once it listens it runs `first`, which says that it is ready.
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
        // Passed on together with the signals before it.
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
    // Passed on after the signals that were kept.
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

/// A pseudoterminal: the test's side, and the program's.
fn terminal() -> (OwnedFd, OwnedFd) {
    let (mut ours, mut theirs) = (0, 0);
    let (name, modes, size) = (ptr::null_mut(), ptr::null(), ptr::null());
    // SAFETY: writes two descriptors into live integers; the rest is left to the kernel.
    let done = unsafe { libc::openpty(&raw mut ours, &raw mut theirs, name, modes, size) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the descriptor is new, and nothing else owns it.
    let ours = unsafe { OwnedFd::from_raw_fd(ours) };
    // SAFETY: as above.
    let theirs = unsafe { OwnedFd::from_raw_fd(theirs) };
    // If a child held this side open, the terminal would never hang up.
    rustix::io::fcntl_setfd(&ours, rustix::io::FdFlags::CLOEXEC).unwrap();
    (ours, theirs)
}

/// The end of a program under `mode`, or alone, when its session loses its terminal, and what it has written to
/// the file FILE by then. It first writes `ready`. A shell that ran `before` starts it.
fn after_hang_up(mode: Option<&str>, before: &str, script: &str) -> (ExitStatus, String) {
    helper::heed_signals();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("said");
    let script = script.replace("FILE", &file.display().to_string());
    let (ours, theirs) = terminal();
    let mut leader = Command::new("sh");
    leader.args(["-c", &format!("{before}; exec \"$@\""), "sh"]);
    if let Some(mode) = mode {
        leader.arg(helper::agent()).arg(mode);
    }
    leader.args(["sh", "-c", &script]).stdin(theirs).stdout(Stdio::null()).stderr(Stdio::null());
    let lead = || {
        rustix::process::setsid()?;
        rustix::process::ioctl_tiocsctty(std::io::stdin())?;
        Ok(())
    };
    // SAFETY: `lead` makes two system calls and neither allocates nor locks.
    unsafe { leader.pre_exec(lead) };
    let mut child = leader.spawn().unwrap();
    // The command holds the program's side of the terminal, so it is dropped.
    drop(leader);
    let said = || std::fs::read_to_string(&file).unwrap_or_default();
    wait_for(|| said().contains("ready"));
    drop(ours);
    wait_for(|| child.try_wait().unwrap().is_some());
    (child.wait().unwrap(), said())
}

#[test]
fn a_hang_up_that_only_the_leader_of_a_session_gets_reaches_the_program_once() {
    let hears = "trap 'echo HUP >>FILE; n=$((n+1))' HUP; echo ready >FILE; i=0; \
         while [ $i -lt 20 ]; do i=$((i+${n:-0})); sleep 0.01 & wait; done; exit 7";
    let dies = "echo ready >FILE; exec sleep 600";
    let ignores = "echo ready >FILE; sleep 0.3; echo end >>FILE; exit 8";
    for mode in [None, Some("through"), Some("observe")] {
        let (status, said) = after_hang_up(mode, ":", hears);
        assert_eq!((status.code(), said.as_str()), (Some(7), "ready\nHUP\n"), "{mode:?}");
        assert_eq!(after_hang_up(mode, ":", dies).0.signal(), Some(libc::SIGHUP), "{mode:?}");
        let (status, said) = after_hang_up(mode, "trap '' HUP", ignores);
        assert_eq!((status.code(), said.as_str()), (Some(8), "ready\nend\n"), "{mode:?}");
    }
}

#[test]
fn what_was_closed_is_closed_in_the_program() {
    let agent = helper::agent();
    let open = |launcher: &[&OsStr], closing: &str| {
        let dir = tempfile::tempdir().unwrap();
        let script = "for n in 0 1 2; do [ -e /proc/$$/fd/$n ] && echo $n >>\"$0\"; done; true";
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec \"$@\" {closing}"), "sh"]).args(launcher);
        let said = dir.path().join("said");
        let done = shell.args(["sh", "-c", script]).arg(&said).output().unwrap();
        assert!(done.status.success(), "{launcher:?} {closing} {done:?}");
        std::fs::read_to_string(said).unwrap_or_default()
    };
    for (closing, left) in [("<&-", "1\n2\n"), (">&-", "0\n2\n"), ("<&- >&- 2>&-", "")] {
        assert_eq!(open(&[], closing), left);
        for mode in ["exec", "through", "observe"] {
            let launcher = [agent.as_os_str(), OsStr::new(mode)];
            assert_eq!(open(&launcher, closing), left, "{mode} {closing}");
        }
        // An experiment gives its program an input and an output. Standard error is the front's.
        let experiment = [agent.as_os_str(), OsStr::new("front")];
        let left = if closing.contains("2>&-") { "0\n1\n" } else { "0\n1\n2\n" };
        assert_eq!(open(&experiment, closing), left, "{closing}");
    }
}

#[test]
fn process_1_reaps_orphans_and_nothing_else() {
    let unshare = ["-pf", "--mount-proc"];
    let works = Command::new("unshare").args(unshare).arg("true").output();
    if !works.is_ok_and(|done| done.status.success()) {
        println!("SKIP process_1_reaps_orphans_and_nothing_else: no unshare -pf --mount-proc");
        return;
    }
    // The status of the program's child, and the number of orphans left once they have ended.
    let script = "for i in 1 2 3 4 5; do (sh -c 'exit 3' &); done; (exit 5) & wait $!; echo $?; \
         left() { grep -s '^State:.Z' /proc/[0-9]*/status; }; sleep 0.2; n=0; \
         while left >/dev/null && [ $n -lt 100 ]; do n=$((n+1)); sleep 0.02; done; left | wc -l; exit 6";
    for mode in ["through", "observe"] {
        let mut command = Command::new("unshare");
        command.args(unshare).arg(helper::agent()).args([mode, "sh", "-c", script]);
        let done = command.output().unwrap();
        let said = String::from_utf8_lossy(&done.stdout);
        assert_eq!((done.status.code(), said.as_ref()), (Some(6), "5\n0\n"), "{mode} {done:?}");
    }
}

#[test]
fn as_an_ordinary_user_the_same_holds() {
    helper::run_again_as_an_ordinary_user();
}
