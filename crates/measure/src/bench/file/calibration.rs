//! What `choose` calibrates on, and how the result is checked: the ways of `bench file`, run as they are
//! there.
//!
//! Three generated files are used in turn. They lie in the page cache as typical files do: written in pieces
//! of 64 KiB as copying tools do, in pieces of a huge page, and page by page. Every process passes through
//! its file twice, so that a pass without faults can be separated from the first. Block sizes are those at
//! which the price of a block bends ([`RAMP`], [`SPILL`]), on the whole file and on a small one that stays in
//! the cache ([`NEAR`]). The first two files are also read by as many threads as there are CPUs, and the
//! first is also read cold. Each file has its share of 17 s, after which it is stopped, finished or not.
//! Writing the files takes about one more second.
//!
//! Huge-page folios are verified on a mapping before anything of them is read. If the file system provides
//! none, that file is left out.

use super::origin::{FileContent, FileOrigin, FileOriginError};
use super::plan::{FileBenchRequest, FilePlan};
use crate::error::PriceError;
use pagewise_kernel::affinity;
use pagewise_kernel::file_view::FileView;
use pagewise_model::bench::file::{CacheResidency, FileBenchPart, FileCell, ReadWay};
use pagewise_model::bench::tlb::AccessOrder;
use pagewise_model::cache::FolioClass;
use pagewise_model::choice::{FAR, NEAR, RAMP, ReadDemand, ReadPhase, SPILL};
use pagewise_model::{Bytes, Nanos};
use std::path::Path;

/// The kinds of files. The first one is the fallback for all others.
pub const CALIBRATED: [FolioClass; 3] = [FolioClass::Piece, FolioClass::Huge, FolioClass::Page];
/// Block sizes: for ways whose passes represent those of others, and for ways that differ from those only
/// before and after the passes.
const KNOTS: [Bytes; 5] = [Bytes::kib(1), Bytes::kib(4), RAMP, SPILL, Bytes::mib(1)];
const FEW: [Bytes; 1] = [RAMP];
/// Blocks of several threads.
const SHARED: [Bytes; 3] = [Bytes::kib(2), RAMP, SPILL];
/// Blocks of files that stay near.
const NEAR_BLOCKS: [Bytes; 2] = [Bytes::kib(4), RAMP];
/// Most bytes of a cold pass, and its blocks.
const COLD: Bytes = Bytes::mib(8);
const COLD_BLOCKS: [Bytes; 2] = [RAMP, SPILL];
/// When the cold ones are.
const COLD_CAP: Nanos = Nanos::millis(2500);
/// Passes of a warm process.
const PASSES: u32 = 2;
/// Repeats of warm cells, if time permits, and of cold cells.
const REPEATS: u32 = 4;
const ONCE: u32 = 1;

impl FilePlan {
    /// What a calibration reads of a file of `size` bytes on such folios, in order.
    ///
    /// # Errors
    /// If no CPU is available.
    pub fn calibration(
        seed: u64,
        folios: FolioClass,
        size: Bytes,
    ) -> Result<Vec<Self>, PriceError> {
        let threads = u32::try_from(affinity::get(0)?.len()).unwrap_or(u32::MAX);
        let is_main = folios == FolioClass::Piece;
        let plan = |cells, repeats, cap| -> Result<Self, PriceError> {
            let request = FileBenchRequest {
                parts: vec![FileBenchPart::Prices],
                repeats,
                ..FileBenchRequest::usual(seed)
            };
            let mut plan = Self::with_cells(request, cells, size)?;
            plan.cap = Some(cap);
            Ok(plan)
        };
        let mut plans = vec![plan(warm(folios, size, threads), REPEATS, cap(folios))?];
        if is_main {
            plans.push(plan(cold(size), ONCE, COLD_CAP)?);
        }
        Ok(plans)
    }

    /// The same, stopped after `most` at the latest.
    #[must_use]
    pub fn within(mut self, most: Nanos) -> Self {
        self.cap = Some(self.cost().cap_ns.min(most));
        self
    }

