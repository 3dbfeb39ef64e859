//! What will be read, cell by cell, and how long it takes. Known before a file is written or a process is
//! started.

use crate::bench::frame::BenchCost;
use crate::error::PriceError;
use pagewise_kernel::{affinity, page_size};
use pagewise_model::bench::file::{
    BenchmarkFlaw, BlockStore, CacheResidency, FileBenchPart, FileCell, ReadWay,
};
use pagewise_model::bench::tlb::AccessOrder;
use pagewise_model::{Bytes, Nanos, PageSize};

/// Time of a process in addition to its reading: start, preparation, checking the cache.
const START: Nanos = Nanos::millis(12);
/// Bytes in a second of a warm pass, of a cold one, and of the writing of the file.
const WARM_PER_S: u64 = 5 << 30;
const COLD_PER_S: u64 = 1 << 30;
const WRITTEN_PER_S: u64 = 1 << 30;
/// Time of one cold block that was not read ahead, and the fraction (one in this many) of blocks for which
/// that holds.
const COLD_BLOCK: Nanos = Nanos(100_000);
const COLD_ALONE: u64 = 2;
/// Time to prepare a place in a random order.
const PLACED: Nanos = Nanos(12);
/// The default form is stopped after this time. A longer one is stopped after one and a half times its
/// expected time.
const USUAL: Nanos = Nanos::secs(100);
/// The short form is stopped after this; its prices take some seconds more.
const QUICK: Nanos = Nanos::secs(13);
/// Prices are stopped after this share of what their form may take.
const PRICES_SHARE: u64 = 4;

/// The block around which passes, buffers and threads are looked at: the published study's largest.
const CENTRE: Bytes = Bytes::kib(16);
/// Most bytes of a pass of the parts that look at one thing each.
const PART_SPAN: Bytes = Bytes::mib(256);
/// Ways of these parts: one of each kind.
const PASSES: [ReadWay; 4] = [ReadWay::Read, ReadWay::Map, ReadWay::MapPopulate, ReadWay::Place];
const WRITTEN: [ReadWay; 2] = [ReadWay::Read, ReadWay::Map];
const BUFFERS: [ReadWay; 2] = [ReadWay::Read, ReadWay::Map];
const THREADS: [ReadWay; 4] = [ReadWay::Read, ReadWay::Pread, ReadWay::Map, ReadWay::Place];

#[derive(Debug, Clone)]
pub struct FileBenchRequest {
    pub parts: Vec<FileBenchPart>,
    /// Ways to read.
    pub arms: Vec<ReadWay>,
    /// Sizes of blocks, multiples of 512 bytes.
    pub blocks: Vec<Bytes>,
    pub orders: Vec<AccessOrder>,
    /// Where the bytes are before each sample.
    pub residencies: Vec<CacheResidency>,
    /// Most bytes of a cold pass.
    pub cold_bytes: Bytes,
    /// Passes of the part about them.
    pub passes: u32,
    /// Numbers of threads of the part about them.
    pub threads: Vec<u32>,
    /// Processes of each warm cell. Cold cells get half as many.
    pub repeats: u32,
    /// Errors of the published benchmark to repeat.
    pub slips: Vec<BenchmarkFlaw>,
    /// All bytes of each copied block are added up.
    pub summed: bool,
    /// Blocks are written instead of read: warm, by write(2) and through a mapping, left in the cache and synced.
    /// Only the part about blocks.
    pub written: bool,
    /// A cap of some seconds.
    pub quick: bool,
    /// Seed of all orders.
    pub seed: u64,
}

