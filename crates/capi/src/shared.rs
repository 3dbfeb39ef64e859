//! A pipe end that threads share: calls take turns, and one thread can stop the others.
//!
//! No call may wait forever. A signal ends a wait for the turn (`futex(2)` returns EINTR) and a wait for the
//! pipe. [`Shared::stop`] also ends both. The overhead is three atomic operations for each call, and
//! `futex(2)` only under contention.

use crate::error::Failure;
use pagewise_lanes::pipe::PipeStop;
use rustix::io::Errno;
use rustix::thread::futex;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, TryLockError};

/// A pipe end with its turn lock.
#[derive(Debug)]
pub(crate) struct Shared<T> {
    end: Mutex<T>,
    /// Incremented when a turn ends or the end is stopped; waiting threads sleep on it.
    turns: AtomicU32,
    waiting: AtomicU32,
    stop: PipeStop,
}

impl<T> Shared<T> {
    /// Wraps an end that `stop` can stop.
    pub(crate) fn new(end: T, stop: PipeStop) -> Self {
        Self { end: Mutex::new(end), turns: AtomicU32::new(0), waiting: AtomicU32::new(0), stop }
    }

    /// Runs `call` on the end when it is this thread's turn.
    pub(crate) fn with<R>(
        &self,
        call: impl FnOnce(&mut T) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let mut end = self.turn()?;
        let answer = call(&mut end);
        drop(end);
        self.turns.fetch_add(1, SeqCst);
        if self.waiting.load(SeqCst) > 0 {
            self.wake(1);
        }
        answer
    }

    /// Ends the running call and every later one with ECANCELED.
    pub(crate) fn stop(&self) {
        self.stop.stop();
        self.turns.fetch_add(1, SeqCst);
        self.wake(u32::MAX >> 1);
    }

    fn turn(&self) -> Result<MutexGuard<'_, T>, Failure> {
        match self.try_turn()? {
            Some(end) => Ok(end),
            None => {
                self.waiting.fetch_add(1, SeqCst);
                let turn = self.wait();
                self.waiting.fetch_sub(1, SeqCst);
                turn
            }
        }
    }

    fn try_turn(&self) -> Result<Option<MutexGuard<'_, T>>, Failure> {
        if self.stop.is_stopped() {
            return Err(Failure::new(Errno::CANCELED, "another call has stopped this end"));
        }
        match self.end.try_lock() {
            Ok(end) => Ok(Some(end)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Poisoned(_)) => {
                Err(Failure::new(Errno::NOTRECOVERABLE, "an earlier call panicked"))
            }
        }
    }

    fn wait(&self) -> Result<MutexGuard<'_, T>, Failure> {
        loop {
            let seen = self.turns.load(SeqCst);
            if let Some(end) = self.try_turn()? {
                return Ok(end);
            }
            match futex::wait(&self.turns, futex::Flags::PRIVATE, seen, None) {
                Ok(()) | Err(Errno::AGAIN) => {}
                Err(errno) => return Err(Failure::of_call("futex", errno)),
            }
        }
    }

    fn wake(&self, most: u32) {
        // Wake fails only for a bad address.
        let _woken = futex::wake(&self.turns, futex::Flags::PRIVATE, most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn calls_take_turns() {
        let shared = Arc::new(Shared::new(0_u64, PipeStop::new().unwrap()));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || {
                    for _ in 0..20_000 {
                        let raised = shared.with(|number| {
                            *number += 1;
                            Ok(())
                        });
                        assert!(raised.is_ok());
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(shared.with(|number| Ok(*number)).ok(), Some(80_000));
    }

    #[test]
    fn a_stop_ends_the_wait_for_a_turn() {
        let shared = Arc::new(Shared::new((), PipeStop::new().unwrap()));
        let (leave, is_in) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let holder = scope.spawn(|| {
                shared.with(|()| {
                    is_in.store(true, SeqCst);
                    while !leave.load(SeqCst) {
                        std::thread::yield_now();
                    }
                    Ok(())
                })
            });
            while !is_in.load(SeqCst) {
                std::thread::yield_now();
            }
            let waiters: Vec<_> =
                (0..3).map(|_| scope.spawn(|| shared.with(|()| Ok(())))).collect();
            while shared.waiting.load(SeqCst) < 3 {
                std::thread::yield_now();
            }
            shared.stop();
            for waiter in waiters {
                assert!(waiter.join().unwrap().is_err());
            }
            leave.store(true, SeqCst);
            assert!(holder.join().unwrap().is_ok());
        });
        assert!(shared.with(|()| Ok(())).is_err());
    }
}
