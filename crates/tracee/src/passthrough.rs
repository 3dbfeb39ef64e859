//! `run`: a program started for the user and not for us, with as little of us in between as can be.
//!
//! Where nothing has to happen beside the program, [`exec_with`] lets this very process become it:
//! no fork, no process of ours left. Otherwise [`run_through`] stays beside it. The program keeps
//! our process group, session and descriptors, so what a terminal sends reaches it directly; we
//! leave that alone. Only a signal that some process sent to us is handed on, because it was meant
//! for the program: SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH, SIGCONT, SIGTSTP. When
//! the program stops, we stop, so that the shell sees its job stopped. The program dies with us;
//! what it leaves in the background lives on.
//!
//! SIGPIPE starts at its default: the Rust runtime ignores it in us before anything can be asked.

use crate::child::SignalState;
use crate::launch::{self, Launch, LaunchError, Running};
use crate::perf::Observers;
use crate::run::{self, Finished, Scheduled};
use crate::tree::Tree;
use crate::wait;
use crate::watcher::{MakeWatcher, WatchReport};
use pagewise_model::units::Nanos;
use pagewise_model::usage::Ended;
use rustix::event::{PollFd, PollFlags};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

/// Handed on when a process sent them to us.
const FORWARDED: [i32; 8] = [
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGWINCH,
    libc::SIGCONT,
    libc::SIGTSTP,
];

/// Taken and dropped: the program has its own copy from the terminal.
const LEFT_ALONE: [i32; 2] = [libc::SIGINT, libc::SIGQUIT];

/// Becomes the program. Returns only on failure.
#[must_use]
pub fn exec_with(launch: &Launch) -> LaunchError {
    let signals = SignalState::inherited();
    let attempt = || -> Result<std::convert::Infallible, LaunchError> {
        let program = launch.find()?;
        let mut prepared = launch.prepare(&program)?;
        let (stdio, drains) = launch::open_stdio(launch)?;
        if !drains.is_empty() {
            let invalid = rustix::io::Errno::INVAL;
            return Err(LaunchError::errno("execve", "a program with a drained pipe", invalid));
        }
        prepared.stdio = stdio;
        prepared.signals = signals;
        let step = prepared.settle().and_then(|()| prepared.exec());
        step.map_err(|(step, errno)| launch.failure(&program, step, errno))
    };
    let Err(error) = attempt();
    error
}

/// A program that ended, and what was done to it meanwhile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Through {
    /// How it ended.
    pub ended: Ended,
    /// What each watcher did, in the order of the plan.
    pub watches: Vec<WatchReport>,
}

/// Runs the program in our place in the process group, with the watchers of its settings.
///
/// # Errors
/// [`LaunchError`] when it could not be started or waited for.
pub fn run_through(launch: &Launch, make: MakeWatcher<'_>) -> Result<Through, LaunchError> {
    let before = SignalState::inherited();
    let caught = Caught::block(before)?;
    let child = launch::spawn_with(launch, &[], before)?;
    let mut watchers = run::watchers(launch, &child, make);
    let running = child.release()?;
    attend(&running, &caught, &mut watchers);
    let (status, _) = wait::reap(running.pid())
        .map_err(|e| LaunchError::call("wait4", format!("process {}", running.pid()), &e))?;
    let watches = watchers.iter_mut().map(|w| w.watcher.finish()).collect();
    Ok(Through { ended: wait::ended(status), watches })
}

/// Runs the program like [`run_through`], without watchers, and records what `launch.observe` asks
/// for and what it used.
///
/// # Errors
/// [`LaunchError`] when it could not be started or waited for.
pub fn observe_through(launch: &Launch) -> Result<Finished, LaunchError> {
    let before = SignalState::inherited();
    let caught = Caught::block(before)?;
    let child = launch::spawn_with(launch, &[], before)?;
    let observers = Observers::attach(child.pid(), &launch.observe);
    let huge_before = run::huge_faults();
    let running = child.release()?;
    let cpu_before = wait::own_cpu_time();
    let wall = attend(&running, &caught, &mut []);
    let supervisor_ns = Nanos(wait::own_cpu_time().0.saturating_sub(cpu_before.0));
    let cpus_at_end = pagewise_kernel::affinity::get(running.pid()).unwrap_or_default();
    let usage = wait::usage(running.pid(), wall, running.io())?;
    let (samples, walks) = observers.finish();
    Ok(Finished {
        usage,
        watches: Vec::new(),
        supervisor_ns,
        huge_faults: run::huge_faults().saturating_sub(huge_before),
        leftovers_killed: 0,
        cpus_at_end,
        timed_out: false,
        over_memory: false,
        samples,
        walks,
    })
}

