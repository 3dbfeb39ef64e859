//! Unit prices of page work on this machine, the ladder of pipes, and the loops that measure them.
//!
//! [`calibrate`] gives [`SessionPrices`](pagewise_model::price::SessionPrices): what one fault, one wake-up, one copied KiB
//! costs on this machine now. Each price in `prices/` documents what is inside its clock. The timed loops use
//! ordinary kernel objects (on-demand mappings, default pipes, cached files), because the prices must predict
//! programs that are not tuned.
//!
//! [`bench::pipe`] measures each way to move bytes through a pipe, in fresh pairs of processes.
//! [`bench::pin`] measures what it costs to find and hold pages of a process. [`bench::tlb`] measures a load
//! that depends on the load before, by size of set and page. [`bench::text`] measures a jump through code, by
//! size of the code and page. [`bench::memory`] measures what a page costs until it can be used, with every
//! way to get it. [`bench::file`] measures the ways to read a file, each in a fresh process. [`SpeedSamplers`]
//! samples the speed of CPUs and memory while something else runs.
//!
//! Everything works without privileges. Nothing here involves other processes, with two exceptions: `spawn`
//! starts `true`, and the ladder and the readings start their own program as the ends of a pipe and as
//! readers. `unsafe` is confined to `kernels/`.

pub mod bench;
mod cycle;
mod error;
mod gate;
mod helper;
mod kernels;
mod kinds;
mod prices;
mod prior;
mod sample;
mod session;
mod speed;
mod stream;

pub use bench::frame::{BenchCallbacks, BenchCost, BenchProgress};
pub use error::PriceError;
pub use session::{CalibrationOptions, calibrate, touch_pages};
pub use speed::SpeedSamplers;
