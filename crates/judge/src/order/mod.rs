//! The order of functions and variables in a program, worked out from facts: which pieces a start
//! needs ([`closure`]), and how they fill pages ([`pack`]).

mod arrange;
mod closure;
mod conformance;
mod link;
mod matching;
mod merge;
mod names;
mod pack;
mod predict;
mod touched;
mod variants;

pub use closure::closure;
pub use conformance::conformance;
pub use link::link_order;
pub use matching::{FunctionMatches, counterparts};
pub use merge::{WorkloadCalls, merge};
pub use names::stem;
pub use pack::{AlignedSize, measure, pack};
pub use predict::{CountFaults, ProgramBuild, best, forecast};
pub use touched::{ImageFault, touched_file};
pub use variants::{BuildOptions, BuildVariation, compiles};