    /// Every way of `arms` that serves a demand, over a whole file of `size` bytes that is cached.
    ///
    /// # Errors
    /// When no CPU is available.
    pub fn situation(
        seed: u64,
        arms: &[ReadWay],
        demand: &ReadDemand,
        size: Bytes,
        repeats: u32,
    ) -> Result<Self, PriceError> {
        let served = arms.iter().filter(|arm| arm.serves(demand.order, CacheResidency::Warm));
        let whole = whole(size, demand.block_bytes);
        let cell =
            |arm: &ReadWay| FileCell { threads: demand.threads, ..cell(*arm, demand, whole) };
        let request = FileBenchRequest {
            parts: vec![FileBenchPart::Blocks],
            repeats,
            ..FileBenchRequest::usual(seed)
        };
        Self::with_cells(request, served.map(cell).collect(), size)
    }
}

/// The file of this kind, not yet written.
///
/// # Errors
/// When there is no room for it.
pub fn calibration_file(
    directory: &Path,
    folios: FolioClass,
) -> Result<FileOrigin, FileOriginError> {
    let size = if folios == FolioClass::Page { FAR } else { Bytes::mib(64) };
    Ok(FileOrigin::own(directory, None, size)?.on(folios))
}

/// Whether nearly all of a file is mapped as huge pages.
#[must_use]
pub fn lies_huge(content: &FileContent) -> bool {
    let size = content.source.size_bytes;
    let len = usize::try_from(size.0).unwrap_or(usize::MAX);
    let huge = FileView::map(&content.file, len).and_then(|view| {
        view.enter(0, len)?;
        view.huge_bytes()
    });
    huge.is_ok_and(|huge| huge.0 >= size.0 / 10 * 9)
}

/// When the warm cells of a file are stopped.
const fn cap(folios: FolioClass) -> Nanos {
    match folios {
        FolioClass::Piece => Nanos::millis(7500),
        FolioClass::Huge => Nanos::millis(5000),
        FolioClass::Page => Nanos::millis(2000),
    }
}

/// Cells of a file that is cached.
fn warm(folios: FolioClass, size: Bytes, threads: u32) -> Vec<FileCell> {
    let is_main = folios == FolioClass::Piece;
    let near = if size < NEAR { size } else { NEAR };
    let mut cells = Vec::new();
    for order in AccessOrder::ALL {
        let at = |arm, block_bytes, span| {
            let demand = ReadDemand { order, block_bytes, passes: PASSES, threads: 1 };
            cell(arm, &demand, whole(span, block_bytes))
        };
        for arm in
            ReadWay::ALL.iter().copied().filter(|arm| arm.serves(order, CacheResidency::Warm))
        {
            let is_kind = ReadPhase::Pass.stand_in(arm) == arm;
            let blocks: &[Bytes] = if is_kind { &KNOTS } else { &FEW };
            cells.extend(blocks.iter().map(|block| at(arm, *block, size)));
            let few: &[Bytes] = if is_kind && is_main { &NEAR_BLOCKS } else { &FEW };
            cells.extend(few.iter().map(|block| at(arm, *block, near)));
            if folios != FolioClass::Page && threads > 1 && (is_kind || is_piecewise(arm)) {
                let large = SHARED.map(|block| at(arm, block, size));
                let all = large.into_iter().chain([at(arm, RAMP, near)]);
                cells.extend(all.map(|cell| FileCell { threads, ..cell }));
            }
        }
    }
    cells.retain(|cell| cell.blocks() > 0);
    cells
}

/// Cells of a file that is not cached.
fn cold(size: Bytes) -> Vec<FileCell> {
    let span = if size < COLD { size } else { COLD };
    let mut cells = Vec::new();
    for order in AccessOrder::ALL {
        for arm in
            ReadWay::ALL.iter().copied().filter(|arm| arm.serves(order, CacheResidency::Cold))
        {
            cells.extend(COLD_BLOCKS.map(|block_bytes| {
                let demand = ReadDemand { order, block_bytes, passes: 1, threads: 1 };
                let once = cell(arm, &demand, whole(span, block_bytes));
                FileCell { residency: CacheResidency::Cold, ..once }
            }));
        }
    }
    cells.retain(|cell| cell.blocks() > 0);
    cells
}

/// Whether several threads populate the same pieces.
const fn is_piecewise(arm: ReadWay) -> bool {
    matches!(arm, ReadWay::MapPieces | ReadWay::PlacePieces)
}

