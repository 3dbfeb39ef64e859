//! Prices of reading out of short runs of every way, and why a way is chosen.
//!
//! [`calibrate`] takes the readings of some files of known making (`bench file`'s own cells, each gone
//! through twice) and fits, phase by phase, prices that are never negative and err least as shares (see
//! `least`). A second pass is a pass without faults; what the first takes more is theirs; set-up and
//! tear-down are timed apart; several threads are set against what one would take; cold cells against what
//! they should take warm. Amounts are those that a forecast uses (`pagewise_model::choice::amounts`), so a
//! forecast is the fit, run the other way.
//!
//! Pure: the same readings give the same prices. Not seen: whatever the readings do not vary.

mod fit;
mod least;
mod reasons;
#[cfg(test)]
mod tests;

pub use fit::{Occasion, calibrate};
pub use reasons::reasons;
