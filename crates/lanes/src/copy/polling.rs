//! Whether to poll for the next piece a few times before sleeping.
//!
//! A pipe wakes its reader with the first piece that finds it empty (pipe_write in fs/pipe.c). A reader that
//! moves pages instead of bytes empties it faster than any writer fills it. It then sleeps and is woken for
//! each piece, and the wake-ups also move both to one processor. While small pieces follow each other
//! closely, the next one arrives before a sleep and a wake-up are over. A writer of large pieces may be so
//! fast that the pipe is full before a sleeper has woken. Then a non-blocking call (SPLICE_F_NONBLOCK) is
//! made up to [`TRIES`] times, yielding the processor (`sched_yield(2)`) and pausing in between. On two
//! processors neither side sleeps, and the two pages that a pipe keeps for its writer (`tmp_page`) are reused
//! instead of being allocated, charged and freed. On one processor the writer fills the pipe before we run
//! again.
//!
//! No byte arrives later than without polling. If all tries fail, and not only now and then between large
//! pieces, the next polling comes only after more and more calls. So a slow writer costs nothing. Only a
//! splice has a non-blocking flag; read(2) is not polled. Overhead: one reading of the clock for each piece
//! that was slept for.

use super::calls::TransferCall;
use rustix::io::Errno;
use std::time::{Duration, Instant};

/// Looks before sleeping, at least and at most. The fewest take together about the time of a sleep
/// and a wake-up on one processor, the most that of a wake-up between two.
const TRIES: (u32, u32) = (16, 64);

/// Processor hints between two looks, some 0.5 us: a look takes the pipe's lock, and system calls without
/// a pause slow down a writer on the same core.
const PAUSES: u32 = 64;

/// Bytes for which one more try is made: about what arrives meanwhile at the lowest rate.
const BYTES_A_TRY: usize = 512;

/// Pieces that arrive at fewer bytes per nanosecond are slept for: small ones, and larger ones, for which
/// constant polling would cost more than their few wake-ups.
const RATES: (u128, u128) = (1, 4);

/// Where pieces stop being small, in bytes.
const SMALL: usize = 64 * 1024;

/// Looks that found a large piece, after which one in vain does not end the looking: a writer that pauses
/// now and then is no slow one.
const OFTEN: u32 = 4;

/// Calls without a look after looks in vain: first and most.
const PATIENCE: (u32, u32) = (1 << 4, 1 << 12);

/// The flow of one source.
#[derive(Debug)]
pub(super) struct SourcePolling {
    /// The source is a pipe. Other sources are not polled.
    is_pipe: bool,
    last: Option<Instant>,
    is_on: bool,
    tries: u32,
    skips: u32,
    patience: u32,
    /// Looks that found a large piece since one was in vain.
    found: u32,
}

impl SourcePolling {
    /// Of a source that is a pipe, or none.
    pub(super) fn new(is_pipe: bool) -> Self {
        let (tries, patience) = (TRIES.0, PATIENCE.0);
        Self { is_pipe, last: None, is_on: false, tries, skips: 0, patience, found: 0 }
    }

    /// Moves some bytes with `call`, which gets the kind of splice: a few non-blocking ones, if that has
    /// proved worthwhile, then a blocking one.
    pub(super) fn splice(
        &mut self,
        mut call: impl FnMut(TransferCall) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        if self.is_on {
            for _ in 0..self.tries {
                match call(TransferCall::SpliceNow) {
                    Err(Errno::AGAIN) => pause(),
                    reported => {
                        self.was_worth(reported.unwrap_or(0));
                        return reported;
                    }
                }
            }
            self.was_vain();
        }
        let n = call(TransferCall::Splice)?;
        if self.is_pipe {
            self.note(n);
        }
        Ok(n)
    }

    /// Notes that a look found a piece of `n` bytes.
    fn was_worth(&mut self, n: usize) {
        self.patience = PATIENCE.0;
        self.tries = tries(n);
        self.found += u32::from(n >= SMALL);
    }

