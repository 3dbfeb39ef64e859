//! Detects whether a signal was meant for this process alone, by a process that only receives the signals of
//! its process group and cgroup.
//!
//! `kill -TERM -PGID`, timeout(1) and a service manager that stops a whole cgroup send one signal to each
//! process. Then the program has its own and must not get a second one: many programs quit without cleanup at
//! the second. The signal itself does not show whether others got it too (`siginfo_t` is the same). The
//! sender does not show it either: a script without job control that runs `kill $!`, and timeout(1), are both
//! the leader of this process group. So a third process is used as a witness. It blocks all signals. A signal
//! pending there was sent to the group, since no process sends one to the witness on purpose. Signals from
//! the kernel are counted separately: a hang-up may be for this process alone (`signals`). Signals from the
//! program itself are never forwarded, so they are not counted.
//!
//! The kernel signals a group in one step. A manager goes through a cgroup one process at a time, so the
//! witness is queried [`GRACE`] later.
//!
//! Cost: one more idle process, about 0.1 ms before the program starts. A signal sent to this process reaches
//! the program [`GRACE`] later.
//!
//! Not seen: a sender that waits longer than that between two processes.

use crate::descriptors;
use crate::launch_error::LaunchError;
use crate::wait;
use pagewise_model::units::Nanos;
use rustix::event::{PollFd, PollFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr;

/// Delay from a signal to the query of the witness.
pub(crate) const GRACE: Nanos = Nanos::millis(20);

/// How long to wait for its answer: it may be stopped.
const PATIENCE: Nanos = Nanos::secs(1);

/// Number of signals; they are numbered from 1.
const SIGNALS: usize = 64;

/// Who sent a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignalSender {
    Process,
    Kernel,
}

/// How often each signal came: first from processes, starting at index 0, then from the kernel. A signal that
/// does not queue counts once.
pub(crate) type Counts = [u8; 2 * SIGNALS];

pub(crate) const NOTHING: Counts = [0; 2 * SIGNALS];

/// Index of this signal in [`Counts`]; out of range if there is no such signal.
pub(crate) fn place(signal: i32, sender: SignalSender) -> usize {
    let number = usize::try_from(signal).ok().filter(|number| (1..=SIGNALS).contains(number));
    let start = if sender == SignalSender::Kernel { SIGNALS } else { 0 };
    number.map_or(usize::MAX, |number| start + number - 1)
}

/// Handle of the witness process.
#[derive(Debug)]
pub(crate) struct SignalWitness {
    pid: i32,
    socket: OwnedFd,
}

impl SignalWitness {
    /// Forks the witness. The signals to distinguish must be blocked already: one that comes during the fork
    /// would kill it.
    pub(crate) fn start() -> Result<Self, LaunchError> {
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(|e| LaunchError::errno("socketpair", "to the witness of signals", e))?;
        let parent = std::process::id();
        // SAFETY: the child runs `testify` alone, which neither allocates nor locks, and `_exit`s.
        let pid = unsafe { libc::fork() };
        match pid {
            -1 => {
                let error = io::Error::last_os_error();
                Err(LaunchError::call("fork", "a witness of signals", &error))
            }
            0 => testify(theirs.as_fd(), parent),
            _ => Ok(Self { pid, socket: ours }),
        }
    }

    pub(crate) const fn pid(&self) -> i32 {
        self.pid
    }

    /// Signals it has received since the last query, from processes other than `program`; `None` if it does
    /// not answer.
    pub(crate) fn ask(&self, program: i32) -> Option<Counts> {
        rustix::io::write(&self.socket, &program.to_ne_bytes()).ok()?;
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        wait::sleep(&mut fds, Some(PATIENCE));
        let [fd] = fds;
        if fd.revents().is_empty() {
            return None;
        }
        let mut counts = NOTHING;
        (rustix::io::read(&self.socket, &mut counts) == Ok(counts.len())).then_some(counts)
    }
}

impl Drop for SignalWitness {
    fn drop(&mut self) {
        wait::kill(self.pid, libc::SIGKILL);
        let _gone = wait::reap(self.pid);
    }
}

