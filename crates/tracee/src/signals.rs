//! Forwards signals that reach this process but were meant for the program beside it.
//!
//! Signals are read as data (`signalfd(2)`). A signal from the kernel, such as from a terminal, goes to the
//! whole foreground group and so reaches the program too: it is dropped. A signal from a process is kept for
//! [`witness::GRACE`] and then forwarded, unless the [`SignalWitness`] has also received it. In that case it went
//! to the whole group or cgroup, and the program already has it. The hang-up of a terminal is also forwarded
//! if this process leads its session (`ssh -t`, `xterm -e`): the kernel sends it only to the leader
//! (drivers/tty/tty_jobctrl.c, `tty_signal_session_leader`). Signals from the program itself to its parent
//! are dropped. The witness is also queried after a dropped signal: one that stays pending there would hide
//! the next one with its number.

use crate::child::SignalState;
use crate::descendants::{self, ExceptedChildren};
use crate::launch::{LaunchError, RunningProgram};
use crate::ptrace::request;
use crate::wait;
use crate::witness::{self, Counts, SignalSender, SignalWitness};
use pagewise_kernel::SysError;
use pagewise_model::units::Nanos;
use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

/// Signals by which a user or a service manager asks a process to end.
const ENDING: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Forwarded if a process sent them to this process; so are the real-time signals.
const FORWARDED: [i32; 15] = [
    libc::SIGTERM,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGHUP,
    libc::SIGABRT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGWINCH,
    libc::SIGCONT,
    libc::SIGTSTP,
];

/// Signals from the kernel to the leader of a session that has lost its terminal.
const HANG_UP: [i32; 2] = [libc::SIGHUP, libc::SIGCONT];

unsafe extern "C" {
    /// `sigqueue(3)`.
    safe fn sigqueue(pid: libc::pid_t, signal: libc::c_int, value: libc::sigval) -> libc::c_int;
}

fn forwarded() -> impl Iterator<Item = i32> {
    FORWARDED.into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX())
}

/// A signal to be forwarded to the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ForwardedSignal {
    signal: i32,
    sender: SignalSender,
    /// Value passed by `sigqueue(3)`.
    value: Option<u64>,
}

impl ForwardedSignal {
    fn hand_on(self, pid: i32) {
        match self.value {
            Some(value) => {
                let sival_ptr = ptr::without_provenance_mut(value as usize);
                let _gone = sigqueue(pid, self.signal, libc::sigval { sival_ptr });
            }
            None => wait::kill(pid, self.signal),
        }
    }
}

