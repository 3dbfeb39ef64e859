//! [`HeldThread`]: one seized thread of another process, guarded until it is released or has ended.
//!
//! A tracer that has seized a thread must wait for its end. Until then the thread stays a zombie, its process
//! cannot be waited for, and an `execve` by another of its threads does not return. The thread may die at any
//! moment by `exit_group`, an exec or SIGKILL, and then PTRACE_DETACH only returns ESRCH. So threads are
//! seized only through a [`ThreadTracer`], a dedicated thread of this process that
//!
//! - holds one thread at a time, which the borrow checker enforces;
//! - has no children, so the next event of any tracee is one of the held thread, under whatever number:
//!   a thread that executes a program takes the number of its process;
//! - also checks the thread itself, because another thread of this process that waits for a child takes
//!   the stops of that child too, whatever it asked for;
//! - releases a thread, or waits for its end, when the [`HeldThread`] is dropped, however long that takes;
//! - ends, and then the kernel releases whatever is left (`exit_ptrace` in kernel/ptrace.c).
//!
//! The end of a direct child of this process is only observed: the code that started it reaps it. The kernel
//! passes the end of any other process to its parent once it has been waited for here.
//!
//! One thread at a time also rules out a deadlock: PTRACE_SEIZE waits while a thread of that process is in
//! `execve`, and `execve` waits until the tracer of each other thread has waited for it.

use super::reissue;
use crate::ptrace::{PtraceStop, Regs, request};
use libc::c_int;
use pagewise_kernel::error::SysError;
use pagewise_kernel::proc::stat;
use std::marker::PhantomData;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A thread of this process that may seize one thread at a time.
#[derive(Debug)]
pub struct ThreadTracer {
    /// The held thread has ended. If it was a child of this process, which its parent reaps, the kernel would
    /// report its end again.
    is_spent: bool,
    /// Not `Send`: the kernel refuses requests from other threads.
    _here: PhantomData<*const ()>,
}

impl ThreadTracer {
    /// Runs `work` on a new thread.
    ///
    /// # Errors
    /// When no thread can be created.
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
    pub fn halt(&mut self, tid: i32) -> Result<HaltOutcome<'_>, SysError> {
        if self.is_spent {
            let subject = format!("thread {tid}");
            return Err(SysError::new("PTRACE_SEIZE", subject, rustix::io::Errno::SRCH));
        }
        request::seize(tid, OPTIONS)?;
        let held = HeldThread { tid, state: HeldThreadState::Runs, tracer: self };
        held.interrupt()?;
        held.settle()
    }
}

/// Outcome of an attempt to stop a thread.
#[derive(Debug)]
pub enum HaltOutcome<'t> {
    /// It stopped because of the request alone.
    Stopped(HeldThread<'t>),
    /// It was stopping for another reason (a signal, job control) and has been released with it.
    Busy,
    /// It ended meanwhile.
    Gone,
    /// It does not stop for now (in `vfork`, in an uninterruptible wait) and will stop when it leaves that.
    /// Dropping the value waits for the stop.
    Owed(HeldThread<'t>),
}

/// Makes stops at calls distinguishable from signals.
const OPTIONS: c_int = libc::PTRACE_O_TRACESYSGOOD;
/// How long to wait for a stop before it counts as owed.
const PATIENCE: Duration = Duration::from_millis(3);
const LONGEST_PATIENCE: Duration = Duration::from_millis(300);
/// Polls without a sleep: a running thread stops within microseconds, less than any sleep takes.
const SPINS: u32 = 50;
const PAUSE: Duration = Duration::from_micros(50);
/// Longest sleep between two polls. A thread that stops late stands still for this long at most.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// State of the held thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeldThreadState {
    /// It runs or is about to end.
    Runs,
    /// It is stopped at the tracer's request.
    Stands,
    /// It is stopped for a signal or job control. The signal is delivered when it is released.
    Stopping(i32),
    /// It is released, or has ended.
    Over,
}

/// A seized thread of another process. Dropping this releases the thread.
#[derive(Debug)]
pub struct HeldThread<'t> {
    tid: i32,
    state: HeldThreadState,
    tracer: &'t mut ThreadTracer,
}

impl<'t> HeldThread<'t> {
    /// Its thread id.
    #[must_use]
    pub const fn tid(&self) -> i32 {
        self.tid
    }

    /// From here on, the end of this process kills the thread's process.
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

