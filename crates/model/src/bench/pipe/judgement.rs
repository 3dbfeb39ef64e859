//! What is concluded from a ladder: which point is faster, where the time of each goes, what became
//! cheaper from one rung to the next, and which sizes suit.
//!
//! Times are of both ends together, for each GiB: with an end on a CPU of its own, the wall time
//! counts twice, whether the end works or waits; with both on one CPU it counts once. So a part that
//! goes away in one end does not hide in the waiting of the other, and the parts and what stays
//! unexplained are together exactly the time that passed.

use super::Consumption;
use crate::look::Samples;
use crate::measured::Fact;
use crate::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Work that bytes cost on their way through a pipe.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum Work {
    /// The kernel copies bytes into the pipe, out of it, or on to a file.
    #[strum(serialize = "copies")]
    Copy,
    /// What it costs more that the other end is on another core: bytes, slots and page descriptors
    /// fetched from its caches, pages allocated on one core and freed on the other.
    #[strum(serialize = "between cores")]
    CacheTransfer,
    /// Pages of the pipe: allocated, charged and freed.
    #[strum(serialize = "page allocation")]
    PageAllocation,
    /// Pages of the producer looked up and held (`get_user_pages`).
    #[strum(serialize = "page pinning")]
    Pinning,
    /// Slots of the pipe filled, emptied and let go, for pages that go by reference.
    #[strum(serialize = "slots and release")]
    Slots,
    /// The pipe's lock and the rest of a call that moves bytes.
    Locks,
    /// Into the kernel and back.
    #[strum(serialize = "system calls")]
    Entry,
    /// Page faults of both ends.
    Faults,
    /// Sleeping ends woken.
    #[strum(serialize = "wake-ups")]
    Wakeups,
    /// Waiting for space or data: asleep, or calling again and again.
    Waiting,
    /// Code of the two programs: filling, reading and checking bytes.
    #[strum(serialize = "user code")]
    User,
}

impl Work {
    /// All kinds, in the order in which they are shown.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;
}

/// How a part was obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PartBasis {
    /// Counted events times a price that was taken before.
    CountsTimesPrice,
    /// Measured of this point itself: time asleep, time spun, time in the ends' own code.
    Accounted,
}

/// One kind of work of one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    pub work: Work,
    /// Time of both ends for each GiB.
    pub per_gib_ns: f64,
    /// How it was obtained.
    pub basis: PartBasis,
    /// Counts and prices in one phrase.
    pub evidence: String,
}

/// Where the time of one point goes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Account {
    /// Which point of the ladder, from 0.
    pub point: usize,
    /// Time of both ends for each GiB, working or waiting.
    pub per_gib_ns: f64,
    /// What it is made of.
    pub parts: Vec<Part>,
    /// `per_gib_ns` less all parts; negative where counts and prices say more than passed.
    pub unexplained_per_gib_ns: f64,
    /// Kinds of work that happen here and have no price: their time is in what stays unexplained.
    pub not_priced: Vec<Work>,
    /// Kernel samples over both processes, from runs of their own.
    pub samples: Fact<Samples>,
    /// Kinds on which prices and samples differ by more than a fifth, as sentences.
    pub disagreements: Vec<String>,
}

impl Account {
    /// The time of one kind of work for each GiB; 0 if there is none.
    #[must_use]
    pub fn part_ns(&self, work: Work) -> f64 {
        self.parts.iter().filter(|p| p.work == work).map(|p| p.per_gib_ns).sum()
    }
}

/// Which of two points is faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    Faster,
    Slower,
    /// Their repeats do not tell.
    CannotTell,
}

/// One point against another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Rate of the second over rate of the first.
    pub ratio: f64,
    /// Its 95% interval; missing with fewer repeats than one needs.
    pub interval: Fact<(f64, f64)>,
    /// Which is faster.
    pub pace: Pace,
}

/// From one rung to the next under the same consumption.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// Point that it starts from, from 0.
    pub from: usize,
    /// Point that it leads to.
    pub to: usize,
    /// Which is faster.
    pub comparison: Comparison,
    /// Change of the time of both ends for each GiB; negative is cheaper.
    pub change_per_gib_ns: f64,
    /// The same by kind of work, the largest change first.
    pub parts: Vec<(Work, f64)>,
    /// The change that no part explains.
    pub unexplained_per_gib_ns: f64,
}

