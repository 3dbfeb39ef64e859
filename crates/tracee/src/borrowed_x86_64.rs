//! A system call made by a traced thread that stands still, by its registers, which are then put
//! back. Our death meanwhile kills it (`PTRACE_O_EXITKILL`), rather than leave it with foreign ones.

use crate::inject::{Call, call_regs};
use crate::ptrace::{Regs, Stop, read_memory, request};
use crate::{vdso, wait};
use pagewise_kernel::error::SysError;
use pagewise_kernel::proc::maps::Mapping;
use std::cell::Cell;
use std::sync::LazyLock;

/// The instruction.
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// 64-bit code runs in this segment.
const CODE_SEGMENT: u64 = 0x33;
/// Stops of other kinds that are passed on the way to that of a call.
const PATIENCE: u32 = 16;

/// Size of the vDSO and the offset of a `syscall` in it: the same in all 64-bit programs.
static SITE: LazyLock<Option<(u64, u64)>> = LazyLock::new(|| {
    let code = vdso::image()?;
    let offset = memchr::memmem::find(code, &SYSCALL)?;
    Some((code.len() as u64, offset as u64))
});

/// Where a thread of process `pid` with these mappings can make a call.
pub(crate) fn site(pid: i32, maps: &[Mapping]) -> Option<u64> {
    let (size, offset) = (*SITE)?;
    let vdso = vdso::find(maps).filter(|vdso| vdso.size().0 == size)?;
    let mut bytes = [0; 2];
    let read = read_memory(pid, vdso.start + offset, &mut bytes).ok()?;
    (read == 2 && bytes == SYSCALL).then_some(vdso.start + offset)
}

/// A thread that stands still and has its own registers back when this is dropped.
pub(crate) struct Borrowed {
    tid: i32,
    site: u64,
    regs: Regs,
    mask: u64,
    /// The signal before whose delivery it stands; 0 for none.
    waiting: Cell<i32>,
    /// A SIGSTOP came meanwhile, which nothing can block.
    stopped: Cell<bool>,
}

impl Borrowed {
    /// Borrows thread `tid`, which stands still outside of any call or at the exit of one; `None`
    /// where it runs code of 32 bits.
    pub(crate) fn new(tid: i32, site: u64) -> Result<Option<Self>, SysError> {
        let regs = request::get_regs(tid)?;
        if regs.cs & 0xffff != CODE_SEGMENT {
            return Ok(None);
        }
        let mask = request::get_sigmask(tid)?;
        // Whatever is sent to it meanwhile waits.
        request::set_sigmask(tid, u64::MAX)?;
        Ok(Some(Self { tid, site, regs, mask, waiting: Cell::new(0), stopped: Cell::new(false) }))
    }

    /// It stands before the delivery of `signal`, which goes back into its queue: everything is blocked.
    pub(crate) fn stands_before(&self, signal: i32) {
        self.waiting.set(signal);
    }

    /// Has it make `call`; what the kernel answers.
    pub(crate) fn call(&self, call: Call) -> Result<i64, SysError> {
        request::set_regs(self.tid, &call_regs(&self.regs, self.site, self.regs.rsp, call))?;
        self.pass(call.name, self.waiting.take())?;
        self.pass(call.name, 0)?;
        Ok(request::get_regs(self.tid)?.rax as i64)
    }

    /// Runs into a call or out of it.
    fn pass(&self, call: &'static str, mut signal: i32) -> Result<(), SysError> {
        let gone = || SysError::new(call, format!("thread {}", self.tid), rustix::io::Errno::SRCH);
        for _ in 0..PATIENCE {
            request::syscall(self.tid, std::mem::take(&mut signal))?;
            match request::wait_stop(self.tid)? {
                Stop::Syscall => return Ok(()),
                stop if stop.is_end() => return Err(gone()),
                Stop::Signal(libc::SIGSTOP) => self.stopped.set(true),
                _ => {}
            }
        }
        Err(gone())
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        let mut regs = self.regs;
        // What was interrupted is no call any more that could be started anew.
        regs.orig_rax = u64::MAX;
        // One that was killed meanwhile needs neither.
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
        assert_eq!(request::wait_stop(pid).unwrap(), Stop::Interrupted);
        request::set_options(pid, libc::PTRACE_O_TRACESYSGOOD).unwrap();
        let Some(site) = site(pid, &maps::read(pid).unwrap()) else {
            child.kill().unwrap();
            child.wait().unwrap();
            return;
        };
        wait::kill(pid, libc::SIGSTOP);
        {
            let thread = Borrowed::new(pid, site).unwrap().unwrap();
            let args = [0; 4];
            let call = Call { name: "getpid", number: libc::SYS_getpid, args };
            assert_eq!(thread.call(call).unwrap(), i64::from(pid));
        }
        request::detach(pid, 0).unwrap();
        wait_for('T');
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
