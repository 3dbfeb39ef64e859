//! A FIFO where a file is expected never blocks the program, no matter which account created it. A pipe that
//! the caller opened is read.

use crate::helper::{PROGRAM, Place, said};
use pagewise_observe::order::{ProgramCode, functions_on, is_linked, variables_on};
use pagewise_tracee::{elf, glibc, lending};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::collections::{BTreeMap, HashSet};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::mpsc::channel;
use std::time::Duration;

/// A FIFO without a writer.
fn fifo(directory: &Path, name: &str) -> PathBuf {
    let path = directory.join(name);
    mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    path
}

/// A command of the program under `timeout`. It ends with status 124 if it blocks.
fn bounded(place: &Place, words: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["20", PROGRAM]).args(words).env("HOME", place.path()).current_dir(place.path());
    command.output().unwrap()
}

#[test]
fn files_of_others_that_are_fifos_are_not_waited_for() {
    let place = Place::new();
    let file = fifo(place.path(), "app");
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let seen = elf::of_executable(&file).map_err(|error| error.source.to_string());
        send.send(("elf", seen.is_err_and(|why| why == "not a regular file"))).unwrap();
        send.send(("glibc", glibc::has_huge_tunable(&file).is_none())).unwrap();
        send.send(("lending", !lending::file_opens_deep(&file))).unwrap();
        send.send(("variables", variables_on(&file, &[], &HashSet::new()).is_none())).unwrap();
        send.send(("pages", functions_on(&file, &BTreeMap::new()).is_none())).unwrap();
        send.send(("code", ProgramCode::open(&file).is_none())).unwrap();
        send.send(("linked", !is_linked(&file))).unwrap();
    });
    let mut last = "the start";
    for _ in 0..7 {
        let after = format!("waits after {last}");
        let (what, is_right) = receive.recv_timeout(Duration::from_secs(20)).expect(&after);
        assert!(is_right, "{what}");
        last = what;
    }
}

#[test]
fn commands_say_in_one_line_that_a_fifo_is_no_file() {
    let place = Place::new();
    let file = fifo(place.path(), "f");
    let script = place.path().join("script");
    std::fs::write(&script, format!("#!{}\n", file.display())).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let commands = [
        "show ./f",
        "compare ./f ./f",
        "apply ./f",
        "fleet script --slurm ./f",
        "merge ./f",
        "cache restore ./f",
        "cache show ./f",
        "order close ./f",
        "order emit ./f",
        "bench text --files ./f -- true",
        "run --with heap-small -- ./script",
        "run --with heap-small -- ./f",
    ];
    for words in commands {
        let done = bounded(&place, &words.split(' ').collect::<Vec<_>>());
        let text = said(&done.stderr);
        assert!(!matches!(done.status.code(), Some(0 | 124) | None), "{words}: {done:?}");
        assert_eq!(
            text.lines().filter(|line| line.starts_with("pagewise: ")).count(),
            1,
            "{words}: {text}"
        );
    }
}

#[test]
fn what_a_shell_pipes_to_a_path_is_read() {
    let place = Place::new();
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs/walk-tune.json");
    let ask = |line: &str| {
        let mut shell = Command::new("timeout");
        shell.args(["20", "bash", "-c", line]).env("P", PROGRAM).env("RUN", &run);
        shell.env("HOME", place.path()).current_dir(place.path()).output().unwrap()
    };
    let plain = ask("\"$P\" show \"$RUN\"");
    assert!(plain.status.success() && !plain.stdout.is_empty(), "{plain:?}");
    for line in [
        "\"$P\" show <(cat \"$RUN\")",
        "cat \"$RUN\" | \"$P\" show /dev/fd/0",
        "\"$P\" show /proc/self/fd/7 7< <(sleep 0.1; cat \"$RUN\")",
    ] {
        assert_eq!(said(&ask(line).stdout), said(&plain.stdout), "{line}");
    }
    let two = ask("\"$P\" compare <(cat \"$RUN\") <(cat \"$RUN\")");
    assert!(two.status.success(), "{two:?}");
    // A device has no end, and the end for writing holds nothing.
    for line in ["\"$P\" show /dev/fd/3 3</dev/zero", "\"$P\" show /dev/fd/3 3> >(cat)"] {
        let done = ask(line);
        assert_eq!(done.status.code(), Some(2), "{line}: {done:?}");
        assert_eq!(
            said(&done.stderr).lines().filter(|line| line.starts_with("pagewise: ")).count(),
            1
        );
    }
}