impl FileBenchRequest {
    /// The published study's cells, and the three parts around its middle.
    #[must_use]
    pub fn usual(seed: u64) -> Self {
        Self {
            parts: FileBenchPart::ALL.to_vec(),
            arms: ReadWay::ALL.to_vec(),
            blocks: [4, 8, 16].map(Bytes::kib).to_vec(),
            orders: AccessOrder::ALL.to_vec(),
            residencies: vec![CacheResidency::Warm, CacheResidency::Cold],
            cold_bytes: Bytes::mib(16),
            passes: 8,
            threads: Vec::new(),
            repeats: 6,
            slips: Vec::new(),
            summed: false,
            written: false,
            quick: false,
            seed,
        }
    }

    /// The same blocks, written.
    #[must_use]
    pub fn writing(self) -> Self {
        Self {
            parts: vec![FileBenchPart::Blocks],
            arms: WRITTEN.to_vec(),
            residencies: vec![CacheResidency::Warm],
            written: true,
            ..self
        }
    }

    /// Less of it, within a cap.
    #[must_use]
    pub fn short(seed: u64) -> Self {
        Self {
            parts: vec![FileBenchPart::Blocks, FileBenchPart::Passes],
            blocks: [4, 16].map(Bytes::kib).to_vec(),
            cold_bytes: Bytes::mib(4),
            passes: 4,
            repeats: 3,
            quick: true,
            ..Self::usual(seed)
        }
    }
}

/// A plan for this machine and a file.
#[derive(Debug)]
pub struct FilePlan {
    pub(super) request: FileBenchRequest,
    pub(super) cells: Vec<FileCell>,
    pub(super) cpus: Vec<u32>,
    pub(super) page: PageSize,
    size: Bytes,
    written: bool,
    /// The time limit. `None` for the default of the form.
    pub(super) cap: Option<Nanos>,
}

impl FilePlan {
    /// The requested plan for a file of `size` bytes. `written` if the file is generated and written first.
    ///
    /// # Errors
    /// If nothing of it can be read here.
    pub fn new(
        mut request: FileBenchRequest,
        size: Bytes,
        written: bool,
    ) -> Result<Self, PriceError> {
        if request.threads.is_empty() {
            let cpus = affinity::get(0)?.len();
            request.threads = doubled(u32::try_from(cpus).unwrap_or(u32::MAX));
        }
        if request.written && !written {
            let why = "only a file of our own is written to";
            return Err(PriceError::Unavailable(why.to_owned()));
        }
        let cells = cells(&request, size, page_size::base());
        if cells.is_empty() && !request.parts.contains(&FileBenchPart::Copies) {
            let why = "none of the chosen ways supports these orders and parts";
            return Err(PriceError::Unavailable(format!("nothing to read: {why}")));
        }
        let plan = Self::with_cells(request, cells, size)?;
        Ok(Self { written, ..plan })
    }

    /// A plan of these cells.
    pub(super) fn with_cells(
        request: FileBenchRequest,
        cells: Vec<FileCell>,
        size: Bytes,
    ) -> Result<Self, PriceError> {
        let cpus = affinity::get(0)?;
        Ok(Self { request, cells, cpus, page: page_size::base(), size, written: true, cap: None })
    }

    /// Processes of one cell.
    pub(super) const fn repeats(&self, residency: CacheResidency) -> u32 {
        match residency {
            CacheResidency::Warm => self.request.repeats,
            CacheResidency::Cold => self.request.repeats.div_ceil(2),
        }
    }

    #[must_use]
    pub fn cost(&self) -> BenchCost {
        let times = |cell: &FileCell| u64::from(self.repeats(cell.residency));
        let reading: u64 =
            self.cells.iter().map(|cell| time(cell).0.saturating_mul(times(cell))).sum();
        let writing = if self.written { per(self.size, WRITTEN_PER_S).0 } else { 0 };
        let about = Nanos(reading.saturating_add(writing));
        let patient =
            if about < USUAL { USUAL } else { Nanos(about.0.saturating_add(about.0 / 2)) };
        let cap = if self.request.quick { QUICK } else { patient };
        let are_prices = self.request.parts.contains(&FileBenchPart::Prices);
        BenchCost {
            points: self.cells.len() as u64,
            samples: self.cells.iter().map(times).sum(),
            about_ns: about,
            cap_ns: self.cap.unwrap_or(if are_prices { Nanos(cap.0 / PRICES_SHARE) } else { cap }),
            memory_bytes: self.size,
        }
    }