/// Sizes that suit, from a grid over buffer and pipe sizes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Advice {
    /// The technique, by name of a rung.
    pub rung: String,
    /// What is done with the bytes.
    pub consumption: Consumption,
    /// Buffer of the fastest point.
    pub buffer_bytes: Bytes,
    /// What its pipe held.
    pub pipe_bytes: Bytes,
    /// Its rate.
    pub gib_per_s: f64,
    /// The smallest pipe that this grid cannot tell from the fastest.
    pub enough_pipe_bytes: Bytes,
    /// Which rule applies, and whether the grid bears it out.
    pub why: String,
}

/// Prices that only a ladder needs, taken before it. Nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReferencePrices {
    /// One slot filled by reference, emptied into /dev/null and let go.
    pub slot_ns: Fact<f64>,
    /// One base page looked up and held, by itself.
    pub pin_base_ns: Fact<f64>,
    /// The same for each base page's worth of a huge page.
    pub pin_huge_ns: Fact<f64>,
    /// One base page of a file found in the page cache and held, by itself.
    pub cache_base_ns: Fact<f64>,
    /// The same for each base page's worth of a huge page of the cache.
    pub cache_huge_ns: Fact<f64>,
    /// Reading the bytes of one base page out of base pages passed by reference.
    #[serde(default = "not_taken")]
    pub read_base_ns: Fact<f64>,
    /// The same out of huge pages.
    #[serde(default = "not_taken")]
    pub read_huge_ns: Fact<f64>,
    /// CPU time of both sides of a hand-over between two CPUs, with its two calls.
    #[serde(default = "not_taken")]
    pub hand_over_cpu_ns: Fact<f64>,
    /// What a slot costs more when another core empties it.
    #[serde(default)]
    pub apart: ApartPrices,
    /// The same where both ends have slept before each piece.
    #[serde(default)]
    pub asleep: ApartPrices,
}

/// What a slot costs more when another core empties it, by what is in it. Nanoseconds of CPU time of
/// both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApartPrices {
    /// A page of the kernel's own, by reference.
    pub slot_ns: Fact<f64>,
    /// A base page of the producer's.
    pub pin_base_ns: Fact<f64>,
    /// A part of a huge page of the producer's.
    pub pin_huge_ns: Fact<f64>,
    /// A base page of a file's cache.
    pub cache_base_ns: Fact<f64>,
    /// A part of a huge page of a file's cache.
    pub cache_huge_ns: Fact<f64>,
    /// A page that was written here and is read there.
    pub copied_ns: Fact<f64>,
    /// A base page passed by reference here and read there.
    #[serde(default = "not_taken")]
    pub read_base_ns: Fact<f64>,
    /// A part of a huge page passed by reference here and read there.
    #[serde(default = "not_taken")]
    pub read_huge_ns: Fact<f64>,
    /// As `read_base_ns`, of bytes that are written again each time.
    #[serde(default = "not_taken")]
    pub renewed_base_ns: Fact<f64>,
    /// As `read_huge_ns`, of bytes that are written again each time.
    #[serde(default = "not_taken")]
    pub renewed_huge_ns: Fact<f64>,
}

fn not_taken() -> Fact<f64> {
    Fact::missing("not measured")
}

impl Default for ApartPrices {
    fn default() -> Self {
        Self::missing("not measured")
    }
}

impl ApartPrices {
    /// No prices, for one reason.
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
    /// No prices, for one reason.
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
            apart: ApartPrices::missing(reason),
            asleep: ApartPrices::missing(reason),
        }
    }
}

/// All conclusions from one ladder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judgement {
    /// Prices that only a ladder needs.
    pub prices: ReferencePrices,
    /// Where the time of each point goes, for points with samples.
    pub accounts: Vec<Account>,
    /// From rung to rung.
    pub steps: Vec<Step>,
    /// Sizes that suit.
    pub advice: Vec<Advice>,
    /// What the machine should do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sentences: Vec<String>,
}

impl Judgement {
    /// The account of one point.
    #[must_use]
    pub fn account(&self, point: usize) -> Option<&Account> {
        self.accounts.iter().find(|account| account.point == point)
    }
}
