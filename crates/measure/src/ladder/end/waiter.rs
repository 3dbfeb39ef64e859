//! What an end does while the other is not ready: the five ways of a rung, over any call that can
//! be made with and without sleeping.
//!
//! `Adaptive` is the rule of `pagewise_lanes::pipe::Waiter`, the one that the library's own ends
//! follow. A call counts each time it is made; it is a spin when it answers EAGAIN.

use pagewise_lanes::pipe::{self, Moment};
use pagewise_model::ladder::{EndUsage, Wait};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;

/// Says to `preadv2` and `pwritev2` that the file's own position is meant, of which a pipe has none.
pub(in crate::ladder) const HERE: u64 = u64::MAX;

/// How one end waits, and what came of it.
#[derive(Debug)]
pub(in crate::ladder) struct Waiter {
    wait: Wait,
    adaptive: pipe::Waiter,
    calls: u64,
    spins: u64,
    polls: u64,
}

impl Waiter {
    pub(in crate::ladder) fn new(wait: Wait) -> Self {
        let adaptive = pipe::Waiter::new(pipe::Wait::Adaptive);
        Self { wait, adaptive, calls: 0, spins: 0, polls: 0 }
    }

    /// Makes `call` (told whether it must not sleep) until bytes were moved or it fails. `ready` is
    /// what is polled for.
    pub(in crate::ladder) fn run(
        &mut self,
        ready: (BorrowedFd<'_>, PollFlags),
        mut call: impl FnMut(bool) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let (calls, spins) = (&mut self.calls, &mut self.spins);
        let mut counted = |nonblocking: bool| {
            *calls += 1;
            let answer = call(nonblocking);
            *spins += u64::from(answer == Err(Errno::AGAIN));
            answer
        };
        loop {
            let answer = match self.wait {
                Wait::Block => counted(false),
                Wait::Poll => {
                    wait_ready(ready)?;
                    self.polls += 1;
                    counted(false)
                }
                Wait::Busy => counted(true),
                Wait::BusyPoll => {
                    spin_ready(ready)?;
                    counted(true)
                }
                Wait::Adaptive => {
                    self.adaptive.run(true, ready, |moment| counted(moment == Moment::Now))
                }
            };
            if !matches!(answer, Err(Errno::AGAIN | Errno::INTR)) {
                return answer;
            }
        }
    }

    /// How many of `len` bytes a call is given that may sleep.
    pub(in crate::ladder) fn sleeping_write(&self, len: usize) -> usize {
        match self.wait {
            Wait::Adaptive => self.adaptive.sleeping_write(len),
            _ => len,
        }
    }

    /// Makes a call that waits by itself.
    pub(in crate::ladder) fn count<T>(&mut self, call: impl FnOnce() -> T) -> T {
        self.calls += 1;
        call()
    }

    /// What came of it, for the end's account.
    pub(in crate::ladder) fn counts(&self) -> EndUsage {
        let blocks = self.polls + self.adaptive.counts().sleeps;
        EndUsage { calls: self.calls, spins: self.spins, blocks, ..EndUsage::default() }
    }
}

fn wait_ready((fd, events): (BorrowedFd<'_>, PollFlags)) -> Result<(), Errno> {
    loop {
        match poll(&mut [PollFd::from_borrowed_fd(fd, events)], None) {
            Err(Errno::INTR) => {}
            other => return other.map(drop),
        }
    }
}

fn spin_ready((fd, events): (BorrowedFd<'_>, PollFlags)) -> Result<(), Errno> {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    loop {
        match poll(&mut [PollFd::from_borrowed_fd(fd, events)], Some(&at_once)) {
            Ok(0) | Err(Errno::INTR) => {}
            other => return other.map(drop),
        }
    }
}
