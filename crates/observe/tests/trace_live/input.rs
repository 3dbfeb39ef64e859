//! A stand-in for standard input that can be read only once. Each use of it ends the look before the call
//! returns, by `tests/programs/input.c`. A question about its kind does not.

use super::{built, look, shell};
use pagewise_model::usage::ProgramEnd;
use pagewise_observe::trace::{TraceError, TraceOptions, traced_run};
use pagewise_tracee::launch::{OneTimeInput, ProgramLaunch, StdinSource};
use std::path::Path;
use std::process::Command;

/// Uses of any kind of input, each with the call that is reported.
const USES: [(&str, &str); 20] = [
    ("read", "read"),
    ("readv", "readv"),
    ("preadv2", "preadv2"),
    ("stdio", "read"),
    ("poll", "poll"),
    ("ppoll", "poll"),
    ("select", "select"),
    ("epoll", "epoll_ctl"),
    ("fionread", "ioctl"),
    ("splice", "splice"),
    ("tee", "tee"),
    ("sendfile", "sendfile"),
    ("dup", "read"),
    ("dup2", "read"),
    ("fcntl", "read"),
    ("copy-of-copy", "read"),
    ("copy-in-child", "read"),
    ("copy-in-thread", "read"),
    ("name", "open"),
    ("proc-name", "open"),
];

/// Uses of a socket.
const OF_SOCKETS: [(&str, &str); 3] =
    [("recv", "recvfrom"), ("recvmsg", "recvmsg"), ("send", "sendto")];

fn with_input(dir: &Path, command: &str, once: OneTimeInput) -> ProgramLaunch {
    ProgramLaunch { stdin: StdinSource::Ended(once), ..shell(dir, command) }
}

fn uses(dir: &Path, command: &str, once: OneTimeInput) -> String {
    match traced_run(&with_input(dir, command, once), &TraceOptions::default()) {
        Err(TraceError::UsesInput { call, effects }) if effects.is_empty() => call,
        other => panic!("{command}: {other:?}"),
    }
}

pub(super) fn each_use_of_the_input_ends_the_look_before() {
    const TEST: &str = "each_use_of_the_input_ends_the_look_before";
    let Some((dir, _)) = built(TEST, "input") else { return };
    let dir = dir.path();
    let both = [OneTimeInput::Pipe, OneTimeInput::Stream];
    let of_both = both.into_iter().flat_map(|once| USES.map(|used| (once, used)));
    let of_sockets = [OneTimeInput::Stream, OneTimeInput::Datagrams, OneTimeInput::Packets]
        .into_iter()
        .flat_map(|once| OF_SOCKETS.map(|used| (once, used)));
    for (once, (used, call)) in of_both.chain(of_sockets) {
        if once != OneTimeInput::Pipe && call == "open" {
            // A socket has no name to open it by: the call fails.
            continue;
        }
        let reported = uses(dir, &format!("exec ./input {used} after"), once);
        assert_eq!(reported, call, "{used} of {once:?}");
        assert!(!dir.join("after").exists(), "{used} of {once:?} came back");
    }
}

pub(super) fn programs_are_ended_at_the_first_use_whoever_makes_it() {
    let dir = super::effects::prepared_dir();
    for command in ["cat", "true | cat; cat", "exec 5<&0; cat <&5", "while read x; do :; done"] {
        assert_eq!(uses(dir.path(), command, OneTimeInput::Pipe), "read", "{command}");
    }
    // No process sees the end of the program that was about to read.
    for _ in 0..20 {
        let command = "exec 3> after; cat | { read line; echo came back >&3; }";
        assert_eq!(uses(dir.path(), command, OneTimeInput::Pipe), "read");
        assert_eq!(std::fs::read(dir.path().join("after")).unwrap(), b"");
        std::fs::remove_file(dir.path().join("after")).unwrap();
    }
    let late = with_input(dir.path(), "rm a; cat > b", OneTimeInput::Pipe);
    let error = traced_run(&late, &TraceOptions::default()).unwrap_err();
    let TraceError::UsesInput { effects, .. } = &error else { panic!("{error}") };
    let done: Vec<&str> = effects.iter().map(|effect| effect.action.as_str()).collect();
    assert_eq!(done, ["removed", "truncated"]);
}

pub(super) fn questions_about_the_input_are_no_uses() {
    const TEST: &str = "questions_about_the_input_are_no_uses";
    let Some((dir, _)) = built(TEST, "input") else { return };
    let dir = dir.path();
    std::fs::write(dir.join("file"), "one\ntwo\n").unwrap();
    let own = std::env::current_exe().unwrap();
    let commands = [
        "./input none",
        "./input none-of-copy",
        "cat file | while read line; do echo $line; done",
        "while read line; do cat file | cat; done < file; cat < file",
        "exec < file; cat",
        "bash -c 'read x < file; echo $x'",
        "python3 -c 'import sys; sys.stdin.isatty(); print(1)'",
        "perl -e 'print -p STDIN'",
        &format!("{} unknown_test", own.display()),
    ];
    for command in commands {
        let program = command.split(' ').next().unwrap();
        let which = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
        if !program.starts_with('.') && !which.unwrap().status.success() {
            println!("SKIP {TEST}: no {program}");
            continue;
        }
        for once in [OneTimeInput::Pipe, OneTimeInput::Stream] {
            let seen = look(&with_input(dir, command, once));
            assert_eq!(seen.ended, ProgramEnd::Exited(0), "{command}: {once:?}");
        }
    }
}
