//! [`Held`]: one thread of another process, seized, and answered for until it is free or over.
//!
//! Whoever has seized a thread must wait for its end. Until then the thread stays a zombie, nobody
//! can wait for its process, and an `execve` by another of its threads does not return. The thread
//! may die at any moment by `exit_group`, an exec or SIGKILL, and then PTRACE_DETACH only says ESRCH.
//! So nothing is seized but through a [`Tracer`], which is a thread of ours that
//!
//! - holds one thread at a time, which the borrow checker sees to;
//! - has no children, so the next event of any tracee is one of the thread that it holds, under
//!   whatever number: a thread that executes a program takes that of its process;
//! - looks at the thread itself as well, because a wait for a child of ours by another thread takes
//!   its stops too, whatever that asked for;
//! - lets a thread go, or waits for its end, when the [`Held`] is dropped, however long that takes;
//! - ends, and then the kernel lets go whatever is left (`exit_ptrace` in kernel/ptrace.c).
//!
//! The end of a child of our own process is seen and left to the one who started it. The end of
//! any other process is handed on to its parent by the kernel once it has been waited for here.
//!
//! One thread at a time also rules out a deadlock: PTRACE_SEIZE waits while a thread of that process is
//! in `execve`, which waits until each other thread has been waited for by its tracer.

use super::reissue;
use crate::ptrace::{Regs, Stop, request};
use libc::c_int;
use pagewise_kernel::error::SysError;
use pagewise_kernel::proc::stat;
use std::marker::PhantomData;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A thread of ours that may seize one thread at a time.
#[derive(Debug)]
pub struct Tracer {
    /// The thread that it held has ended. Where that was a child of ours, whose end is left to its
    /// parent, the kernel would report it again.
    is_spent: bool,
    /// Requests of other threads are refused by the kernel.
    _here: PhantomData<*const ()>,
}

impl Tracer {
    /// Has a new thread of ours do `work`.
    ///
    /// # Errors
    /// When no thread can be made.
    pub fn start<T: Send + 'static>(
        work: impl FnOnce(&mut Self) -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, SysError> {
        let begin = || work(&mut Self { is_spent: false, _here: PhantomData });
        let made = thread::Builder::new().name("tracer".to_owned()).spawn(begin);
        made.map_err(|source| SysError {
            call: "clone",
            subject: "a thread of ours".into(),
            source,
        })
    }

    /// Seizes `tid` and stops it.
    ///
    /// # Errors
    /// Without the right to trace it, or when another tracer has it.
    pub fn halt(&mut self, tid: i32) -> Result<Halt<'_>, SysError> {
        if self.is_spent {
            let subject = format!("thread {tid}");
            return Err(SysError::new("PTRACE_SEIZE", subject, rustix::io::Errno::SRCH));
        }
        request::seize(tid, OPTIONS)?;
        let held = Held { tid, state: State::Runs, tracer: self };
        held.interrupt()?;
        held.settle()
    }
}

/// How an attempt to stop a thread came out.
#[derive(Debug)]
pub enum Halt<'t> {
    /// It stopped for us alone.
    Stopped(Held<'t>),
    /// It was stopping for something of its own (a signal, job control) and has been let go with it.
    Busy,
    /// It ended meanwhile.
    Gone,
    /// It does not stop for now (in `vfork`, in an uninterruptible wait) and will on its way out.
    /// Dropping it waits for that.
    Owed(Held<'t>),
}

/// Stops at calls are told from signals.
const OPTIONS: c_int = libc::PTRACE_O_TRACESYSGOOD;
/// How long a stop is waited for before it is owed.
const PATIENCE: Duration = Duration::from_millis(3);
const LONGEST_PATIENCE: Duration = Duration::from_millis(300);
/// A running thread stops within some microseconds, which no sleep of ours is short enough for.
const SPINS: u32 = 50;
const PAUSE: Duration = Duration::from_micros(50);
/// One whose stop comes late stands still for so long at most until it is let go.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// What the held thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It runs or is about to end.
    Runs,
    /// It stands still for us.
    Stands,
    /// It stands still for a signal or job control; the signal is delivered when it is let go.
    Stopping(i32),
    /// It is free, or has ended.
    Over,
}

/// One thread of another process, seized. Dropping it lets the thread go.
#[derive(Debug)]
pub struct Held<'t> {
    tid: i32,
    state: State,
    tracer: &'t mut Tracer,
}

impl<'t> Held<'t> {
    /// Its thread id.
    #[must_use]
    pub const fn tid(&self) -> i32 {
        self.tid
    }

    /// From here on our death kills the thread's process.
    ///
    /// # Errors
    /// When it has been killed.
    pub fn tie_to_us(&mut self) -> Result<(), SysError> {
        request::set_options(self.tid, OPTIONS | libc::PTRACE_O_EXITKILL)
    }

