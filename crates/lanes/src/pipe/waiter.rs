//! Waiting for the other end of a pipe: attempts that do not sleep, then one call that does.
//!
//! A wait begins when an attempt returns EAGAIN. While [`SpinPatience`] allows, the attempt is repeated with
//! pauses between (a processor hint, so that the peer on a sibling thread is not slowed down). After that the
//! call itself sleeps in the kernel. If patience does not allow a spin, nothing is attempted: the call
//! sleeps, and counts as a wait if it takes longer than [`NOTICEABLE`]. `poll(2)` is never used on a pipe
//! that can sleep in a call. It would set the pipe's `poll_usage` mark permanently, and every later write
//! would wake the reader. Poll is used only if O_NONBLOCK is set, because we must not clear it.
//!
//! A spin costs an attempt of some 0.2 us and two readings of the clock, a call that may sleep the two
//! readings. The reason for a wait is not seen: the peer may be computing, or not be scheduled.

use super::patience::SpinPatience;
use super::{PipeStop, WaitCounts, WaitMode};
use crate::copy::BUFFER;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::pipe::{PIPE_BUF, SpliceFlags};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Processor hints between two attempts: about as long as an attempt takes.
const PAUSES: u32 = 4;

/// A call that takes longer counts as one that slept: longer than copying some pages, shorter than any sleep.
const NOTICEABLE: Duration = Duration::from_micros(5);

/// How long an end with a [`PipeStop`] spins before it reports EINTR, so that its caller sees the signals that no call
/// has met.
const GLANCE: Duration = Duration::from_millis(10);

/// Whether a call may sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockingMode {
    /// It must return immediately, with EAGAIN if nothing can be done now.
    Now,
    /// It sleeps until something can be done.
    Sleeping,
}

impl BlockingMode {
    /// What says so to `splice(2)` and its like.
    pub(super) fn splice_flags(self) -> SpliceFlags {
        match self {
            Self::Now => SpliceFlags::NONBLOCK,
            Self::Sleeping => SpliceFlags::empty(),
        }
    }
}

/// The descriptor and events to wait for if a call cannot sleep.
pub type Ready<'a> = (BorrowedFd<'a>, PollFlags);

/// How one end waits: the rule of [`super::Writer`] and [`super::Reader`], for calls of your own on a pipe.
#[derive(Debug)]
pub struct PeerWaiter {
    wait: WaitMode,
    patience: SpinPatience,
    counts: WaitCounts,
    stop: Option<PipeStop>,
}

impl PeerWaiter {
    /// Waits by this rule, without having learnt anything of the peer.
    #[must_use]
    pub fn new(wait: WaitMode) -> Self {
        Self { wait, patience: SpinPatience::new(), counts: WaitCounts::default(), stop: None }
    }

    /// Its wait counts.
    #[must_use]
    pub fn counts(&self) -> WaitCounts {
        self.counts
    }

    /// Has `stop` end its waits, and signals too.
    pub(super) fn stopped_by(&mut self, stop: &PipeStop) {
        self.stop = Some(stop.clone());
    }

    /// Whether something other than the descriptor can end its waits.
    pub(super) fn is_stoppable(&self) -> bool {
        self.stop.is_some()
    }

    /// Whether a loop continues after `errno`: after a signal, unless that ends waits.
    pub(super) fn goes_on(&self, errno: Errno) -> bool {
        errno == Errno::INTR && !self.is_stoppable()
    }

    /// Whether calls are ever attempted without sleeping, if that is possible.
    pub(super) fn attempts(&self) -> bool {
        self.wait != WaitMode::Block || self.is_stoppable()
    }

    /// Makes `call` until it returns something other than EAGAIN. With `can_attempt`, `call` supports
    /// [`BlockingMode::Now`]; without, it is always allowed to sleep.
    ///
    /// # Errors
    ///
    /// Those of `call`.
    pub fn run<T>(
        &mut self,
        can_attempt: bool,
        ready: Ready<'_>,
        mut call: impl FnMut(BlockingMode) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        if self.stop.as_ref().is_some_and(PipeStop::is_stopped) {
            return Err(Errno::CANCELED);
        }
        if !can_attempt || !self.attempts() {
            return self.sleep(can_attempt, ready, call);
        }
        let budget = self.budget();
        if budget.is_zero() {
            return self.sleep_through(ready, call);
        }
        match call(BlockingMode::Now) {
            Err(Errno::AGAIN) => self.spin(budget, ready, call),
            answer => answer,
        }
    }

    /// A call while spinning rests.
    fn sleep_through<T>(
        &mut self,
        ready: Ready<'_>,
        call: impl FnMut(BlockingMode) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let start = Instant::now();
        let answer = self.sleep(true, ready, call);
        let took = start.elapsed();
        if took >= NOTICEABLE {
            self.patience.slept(took);
            self.counts.sleeps += 1;
            self.counts.slept += took;
        }
        answer
    }

    /// Attempts again and again while the budget lasts, then sleeps.
    fn spin<T>(
        &mut self,
        budget: Duration,
        ready: Ready<'_>,
        mut call: impl FnMut(BlockingMode) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let start = Instant::now();
        let mut spun = Duration::ZERO;
        while spun < budget {
            (0..PAUSES).for_each(|_| std::hint::spin_loop());
            let answer = call(BlockingMode::Now);
            if !matches!(answer, Err(Errno::AGAIN)) {
                self.patience.spun(spun, Duration::ZERO);
                self.counts.spins += 1;
                self.counts.spun += spun;
                return answer;
            }
            spun = start.elapsed();
            if self.is_stoppable() && spun >= GLANCE {
                return Err(Errno::INTR);
            }
        }
        let answer = self.sleep(true, ready, call);
        let slept = start.elapsed() - spun;
        self.patience.spun(spun, slept);
        self.counts.sleeps += 1;
        self.counts.spun += spun;
        self.counts.slept += slept;
        answer
    }