/// Whole blocks of a span.
const fn whole(span: Bytes, block: Bytes) -> Bytes {
    match span.0.checked_div(block.0) {
        Some(blocks) => Bytes(blocks * block.0),
        None => Bytes(0),
    }
}

/// One thread, warm.
const fn cell(arm: ReadWay, demand: &ReadDemand, span_bytes: Bytes) -> FileCell {
    let plain = FileCell::plain(FileBenchPart::Prices, arm, demand.block_bytes, span_bytes);
    FileCell { order: demand.order, passes: demand.passes, ..plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_comes_twice_and_all_have_their_time() {
        let mut total = Nanos(0);
        for folios in CALIBRATED {
            for plan in FilePlan::calibration(1, folios, Bytes::mib(64)).expect("CPUs") {
                for (at, cell) in plan.cells.iter().enumerate() {
                    assert!(!plan.cells[..at].contains(cell), "{cell:?} comes twice");
                    assert!(cell.span_bytes <= Bytes::mib(64) && cell.blocks() > 0, "{cell:?}");
                }
                total += plan.cost().cap_ns;
            }
        }
        assert!(total <= Nanos::secs(17), "{total}");
    }

    #[test]
    fn every_way_has_what_its_prices_need() {
        let (warm, cold) = (warm(FolioClass::Piece, Bytes::mib(64), 2), cold(Bytes::mib(64)));
        for (arm, order) in ReadWay::ALL
            .iter()
            .copied()
            .flat_map(|arm| [(arm, AccessOrder::Sequential), (arm, AccessOrder::Random)])
        {
            let count = |cells: &[FileCell], which: fn(&FileCell) -> bool| {
                let of = cells.iter().filter(|cell| (cell.arm, cell.order) == (arm, order));
                of.filter(|cell| which(cell)).count()
            };
            let is_served = usize::from(arm.serves(order, CacheResidency::Warm));
            let is_kind = ReadPhase::Pass.stand_in(arm) == arm;
            let blocks = if is_kind { KNOTS.len() + NEAR_BLOCKS.len() } else { 2 * FEW.len() };
            assert_eq!(count(&warm, |cell| cell.threads == 1), is_served * blocks, "{arm:?}");
            let shared = if is_kind || is_piecewise(arm) { SHARED.len() + 1 } else { 0 };
            assert_eq!(count(&warm, |cell| cell.threads == 2), is_served * shared, "{arm:?}");
            let is_cold = usize::from(arm.serves(order, CacheResidency::Cold));
            assert_eq!(count(&cold, |cell| cell.passes == 1), is_cold * 2, "{arm:?}");
        }
        let small = super::warm(FolioClass::Huge, Bytes::kib(600), 1);
        assert!(small.iter().all(|cell| cell.block_bytes <= Bytes::kib(512) && cell.threads == 1));
    }

    #[test]
    #[allow(clippy::print_stderr, reason = "a skipped test says so")]
    fn huge_folios_are_proven() {
        let dir = tempfile::tempdir().expect("a directory");
        let size = Bytes::mib(8);
        let lies = |folios| {
            let origin = FileOrigin::own(dir.path(), Some(size), size).expect("room");
            lies_huge(&origin.on(folios).open(&|| false).expect("written"))
        };
        assert!(!lies(FolioClass::Page));
        if !lies(FolioClass::Huge) {
            eprintln!("SKIP huge_folios_are_proven: this file system gives none");
        }
    }

    #[test]
    fn a_situation_is_that_of_the_demand() {
        let demand = ReadDemand {
            order: AccessOrder::Random,
            block_bytes: Bytes(1536),
            passes: 3,
            threads: 2,
        };
        let arms = [ReadWay::Read, ReadWay::Readv, ReadWay::Place, ReadWay::Direct];
        let plan = FilePlan::situation(1, &arms, &demand, Bytes::mib(1), 5).expect("CPUs");
        let arms: Vec<ReadWay> = plan.cells.iter().map(|cell| cell.arm).collect();
        assert_eq!(arms, [ReadWay::Read, ReadWay::Place], "the others do not serve it");
        let cell = plan.cells[0];
        assert_eq!((cell.span_bytes, cell.passes, cell.threads), (Bytes(1_047_552), 3, 2));
        assert_eq!(plan.repeats(CacheResidency::Warm), 5);
    }
}
