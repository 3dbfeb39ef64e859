//! The ways to read a file: what a program wants of it, how the page cache holds it, the prices of this
//! machine, and so the predicted time of each way.
//!
//! A [`Calibration`] holds prices that were fitted to short runs of the ways that it predicts, as `bench
//! file` runs them. A prediction is a sum of amounts times prices ([`CostTerm`]), phase by phase ([`ReadPhase`]): see
//! [`Calibration::forecast`]. Amounts depend only on the [`ReadDemand`] and the [`FileState`], so the same
//! calibration serves any file on that file system. Times are nanoseconds of wall time, from opening to
//! closing.
//!
//! A prediction does not see what else runs on the machine, the place of a buffer in its page, memory of
//! other NUMA nodes, or what a program does with its bytes. Ways that copy end when the bytes are copied.
//! Ways in place sum every word in the mapping.

mod forecast;
mod state;
mod terms;

pub use forecast::{ReadForecast, SpanDemand, TimeParts};
pub use state::{FileState, FolioClassShare};
pub use terms::{CostTerm, FAR, NEAR, RAMP, SPILL, amounts};

use crate::bench::file::{CacheResidency, FileBenchReport, FileCell, ReadWay};
use crate::bench::tlb::AccessOrder;
use crate::cache::FolioClass;
use crate::machine::Machine;
use crate::schema::JsonSchema;
use crate::units::{Bytes, Nanos, PageSize};
use serde::{Deserialize, Serialize};

/// Raised when the content of a calibration or the meaning of its terms changes.
pub const CALIBRATION_FORMAT: u32 = 2;

/// Block sizes are multiples of this.
pub const BLOCK_UNIT: Bytes = Bytes(512);
/// The largest block size.
pub const LARGEST_BLOCK: Bytes = Bytes::mib(1);

/// The demand of a program on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReadDemand {
    /// Order of the blocks; a pass reads each once.
    pub order: AccessOrder,
    /// Bytes per read.
    pub block_bytes: Bytes,
    /// Number of passes over the whole file, by the same descriptor or mapping.
    pub passes: u32,
    /// Number of threads; each reads its share of the blocks.
    pub threads: u32,
}

impl ReadDemand {
    /// The demand of a cell.
    #[must_use]
    pub const fn from_cell(cell: &FileCell) -> Self {
        Self {
            order: cell.order,
            block_bytes: cell.block_bytes,
            passes: cell.passes,
            threads: cell.threads,
        }
    }

    /// Why no file of this size can be read with this demand; none if it can be.
    #[must_use]
    pub fn objection(&self, size: Bytes) -> Option<String> {
        let block = self.block_bytes;
        if block.0 == 0 || !block.0.is_multiple_of(BLOCK_UNIT.0) || block > LARGEST_BLOCK {
            let (unit, most) = (BLOCK_UNIT, LARGEST_BLOCK);
            return Some(format!(
                "a block of {block} has no price: use multiples of {unit} up to {most}"
            ));
        }
        if block > size {
            return Some(format!("a block of {block} is larger than the file ({size})"));
        }
        (self.passes == 0 || self.threads == 0)
            .then(|| "give at least one pass and one thread".to_owned())
    }
}

/// Readings of one file, from which prices are computed.
#[derive(Debug, Clone, PartialEq)]
pub struct FileReadings {
    /// Folios in which the cache held the file.
    pub folios: FolioClass,
    /// The readings.
    pub readings: FileBenchReport,
}

/// A phase in the time of a reading.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ReadPhase {
    /// Opening, advising, mapping.
    SetUp,
    /// The excess of the first pass over a later one, mainly faults.
    First,
    /// A pass over a file that is cached and, if the way maps it, mapped.
    Pass,
    /// Unmapping and closing.
    TearDown,
    /// The extra cost of bytes that are not cached.
    Device,
}

impl ReadPhase {
    /// The way whose prices of this phase also apply to `arm`, because it makes the same calls on the same
    /// pages. Once a file is mapped, it does not matter how that was done. Unmapped pages are not marked as
    /// used if the kernel was advised that the file is read in order or at random.
    #[must_use]
    pub const fn stand_in(self, arm: ReadWay) -> ReadWay {
        match (self, arm) {
            (Self::SetUp, ReadWay::PlacePopulate) => ReadWay::MapPopulate,
            (Self::SetUp, ReadWay::Place | ReadWay::MapPieces | ReadWay::PlacePieces) => {
                ReadWay::Map
            }
            (Self::TearDown, ReadWay::MapSequential | ReadWay::MapRandom) => ReadWay::MapRandom,
            (Self::First, ReadWay::MapWillNeed | ReadWay::MapSequential | ReadWay::MapRandom) => {
                ReadWay::Map
            }
            (Self::TearDown, _) if arm.is_mapped() => ReadWay::Map,
            (Self::Pass, _) if arm.is_in_place() => ReadWay::Place,
            (Self::Pass, _) if arm.is_mapped() => ReadWay::Map,
            _ => arm,
        }
    }
}

