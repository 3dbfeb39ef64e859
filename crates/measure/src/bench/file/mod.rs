//! Ways to read a file (`bench file`): calls that copy and mappings, over blocks, orders and residencies,
//! from the first call to the last.
//!
//! Every sample is a fresh process ([`serve_reader`]) on a chosen CPU. So a file that is shortened while it
//! is mapped ends only that process. The process opens, advises and maps. It reads the blocks in order or at
//! random, each once in a pass. Then it unmaps and closes. These three times are recorded separately and
//! counted together, because what one way saves in one of them another way pays elsewhere. All ways count
//! what was really read in the same way (`account`).
//!
//! The page cache's own count before and after each sample proves warm and cold (`state`). All warm cells are
//! read in rounds, each in a new random order, then all cold ones. The order matters: a file that was evicted
//! comes back in other folios than it was written in, and the folios determine the cost of a mapping.
//!
//! A mapping is shared and read-only. The kernel maps a window of pages around a fault (`do_fault_around` in
//! mm/memory.c), and all of a range for `MAP_POPULATE` and `MADV_POPULATE_READ` (`faultin_page_range` in
//! mm/gup.c). Calls copy folio by folio (`filemap_read` in mm/filemap.c).
//!
//! To write, blocks of the generated file are overwritten while it is cached and clean. The first write to a clean
//! page through a mapping faults (`do_shared_fault`, `page_mkwrite`). Not seen: the host's cache under a
//! virtual machine, memory of other NUMA nodes, and what else a program does with its bytes.

mod account;
mod calibration;
mod copies;
mod order;
mod origin;
mod plan;
mod prices;
mod process;
mod reader;
mod state;

pub use crate::helper::HelperLauncher;
pub use calibration::{CALIBRATED, calibration_file, lies_huge};
pub use copies::copies;
pub use origin::{FileContent, FileOrigin, FileOriginError};
pub use plan::{FileBenchRequest, FilePlan};
pub use prices::{entry_price, price_file};
pub use reader::serve_reader;

use crate::bench::frame::{BenchCallbacks, BenchRounds};
use crate::error::PriceError;
use account::sampled;
use pagewise_kernel::{SysError, clock};
use pagewise_model::bench::file::{
    CacheResidency, ExpectedChecksum, FileBenchReport, FileCell, FilePoint,
};
use pagewise_model::{Bytes, Fact, Nanos};
use process::FileOutcome;
use reader::FileTask;
use state::FilePageCache;

/// How often a warm cell is read again if it turned out not to be warm.
const AGAIN: u32 = 2;

/// Reads all cells of `plan` from `content`, in processes that `launcher` starts. If the caller stops it or
/// the time limit passes, the result contains the samples so far. Points that lack samples say why.
///
/// # Errors
/// If the file cannot be read at all.
pub fn run(
    plan: &FilePlan,
    content: &FileContent,
    launcher: &HelperLauncher,
    callbacks: BenchCallbacks<'_, FileCell>,
) -> Result<FileBenchReport, SysError> {
    let cost = plan.cost();
    let truths = truths(plan, content)?;
    let cache = FilePageCache { file: &content.file, size: content.source.size_bytes };
    let rounds = BenchRounds::begin(callbacks, &cost, "all cells");
    let mut end = clock::now();
    let mut session = FileBenchSession { plan, cache, launcher, rounds, refills: 0 };
    let mut points: Vec<FilePoint> = plan.cells.iter().copied().map(FilePoint::new).collect();
    for residency in [CacheResidency::Warm, CacheResidency::Cold] {
        // Unused time of one residency passes to the other.
        end += Nanos::from_f64(cost.cap_ns.0 as f64 * plan.share(residency));
        session.rounds.end_at(end);
        session.go_through(&mut points, residency);
    }
    let request = &plan.request;
    Ok(FileBenchReport {
        seed: request.seed,
        repeats: plan.repeats(CacheResidency::Warm),
        cold_repeats: plan.repeats(CacheResidency::Cold),
        quick: request.quick,
        summed: request.summed,
        slips: request.slips.clone(),
        source: content.source.clone(),
        cpus: plan.cpus.clone(),
        base_page_bytes: plan.page,
        truths,
        refills: session.refills,
        entry_ns: Fact::missing("not measured"),
        prices: Vec::new(),
        price_folios: None,
        points,
        copies: None,
        judgement: None,
    })
}

/// The expected sum of a pass over each span in blocks of each size.
fn truths(plan: &FilePlan, content: &FileContent) -> Result<Vec<ExpectedChecksum>, SysError> {
    let mut wanted: Vec<(Bytes, Bytes)> =
        plan.cells.iter().map(|cell| (cell.block_bytes, cell.span_bytes)).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let truth = |(block_bytes, span_bytes): (Bytes, Bytes)| {
        let block = usize::try_from(block_bytes.0).unwrap_or(usize::MAX);
        let mut checksum = 0_u64;
        for index in 0..span_bytes.0 / block_bytes.0.max(1) {
            let offset = index * block_bytes.0 + sampled(index, block) as u64;
            checksum = checksum.wrapping_add(content.word(offset)?);
        }
        Ok(ExpectedChecksum { block_bytes, span_bytes, checksum })
    };
    wanted.into_iter().map(truth).collect()
}

struct FileBenchSession<'a, 'c> {
    plan: &'a FilePlan,
    cache: FilePageCache<'a>,
    launcher: &'a HelperLauncher,
    rounds: BenchRounds<'c, FileCell>,
    refills: u32,
}

impl FileBenchSession<'_, '_> {
    fn go_through(&mut self, points: &mut [FilePoint], residency: CacheResidency) {
        let of = |point: &FilePoint| point.cell.residency == residency;
        for repeat in 0..self.plan.repeats(residency) {
            let order = (0..points.len()).filter(|at| of(&points[*at])).collect();
            for index in self.rounds.shuffle(order) {
                self.repeat(&mut points[index], repeat);
            }
        }
    }

    /// One process of a point. A point that failed is skipped.
    fn repeat(&mut self, point: &mut FilePoint, repeat: u32) {
        self.rounds.show(&point.cell);
        if point.refused.is_some() {
            return;
        }
        match self.read(&point.cell, repeat) {
            Ok(mut taken) => {
                taken.sample.repeat = repeat;
                taken.sample.place = self.rounds.taken();
                point.add(taken.sample, taken.pace);
            }
            Err(error) => point.refused = Some(error.to_string()),
        }
    }

    fn read(&mut self, cell: &FileCell, repeat: u32) -> Result<FileOutcome, PriceError> {
        for _ in 0..=AGAIN {
            self.rounds.check()?;
            let task = self.task(cell, repeat);
            let taken = process::run(self.launcher, &self.cache, task, self.rounds.stop().0)?;
            self.refills += u32::from(taken.filled);
            if process::is_proven(&taken.sample, cell.residency) {
                return Ok(taken);
            }
        }
        let why = "the page cache lost part of the file while it was read";
        Err(PriceError::Unavailable(why.to_owned()))
    }

    /// The same order for all cells of a round, another in the next.
    fn task(&self, cell: &FileCell, repeat: u32) -> FileTask {
        let request = &self.plan.request;
        FileTask {
            cell: *cell,
            slips: request.slips.clone(),
            summed: request.summed,
            seed: request.seed.wrapping_add(u64::from(repeat)),
            cpus: self.plan.seats(cell.threads),
            stamp: clock::now().0,
        }
    }
}
