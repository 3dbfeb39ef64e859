//! Ways to read a file (`bench file`): calls that copy and mappings, over blocks, orders and residencies,
//! from the first call to the last.
//!
//! Every sample is a fresh process ([`serve_reader`]) on a CPU of its own choice, so that a file that is
//! shortened while it is mapped ends that process and no other. It opens, advises and maps; goes through
//! the blocks, in order or by chance, each once in a pass; unmaps and closes: three times that are told
//! apart and counted together, since what one way saves in one another pays in the next. What was really
//! read is counted in every way alike (`account`).
//!
//! Warm and cold are proven by the page cache's own count before and after each sample (`state`). All
//! warm cells are gone through in rounds, each in a new random order, then all cold ones: a file that was
//! evicted comes back in other folios than it was written in, and how a file is held decides what a
//! mapping of it costs.
//!
//! A mapping is shared and for reading. The kernel maps a window of pages around a fault (`do_fault_around`
//! in mm/memory.c), all of a range for `MAP_POPULATE` and `MADV_POPULATE_READ` (`faultin_page_range` in
//! mm/gup.c); calls copy folio by folio (`filemap_read` in mm/filemap.c). Not seen: the host's cache under a
//! virtual machine, memory of other NUMA nodes, and what else a program does with its bytes.

mod account;
mod calibration;
mod copies;
#[cfg(test)]
mod example;
mod grid;
mod order;
mod origin;
mod plan;
mod prices;
mod process;
mod reader;
mod rounds;
mod state;
mod wire;

pub use crate::helper::Launcher;
pub use calibration::{CALIBRATED, calibration_file, lies_huge};
pub use copies::copies;
pub use origin::{Content, Origin, OriginError};
pub use plan::{Asked, Cost, Plan};
pub use prices::{entry_price, price_file};
pub use reader::serve_reader;
pub use rounds::run;
