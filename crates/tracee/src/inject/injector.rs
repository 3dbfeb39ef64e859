//! [`Injector`]: attempts over the threads of a process until the call is made, and what is to be
//! remembered between them.

use super::call::{Call, OPTIONS, make};
use super::restart::{Harm, Sleep, harm_done, is_plain_eintr, resume};
use super::subject::{Subject, has_pending_signal};
use super::{Advised, InjectError, Method, Owner, Refusal, threads};
use crate::ptrace::{Halt, Regs, Stopped, collect};
use pagewise_kernel::error::SysError;
use pagewise_kernel::proc::status;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Rounds over all threads before giving up, and the pause between them.
const ROUNDS: u32 = 20;
const PAUSE: Duration = Duration::from_micros(300);

/// Injects calls into processes of one owner. Always used by the same thread: what it has seized
/// answers to that one alone. To be kept, and [settled](Self::settle), as long as they live: a
/// thread whose stop comes late stands still until then or until our thread ends.
#[derive(Debug)]
pub struct Injector {
    owner: Owner,
    /// Threads that have not stopped yet.
    owed: Vec<i32>,
    /// How often a thread's timeout was started anew.
    late: HashMap<i32, u32>,
}

impl Injector {
    /// For processes of `owner`.
    #[must_use]
    pub fn new(owner: Owner) -> Self {
        Self { owner, owed: Vec::new(), late: HashMap::new() }
    }

    /// Has process `pid` call `madvise(start, len, MADV_HUGEPAGE)`.
    ///
    /// # Errors
    /// See [`InjectError`]; the process goes on unharmed in every case.
    pub fn advise_huge(&mut self, pid: i32, start: u64, len: u64) -> Result<Advised, InjectError> {
        let args = [start, len, libc::MADV_HUGEPAGE as u64];
        let call = Call { name: "madvise", number: libc::SYS_madvise, args };
        let (result, advised) = self.inject(pid, call).map_err(|error| match error {
            // What a process that is about to end answers depends on how far it has come.
            InjectError::Sys(_) | InjectError::Refused(_) if is_ending(pid) => InjectError::Gone,
            other => other,
        })?;
        if result < 0 {
            let source = std::io::Error::from_raw_os_error(i32::try_from(-result).unwrap_or(0));
            return Err(InjectError::Call { call: call.name, pid, source });
        }
        Ok(advised)
    }

    /// Lets go the threads whose stop came late. True while there are more: call it again soon,
    /// because a thread stands still from its stop until then.
    pub fn settle(&mut self) -> bool {
        self.owed.retain(|&tid| match collect(tid) {
            Ok(Halt::Owed) => true,
            Ok(Halt::Stopped(mut thread)) => {
                // One that was killed meanwhile needs no letting go.
                let _gone = thread.regs().and_then(|regs| repair(&mut thread, &regs));
                false
            }
            Ok(Halt::Busy | Halt::Gone) | Err(_) => false,
        });
        !self.owed.is_empty()
    }

    fn inject(&mut self, pid: i32, call: Call) -> Result<(i64, Advised), InjectError> {
        let mut last = InjectError::Refused(Refusal::Busy);
        for round in 0..ROUNDS {
            if round > 0 {
                std::thread::sleep(PAUSE);
            }
            self.settle();
            let subject = Subject::inspect(pid)?;
            let planned = threads::plan(&subject, self.owner, &self.owed, &self.late)?;
            let mut lasting = true;
            for (tid, method) in planned {
                match self.attempt(&subject, tid, (method, call)) {
                    Err(InjectError::Refused(why)) => {
                        lasting &= !why.passes();
                        last = why.into();
                    }
                    Err(InjectError::Gone) if tid != pid => lasting = false,
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
        &mut self,
        subject: &Subject,
        tid: i32,
        what: (Method, Call),
    ) -> Result<(i64, Advised), InjectError> {
        if self.owed.contains(&tid) {
            return Err(Refusal::Busy.into());
        }
        let begin = Instant::now();
        let mut thread = match Stopped::halt(tid, OPTIONS)? {
            Halt::Stopped(thread) => thread,
            Halt::Busy => return Err(Refusal::Busy.into()),
            Halt::Gone => return Err(InjectError::Gone),
            Halt::Owed => {
                self.owed.push(tid);
                return Err(Refusal::Busy.into());
            }
        };
        let regs = thread.regs()?;
        if regs.cs & 0xffff != 0x33 {
            return Err(Refusal::ThirtyTwoBit.into());
        }
        if has_pending_signal(tid)? {
            return Err(Refusal::Busy.into());
        }
        if harm_done(&regs) == Harm::Late {
            *self.late.entry(tid).or_default() += 1;
        }
        let outcome = make(self.owner, subject, &mut thread, &regs, what);
        if matches!(outcome, Err(InjectError::Refused(_))) {
            repair(&mut thread, &regs)?;
        }
        thread.release()?;
        let (result, method) = outcome?;
        Ok((result, Advised { stop_ns: begin.elapsed().into(), method }))
    }
}

/// True for a process that is gone or has given up its memory; one of the kernel's has none either.
fn is_ending(pid: i32) -> bool {
    status::read(pid).map_or_else(|error| error.is_gone(), |status| status.vm_size.is_none())
}

/// Has a thread as it stopped issue the call again that our stop alone has ended.
fn repair(thread: &mut Stopped, regs: &Regs) -> Result<(), SysError> {
    if is_plain_eintr(regs) && !has_pending_signal(thread.tid())? {
        thread.set_regs(&resume(regs, Sleep::Continue))?;
    }
    Ok(())
}
