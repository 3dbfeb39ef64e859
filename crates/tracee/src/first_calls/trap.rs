//! What programs have made of SIGTRAP, which breakpoints would change.
//!
//! `int3` forces its signal (kernel/signal.c, `force_sig_info_to_task`): where the thread blocks it, or the
//! process ignores it, the kernel unblocks it and sets its action back to the default, before a tracer is
//! asked. So what a program sets is noted when it sets it, and put back after each breakpoint of ours: the
//! mask by ptrace(2), the action by a call of the thread itself.
//!
//! Not seen: the mask that a handler runs with (`sa_mask`). SIGTRAP is unblocked there from the first
//! breakpoint until the handler returns. Cost: a stop for each rt_sigprocmask(2).

use crate::borrowed_x86_64::{self, Borrowed};
use crate::follow::Newborn;
use crate::inject::Call;
use crate::ptrace::{Regs, read_memory, read_u64, request, write_memory};
use pagewise_kernel::error::SysError;
use pagewise_kernel::proc::{maps, status};
use std::collections::{HashMap, HashSet};

/// SIGTRAP in a set of signals.
const TRAP: u64 = 1 << (libc::SIGTRAP - 1);
/// `struct sigaction` as the kernel has it: handler, flags, restorer, mask.
const ACTION_BYTES: usize = 32;
/// Below the stack pointer, out of the way of what leaf functions keep there.
const BELOW_STACK: u64 = 256;

type Action = [u8; ACTION_BYTES];

const DEFAULT: Action = [0; ACTION_BYTES];

/// Ignore it.
const fn ignore() -> Action {
    let mut action = DEFAULT;
    action[0] = 1;
    action
}

#[derive(Debug, Default)]
pub(super) struct Traps {
    /// Actions other than the default, by process.
    actions: HashMap<i32, Action>,
    /// Threads that block it.
    blocked: HashSet<i32>,
}

impl Traps {
    /// Ignored signals and the mask of a process stay over an exec.
    pub(super) fn executed(&mut self, pid: i32) {
        self.actions.remove(&pid);
        self.blocked.remove(&pid);
        let Ok(status) = status::read(pid) else { return };
        if status.ignored & TRAP != 0 {
            self.actions.insert(pid, ignore());
        }
        if status.blocked & TRAP != 0 {
            self.blocked.insert(pid);
        }
    }

    pub(super) fn begin(&mut self, new: &Newborn) {
        let Some(birth) = new.birth else { return };
        if self.blocked.contains(&birth.thread) {
            self.blocked.insert(new.tid);
        }
        if let Some(action) = self.actions.get(&birth.maker).copied() {
            self.actions.insert(new.pid, action);
        }
    }

    pub(super) fn ended(&mut self, tid: i32) {
        self.actions.remove(&tid);
        self.blocked.remove(&tid);
    }

    /// rt_sigaction(2) of SIGTRAP is about to be made.
    pub(super) fn sets_action(&mut self, pid: i32, regs: &Regs) {
        let mut action = DEFAULT;
        if regs.rsi == 0 || read_memory(pid, regs.rsi, &mut action).ok() != Some(ACTION_BYTES) {
            return;
        }
        match action.first_chunk::<8>() {
            Some(handler) if u64::from_ne_bytes(*handler) != 0 => self.actions.insert(pid, action),
            _ => self.actions.remove(&pid),
        };
    }

    /// rt_sigprocmask(2) is about to be made with a set.
    pub(super) fn sets_mask(&mut self, tid: i32, regs: &Regs) {
        let Ok(set) = read_u64(tid, regs.rsi) else { return };
        let blocks = match regs.rdi as i32 {
            libc::SIG_BLOCK if set & TRAP != 0 => true,
            libc::SIG_UNBLOCK if set & TRAP != 0 => false,
            libc::SIG_SETMASK => set & TRAP != 0,
            _ => return,
        };
        match blocks {
            true => self.blocked.insert(tid),
            false => self.blocked.remove(&tid),
        };
    }

    /// A signal of somebody else's is about to be delivered to process `pid`.
    pub(super) fn delivered(&mut self, pid: i32) {
        const ONCE: u64 = libc::SA_RESETHAND as u32 as u64;
        let flags = self.actions.get(&pid).and_then(|action| action[8..].first_chunk::<8>());
        if flags.is_some_and(|flags| u64::from_ne_bytes(*flags) & ONCE != 0) {
            self.actions.remove(&pid);
        }
    }

    /// Puts back for thread `tid` of process `pid`, which has met a breakpoint and stands at these
    /// registers, what the kernel has changed by that.
    pub(super) fn put_back(&self, tid: i32, pid: i32, regs: &Regs) -> Result<(), SysError> {
        if self.blocked.contains(&tid) {
            request::set_sigmask(tid, request::get_sigmask(tid)? | TRAP)?;
        }
        let Some(action) = self.actions.get(&pid) else { return Ok(()) };
        let now = status::read(tid)?;
        if (now.caught | now.ignored) & TRAP != 0 {
            return Ok(());
        }
        let at = regs.rsp.wrapping_sub(BELOW_STACK) & !15;
        let mut before = DEFAULT;
        read_memory(pid, at, &mut before)?;
        let site = borrowed_x86_64::site(pid, &maps::read(pid)?);
        let borrowed = site.map(|site| Borrowed::new(tid, site)).transpose()?.flatten();
        let Some(thread) = borrowed else { return Ok(()) };
        write_memory(pid, at, action)?;
        let set_bytes = size_of::<u64>() as u64;
        let args = [libc::SIGTRAP as u64, at, 0, set_bytes];
        let done = thread.call(Call { name: "rt_sigaction", number: libc::SYS_rt_sigaction, args });
        write_memory(pid, at, &before)?;
        done.map(drop)
    }
}
