//! [`CallInjector`]: tries the threads of a process until the call is made.

use super::call::{InjectedCall, make};
use super::held::{HaltOutcome, ThreadTracer};
use super::interrupted::is_native;
use super::running::RunnableHistory;
use super::standstill::Standstill;
use super::subject::{InjectableProcess, has_pending};
use super::{
    AcceptedAdvice, InjectError, InjectMethod, InjectRefusal, ProcessIdentity, ProcessOwner,
    threads,
};
use pagewise_kernel::error::SysError;
use pagewise_kernel::proc::status;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Rounds over all threads before giving up, and the pause between them.
const ROUNDS: u32 = 20;
const PAUSE: Duration = Duration::from_micros(300);
/// How long the caller waits for an answer. Only the tracer thread waits longer, for example for a process in
/// the middle of an exec.
const PATIENCE: Duration = Duration::from_millis(500);
/// The same for a call with work of ours after it, such as reading from a disk.
const PATIENCE_WITH_WORK: Duration = Duration::from_secs(10);

/// Work of ours around an injected call, done while the running threads of the process stand still.
pub struct HeldWork {
    /// Whether the call may still be made.
    pub may_call: Box<dyn Fn() -> bool + Send>,
    /// What follows the call, if it succeeded.
    pub then: Box<dyn Fn() + Send>,
}

impl fmt::Debug for HeldWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldWork").finish_non_exhaustive()
    }
}

/// Injects calls into processes of one owner. A separate thread makes each injection, and lives until all
/// that it seized is released or has ended. The caller only waits for the answer.
#[derive(Debug)]
pub struct CallInjector {
    owner: ProcessOwner,
    /// Threads that have not answered in time, by the process that they work on.
    late: HashMap<i32, JoinHandle<()>>,
}

impl CallInjector {
    /// For processes of `owner`.
    #[must_use]
    pub fn new(owner: ProcessOwner) -> Self {
        Self { owner, late: HashMap::new() }
    }

    /// Makes `process` call `madvise(start, len, MADV_HUGEPAGE)`.
    ///
    /// # Errors
    /// See [`InjectError`]; the process goes on unharmed in every case.
    pub fn advise_huge(
        &mut self,
        process: ProcessIdentity,
        start: u64,
        len: u64,
    ) -> Result<AcceptedAdvice, InjectError> {
        self.advise(process, [start, len, libc::MADV_HUGEPAGE as u64, 0], None)
    }

    /// Makes `process` forget its pages of `range` (`MADV_DONTNEED`) and does `work`. Text that is not written
    /// to comes back from its file when it is touched. Anything else there would be lost: `work.may_call`
    /// has to rule that out.
    ///
    /// # Errors
    /// See [`InjectError`]; EINVAL for memory that is locked.
    pub fn forget(
        &mut self,
        process: ProcessIdentity,
        range: &Range<u64>,
        work: HeldWork,
    ) -> Result<AcceptedAdvice, InjectError> {
        let len = range.end.saturating_sub(range.start);
        self.advise(process, [range.start, len, libc::MADV_DONTNEED as u64, 0], Some(work))
    }

    fn advise(
        &mut self,
        process: ProcessIdentity,
        args: [u64; 4],
        work: Option<HeldWork>,
    ) -> Result<AcceptedAdvice, InjectError> {
        let call = InjectedCall { name: "madvise", number: libc::SYS_madvise, args };
        let pid = process.pid;
        let (result, advised) = self.inject(process, call, work).map_err(|error| match error {
            // The error from an ending process depends on how far its exit has come.
            InjectError::Sys(_) | InjectError::Refused(_) if is_ending(pid) => InjectError::Gone,
            other => other,
        })?;
        if result < 0 {
            let source = std::io::Error::from_raw_os_error(i32::try_from(-result).unwrap_or(0));
            return Err(InjectError::Call { call: call.name, pid, source });
        }
        Ok(advised)
    }

    fn inject(
        &mut self,
        process: ProcessIdentity,
        call: InjectedCall,
        work: Option<HeldWork>,
    ) -> Answer {
        self.late.retain(|_, thread| !thread.is_finished());
        if self.late.contains_key(&process.pid) {
            return Err(InjectRefusal::Busy.into());
        }
        let (tell, told) = mpsc::sync_channel(1);
        let patience = if work.is_some() { PATIENCE_WITH_WORK } else { PATIENCE };
        let errand = InjectionTask { owner: self.owner, process, call, work, tell };
        let thread = ThreadTracer::start(move |tracer| errand.run(tracer))?;
        match told.recv_timeout(patience) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => {
                self.late.insert(process.pid, thread);
                Err(InjectRefusal::Busy.into())
            }
            Err(RecvTimeoutError::Disconnected) => Err(InjectError::Unseen),
        }
    }
}