    /// Its registers.
    ///
    /// # Errors
    /// When it has been killed.
    pub fn regs(&self) -> Result<Regs, SysError> {
        request::get_regs(self.tid)
    }

    /// Sets its registers.
    ///
    /// # Errors
    /// When it has been killed.
    pub fn set_regs(&mut self, regs: &Regs) -> Result<(), SysError> {
        request::set_regs(self.tid, regs)
    }

    /// Runs to the next entry to or exit from a system call, or whatever else comes first. A signal
    /// that comes first is kept for when the thread is let go.
    ///
    /// # Errors
    /// When it has been killed.
    pub fn run_to_syscall(&mut self) -> Result<Stop, SysError> {
        loop {
            request::syscall(self.tid, 0)?;
            match self.wait()? {
                // Job control has ended, say.
                Stop::Interrupted => {}
                stop => return Ok(stop),
            }
        }
    }

    /// Lets it go, with the signal that came meanwhile, or waits for its end.
    ///
    /// # Errors
    /// When the kernel refuses; that it has been killed is none.
    pub fn release(mut self) -> Result<(), SysError> {
        self.let_go()
    }

    fn let_go(&mut self) -> Result<(), SysError> {
        loop {
            let signal = match self.state {
                State::Over => return Ok(()),
                State::Runs => {
                    self.interrupt()?;
                    self.wait()?;
                    continue;
                }
                State::Stands => {
                    // One that was killed meanwhile says so below.
                    let _gone = reissue(self.tid);
                    0
                }
                State::Stopping(signal) => signal,
            };
            match request::detach(self.tid, signal) {
                Ok(()) => self.state = State::Over,
                // It was killed: it runs to its end, which has to be waited for.
                Err(error) if error.is_gone() => self.state = State::Runs,
                Err(error) => return Err(error),
            }
        }
    }

    /// Asks it to stop. One that has ended cannot, which is no failure: it is waited for all the same.
    fn interrupt(&self) -> Result<(), SysError> {
        match request::interrupt(self.tid) {
            Err(error) if !error.is_gone() => Err(error),
            _ => Ok(()),
        }
    }

    /// What becomes of it within [`PATIENCE`]; one that only waits for a CPU has longer.
    fn settle(mut self) -> Result<Halt<'t>, SysError> {
        let begin = Instant::now();
        while self.wait_until(Some(Instant::now() + PATIENCE))?.is_none() {
            let is_ready = stat::read(self.tid).is_ok_and(|stat| stat.state == 'R');
            if !is_ready || begin.elapsed() > LONGEST_PATIENCE {
                return Ok(Halt::Owed(self));
            }
        }
        match self.state {
            State::Stands => Ok(Halt::Stopped(self)),
            State::Over => Ok(Halt::Gone),
            State::Runs | State::Stopping(_) => self.release().map(|()| Halt::Busy),
        }
    }

    /// Waits until it stops or ends.
    fn wait(&mut self) -> Result<Stop, SysError> {
        loop {
            if let Some(stop) = self.wait_until(None)? {
                return Ok(stop);
            }
        }
    }

    /// Waits until it stops or ends, or until `end`.
    fn wait_until(&mut self, end: Option<Instant>) -> Result<Option<Stop>, SysError> {
        let mut pause = PAUSE;
        for turn in 0_u32.. {
            if let Some(stop) = self.poll()? {
                return Ok(Some(stop));
            }
            if end.is_some_and(|end| Instant::now() > end) {
                break;
            }
            if turn < SPINS {
                thread::yield_now();
            } else {
                thread::sleep(pause);
                pause = (pause + pause / 8).min(LONGEST_PAUSE);
            }
        }
        Ok(None)
    }

    /// How it has stopped or ended, if it has.
    fn poll(&mut self) -> Result<Option<Stop>, SysError> {
        match request::poll_any_stop() {
            Ok(Some((tid, stop))) => Ok(Some(self.take(tid, stop))),
            // Its parent, in our process, was the first to wait for its end, or another thread's exec has
            // replaced it.
            Err(error) if error.errno() == Some(libc::ECHILD) => {
                Ok(Some(self.take(self.tid, Stop::Exited(0))))
            }
            Err(error) => Err(error),
            Ok(None) => {
                let stop = request::present_stop(self.tid).ok();
                Ok(stop.map(|stop| self.take(self.tid, stop)))
            }
        }
    }

    /// Notes what was reported.
    fn take(&mut self, tid: i32, stop: Stop) -> Stop {
        self.tid = tid;
        self.tracer.is_spent |= stop.is_end();
        self.state = match stop {
            stop if stop.is_end() => State::Over,
            Stop::Signal(signal) => State::Stopping(signal),
            Stop::Group(_) => State::Stopping(0),
            _ => State::Stands,
        };
        stop
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // What the kernel refuses here it does by itself when this thread of ours ends.
        let _refused = self.let_go();
    }
}
