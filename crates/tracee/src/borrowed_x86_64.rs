//! Makes a stopped traced thread execute a system call by setting its registers, then restores them. If this
//! process dies in between, the thread's process is killed (`PTRACE_O_EXITKILL`), so it never runs on with
//! foreign registers.

use crate::inject::{InjectedCall, call_regs};
use crate::ptrace::{PtraceStop, Regs, read_memory, request};
use crate::{vdso, wait};
use pagewise_kernel::error::SysError;
use pagewise_kernel::proc::maps::Mapping;
use std::cell::Cell;
use std::sync::LazyLock;

/// Encoding of the `syscall` instruction.
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// Code segment selector of 64-bit user code.
const CODE_SEGMENT: u64 = 0x33;
/// Unrelated stops that are skipped while waiting for the stop at the call.
const PATIENCE: u32 = 16;

/// Size of the vDSO and the offset of a `syscall` in it: the same in all 64-bit programs.
static SITE: LazyLock<Option<(u64, u64)>> = LazyLock::new(|| {
    let code = vdso::image()?;
    let offset = memchr::memmem::find(code, &SYSCALL)?;
    Some((code.len() as u64, offset as u64))
});

/// Address in process `pid`, which has these mappings, where a thread can make a call.
pub(crate) fn site(pid: i32, maps: &[Mapping]) -> Option<u64> {
    let (size, offset) = (*SITE)?;
    let vdso = vdso::find(maps).filter(|vdso| vdso.size().0 == size)?;
    let mut bytes = [0; 2];
    let read = read_memory(pid, vdso.start + offset, &mut bytes).ok()?;
    (read == 2 && bytes == SYSCALL).then_some(vdso.start + offset)
}

/// A stopped thread. Dropping this restores its registers and signal mask.
pub(crate) struct BorrowedThread {
    tid: i32,
    site: u64,
    regs: Regs,
    mask: u64,
    /// The signal that is about to be delivered; 0 for none.
    waiting: Cell<i32>,
    /// A SIGSTOP arrived meanwhile. It cannot be blocked.
    stopped: Cell<bool>,
}

impl BorrowedThread {
    /// Borrows thread `tid`, which must be stopped outside any call or at the exit of one. `None` for a
    /// thread that runs 32-bit code.
    pub(crate) fn new(tid: i32, site: u64) -> Result<Option<Self>, SysError> {
        let regs = request::get_regs(tid)?;
        if regs.cs & 0xffff != CODE_SEGMENT {
            return Ok(None);
        }
        let mask = request::get_sigmask(tid)?;
        // Signals sent to the thread meanwhile stay pending.
        request::set_sigmask(tid, u64::MAX)?;
        Ok(Some(Self { tid, site, regs, mask, waiting: Cell::new(0), stopped: Cell::new(false) }))
    }

    /// The thread is stopped before the delivery of `signal`. The signal returns to its queue, because all
    /// signals are blocked.
    pub(crate) fn stands_before(&self, signal: i32) {
        self.waiting.set(signal);
    }

    /// Makes the thread execute `call`. Returns the raw result.
    pub(crate) fn call(&self, call: InjectedCall) -> Result<i64, SysError> {
        request::set_regs(self.tid, &call_regs(&self.regs, self.site, self.regs.rsp, call))?;
        self.pass(call.name, self.waiting.take())?;
        self.pass(call.name, 0)?;
        Ok(request::get_regs(self.tid)?.rax as i64)
    }

    /// Runs the thread to the entry or the exit of a call.
    fn pass(&self, call: &'static str, mut signal: i32) -> Result<(), SysError> {
        let gone = || SysError::new(call, format!("thread {}", self.tid), rustix::io::Errno::SRCH);
        for _ in 0..PATIENCE {
            request::syscall(self.tid, std::mem::take(&mut signal))?;
            match request::wait_stop(self.tid)? {
                PtraceStop::Syscall => return Ok(()),
                stop if stop.is_end() => return Err(gone()),
                PtraceStop::Signal(libc::SIGSTOP) => self.stopped.set(true),
                _ => {}
            }
        }
        Err(gone())
    }
}

impl Drop for BorrowedThread {
    fn drop(&mut self) {
        let mut regs = self.regs;
        // Keeps the kernel from restarting a call that was interrupted.
        regs.orig_rax = u64::MAX;
        // If the thread was killed meanwhile, both requests fail, which is fine.
        let _gone = request::set_regs(self.tid, &regs);
        let _gone = request::set_sigmask(self.tid, self.mask);
        if self.stopped.get() {
            wait::kill(self.tid, libc::SIGSTOP);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_kernel::proc::{maps, stat};

    #[test]
    fn a_stop_signal_that_comes_meanwhile_is_not_lost() {
        let test = "a_stop_signal_that_comes_meanwhile_is_not_lost";
        let Some((mut child, pid)) = crate::waiting::seized_cat(test) else { return };
        let start = std::time::Instant::now();
        let wait_for = |state| {
            while stat::read(pid).unwrap().state != state {
                assert!(start.elapsed() < std::time::Duration::from_secs(20), "it never came");
                std::thread::yield_now();
            }
        };
        wait_for('S');
        request::interrupt(pid).unwrap();
        assert_eq!(request::wait_stop(pid).unwrap(), PtraceStop::Interrupted);
        request::set_options(pid, libc::PTRACE_O_TRACESYSGOOD).unwrap();
        let Some(site) = site(pid, &maps::read(pid).unwrap()) else {
            child.kill().unwrap();
            child.wait().unwrap();
            return;
        };
        wait::kill(pid, libc::SIGSTOP);
        {
            let thread = BorrowedThread::new(pid, site).unwrap().unwrap();
            let args = [0; 4];
            let call = InjectedCall { name: "getpid", number: libc::SYS_getpid, args };
            assert_eq!(thread.call(call).unwrap(), i64::from(pid));
        }
        request::detach(pid, 0).unwrap();
        wait_for('T');
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
