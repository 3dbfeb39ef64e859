//! Starting and ending a minimal program, ns.
//!
//! `true` from the system's directories, else from `PATH`: fork (as vfork), exec, dynamic linking, exit, wait, with
//! parent and child on one CPU, so that wall time is the CPU time of both. Missing where there is no
//! such program, and where ended children are not kept for their parent (`SIGCHLD` ignored), so that
//! their end cannot be waited for. Not seen: the page tables that a plain fork of a large process
//! copies.

use crate::error::PriceError;
use crate::sample::{Probe, time};
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Programs of one repeat.
const STARTS: u32 = 4;

/// The probe.
#[derive(Debug)]
pub(crate) struct Spawn {
    program: PathBuf,
}

impl Spawn {
    /// Finds the program.
    pub(crate) fn new() -> Result<Self, PriceError> {
        let missing = || PriceError::Unavailable("there is no program `true`".to_owned());
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = find(&["/usr/bin", "/bin"], &path).ok_or_else(missing)?;
        Ok(Self { program })
    }
}

/// The first `true` that can be executed, in these directories, then in those of `path`.
fn find(known: &[&str], path: &OsStr) -> Option<PathBuf> {
    let executable = |file: &Path| {
        file.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    let known = known.iter().map(PathBuf::from);
    let mut files = known.chain(std::env::split_paths(path)).map(|dir| dir.join("true"));
    files.find(|file| file.is_absolute() && executable(file))
}

impl Probe for Spawn {
    const NAME: &'static str = "the start of a program";

    fn measure_once(&mut self) -> Result<f64, PriceError> {
        let start_once = |_| {
            let mut command = Command::new(&self.program);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().map(drop)
        };
        let (ns, done) = time(|| (0..STARTS).try_for_each(start_once));
        done.map_err(PriceError::sys("spawn", self.program.display().to_string()))?;
        Ok(ns / f64::from(STARTS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Series;

    #[test]
    #[allow(clippy::print_stderr, reason = "a skipped test says so")]
    fn children_that_cannot_be_waited_for_leave_no_price() {
        const NAME: &str =
            "prices::spawn::tests::children_that_cannot_be_waited_for_leave_no_price";
        const VARIABLE: &str = "PAGEWISE_TEST_CHILD_SIGNAL_IGNORED";
        if std::env::var_os(VARIABLE).is_some() {
            let mut series = Series::start(Spawn::new());
            series.step();
            let price = series.finish_fact();
            assert!(price.reason().is_some_and(|why| why.contains("spawn")), "{price:?}");
            return;
        }
        let ignoring = || {
            let mut command = Command::new("env");
            command.arg("--ignore-signal=CHLD");
            command
        };
        if !ignoring().arg("true").status().is_ok_and(|status| status.success()) {
            eprintln!("SKIP {NAME}: this env(1) ignores no signals");
            return;
        }
        let mut inside = ignoring();
        inside.arg(std::env::current_exe().expect("our name")).args(["--exact", NAME]);
        let output = inside.env(VARIABLE, "1").output().expect("env");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }

    #[test]
    fn found_by_path_where_the_usual_places_have_none() {
        let dir = tempfile::tempdir().expect("a directory");
        let (plain, wanted) = (dir.path().join("a"), dir.path().join("b"));
        for (place, mode) in [(&plain, 0o644), (&wanted, 0o755)] {
            std::fs::create_dir(place).expect("made");
            std::fs::write(place.join("true"), "").expect("written");
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(place.join("true"), mode).expect("set");
        }
        let path = std::env::join_paths([&plain, &wanted]).expect("joined");
        assert_eq!(find(&["/nonexistent"], &path), Some(wanted.join("true")));
        assert_eq!(find(&["/nonexistent"], OsStr::new("relative:")), None);
        let usual = wanted.display().to_string();
        assert_eq!(find(&[&usual], OsStr::new("")), Some(wanted.join("true")));
    }
}
