//! Loops of fixed work that show when the machine, not the program, has changed its speed.
//!
//! The register canary is a chain of dependent arithmetic without memory: it slows down with the
//! clock, a neighbour on the core, or stolen time. It is run in pieces of which the fastest counts:
//! another program that takes the CPU for a moment is noise for all arms alike and no reason to
//! drop a block, a CPU that has become slower is. Pauses between the pieces let a dip of a few
//! milliseconds pass (clocks and sibling threads of a host change that fast); what lasts longer is
//! seen. The memory canary reads one word of each cache
//! line of a buffer larger than private caches. Times are wall time, a few ms each. Not seen: what
//! happens between two calls.

use crate::sample::time;
use pagewise_model::Nanos;
use std::hint::black_box;
use std::time::Duration;

/// Steps of one piece of the register loop: about 0.8 ms, shorter than a scheduler's slice.
const STEPS: u64 = 500_000;
/// Pieces.
const PIECES: u32 = 5;
/// Pause before each piece.
const PAUSE: Duration = Duration::from_millis(3);
/// Words of the buffer: 32 MiB.
const WORDS: usize = 4 << 20;
/// Words of a cache line.
const LINE_WORDS: usize = 8;

/// Time of the register loop: that of its fastest piece, times the number of pieces.
#[must_use]
pub fn register_canary() -> Nanos {
    let fastest = (0..PIECES).map(|_| run_piece()).fold(f64::INFINITY, f64::min);
    Nanos::from_f64(fastest * f64::from(PIECES))
}

fn run_piece() -> f64 {
    std::thread::sleep(PAUSE);
    let (ns, state) = time(|| {
        let mut state = black_box(1_u64);
        for _ in 0..STEPS {
            // Multiply, then rotate and add: each needs the one before, and no closed form exists.
            state = state.wrapping_mul(0x2545_f491_4f6c_dd1d).rotate_left(17).wrapping_add(1);
        }
        state
    });
    black_box(state);
    ns
}

/// The buffer of the memory canary, resident from the start.
#[derive(Debug)]
pub struct Canary {
    words: Vec<u64>,
}

impl Canary {
    /// Allocates the buffer and touches all of it.
    #[must_use]
    pub fn new() -> Self {
        Self { words: (0..WORDS as u64).collect() }
    }

    /// Time to read one word of each line of the buffer.
    #[must_use]
    pub fn memory_canary(&self) -> Nanos {
        let words = black_box(&self.words);
        let sum = || words.iter().step_by(LINE_WORDS).fold(0_u64, |a, w| a.wrapping_add(*w));
        let (ns, sum) = time(sum);
        black_box(sum);
        Nanos::from_f64(ns)
    }
}

impl Default for Canary {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loops_do_work() {
        // A loop that the compiler has removed takes no time; even 2.5 million single cycles at
        // 10 GHz take a quarter of a millisecond, and half a million lines 50 us.
        assert!(register_canary() > Nanos(250_000));
        assert!(Canary::new().memory_canary() > Nanos(50_000));
    }
}
