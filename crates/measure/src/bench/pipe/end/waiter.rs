//! What an end does while the other is not ready: the five ways of a rung, for any call that can be made with
//! and without sleeping.
//!
//! `Adaptive` is the rule of `pagewise_lanes::pipe::PeerWaiter`, which the library's own ends follow. A call
//! counts each time it is made. It is a spin if it returns EAGAIN. The clock is read after each spin, some 30
//! ns, and never while calls move bytes.

use pagewise_kernel::clock;
use pagewise_lanes::pipe::{self, BlockingMode};
use pagewise_model::Nanos;
use pagewise_model::bench::pipe::{PipeEndUsage, RungWait};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;

/// Makes `preadv2` and `pwritev2` use the file's own position. A pipe has no position.
pub(in crate::bench::pipe) const HERE: u64 = u64::MAX;

/// How one end waits, and its counts.
#[derive(Debug)]
pub(in crate::bench::pipe) struct EndWaiter {
    wait: RungWait,
    adaptive: pipe::PeerWaiter,
    calls: u64,
    spins: u64,
    polls: u64,
    vain: VainCalls,
}

/// Time of calls that returned nothing.
#[derive(Debug, Default)]
struct VainCalls {
    /// Those of all waits, and the waits.
    calls: u64,
    waits: u64,
    /// Time of all but the first call of each wait, whose start was not recorded.
    timed: Nanos,
    /// When the last call of this wait returned.
    last: Option<Nanos>,
}

impl VainCalls {
    /// Records a call that returned nothing.
    fn note(&mut self) {
        let now = clock::now();
        match self.last {
            Some(last) => self.timed += Nanos(now.0.saturating_sub(last.0)),
            None => self.waits += 1,
        }
        (self.calls, self.last) = (self.calls + 1, Some(now));
    }

    /// The wait is over.
    fn end(&mut self) {
        self.last = None;
    }

    /// Total time. The first call of each wait is assumed to last as long as the others.
    fn time(&self) -> Nanos {
        match self.calls - self.waits {
            0 => self.timed,
            timed => Nanos::from_f64(self.timed.0 as f64 * self.calls as f64 / timed as f64),
        }
    }
}

impl EndWaiter {
    pub(in crate::bench::pipe) fn new(wait: RungWait) -> Self {
        let adaptive = pipe::PeerWaiter::new(pipe::WaitMode::Adaptive);
        Self { wait, adaptive, calls: 0, spins: 0, polls: 0, vain: VainCalls::default() }
    }

    /// Makes `call` until bytes were moved or it fails. The argument of `call` says whether it must not
    /// sleep. `ready` is what is polled for.
    pub(in crate::bench::pipe) fn run(
        &mut self,
        ready: (BorrowedFd<'_>, PollFlags),
        mut call: impl FnMut(bool) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let (calls, spins, vain) = (&mut self.calls, &mut self.spins, &mut self.vain);
        let mut counted = |nonblocking: bool, vain: &mut VainCalls| {
            *calls += 1;
            let answer = call(nonblocking);
            if answer == Err(Errno::AGAIN) {
                *spins += 1;
                vain.note();
            } else {
                vain.end();
            }
            answer
        };
        loop {
            let answer = match self.wait {
                RungWait::Block => counted(false, vain),
                RungWait::Poll => {
                    wait_ready(ready)?;
                    self.polls += 1;
                    counted(false, vain)
                }
                RungWait::Busy => counted(true, vain),
                RungWait::BusyPoll => {
                    spin_ready(ready, vain)?;
                    counted(true, vain)
                }
                RungWait::Adaptive => self
                    .adaptive
                    .run(true, ready, |moment| counted(moment == BlockingMode::Now, vain)),
            };
            if !matches!(answer, Err(Errno::AGAIN | Errno::INTR)) {
                return answer;
            }
        }
    }

    /// How many of `len` bytes a call is given that may sleep.
    pub(in crate::bench::pipe) fn sleeping_write(&self, len: usize) -> usize {
        match self.wait {
            RungWait::Adaptive => self.adaptive.sleeping_write(len),
            _ => len,
        }
    }

    /// Makes a call that waits by itself.
    pub(in crate::bench::pipe) fn count<T>(&mut self, call: impl FnOnce() -> T) -> T {
        self.calls += 1;
        call()
    }

    /// The counts for the end's account.
    pub(in crate::bench::pipe) fn counts(&self) -> PipeEndUsage {
        let blocks = self.polls + self.adaptive.counts().sleeps;
        let spun_ns = Some(self.vain.time());
        PipeEndUsage {
            calls: self.calls,
            spins: self.spins,
            blocks,
            spun_ns,
            ..PipeEndUsage::default()
        }
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

fn spin_ready(
    (fd, events): (BorrowedFd<'_>, PollFlags),
    vain: &mut VainCalls,
) -> Result<(), Errno> {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    loop {
        match poll(&mut [PollFd::from_borrowed_fd(fd, events)], Some(&at_once)) {
            Ok(0) | Err(Errno::INTR) => vain.note(),
            other => return other.map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::os::fd::AsFd;

    #[test]
    fn spins_are_counted_and_their_time_is_within_the_whole() {
        let (pipe, _writer) = std::io::pipe().unwrap();
        for wait in [RungWait::Busy, RungWait::Adaptive] {
            let (mut waiter, left) = (EndWaiter::new(wait), Cell::new(50));
            let start = clock::now();
            let answer = waiter.run((pipe.as_fd(), PollFlags::IN), |_| {
                let left = left.replace(left.get() - 1);
                if left > 0 { Err(Errno::AGAIN) } else { Ok(7) }
            });
            let whole = clock::now().0 - start.0;
            let PipeEndUsage { calls, spins, spun_ns, .. } = waiter.counts();
            assert_eq!((answer, calls, spins), (Ok(7), 51, 50), "{wait:?}");
            assert!(spun_ns.is_some_and(|spun| spun > Nanos(0)), "{wait:?}");
            assert!(waiter.vain.timed.0 <= whole, "{wait:?}: {:?} of {whole}", waiter.vain);
        }
    }

    #[test]
    fn the_first_of_each_wait_lasts_as_long_as_the_others() {
        let vain = |calls, waits| VainCalls { calls, waits, timed: Nanos(800), last: None };
        assert_eq!(vain(10, 2).time(), Nanos(1_000));
        assert_eq!(VainCalls { timed: Nanos(0), ..vain(3, 3) }.time(), Nanos(0));
    }

    #[test]
    fn who_never_waits_spins_for_no_time() {
        let (pipe, _writer) = std::io::pipe().unwrap();
        let mut waiter = EndWaiter::new(RungWait::Busy);
        assert_eq!(waiter.run((pipe.as_fd(), PollFlags::IN), |_| Ok(1)), Ok(1));
        let counts = waiter.counts();
        assert_eq!((counts.calls, counts.spins, counts.spun_ns), (1, 0, Some(Nanos(0))));
    }
}
