//! Starts a program under known conditions. A [`ProgramLaunch`] describes the program, [`spawn`] forks a child that
//! prepares everything and waits, [`SuspendedProgram::release`] lets the child execute the program.
//!
//! In between, a tracer can attach to the child: its process id is final, and its descriptors, placement and
//! session are set. A failed `exec` is reported over a pipe that a successful `exec` closes. The child dies
//! with this process (`PR_SET_PDEATHSIG`).
//!
//! Cost: one fork of a small process. None of it falls between the start of the clock and `exec`.

use crate::checkpoint::RunCheckpoint;
use crate::child::{self, LaunchStep, PreparedExec, SignalState};
use crate::drain::OutputDrain;
use crate::environment::{self, Variables};
pub use crate::input::StandardInput;
pub use crate::launch_error::{LaunchError, SurvivingProcess};
use crate::program::{self, ProgramFile};
pub use crate::stdio::OutputSink;
use crate::{jvm, read_ahead, stdio, tool_links, wait};
use pagewise_model::plan::ArmSettings;
pub use pagewise_model::spec::{OneTimeInput, StdinSource};
use pagewise_model::{Bytes, Nanos, os_text};
use serde::{Deserialize, Serialize};
use std::ffi::{CString, OsString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// oom_score_adj of a program in an experiment: the kernel kills it before any of the user's own programs.
const OOM_SCORE: i32 = 800;

/// What is recorded besides resource usage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservationOptions {
    /// CPU-clock samples of the tree.
    pub samples: bool,
    /// CPU-clock samples with whole stacks and process names.
    pub profile: bool,
    /// CPU-clock samples in user mode, counted by the owner of the code they hit.
    pub user: bool,
    /// Hardware counts of page walks and of misses of the TLB for code.
    pub walks: bool,
    /// Single steps of code in long bursts, in a traced run.
    pub code: bool,
    /// Memory of all its processes together.
    pub memory: bool,
    /// Time its processes waited for a CPU.
    pub run_delay: bool,
}

/// A program and the conditions of its start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramLaunch {
    /// Program and arguments.
    pub argv: Vec<OsString>,
    /// Directory to start in; `None` for the current one.
    #[serde(with = "os_text::optional")]
    pub cwd: Option<PathBuf>,
    /// What differs from a plain start.
    pub settings: ArmSettings,
    /// Standard input.
    pub stdin: StdinSource,
    /// Standard output.
    pub stdout: OutputSink,
    /// Standard error.
    pub stderr: OutputSink,
    /// Marks an experiment: own session, raised oom_score_adj, processes left behind are killed.
    pub own_session: bool,
    /// Kill the tree after this long.
    pub timeout_ns: Option<Nanos>,
    /// Kill the tree when its unreclaimable memory exceeds this.
    pub memory_limit_bytes: Option<Bytes>,
    /// Where it ends early.
    pub checkpoint: Option<RunCheckpoint>,
    /// What is recorded.
    pub observe: ObservationOptions,
    /// Command that starts a page-fault recorder beside it (`recorder`); empty for no recorder.
    pub recorder: Vec<OsString>,
}

impl ProgramLaunch {
    /// A plain experiment: own session, no input, output thrown away.
    #[must_use]
    pub fn experiment(argv: Vec<OsString>) -> Self {
        Self {
            argv,
            cwd: None,
            settings: ArmSettings::default(),
            stdin: StdinSource::Null,
            stdout: OutputSink::Null,
            stderr: OutputSink::Null,
            own_session: true,
            timeout_ns: None,
            memory_limit_bytes: None,
            checkpoint: None,
            observe: ObservationOptions::default(),
            recorder: Vec::new(),
        }
    }

    /// A start that changes nothing: the caller's session and descriptors.
    #[must_use]
    pub fn passthrough(argv: Vec<OsString>) -> Self {
        Self {
            stdin: StdinSource::Inherit,
            stdout: OutputSink::Inherit,
            stderr: OutputSink::Inherit,
            own_session: false,
            ..Self::experiment(argv)
        }
    }

