//! A program and its recorder end when pagewise is killed.

use crate::helper::{Place, await_gone};
use pagewise_kernel::proc::tree::children;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Commands that record faults beside a program.
const WAYS: [&[&str]; 2] = [&["faults"], &["profile", "--faults"]];

#[test]
fn program_and_recorder_end_with_a_front_that_is_killed() {
    for way in WAYS {
        let place = Place::new();
        let script = "echo ready; while :; do sleep 0.02; done";
        let mut front = place
            .pagewise(way)
            .args(["--", "sh", "-c", script, &place.mark()])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut ready = Vec::new();
        let mut out = front.stdout.take().unwrap();
        out.by_ref().take(6).read_to_end(&mut ready).unwrap();
        if ready.is_empty() {
            println!("SKIP program_and_recorder_end {way:?}: faults are not recorded here");
            front.wait().unwrap();
            continue;
        }
        let started = children(i32::try_from(front.id()).unwrap()).unwrap();
        assert!(started.len() >= 2, "{way:?}: {started:?}");
        front.kill().unwrap();
        front.wait().unwrap();
        assert!(await_gone(&place), "{way:?}: {:?}", place.alive());
        let lives = |pid: &i32| Path::new(&format!("/proc/{pid}/exe")).exists();
        let start = Instant::now();
        while started.iter().any(lives) && start.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!started.iter().any(lives), "{way:?}: {started:?}");
    }
}
