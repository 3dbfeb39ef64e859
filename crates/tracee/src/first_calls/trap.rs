//! Preserves each program's own use of SIGTRAP, which breakpoints would change.
//!
//! `int3` forces its signal (kernel/signal.c, `force_sig_info_to_task`). If the thread blocks SIGTRAP or the
//! process ignores it, the kernel unblocks it and resets its action to the default. It does so before it asks
//! a tracer, so at a breakpoint stop both are lost already. Therefore the mask is read from the kernel
//! wherever it may have changed: at the start of a thread, at the exits of rt_sigprocmask(2) and
//! rt_sigreturn(2), and at the start of each handler. The action is recorded when it is set. After each
//! tracer breakpoint both are restored: the mask by ptrace(2), the action by a call of the thread itself. A
//! blocked, pending SIGTRAP hides that of the breakpoint: it is delivered instead, and goes back into its
//! queue.
//!
//! Cost: two stops for each rt_sigprocmask(2) and rt_sigreturn(2), one for each handler.

use crate::borrowed_x86_64::{self, BorrowedThread};
use crate::follow::NewThread;
use crate::inject::InjectedCall;
use crate::ptrace::{Regs, read_memory, request, write_memory};
use pagewise_kernel::error::SysError;
use pagewise_kernel::proc::{maps, status};
use std::collections::{HashMap, HashSet};

/// Bit of SIGTRAP in a signal set.
const TRAP: u64 = 1 << (libc::SIGTRAP - 1);
/// Size of the kernel's `struct sigaction`: handler, flags, restorer, mask.
const ACTION_BYTES: usize = 32;
/// Bytes to stay below the stack pointer, clear of the data of leaf functions.
const BELOW_STACK: u64 = 256;

pub(super) type Action = [u8; ACTION_BYTES];

const DEFAULT: Action = [0; ACTION_BYTES];

/// The action that ignores the signal.
const fn ignore() -> Action {
    let mut action = DEFAULT;
    action[0] = 1;
    action
}

#[derive(Debug, Default)]
pub(super) struct SigtrapState {
    /// Actions other than the default, by process id.
    actions: HashMap<i32, Action>,
    /// Threads that block SIGTRAP.
    blocked: HashSet<i32>,
    /// Threads that are to stop at the start of a handler.
    entering: HashSet<i32>,
}

impl SigtrapState {
    /// Ignored signals and the signal mask survive an exec.
    pub(super) fn executed(&mut self, pid: i32) {
        self.actions.remove(&pid);
        self.look(pid);
        if status::read(pid).is_ok_and(|status| status.ignored & TRAP != 0) {
            self.actions.insert(pid, ignore());
        }
    }

    pub(super) fn begin(&mut self, new: &NewThread) {
        self.look(new.tid);
        let action = new.birth.and_then(|birth| self.actions.get(&birth.maker).copied());
        // A process made with default actions for all signals (CLONE_CLEAR_SIGHAND) has none.
        let keeps = || status::read(new.tid).is_ok_and(|s| (s.caught | s.ignored) & TRAP != 0);
        if let Some(action) = action.filter(|_| keeps()) {
            self.actions.insert(new.pid, action);
        }
    }

    pub(super) fn ended(&mut self, tid: i32) {
        self.actions.remove(&tid);
        self.blocked.remove(&tid);
        self.entering.remove(&tid);
    }

    /// Reads the mask of stopped thread `tid`, at a point where no breakpoint has changed it.
    pub(super) fn look(&mut self, tid: i32) {
        match request::get_sigmask(tid) {
            Ok(mask) if mask & TRAP != 0 => self.blocked.insert(tid),
            Ok(_) | Err(_) => self.blocked.remove(&tid),
        };
    }

    pub(super) fn is_blocked(&self, tid: i32) -> bool {
        self.blocked.contains(&tid)
    }

    /// The action that rt_sigaction(2) is about to set for SIGTRAP; `None` if it sets none.
    pub(super) fn asked(pid: i32, regs: &Regs) -> Option<Action> {
        let mut action = DEFAULT;
        let read = (regs.rsi != 0).then(|| read_memory(pid, regs.rsi, &mut action).ok())?;
        (read == Some(ACTION_BYTES)).then_some(action)
    }

    /// Records that the action has been set.
    pub(super) fn acted(&mut self, pid: i32, action: Action) {
        match action.first_chunk::<8>() {
            Some(handler) if u64::from_ne_bytes(*handler) != 0 => self.actions.insert(pid, action),
            _ => self.actions.remove(&pid),
        };
    }

    /// Whether thread `tid` has a handler for `signal`, which is about to be delivered. If so, the thread is
    /// to stop where the handler begins.
    pub(super) fn enters(&mut self, tid: i32, signal: i32) -> bool {
        let has_handler = status::read(tid).is_ok_and(|s| s.caught & 1 << (signal - 1) != 0);
        if has_handler {
            self.entering.insert(tid);
        }
        has_handler
    }

    /// Whether a SIGTRAP with this code means that thread `tid` is at the start of a handler. If so, records
    /// its mask there.
    pub(super) fn entered(&mut self, tid: i32, code: i32) -> bool {
        let is_there = self.entering.remove(&tid) && code == libc::SIGTRAP;
        if is_there {
            self.look(tid);
        }
        is_there
    }

    /// A signal from another source is about to be delivered to process `pid`.
    pub(super) fn delivered(&mut self, pid: i32) {
        const ONCE: u64 = libc::SA_RESETHAND as u32 as u64;
        let flags = self.actions.get(&pid).and_then(|action| action[8..].first_chunk::<8>());
        if flags.is_some_and(|flags| u64::from_ne_bytes(*flags) & ONCE != 0) {
            self.actions.remove(&pid);
        }
    }

    /// Restores what the kernel changed at a breakpoint for thread `tid` of process `pid`, which is stopped
    /// with these registers. `pending` is the signal that was delivered in place of the breakpoint's, or 0.
    /// Returns the signal that the thread resumes with.
    pub(super) fn put_back(
        &self,
        tid: i32,
        pid: i32,
        regs: &Regs,
        pending: i32,
    ) -> Result<i32, SysError> {
        if self.is_blocked(tid) {
            request::set_sigmask(tid, request::get_sigmask(tid)? | TRAP)?;
        }
        let Some(action) = self.actions.get(&pid) else { return Ok(pending) };
        let now = status::read(tid)?;
        if (now.caught | now.ignored) & TRAP != 0 {
            return Ok(pending);
        }
        let at = regs.rsp.wrapping_sub(BELOW_STACK) & !15;
        let mut before = DEFAULT;
        if read_memory(pid, at, &mut before)? != before.len() {
            return Ok(pending);
        }
        let site = borrowed_x86_64::site(pid, &maps::read(pid)?);
        let borrowed = site.map(|site| BorrowedThread::new(tid, site)).transpose()?.flatten();
        let Some(thread) = borrowed else { return Ok(pending) };
        write_memory(pid, at, action)?;
        let set_bytes = size_of::<u64>() as u64;
        let args = [libc::SIGTRAP as u64, at, 0, set_bytes];
        let call = InjectedCall { name: "rt_sigaction", number: libc::SYS_rt_sigaction, args };
        thread.stands_before(pending);
        let done = thread.call(call);
        write_memory(pid, at, &before)?;
        done.map(|_| 0)
    }
}
