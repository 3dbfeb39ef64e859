//! [`Stopped`]: the proof that one thread of another process is seized and in a stop. While it is
//! held the registers may be read and set; dropping it lets the thread go.

use super::{Regs, Stop, request};
use libc::c_int;
use pagewise_kernel::error::SysError;
use std::time::{Duration, Instant};

/// How an attempt to stop a thread came out.
#[derive(Debug)]
pub enum Halt {
    /// It stopped for us alone.
    Stopped(Stopped),
    /// It was stopping for something of its own (a signal, job control) and has been let go with it.
    Busy,
    /// It ended meanwhile.
    Gone,
    /// It does not stop for now (in `vfork`, in an uninterruptible wait): it stays seized and will
    /// stop on its way out. [`collect`] has to be called from time to time.
    Owed,
}

/// How long a stop is waited for.
const PATIENCE: Duration = Duration::from_millis(3);
/// A running thread stops within some microseconds, which no sleep of ours is short enough for.
const SPINS: u32 = 50;
const PAUSE: Duration = Duration::from_micros(50);

/// One thread of another process, seized by this thread of ours and in a stop.
#[derive(Debug)]
pub struct Stopped {
    tid: i32,
    attached: bool,
    /// A signal that stopped it meanwhile; delivered when it is let go.
    signal: i32,
    /// Keeps the token on its thread: ptrace requests of other threads are refused by the kernel.
    _here: std::marker::PhantomData<*const ()>,
}

impl Stopped {
    /// Seizes `tid` with `options` and stops it.
    ///
    /// # Errors
    /// Without the right to trace it, or when another tracer has it.
    pub fn halt(tid: i32, options: c_int) -> Result<Halt, SysError> {
        request::seize(tid, options)?;
        // A thread that ended in between still has to be waited for, so that its parent hears of it.
        request::interrupt(tid).or_else(ignore_gone)?;
        Self::take(tid, await_stop(tid)?)
    }

    /// What becomes of an interrupted thread by what it reported.
    fn take(tid: i32, stop: Option<Stop>) -> Result<Halt, SysError> {
        match stop {
            None => Ok(Halt::Owed),
            Some(Stop::Interrupted) => Ok(Halt::Stopped(Self {
                tid,
                attached: true,
                signal: 0,
                _here: std::marker::PhantomData,
            })),
            Some(Stop::Signal(signal)) => {
                request::detach(tid, signal).or_else(ignore_gone).map(|()| Halt::Busy)
            }
            Some(stop) if stop.is_end() => Ok(Halt::Gone),
            Some(_) => request::detach(tid, 0).or_else(ignore_gone).map(|()| Halt::Busy),
        }
    }

    /// From here on our death kills the thread's process.
    ///
    /// # Errors
    /// When it has been killed.
    pub fn tie_to_us(&mut self, options: c_int) -> Result<(), SysError> {
        request::set_options(self.tid, options | libc::PTRACE_O_EXITKILL)
    }

    /// Its thread id.
    #[must_use]
    pub const fn tid(&self) -> i32 {
        self.tid
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
        request::syscall(self.tid, 0)?;
        let stop = request::wait_stop(self.tid)?;
        self.attached = !stop.is_end();
        if let Stop::Signal(signal) = stop {
            self.signal = signal;
        }
        Ok(stop)
    }

    /// Lets it go, with the signal that came meanwhile.
    ///
    /// # Errors
    /// When the kernel refuses; that it has been killed is none.
    pub fn release(mut self) -> Result<(), SysError> {
        if !std::mem::take(&mut self.attached) {
            return Ok(());
        }
        request::detach(self.tid, self.signal).or_else(ignore_gone)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        if self.attached {
            // A thread that was killed meanwhile needs no letting go: nothing to report.
            let _gone = request::detach(self.tid, self.signal);
        }
    }
}

/// The stop that was owed by a thread ([`Halt::Owed`]), if it has come by now.
///
/// # Errors
/// When the kernel refuses.
pub fn collect(tid: i32) -> Result<Halt, SysError> {
    Stopped::take(tid, request::poll_stop(tid)?)
}

fn await_stop(tid: i32) -> Result<Option<Stop>, SysError> {
    let begin = Instant::now();
    for turn in 0_u32.. {
        let stop = request::poll_stop(tid)?;
        if stop.is_some() || begin.elapsed() > PATIENCE {
            return Ok(stop);
        }
        if turn < SPINS {
            std::thread::yield_now();
        } else {
            std::thread::sleep(PAUSE);
        }
    }
    Ok(None)
}

fn ignore_gone(error: SysError) -> Result<(), SysError> {
    if error.source.raw_os_error() == Some(libc::ESRCH) { Ok(()) } else { Err(error) }
}
