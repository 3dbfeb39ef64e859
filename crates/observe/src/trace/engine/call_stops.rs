//! Handles a thread's stop at a call: judges the call when it begins, and records the results when it
//! returns.

use super::{StopMode, TraceEngine, TraceError, ignore_gone};
use crate::trace::calls::{self, SyscallKind};
use crate::trace::churn;
use crate::trace::thread::PendingAction;
use pagewise_tracee::ptrace::{Regs, read_memory, request};
use pagewise_tracee::untraced::{self, CloneCall};
use pagewise_tracee::wait;

impl TraceEngine {
    /// An entry or an exit of a call, for a process that stops at each. For others, an exit.
    pub(super) fn at_call(&mut self, tid: i32) -> Result<(), TraceError> {
        let pid = self.threads.get(&tid).map_or(tid, |thread| thread.pid);
        let closely = self.descriptors.closely(pid);
        let at_each = closely || self.mode == StopMode::EveryCall;
        if !at_each || !request::is_call_entry(tid).unwrap_or(false) {
            self.leave(tid);
            return Ok(());
        }
        match self.mode {
            StopMode::EveryCall => self.enter(tid),
            // If the filter knows the call as well, its stop comes next.
            StopMode::Filter => self.enter_by(tid, Self::begin_closely),
        }
    }

    pub(super) fn enter(&mut self, tid: i32) -> Result<(), TraceError> {
        self.enter_by(tid, |engine, tid, regs| {
            engine.begin_closely(tid, regs).or_else(|| engine.begin(tid, regs))
        })
    }

    fn enter_by(
        &mut self,
        tid: i32,
        begin: impl Fn(&mut Self, i32, &Regs) -> Option<PendingAction>,
    ) -> Result<(), TraceError> {
        let regs = request::get_regs(tid);
        if regs.as_ref().is_ok_and(|r| r.cs & 0xffff != 0x33 || calls::is_x32(r.orig_rax)) {
            self.enter_foreign(tid);
            return Ok(());
        }
        if let Ok(regs) = regs {
            self.refuse_use_of_input(tid, &regs)?;
            let pending = match untraced::enter(tid) {
                Ok(CloneCall::Cleared(cleared)) => Some(PendingAction::Untraced(cleared)),
                _ => begin(self, tid, &regs),
            };
            if let Some(thread) = self.threads.get_mut(&tid) {
                thread.pending = pending;
            }
        }
        self.resume(tid, 0);
        Ok(())
    }

    /// Fails if a call that begins would use a standard input that can be read only once. The tree must end
    /// before the call does anything.
    fn refuse_use_of_input(&mut self, tid: i32, regs: &Regs) -> Result<(), TraceError> {
        let Some(thread) = self.threads.get(&tid) else { return Ok(()) };
        let (number, args) = (regs.orig_rax as i64, arguments(regs));
        match self.descriptors.uses_input(tid, thread.pid, number, &args) {
            None => Ok(()),
            Some(call) => {
                // The reader is stopped and killed last, so no other process of the tree sees its end of a
                // pipe close.
                let own = thread.pid;
                let others = self.images.keys().filter(|pid| **pid != own);
                others.for_each(|pid| wait::kill(*pid, libc::SIGKILL));
                let effects = std::mem::take(&mut self.effects).into_found();
                Err(TraceError::UsesInput { call: call.to_owned(), effects })
            }
        }
    }

