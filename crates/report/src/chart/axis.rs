//! Axes: positions of values, and the labelled values.
//!
//! An axis is linear from 0 as long as the smallest value is visible beside the largest. Beyond
//! [`SEEN_BESIDE`] it is logarithmic. Bars have no start there, so points are drawn.

use std::ops::RangeInclusive;

/// Largest ratio of values that are readable on one linear axis.
const SEEN_BESIDE: f64 = 12.0;
/// Number of labels to aim at on a linear axis.
const TICKS: f64 = 6.0;

/// Range of plausible values. Beyond it, powers of ten overflow, and loops over them would not end.
const READABLE: RangeInclusive<f64> = 1e-99..=1e99;

/// A range of values along a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ChartAxis {
    /// From 0 to `most`, a label every `step`.
    Linear { most: f64, step: f64 },
    /// From `least` to `most`, with a constant ratio between steps.
    Log { least: f64, most: f64 },
}

impl ChartAxis {
    /// The axis that suits `values`. Ignores values that are not positive or not plausible.
    pub(super) fn over(values: impl Iterator<Item = f64>) -> Self {
        let values = values.filter(|v| READABLE.contains(v));
        let (least, most) = values.fold((f64::INFINITY, 0.0_f64), |(a, b), v| (a.min(v), b.max(v)));
        if most <= least * SEEN_BESIDE || most <= 0.0 {
            return Self::from_zero(most);
        }
        Self::Log { least: round_down(least), most: round_up(most) }
    }

    /// The linear axis from 0 to at least `most`.
    pub(super) fn from_zero(most: f64) -> Self {
        if !READABLE.contains(&most) {
            return Self::Linear { most: 1.0, step: 0.2 };
        }
        let step = nice_step(most / TICKS);
        Self::Linear { most: (most / step).ceil() * step, step }
    }

    /// Position of `value`, from 0 to 1.
    pub(super) fn place(self, value: f64) -> f64 {
        let at = match self {
            Self::Linear { most, .. } => value / most,
            Self::Log { least, most } if value > 0.0 => (value / least).ln() / (most / least).ln(),
            Self::Log { .. } => 0.0,
        };
        if at.is_finite() { at.clamp(0.0, 1.0) } else { 0.0 }
    }

    pub(super) const fn is_log(self) -> bool {
        matches!(self, Self::Log { .. })
    }

    /// The values that are labelled.
    pub(super) fn ticks(self) -> Vec<f64> {
        match self {
            Self::Linear { most, step } => {
                let count = (most / step).round().clamp(0.0, 100.0) as u32;
                (0..=count).map(|i| f64::from(i) * step).collect()
            }
            Self::Log { least, most } => {
                let all = log_ticks(least, most, &[1.0, 2.0, 5.0]);
                if all.len() > 12 { log_ticks(least, most, &[1.0]) } else { all }
            }
        }
    }
}

/// The smallest of 1, 2, 2.5, 5 times a power of ten that is at least `step`.
fn nice_step(step: f64) -> f64 {
    let decade = 10_f64.powf(step.log10().floor());
    let nice = [1.0, 2.0, 2.5, 5.0, 10.0].map(|m| m * decade);
    nice.into_iter().find(|n| *n >= step * (1.0 - 1e-9)).unwrap_or(10.0 * decade)
}

fn round_down(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    let steps = [5.0, 2.0, 1.0].map(|m| m * decade);
    steps.into_iter().find(|n| *n <= value * (1.0 + 1e-9)).unwrap_or(decade)
}

fn round_up(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|m| m * decade);
    steps.into_iter().find(|n| *n >= value * (1.0 - 1e-9)).unwrap_or(10.0 * decade)
}

fn log_ticks(least: f64, most: f64, steps: &[f64]) -> Vec<f64> {
    let (first, last) = (least.log10().floor() as i32, most.log10().ceil() as i32);
    (first..=last)
        .flat_map(|power| steps.iter().map(move |m| m * 10_f64.powi(power)))
        .filter(|v| *v >= least * (1.0 - 1e-9) && *v <= most * (1.0 + 1e-9))
        .collect()
}

