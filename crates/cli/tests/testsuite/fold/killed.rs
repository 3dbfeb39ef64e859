//! A killed run never leaves half a copy under its name. The next run removes what it did leave. An interrupted
//! run leaves nothing.

use super::{fold, folded};
use crate::helper::{PROGRAM, Place};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// Number of kills, spread over the time that a copy takes here.
const MOMENTS: u64 = 12;

#[test]
fn a_killed_run_leaves_all_of_the_copy_or_none_and_the_next_one_repairs() {
    let place = Place::new();
    let (whole, copy) = (place.path().join("whole"), place.path().join("copy"));
    let file = Path::new(PROGRAM);
    let took = folded(&place, &["--merge"], file, &whole).took_ns;
    let whole = std::fs::read(&whole).unwrap();
    let mut left = 0;
    for nth in 0..MOMENTS {
        let words = ["text", "fold", "--merge", "--force"];
        let mut command = place.pagewise(&words);
        command.arg(file).arg("-o").arg(&copy).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        std::thread::sleep(Duration::from_nanos(took.0 * nth / MOMENTS));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!copy.exists() || std::fs::read(&copy).unwrap() == whole, "half a copy");
        let parts = place.path().read_dir().unwrap().flatten();
        let is_part = |name: &str| name.starts_with(".pagewise-part-");
        left += parts.filter(|e| e.file_name().to_str().is_some_and(is_part)).count();
        let repaired = folded(&place, &["--merge", "--force"], file, &copy);
        let reported = repaired.notes.iter().filter(|note| note.contains("a killed run")).count();
        left = left.checked_sub(reported).expect("what was left is told once");
        assert_eq!((left, place.path().read_dir().unwrap().count()), (0, 2), "whole and copy");
        assert!(std::fs::read(&copy).unwrap() == whole);
    }
    let done = fold(&place, &[], file, &copy);
    assert_eq!(done.status.code(), Some(2), "it is there");
}

#[test]
fn an_interrupted_run_takes_away_what_it_has_begun() {
    const TEST: &str = "an_interrupted_run_takes_away_what_it_has_begun";
    let place = Place::new();
    let copy = place.path().join("copy");
    let mut child = place.pagewise(&["text", "fold", PROGRAM, "-o"]).arg(&copy).spawn().unwrap();
    let parts = || place.path().read_dir().unwrap().count();
    while parts() == 0 && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_micros(100));
    }
    let pid = rustix::process::Pid::from_child(&child);
    let sent = rustix::process::kill_process(pid, rustix::process::Signal::INT);
    let code = child.wait().unwrap().code();
    if sent.is_err() || code == Some(0) {
        return println!("SKIP {TEST}: the copy was complete before the signal");
    }
    assert_eq!((code, parts()), (Some(130), 0));
}
