//! What the live tests share: a place of their own, turns, and a search for what was left behind.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_pagewise");

/// One test at a time measures.
static TURN: Mutex<()> = Mutex::new(());

/// Waits for this test's turn.
pub(crate) fn only_turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes as text.
pub(crate) fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A directory that serves as home, state and place for temporary files.
pub(crate) struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    /// Made anew.
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::Builder::new().prefix("pagewise-cli-").tempdir().unwrap() }
    }

    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// What marks the processes of this test in their command lines.
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
            // Shared: what is measured once for this machine need not be measured by each test.
            .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
            .env("LC_ALL", "C")
            .stdin(Stdio::null());
        command
    }

    /// Living processes that carry the mark and are not the program under test itself.
    pub(crate) fn alive(&self) -> Vec<u32> {
        let mark = self.mark();
        let marked = |pid: &u32| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            said(&words).contains(&mark) && !said(&words).starts_with(PROGRAM)
        };
        let pids = std::fs::read_dir("/proc").unwrap().flatten();
        pids.filter_map(|e| e.file_name().to_str()?.parse().ok()).filter(marked).collect()
    }

    /// Scratch directories that are there.
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

/// Somebody else's experiment was waited for once in vain; the other tests wait no more.
static BUSY: AtomicBool = AtomicBool::new(false);

/// Calls `attempt` until it gives something, while somebody else's experiment holds the lock;
/// `None` (and a `SKIP` line) when that lasts for ten seconds.
pub(crate) fn once_free<T>(attempt: impl Fn() -> Option<T>) -> Option<T> {
    for _second in 0..10 {
        let got = attempt();
        if got.is_some() || BUSY.load(Ordering::Relaxed) {
            return got.or_else(skip);
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

/// Runs an experiment, again while somebody else's holds the lock.
pub(crate) fn experiment(make: impl Fn() -> Command) -> Option<Output> {
    once_free(|| {
        let done = make().output().unwrap();
        (!said(&done.stderr).contains("another experiment runs")).then_some(done)
    })
}
