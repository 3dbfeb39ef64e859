//! The user's commands: `--prepare`, `--cleanup`, `--stop`, `--ready exec:` in a shell, and builds.
//!
//! Each has a separate process group, which is killed on timeout or when the user stops the session. A
//! process that the shell leaves behind when it ends is kept: `--prepare` may start a backend. Standard error
//! goes to a file in memory, because such a process would hold a pipe open.
//!
//! Not seen: processes that have left the group, when it is killed.

use super::load::PAUSE;
use crate::files::last_line_in;
use crate::stop::SessionStop;
use pagewise_kernel::clock;
use pagewise_model::Nanos;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// How long `--prepare` and `--cleanup` may take.
pub(crate) const AROUND: Nanos = Nanos::secs(600);
/// How much of the end of standard error is read for its last line.
const TAIL: u64 = 8_000;
/// Last lines of compilers that only say that the linker failed; its reason stands above.
const LINKER_FAILED: [&str; 2] = ["error: ld returned", "linker command failed"];

/// Why a command did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum ShellError {
    /// The user stopped the session.
    #[error("interrupted")]
    Interrupted,
    /// Its status, and the last line of its standard error.
    #[error("{0}")]
    Failed(String),
}

impl ShellError {
    /// The end of the session if `which` must succeed. This says nothing about an arm.
    pub(crate) fn into_stop(self, which: &str) -> SessionStop {
        match self {
            Self::Interrupted => SessionStop::Interrupted,
            Self::Failed(why) => SessionStop::Broken(format!("{which} failed: {why}")),
        }
    }
}

/// Runs a shell command as [`run_words`] does.
pub(crate) fn run_shell(
    command: &str,
    within: Nanos,
    stop: Option<&AtomicBool>,
) -> Result<(), ShellError> {
    run_words(&["sh", "-c", command], within, stop)
}

/// Runs a program with arguments until it ends, its time is over or `stop` is set.
///
/// # Errors
/// If it cannot be started, or does not end with status 0.
pub fn run_words<W: AsRef<OsStr>>(
    words: &[W],
    within: Nanos,
    stop: Option<&AtomicBool>,
) -> Result<(), ShellError> {
    let failed = |error: std::io::Error| ShellError::Failed(error.to_string());
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    let errors = memfd_create("stderr", MemfdFlags::CLOEXEC).map_err(|e| failed(e.into()))?;
    let errors = File::from(errors);
    let mut command = Command::new(program);
    command.args(arguments).process_group(0).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(errors.try_clone().map_err(failed)?);
    let mut child = command.spawn().map_err(|error| {
        ShellError::Failed(format!("cannot start `{}`: {error}", program.as_ref().display()))
    })?;
    let status = ended(&mut child, within, stop)?;
    if status.success() {
        return Ok(());
    }
    let said = tail(&errors);
    let mut said: Vec<&str> = said.lines().collect();
    if said.last().is_some_and(|line| LINKER_FAILED.iter().any(|words| line.contains(words))) {
        said.pop();
    }
    Err(ShellError::Failed(
        format!("{status} {}", last_line_in(&said.join("\n"))).trim_end().to_owned(),
    ))
}

/// Waits for its end, and kills its group on timeout.
fn ended(
    child: &mut Child,
    within: Nanos,
    stop: Option<&AtomicBool>,
) -> Result<ExitStatus, ShellError> {
    let failed = |error: std::io::Error| ShellError::Failed(error.to_string());
    let deadline = clock::now() + within;
    loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            return Ok(status);
        }
        let is_stopped = stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
        if is_stopped || clock::now() > deadline {
            // The group is there until its leader has been waited for.
            let _gone = kill_process_group(Pid::from_child(child), Signal::KILL);
            child.wait().map_err(failed)?;
            let too_long =
                || ShellError::Failed(format!("it took more than {within} and was killed"));
            return Err(if is_stopped { ShellError::Interrupted } else { too_long() });
        }
        std::thread::sleep(PAUSE);
    }
}

/// The end of a file. Its offset is shared with processes that still write to it.
fn tail(file: &File) -> String {
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let mut bytes = vec![0; length.min(TAIL) as usize];
    let read = file.read_at(&mut bytes, length.saturating_sub(TAIL)).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..read]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Nanos = Nanos::secs(60);

    /// Runs a script that writes the pid of a process to the file PID.
    fn pid_left(script: &str, within: Nanos) -> (Result<(), ShellError>, Pid) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pid");
        let script = script.replace("PID", &file.display().to_string());
        let done = run_shell(&script, within, None);
        let pid = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
        (done, Pid::from_raw(pid).unwrap())
    }

    /// Whether it runs. A killed process may remain as a zombie until its new parent reaps it.
    fn is_alive(pid: Pid) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    }

    #[test]
    fn what_a_command_leaves_behind_stays_and_holds_nothing_up() {
        let (done, pid) = pid_left("sleep 60 & echo $! > PID", LONG);
        assert!(done.is_ok(), "{done:?}");
        assert!(is_alive(pid), "its end was waited for, or it was killed");
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
    }

    #[test]
    fn a_command_that_takes_too_long_is_killed_with_its_children() {
        let (done, pid) = pid_left("sleep 60 & echo $! > PID; wait", Nanos::secs(1));
        let why = done.unwrap_err().to_string();
        assert_eq!(why, "it took more than 1.00 s and was killed");
        let is_gone = (0..1000).any(|_| {
            std::thread::sleep(PAUSE);
            !is_alive(pid)
        });
        assert!(is_gone);
    }

    #[test]
    fn a_session_that_is_stopped_waits_for_no_command() {
        let stop = AtomicBool::new(true);
        let error = run_shell("sleep 60", LONG, Some(&stop)).unwrap_err();
        assert!(matches!(error, ShellError::Interrupted), "{error}");
        assert!(matches!(error.into_stop("--prepare"), SessionStop::Interrupted));
    }

    #[test]
    fn a_failure_is_its_status_and_its_last_line() {
        let error = run_shell("echo one >&2; echo two >&2; exit 3", LONG, None).unwrap_err();
        assert_eq!(error.to_string(), "exit status: 3 two");
        let stop = error.into_stop("--prepare");
        assert_eq!(stop.to_string(), "--prepare failed: exit status: 3 two");
        assert!(matches!(stop, SessionStop::Broken(_)));
        assert!(run_shell("exit 0", LONG, None).is_ok());
        let link =
            "echo 'ld: no main' >&2; echo 'collect2: error: ld returned 1 exit status' >&2; exit 1";
        let error = run_shell(link, LONG, None).unwrap_err();
        assert_eq!(error.to_string(), "exit status: 1 ld: no main");
        let error = run_words(&["/nowhere/at/all"], LONG, None).unwrap_err().to_string();
        assert!(error.starts_with("cannot start `/nowhere/at/all`: "), "{error}");
    }
}
