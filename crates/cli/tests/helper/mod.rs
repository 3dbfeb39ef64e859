//! Shared by the live tests: a private place, turns, users, small C programs, and a search for leftovers.

use pagewise_model::constructed::machine;
use pagewise_model::run::{RunKind, SavedRun, SessionOutcome};
use pagewise_remedy::{TargetProgram, parse_list};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::flag::register_conditional_default;
use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_pagewise");

/// One test at a time measures.
static TURN: Mutex<()> = Mutex::new(());

/// Restores the default effect of signals, for this test program and for what it starts. A script that starts
/// the tests in the background has some of them ignored, and children inherit that. A handler ends with exec:
/// the child has the default.
fn heed_signals() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for signal in [Signal::INT, Signal::QUIT, Signal::TERM, Signal::HUP] {
            let always = Arc::new(AtomicBool::new(true));
            register_conditional_default(signal.as_raw(), always).unwrap();
        }
    });
}

/// Waits for this test's turn.
pub(crate) fn only_turn() -> MutexGuard<'static, ()> {
    heed_signals();
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A user without special rights.
pub(crate) const NOBODY: u32 = 65534;

/// Whether this account can switch to another user.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// This user, and one without rights if this account can switch to it.
pub(crate) fn users() -> Vec<Option<u32>> {
    if is_root() {
        return vec![None, Some(NOBODY)];
    }
    println!("SKIP as another user: only root can become one");
    vec![None]
}

/// A program as the user without rights.
pub(crate) fn as_nobody(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    let id = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
    command.args(id).args(["--clear-groups", "--"]).arg(program);
    command
}

/// A directory open to every account, as `/tmp` is, with a copy of the program, because the directory of the
/// original may be closed to others. Without the sticky bit pagewise would refuse it as a home and use root's
/// own.
pub(crate) fn open_place(prefix: &str) -> tempfile::TempDir {
    heed_signals();
    let dir = tempfile::Builder::new().prefix(prefix).tempdir().unwrap();
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
    install(Path::new(PROGRAM), &dir.path().join("pagewise"));
    dir
}

/// Copies what earlier tests measured for this machine to the cache directory of the user without rights. The
/// chase takes seconds, and each cache is new. Does nothing if no test has measured yet.
pub(crate) fn give_prices(cache: &Path) {
    let dir = cache.join("pagewise");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::set_permissions(&dir, Permissions::from_mode(0o700)).unwrap();
    let file = dir.join("prices.json");
    let _none = std::fs::copy(kept_prices(), &file);
    for path in [cache, &dir, &file].into_iter().filter(|path| path.exists()) {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

/// Where the tests keep measurements of this machine that take seconds.
pub(crate) fn kept_prices() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("pagewise/prices.json")
}

/// Copies a program to the place where it will be executed. A separate process copies it: while this one writes
/// a file, another of its threads may start a child. That child holds the file open for a moment, and execve
/// refuses a file that is open for writing (ETXTBSY).
pub(crate) fn install(from: &Path, to: &Path) {
    let done = Command::new("cp").arg(from).arg(to).output().unwrap();
    assert!(done.status.success(), "{}", said(&done.stderr));
}

/// Builds one of the small C programs. False without a C compiler or without libraries that the options need.
pub(crate) fn compile(source: &str, options: &[&str], to: &Path) -> bool {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs").join(source);
    let built = Command::new("cc").args(options).arg("-o").args([to, &source]).output();
    built.is_ok_and(|done| done.status.success())
}

/// The command `go` with one cache for all tests: with an empty cache it builds its library first.
pub(crate) fn go() -> Command {
    let mut go = Command::new("go");
    go.env("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("go"));
    go
}

/// Bytes as text.
pub(crate) fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A session of `tune` that has proven these remedies on a program, or found them likely.
pub(crate) fn tuned(list: &str, program: &str, is_proven: bool) -> SavedRun {
    let command = vec![program.to_owned(), "-n".to_owned()];
    let mut run = SavedRun::new(RunKind::Tune, "20261126-1".into(), 0, command);
    let doses = parse_list(list, &machine(), &|| TargetProgram::from_command(&[])).unwrap();
    run.doses = vec![("arm".into(), doses)];
    let arms = vec!["arm".to_owned()];
    run.outcome = Some(if is_proven {
        SessionOutcome::Proven { keep: arms }
    } else {
        SessionOutcome::Likely { arms }
    });
    run
}

/// A directory that serves as home, state and place for temporary files.
pub(crate) struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    /// Made anew.
    pub(crate) fn new() -> Self {
        heed_signals();
        Self { dir: tempfile::Builder::new().prefix("pagewise-cli-").tempdir().unwrap() }
    }

    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The mark of this test's processes in their command lines.
    pub(crate) fn mark(&self) -> String {
        self.dir.path().file_name().unwrap().to_string_lossy().into_owned()
    }

    /// A command of the program that lives here.
    pub(crate) fn pagewise(&self, words: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .args(words)
            .env("HOME", self.path())
            .env("TMPDIR", self.path())
            .env_remove("XDG_STATE_HOME")
            // Shared by all tests: what is measured once for this machine is not measured again.
            .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
            .env("LC_ALL", "C")
            .stdin(Stdio::null());
        command
    }

    /// Living processes that carry the mark, except the program under test.
    pub(crate) fn alive(&self) -> Vec<u32> {
        let mark = self.mark();
        let marked = |pid: &u32| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            said(&words).contains(&mark) && !said(&words).starts_with(PROGRAM)
        };
        let pids = std::fs::read_dir("/proc").unwrap().flatten();
        pids.filter_map(|e| e.file_name().to_str()?.parse().ok()).filter(marked).collect()
    }

    /// Scratch directories that still exist.
    pub(crate) fn scratches(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path()).unwrap().flatten().map(|e| e.path());
        entries.filter(|p| p.to_string_lossy().contains("pagewise-scratch-")).collect()
    }
}