/// The cost of one unit of a [`CostTerm`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TermPrice {
    pub term: CostTerm,
    /// Cost in nanoseconds, never negative.
    pub ns: f64,
}

/// The prices of one phase of a way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PriceList {
    pub phase: ReadPhase,
    /// The way, or the one whose prices apply to it ([`ReadPhase::stand_in`]).
    pub arm: ReadWay,
    /// The order of the blocks; none if it makes no difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<AccessOrder>,
    /// Folios in which the cache holds the file; none if they make no difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folios: Option<FolioClass>,
    /// The prices that are not 0.
    pub prices: Vec<TermPrice>,
}

/// How the passes of a way change when all CPUs read at the same time.
///
/// If the work does not get in its own way, each of `n` CPUs does an nth of it: the share is 0. At a share of
/// 1, the largest, a second CPU gains nothing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuSharing {
    /// The way. If it stands in for others ([`ReadPhase::stand_in`]), its passes count for them too, but its
    /// first pass for itself alone.
    pub arm: ReadWay,
    pub order: AccessOrder,
    /// Folios in which the cache holds the file.
    pub folios: FolioClass,
    /// Time to start a thread and wait for its end in each pass, in nanoseconds.
    pub start_ns: f64,
    /// Share of the cost of blocks that more CPUs do not shorten.
    pub blocks_share: f64,
    /// Share of the cost of bytes that more CPUs do not shorten.
    pub bytes_share: f64,
    /// Share of the excess of the first pass that more CPUs do not shorten.
    pub first_share: f64,
}

/// The machine and file system that a calibration applies to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CalibrationKey {
    format: u32,
    kernel: String,
    cpu_model: String,
    cpus: usize,
    memory_bytes: Bytes,
    file_system: String,
    device: u64,
}

impl CalibrationKey {
    /// The key for this machine, and for files on a file system of this kind on this device.
    #[must_use]
    pub fn new(machine: &Machine, file_system: String, device: u64) -> Self {
        Self {
            format: CALIBRATION_FORMAT,
            kernel: machine.kernel.clone(),
            cpu_model: machine.cpu_model.clone(),
            cpus: machine.cpus.len(),
            memory_bytes: machine.memory_bytes,
            file_system,
            device,
        }
    }

    /// True if a file of this size can stay in memory.
    #[must_use]
    pub(crate) const fn has_room(&self, size: Bytes) -> bool {
        size.0 < self.memory_bytes.0 / 10 * 9
    }

    /// Kind of the file system.
    #[must_use]
    pub fn file_system(&self) -> &str {
        &self.file_system
    }
}

/// The prices of reading on a machine and a file system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibration {
    /// The machine and file system that the calibration applies to.
    pub key: CalibrationKey,
    /// Number of CPUs that read.
    pub cpus: u32,
    pub base_page_bytes: PageSize,
    /// Time of the calibration, in nanoseconds since 1970.
    pub taken_unix_ns: u64,
    /// Duration of the calibration, including the time to write its files.
    pub took_ns: Nanos,
    /// Number of processes that were measured.
    pub processes: u32,
    /// Warm cells that were not read before the time was over, as a share of all that can be read here.
    pub missed_share: f64,
    /// Median error of the fitted time over all processes, as a share of the measured time.
    pub error_share: f64,
    pub lists: Vec<PriceList>,
    /// Loss when several CPUs read at the same time.
    pub sharing: Vec<CpuSharing>,
}

/// A measured way beside its forecast.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReadTrial {
    pub arm: ReadWay,
    /// Wall time of each process, in the order of their rounds.
    pub total_ns: Vec<Nanos>,
    /// Why there is no time, or fewer than requested.
    pub refused: Option<String>,
}

