//! Whether to look for the next piece a few times before sleeping for it.
//!
//! A pipe wakes its reader with the first piece that finds it empty (pipe_write in fs/pipe.c), and a
//! reader that moves pages and not bytes empties it faster than any writer fills it: it then sleeps
//! and is woken for each piece of a few KiB, and the wake-ups also draw both to one processor. While
//! small pieces come at a high rate the next one is there sooner than a sleep and a wake-up take.
//! Then a call that does not wait (SPLICE_F_NONBLOCK) is made up to [`TRIES`] times, giving the
//! processor away between (`sched_yield(2)`): on two processors nobody sleeps, and the two pages
//! that a pipe keeps for its writer (`tmp_page`) are used again and again instead of being
//! allocated, charged and freed; on one the writer fills the pipe before we get our turn.
//!
//! No byte is later than without. When all tries were in vain, the next looks come only after ever
//! more calls, so that a slow writer costs nothing. Only a splice can be told not to wait; read(2)
//! is not polled. Overhead: one look at the clock for each small piece.

use std::time::{Duration, Instant};

/// Looks before sleeping: together about the time of a sleep and a wake-up.
pub(super) const TRIES: u32 = 16;

/// Bytes in a microsecond below which pieces are slept for.
const RATE: u128 = 1_000;

/// Calls without a look after looks in vain: first and most.
const PATIENCE: (u32, u32) = (1 << 4, 1 << 12);

/// The flow of one source.
#[derive(Debug)]
pub(super) struct Polling {
    /// A piece below this is small; 0 for a source that is no pipe.
    small: usize,
    last: Option<Instant>,
    is_on: bool,
    skips: u32,
    patience: u32,
}

impl Polling {
    /// Of a source whose pipe holds `capacity` bytes, or 0.
    pub(super) fn new(capacity: usize) -> Self {
        Self { small: capacity / 8, last: None, is_on: false, skips: 0, patience: PATIENCE.0 }
    }

    /// Whether to look before sleeping.
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Notes that a look found something.
    pub(super) fn was_worth(&mut self) {
        self.patience = PATIENCE.0;
    }

    /// Notes that all looks were in vain.
    pub(super) fn was_vain(&mut self) {
        self.is_on = false;
        self.skips = self.patience;
        self.patience = (self.patience * 2).min(PATIENCE.1);
    }

    /// Notes a piece of `n` bytes for which nobody looked.
    pub(super) fn note(&mut self, n: usize) {
        if n < self.small {
            let now = Instant::now();
            let gap = self.last.map_or(Duration::MAX, |last| now.duration_since(last));
            self.last = Some(now);
            self.judge(n, gap);
        }
    }

    /// The rule for a small piece that came `gap` after the one before.
    fn judge(&mut self, n: usize, gap: Duration) {
        if self.skips > 0 {
            self.skips -= 1;
        } else {
            self.is_on = n as u128 * 1_000 >= gap.as_nanos().saturating_mul(RATE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOSE: Duration = Duration::from_micros(2);

    #[test]
    fn small_pieces_at_a_high_rate_are_looked_for() {
        let mut polling = Polling::new(1 << 20);
        polling.judge(8_192, Duration::MAX);
        assert!(!polling.is_on());
        polling.judge(8_192, CLOSE);
        assert!(polling.is_on());
    }

    #[test]
    fn a_slow_writer_and_large_pieces_are_not() {
        let mut polling = Polling::new(1 << 20);
        polling.judge(8_192, Duration::from_millis(1));
        polling.judge(100, CLOSE);
        polling.note(1 << 20);
        polling.note(1 << 20);
        assert!(!polling.is_on());
        let mut none = Polling::new(0);
        none.note(1);
        none.note(1);
        assert!(!none.is_on());
    }

    #[test]
    fn looks_in_vain_become_rare() {
        let mut polling = Polling::new(1 << 20);
        let mut looks = 0;
        for _ in 0..100_000 {
            if polling.is_on() {
                looks += 1;
                polling.was_vain();
            }
            polling.judge(8_192, CLOSE);
        }
        assert!((2..60).contains(&looks), "{looks} looks");
        polling.was_worth();
        assert_eq!(polling.patience, PATIENCE.0);
    }
}
