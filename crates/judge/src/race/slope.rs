//! How much of a run's time goes with what a load from memory cost meanwhile.
//!
//! Times are corrected by it: less the slope times the logarithm of the load's time. The slope rests on
//! earlier blocks alone, and on deviations of runs of one arm in one block from their mean: no effect of
//! an arm gets into it, and where an arm does nothing, its corrected runs could still have changed names
//! with the control's, which is all that evidence needs.
//!
//! It is drawn towards the usual slope, the more the fewer runs there are; and there is none as long as
//! earlier blocks would have had no less noise with it.

use super::shrunk;

/// Mean and deviation of slopes among programs.
const USUAL_SLOPE: f64 = 0.2;
const SLOPE_DEVIATION: f64 = 0.25;

/// Sums over deviations: `x` of the logarithm of the load's time, `y` of that of the run's.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Slope {
    xx: f64,
    xy: f64,
    yy: f64,
    freedom: f64,
    /// Squares that were left with the slopes of the time.
    left: f64,
}

impl Slope {
    /// The slope, from 0 to 1.
    #[must_use]
    pub fn value(&self) -> f64 {
        if self.left > self.yy { 0.0 } else { self.estimate() }
    }

    fn estimate(&self) -> f64 {
        let noise = shrunk(self.yy, self.freedom);
        let pull = noise / (SLOPE_DEVIATION * SLOPE_DEVIATION);
        ((self.xy + pull * USUAL_SLOPE) / (self.xx + pull)).clamp(0.0, 1.0)
    }

    /// Takes in runs of one arm in one block: logarithms of the load's time and of the run's.
    pub fn learn(&mut self, runs: &[(f64, f64)]) {
        if runs.len() < 2 {
            return;
        }
        let slope = self.estimate();
        let count = runs.len() as f64;
        let mean_x = runs.iter().map(|(x, _)| x).sum::<f64>() / count;
        let mean_y = runs.iter().map(|(_, y)| y).sum::<f64>() / count;
        for (x, y) in runs.iter().map(|(x, y)| (x - mean_x, y - mean_y)) {
            self.xx += x * x;
            self.xy += x * y;
            self.yy += y * y;
            self.left += (y - slope * x).powi(2);
        }
        self.freedom += count - 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Rng;

    /// What is learnt from so many pairs of runs whose noise has this part of the load's.
    fn learnt(part: f64, pairs: u32) -> f64 {
        let mut rng = Rng::new(5);
        let mut slope = Slope::default();
        for _ in 0..pairs {
            let mut run = || {
                let x = 0.06 * rng.normal();
                (x, part * x + 0.01 * rng.normal())
            };
            let runs = [run(), run()];
            slope.learn(&runs);
        }
        slope.value()
    }

    #[test]
    fn what_goes_with_memory_is_found_and_nothing_else() {
        assert!((learnt(0.4, 0) - USUAL_SLOPE).abs() < 1e-12);
        assert!(learnt(0.4, 4) > 0.25, "{}", learnt(0.4, 4));
        assert!((learnt(0.4, 100) - 0.4).abs() < 0.05);
        assert!(learnt(0.0, 100) < 0.02);
        assert_eq!(learnt(-0.3, 100), 0.0);
    }

    #[test]
    fn one_run_says_nothing_of_noise() {
        let mut slope = Slope::default();
        slope.learn(&[(0.1, 0.3)]);
        assert_eq!(slope, Slope::default());
    }
}
