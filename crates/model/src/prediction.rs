//! What an arm will probably gain, estimated from a look alone.

use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The predicted gain of one arm. Shares are of the time that an experiment compares; a negative one is a loss.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GainPrediction {
    /// Name of the arm, as in an experiment.
    #[serde(deserialize_with = "crate::name::of_remedy")]
    pub arm: String,
    /// The likeliest gain as a share (at most 1) of the time.
    pub gain_share: f64,
    /// Lower end of an interval that holds the gain of 8 in 10 programs.
    pub low_share: f64,
    /// Upper end of that interval.
    pub high_share: f64,
    /// Part of the gain that comes from earlier races on this machine.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub offset_share: f64,
    /// Number of programs on which this kind of remedy was measured for the model.
    pub programs: u32,
}

impl GainPrediction {
    /// Fewer programs make a prediction a guess.
    pub const FEW_PROGRAMS: u32 = 10;

    /// True if the remedy was measured on too few programs.
    #[must_use]
    pub const fn is_guess(&self) -> bool {
        self.programs < Self::FEW_PROGRAMS
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde calls")]
fn is_zero(share: &f64) -> bool {
    *share == 0.0
}

/// A prediction beside the gain that a race then found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PredictionOutcome {
    /// Identifier of the run.
    pub run: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    pub prediction: GainPrediction,
    /// The gain that was found, as a share of the time.
    pub found_share: f64,
    /// Lower end of its 95% interval.
    pub found_low_share: f64,
    /// Upper end of its 95% interval.
    pub found_high_share: f64,
    /// Whether the measured gain lies in the predicted interval, as far as its own interval can tell.
    pub is_hit: bool,
}

/// A correction of the predictions of one model, from races on one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PredictionOffset {
    /// Share of the time that is added to each predicted gain.
    pub gain_share: f64,
    /// Number of programs behind it.
    pub programs: u32,
}

/// The corrections of a machine, by the name of the model (a remedy, or an allocator as `allocator=NAME`).
pub type PredictionOffsets = BTreeMap<String, PredictionOffset>;
