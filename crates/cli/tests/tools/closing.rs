//! A file system that refuses to store data and says so only at the close (`tests/programs/refuse_flush.c`).
//! The tools report it as GNU's do.

use super::{PAGEWISE, Path, program, run};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Error codes that file systems return at a close: EIO, ENOSPC, EDQUOT.
const REFUSALS: [&str; 3] = ["5", "28", "122"];

/// The file system's program and its mount point. `None` if nothing can be mounted.
fn refusing(place: &Path) -> Option<PathBuf> {
    let made = program("refuse_flush", place)?;
    fs::create_dir(place.join("mnt")).unwrap();
    fs::write(place.join("f"), vec![b'a'; 300_000]).unwrap();
    let mut trial = Command::new(&made);
    trial.args(["mnt", "5", "true"]);
    let ended = run(trial, place, b"");
    if ended.status.code() == Some(77) {
        eprintln!("SKIP refuse_flush: {}", String::from_utf8_lossy(&ended.stderr));
        return None;
    }
    Some(made)
}

/// How a line ends with `tool` in place of TOOL. Each file is new.
fn ended(refusing: &Path, code: &str, line: &str, tool: &str, place: &Path) -> Output {
    let mut command = Command::new(refusing);
    let line = format!("{}; exit ${{status:-$?}}", line.replace("TOOL", tool));
    command.args(["mnt", code, "bash", "-c", &line]);
    run(command, place, b"")
}

#[test]
fn cat_and_tee_tell_what_a_close_tells() {
    let place = tempfile::tempdir().unwrap();
    let Some(refusing) = refusing(place.path()) else { return };
    let lines = [
        ("cat", "TOOL f > mnt/a"),
        ("cat", "TOOL < f > mnt/a"),
        ("cat", "echo hi | TOOL > mnt/a"),
        ("cat", "TOOL -n f > mnt/a"),
        ("cat", "TOOL f >> mnt/a"),
        ("cat", "TOOL f 1<> mnt/a"),
        (
            "cat",
            "TOOL f > mnt/a 2>&1; status=$?; tail -c 60 mnt/a 2> /dev/null | tail -n 1 | grep -o 'write.*'",
        ),
        ("cat", "TOOL f 3> mnt/a >&3"),
        ("cat", "TOOL missing > mnt/a"),
        ("cat", "TOOL /dev/null > mnt/a"),
        ("cat", "cat f > mnt/a; TOOL mnt/a | cksum; status=${PIPESTATUS[0]}"),
        ("cat", "cat f > mnt/a; TOOL < mnt/a | cksum; status=${PIPESTATUS[0]}"),
        ("cat", "TOOL f > /dev/full"),
        ("tee", "TOOL mnt/a < f | cksum; status=${PIPESTATUS[0]}"),
        ("tee", "TOOL mnt/a mnt/b ok < f > /dev/null; status=$?; cksum ok"),
        ("tee", "TOOL ok < f > mnt/a"),
        ("tee", "TOOL -a mnt/a < f > mnt/b"),
        ("tee", "TOOL -p mnt/a < f > mnt/b"),
        ("tee", "TOOL --output-error=exit mnt/a < f > /dev/null"),
        ("tee", "head -c 2M f f f f f f f f | TOOL mnt/a | cksum; status=${PIPESTATUS[1]}"),
    ];
    for (tool, line) in lines {
        for code in REFUSALS {
            let theirs = ended(&refusing, code, line, &format!("/usr/bin/{tool}"), place.path());
            let ours = ended(&refusing, code, line, &format!("{PAGEWISE} {tool}"), place.path());
            assert_eq!(theirs, ours, "{line} with {tool}, errno {code}");
            assert!(line.contains("full") || ours.status.code() == Some(1), "{line}: {ours:?}");
        }
    }
}

#[test]
fn help_that_cannot_be_stored_is_an_error() {
    let place = tempfile::tempdir().unwrap();
    let Some(refusing) = refusing(place.path()) else { return };
    for line in ["TOOL --help > mnt/a", "TOOL --version > mnt/a"] {
        for tool in ["cat", "tee", "meter"] {
            let ours = ended(&refusing, "5", line, &format!("{PAGEWISE} {tool}"), place.path());
            assert_eq!(ours.status.code(), Some(1), "{tool}: {line}");
        }
    }
}

#[test]
fn meter_tells_what_a_close_tells() {
    let place = tempfile::tempdir().unwrap();
    let Some(refusing) = refusing(place.path()) else { return };
    for line in [
        "TOOL -q f > mnt/a",
        "TOOL -q < f > mnt/a",
        "cat f | TOOL -q > mnt/a",
        "TOOL -q -l f > mnt/a",
        "TOOL -q -Y f > mnt/a",
        "TOOL -q -o mnt/a f",
    ] {
        for (code, text) in [("5", "Input/output error"), ("122", "Disk quota exceeded")] {
            let ours = ended(&refusing, code, line, &format!("{PAGEWISE} meter"), place.path());
            let reported = String::from_utf8_lossy(&ours.stderr).into_owned();
            assert_eq!(reported, format!("meter: write error: {text}\n"), "{line}");
            assert_eq!(ours.status.code(), Some(16), "{line}");
        }
    }
}
