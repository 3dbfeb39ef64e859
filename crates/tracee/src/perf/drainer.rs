//! A thread that empties the sample rings while a program runs, and the symbols that name kernel code.
//!
//! Symbols are read at the start. Without them, kernel samples are useless and are not taken.

use pagewise_kernel::kallsyms::KernelSymbols;
use pagewise_model::Fact;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often the rings are emptied.
pub(super) const DRAIN_EVERY: Duration = Duration::from_millis(100);
/// The interval if rings fill soon, or if generated code must be read from the program while it lives.
pub(super) const DRAIN_SOON: Duration = Duration::from_millis(10);

/// Empties rings and keeps their content.
pub(super) trait RingCollector: Send + 'static {
    /// Interval between two rounds.
    fn pause(&self) -> Duration {
        DRAIN_EVERY
    }
    /// Empties the rings. Nothing is added after the call with `last`.
    fn collect(&mut self, last: bool);
}

/// The draining thread.
#[derive(Debug)]
pub(super) struct RingDrainer<C> {
    symbols: KernelSymbols,
    stop: mpsc::Sender<()>,
    thread: JoinHandle<C>,
}

impl<C: RingCollector> RingDrainer<C> {
    /// Runs `collector` on a new thread from now on, or says why not.
    pub(super) fn start(collector: C) -> Fact<Self> {
        let symbols = match KernelSymbols::read() {
            Ok(symbols) => symbols,
            Err(error) => return Fact::Missing(error.to_string()),
        };
        let (stop, stopped) = mpsc::channel();
        let spawned = thread::Builder::new()
            .name("perf-drain".to_owned())
            .spawn(move || drain_until(collector, &stopped));
        match spawned {
            Ok(thread) => Fact::Known(Self { symbols, stop, thread }),
            Err(error) => Fact::Missing(format!("start a thread for samples: {error}")),
        }
    }

    /// Stops the thread. Passes what was collected, and the kernel's symbols, to `resolve`.
    pub(super) fn finish<T>(self, resolve: impl FnOnce(&C, &KernelSymbols) -> T) -> Fact<T> {
        drop(self.stop);
        match self.thread.join() {
            Ok(collector) => Fact::Known(resolve(&collector, &self.symbols)),
            Err(_) => Fact::missing("the thread that collects samples died"),
        }
    }
}

/// Runs until the other end of `stopped` is dropped, then empties the rings a last time.
fn drain_until<C: RingCollector>(mut collector: C, stopped: &mpsc::Receiver<()>) -> C {
    loop {
        let last = stopped.recv_timeout(collector.pause()) != Err(RecvTimeoutError::Timeout);
        collector.collect(last);
        if last {
            return collector;
        }
    }
}
