//! The cells that explain the time of other cells. They are read before all others, over a separate file.
//!
//! Four block sizes in both orders, so that a cost for each block and one for each byte can be separated:
//! `pread`; and a mapping read twice, by copy and in place, whose second pass has no faults. One mapping is
//! populated, and its set-up is the price of mapping. One cell puts blocks into fresh memory. `read`, with
//! its file position, is compared with `pread` at the smallest block size. The file is as large as the one to
//! be read, so that caches hold the same share of both. At random order a quarter of the file is read as
//! well, which shows the worth of that share. The file lies in the cache on folios of the same class
//! ([`FileOrigin::folios`]): a huge page is mapped by one entry and found by one lookup.
//! `pagewise_judge::bench::file` derives the prices. A call that does nothing else measures entering and
//! leaving the kernel.

use super::plan::{FileBenchRequest, FilePlan};
use crate::error::PriceError;
use crate::prices::process::SyscallProbe;
use crate::sample::ProbeSeries;
use pagewise_kernel::affinity;
use pagewise_model::bench::file::{FileBenchPart, FileCell, ReadWay};
use pagewise_model::bench::tlb::AccessOrder;
use pagewise_model::{Bytes, Fact, Measured};

/// The sizes of blocks.
const LARGEST: Bytes = Bytes::kib(64);
const BLOCKS: [Bytes; 4] = [Bytes::kib(4), Bytes::kib(8), Bytes::kib(16), LARGEST];
/// Ways, and the passes of each.
const WAYS: [(ReadWay, u32); 3] = [(ReadWay::Pread, 1), (ReadWay::Map, 2), (ReadWay::Place, 2)];
/// Processes of each cell, and of the short form. About as many as of the explained cells, because the
/// minimum of more processes is lower.
const REPEATS: u32 = 4;
const QUICK_REPEATS: u32 = 3;
/// Bounds for the size of the file, which otherwise is that of the file to be read.
const LEAST: Bytes = Bytes::mib(32);
const MOST: Bytes = Bytes::mib(512);
/// The smaller span at random order is one in this many bytes of the file.
const QUARTER: u64 = 4;
/// Repeats of the call that does nothing.
const ENTRIES: u32 = 9;

/// Size of the price file, for a file of `size` bytes to be read.
#[must_use]
pub fn price_file(size: Bytes) -> Bytes {
    size.clamp(LEAST, MOST)
}

impl FilePlan {
    /// The cells of the prices, over a file of `size` bytes.
    ///
    /// # Errors
    /// When no CPU is available.
    pub fn prices(seed: u64, size: Bytes, quick: bool) -> Result<Self, PriceError> {
        let (usual, repeats) = match quick {
            true => (FileBenchRequest::short(seed), QUICK_REPEATS),
            false => (FileBenchRequest::usual(seed), REPEATS),
        };
        let request = FileBenchRequest { parts: vec![FileBenchPart::Prices], repeats, ..usual };
        Self::with_cells(request, cells(size), size)
    }
}

fn cells(size: Bytes) -> Vec<FileCell> {
    let spans = [
        (AccessOrder::Sequential, size),
        (AccessOrder::Random, size),
        (AccessOrder::Random, Bytes(size.0 / QUARTER)),
    ];
    let mut cells = Vec::new();
    for (order, span) in spans {
        let whole = Bytes(span.0 / LARGEST.0 * LARGEST.0);
        for block_bytes in BLOCKS {
            let cell = |(arm, passes)| FileCell {
                order,
                passes,
                ..FileCell::plain(FileBenchPart::Prices, arm, block_bytes, whole)
            };
            cells.extend(WAYS.map(cell));
            if order == AccessOrder::Sequential && block_bytes == LARGEST {
                cells.push(FileCell { fresh: true, ..cell((ReadWay::Pread, 1)) });
                cells.push(cell((ReadWay::MapPopulate, 1)));
            }
            if span == size && block_bytes == BLOCKS[0] {
                cells.push(cell((ReadWay::Read, 1)));
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
    let mut series = ProbeSeries::start(Ok(SyscallProbe));
    (0..ENTRIES).for_each(|_| series.step());
    series.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_price_has_its_cells() {
        let cells = cells(Bytes::mib(1));
        assert_eq!(cells.len(), 3 * 4 * 3 + 4);
        assert_eq!(cells.iter().filter(|cell| cell.fresh).count(), 1);
        let of = |order, span| {
            cells.iter().filter(move |cell| cell.order == order && cell.span_bytes == span)
        };
        assert_eq!(of(AccessOrder::Sequential, Bytes::mib(1)).count(), 15);
        assert_eq!(of(AccessOrder::Random, Bytes::mib(1)).count(), 13);
        assert_eq!(of(AccessOrder::Random, Bytes::kib(256)).count(), 12);
    }

    #[test]
    fn the_file_is_as_large_as_the_one_to_be_read() {
        let sizes = [Bytes::mib(1), Bytes::mib(100), Bytes::gib(100)].map(price_file);
        assert_eq!(sizes, [LEAST, Bytes::mib(100), MOST]);
    }

    #[test]
    fn entering_the_kernel_has_a_price() {
        let price = entry_price();
        assert!(price.known().is_some_and(|ns| ns.median > 1.0 && ns.n > 3), "{price:?}");
    }
}
