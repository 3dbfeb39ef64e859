//! Statistics, diagnosis and verdicts: pure functions on facts.
//!
//! Nothing here reads a clock, a file, the environment or the kernel: the same facts give the
//! same verdict on every machine, so a saved run can be judged again. Times are nanoseconds,
//! effects are natural logarithms of time ratios until they are shown.
#![forbid(unsafe_code)]

pub mod activity;
pub mod address;
pub mod bench;
pub mod check;
pub mod choice;
pub mod code_tlb;
pub mod comparison;
pub mod diagnosis;
pub mod faults;
pub mod fleet;
pub mod guards;
pub mod history;
pub mod host_rank;
pub mod mechanism;
pub mod memory_account;
pub mod order;
pub mod prediction;
pub mod profile;
pub mod race;
pub mod recheck;
pub mod service;
pub mod stats;
pub mod text;
pub mod top;
pub mod tradeoff;
