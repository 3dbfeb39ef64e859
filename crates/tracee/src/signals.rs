//! Signals that reach us and were meant for the program that we stay beside.
//!
//! They are taken as data (`signalfd(2)`). What the kernel sends, as a terminal does, goes to the
//! whole foreground group and so to the program too: it is dropped. What a process sends is kept
//! for [`witness::GRACE`] and then handed on, unless the [`Witness`] has received it as well: then
//! it went to our group or cgroup, and the program has its own. So is the hang-up of a terminal whose
//! session we lead (`ssh -t`, `xterm -e`), which the kernel sends to the leader and to nobody else
//! (drivers/tty/tty_jobctrl.c, `tty_signal_session_leader`). What the program itself sends to
//! us, as its parent, is dropped. The witness is asked after a signal that was dropped as well: one
//! that stayed with it would hide the next of its number.

use crate::child::SignalState;
use crate::descendants::{self, Except};
use crate::launch::{LaunchError, Running};
use crate::ptrace::request;
use crate::wait;
use crate::witness::{self, Counts, Sender, Witness};
use pagewise_kernel::SysError;
use pagewise_model::units::Nanos;
use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

/// By these a user or a service manager asks a process to end.
const ENDING: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Handed on when a process sent them to us; the real-time signals are too.
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

/// What the kernel sends to the leader of a session that has lost its terminal.
const HANG_UP: [i32; 2] = [libc::SIGHUP, libc::SIGCONT];

unsafe extern "C" {
    /// `sigqueue(3)`.
    safe fn sigqueue(pid: libc::pid_t, signal: libc::c_int, value: libc::sigval) -> libc::c_int;
}

fn forwarded() -> impl Iterator<Item = i32> {
    FORWARDED.into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX())
}

/// A signal on its way to the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sent {
    signal: i32,
    sender: Sender,
    /// What `sigqueue(3)` gave with it.
    value: Option<u64>,
}

