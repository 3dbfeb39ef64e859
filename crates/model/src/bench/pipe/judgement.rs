//! Conclusions from a ladder: which point is faster, the parts of the time of each, what becomes cheaper from
//! one rung to the next, and which sizes suit.
//!
//! Times are those of both ends together, for each GiB. If each end has its own CPU, the wall time counts
//! twice, whether an end works or waits. If both share a CPU, it counts once. So a saving in one end does not
//! hide in the waiting of the other. The parts and the unexplained rest add up exactly to the time that
//! passed.

use super::PipeConsumption;
use crate::look::CpuSamples;
use crate::measured::Fact;
use crate::schema::JsonSchema;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// A kind of work on the way of bytes through a pipe.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum PipeWork {
    /// Copies by the kernel into the pipe, out of it, or on to a file.
    #[strum(serialize = "copies")]
    Copy,
    /// Extra cost because the other end is on another core: bytes, slots and page descriptors that come from
    /// its caches, and pages allocated on one core and freed on the other.
    #[strum(serialize = "between cores")]
    CacheTransfer,
    /// Allocating, charging and freeing pages of the pipe.
    #[strum(serialize = "page allocation")]
    PageAllocation,
    /// Looking up and holding pages of the producer (`get_user_pages`).
    #[strum(serialize = "page pinning")]
    Pinning,
    /// Filling, emptying and releasing slots of the pipe, for pages passed by reference.
    #[strum(serialize = "slots and release")]
    Slots,
    /// The pipe's lock, and the rest of a call that moves bytes.
    Locks,
    /// Entering and leaving the kernel.
    #[strum(serialize = "system calls")]
    Entry,
    /// Page faults of both ends.
    Faults,
    /// Waking ends that sleep.
    #[strum(serialize = "wake-ups")]
    Wakeups,
    /// Waiting for space or data, asleep or in repeated calls.
    Waiting,
    /// Code of the two programs that fills, reads and checks bytes.
    #[strum(serialize = "user code")]
    User,
}

impl PipeWork {
    /// All of them, in display order.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;
}

/// The method by which a part was obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PipeWorkBasis {
    /// Counted events times a price that was measured beforehand.
    CountsTimesPrice,
    /// Measured in this point: time asleep, time spinning, time in the code of the ends.
    Accounted,
}

/// One kind of work in the time of a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PipeWorkPart {
    pub work: PipeWork,
    /// Time of both ends, in nanoseconds for each GiB.
    pub per_gib_ns: f64,
    /// The method by which it was obtained.
    pub basis: PipeWorkBasis,
    /// Counts and prices in one phrase.
    pub evidence: String,
}

/// A line of a published profile of a rung, beside that of this machine. Both are shares (0..1) of all samples
/// of both ends, in one function of the producer's calls with all that it calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PublishedShare {
    pub work: PipeWork,
    /// The function, by its name in the published profile.
    pub function: String,
    pub published_share: f64,
    pub share: f64,
}

/// The parts of the time of one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PipeTimeAccount {
    /// Number of the point in the ladder, from 0.
    pub point: usize,
    /// Time of both ends, working or waiting, in nanoseconds for each GiB.
    pub per_gib_ns: f64,
    /// The kinds of work that make up the time.
    pub parts: Vec<PipeWorkPart>,
    /// `per_gib_ns` minus all parts. It is negative if counts and prices give more time than passed.
    pub unexplained_per_gib_ns: f64,
    /// Kinds of work that occur here and have no price. Their time is in the unexplained rest.
    pub not_priced: Vec<PipeWork>,
    /// Kernel samples of both processes, from separate runs.
    pub samples: Fact<CpuSamples>,
    /// Kinds for which prices and samples differ by more than a fifth, one sentence each.
    pub disagreements: Vec<String>,
    /// The lines of the published profile of this rung; empty without samples, or if none was published.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<PublishedShare>,
}

impl PipeTimeAccount {
    /// Time of one kind of work, in nanoseconds for each GiB; 0 if there is no such work.
    #[must_use]
    pub fn part_ns(&self, work: PipeWork) -> f64 {
        self.parts.iter().filter(|p| p.work == work).map(|p| p.per_gib_ns).sum()
    }
}

/// The faster of two points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PointSpeed {
    Faster,
    Slower,
    /// The repeats do not decide.
    CannotTell,
}

/// One point compared with another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PipeRatio {
    /// Rate of the second divided by the rate of the first.
    pub ratio: f64,
    /// 95% interval of the ratio; missing if there are fewer repeats than it needs.
    pub interval: Fact<(f64, f64)>,
    /// Speed of the second point compared with the first.
    pub pace: PointSpeed,
}

/// The step from one rung to the next, under the same consumption.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RungStep {
    /// Number of the point before the step, from 0.
    pub from: usize,
    /// Number of the point after the step.
    pub to: usize,
    /// Comparison of the two rates.
    pub comparison: PipeRatio,
    /// Change of the time of both ends, in nanoseconds for each GiB. Negative is cheaper.
    pub change_per_gib_ns: f64,
    /// Change by kind of work, the largest first.
    pub parts: Vec<(PipeWork, f64)>,
    /// The change that no part explains.
    pub unexplained_per_gib_ns: f64,
}