type Answer = Result<(i64, AcceptedAdvice), InjectError>;

/// One injection.
struct InjectionTask {
    owner: ProcessOwner,
    process: ProcessIdentity,
    call: InjectedCall,
    work: Option<HeldWork>,
    /// Only the first answer is received.
    tell: SyncSender<Answer>,
}

impl InjectionTask {
    fn run(&self, tracer: &mut ThreadTracer) {
        let answer = self.inject(tracer);
        // If the answer comes late, the receiver may be gone.
        let _unheard = self.tell.try_send(answer);
    }

    fn inject(&self, tracer: &mut ThreadTracer) -> Answer {
        let mut last = InjectError::Refused(InjectRefusal::Busy);
        let mut looks = RunnableHistory::default();
        for round in 0..ROUNDS {
            if round > 0 {
                thread::sleep(PAUSE);
            }
            let subject = InjectableProcess::inspect(self.process)?;
            let planned = threads::plan(&subject, self.owner, &mut looks)?;
            let mut lasting = !planned.is_empty();
            for (tid, method) in planned {
                match self.attempt(tracer, &subject, (tid, method), &mut looks) {
                    Err(InjectError::Refused(why)) => {
                        lasting &= !why.passes();
                        last = why.into();
                    }
                    done => return done,
                }
            }
            if lasting {
                break;
            }
        }
        Err(last)
    }

    fn attempt(
        &self,
        tracer: &mut ThreadTracer,
        subject: &InjectableProcess,
        (tid, method): (i32, InjectMethod),
        looks: &mut RunnableHistory,
    ) -> Answer {
        let begin = Instant::now();
        let halted = tracer.halt(tid).map_err(|error| refused_by_tracer(tid, error))?;
        let mut thread = match halted {
            HaltOutcome::Stopped(thread) => thread,
            HaltOutcome::Busy => return Err(InjectRefusal::Busy.into()),
            HaltOutcome::Gone => return Err(InjectError::Gone),
            HaltOutcome::Owed(thread) => {
                let _unheard = self.tell.try_send(Err(InjectRefusal::Busy.into()));
                drop(thread);
                return Err(InjectError::Gone);
            }
        };
        let regs = thread.regs()?;
        if !is_native(tid, &regs) {
            return Err(InjectRefusal::ThirtyTwoBit.into());
        }
        let now = status::read(tid)?;
        // A held thread keeps its number: from here on it cannot be reused.
        if thread.tid() != tid || now.tgid != Some(subject.process.pid) || !self.process.is_there()
        {
            return Err(InjectError::Gone);
        }
        if has_pending(&now) {
            return Err(InjectRefusal::Busy.into());
        }
        let _others = self.work.as_ref().map(|_| Standstill::around(subject.pid(), tid, looks));
        if self.work.as_ref().is_some_and(|work| !(work.may_call)()) {
            return Err(InjectRefusal::CodeChanged.into());
        }
        let outcome = make(self.owner, subject, &mut thread, &regs, (method, self.call));
        if let (Ok((0, _)), Some(work)) = (&outcome, &self.work) {
            (work.then)();
        }
        thread.release()?;
        let (result, method) = outcome?;
        Ok((result, AcceptedAdvice { stop_ns: begin.elapsed().into(), method }))
    }
}

/// Another tracer was first, possibly one that the program has started.
fn refused_by_tracer(tid: i32, error: SysError) -> InjectError {
    let tracer = || status::read(tid).ok()?.tracer_pid.filter(|&pid| pid != 0);
    match tracer().filter(|_| error.errno() == Some(libc::EPERM)) {
        Some(tracer) => InjectRefusal::Traced(tracer).into(),
        None => error.into(),
    }
}

/// True for a process that has ended or has released its memory, and for a kernel thread.
fn is_ending(pid: i32) -> bool {
    status::read(pid).map_or_else(|error| error.is_gone(), |status| status.vm_size.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waiting;

    #[test]
    fn a_number_that_another_process_has_by_now_is_left_alone() {
        let (mut child, pid) = waiting::cat();
        let now = ProcessIdentity::find(pid).unwrap();
        let before = ProcessIdentity { start_ticks: now.start_ticks - 1, ..now };
        let mut injector = CallInjector::new(ProcessOwner::Ours);
        let refused = injector.advise_huge(before, 0, 1 << 21).unwrap_err();
        assert!(matches!(refused, InjectError::Gone), "{refused}");
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
}
