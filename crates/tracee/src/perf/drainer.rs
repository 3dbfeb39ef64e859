//! A thread that empties the rings of samples while a program runs, and what names kernel code.
//!
//! Symbols are read at the start: without them samples of the kernel say nothing, and are not taken.

use pagewise_kernel::kallsyms::KernelSymbols;
use pagewise_model::Fact;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often the rings are emptied.
pub(super) const DRAIN_EVERY: Duration = Duration::from_millis(100);
/// The same where they fill soon, and what made code does is read from the program while it lives.
pub(super) const DRAIN_SOON: Duration = Duration::from_millis(10);

/// What empties rings and keeps what was in them.
pub(super) trait Collect: Send + 'static {
    /// How often it is to do so.
    fn pause(&self) -> Duration {
        DRAIN_EVERY
    }
    /// Empties them; nothing is added after the `last` time.
    fn collect(&mut self, last: bool);
}

/// The thread.
#[derive(Debug)]
pub(super) struct Drainer<C> {
    symbols: KernelSymbols,
    stop: mpsc::Sender<()>,
    thread: JoinHandle<C>,
}

impl<C: Collect> Drainer<C> {
    /// Has `collector` collect from now on, or says why not.
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

    /// Stops, and gives what was collected with the kernel's symbols to `resolve`.
    pub(super) fn finish<T>(self, resolve: impl FnOnce(&C, &KernelSymbols) -> T) -> Fact<T> {
        drop(self.stop);
        match self.thread.join() {
            Ok(collector) => Fact::Known(resolve(&collector, &self.symbols)),
            Err(_) => Fact::missing("the thread that collects samples died"),
        }
    }
}

/// Runs until the other end of `stopped` is dropped, then empties the rings a last time.
fn drain_until<C: Collect>(mut collector: C, stopped: &mpsc::Receiver<()>) -> C {
    loop {
        let last = stopped.recv_timeout(collector.pause()) != Err(RecvTimeoutError::Timeout);
        collector.collect(last);
        if last {
            return collector;
        }
    }
}