/// A labelled value without meaningless decimals.
pub(super) fn tick_label(value: f64) -> String {
    if value >= 10.0 || (value - value.round()).abs() < 1e-9 {
        format!("{value:.0}")
    } else {
        let shown = format!("{value:.2}");
        shown.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

// A colour scale from dark blue to yellow in steps of equal lightness (the viridis scale).

/// Nine points of the viridis scale, dark to light.
const COLOURS: [(u8, u8, u8); 9] = [
    (68, 1, 84),
    (71, 44, 122),
    (59, 81, 139),
    (44, 113, 142),
    (33, 144, 141),
    (39, 173, 129),
    (92, 200, 99),
    (170, 220, 50),
    (253, 231, 37),
];

/// The colour at `share` (0..1) of the scale, and the colour of text on it.
pub(super) fn colour(share: f64) -> (String, &'static str) {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let at = share * (COLOURS.len() - 1) as f64;
    let low = (at.floor() as usize).min(COLOURS.len() - 2);
    let (a, b, way) = (COLOURS[low], COLOURS[low + 1], at - low as f64);
    let mix = |a: u8, b: u8| (f64::from(a) + way * (f64::from(b) - f64::from(a))).round() as u8;
    let (red, green, blue) = (mix(a.0, b.0), mix(a.1, b.1), mix(a.2, b.2));
    // Perceived lightness (ITU-R BT.601).
    let light = 0.299 * f64::from(red) + 0.587 * f64::from(green) + 0.114 * f64::from(blue);
    (format!("#{red:02x}{green:02x}{blue:02x}"), if light > 128.0 { "#1f2328" } else { "#fff" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_values_are_linear_from_zero() {
        let axis = ChartAxis::over([3.7, 12.7, 32.8].into_iter());
        assert_eq!(axis, ChartAxis::Linear { most: 40.0, step: 10.0 });
        assert_eq!(axis.ticks(), [0.0, 10.0, 20.0, 30.0, 40.0]);
        assert!((axis.place(10.0) - 0.25).abs() < 1e-12);
    }

    #[test]
    fn far_values_are_logarithmic() {
        let axis = ChartAxis::over([1.1, 60.0].into_iter());
        assert_eq!(axis, ChartAxis::Log { least: 1.0, most: 100.0 });
        assert_eq!(axis.ticks(), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
        assert!((axis.place(10.0) - 0.5).abs() < 1e-12);
        assert!(axis.is_log());
    }

    #[test]
    fn nothing_to_show_is_no_error() {
        for axis in
            [ChartAxis::over([].into_iter()), ChartAxis::over([0.0, f64::NAN, -1.0].into_iter())]
        {
            assert!(axis.ticks().len() > 1);
            assert!((0.0..=1.0).contains(&axis.place(f64::INFINITY)));
        }
    }

    #[test]
    fn what_nobody_measures_has_no_place_on_an_axis() {
        for odd in [5e-324, 1e-310, 1.7e308, f64::MAX, f64::MIN_POSITIVE, f64::INFINITY] {
            let axis = ChartAxis::over([1.1, 60.0, odd].into_iter());
            assert_eq!(axis, ChartAxis::Log { least: 1.0, most: 100.0 }, "{odd}");
            assert!((0.0..=1.0).contains(&axis.place(odd)));
        }
        let widest = ChartAxis::over([1e-99, 1e99].into_iter());
        assert!(widest.ticks().len() < 300, "{}", widest.ticks().len());
    }

    #[test]
    fn labels_are_short() {
        assert_eq!(tick_label(0.5), "0.5");
        assert_eq!(tick_label(2.5), "2.5");
        assert_eq!(tick_label(0.0), "0");
        assert_eq!(tick_label(50.0), "50");
    }

    #[test]
    fn text_is_readable_on_every_colour() {
        assert_eq!(colour(0.0), ("#440154".to_owned(), "#fff"));
        assert_eq!(colour(1.0), ("#fde725".to_owned(), "#1f2328"));
        assert_eq!(colour(f64::NAN).0, "#440154");
    }
}