    /// The share of the time that cells of a residency should have.
    pub(super) fn share(&self, residency: CacheResidency) -> f64 {
        let of = |is_all: bool| -> f64 {
            let cells = self.cells.iter().filter(|cell| is_all || cell.residency == residency);
            let times =
                cells.map(|cell| time(cell).0 as f64 * f64::from(self.repeats(cell.residency)));
            times.sum()
        };
        of(false) / of(true).max(1.0)
    }

    /// Where the threads of a cell run.
    pub(super) fn seats(&self, threads: u32) -> Vec<u32> {
        self.cpus.iter().copied().cycle().take(threads.max(1) as usize).collect()
    }
}

/// The powers of two below `most`, and `most`.
fn doubled(most: u32) -> Vec<u32> {
    let powers = (0..u32::BITS).map(|bits| 1 << bits);
    powers.take_while(|count| *count < most).chain([most.max(1)]).collect()
}

/// About the time of one process.
fn time(cell: &FileCell) -> Nanos {
    let bytes = cell.total_bytes();
    let (order, blocks) = match cell.order {
        AccessOrder::Random => (PLACED.0.saturating_mul(cell.blocks()), cell.blocks()),
        AccessOrder::Sequential => (0, 0),
    };
    let reading = match cell.residency {
        CacheResidency::Warm => per(bytes, WARM_PER_S),
        CacheResidency::Cold => {
            per(bytes, COLD_PER_S) + Nanos(COLD_BLOCK.0.saturating_mul(blocks / COLD_ALONE))
        }
    };
    let writing = if cell.store.is_some() { per(bytes, WRITTEN_PER_S) } else { Nanos(0) };
    START + Nanos(order) + reading + writing
}

const fn per(bytes: Bytes, per_s: u64) -> Nanos {
    Nanos((bytes.0 as u128 * 1_000_000_000 / per_s as u128) as u64)
}

/// All cells for a file of `size` bytes, in display order.
fn cells(request: &FileBenchRequest, size: Bytes, page: PageSize) -> Vec<FileCell> {
    let mut cells = Vec::new();
    for part in &request.parts {
        match part {
            FileBenchPart::Blocks => cells.extend(blocks(request, size)),
            FileBenchPart::Passes => cells.extend(passes(request, size)),
            FileBenchPart::Buffers => cells.extend(buffers(request, size, page)),
            FileBenchPart::Threads => cells.extend(threads(request, size)),
            FileBenchPart::Copies | FileBenchPart::Prices => {}
        }
    }
    cells.retain(|cell| cell.blocks() > 0);
    cells
}

/// Whole blocks of at most `most` bytes of the file.
const fn span(size: Bytes, most: Bytes, block: Bytes) -> Bytes {
    let bytes = if size.0 < most.0 { size.0 } else { most.0 };
    match bytes.checked_div(block.0) {
        Some(blocks) => Bytes(blocks * block.0),
        None => Bytes(0),
    }
}

fn blocks(request: &FileBenchRequest, size: Bytes) -> impl Iterator<Item = FileCell> {
    let whole = move |residency, block_bytes| match residency {
        CacheResidency::Warm => span(size, size, block_bytes),
        CacheResidency::Cold => span(size, request.cold_bytes, block_bytes),
    };
    let cell = move |residency, order, block_bytes, arm| FileCell {
        order,
        residency,
        ..FileCell::plain(FileBenchPart::Blocks, arm, block_bytes, whole(residency, block_bytes))
    };
    let stores: &[Option<BlockStore>] = match request.written {
        true => &[Some(BlockStore::Cached), Some(BlockStore::Synced)],
        false => &[None],
    };
    let mut all = Vec::new();
    for residency in &request.residencies {
        for order in &request.orders {
            for arm in request.arms.iter().filter(|arm| arm.serves(*order, *residency)) {
                let cells =
                    request.blocks.iter().map(|block| cell(*residency, *order, *block, *arm));
                for store in stores {
                    all.extend(cells.clone().map(|cell| FileCell { store: *store, ..cell }));
                }
            }
        }
    }
    all.into_iter()
}

