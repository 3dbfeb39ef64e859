//! How much a run's time depends on the speed of core and memory meanwhile.
//!
//! Times are corrected: less each slope times the logarithm of what was sampled. The slopes use only earlier
//! blocks, and only deviations of the runs of one arm in one block from their mean. So no effect of an arm
//! enters them. If an arm has no effect, its corrected runs remain exchangeable with the control's, which is
//! all that evidence needs.
//!
//! Slopes are shrunk towards the usual slopes, more strongly with fewer runs. Three models compete: no
//! correction, the core's speed alone, and both. The model that would have left the least noise in earlier
//! blocks is used.

use super::{NoisePrior, shrunk};

/// Logarithms of the time of a round of arithmetic and of a load, or slopes by them.
pub(crate) type Speeds = [f64; 2];

/// Means and deviations of slopes among programs. Loads sometimes jump between two speeds independently of
/// the program, so memory must first show that it matters.
const USUAL: Speeds = [0.5, 0.0];
const DEVIATION: Speeds = [0.3, 0.2];
const NONE: Speeds = [0.0; 2];

/// Sums over deviations from the mean of an arm in a block: `x` of the logarithms of what was sampled, `y` of
/// that of the run's time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct SpeedSlopes {
    xx: [Speeds; 2],
    xy: Speeds,
    yy: f64,
    freedom: f64,
    /// Squared residuals of the time after the slopes: with both, and with the core's alone.
    left: [f64; 2],
}

impl SpeedSlopes {
    /// The slopes, each from 0 to 1.
    #[must_use]
    pub(crate) fn value(&self) -> Speeds {
        let [both, core] = self.left;
        if both <= core && both <= self.yy {
            self.both()
        } else if core <= self.yy {
            self.core()
        } else {
            NONE
        }
    }

    /// How strongly each slope is drawn towards the usual one.
    fn pull(&self) -> Speeds {
        let noise = shrunk(self.yy, self.freedom, NoisePrior::IN_TURN);
        DEVIATION.map(|deviation| noise / (deviation * deviation))
    }

    fn core(&self) -> Speeds {
        let pull = self.pull()[0];
        let slope = (self.xy[0] + pull * USUAL[0]) / (self.xx[0][0] + pull);
        [slope.clamp(0.0, 1.0), 0.0]
    }

    fn both(&self) -> Speeds {
        let pull = self.pull();
        let [a, b] = [self.xx[0][0] + pull[0], self.xx[1][1] + pull[1]];
        let [x, y] = [self.xy[0] + pull[0] * USUAL[0], self.xy[1] + pull[1] * USUAL[1]];
        let cross = self.xx[0][1];
        // The pull keeps this above 0.
        let determinant = a * b - cross * cross;
        [(b * x - cross * y) / determinant, (a * y - cross * x) / determinant]
            .map(|slope| slope.clamp(0.0, 1.0))
    }

    /// Learns from runs of one arm in one block: logarithms of what was sampled and of the run's time.
    pub(crate) fn learn(&mut self, runs: &[(Speeds, f64)]) {
        if runs.len() < 2 {
            return;
        }
        let models = [self.both(), self.core()];
        let count = runs.len() as f64;
        let mean = |of: &dyn Fn(&(Speeds, f64)) -> f64| runs.iter().map(of).sum::<f64>() / count;
        let (core, load, time) = (mean(&|run| run.0[0]), mean(&|run| run.0[1]), mean(&|run| run.1));
        for (speeds, log) in runs {
            let (x, y) = ([speeds[0] - core, speeds[1] - load], log - time);
            for (row, own) in self.xx.iter_mut().zip(x) {
                row.iter_mut().zip(x).for_each(|(sum, other)| *sum += own * other);
            }
            self.xy.iter_mut().zip(x).for_each(|(sum, own)| *sum += own * y);
            self.yy += y * y;
            for (left, slopes) in self.left.iter_mut().zip(models) {
                *left += (y - slopes[0] * x[0] - slopes[1] * x[1]).powi(2);
            }
        }
        self.freedom += count - 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Rng;

    /// What is learnt from this many pairs of runs, given the shares of core and memory in the noise.
    fn learnt(parts: Speeds, pairs: u32) -> Speeds {
        let mut rng = Rng::new(5);
        let mut slopes = SpeedSlopes::default();
        for _ in 0..pairs {
            let mut run = || {
                let core = 0.06 * rng.normal();
                let x = [core, 0.5 * core + 0.06 * rng.normal()];
                (x, parts[0] * x[0] + parts[1] * x[1] + 0.01 * rng.normal())
            };
            let runs = [run(), run()];
            slopes.learn(&runs);
        }
        slopes.value()
    }

    #[test]
    fn what_goes_with_core_and_memory_is_found_and_nothing_else() {
        let is_near = |found: Speeds, parts: Speeds, by: f64| {
            let near = found.iter().zip(parts).all(|(found, part)| (found - part).abs() < by);
            assert!(near, "{found:?} for {parts:?}");
        };
        is_near(learnt(NONE, 0), USUAL, 1e-9);
        for parts in [[0.7, 0.4], [0.0, 0.4], [0.8, 0.0], NONE] {
            is_near(learnt(parts, 100), parts, 0.06);
        }
        assert_eq!(learnt([-0.3, -0.3], 100), NONE);
    }

    #[test]
    fn one_run_says_nothing_of_noise() {
        let mut slopes = SpeedSlopes::default();
        slopes.learn(&[([0.1, 0.1], 0.3)]);
        assert_eq!(slopes, SpeedSlopes::default());
    }
}
