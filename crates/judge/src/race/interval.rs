//! The interval of an arm's time ratio: the ratios that its evidence does not rule out. It holds at
//! whatever moment the race is stopped.

use super::{ArmRuns, Limit, OUT, Race};

/// Steps outwards are this many standard errors at first, and grow.
const FIRST_STEP: f64 = 2.0;
/// The end of the interval is found by bisection in this many steps.
const HALVINGS: u32 = 12;
/// Beyond this logarithm of the ratio an interval is open.
const WIDEST: f64 = 5.0;

impl Race {
    /// The ends of the 95% interval of the time ratio.
    #[must_use]
    pub fn interval(&self, arm: usize) -> Option<(f64, f64)> {
        let ran = self.ran(arm)?;
        Some((end(ran, -1.0).exp(), end(ran, 1.0).exp()))
    }
}

/// The end on the side of smaller (`side` -1) or larger ratios (1).
fn end(ran: &ArmRuns, side: f64) -> f64 {
    // A ratio on that side is ruled out by runs that lie on the other side of it.
    let is_out = |log_ratio: f64| ran.against(Limit { sign: -side, log_ratio }) >= OUT;
    let from = ran.totals.difference();
    let (mut inside, mut step) = (from, FIRST_STEP * ran.totals.standard_error());
    let mut outside = from + side * step;
    while !is_out(outside) {
        if (outside - from).abs() > WIDEST {
            return from + side * WIDEST;
        }
        inside = outside;
        step *= 1.5;
        outside += side * step;
    }
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(inside, outside);
        if is_out(middle) {
            outside = middle;
        } else {
            inside = middle;
        }
    }
    outside
}
