//! The kernel, except that some of its calls fail.

use crate::copy::calls::{CopyCalls, KernelCalls, TransferCall};
use crate::copy::lending::LendingRegion;
use rustix::event::PollFlags;
use rustix::io::Errno;
use std::cell::Cell;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Which call is made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailingCall {
    Read,
    Write,
    Transfer(TransferCall),
    Pipe,
    Grow,
    Lend,
}

pub(super) const CALLS: [FailingCall; 9] = [
    FailingCall::Read,
    FailingCall::Write,
    FailingCall::Transfer(TransferCall::Splice),
    FailingCall::Transfer(TransferCall::Tee),
    FailingCall::Transfer(TransferCall::Sendfile),
    FailingCall::Transfer(TransferCall::FileRange),
    FailingCall::Pipe,
    FailingCall::Grow,
    FailingCall::Lend,
];

/// Which of a copy's calls fail: the first, the second, and a later one. A copy grows at most three pipes:
/// the source's, the sink's and its own.
pub(super) fn times(call: FailingCall) -> [u32; 3] {
    if call == FailingCall::Grow { [1, 2, 3] } else { [1, 2, 5] }
}

/// What happens instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallFault {
    Errno(Errno),
    /// The same from then on.
    Lasting(Errno),
    /// The same in every `nth` call.
    Every(Errno),
    /// Only this many bytes are asked for, from then on.
    Short(usize),
}

pub(super) const FAULTS: [CallFault; 11] = [
    CallFault::Errno(Errno::NOSYS),
    CallFault::Errno(Errno::PERM),
    CallFault::Errno(Errno::INVAL),
    CallFault::Errno(Errno::OPNOTSUPP),
    CallFault::Errno(Errno::IO),
    CallFault::Errno(Errno::NOSPC),
    CallFault::Errno(Errno::INTR),
    CallFault::Errno(Errno::AGAIN),
    CallFault::Errno(Errno::MFILE),
    CallFault::Short(1_000),
    CallFault::Short(65_537),
];

/// The mode of the copy. Each uses different ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FaultedMode {
    Plain,
    Live,
    Sides,
    /// Leaves nothing in the page cache, without the kernel's help.
    PastCache,
    /// Pages are lent to pipes after [`LEND_AFTER`] bytes.
    Lend,
}

/// Few enough that the most part of `SIZE` is lent.
pub(super) const LEND_AFTER: u64 = 100_000;

/// The kernel, except that the `nth` call of one kind fails.
#[derive(Debug)]
pub(super) struct FaultyCalls {
    pub(super) call: FailingCall,
    pub(super) nth: u32,
    pub(super) fault: CallFault,
    pub(super) mode: FaultedMode,
    pub(super) seen: Cell<u32>,
}

impl FaultyCalls {
    fn size(&self, call: FailingCall, most: usize) -> Result<usize, Errno> {
        if call != self.call {
            return Ok(most);
        }
        self.seen.set(self.seen.get() + 1);
        assert!(self.seen.get() < 10_000, "an endless copy");
        match self.fault {
            CallFault::Errno(errno) if self.seen.get() == self.nth => Err(errno),
            CallFault::Lasting(errno) if self.seen.get() >= self.nth => Err(errno),
            CallFault::Every(errno) if self.seen.get().is_multiple_of(self.nth) => Err(errno),
            CallFault::Short(most_then) if self.seen.get() >= self.nth => Ok(most.min(most_then)),
            _ => Ok(most),
        }
    }
}

impl CopyCalls for FaultyCalls {
    fn read(&self, from: BorrowedFd<'_>, into: &mut [u8]) -> Result<usize, Errno> {
        let most = self.size(FailingCall::Read, into.len())?;
        KernelCalls.read(from, &mut into[..most])
    }

    fn write(&self, to: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
        KernelCalls.write(to, &bytes[..self.size(FailingCall::Write, bytes.len())?])
    }

    fn transfer(
        &self,
        how: TransferCall,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        most: usize,
    ) -> Result<usize, Errno> {
        // A non-blocking splice counts as a splice.
        let call = if how == TransferCall::SpliceNow { TransferCall::Splice } else { how };
        KernelCalls.transfer(how, from, to, self.size(FailingCall::Transfer(call), most)?)
    }

    fn lend(
        &self,
        from: &mut LendingRegion,
        to: BorrowedFd<'_>,
        len: usize,
    ) -> Result<usize, Errno> {
        KernelCalls.lend(from, to, self.size(FailingCall::Lend, len)?)
    }

    fn pipe(&self) -> Result<(OwnedFd, OwnedFd), Errno> {
        self.size(FailingCall::Pipe, 0)?;
        KernelCalls.pipe()
    }

    fn grow(&self, pipe: BorrowedFd<'_>, size: usize) -> Result<usize, Errno> {
        self.size(FailingCall::Grow, 0)?;
        KernelCalls.grow(pipe, size)
    }

    fn wait(&self, fd: BorrowedFd<'_>, ready: PollFlags) -> Result<(), Errno> {
        KernelCalls.wait(fd, ready)
    }

    /// A single EAGAIN comes from a descriptor that is ready by now, whatever its flags are.
    fn can_wait(&self, fd: BorrowedFd<'_>) -> bool {
        self.fault == CallFault::Errno(Errno::AGAIN) || KernelCalls.can_wait(fd)
    }

    /// So that its call is made, and fails, whatever file system the test's directory is on.
    fn has_own_ranges(&self, _file: BorrowedFd<'_>) -> bool {
        true
    }
}
