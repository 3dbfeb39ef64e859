//! Controlled experiments: which of several arms is faster than the control, and is that proven?
//!
//! The engine knows neither programs nor remedies. A [`Bench`] runs an arm once and tells the
//! time; a [`Plan`] names the arms, the budget and the seed; [`run`] returns the
//! [`Experiment`](pagewise_model::trial::Experiment) with a verdict on each arm.
//!
//! A point is one fresh run. *Screening* runs each arm twice in random order and drops the
//! hopeless; *confirmation* runs the best two and their combination in fresh blocks, each the
//! control twice and every arm once, in random order. The number of blocks follows from the
//! budget before the first of them; nothing is stopped early because it looks significant, and
//! no run used to choose is used to prove. The rule of the verdict is
//! [`pagewise_judge::verdict`]'s.
//!
//! Not seen: an effect that lasts beyond the run that caused it (the next run of another arm
//! pays for it); the random order turns that into noise, not into bias.
#![forbid(unsafe_code)]

mod bench;
mod confirmation;
mod evidence;
mod experiment;
mod plan;
mod runner;
mod screening;

pub use bench::{ArmId, Bench, Canary, Progress, RunFailure, Stage, WeatherMark};
pub use experiment::run;
pub use plan::{Arm, Kind, Plan, default_budget, forecast, least_budget};

/// Name of the control's second run in a block.
pub const CONTROL_AGAIN: &str = "A'";