    /// A call by the table of another architecture: only that there was one is known.
    pub(super) fn enter_foreign(&mut self, tid: i32) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            let intent = self.effects.begin_foreign(thread.pid);
            thread.pending = intent.map(|intent| PendingAction::Effect(Box::new(intent)));
        }
        self.resume(tid, 0);
    }

    /// What is checked only in processes that stop at every call, and messages in any process.
    fn begin_closely(&mut self, tid: i32, regs: &Regs) -> Option<PendingAction> {
        let (number, args) = (regs.orig_rax as i64, arguments(regs));
        if number == libc::SYS_close {
            return Some(PendingAction::Close);
        }
        let intent = self.descriptors.sends(tid, number, &args);
        intent.map(|intent| PendingAction::Effect(Box::new(intent)))
    }

    fn begin(&mut self, tid: i32, regs: &Regs) -> Option<PendingAction> {
        let (number, args) = (regs.orig_rax as i64, arguments(regs));
        let pid = self.threads.get(&tid)?.pid;
        match calls::kind(number)? {
            SyscallKind::Memory if number == libc::SYS_brk => Some(PendingAction::Break),
            SyscallKind::Memory => {
                let image = self.images.get_mut(&pid)?;
                let is_block = churn::block(number, &args).is_some_and(|size| {
                    let by_caller = image.is_called_by_malloc(|| return_addresses(pid, regs));
                    by_caller.unwrap_or_else(|| churn::is_size_of_malloc(size))
                });
                churn::count(&mut image.churn, number, &args, is_block);
                let writes = calls::maps_to_write(number, &args);
                writes.then(|| self.judge(tid, pid, SyscallKind::Memory, &args, number))?
            }
            SyscallKind::ExitGroup => {
                self.read_image(pid);
                None
            }
            SyscallKind::Pipe => {
                self.pipes.note_call(number, args[1]);
                None
            }
            SyscallKind::Exec => {
                let image = self.images.get_mut(&pid)?;
                if !image.is_forked {
                    image.read_before_exec();
                    self.files.note_code(image.code());
                }
                None
            }
            kind => self.judge(tid, pid, kind, &args, number),
        }
    }

    fn judge(
        &self,
        tid: i32,
        pid: i32,
        kind: SyscallKind,
        args: &[u64; 6],
        number: i64,
    ) -> Option<PendingAction> {
        let intent = self.effects.begin(tid, pid, kind, args, number);
        intent.map(|intent| PendingAction::Effect(Box::new(intent)))
    }

    fn leave(&mut self, tid: i32) {
        if let Some(thread) = self.threads.get_mut(&tid)
            && let Some(pending) = thread.pending.take()
            && let Ok(regs) = request::get_regs(tid)
        {
            let (pid, result) = (thread.pid, regs.rax as i64);
            match pending {
                PendingAction::Effect(intent) => {
                    if let Some(protocol) = intent.netlink.filter(|_| result >= 0) {
                        self.descriptors.add_netlink(pid, result as i32, protocol);
                    }
                    self.effects.end(tid, pid, *intent, result);
                }
                PendingAction::Close => self.descriptors.look(pid),
                PendingAction::Break => self.count_break(pid, regs.rax),
                PendingAction::Untraced(cleared) => ignore_gone(cleared.leave(tid)),
            }
        }
        self.resume(tid, 0);
    }

    fn count_break(&mut self, pid: i32, now: u64) {
        if let Some(image) = self.images.get_mut(&pid)
            && let Some(before) = image.program_break.replace(now)
        {
            churn::count_brk(&mut image.churn, before, now);
        }
    }
}

/// Words of the stack that may be the address to which the C library's function around this call returns. That of
/// `mmap` has no frame, or has saved its caller's frame pointer. That of `mremap` takes arguments in its frame.
fn return_addresses(pid: i32, regs: &Regs) -> Vec<u64> {
    const FRAME: usize = 16;
    let words = match regs.orig_rax as i64 {
        libc::SYS_mremap => 0..FRAME,
        _ if regs.rbp == regs.rsp => 1..2,
        _ => 0..1,
    };
    let mut stack = [0; 8 * FRAME];
    let read = read_memory(pid, regs.rsp, &mut stack).unwrap_or(0);
    let word = |bytes: &[u8]| bytes.try_into().ok().map(u64::from_le_bytes);
    let found = stack[..read].chunks_exact(8).filter_map(word);
    found.skip(words.start).take(words.len()).collect()
}

fn arguments(regs: &Regs) -> [u64; 6] {
    [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9]
}