/// Stays beside the program until it ends; returns its wall time.
fn attend(running: &Running, caught: &Caught, watchers: &mut [Scheduled]) -> Nanos {
    let mut tree = Tree::new(running.pid(), running.helpers());
    let elapsed = || Nanos::from(running.started().elapsed());
    loop {
        let due = run::tick(watchers, &mut tree, elapsed());
        let timeout = due.map(|due| Nanos(due.0.saturating_sub(elapsed().0)));
        let mut fds = [
            PollFd::from_borrowed_fd(running.pidfd(), PollFlags::IN),
            PollFd::new(&caught.fd, PollFlags::IN),
        ];
        run::sleep(&mut fds, timeout);
        let wall = elapsed();
        let [ended, signal] = fds;
        if !signal.revents().is_empty() {
            caught.pass_on(running);
        }
        if !ended.revents().is_empty() {
            return wall;
        }
    }
}

/// Signals that arrive as data while this lives; the mask of before comes back at its end.
struct Caught {
    fd: OwnedFd,
    before: SignalState,
}

impl Caught {
    fn block(before: SignalState) -> Result<Self, LaunchError> {
        let mut set = SignalState::clean().mask;
        for signal in FORWARDED.into_iter().chain(LEFT_ALONE).chain([libc::SIGCHLD]) {
            // SAFETY: `set` is a live sigset_t of ours.
            unsafe { libc::sigaddset(&raw mut set, signal) };
        }
        // SAFETY: reads a live sigset_t; what the mask was is in `before`.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) };
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        // SAFETY: reads a live sigset_t and makes a new descriptor.
        let fd = unsafe { libc::signalfd(-1, &raw const set, flags) };
        if fd < 0 {
            let error = io::Error::last_os_error();
            restore(&before);
            return Err(LaunchError::call("signalfd", "the signals to pass on", &error));
        }
        // SAFETY: the descriptor was just made and is nobody else's.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) }, before })
    }

    /// Hands on what was sent to us, and stops with the program.
    fn pass_on(&self, running: &Running) {
        while let Some(info) = self.next() {
            let signal = i32::try_from(info.ssi_signo).unwrap_or(0);
            if signal == libc::SIGCHLD {
                if has_stopped(running.pid()) {
                    wait::kill(pagewise_kernel::proc::own_pid(), libc::SIGSTOP);
                }
            } else if info.ssi_code <= 0 && FORWARDED.contains(&signal) {
                // A code above 0 is the kernel's, such as a terminal's: the program got its own.
                wait::kill(running.pid(), signal);
            }
        }
    }

    fn next(&self) -> Option<libc::signalfd_siginfo> {
        // SAFETY: a signalfd_siginfo is plain integers, for which all zeroes is a value.
        let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
        let len = size_of_val(&info);
        // SAFETY: the kernel writes at most `len` bytes, the size of the live `info`.
        let got = unsafe { libc::read(self.fd.as_raw_fd(), (&raw mut info).cast(), len) };
        (usize::try_from(got) == Ok(len)).then_some(info)
    }
}

impl Drop for Caught {
    fn drop(&mut self) {
        // What is still pending was meant for the program, which has ended.
        while self.next().is_some() {}
        restore(&self.before);
    }
}

fn restore(state: &SignalState) {
    // SAFETY: reads a live sigset_t; the present mask is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const state.mask, ptr::null_mut()) };
}

/// Whether our child `pid` has been stopped since this was last asked.
fn has_stopped(pid: i32) -> bool {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
    let Some(pid) = rustix::process::Pid::from_raw(pid) else { return false };
    matches!(waitid(WaitId::Pid(pid), options), Ok(Some(status)) if status.stopped())
}

/// Ends this process as the program ended: with its status, or by its signal without a second
/// core dump.
#[expect(clippy::exit, reason = "its purpose is to end the process with the program's status")]
pub fn end_like(ended: Ended) -> ! {
    let Ended::Signaled(signal) = ended else { std::process::exit(ended.shell_status()) };
    // A core dump of ours would overwrite the program's; neither call can hurt when refused.
    let _best_effort =
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    // SAFETY: SIG_DFL runs no code of ours.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    let mut set = SignalState::clean().mask;
    // SAFETY: `set` is a live sigset_t of ours.
    unsafe { libc::sigaddset(&raw mut set, signal) };
    // SAFETY: reads a live sigset_t.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut()) };
    wait::kill(pagewise_kernel::proc::own_pid(), signal);
    std::process::exit(ended.shell_status())
}
