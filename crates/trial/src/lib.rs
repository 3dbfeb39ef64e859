//! Controlled experiments: which of several arms is faster than the control, and how sure is that?
//!
//! The engine knows neither programs nor remedies. A [`Bench`] runs an arm once and tells the
//! time; a [`Plan`] names the arms, the time left and the seed; [`run`] returns the
//! [`Experiment`](pagewise_model::trial::Experiment) with a verdict on each arm.
//!
//! A point is one fresh run. Arms *race*: each block runs the control and every arm that may still be
//! the best, in random order, and all runs count ([`pagewise_judge::race`]). The race
//! ends when the best arm is proven, when no arm can gain what is worth having, or when the time is over;
//! it may be stopped at any moment and continued from its blocks.
//!
//! Not seen: an effect that lasts beyond the run that caused it (the next run of another arm
//! pays for it); the random order turns that into noise, not into bias.
#![forbid(unsafe_code)]

mod bench;
mod course;
mod evidence;
mod plan;
mod races;
mod runner;

pub use bench::{ArmId, Bench, Progress, RunFailure, WeatherMark};
pub use course::run;
pub use plan::{Arm, Goal, Plan, default_budget};