/// One cell in the middle: warm, in order, one pass.
fn middle(request: &FileBenchRequest, size: Bytes, part: FileBenchPart, arm: ReadWay) -> FileCell {
    let distance = |block: &&Bytes| block.0.abs_diff(CENTRE.0);
    let block_bytes = request.blocks.iter().min_by_key(distance).copied().unwrap_or(CENTRE);
    FileCell::plain(part, arm, block_bytes, span(size, PART_SPAN, block_bytes))
}

/// Those of `arms` that were asked for.
fn chosen(request: &FileBenchRequest, arms: &[ReadWay]) -> Vec<ReadWay> {
    arms.iter().copied().filter(|arm| request.arms.contains(arm)).collect()
}

fn passes(request: &FileBenchRequest, size: Bytes) -> impl Iterator<Item = FileCell> {
    let cell = move |arm| FileCell {
        passes: request.passes,
        ..middle(request, size, FileBenchPart::Passes, arm)
    };
    chosen(request, &PASSES).into_iter().map(cell)
}

/// Four places within a page, in memory that is used again and in fresh memory.
fn buffers(
    request: &FileBenchRequest,
    size: Bytes,
    page: PageSize,
) -> impl Iterator<Item = FileCell> {
    let offsets = [0, 16, 64, page.bytes() - 1].map(Bytes);
    let ways = chosen(request, &BUFFERS).into_iter().flat_map(|arm| [(arm, false), (arm, true)]);
    ways.flat_map(move |(arm, fresh)| {
        offsets.map(|offset_bytes| FileCell {
            fresh,
            offset_bytes,
            ..middle(request, size, FileBenchPart::Buffers, arm)
        })
    })
}

