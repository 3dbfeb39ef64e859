//! Which way to read a file: what a program wants of it, how the file lies in the page cache, what this
//! machine charges, and what each way should therefore take.
//!
//! A [`Calibration`] holds prices that were fitted to short runs of the very ways that it predicts, as
//! `bench file` runs them. A prediction is a sum of amounts times prices ([`Term`]), phase by phase
//! ([`Phase`]): see [`Calibration::forecast`]. Amounts follow from the [`Demand`] and the [`FileState`] alone, so the same
//! calibration serves any file on that file system. Times are nanoseconds of wall time, from opening to
//! closing.
//!
//! Not seen: what else runs on the machine, the place of a buffer within its page, memory of other NUMA
//! nodes, and what a program does with its bytes: ways that copy end when the bytes are copied, ways in
//! place add every word up where it lies.

mod forecast;
mod state;
mod terms;

pub use forecast::{Forecast, TimeParts, Work};
pub use state::{FileState, FolioPart};
pub use terms::{FAR, NEAR, RAMP, SPILL, Term, amounts};

use crate::bench::file::{Arm, Cell, Readings, Residency};
use crate::bench::tlb::Order;
use crate::cache::FolioClass;
use crate::machine::Machine;
use crate::units::{Bytes, Nanos, PageSize};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Raised with every change of what a calibration holds or of what its terms mean.
pub const CALIBRATION_FORMAT: u32 = 2;

/// Blocks are multiples of this, and at most so large.
pub const BLOCK_UNIT: Bytes = Bytes(512);
/// See [`BLOCK_UNIT`].
pub const LARGEST_BLOCK: Bytes = Bytes::mib(1);

/// What a program does with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Demand {
    /// The order of the blocks, each once in a pass.
    pub order: Order,
    /// Bytes taken at once.
    pub block_bytes: Bytes,
    /// How often all of the file is gone through, by the same descriptor or mapping.
    pub passes: u32,
    /// Threads, each with its share of the blocks.
    pub threads: u32,
}

impl Demand {
    /// What a cell wants.
    #[must_use]
    pub const fn from_cell(cell: &Cell) -> Self {
        Self {
            order: cell.order,
            block_bytes: cell.block_bytes,
            passes: cell.passes,
            threads: cell.threads,
        }
    }

    /// Why no file of this size is read so; none where it can be.
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

/// Readings of one file, from which prices are made.
#[derive(Debug, Clone, PartialEq)]
pub struct FileReadings {
    /// How the file lay in the cache.
    pub folios: FolioClass,
    /// What was read of it.
    pub readings: Readings,
}

/// A piece of the time of a reading.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Opening, advising, mapping.
    SetUp,
    /// What the first pass takes more than a later one: faults, above all.
    First,
    /// A pass over a file that is cached and, where it is mapped, mapped.
    Pass,
    /// Unmapping and closing.
    TearDown,
    /// What comes on top for bytes that are not cached.
    Device,
}

impl Phase {
    /// The way whose prices of this phase are those of `arm` as well: what the same calls do to the same
    /// pages. Once a file is mapped it does not matter how that came about; what is unmapped is not
    /// marked as used if the kernel was advised that it is read in order or at random.
    #[must_use]
    pub const fn stand_in(self, arm: Arm) -> Arm {
        match (self, arm) {
            (Self::SetUp, Arm::PlacePopulate) => Arm::MapPopulate,
            (Self::SetUp, Arm::Place | Arm::MapPieces | Arm::PlacePieces) => Arm::Map,
            (Self::TearDown, Arm::MapSequential | Arm::MapRandom) => Arm::MapRandom,
            (Self::First, Arm::MapWillNeed | Arm::MapSequential | Arm::MapRandom) => Arm::Map,
            (Self::TearDown, _) if arm.is_mapped() => Arm::Map,
            (Self::Pass, _) if arm.is_in_place() => Arm::Place,
            (Self::Pass, _) if arm.is_mapped() => Arm::Map,
            _ => arm,
        }
    }
}

/// What one unit of a [`Term`] costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Price {
    pub term: Term,
    /// Nanoseconds; never negative.
    pub ns: f64,
}

/// The prices of a phase of a way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PriceList {
    pub phase: Phase,
    /// The way, or the one that stands for it ([`Phase::stand_in`]).
    pub arm: Arm,
    /// The order; none where it makes no difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// How the file lies in the cache; none where that makes no difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folios: Option<FolioClass>,
    /// The prices that are not 0.
    pub prices: Vec<Price>,
}

/// How the passes of a way change when all CPUs read at a time.
///
/// Of work that does not get in its own way one of `n` CPUs does the nth part. A share of 0 says that
/// it is so, one of 1, the most, that a second CPU gains nothing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sharing {
    /// The way. One that stands for others ([`Phase::stand_in`]) speaks for their passes, and with
    /// its first pass for itself alone.
    pub arm: Arm,
    pub order: Order,
    /// How the file lies in the cache.
    pub folios: FolioClass,
    /// Starting a thread and waiting for its end, in each pass.
    pub start_ns: f64,
    /// What more CPUs do not shorten of the cost of blocks.
    pub blocks_share: f64,
    /// The same of the cost of bytes.
    pub bytes_share: f64,
    /// The same of what the first pass takes more.
    pub first_share: f64,
}

