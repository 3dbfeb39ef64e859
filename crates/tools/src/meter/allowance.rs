//! The rate limit (`-L`): how many bytes may be moved now.
//!
//! Grants a tenth of a second's worth at a time, at least one byte. Saves up no more than that while the
//! other side waits. So the rate over any second is within a tenth of the requested one.

use std::time::{Duration, Instant};

/// Steps in a second.
const STEPS: u64 = 10;

/// A limit in bytes per second.
#[derive(Debug)]
pub(super) struct RateLimit {
    rate: u64,
    since: Instant,
    /// Bytes moved at `since`.
    base: u64,
}

impl RateLimit {
    /// Starts now; the `moved` bytes so far do not count.
    pub(super) fn new(rate: u64, moved: u64) -> Self {
        Self { rate, since: Instant::now(), base: moved }
    }

    /// Sleeps until bytes may be moved, and returns their number. `moved` counts all bytes so far.
    pub(super) fn wait(&mut self, moved: u64) -> u64 {
        loop {
            let room = self.room(moved, Instant::now());
            if room > 0 {
                return room;
            }
            std::thread::sleep(Duration::from_millis(1000 / STEPS / 4));
        }
    }

    fn room(&mut self, moved: u64, now: Instant) -> u64 {
        let step = (self.rate / STEPS).max(1);
        let earned = (now.duration_since(self.since).as_secs_f64() * self.rate as f64) as u64;
        let room = (self.base + earned).saturating_sub(moved);
        if room > step {
            // Unused allowance is not saved up.
            (self.base, self.since) = (moved, now - Duration::from_millis(1000 / STEPS));
            return step;
        }
        let least = step.min((self.rate / STEPS / 2).max(1));
        if room >= least { room } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_kept_and_pauses_are_not_made_up() {
        for rate in [1, 7, 1000, 1 << 20, 10 << 30] {
            let mut allowance = RateLimit::new(rate, 0);
            let start = allowance.since;
            let mut moved = 0;
            for tick in 0..4000 {
                let now = start + Duration::from_millis(25 * tick);
                // The other side waits from the 20th to the 60th second.
                if !(800..2400).contains(&tick) {
                    moved += allowance.room(moved, now);
                }
            }
            let expected = rate as f64 * 60.0;
            let share = moved as f64 / expected;
            assert!(
                (0.9..1.1).contains(&share) || (moved as f64 - expected).abs() <= 2.0,
                "{rate}: {share}"
            );
        }
    }
}
