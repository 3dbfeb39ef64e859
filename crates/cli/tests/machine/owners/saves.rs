//! Results that cannot be kept, saves that are killed, and runs saved by another account.

use super::{behind, can_be_hostile};
use crate::helper::{Place, only_turn, said};
use std::path::Path;
use std::process::Command;

fn names(place: &Path) -> Vec<String> {
    let entries = place.read_dir().unwrap().flatten();
    entries.map(|entry| said(entry.file_name().as_encoded_bytes())).collect()
}

/// Whether this kernel and account can replace a call by a kill.
fn can_kill_at(call: &str) -> bool {
    let mut strace = Command::new("strace");
    let inject = format!("inject={call}:signal=SIGKILL");
    strace.args(["-qq", "-o", "/dev/null", "-e", &inject, "--", "sync", "/"]);
    strace.output().is_ok_and(|done| !done.status.success())
}

#[test]
fn a_save_that_is_killed_leaves_nothing() {
    let _turn = only_turn();
    const TEST: &str = "a_save_that_is_killed_leaves_nothing";
    if !can_kill_at("syncfs,fsync") {
        return println!("SKIP {TEST}: no strace that can kill at a call");
    }
    let place = Place::new();
    std::fs::create_dir(place.path().join("kept")).unwrap();
    let file = place.path().join("kept/result.json");
    let command = || {
        let mut command = place.pagewise(&["faults", "--save"]);
        command.arg(&file).args(["--", "true"]);
        command
    };
    let kill = ["strace", "-qq", "-o", "/dev/null", "-e", "inject=fsync:signal=SIGKILL", "--"];
    let state = place.path().join("state");
    let _killed =
        behind(&kill, command().env("XDG_STATE_HOME", "/dev/null/none")).output().unwrap();
    let _killed = behind(&kill, command().env("XDG_STATE_HOME", &state)).output().unwrap();
    assert!(!file.exists(), "the save was not killed");
    // A save killed between two names leaves a file, and the next save removes it.
    std::fs::write(place.path().join("kept/.pagewise-part-1-1"), "half").unwrap();
    let done = command().env("XDG_STATE_HOME", &state).output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", said(&done.stderr));
    assert_eq!(names(&place.path().join("kept")), ["result.json"]);
    let runs = names(&state.join("pagewise/runs"));
    assert!(runs.len() == 1 && runs[0].ends_with(".json"), "{runs:?}");
}

#[test]
fn a_result_is_reported_where_it_cannot_be_kept() {
    let _turn = only_turn();
    const TEST: &str = "a_result_is_reported_where_it_cannot_be_kept";
    let place = Place::new();
    let full = place.path().join("full");
    std::fs::create_dir(&full).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=16k none {0} && mkdir -m 700 {0}/pagewise && \
         dd if=/dev/zero of={0}/filler bs=1k 2>/dev/null; exec \"$@\"",
        full.display()
    );
    let locked = format!("mount -t tmpfs -o ro none {} && exec \"$@\"", full.display());
    let words = ["profile", "--save", "/proc/x", "--", "sh", "-c", "exit 7"];
    let mut places = vec![(None, "/proc/x")];
    if can_be_hostile(TEST) {
        places.push((Some(script), full.to_str().unwrap()));
        places.push((Some(locked), full.to_str().unwrap()));
    }
    for (mounts, state) in places {
        let mut command = place.pagewise(&words);
        command.env("XDG_STATE_HOME", state);
        if let Some(script) = &mounts {
            command = behind(&["unshare", "-m", "sh", "-c", script, "sh"], &command);
        }
        let done = command.output().unwrap();
        let reported = said(&done.stderr);
        // The status is the program's. The report names what could not be kept, by default or by request.
        assert_eq!(done.status.code(), Some(7), "{reported}");
        assert!(reported.contains(" of CPU time"), "{reported}");
        assert!(reported.contains("pagewise: cannot save `/proc/x`"), "{reported}");
        assert!(
            reported.lines().filter(|line| line.starts_with("pagewise: ")).count() >= 2,
            "{reported}"
        );
    }
}

#[test]
fn a_choice_is_reported_where_prices_cannot_be_kept() {
    let _turn = only_turn();
    let place = Place::new();
    let file = place.path().join("file");
    std::fs::write(&file, vec![7; 1 << 20]).unwrap();
    let made = || {
        let mut command = place.pagewise(&["choose", "--json"]);
        command.arg(&file).env("XDG_CACHE_HOME", "/proc/x");
        // No other experiment is in the way in that namespace.
        if super::can(&["unshare", "-n", "true"]) {
            behind(&["unshare", "-n"], &command)
        } else {
            command
        }
    };
    let Some(done) = crate::helper::experiment(made) else { return };
    let reported = said(&done.stderr);
    assert_eq!(done.status.code(), Some(0), "{reported}");
    assert!(said(&done.stdout).contains("not saved"), "{}", said(&done.stdout));
}

#[test]
fn a_working_set_without_end_is_refused() {
    let _turn = only_turn();
    let place = Place::new();
    let large = place.path().join("large");
    std::fs::File::create(&large).unwrap().set_len(1 << 33).unwrap();
    let fifo = place.path().join("fifo");
    assert!(super::can(&["mkfifo", fifo.to_str().unwrap()]));
    let zero = Path::new("/dev/zero");
    for (file, why) in [
        (large.as_path(), "larger than"),
        (zero, "not a regular file"),
        (&fifo, "not a regular file"),
    ] {
        let with = format!("working-set={}", file.display());
        let mut command = place.pagewise(&["run", "--with", &with, "--", "true"]);
        command.env("XDG_STATE_HOME", place.path());
        // Only a read without a limit would need more memory or time than this.
        let bounded = ["prlimit", "--as=2147483648", "timeout", "20"];
        let done = behind(&bounded, &command).output().unwrap();
        let reported = said(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{reported}");
        assert!(reported.contains(why), "{reported}");
    }
}
