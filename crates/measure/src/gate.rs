//! Where threads that measure together wait for each other.

use crate::error::PriceError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The gate of so many threads. They look again and again, so that they begin together; one that ends
/// early, or was never started, lets nobody wait for it.
#[derive(Debug)]
pub(crate) struct Gate {
    threads: usize,
    arrived: AtomicUsize,
    left: AtomicBool,
}

impl Gate {
    pub(crate) const fn new(threads: usize) -> Self {
        Self { threads, arrived: AtomicUsize::new(0), left: AtomicBool::new(false) }
    }

    /// One of the threads: dropped, it has left.
    pub(crate) const fn enter(&self) -> AtGate<'_> {
        AtGate(self)
    }

    /// Nobody waits any more for a thread that could not be started.
    pub(crate) fn leave(&self) {
        self.left.store(true, Ordering::Release);
    }
}

/// A thread at the gate.
#[derive(Debug)]
pub(crate) struct AtGate<'a>(&'a Gate);

impl AtGate<'_> {
    /// Waits until all threads have arrived for the `nth` time, from 1.
    pub(crate) fn pass(&self, nth: usize) -> Result<(), PriceError> {
        let gate = self.0;
        gate.arrived.fetch_add(1, Ordering::AcqRel);
        while gate.arrived.load(Ordering::Acquire) < gate.threads * nth {
            if gate.left.load(Ordering::Acquire) {
                return Err(PriceError::Unavailable("another thread could not work".to_owned()));
            }
            std::thread::yield_now();
        }
        Ok(())
    }
}

impl Drop for AtGate<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_pass_together_and_nobody_waits_for_one_that_left() {
        let gate = Gate::new(2);
        let both = std::thread::scope(|scope| {
            let pass = || {
                let at = gate.enter();
                at.pass(1)?;
                at.pass(2)
            };
            let other = scope.spawn(pass);
            (pass().is_ok(), other.join().is_ok_and(|passed| passed.is_ok()))
        });
        assert_eq!(both, (true, true));
        let alone = Gate::new(2);
        drop(alone.enter());
        assert!(alone.enter().pass(1).is_err());
    }
}
