//! The memory limit counts what a program holds without mapping it, and nothing that a neighbour holds.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says when it skips"
)]

#[path = "helper/compiled.rs"]
mod compiled;
mod helper;

use pagewise_model::units::{Bytes, Nanos};
use pagewise_model::usage::ProgramEnd;
use pagewise_tracee::launch::ProgramLaunch;
use pagewise_tracee::run::FinishedRun;
use pagewise_tracee::supervise::{RunSupervisor, SuperviseError};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

const LIMIT: Bytes = Bytes::mib(64);

/// The program, and a directory on a memory file system.
struct Unmapped {
    _place: tempfile::TempDir,
    program: PathBuf,
    memory: tempfile::TempDir,
}

impl Unmapped {
    fn compiled(test: &str) -> Option<Self> {
        let place = tempfile::Builder::new().prefix("pagewise-unmapped-").tempdir().unwrap();
        let program = place.path().join("unmapped");
        if !compiled::compile("unmapped.c", &["-O2"], &program) {
            println!("SKIP {test}: no C compiler");
            return None;
        }
        let memory = tempfile::Builder::new().prefix("pagewise-").tempdir_in("/dev/shm");
        let Ok(memory) = memory else {
            println!("SKIP {test}: /dev/shm takes no directory");
            return None;
        };
        Some(Self { _place: place, program, memory })
    }

    fn words(&self, kind: &str, mib: &str, seconds: &str) -> Vec<String> {
        let file = self.memory.path().join(kind);
        let words = [self.program.to_str().unwrap(), kind, mib, seconds, file.to_str().unwrap()];
        words.map(str::to_owned).to_vec()
    }

    fn run(&self, kind: &str, mib: &str, seconds: &str) -> FinishedRun {
        let words = self.words(kind, mib, seconds).into_iter().map(Into::into);
        let mut launch = ProgramLaunch::experiment(words.collect());
        launch.memory_limit_bytes = Some(LIMIT);
        let mut supervisor = RunSupervisor::start(&helper::agent(), &["supervise"]).unwrap();
        supervisor.run(&launch, &|| false).unwrap()
    }
}

#[test]
fn a_run_for_an_account_ends_by_itself_or_by_its_limits() {
    let mut supervisor = RunSupervisor::start(&helper::agent(), &["supervise"]).unwrap();
    let sh = |script: &str| {
        ProgramLaunch::experiment(["/bin/sh", "-c", script].map(OsString::from).to_vec())
    };
    let done = supervisor.accounted(&sh("(exit 2); kill -9 $$"), &|| false).unwrap();
    assert_eq!(done.ended, ProgramEnd::Signaled(9));
    let slow =
        ProgramLaunch { timeout_ns: Some(Nanos::millis(300)), ..sh("sleep 600 & sleep 600") };
    match supervisor.accounted(&slow, &|| false) {
        Err(SuperviseError::Trace(why)) => {
            assert!(why.starts_with("it did not end within"), "{why}")
        }
        other => panic!("{other:?}"),
    }
    let stopped = supervisor.accounted(&sh("sleep 600"), &|| true);
    assert!(matches!(stopped, Err(SuperviseError::Interrupted)), "{stopped:?}");
    let missing = ProgramLaunch::experiment(vec!["/nosuch/program".into()]);
    let refused = supervisor.accounted(&missing, &|| false);
    assert!(matches!(refused, Err(SuperviseError::Launch(_))), "{refused:?}");
}

#[test]
fn memory_that_nobody_maps_counts() {
    let Some(unmapped) = Unmapped::compiled("memory_that_nobody_maps_counts") else { return };
    for kind in ["memfd", "open", "closed", "deleted"] {
        let finished = unmapped.run(kind, "256", "20");
        assert!(finished.over_memory, "{kind}: {}", finished.usage.ended);
        let finished = unmapped.run(kind, "40", "1");
        assert!(!finished.over_memory && finished.usage.ended == ProgramEnd::Exited(0), "{kind}");
    }
}

#[test]
fn what_is_in_pipes_counts() {
    let Some(unmapped) = Unmapped::compiled("what_is_in_pipes_counts") else { return };
    let finished = unmapped.run("pipes", "256", "20");
    if finished.usage.ended == ProgramEnd::Exited(1) {
        println!("SKIP what_is_in_pipes_counts: this account gets no pipes for so much");
        return;
    }
    assert!(finished.over_memory, "{}", finished.usage.ended);
    let finished = unmapped.run("pipes", "40", "1");
    assert!(!finished.over_memory && finished.usage.ended == ProgramEnd::Exited(0));
}

#[test]
fn a_neighbours_memory_does_not_count() {
    let Some(unmapped) = Unmapped::compiled("a_neighbours_memory_does_not_count") else { return };
    let neighbour = |kind| {
        let words = unmapped.words(kind, "256", "3");
        Command::new(&words[0]).args(&words[1..]).spawn().unwrap()
    };
    let mut neighbours = ["memfd", "open", "closed", "deleted"].map(neighbour);
    let finished = unmapped.run("memfd", "4", "2");
    assert!(!finished.over_memory && finished.usage.ended == ProgramEnd::Exited(0));
    neighbours.iter_mut().for_each(|child| assert!(child.wait().unwrap().success()));
}

#[test]
fn a_neighbours_file_does_not_count_when_the_program_opens_it() {
    let name = "a_neighbours_file_does_not_count_when_the_program_opens_it";
    let Some(unmapped) = Unmapped::compiled(name) else { return };
    let file = unmapped.memory.path().join("shared");
    // Another process makes the file during the run and keeps it open.
    let script = format!(
        "while [ ! -s {0} ]; do sleep 0.02; done; exec 7<>{0}; sleep 1.5; exit 0",
        file.display()
    );
    let mut launch = ProgramLaunch::experiment(["/bin/sh", "-c", &script].map(Into::into).to_vec());
    launch.memory_limit_bytes = Some(LIMIT);
    let mut supervisor = RunSupervisor::start(&helper::agent(), &["supervise"]).unwrap();
    let finished = std::thread::scope(|scope| {
        let run = scope.spawn(|| supervisor.run(&launch, &|| false).unwrap());
        std::thread::sleep(std::time::Duration::from_millis(200));
        let kept = fill(&file);
        let finished = run.join().unwrap();
        drop(kept);
        finished
    });
    assert!(!finished.over_memory && finished.usage.ended == ProgramEnd::Exited(0), "{finished:?}");
}

/// Creates a file of 256 MiB and keeps it open.
fn fill(path: &Path) -> std::fs::File {
    use std::io::Write;
    let mut file = std::fs::File::create(path).unwrap();
    let block = vec![1; 1 << 20];
    for _ in 0..256 {
        file.write_all(&block).unwrap();
    }
    file
}

#[test]
fn as_an_ordinary_user_the_same_holds() {
    helper::run_again_as_an_ordinary_user();
}