/// Sizes that suit, from a grid over buffer and pipe sizes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PipeSizeAdvice {
    /// The technique, by the name of a rung.
    pub rung: String,
    /// Treatment of the bytes at the far end.
    pub consumption: PipeConsumption,
    /// Buffer size of the fastest point.
    pub buffer_bytes: Bytes,
    /// Pipe capacity of the fastest point.
    pub pipe_bytes: Bytes,
    /// Rate of the fastest point.
    pub gib_per_s: f64,
    /// Smallest pipe that this grid cannot distinguish from the fastest.
    pub enough_pipe_bytes: Bytes,
    /// The rule that applies, and whether the grid confirms it.
    pub why: String,
}

/// Prices that only a ladder needs, in nanoseconds, measured before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReferencePrices {
    /// Filling one slot by reference, emptying it into /dev/null and releasing it.
    pub slot_ns: Fact<f64>,
    /// Looking up and holding one base page, by itself.
    pub pin_base_ns: Fact<f64>,
    /// The same for each base page's worth of a huge page.
    pub pin_huge_ns: Fact<f64>,
    /// Finding one base page of a file in the page cache and holding it, by itself.
    pub cache_base_ns: Fact<f64>,
    /// The same for each base page's worth of a huge page of the cache.
    pub cache_huge_ns: Fact<f64>,
    /// Reading the bytes of one base page from base pages passed by reference.
    #[serde(default = "not_taken")]
    pub read_base_ns: Fact<f64>,
    /// The same from huge pages.
    #[serde(default = "not_taken")]
    pub read_huge_ns: Fact<f64>,
    /// CPU time of both sides of a hand-over between two CPUs, including its two calls.
    #[serde(default = "not_taken")]
    pub hand_over_cpu_ns: Fact<f64>,
    /// Extra cost of a slot if another core empties it.
    #[serde(default)]
    pub apart: CrossCorePrices,
    /// The same if both ends slept before each piece.
    #[serde(default)]
    pub asleep: CrossCorePrices,
}

/// Extra cost of a slot if another core empties it, by the content of the slot. Nanoseconds of CPU time of
/// both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CrossCorePrices {
    /// A page of the kernel, passed by reference.
    pub slot_ns: Fact<f64>,
    /// A base page of the producer.
    pub pin_base_ns: Fact<f64>,
    /// A part of a huge page of the producer.
    pub pin_huge_ns: Fact<f64>,
    /// A base page of the page cache of a file.
    pub cache_base_ns: Fact<f64>,
    /// A part of a huge page of the page cache of a file.
    pub cache_huge_ns: Fact<f64>,
    /// A page that one core wrote and the other reads.
    pub copied_ns: Fact<f64>,
    /// A base page passed by reference on one core and read on the other.
    #[serde(default = "not_taken")]
    pub read_base_ns: Fact<f64>,
    /// A part of a huge page passed by reference on one core and read on the other.
    #[serde(default = "not_taken")]
    pub read_huge_ns: Fact<f64>,
    /// As `read_base_ns`, if the bytes are written again each time.
    #[serde(default = "not_taken")]
    pub renewed_base_ns: Fact<f64>,
    /// As `read_huge_ns`, if the bytes are written again each time.
    #[serde(default = "not_taken")]
    pub renewed_huge_ns: Fact<f64>,
}

fn not_taken() -> Fact<f64> {
    Fact::missing("not measured")
}

impl Default for CrossCorePrices {
    fn default() -> Self {
        Self::missing("not measured")
    }
}

impl CrossCorePrices {
    /// No prices, all for the same reason.
    #[must_use]
    pub fn missing(reason: &str) -> Self {
        let missing = || Fact::missing(reason);
        Self {
            slot_ns: missing(),
            pin_base_ns: missing(),
            pin_huge_ns: missing(),
            cache_base_ns: missing(),
            cache_huge_ns: missing(),
            copied_ns: missing(),
            read_base_ns: missing(),
            read_huge_ns: missing(),
            renewed_base_ns: missing(),
            renewed_huge_ns: missing(),
        }
    }
}

impl ReferencePrices {
    /// No prices, all for the same reason.
    #[must_use]
    pub fn missing(reason: &str) -> Self {
        let missing = || Fact::missing(reason);
        Self {
            slot_ns: missing(),
            pin_base_ns: missing(),
            pin_huge_ns: missing(),
            cache_base_ns: missing(),
            cache_huge_ns: missing(),
            read_base_ns: missing(),
            read_huge_ns: missing(),
            hand_over_cpu_ns: missing(),
            apart: CrossCorePrices::missing(reason),
            asleep: CrossCorePrices::missing(reason),
        }
    }
}

/// All conclusions from one ladder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PipeJudgement {
    /// Prices that only a ladder needs.
    pub prices: ReferencePrices,
    /// The parts of the time of each point that has samples.
    pub accounts: Vec<PipeTimeAccount>,
    /// Steps from rung to rung.
    pub steps: Vec<RungStep>,
    /// Sizes that suit.
    pub advice: Vec<PipeSizeAdvice>,
    /// Advice for this machine, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sentences: Vec<String>,
}

impl PipeJudgement {
    /// The account of one point.
    #[must_use]
    pub fn account(&self, point: usize) -> Option<&PipeTimeAccount> {
        self.accounts.iter().find(|account| account.point == point)
    }
}
