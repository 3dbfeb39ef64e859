//! `run`: starts a program for the user, with as little in between as possible.
//!
//! If nothing has to happen beside the program, [`exec_with`] makes this very process execute it: no fork,
//! and no pagewise process remains. Otherwise [`run_through`] stays beside it, with one more process that
//! only distinguishes signals (`witness`). The program keeps the process group, session, descriptors and
//! ignored signals, so signals from a terminal reach it directly. A signal that another process sends to
//! pagewise alone is forwarded (`signals`). Variables by which a service manager names its process
//! (`LISTEN_PID`, `WATCHDOG_PID`) name the program if they named pagewise. When the program stops, pagewise
//! stops too, so that the shell sees its job stopped. The program dies with pagewise; what it leaves in the
//! background lives on. As process 1 of a container, or as a subreaper, pagewise reaps orphans as init does.

mod first_calls;
mod peak;
mod record;
mod traced;

pub use first_calls::{FirstCallRun as RecordedCalls, first_calls_through};
pub use peak::{PeakRun, peak_of, peak_through};
pub use record::{FaultRun, record_through};

use crate::child::SignalState;
use crate::launch::{self, LaunchError, ProgramLaunch, RunningProgram};
use crate::mapped_file::MappedFiles;
use crate::perf::{PerfObservers, Walker};
use crate::read_ahead;
use crate::recorder::FaultRecording;
use crate::run::{self, FinishedRun, ScheduledWatcher, WatchClocks};
use crate::signals::SignalReceiver;
use crate::stdio;
use crate::tool_links::StartWatch;
use crate::tree::ProcessTree;
use crate::wait;
use crate::watcher::{MakeWatcher, WatchReport};
use pagewise_model::units::Nanos;
use pagewise_model::usage::ProgramEnd;
use rustix::event::{PollFd, PollFlags};
use std::ptr;

/// Executes the program in this process. Returns only on failure.
#[must_use]
pub fn exec_with(launch: &ProgramLaunch) -> LaunchError {
    let signals = SignalState::inherited();
    let attempt = || -> Result<std::convert::Infallible, LaunchError> {
        let (program, mut prepared) = launch.prepare(std::env::vars_os().collect())?;
        let (stdio, drains) = stdio::open(launch)?;
        if !drains.is_empty() {
            let invalid = rustix::io::Errno::INVAL;
            return Err(LaunchError::errno("execve", "a program with a drained pipe", invalid));
        }
        prepared.stdio = stdio;
        prepared.signals = signals;
        read_ahead::before_start(launch.settings.working_set.as_deref())?;
        let step = prepared.settle().and_then(|()| prepared.exec());
        step.map_err(|(step, errno)| launch.failure(&program, step, errno))
    };
    let Err(error) = attempt();
    error
}

/// A program that ended, with the reports of its watchers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassthroughRun {
    pub ended: ProgramEnd,
    /// Report of each watcher, in the order of the plan.
    pub watches: Vec<WatchReport>,
}

/// Runs the program in this process group, with the watchers of its settings. `interrupted` is called once,
/// when the signals are already blocked. If it returns true, nothing is started.
///
/// # Errors
/// [`LaunchError`] when it could not be started or waited for.
pub fn run_through(
    launch: &ProgramLaunch,
    make: MakeWatcher<'_>,
    interrupted: &dyn Fn() -> bool,
) -> Result<Option<PassthroughRun>, LaunchError> {
    let before = SignalState::inherited();
    let mut caught = SignalReceiver::block(before)?;
    if interrupted() {
        return Ok(None);
    }
    let child = launch::spawn_with(launch, &[], before)?;
    let mut watchers = run::watchers(launch, &child, make);
    let running = child.release()?;
    attend(&running, &mut caught, &mut watchers);
    let (status, _) = wait::reap(running.pid())
        .map_err(|e| LaunchError::call("wait4", format!("process {}", running.pid()), &e))?;
    let watches = watchers.iter_mut().map(|w| w.watcher.finish()).collect();
    Ok(Some(PassthroughRun { ended: wait::ended(status), watches }))
}

