//! The ladder of `bench pipe`: every way to move bytes through a pipe, measured on this machine.
//!
//! A point is one technique under one consumption (see `pagewise_model::ladder`). Each repeat of a
//! point is a fresh pair of processes on CPUs of its placement, set off together when both have
//! everything at hand; the clock runs from the arrival of the first bytes. One small repeat goes
//! before, which warms up, sizes the rest and finds out what is refused. Then the points are gone
//! through in rounds, each round in a new random order from the seed, so that a disturbance of some
//! seconds hits one repeat of several points and not all of one.
//!
//! Bytes are counted at both ends and must agree; where the consumer touches them it checks every
//! one against the sequence that the producer wrote. The page size of a buffer is what
//! `/proc/self/smaps` shows. Every pair has a deadline, the whole has a cap.
//!
//! Not seen: what the kernel does for the pipe on other CPUs (freeing pages by RCU), and, where
//! bytes are forwarded to a socket, the CPU time of the process behind it.

pub mod catalogue;
mod end;
mod pair;
mod place;
mod plan;
mod reference;
mod rounds;
mod sequence;
pub(crate) mod turns;
mod wire;
mod yardsticks;

pub use crate::helper::Launcher;
pub use end::serve_end;
pub use plan::{Cost, Plan, PlanError};
pub use reference::reference_prices;
pub use rounds::run;