fn threads(request: &FileBenchRequest, size: Bytes) -> impl Iterator<Item = FileCell> {
    chosen(request, &THREADS).into_iter().flat_map(move |arm| {
        request.threads.iter().map(move |threads| FileCell {
            threads: *threads,
            ..middle(request, size, FileBenchPart::Threads, arm)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_plan_says_what_it_takes() {
        let plan = FilePlan::new(FileBenchRequest::usual(1), Bytes::mib(512), true).expect("CPUs");
        let cost = plan.cost();
        assert_eq!((cost.memory_bytes, cost.points as usize), (Bytes::mib(512), plan.cells.len()));
        assert!(cost.samples > 4 * cost.points && cost.samples < 5 * cost.points, "{cost:?}");
        assert!(cost.about_ns > Nanos::secs(20) && cost.about_ns < cost.cap_ns, "{cost:?}");
        assert!(cost.cap_ns < Nanos::secs(160), "{cost:?}");
        let short =
            FilePlan::new(FileBenchRequest::short(1), Bytes::mib(128), true).expect("CPUs").cost();
        assert!(short.cap_ns < Nanos::secs(20) && short.about_ns < cost.about_ns, "{short:?}");
        let shares =
            [CacheResidency::Warm, CacheResidency::Cold].map(|residency| plan.share(residency));
        assert!(shares[0] > 0.0 && (shares[0] + shares[1] - 1.0).abs() < 1e-9, "{shares:?}");
    }

    #[test]
    fn nothing_is_no_plan() {
        let only = FileBenchRequest {
            parts: vec![FileBenchPart::Blocks],
            arms: vec![ReadWay::Readv],
            orders: vec![AccessOrder::Random],
            ..FileBenchRequest::usual(1)
        };
        let error = FilePlan::new(only, Bytes::mib(64), true).expect_err("nothing").to_string();
        assert!(error.contains("nothing to read"), "{error}");
    }

    #[test]
    fn threads_double_up_to_the_cpus() {
        assert_eq!((doubled(1), doubled(2), doubled(6)), (vec![1], vec![1, 2], vec![1, 2, 4, 6]));
        assert_eq!(doubled(0), [1]);
    }

    #[test]
    fn more_threads_than_cpus_share_them() {
        let plan = FilePlan::new(FileBenchRequest::usual(1), Bytes::mib(64), false).expect("CPUs");
        let seats = plan.seats(9);
        assert_eq!(seats.len(), 9);
        assert!(seats.iter().all(|cpu| plan.cpus.contains(cpu)));
    }

    fn request() -> FileBenchRequest {
        FileBenchRequest { threads: vec![1, 2], ..FileBenchRequest::usual(3) }
    }

    fn all(request: &FileBenchRequest, size: Bytes) -> Vec<FileCell> {
        cells(request, size, PageSize::BASE_4K)
    }

    #[test]
    fn the_usual_cells_are_those_of_the_study_and_more() {
        let cells = all(&request(), Bytes::gib(1));
        let of = |part| cells.iter().filter(move |cell| cell.part == part).count();
        // Three blocks: all ways in order, all but readv at random. Ways that bypass the cache have only cold
        // cells.
        assert_eq!(of(FileBenchPart::Blocks), 3 * (15 + 14 + 16 + 15));
        assert_eq!(
            (of(FileBenchPart::Passes), of(FileBenchPart::Buffers), of(FileBenchPart::Threads)),
            (4, 2 * 2 * 4, 4 * 2)
        );
        for (at, cell) in cells.iter().enumerate() {
            assert!(!cells[..at].contains(cell), "{cell:?} comes twice");
            assert!(cell.span_bytes <= Bytes::gib(1) && cell.blocks() > 0, "{cell:?}");
        }
    }

    #[test]
    fn written_cells_are_the_same_blocks_twice() {
        let cells = all(&request().writing(), Bytes::mib(64));
        assert_eq!(cells.len(), 3 * 2 * 2 * 2);
        let ways: BTreeSet<&str> = cells.iter().map(FileCell::way).collect();
        assert_eq!(ways.len(), 4, "{ways:?}");
        assert!(cells.iter().all(|cell| cell.residency == CacheResidency::Warm));
        assert!(FilePlan::new(request().writing(), Bytes::mib(64), false).is_err(), "of others");
    }

    #[test]
    fn passes_are_whole_blocks_of_what_there_is() {
        let own = FileBenchRequest { blocks: vec![Bytes::kib(8), Bytes::mib(1)], ..request() };
        let cells = all(&own, Bytes(20_000));
        assert!(cells.iter().all(|cell| cell.span_bytes == Bytes::kib(16)), "{cells:?}");
        assert!(cells.iter().all(|cell| cell.block_bytes == Bytes::kib(8)), "one is too large");
        assert_eq!(span(Bytes::gib(9), Bytes::gib(9), Bytes::kib(4)), Bytes::gib(9));
        assert_eq!(span(Bytes(5), Bytes(5), Bytes(0)), Bytes(0));
    }

    #[test]
    fn only_what_was_asked_for() {
        let some = FileBenchRequest {
            parts: vec![FileBenchPart::Buffers, FileBenchPart::Passes],
            arms: vec![ReadWay::Map, ReadWay::MapRandom],
            passes: 5,
            ..request()
        };
        let cells = all(&some, Bytes::mib(64));
        assert_eq!(cells.len(), 8 + 1);
        assert!(cells.iter().all(|cell| cell.arm == ReadWay::Map));
        assert_eq!(cells.iter().filter(|cell| cell.passes == 5).count(), 1);
    }
}