    /// How many of `len` bytes to pass to a `write(2)` that may sleep, if calls can be attempted.
    /// [`PIPE_BUF`] if a [`PipeStop`] ends waits, and while spinning, so that it returns as soon as there is room
    /// and the rest is attempted. 256 KiB while spinning rests, so that waits are seen. All bytes if nothing
    /// is ever attempted.
    #[must_use]
    pub fn sleeping_write(&self, len: usize) -> usize {
        match self.attempts() {
            true if self.is_stoppable() || self.spins() => len.min(PIPE_BUF),
            true => len.min(BUFFER),
            false => len,
        }
    }

    /// Whether the next call is attempted without sleeping, if that is possible.
    fn spins(&self) -> bool {
        !self.budget().is_zero()
    }

    /// How long the next wait may be spun for.
    fn budget(&self) -> Duration {
        match self.wait {
            WaitMode::Block => Duration::ZERO,
            WaitMode::Busy => Duration::MAX,
            WaitMode::Adaptive => self.patience.budget(),
        }
    }

    /// Lets the call sleep. Uses poll if the descriptor's O_NONBLOCK prevents that, and if a [`PipeStop`] ends
    /// waits. The caller handles EAGAIN with another cause (a timeout of a socket).
    fn sleep<T>(
        &self,
        can_attempt: bool,
        ready: Ready<'_>,
        mut call: impl FnMut(BlockingMode) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let Some(stop) = &self.stop else { return sleep(ready, call) };
        loop {
            if can_attempt {
                match call(BlockingMode::Now) {
                    Err(Errno::AGAIN) => stop.wait(ready)?,
                    answer => return answer,
                }
            } else {
                stop.wait(ready)?;
                match call(BlockingMode::Sleeping) {
                    Err(Errno::AGAIN) if is_nonblocking(ready.0)? => {}
                    answer => return answer,
                }
            }
        }
    }
}

/// Lets the call sleep, by itself or by poll.
fn sleep<T>(
    (fd, events): Ready<'_>,
    mut call: impl FnMut(BlockingMode) -> Result<T, Errno>,
) -> Result<T, Errno> {
    loop {
        match call(BlockingMode::Sleeping) {
            Err(Errno::AGAIN) if is_nonblocking(fd)? => {
                rustix::event::poll(&mut [PollFd::from_borrowed_fd(fd, events)], None)?;
            }
            answer => return answer,
        }
    }
}

fn is_nonblocking(fd: BorrowedFd<'_>) -> Result<bool, Errno> {
    Ok(rustix::fs::fcntl_getfl(fd)?.contains(OFlags::NONBLOCK))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::PipeReader;
    use std::os::fd::AsFd;

    /// A call with prepared answers and the moments at which it was made.
    fn answers(list: &[Result<u32, Errno>]) -> (Vec<Result<u32, Errno>>, Vec<BlockingMode>) {
        (list.iter().rev().copied().collect(), Vec::new())
    }

    fn run(
        wait: WaitMode,
        can_attempt: bool,
        list: &[Result<u32, Errno>],
    ) -> (PeerWaiter, Vec<BlockingMode>) {
        let (pipe, _writer): (PipeReader, _) = std::io::pipe().unwrap();
        let (mut left, mut made) = answers(list);
        let mut waiter = PeerWaiter::new(wait);
        let last = *list.last().unwrap();
        let answer = waiter.run(can_attempt, (pipe.as_fd(), PollFlags::IN), |moment| {
            made.push(moment);
            left.pop().unwrap()
        });
        assert_eq!(answer, last);
        assert!(left.is_empty());
        (waiter, made)
    }

    #[test]
    fn an_answer_at_once_is_no_wait() {
        for answer in [Ok(7), Err(Errno::PIPE), Err(Errno::INTR), Ok(0)] {
            let (waiter, made) = run(WaitMode::Adaptive, true, &[answer]);
            assert_eq!((waiter.counts(), made), (WaitCounts::default(), vec![BlockingMode::Now]));
        }
    }

    #[test]
    fn blocking_never_attempts() {
        assert_eq!(run(WaitMode::Block, true, &[Ok(1)]).1, [BlockingMode::Sleeping]);
        assert_eq!(run(WaitMode::Busy, false, &[Ok(1)]).1, [BlockingMode::Sleeping]);
    }

    #[test]
    fn busy_never_sleeps() {
        let mut list = vec![Err(Errno::AGAIN); 100_000];
        list.push(Ok(1));
        let (waiter, made) = run(WaitMode::Busy, true, &list);
        assert!(made.iter().all(|moment| *moment == BlockingMode::Now));
        assert_eq!((waiter.counts().spins, waiter.counts().sleeps), (1, 0));
    }

    #[test]
    fn an_interrupted_sleep_is_the_callers() {
        let (pipe, _writer) = std::io::pipe().unwrap();
        let mut waiter = PeerWaiter::new(WaitMode::Adaptive);
        let answer = waiter.run(true, (pipe.as_fd(), PollFlags::IN), |moment| match moment {
            BlockingMode::Now => Err::<u32, _>(Errno::AGAIN),
            BlockingMode::Sleeping => Err(Errno::INTR),
        });
        assert_eq!(answer, Err(Errno::INTR));
        assert_eq!((waiter.counts().spins, waiter.counts().sleeps), (0, 1));
    }

    #[test]
    fn a_timeout_of_the_descriptor_is_the_callers() {
        assert_eq!(run(WaitMode::Block, true, &[Err(Errno::AGAIN)]).1, [BlockingMode::Sleeping]);
    }
}