    /// Runs to the next entry to or exit from a system call, or to whatever stop comes first. A signal that
    /// comes first is kept until the thread is released.
    ///
    /// # Errors
    /// When it has been killed.
    pub fn run_to_syscall(&mut self) -> Result<PtraceStop, SysError> {
        loop {
            request::syscall(self.tid, 0)?;
            match self.wait()? {
                // For example, job control has ended.
                PtraceStop::Interrupted => {}
                stop => return Ok(stop),
            }
        }
    }

    /// Releases it with the signal that came meanwhile, or waits for its end.
    ///
    /// # Errors
    /// When the kernel refuses. A thread that has been killed is not an error.
    pub fn release(mut self) -> Result<(), SysError> {
        self.let_go()
    }

    fn let_go(&mut self) -> Result<(), SysError> {
        loop {
            let signal = match self.state {
                HeldThreadState::Over => return Ok(()),
                HeldThreadState::Runs => {
                    self.interrupt()?;
                    self.wait()?;
                    continue;
                }
                HeldThreadState::Stands => {
                    // If it was killed meanwhile, the detach below reports that.
                    let _gone = reissue(self.tid);
                    0
                }
                HeldThreadState::Stopping(signal) => signal,
            };
            match request::detach(self.tid, signal) {
                Ok(()) => self.state = HeldThreadState::Over,
                // It was killed: it runs to its end, which must be waited for.
                Err(error) if error.is_gone() => self.state = HeldThreadState::Runs,
                Err(error) => return Err(error),
            }
        }
    }

    /// Requests a stop. A thread that has ended cannot stop, which is no error: its end is waited for
    /// instead.
    fn interrupt(&self) -> Result<(), SysError> {
        match request::interrupt(self.tid) {
            Err(error) if !error.is_gone() => Err(error),
            _ => Ok(()),
        }
    }

    /// Waits for the outcome within [`PATIENCE`]. A thread that only waits for a CPU gets longer.
    fn settle(mut self) -> Result<HaltOutcome<'t>, SysError> {
        let begin = Instant::now();
        while self.wait_until(Some(Instant::now() + PATIENCE))?.is_none() {
            let is_ready = stat::read(self.tid).is_ok_and(|stat| stat.state == 'R');
            if !is_ready || begin.elapsed() > LONGEST_PATIENCE {
                return Ok(HaltOutcome::Owed(self));
            }
        }
        match self.state {
            HeldThreadState::Stands => Ok(HaltOutcome::Stopped(self)),
            HeldThreadState::Over => Ok(HaltOutcome::Gone),
            HeldThreadState::Runs | HeldThreadState::Stopping(_) => {
                self.release().map(|()| HaltOutcome::Busy)
            }
        }
    }

    /// Waits until it stops or ends.
    fn wait(&mut self) -> Result<PtraceStop, SysError> {
        loop {
            if let Some(stop) = self.wait_until(None)? {
                return Ok(stop);
            }
        }
    }

    /// Waits until it stops or ends, or until `end`.
    fn wait_until(&mut self, end: Option<Instant>) -> Result<Option<PtraceStop>, SysError> {
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

    /// Returns its stop or end, if there is one. Does not wait.
    fn poll(&mut self) -> Result<Option<PtraceStop>, SysError> {
        match request::poll_any_stop() {
            Ok(Some((tid, stop))) => Ok(Some(self.take(tid, stop))),
            // Its parent, in this process, reaped it first, or the exec of another thread has replaced it.
            Err(error) if error.errno() == Some(libc::ECHILD) => {
                Ok(Some(self.take(self.tid, PtraceStop::Exited(0))))
            }
            Err(error) => Err(error),
            Ok(None) => {
                let stop = request::present_stop(self.tid).ok();
                Ok(stop.map(|stop| self.take(self.tid, stop)))
            }
        }
    }

    /// Records what was reported.
    fn take(&mut self, tid: i32, stop: PtraceStop) -> PtraceStop {
        self.tid = tid;
        self.tracer.is_spent |= stop.is_end();
        self.state = match stop {
            stop if stop.is_end() => HeldThreadState::Over,
            PtraceStop::Signal(signal) => HeldThreadState::Stopping(signal),
            PtraceStop::Group(_) => HeldThreadState::Stopping(0),
            _ => HeldThreadState::Stands,
        };
        stop
    }
}

impl Drop for HeldThread<'_> {
    fn drop(&mut self) {
        // If the kernel refuses, it releases the thread by itself when this tracer thread ends.
        let _refused = self.let_go();
    }
}
