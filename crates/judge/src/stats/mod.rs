//! The statistics of measurements: a seeded generator, the exact signed-rank test, the Hodges-Lehmann
//! estimate with its exact interval, and a test for two modes.
//!
//! Everything works on plain `f64` values, in practice logarithms of time ratios, one per block.
//! Values that are not finite are the caller's to exclude; where one slips through, functions
//! that return `Option` return `None`. Nothing assumes normal noise: run times are skewed and
//! heavy-tailed (Maricq et al., OSDI 2018), so ranks are used throughout.

mod modes;
mod ratio;
mod rng;
mod signed_rank;
mod walsh;

pub use modes::{BimodalTimes, find_two_modes};
pub(crate) use ratio::{interval_text, is_below, less_text, paired_figure, paired_ratio};
pub use rng::Rng;
pub use signed_rank::{EXACT_MAX, SignedRank, lower_tail_count, signed_rank};
pub use walsh::{ShiftEstimate, hodges_lehmann, kth_walsh_average, shift};

/// Deviations within which 80% of a normal distribution lie. 1 in 10 lies further below.
pub(crate) const NORMAL_80: f64 = 1.2816;
/// Deviations within which 95% of a normal distribution lie.
pub(crate) const NORMAL_95: f64 = 1.96;
