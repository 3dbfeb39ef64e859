//! Where threads that measure together wait for each other.

use crate::error::PriceError;
use pagewise_kernel::SysError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The gate for a number of threads. They spin on it, so that they begin together. A thread that ends early,
/// or was never started, blocks no other.
#[derive(Debug)]
struct Gate {
    threads: usize,
    arrived: AtomicUsize,
    left: AtomicBool,
}

impl Gate {
    const fn new(threads: usize) -> Self {
        Self { threads, arrived: AtomicUsize::new(0), left: AtomicBool::new(false) }
    }

    /// One of the threads: dropped, it has left.
    const fn enter(&self) -> GatedThread<'_> {
        GatedThread(self)
    }

    /// Releases the threads that wait for a thread that could not be started.
    fn leave(&self) {
        self.left.store(true, Ordering::Release);
    }
}

/// A thread at the gate.
#[derive(Debug)]
pub(crate) struct GatedThread<'a>(&'a Gate);

impl GatedThread<'_> {
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

impl Drop for GatedThread<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// What `work` gives on a thread for each of `parts`, which wait for each other at one gate.
pub(crate) fn together<P: Send, T: Send>(
    parts: Vec<P>,
    work: impl Fn(P, &GatedThread<'_>) -> Result<T, PriceError> + Sync,
) -> Result<Vec<T>, PriceError> {
    let gate = Gate::new(parts.len());
    std::thread::scope(|scope| {
        let (gate, work) = (&gate, &work);
        let start = |part| {
            let one = move || work(part, &gate.enter());
            std::thread::Builder::new().spawn_scoped(scope, one).map_err(|error| {
                gate.leave();
                PriceError::from(SysError::new("clone", "a thread", error))
            })
        };
        let working: Vec<_> = parts.into_iter().map(start).collect();
        working.into_iter().map(|one| one?.join().map_err(|_| PriceError::ThreadLost)?).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_pass_together_and_nobody_waits_for_one_that_left() {
        let both = together(vec![3, 4], |part, at| {
            at.pass(1)?;
            at.pass(2)?;
            Ok(part)
        });
        assert_eq!(both.ok(), Some(vec![3, 4]));
        let alone = Gate::new(2);
        drop(alone.enter());
        assert!(alone.enter().pass(1).is_err());
    }
}
