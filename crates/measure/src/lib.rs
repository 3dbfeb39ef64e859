//! Unit prices of page work on this machine, the ladder of pipes, and the loops that find them.
//!
//! [`calibrate`] gives [`Prices`](pagewise_model::price::Prices): what one fault, one wake-up, one
//! copied KiB costs here and now. Each price in `prices/` says what is inside its clock. The timed
//! loops work on real kernel objects of the ordinary kind (on-demand mappings, default pipes, cached
//! files), because the prices must predict programs that know nothing of them.
//!
//! [`bench::pipe`] measures what each way to move bytes through a pipe gives, in fresh pairs of processes.
//! [`bench::pin`] measures what it costs to find and hold pages of a process.
//! [`bench::tlb`] measures what a load costs that needs the one before, by size of set and page.
//! [`bench::code`] measures what a jump through code costs, by size of the code and page.
//! [`bench::memory`] measures what a page costs until it can be used, under every way to get it.
//! [`bench::file`] measures the ways to read a file, each in a fresh process.
//! [`Speeds`] samples how fast CPUs and memory are while something else runs.
//!
//! Everything works without privileges. Nothing here is asked of another process, save that
//! `spawn` starts `true`, and that the ladder and the readings start their own program as the ends
//! of a pipe and as readers. `unsafe` is confined to `kernels/`.

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

pub use bench::frame::{Callbacks, Cost, Progress};
pub use error::PriceError;
pub use session::{Options, calibrate, touch_pages};
pub use speed::Speeds;
