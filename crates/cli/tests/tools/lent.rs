//! A writer lends its pages to a pipe and overwrites them once they have left it (`tests/programs/lender.c`).
//! It stands in front of the tools. They pass on what was written, and so does a pipeline under `pipe-tools`.
//! With `--live`, and in `meter` as in pv, that is not guaranteed.

use super::{PAGEWISE, Path, Stdio, ours, program};
use std::io::pipe;
use std::os::fd::OwnedFd;
use std::process::Command;

/// Bytes that each writer writes.
const BYTES: &str = "33554432";

/// The output of a shell line in which TOOL is the tool under test, and WRITE and CHECK are the two programs.
fn said(line: &str, way: &str, tool: &str, place: &Path) -> String {
    let writer = format!("./lender write {BYTES} {way}");
    let line = line.replace("TOOL", &format!("{PAGEWISE} {tool}"));
    let line = line.replace("WRITE", &writer).replace("CHECK", "./lender check $B");
    let mut command = Command::new("bash");
    command.args(["-c", &line]).current_dir(place).env("B", BYTES);
    command.env("XDG_CACHE_HOME", place.join("cache"));
    let ended = command.output().unwrap();
    assert!(ended.stderr.is_empty(), "{line}: {}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8_lossy(&ended.stdout).into_owned()
}

const EXACT: &str = "4194304 words, 0 wrong\n";

#[test]
fn cat_and_tee_pass_on_what_was_written() {
    let place = tempfile::tempdir().unwrap();
    if program("lender", place.path()).is_none() {
        return;
    }
    for (line, tool, checks) in [
        ("WRITE | TOOL | CHECK", "cat", 1),
        ("WRITE | TOOL > f; CHECK < f", "cat", 1),
        ("WRITE | TOOL >> g; CHECK < g; rm g", "cat", 1),
        ("WRITE | TOOL | TOOL | CHECK", "cat", 1),
        ("WRITE | TOOL f g | CHECK; CHECK < f; CHECK < g", "tee", 3),
        ("WRITE | TOOL >(CHECK > h) | CHECK; sleep 0.2; cat h", "tee", 2),
        ("WRITE | TOOL -C -q | CHECK", "meter", 1),
        ("WRITE | TOOL bash -c 'cat | tee f' | CHECK; CHECK < f", "run --with pipe-tools --", 2),
    ] {
        for way in ["capacity", "default", "drained"] {
            assert_eq!(said(line, way, tool, place.path()), EXACT.repeat(checks), "{line}, {way}");
        }
    }
}

#[test]
fn the_difference_is_seen_where_pages_are_passed_on() {
    let place = tempfile::tempdir().unwrap();
    if program("lender", place.path()).is_none() {
        return;
    }
    for tool in ["cat --live", "tee --live", "meter -q --live"] {
        assert_ne!(said("WRITE | TOOL | CHECK", "capacity", tool, place.path()), EXACT, "{tool}");
    }
}

#[test]
fn a_socket_is_passed_on_as_it_was_written() {
    let place = tempfile::tempdir().unwrap();
    let Some(lender) = program("lender", place.path()) else { return };
    for tool in ["cat", "tee", "meter"] {
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        let (from, to) = pipe().unwrap();
        let mut command = Command::new(&lender);
        command.args(["write", BYTES, "socket"]).stdout(Stdio::from(OwnedFd::from(far)));
        let mut writer = command.spawn().unwrap();
        drop(command);
        let mut command = ours(tool);
        if tool == "meter" {
            command.arg("-q");
        }
        let near = OwnedFd::from(near);
        let mut passing = command.stdin(Stdio::from(near)).stdout(to).spawn().unwrap();
        drop(command);
        let checked = Command::new(&lender).args(["check", BYTES]).stdin(from).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&checked.stdout), EXACT, "{tool}");
        assert!(writer.wait().unwrap().success() && passing.wait().unwrap().success(), "{tool}");
    }
}
