//! Programs that create processes faster than they can be listed: none is left, whichever process dies.
//!
//! `fork_chain.c` describes its kinds. Each of its processes ends after some seconds, so that a failed test
//! leaves nothing for long.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says when it skips"
)]

#[path = "helper/compiled.rs"]
mod compiled;
mod helper;

use pagewise_kernel::proc;
use pagewise_model::units::Nanos;
use pagewise_model::usage::ProgramEnd;
use pagewise_tracee::launch::ProgramLaunch;
use pagewise_tracee::supervise::{RunSupervisor, SuperviseError};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const KINDS: [&str; 8] =
    ["plain", "group", "session", "double", "sibling", "memory", "deaf", "stopped"];

/// The compiled chain. Its path marks its processes.
struct Chain {
    _dir: tempfile::TempDir,
    program: PathBuf,
}

impl Chain {
    fn compiled(test: &str) -> Option<Self> {
        let dir = tempfile::Builder::new().prefix("pagewise-chain-").tempdir().unwrap();
        let program = dir.path().join("fork_chain");
        if !compiled::compile("fork_chain.c", &["-O2", "-static"], &program) {
            println!("SKIP {test}: no C compiler that links without shared libraries");
            return None;
        }
        Some(Self { _dir: dir, program })
    }

    fn launch(&self, kind: &str, chains: &str, then: &str) -> ProgramLaunch {
        let program = self.program.to_str().unwrap();
        let words = [program, kind, chains, "40", then].map(Into::into);
        ProgramLaunch::experiment(words.to_vec())
    }

    /// Its live processes, by ID and state.
    fn alive(&self) -> Vec<(i32, char)> {
        let mark = self.program.to_str().unwrap();
        let is_of_it = |pid: &i32| proc::arguments(*pid).iter().any(|word| word == mark);
        let state = |pid| Some((pid, proc::stat::read(pid).ok().filter(|s| !s.is_zombie())?.state));
        let pids = proc::tree::all().unwrap().into_iter();
        pids.filter(is_of_it).filter_map(state).filter(|(pid, _)| !self.is_wrapper(*pid)).collect()
    }

    /// A front has the program's path among its arguments.
    fn is_wrapper(&self, pid: i32) -> bool {
        proc::arguments(pid).first().is_some_and(|word| Path::new(word) != self.program)
    }

    /// Waits until some are alive.
    fn wait(&self) {
        let start = Instant::now();
        while self.alive().len() < 2 {
            assert!(start.elapsed() < Duration::from_secs(20), "it never came");
        }
    }
}

/// One test at a time: together they would use up the machine's process IDs.
fn only_turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn supervisor() -> RunSupervisor {
    RunSupervisor::start(&helper::agent(), &["supervise"]).unwrap()
}

#[test]
fn a_chain_ends_with_its_program() {
    let _turn = only_turn();
    let Some(chain) = Chain::compiled("a_chain_ends_with_its_program") else { return };
    for kind in KINDS {
        for chains in ["1", "50"] {
            let finished =
                supervisor().run(&chain.launch(kind, chains, "leave"), &|| false).unwrap();
            assert_eq!(finished.usage.ended, ProgramEnd::Exited(0));
            assert_eq!(chain.alive(), [], "{kind}, {chains}");
        }
    }
}

#[test]
fn a_chain_ends_at_a_limit_and_at_an_interrupt() {
    let _turn = only_turn();
    let Some(chain) = Chain::compiled("a_chain_ends_at_a_limit_and_at_an_interrupt") else {
        return;
    };
    let mut supervisor = supervisor();
    for kind in KINDS {
        let mut launch = chain.launch(kind, "50", "stay");
        launch.timeout_ns = Some(Nanos::millis(100));
        let finished = supervisor.run(&launch, &|| false).unwrap();
        assert!(finished.timed_out);
        assert_eq!(chain.alive(), [], "{kind} after a limit");
        let started = Instant::now();
        let interrupted = || started.elapsed().as_millis() > 100;
        let stopped = supervisor.run(&chain.launch(kind, "3", "stay"), &interrupted);
        assert!(matches!(stopped, Err(SuperviseError::Interrupted)), "{stopped:?}");
        assert_eq!(chain.alive(), [], "{kind} after an interrupt");
    }
}

/// A front that runs a chain, its output, and the supervisor.
fn front(chain: &Chain, kind: &str) -> (Child, BufReader<ChildStdout>, i32) {
    let mut child = Command::new(helper::agent())
        .arg("front")
        .args(chain.launch(kind, "8", "stay").argv)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let supervisor = line.trim().strip_prefix("supervisor ").unwrap().parse().unwrap();
    chain.wait();
    (child, out, supervisor)
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

fn await_end(chain: &Chain, what: &str) {
    let start = Instant::now();
    while !chain.alive().is_empty() {
        let left = chain.alive();
        assert!(start.elapsed() < Duration::from_secs(12), "{what}: {left:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_chain_ends_with_front_supervisor_or_both() {
    let _turn = only_turn();
    let Some(chain) = Chain::compiled("a_chain_ends_with_front_supervisor_or_both") else {
        return;
    };
    for kind in ["plain", "session", "sibling"] {
        let (mut child, _out, _) = front(&chain, kind);
        child.kill().unwrap();
        child.wait().unwrap();
        await_end(&chain, "the front is dead");
        let (mut child, mut out, supervisor) = front(&chain, kind);
        kill(supervisor);
        let mut text = String::new();
        out.read_to_string(&mut text).unwrap();
        assert!(child.wait().unwrap().success());
        assert!(text.starts_with("died killed by signal 9"), "{text}");
        assert_eq!(chain.alive(), [], "the supervisor is dead");
        let (mut child, _out, supervisor) = front(&chain, kind);
        kill(supervisor);
        child.kill().unwrap();
        child.wait().unwrap();
        await_end(&chain, "both are dead");
    }
}

#[test]
fn orphans_that_ended_do_not_pile_up_during_a_run() {
    let _turn = only_turn();
    let mut supervisor = supervisor();
    let pid = supervisor.pid();
    let script = "i=0; while [ $i -lt 200 ]; do (true &); i=$((i+1)); done; sleep 1";
    let launch = ProgramLaunch::experiment(["/bin/sh", "-c", script].map(Into::into).to_vec());
    let most = std::thread::scope(|scope| {
        let run = scope.spawn(|| supervisor.run(&launch, &|| false).unwrap());
        let mut most = 0;
        while !run.is_finished() {
            let zombie = |child: &i32| proc::stat::read(*child).is_ok_and(|s| s.is_zombie());
            let children = proc::tree::children(pid).unwrap_or_default();
            most = most.max(children.iter().filter(|child| zombie(child)).count());
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(run.join().unwrap().usage.ended, ProgramEnd::Exited(0));
        most
    });
    assert!(most < 100, "{most} of 200 processes were ended and still there");
}

#[test]
fn as_an_ordinary_user_the_same_holds() {
    let _turn = only_turn();
    helper::run_again_as_an_ordinary_user();
}