/// Where and on what a calibration holds.
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
    /// Of this machine, and of files on a file system of this kind on this device.
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

    /// Whether a file of this size can stay in memory.
    #[must_use]
    pub(crate) const fn has_room(&self, size: Bytes) -> bool {
        size.0 < self.memory_bytes.0 / 10 * 9
    }

    /// The kind of the file system.
    #[must_use]
    pub fn file_system(&self) -> &str {
        &self.file_system
    }
}

/// What reading costs on a machine and a file system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibration {
    /// What it holds for.
    pub key: CalibrationKey,
    /// CPUs that read.
    pub cpus: u32,
    pub base_page_bytes: PageSize,
    /// When it was taken, nanoseconds since 1970.
    pub taken_unix_ns: u64,
    /// How long that took, the writing of its files included.
    pub took_ns: Nanos,
    /// Processes that were measured.
    pub processes: u32,
    /// Warm cells that were left unread when the time was up, as a share of all that could be read here.
    pub missed_share: f64,
    /// Median over all processes of how far the fitted time is off, as a share of the measured one.
    pub error_share: f64,
    pub lists: Vec<PriceList>,
    /// How CPUs get in each other's way.
    pub sharing: Vec<Sharing>,
}

/// A way as it was measured beside its forecast.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    pub arm: Arm,
    /// Wall time of each process, in the order of their rounds.
    pub total_ns: Vec<Nanos>,
    /// Why there is none, or fewer than asked for.
    pub refused: Option<String>,
}

/// What is predicted for a file, and what is chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Choice {
    /// The file, as it was given.
    pub path: String,
    /// What is wanted of it.
    pub demand: Demand,
    /// How it lies in the cache.
    pub state: FileState,
    pub calibration_age_ns: Nanos,
    pub calibration_took_ns: Nanos,
    /// Processes that were measured for it.
    pub calibration_processes: u32,
    /// Its kind of file system.
    pub file_system: String,
    /// Its own median error.
    pub error_share: f64,
    /// Each way that was asked for and has prices, fastest first.
    pub forecasts: Vec<Forecast>,
    /// All of them as they were measured afterwards; empty without --measure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<Trial>,
    /// How far measured times may be off, as a share: what cells that were measured at the start and again at the
    /// end differ by, or what their processes waited for a CPU, whichever is more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial_error_share: Option<f64>,
    /// Why it is chosen, in plain sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
}

impl Choice {
    /// The way that is chosen.
    #[must_use]
    pub fn best(&self) -> Option<&Forecast> {
        self.forecasts.first()
    }

    /// What the next best takes more than the best, as a share of the best; none without one.
    #[must_use]
    pub fn margin_share(&self) -> Option<f64> {
        let [best, next, ..] = self.forecasts.as_slice() else { return None };
        Some(next.total_ns / best.total_ns.max(1.0) - 1.0)
    }

    /// Ways that the prediction cannot tell from the best: it is off by more than they are apart.
    pub fn rivals(&self) -> impl Iterator<Item = &Forecast> {
        let best = self.best().map_or(0.0, |best| best.total_ns);
        let most = best * (1.0 + self.error_share);
        self.forecasts.iter().skip(1).filter(move |forecast| forecast.total_ns <= most)
    }
}

impl Calibration {
    /// The forecasts of `arms` for this demand and file, fastest first. Ways that cannot serve it, or
    /// that have no prices, are left out.
    #[must_use]
    pub fn forecasts(&self, arms: &[Arm], demand: &Demand, state: &FileState) -> Vec<Forecast> {
        let residency = state.residency();
        let served = arms.iter().filter(|arm| arm.serves(demand.order, residency));
        let mut all: Vec<Forecast> =
            served.filter_map(|arm| self.forecast(*arm, demand, state)).collect();
        all.sort_by(|a, b| a.total_ns.total_cmp(&b.total_ns));
        all
    }
}

/// Whether a file of which so much is cached counts as cached.
#[must_use]
pub(crate) fn residency(cached_share: f64) -> Residency {
    if cached_share >= 1.0 { Residency::Warm } else { Residency::Cold }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_served_is_said() {
        let demand = |block, passes, threads| Demand {
            order: Order::Random,
            block_bytes: Bytes(block),
            passes,
            threads,
        };
        let why = |demand: Demand| demand.objection(Bytes::kib(64)).unwrap_or_default();
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
        let of = |phase: Phase| {
            [Arm::MapRandom, Arm::PlacePieces, Arm::PlacePopulate, Arm::Read]
                .map(|arm| phase.stand_in(arm))
        };
        let (read, place) = (Arm::Read, Arm::Place);
        assert_eq!(of(Phase::Pass), [Arm::Map, place, place, read]);
        assert_eq!(of(Phase::SetUp), [Arm::MapRandom, Arm::Map, Arm::MapPopulate, read]);
        assert_eq!(of(Phase::TearDown), [Arm::MapRandom, Arm::Map, Arm::Map, read]);
        assert_eq!(of(Phase::First), [Arm::Map, Arm::PlacePieces, Arm::PlacePopulate, read]);
        assert_eq!(of(Phase::Device)[0], Arm::MapRandom);
        for (phase, arm) in
            [Phase::SetUp, Phase::First, Phase::Pass, Phase::TearDown, Phase::Device]
                .into_iter()
                .flat_map(|phase| Arm::ALL.iter().map(move |arm| (phase, phase.stand_in(*arm))))
        {
            assert_eq!(phase.stand_in(arm), arm, "{phase:?}: who stands in stands for himself");
        }
    }
}