/// A descriptor for reading the signals of `set`, which are blocked.
pub(crate) fn descriptor(set: &libc::sigset_t) -> io::Result<OwnedFd> {
    let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
    // SAFETY: reads a live sigset_t and makes a new descriptor.
    let fd = unsafe { libc::signalfd(-1, ptr::from_ref(set), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just created, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Receives signals as data while it exists. Restores the previous mask at its end.
#[derive(Debug)]
pub(crate) struct SignalReceiver {
    fd: OwnedFd,
    before: SignalState,
    /// `None` if it could not be forked: then all signals are forwarded.
    witness: Option<SignalWitness>,
    kept: Vec<ForwardedSignal>,
    due: Option<Nanos>,
    asked_to_end: bool,
    leads_session: bool,
    /// This process adopts the orphans of the program, as init does.
    adopts: bool,
    /// Child processes that other code waits for.
    helpers: HashSet<i32>,
}

impl SignalReceiver {
    /// Blocks the signals; `before` is the previous state.
    pub(crate) fn block(before: SignalState) -> Result<Self, LaunchError> {
        wait::keep_ended_children();
        let mut set = SignalState::clean().mask;
        for signal in forwarded().chain([libc::SIGCHLD]) {
            // SAFETY: `set` is a live sigset_t of this function.
            unsafe { libc::sigaddset(&raw mut set, signal) };
        }
        // SAFETY: reads a live sigset_t; `before` holds the previous mask.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) };
        let fd = descriptor(&set).map_err(|error| {
            restore(&before);
            LaunchError::call("signalfd", "the signals to pass on", &error)
        })?;
        let witness = SignalWitness::start().ok();
        let own = pagewise_kernel::proc::own_pid();
        Ok(Self {
            fd,
            before,
            helpers: witness.iter().map(SignalWitness::pid).collect(),
            witness,
            kept: Vec::new(),
            due: None,
            asked_to_end: false,
            leads_session: session() == own,
            adopts: own == 1 || matches!(rustix::process::child_subreaper(), Ok(Some(_))),
        })
    }

    /// Marks child `pid` as not belonging to the program.
    pub(crate) fn spare(&mut self, pid: Option<i32>) {
        self.helpers.extend(pid);
    }

    /// A process other than the program asked this one to end, by a signal that it does not ignore.
    pub(crate) const fn asked_to_end(&self) -> bool {
        self.asked_to_end
    }

    /// Readable when a signal has arrived.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// When [`SignalReceiver::pass_on`] is to be called.
    pub(crate) const fn due(&self) -> Option<Nanos> {
        self.due
    }

    /// Handles the signals that have arrived. Stops together with the program.
    pub(crate) fn take(&mut self, running: &RunningProgram, now: Nanos) {
        while let Some(info) = self.next() {
            let signal = i32::try_from(info.ssi_signo).unwrap_or(0);
            let from_program = u32::try_from(running.pid()) == Ok(info.ssi_pid);
            if signal == libc::SIGCHLD {
                if has_stopped(running.pid()) {
                    // The program has just stopped. The signal that resumes this process removes a pending
                    // stop signal from the witness. A kept one would then look as if it had been sent to this
                    // process alone.
                    self.kept.retain(|sent| sent.signal != libc::SIGTSTP);
                    stop_ourselves();
                }
                if self.adopts {
                    self.reap_orphans(running);
                }
                continue;
            }
            let is_ours = !from_program && ENDING.contains(&signal);
            self.asked_to_end |= is_ours && self.before.ignored & (1 << (signal - 1)) == 0;
            self.due.get_or_insert(now + witness::GRACE);
            let sender =
                if info.ssi_code > 0 { SignalSender::Kernel } else { SignalSender::Process };
            let is_for_us = match sender {
                SignalSender::Kernel => self.leads_session && HANG_UP.contains(&signal),
                SignalSender::Process => !from_program,
            };
            if is_for_us {
                let value = (info.ssi_code == libc::SI_QUEUE).then_some(info.ssi_ptr);
                self.kept.push(ForwardedSignal { signal, sender, value });
            }
        }
    }

    fn reap_orphans(&self, running: &RunningProgram) {
        let helpers = self.helpers.iter().copied().chain(running.helpers()).collect();
        descendants::reap_ended(&ExceptedChildren { helpers, unreaped: Some(running.pid()) });
    }

    /// Forwards signals sent to this process alone, once they are due, and empties the witness.
    pub(crate) fn pass_on(&mut self, running: &RunningProgram, now: Nanos) {
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        self.due = None;
        let witnessed = self.witness.as_ref().and_then(|witness| witness.ask(running.pid()));
        if witnessed.is_none() {
            self.witness = None;
        }
        let kept = std::mem::take(&mut self.kept);
        for sent in to_us_alone(kept, &witnessed.unwrap_or(witness::NOTHING)) {
            sent.hand_on(running.pid());
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

impl Drop for SignalReceiver {
    fn drop(&mut self) {
        // Pending signals were meant for the program, which has ended.
        while self.next().is_some() {}
        restore(&self.before);
    }
}

/// Session of this process; 0 if its leader is outside this process namespace.
fn session() -> i32 {
    // SAFETY: getsid has no preconditions.
    unsafe { libc::getsid(0) }
}

/// The signals of `sent` that the witness has not received. Real-time signals queue and are counted. For
/// others, one pending signal stands for any number.
fn to_us_alone(sent: Vec<ForwardedSignal>, witnessed: &Counts) -> Vec<ForwardedSignal> {
    let mut left = *witnessed;
    let alone = |one: &ForwardedSignal| {
        let place = witness::place(one.signal, one.sender);
        let Some(count) = left.get_mut(place).filter(|count| **count > 0) else { return true };
        if one.signal >= libc::SIGRTMIN() {
            *count -= 1;
        }
        false
    };
    sent.into_iter().filter(alone).collect()
}

fn stop_ourselves() {
    wait::kill(pagewise_kernel::proc::own_pid(), libc::SIGSTOP);
}

/// Suppresses SIGCHLD for stops while it exists: each stop of a traced thread would send one, and wake the
/// thread that reads signals. Waiting for stops is not affected.
#[derive(Debug)]
pub(crate) struct QuietStops {
    before: libc::sigaction,
}

impl QuietStops {
    pub(crate) fn begin() -> Self {
        // SAFETY: a sigaction is plain integers and nullable pointers; all zeroes is SIG_DFL.
        let mut quiet: libc::sigaction = unsafe { std::mem::zeroed() };
        let mut before = quiet;
        quiet.sa_flags = libc::SA_NOCLDSTOP;
        // SAFETY: both are live; the default action runs no code of this program.
        unsafe { libc::sigaction(libc::SIGCHLD, &raw const quiet, &raw mut before) };
        Self { before }
    }
}

impl Drop for QuietStops {
    fn drop(&mut self) {
        // SAFETY: restores the previous action.
        unsafe { libc::sigaction(libc::SIGCHLD, &raw const self.before, ptr::null_mut()) };
    }
}

/// Leaves traced thread `tid` in its job-control stop. If it is `program`, a direct child, this process stops
/// too: only the tracer is notified of that child's stops.
pub(crate) fn park(tid: i32, program: i32) -> Result<(), SysError> {
    request::listen(tid)?;
    if tid == program {
        stop_ourselves();
    }
    Ok(())
}

pub(crate) fn restore(state: &SignalState) {
    // SAFETY: reads a live sigset_t; the present mask is not requested.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const state.mask, ptr::null_mut()) };
}

/// Whether child `pid` has stopped since the last call. A stop that an injector waits for must stay: if it
/// were consumed here, the thread would never run again.
fn has_stopped(pid: i32) -> bool {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let Some(pid) = rustix::process::Pid::from_raw(pid) else { return false };
    let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
    let is_stopped = |options| {
        let status = waitid(WaitId::Pid(pid), options);
        matches!(status, Ok(Some(status)) if status.stopped())
    };
    is_stopped(options | WaitIdOptions::NOWAIT) && is_stopped(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_of_a_queued_signal_is_kept() {
        let signal = libc::SIGRTMIN() + 5;
        let mut set = SignalState::clean().mask;
        // SAFETY: `set` is a live sigset_t of this function.
        unsafe { libc::sigaddset(&raw mut set, signal) };
        // SAFETY: reads a live sigset_t; blocks in this thread, which the forked child copies.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) };
        // SAFETY: the child only makes system calls and `_exit`s.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: a siginfo_t is plain integers and pointers, all of which may be zero.
            let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
            // SAFETY: reads a live set and writes a live siginfo_t.
            unsafe { libc::sigwaitinfo(&raw const set, &raw mut info) };
            // SAFETY: the signal came with a value, so this field is the one that was written.
            let value = unsafe { info.si_value() };
            // SAFETY: ends this forked process without running exit handlers of its parent.
            unsafe { libc::_exit(i32::try_from(value.sival_ptr.addr()).unwrap_or(0)) }
        }
        ForwardedSignal { signal, sender: SignalSender::Process, value: Some(42) }.hand_on(pid);
        let (status, _) = wait::reap(pid).unwrap();
        assert_eq!(wait::ended(status), pagewise_model::usage::ProgramEnd::Exited(42));
    }

    #[test]
    fn a_stop_for_an_injector_is_left_to_it() {
        use crate::ptrace::{PtraceStop, request};
        let test = "a_stop_for_an_injector_is_left_to_it";
        let Some((mut child, pid)) = crate::waiting::seized_cat(test) else { return };
        let wait_for = |state| {
            let start = std::time::Instant::now();
            while pagewise_kernel::proc::stat::read(pid).unwrap().state != state {
                assert!(start.elapsed() < std::time::Duration::from_secs(20), "it never came");
                std::thread::yield_now();
            }
        };
        request::interrupt(pid).unwrap();
        wait_for('t');
        assert!(!has_stopped(pid));
        assert_eq!(request::poll_stop(pid).unwrap(), Some(PtraceStop::Interrupted));
        request::detach(pid, 0).unwrap();
        wait::kill(pid, libc::SIGSTOP);
        wait_for('T');
        assert!(has_stopped(pid) && !has_stopped(pid));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn what_the_witness_received_is_not_handed_on() {
        let sent = |signal| ForwardedSignal { signal, sender: SignalSender::Process, value: None };
        let real_time = libc::SIGRTMIN();
        let kept = [libc::SIGTERM, libc::SIGINT, libc::SIGTERM, real_time, real_time].map(sent);
        let with = |signals: &[i32]| {
            let mut counts = witness::NOTHING;
            signals.iter().for_each(|s| counts[witness::place(*s, SignalSender::Process)] += 1);
            let alone = to_us_alone(kept.to_vec(), &counts);
            alone.iter().map(|one| one.signal).collect::<Vec<_>>()
        };
        assert_eq!(with(&[]), kept.map(|one| one.signal));
        assert_eq!(with(&[libc::SIGTERM]), [libc::SIGINT, real_time, real_time]);
        let rest = [libc::SIGTERM, libc::SIGTERM, real_time];
        assert_eq!(with(&[libc::SIGINT, real_time]), rest);
        let hang_up =
            ForwardedSignal { signal: libc::SIGHUP, sender: SignalSender::Kernel, value: None };
        let mut counts = witness::NOTHING;
        counts[witness::place(libc::SIGHUP, SignalSender::Process)] = 1;
        assert_eq!(to_us_alone(vec![hang_up], &counts), [hang_up]);
        counts[witness::place(libc::SIGHUP, SignalSender::Kernel)] = 1;
        assert_eq!(to_us_alone(vec![hang_up], &counts), []);
    }
}
