//! Controlled experiments: which of several arms is faster than the control, and how sure is that?
//!
//! The engine runs nothing itself. A [`Lab`] runs an arm once and reads the clock; a [`Plan`] names the
//! arms, the time left and the seed; [`run`] returns the
//! [`Experiment`](pagewise_model::trial::Experiment) with a verdict on each arm.
//!
//! A point is one fresh run. Arms *race*: each block runs the control and every arm that may still be
//! the best, in random order, and all runs count ([`pagewise_judge::race`]). The race
//! ends when the best arm is proven, when no arm can gain what is worth having, or when the time is over;
//! it may be stopped at any moment and continued from its blocks.
//!
//! Not seen: an effect that lasts beyond the run that caused it (the next run of another arm
//! pays for it); the random order turns that into noise, not into bias.

mod evidence;
mod lab;
mod plan;
mod races;
mod runner;
mod schedule;

pub use lab::{Lab, Progress, RunFailure, WeatherMark};
pub use plan::{Goal, Plan, default_budget};
pub use schedule::run;