/// Waits until no marked process is left, for at most five seconds.
pub(crate) fn await_gone(place: &Place) -> bool {
    (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        place.alive().is_empty()
    })
}

/// Set after a wait in vain for another process's experiment. Later tests do not wait until the lock is free.
static BUSY: AtomicBool = AtomicBool::new(false);

/// Calls `attempt` until it returns a value, while an experiment of another process holds the lock. `None`,
/// after a `SKIP` line, if that lasts for ten seconds.
pub(crate) fn once_free<T>(attempt: impl Fn() -> Option<T>) -> Option<T> {
    for _second in 0..10 {
        let got = attempt();
        if got.is_some() {
            BUSY.store(false, Ordering::Relaxed);
            return got;
        }
        if BUSY.load(Ordering::Relaxed) {
            return skip();
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    BUSY.store(true, Ordering::Relaxed);
    skip()
}

fn skip<T>() -> Option<T> {
    println!("SKIP live test of an experiment: another one runs for too long");
    None
}

/// Runs an experiment, and repeats it while another process holds the lock.
pub(crate) fn experiment(make: impl Fn() -> Command) -> Option<Output> {
    once_free(|| {
        let done = make().output().unwrap();
        (!said(&done.stderr).contains("another experiment runs")).then_some(done)
    })
}

/// Interrupts an experiment after it has announced `plan` and before it measures. `None`, after a `SKIP` line,
/// while another process measures.
pub(crate) fn interrupt(make: impl Fn() -> Command, plan: &str) -> Option<Output> {
    once_free(|| {
        let mut front = make().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // The announcement comes once signals are handled.
        let mut said_first = String::new();
        BufReader::new(front.stderr.as_mut().unwrap()).read_line(&mut said_first).unwrap();
        if said_first.contains("another experiment runs") {
            front.wait().unwrap();
            return None;
        }
        assert!(said_first.contains(plan), "{said_first}");
        kill_process(Pid::from_child(&front), Signal::INT).unwrap();
        Some(front.wait_with_output().unwrap())
    })
}

/// Interrupts a bench as [`interrupt`] does. It must end as interrupted and report its results so far.
pub(crate) fn interrupted(make: impl Fn() -> Command, plan: &str) -> Option<Output> {
    let done = interrupt(make, plan)?;
    assert_eq!(done.status.code(), Some(130));
    assert!(said(&done.stdout).contains("interrupted"), "{}", said(&done.stdout));
    Some(done)
}

/// The first line that a child writes to its standard output, a pipe.
pub(crate) fn first_line(child: &mut std::process::Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    line
}