/// A prediction for a file, and the choice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReadChoice {
    /// Path of the file as given.
    pub path: String,
    /// The demand of the program.
    pub demand: ReadDemand,
    /// Content of the cache for the file.
    pub state: FileState,
    pub calibration_age_ns: Nanos,
    pub calibration_took_ns: Nanos,
    /// Number of processes that the calibration measured.
    pub calibration_processes: u32,
    /// Kind of file system of the calibration.
    pub file_system: String,
    /// Median error of the calibration, as a share of the measured time.
    pub error_share: f64,
    /// Each requested way that has prices, fastest first.
    pub forecasts: Vec<ReadForecast>,
    /// Measured times of all these ways; empty without `--measure`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<ReadTrial>,
    /// Possible error of the measured times, as a share. It is the difference between cells measured at the
    /// start and again at the end, or the time their processes waited for a CPU, whichever is larger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial_error_share: Option<f64>,
    /// Reasons for the choice, in plain sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
}

impl ReadChoice {
    /// The chosen way.
    #[must_use]
    pub fn best(&self) -> Option<&ReadForecast> {
        self.forecasts.first()
    }

    /// Excess of the second-best way over the best, as a share of the best; none without a second.
    #[must_use]
    pub fn margin_share(&self) -> Option<f64> {
        let [best, next, ..] = self.forecasts.as_slice() else { return None };
        Some(next.total_ns / best.total_ns.max(1.0) - 1.0)
    }

    /// Ways that the prediction cannot distinguish from the best: its error exceeds their difference.
    pub fn rivals(&self) -> impl Iterator<Item = &ReadForecast> {
        let best = self.best().map_or(0.0, |best| best.total_ns);
        let most = best * (1.0 + self.error_share);
        self.forecasts.iter().skip(1).filter(move |forecast| forecast.total_ns <= most)
    }
}

impl Calibration {
    /// Forecasts of `arms` for this demand and file, fastest first. Ways that cannot serve the demand, or
    /// have no prices, are left out.
    #[must_use]
    pub fn forecasts(
        &self,
        arms: &[ReadWay],
        demand: &ReadDemand,
        state: &FileState,
    ) -> Vec<ReadForecast> {
        let residency = state.residency();
        let served = arms.iter().filter(|arm| arm.serves(demand.order, residency));
        let mut all: Vec<ReadForecast> =
            served.filter_map(|arm| self.forecast(*arm, demand, state)).collect();
        all.sort_by(|a, b| a.total_ns.total_cmp(&b.total_ns));
        all
    }
}

/// Whether a file counts as cached when this share of it is cached.
#[must_use]
pub(crate) fn residency(cached_share: f64) -> CacheResidency {
    if cached_share >= 1.0 { CacheResidency::Warm } else { CacheResidency::Cold }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_served_is_said() {
        let demand = |block, passes, threads| ReadDemand {
            order: AccessOrder::Random,
            block_bytes: Bytes(block),
            passes,
            threads,
        };
        let why = |demand: ReadDemand| demand.objection(Bytes::kib(64)).unwrap_or_default();
        assert_eq!(demand(65_536, 1, 1).objection(Bytes::kib(64)), None);
        for block in [0, 100, 513, 2 << 20] {
            assert!(why(demand(block, 1, 1)).contains("has no price"), "{block}");
        }
        assert!(why(demand(128 << 10, 1, 1)).contains("larger than the file (64.0 KiB)"));
        assert!(why(demand(512, 0, 1)).contains("at least one pass"));
        assert!(why(demand(512, 1, 0)).contains("at least one pass"));
    }

    #[test]
    fn the_same_work_has_the_same_prices() {
        let of = |phase: ReadPhase| {
            [ReadWay::MapRandom, ReadWay::PlacePieces, ReadWay::PlacePopulate, ReadWay::Read]
                .map(|arm| phase.stand_in(arm))
        };
        let (read, place) = (ReadWay::Read, ReadWay::Place);
        assert_eq!(of(ReadPhase::Pass), [ReadWay::Map, place, place, read]);
        assert_eq!(
            of(ReadPhase::SetUp),
            [ReadWay::MapRandom, ReadWay::Map, ReadWay::MapPopulate, read]
        );
        assert_eq!(of(ReadPhase::TearDown), [ReadWay::MapRandom, ReadWay::Map, ReadWay::Map, read]);
        assert_eq!(
            of(ReadPhase::First),
            [ReadWay::Map, ReadWay::PlacePieces, ReadWay::PlacePopulate, read]
        );
        assert_eq!(of(ReadPhase::Device)[0], ReadWay::MapRandom);
        for (phase, arm) in [
            ReadPhase::SetUp,
            ReadPhase::First,
            ReadPhase::Pass,
            ReadPhase::TearDown,
            ReadPhase::Device,
        ]
        .into_iter()
        .flat_map(|phase| ReadWay::ALL.iter().map(move |arm| (phase, phase.stand_in(*arm))))
        {
            assert_eq!(phase.stand_in(arm), arm, "{phase:?}: who stands in stands for himself");
        }
    }
}