/// Runs the program like [`run_through`], without watchers, and records what `launch.observe` asks
/// for and what it used.
///
/// # Errors
/// [`LaunchError`] when it could not be started or waited for.
pub fn observe_through(launch: &ProgramLaunch) -> Result<FinishedRun, LaunchError> {
    profile_through(launch, &MappedFiles::default(), None)
}

/// Like [`observe_through`], with a profile. `walker` walks its stacks, and its code is opened in `files`.
///
/// # Errors
/// As [`observe_through`].
pub fn profile_through(
    launch: &ProgramLaunch,
    files: &MappedFiles,
    walker: Option<Walker>,
) -> Result<FinishedRun, LaunchError> {
    let before = SignalState::inherited();
    let mut caught = SignalReceiver::block(before)?;
    let child = launch::spawn_with(launch, &[], before)?;
    let observers = PerfObservers::attach(child.pid(), &launch.observe, files, walker);
    let recording = FaultRecording::beside(&launch.recorder, child.pid());
    caught.spare(recording.pid());
    let starts = StartWatch::of(&launch.settings)?;
    let huge_before = run::HugeCounts::now();
    let running = child.release()?;
    let cpu_before = wait::own_cpu_time();
    let wall = attend(&running, &mut caught, &mut []);
    let supervisor_ns = Nanos(wait::own_cpu_time().0.saturating_sub(cpu_before.0));
    let cpus_at_end = pagewise_kernel::affinity::get(running.pid()).unwrap_or_default();
    let usage = wait::usage(running.pid(), wall, running.io())?;
    let huge = run::HugeCounts::now().since(huge_before);
    let observed = observers.finish();
    // From here on signals end this process.
    drop(caught);
    Ok(FinishedRun {
        faults: recording.conclude(&usage),
        supervisor_ns,
        huge_faults: huge.faults,
        folio_faults: huge.folios,
        huge_file_maps: huge.file_maps,
        files_opened: starts.seen()?,
        cpus_at_end,
        samples: observed.samples,
        profile: observed.profile,
        user: observed.user,
        walks: observed.walks,
        code_misses: observed.code_misses,
        ..FinishedRun::new(usage)
    })
}

/// Waits beside the program until it ends; returns its wall time.
pub(crate) fn attend(
    running: &RunningProgram,
    caught: &mut SignalReceiver,
    watchers: &mut [ScheduledWatcher],
) -> Nanos {
    let mut tree = ProcessTree::below(running.pid());
    let elapsed = || Nanos::from(running.started().elapsed());
    let clocks = WatchClocks { since_start: &elapsed, cpu: &pagewise_kernel::clock::thread_cpu };
    loop {
        let watch_due = run::tick(watchers, &mut tree, &clocks);
        caught.pass_on(running, elapsed());
        let due = [watch_due, caught.due()].into_iter().flatten().min();
        let timeout = due.map(|due| Nanos(due.0.saturating_sub(elapsed().0)));
        let mut fds = [
            PollFd::from_borrowed_fd(running.pidfd(), PollFlags::IN),
            PollFd::from_borrowed_fd(caught.fd(), PollFlags::IN),
        ];
        wait::sleep(&mut fds, timeout);
        let wall = elapsed();
        let [ended, signal] = fds.map(|fd| !fd.revents().is_empty());
        if signal {
            caught.take(running, wall);
        }
        if ended {
            return wall;
        }
    }
}

/// Ends this process as the program ended: with the same status, or by the same signal without a second core
/// dump.
#[expect(clippy::exit, reason = "its purpose is to end the process with the program's status")]
pub fn end_like(ended: ProgramEnd) -> ! {
    let ProgramEnd::Signaled(signal) = ended else { std::process::exit(ended.shell_status()) };
    // A core dump of this process would overwrite the program's. It does no harm if either call fails.
    let _best_effort =
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    // SAFETY: SIG_DFL runs no code of this program.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    let mut set = SignalState::clean().mask;
    // SAFETY: `set` is a live sigset_t of this function.
    unsafe { libc::sigaddset(&raw mut set, signal) };
    // SAFETY: reads a live sigset_t.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut()) };
    wait::kill(pagewise_kernel::proc::own_pid(), signal);
    std::process::exit(ended.shell_status())
}