impl Sent {
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

/// A descriptor that the signals of `set`, which are blocked, are read from.
pub(crate) fn descriptor(set: &libc::sigset_t) -> io::Result<OwnedFd> {
    let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
    // SAFETY: reads a live sigset_t and makes a new descriptor.
    let fd = unsafe { libc::signalfd(-1, ptr::from_ref(set), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and is nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Signals that arrive as data while this lives; the mask of before comes back at its end.
#[derive(Debug)]
pub(crate) struct Caught {
    fd: OwnedFd,
    before: SignalState,
    /// Absent where none could be forked: then all is handed on.
    witness: Option<Witness>,
    kept: Vec<Sent>,
    due: Option<Nanos>,
    asked_to_end: bool,
    leads_session: bool,
    /// We are given the orphans of the program, as init is.
    adopts: bool,
    /// Processes of ours that somebody else waits for.
    helpers: HashSet<i32>,
}

impl Caught {
    /// Blocks the signals; `before` is what the mask was.
    pub(crate) fn block(before: SignalState) -> Result<Self, LaunchError> {
        wait::keep_ended_children();
        let mut set = SignalState::clean().mask;
        for signal in forwarded().chain([libc::SIGCHLD]) {
            // SAFETY: `set` is a live sigset_t of ours.
            unsafe { libc::sigaddset(&raw mut set, signal) };
        }
        // SAFETY: reads a live sigset_t; what the mask was is in `before`.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) };
        let fd = descriptor(&set).map_err(|error| {
            restore(&before);
            LaunchError::call("signalfd", "the signals to pass on", &error)
        })?;
        let witness = Witness::start().ok();
        let own = pagewise_kernel::proc::own_pid();
        Ok(Self {
            fd,
            before,
            helpers: witness.iter().map(Witness::pid).collect(),
            witness,
            kept: Vec::new(),
            due: None,
            asked_to_end: false,
            leads_session: session() == own,
            adopts: own == 1 || matches!(rustix::process::child_subreaper(), Ok(Some(_))),
        })
    }

    /// Child `pid` of ours does not belong to the program.
    pub(crate) fn spare(&mut self, pid: Option<i32>) {
        self.helpers.extend(pid);
    }

    /// Somebody other than the program has asked us to end, by a signal that we do not ignore.
    pub(crate) const fn asked_to_end(&self) -> bool {
        self.asked_to_end
    }

    /// Readable when something has arrived.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// When [`Caught::pass_on`] wants to be called.
    pub(crate) const fn due(&self) -> Option<Nanos> {
        self.due
    }

    /// Takes what has arrived; stops with the program.
    pub(crate) fn take(&mut self, running: &Running, now: Nanos) {
        while let Some(info) = self.next() {
            let signal = i32::try_from(info.ssi_signo).unwrap_or(0);
            let from_program = u32::try_from(running.pid()) == Ok(info.ssi_pid);
            if signal == libc::SIGCHLD {
                if has_stopped(running.pid()) {
                    // The program has just stopped; what makes us go on takes a stop signal from
                    // the witness, so that ours would pass for one to us alone.
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
            let sender = if info.ssi_code > 0 { Sender::Kernel } else { Sender::Process };
            let is_for_us = match sender {
                Sender::Kernel => self.leads_session && HANG_UP.contains(&signal),
                Sender::Process => !from_program,
            };
            if is_for_us {
                let value = (info.ssi_code == libc::SI_QUEUE).then_some(info.ssi_ptr);
                self.kept.push(Sent { signal, sender, value });
            }
        }
    }

    fn reap_orphans(&self, running: &Running) {
        let helpers = self.helpers.iter().copied().chain(running.helpers()).collect();
        descendants::reap_ended(&Except { helpers, unreaped: Some(running.pid()) });
    }

    /// Hands on what was sent to us alone, once the time has come, and empties the witness.
    pub(crate) fn pass_on(&mut self, running: &Running, now: Nanos) {
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

impl Drop for Caught {
    fn drop(&mut self) {
        // What is still pending was meant for the program, which has ended.
        while self.next().is_some() {}
        restore(&self.before);
    }
}

/// The session that this process is in; 0 where its leader is outside of our process namespace.
fn session() -> i32 {
    // SAFETY: getsid has no preconditions.
    unsafe { libc::getsid(0) }
}

/// Those of `sent` that the witness has not received. Real-time signals queue and are counted;
/// of the others one that is pending stands for any number.
fn to_us_alone(sent: Vec<Sent>, witnessed: &Counts) -> Vec<Sent> {
    let mut left = *witnessed;
    let alone = |one: &Sent| {
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

/// No SIGCHLD comes for stops while this lives: each stop of a traced thread would send one, and wake
/// the thread that reads signals. The stops themselves are waited for as ever.
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
        // SAFETY: both are live; the default action runs no code of ours.
        unsafe { libc::sigaction(libc::SIGCHLD, &raw const quiet, &raw mut before) };
        Self { before }
    }
}

impl Drop for QuietStops {
    fn drop(&mut self) {
        // SAFETY: what was in force before is put back.
        unsafe { libc::sigaction(libc::SIGCHLD, &raw const self.before, ptr::null_mut()) };
    }
}

/// Leaves thread `tid` in its job-control stop, which a thread of ours traces, and stops with it
/// where it is `program`, our child: its stops are told to the tracer alone.
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

/// Whether our child `pid` has been stopped since this was last asked. A stop that an injector is
/// owed is left to it: where it was taken away the thread would stand still for ever.
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
        // SAFETY: `set` is a live sigset_t of ours.
        unsafe { libc::sigaddset(&raw mut set, signal) };
        // SAFETY: reads a live sigset_t; blocks in this thread, which the forked child copies.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) };
        // SAFETY: the child makes system calls alone and `_exit`s.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: a siginfo_t is plain integers and pointers, all of which may be zero.
            let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
            // SAFETY: reads a live set and writes a live siginfo_t.
            unsafe { libc::sigwaitinfo(&raw const set, &raw mut info) };
            // SAFETY: a signal with a value came, so that field is the one that was written.
            let value = unsafe { info.si_value() };
            // SAFETY: ends this forked process without running exit handlers of its parent.
            unsafe { libc::_exit(i32::try_from(value.sival_ptr.addr()).unwrap_or(0)) }
        }
        Sent { signal, sender: Sender::Process, value: Some(42) }.hand_on(pid);
        let (status, _) = wait::reap(pid).unwrap();
        assert_eq!(wait::ended(status), pagewise_model::usage::Ended::Exited(42));
    }

    #[test]
    fn a_stop_for_an_injector_is_left_to_it() {
        use crate::ptrace::{Stop, request};
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
        assert_eq!(request::poll_stop(pid).unwrap(), Some(Stop::Interrupted));
        request::detach(pid, 0).unwrap();
        wait::kill(pid, libc::SIGSTOP);
        wait_for('T');
        assert!(has_stopped(pid) && !has_stopped(pid));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn what_the_witness_received_is_not_handed_on() {
        let sent = |signal| Sent { signal, sender: Sender::Process, value: None };
        let real_time = libc::SIGRTMIN();
        let kept = [libc::SIGTERM, libc::SIGINT, libc::SIGTERM, real_time, real_time].map(sent);
        let with = |signals: &[i32]| {
            let mut counts = witness::NOTHING;
            signals.iter().for_each(|s| counts[witness::place(*s, Sender::Process)] += 1);
            let alone = to_us_alone(kept.to_vec(), &counts);
            alone.iter().map(|one| one.signal).collect::<Vec<_>>()
        };
        assert_eq!(with(&[]), kept.map(|one| one.signal));
        assert_eq!(with(&[libc::SIGTERM]), [libc::SIGINT, real_time, real_time]);
        let rest = [libc::SIGTERM, libc::SIGTERM, real_time];
        assert_eq!(with(&[libc::SIGINT, real_time]), rest);
        let hang_up = Sent { signal: libc::SIGHUP, sender: Sender::Kernel, value: None };
        let mut counts = witness::NOTHING;
        counts[witness::place(libc::SIGHUP, Sender::Process)] = 1;
        assert_eq!(to_us_alone(vec![hang_up], &counts), [hang_up]);
        counts[witness::place(libc::SIGHUP, Sender::Kernel)] = 1;
        assert_eq!(to_us_alone(vec![hang_up], &counts), []);
    }
}