    /// Notes that all looks were in vain.
    fn was_vain(&mut self) {
        if std::mem::take(&mut self.found) >= OFTEN {
            return;
        }
        self.is_on = false;
        self.skips = self.patience;
        self.patience = (self.patience * 2).min(PATIENCE.1);
    }

    /// Records a piece of `n` bytes that was not polled for.
    fn note(&mut self, n: usize) {
        let now = Instant::now();
        let gap = self.last.map_or(Duration::MAX, |last| now.duration_since(last));
        self.last = Some(now);
        self.judge(n, gap);
    }

    /// The rule for a piece that came `gap` after the one before.
    fn judge(&mut self, n: usize, gap: Duration) {
        if self.skips > 0 {
            self.skips -= 1;
            return;
        }
        let rate = if n < SMALL { RATES.0 } else { RATES.1 };
        self.is_on = n as u128 >= gap.as_nanos().saturating_mul(rate);
        self.tries = tries(n);
    }
}

/// Between two looks.
fn pause() {
    std::thread::yield_now();
    (0..PAUSES).for_each(|_| std::hint::spin_loop());
}

/// How often to look for a piece after one of `n` bytes.
fn tries(n: usize) -> u32 {
    u32::try_from(n / BYTES_A_TRY).unwrap_or(TRIES.1).clamp(TRIES.0, TRIES.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOSE: Duration = Duration::from_micros(2);

    /// A flow that is looked for.
    fn on() -> SourcePolling {
        let mut polling = SourcePolling::new(true);
        polling.judge(8_192, CLOSE);
        assert!(polling.is_on);
        polling
    }

    #[test]
    fn close_pieces_at_a_high_rate_are_looked_for() {
        let mut polling = SourcePolling::new(true);
        polling.judge(8_192, Duration::MAX);
        assert!(!polling.is_on);
        for (n, gap) in [(8_192, CLOSE), (128 << 10, 10 * CLOSE), (1 << 20, 100 * CLOSE)] {
            polling.judge(n, gap);
            assert!(polling.is_on, "{n}");
        }
    }

    #[test]
    fn a_slow_writer_is_not() {
        let mut polling = on();
        for (n, gap) in [(8_192, 5 * CLOSE), (100, CLOSE), (128 << 10, 20 * CLOSE)] {
            polling.judge(n, gap);
            assert!(!polling.is_on, "{n}");
        }
    }

    #[test]
    fn what_is_no_pipe_is_never_looked_for() {
        let mut none = SourcePolling::new(false);
        for _ in 0..10 {
            assert_eq!(none.splice(|how| Ok(usize::from(how == TransferCall::Splice))), Ok(1));
        }
        assert!(!none.is_on);
    }

    #[test]
    fn larger_pieces_are_looked_for_longer() {
        let mut looks = Vec::new();
        for n in [1, 8 << 10, 16 << 10, 1 << 20] {
            let mut polling = on();
            polling.was_worth(n);
            let mut made = 0;
            let reported = polling.splice(|how| match how {
                TransferCall::SpliceNow => {
                    made += 1;
                    Err(Errno::AGAIN)
                }
                _ => Ok(n),
            });
            assert_eq!(reported, Ok(n));
            looks.push(made);
        }
        assert_eq!(looks, [16, 16, 32, 64]);
    }

    #[test]
    fn a_look_in_vain_now_and_then_ends_nothing() {
        let mut polling = on();
        for _ in 0..100 {
            (0..OFTEN).for_each(|_| polling.was_worth(SMALL));
            polling.was_vain();
            assert!(polling.is_on);
        }
        polling.was_vain();
        assert!(!polling.is_on);
    }

    #[test]
    fn looks_in_vain_become_rare() {
        let mut polling = SourcePolling::new(true);
        let mut looks = 0;
        for _ in 0..100_000 {
            if polling.is_on {
                looks += 1;
                polling.was_vain();
            }
            polling.judge(8_192, CLOSE);
        }
        assert!((2..60).contains(&looks), "{looks} looks");
        polling.was_worth(8_192);
        assert_eq!(polling.patience, PATIENCE.0);
    }
}