    /// The program as the user typed it.
    pub(crate) fn shown(&self) -> String {
        self.argv.first().map(|a| a.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Checks that the command names a program that may be started, as far as that is known beforehand.
    ///
    /// # Errors
    /// [`LaunchError`] when it does not.
    pub fn check(&self) -> Result<(), LaunchError> {
        self.find(self.links()?.as_deref(), &[]).map(|_found| ())
    }

    /// The file that the command names, as a path that is valid from any directory.
    ///
    /// # Errors
    /// As [`ProgramLaunch::check`].
    pub fn file(&self) -> Result<PathBuf, LaunchError> {
        self.file_beyond(&[])
    }

    /// Like [`ProgramLaunch::file`], by a search of PATH that skips the files `passed`.
    ///
    /// # Errors
    /// As [`ProgramLaunch::check`].
    pub fn file_beyond(&self, passed: &[PathBuf]) -> Result<PathBuf, LaunchError> {
        let path = self.find(self.links()?.as_deref(), passed)?.path;
        let path = self.cwd.as_ref().map_or_else(|| path.clone(), |cwd| cwd.join(&path));
        std::path::absolute(&path)
            .map_err(|e| LaunchError::call("getcwd", path.display().to_string(), &e))
    }

    /// The directory with the tools that its tree is to use.
    fn links(&self) -> Result<Option<PathBuf>, LaunchError> {
        tool_links::directory(&self.settings.tools)
    }

    /// The file that the command names, with `links` in front of PATH.
    fn find(&self, links: Option<&Path>, passed: &[PathBuf]) -> Result<ProgramFile, LaunchError> {
        let name = self.argv.first().ok_or(LaunchError::Empty)?;
        let path = tool_links::search_path(links, std::env::var_os("PATH").as_deref())?;
        program::find(name, path.as_deref(), self.cwd.as_deref(), passed)
    }

    /// The program file, and all of the child's data except its descriptors and parent. `env` is the user's
    /// environment.
    pub(crate) fn prepare(
        &self,
        env: Variables,
    ) -> Result<(ProgramFile, PreparedExec), LaunchError> {
        let links = self.links()?;
        let program = self.find(links.as_deref(), &[])?;
        let mut env = environment::merge(env, &self.settings.env);
        let path = environment::value(&env, "PATH");
        if let Some(path) = tool_links::search_path(links.as_deref(), path)? {
            environment::set(&mut env, "PATH", path);
        }
        let argv = jvm::put(&self.settings.jvm_options, &program.path, &self.argv, &mut env);
        let mut all = PreparedExec::new(program.path.as_os_str(), &argv, &env, program.shell_text)?;
        all.thp_off = self.settings.thp.is_some();
        all.own_session = self.own_session;
        all.cpus = self.settings.cpus.as_deref().map(cpu_set).transpose()?;
        if let Some(cwd) = &self.cwd {
            let text = CString::new(cwd.as_os_str().as_bytes());
            all.cwd = Some(text.map_err(|_| LaunchError::Nul { what: "a directory".into() })?);
        }
        if self.own_session {
            let text = OOM_SCORE.max(own_oom_score()).to_string();
            all.oom_score = CString::new(text).ok();
        }
        Ok((program, all))
    }

    /// Maps a failed step of the child to an error.
    pub(crate) fn failure(
        &self,
        program: &ProgramFile,
        step: LaunchStep,
        errno: i32,
    ) -> LaunchError {
        let source = std::io::Error::from_raw_os_error(errno);
        match (step, &self.cwd) {
            (LaunchStep::Exec, cwd) => {
                let file = cwd.as_deref().unwrap_or(Path::new("")).join(&program.path);
                program::explain(&self.shown(), &file, errno)
            }
            (LaunchStep::Directory, Some(cwd)) => {
                LaunchError::call(step.into_str(), cwd.to_string_lossy(), &source)
            }
            _ => LaunchError::call(step.into_str(), format!("for `{}`", self.shown()), &source),
        }
    }
}

/// A CPU set, built beforehand: `affinity::set` allocates, which a forked child must not do.
pub(crate) fn cpu_set(cpus: &[u32]) -> Result<rustix::thread::CpuSet, LaunchError> {
    let mut set = rustix::thread::CpuSet::new();
    for cpu in cpus {
        let index = usize::try_from(*cpu).ok().filter(|c| *c < rustix::thread::CpuSet::MAX_CPU);
        let refused = std::io::Error::from_raw_os_error(libc::EINVAL);
        set.set(index.ok_or_else(|| {
            LaunchError::call("sched_setaffinity", format!("CPU {cpu}"), &refused)
        })?);
    }
    Ok(set)
}

fn own_oom_score() -> i32 {
    let text = std::fs::read_to_string("/proc/self/oom_score_adj").unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// A step of the child right before `exec`, after its release.
#[derive(Debug, Clone)]
pub enum PreExec {
    /// Installs this seccomp filter, with no_new_privs if the account needs it.
    SeccompFilter(Vec<libc::sock_filter>),
}

/// A prepared child that waits for its release. Dropping it ends the child.
#[derive(Debug)]
pub struct SuspendedProgram {
    launch: ProgramLaunch,
    program: ProgramFile,
    pid: i32,
    pidfd: OwnedFd,
    go: Option<OwnedFd>,
    errors: Option<OwnedFd>,
    drains: Vec<OutputDrain>,
}

/// A released program. The caller must wait for its end (`run::run` does).
#[derive(Debug)]
pub struct RunningProgram {
    launch: ProgramLaunch,
    program: ProgramFile,
    pid: i32,
    pidfd: OwnedFd,
    errors: OwnedFd,
    io: Option<File>,
    started: Instant,
    pub(crate) drains: Vec<OutputDrain>,
}

/// Forks a child that has done everything except `exec`.
///
/// # Errors
/// [`LaunchError`] when the program cannot be started. Then nothing is left behind.
pub fn spawn(
    launch: &ProgramLaunch,
    pre_exec: &[PreExec],
) -> Result<SuspendedProgram, LaunchError> {
    let signals = SignalState::clean();
    spawn_with(launch, pre_exec, signals)
}

/// [`spawn`] with the signal state that the program starts with.
pub(crate) fn spawn_with(
    launch: &ProgramLaunch,
    pre_exec: &[PreExec],
    signals: SignalState,
) -> Result<SuspendedProgram, LaunchError> {
    let env = child::for_another(std::env::vars_os().collect());
    let (program, mut prepared) = launch.prepare(env)?;
    wait::keep_ended_children();
    let (stdio, drains) = stdio::open(launch)?;
    prepared.stdio = stdio;
    prepared.signals = signals;
    prepared.parent = Some(std::process::id());
    prepared.filters = pre_exec.iter().map(|PreExec::SeccompFilter(f)| f.clone()).collect();
    let pipe = || pagewise_kernel::pipe::pipe().map_err(|e| LaunchError::sys(&e));
    let (go_in, go) = pipe()?;
    let (errors, errors_out) = pipe()?;
    let pid = fork(&prepared, go_in.as_fd(), &go, errors_out.as_fd())?;
    drop((go_in, errors_out, prepared));
    let pidfd = match pagewise_kernel::pidfd::open(pid) {
        Ok(fd) => fd,
        Err(error) => {
            wait::kill(pid, libc::SIGKILL);
            let _gone = wait::reap(pid);
            return Err(LaunchError::sys(&error));
        }
    };
    let child = SuspendedProgram {
        launch: launch.clone(),
        program,
        pid,
        pidfd,
        go: Some(go),
        errors: Some(errors),
        drains,
    };
    child.confirm_ready()?;
    Ok(child)
}

fn fork(
    prepared: &PreparedExec,
    go_in: BorrowedFd<'_>,
    go: &OwnedFd,
    errors: BorrowedFd<'_>,
) -> Result<i32, LaunchError> {
    use std::os::fd::AsRawFd;
    // SAFETY: the child calls only async-signal-safe code on data prepared before, then `_exit`s.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => Err(LaunchError::call("fork", "a new program", &std::io::Error::last_os_error())),
        0 => {
            // SAFETY: this copy of the writing end belongs to the child alone, which never drops `go`. While
            // the copy is open, the parent's death would not show as end of file.
            unsafe { libc::close(go.as_raw_fd()) };
            let Err((step, errno)) = prepared.become_program(go_in, errors);
            child::send(errors, step, errno);
            // SAFETY: ends this forked process without running exit handlers of its parent.
            unsafe { libc::_exit(127) }
        }
        _ => Ok(pid),
    }
}

/// Reads one message from the error pipe; `None` at end of file.
fn read_message(errors: BorrowedFd<'_>) -> Option<(LaunchStep, i32)> {
    let mut bytes = [0; child::MESSAGE];
    loop {
        match rustix::io::read(errors, &mut bytes) {
            Ok(child::MESSAGE) => return child::parse_message(bytes),
            Err(rustix::io::Errno::INTR) => {}
            _ => return None,
        }
    }
}

impl SuspendedProgram {
    /// Process id; the program keeps it.
    #[must_use]
    pub const fn pid(&self) -> i32 {
        self.pid
    }

    /// Pidfd of the process.
    #[must_use]
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    fn confirm_ready(&self) -> Result<(), LaunchError> {
        let errors = self.errors.as_ref().map(AsFd::as_fd);
        match errors.and_then(read_message) {
            Some((LaunchStep::Ready, _)) => Ok(()),
            Some((step, errno)) => Err(self.launch.failure(&self.program, step, errno)),
            None => Err(self.launch.failure(&self.program, LaunchStep::Parent, libc::ECHILD)),
        }
    }

    /// Releases the child and waits until it has executed the program.
    ///
    /// # Errors
    /// When `exec` failed. Then the child has ended.
    pub fn release(self) -> Result<RunningProgram, LaunchError> {
        let running = self.release_unconfirmed()?;
        match running.exec_error() {
            None => Ok(running),
            Some(error) => {
                let _gone = wait::reap(running.pid);
                Err(error)
            }
        }
    }

    /// Releases the child and returns at once: for a tracer, which must serve the child's stops before `exec`
    /// completes. [`RunningProgram::exec_error`] reports afterwards whether it did.
    ///
    /// # Errors
    /// When the child has ended.
    pub fn release_unconfirmed(mut self) -> Result<RunningProgram, LaunchError> {
        let gone = || LaunchError::errno("write", "the start signal", rustix::io::Errno::PIPE);
        let (go, errors) = self.go.take().zip(self.errors.take()).ok_or_else(gone)?;
        let pidfd = self.pidfd.try_clone();
        let pidfd = pidfd.map_err(|e| LaunchError::call("dup", "a pidfd", &e))?;
        let io = wait::open_io(self.pid);
        let started = Instant::now();
        // Inside the timed part: a user who keeps the setting pays for it at each start.
        read_ahead::before_start(self.launch.settings.working_set.as_deref())?;
        rustix::io::write(&go, b"g")
            .map_err(|e| LaunchError::errno("write", "the start signal", e))?;
        let pid = std::mem::replace(&mut self.pid, 0);
        Ok(RunningProgram {
            launch: self.launch.clone(),
            program: ProgramFile {
                path: self.program.path.clone(),
                shell_text: self.program.shell_text,
            },
            pid,
            pidfd,
            errors,
            io,
            started,
            drains: std::mem::take(&mut self.drains),
        })
    }
}

impl Drop for SuspendedProgram {
    fn drop(&mut self) {
        if self.pid > 0 {
            wait::kill(self.pid, libc::SIGKILL);
            let _gone = wait::reap(self.pid);
        }
    }
}

impl RunningProgram {
    #[must_use]
    pub const fn pid(&self) -> i32 {
        self.pid
    }

    /// Pidfd of the process; readable when it has ended.
    #[must_use]
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Time of its release.
    #[must_use]
    pub const fn started(&self) -> Instant {
        self.started
    }

    /// Why it failed to execute the program, if it did. Waits until that is known. In case of failure the
    /// child is about to exit and must still be waited for.
    #[must_use]
    pub fn exec_error(&self) -> Option<LaunchError> {
        read_message(self.errors.as_fd())
            .map(|(step, errno)| self.launch.failure(&self.program, step, errno))
    }

    /// Its `/proc/PID/io`; `None` if that may not be read.
    pub(crate) const fn io(&self) -> Option<&File> {
        self.io.as_ref()
    }

    /// Process ids of pagewise helpers that belong to it but are not in its tree.
    #[must_use]
    pub fn helpers(&self) -> Vec<i32> {
        self.drains.iter().map(OutputDrain::pid).collect()
    }
}