/// Runs the witness: answers until its parent is gone. Never returns.
fn testify(socket: BorrowedFd<'_>, parent: u32) -> ! {
    if wait::die_with(parent).is_ok() {
        descriptors::close_all_but([socket, socket]);
        let all = every_signal();
        // SAFETY: reads a live sigset_t; the old mask is not requested.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, ptr::null_mut()) };
        let mut program = [0; size_of::<i32>()];
        while rustix::io::read(socket, &mut program) == Ok(program.len()) {
            let counts = take_pending(&all, i32::from_ne_bytes(program));
            let _gone = rustix::io::write(socket, &counts);
        }
    }
    // SAFETY: ends this forked process without running exit handlers of its parent.
    unsafe { libc::_exit(0) }
}

fn every_signal() -> libc::sigset_t {
    // SAFETY: a sigset_t is plain integers, for which all zeroes is a value.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a live sigset_t of this function.
    unsafe { libc::sigfillset(&raw mut set) };
    set
}

/// Consumes all pending signals. Counts those from the kernel and from processes other than `program`.
fn take_pending(set: &libc::sigset_t, program: i32) -> Counts {
    let mut counts = NOTHING;
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    loop {
        // SAFETY: a siginfo_t is plain integers and pointers, all of which may be zero.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: reads a live set and a live timespec and writes a live siginfo_t.
        let signal = unsafe { libc::sigtimedwait(set, &raw mut info, &raw const now) };
        if signal <= 0 {
            return counts;
        }
        // SAFETY: filled or zero; if a process sent the signal, this field names it.
        let pid = unsafe { info.si_pid() };
        let sender = if info.si_code > 0 { SignalSender::Kernel } else { SignalSender::Process };
        let is_counted = sender == SignalSender::Kernel || pid != program;
        if let Some(count) = counts.get_mut(place(signal, sender)).filter(|_| is_counted) {
            *count = count.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_it_received_once() {
        let witness = SignalWitness::start().unwrap();
        assert_eq!(witness.ask(0), Some(NOTHING));
        let real_time = libc::SIGRTMIN() + 3;
        for signal in [libc::SIGTERM, libc::SIGTERM, real_time, real_time] {
            wait::kill(witness.pid, signal);
        }
        let counts = witness.ask(0).unwrap();
        let count = |signal| counts[place(signal, SignalSender::Process)];
        assert_eq!((count(libc::SIGTERM), count(real_time), count(libc::SIGINT)), (1, 2, 0));
        assert_eq!(witness.ask(0), Some(NOTHING));
        wait::kill(witness.pid, libc::SIGKILL);
        assert_eq!(witness.ask(0), None);
    }

    #[test]
    fn what_the_program_sent_is_not_counted_and_what_the_kernel_sent_counts_apart() {
        use std::os::fd::AsRawFd;
        let witness = SignalWitness::start().unwrap();
        // Its answer says that it has blocked all signals.
        assert_eq!(witness.ask(0), Some(NOTHING));
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        // SAFETY: sets the owner that receives the signals of this socket.
        assert_eq!(unsafe { libc::fcntl(ours.as_raw_fd(), libc::F_SETOWN, witness.pid) }, 0);
        // SAFETY: requests a SIGIO whenever this socket becomes readable.
        assert_eq!(unsafe { libc::fcntl(ours.as_raw_fd(), libc::F_SETFL, libc::O_ASYNC) }, 0);
        rustix::io::write(&theirs, b"x").unwrap();
        wait::kill(witness.pid, libc::SIGTERM);
        let counts = witness.ask(pagewise_kernel::proc::own_pid()).unwrap();
        assert_eq!(counts.iter().sum::<u8>(), 1);
        assert_eq!(counts[place(libc::SIGIO, SignalSender::Kernel)], 1);
        // A signal still pending would hide another of its number.
        wait::kill(witness.pid, libc::SIGIO);
        wait::kill(witness.pid, libc::SIGTERM);
        assert_eq!(witness.ask(0).map(|counts| counts.iter().sum()), Some(2_u8));
    }
}
