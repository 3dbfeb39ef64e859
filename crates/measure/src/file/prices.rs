//! What the time of cells is explained by: cells of its own, over another file, read before all others.
//!
//! Two sizes of blocks in both orders, so that a cost for each block and one for each byte can be told
//! apart: `pread`; a mapping gone through twice, by copy and in place, whose second pass has no faults; and
//! the same mapping populated, whose set-up and tear-down are what mapping and unmapping cost. One more puts
//! blocks into fresh memory. `pagewise_judge::file` makes the prices out of them. Entering and leaving the
//! kernel is measured by a call that does nothing else.

use super::plan::{Asked, Plan};
use crate::error::PriceError;
use crate::prices::syscall::Syscall;
use crate::sample::Series;
use pagewise_kernel::affinity;
use pagewise_model::file::{Arm, Cell, Part, Residency};
use pagewise_model::walk::Order;
use pagewise_model::{Bytes, Fact, Measured};

/// The two sizes of blocks.
const BLOCKS: [Bytes; 2] = [Bytes::kib(4), Bytes::kib(64)];
/// Ways, and the passes of each.
const WAYS: [(Arm, u32); 4] =
    [(Arm::Pread, 1), (Arm::Map, 2), (Arm::Place, 2), (Arm::MapPopulate, 1)];
/// Repeats of the call that does nothing.
const ENTRIES: u32 = 9;

/// Size of the file, and of the one of the short form.
#[must_use]
pub const fn price_file(quick: bool) -> Bytes {
    if quick { Bytes::mib(32) } else { Bytes::mib(128) }
}

impl Plan {
    /// The cells of the prices, over a file of `size` bytes.
    ///
    /// # Errors
    /// When there is no CPU to run on.
    pub fn prices(seed: u64, size: Bytes, quick: bool) -> Result<Self, PriceError> {
        let usual = if quick { Asked::short(seed) } else { Asked::usual(seed) };
        Self::of(Asked { parts: vec![Part::Prices], ..usual }, cells(size), size)
    }
}

fn cells(size: Bytes) -> Vec<Cell> {
    let mut cells = Vec::new();
    for order in [Order::Sequential, Order::Random] {
        for block_bytes in BLOCKS {
            let cell = |(arm, passes)| Cell {
                part: Part::Prices,
                arm,
                block_bytes,
                order,
                residency: Residency::Warm,
                passes,
                fresh: false,
                offset_bytes: Bytes(0),
                threads: 1,
                span_bytes: Bytes(size.0 / block_bytes.0 * block_bytes.0),
            };
            cells.extend(WAYS.map(cell));
            if order == Order::Sequential {
                cells.push(Cell { fresh: true, ..cell((Arm::Pread, 1)) });
            }
        }
    }
    cells
}

/// Entering and leaving the kernel, nanoseconds a call.
#[must_use]
pub fn entry_price() -> Fact<Measured> {
    std::thread::scope(|scope| scope.spawn(measure_entry).join())
        .unwrap_or(Err(PriceError::ThreadLost))
        .into()
}

fn measure_entry() -> Result<Measured, PriceError> {
    let cpus = affinity::get(0)?;
    affinity::set(0, cpus.get(..1).unwrap_or_default())?;
    let mut series = Series::start(Ok(Syscall));
    (0..ENTRIES).for_each(|_| series.step());
    series.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_price_has_its_cells() {
        let cells = cells(Bytes::mib(1));
        assert_eq!(cells.len(), 2 * 2 * 4 + 2);
        assert!(cells.iter().all(|cell| cell.span_bytes == Bytes::mib(1)));
        assert_eq!(cells.iter().filter(|cell| cell.fresh).count(), 2);
    }

    #[test]
    fn entering_the_kernel_has_a_price() {
        let price = entry_price();
        assert!(price.known().is_some_and(|ns| ns.median > 1.0 && ns.n > 3), "{price:?}");
    }
}
