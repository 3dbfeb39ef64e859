//! Conclusions from readings.

use crate::bench::pipe::BenchClaim;
use crate::measured::Fact;
use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

/// A cell that did other work than requested. It is not compared with other cells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RefusedCell {
    /// Number of the point, from 0.
    pub point: usize,
    /// The difference that its ledger shows.
    pub why: String,
}

/// The time of one point divided by that of another with the same work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileRatio {
    /// Number of the point, from 0.
    pub point: usize,
    /// Number of the base point: read() of the same blocks.
    pub base: usize,
    /// Time divided by that of the base. Below 1 the point is faster.
    pub ratio: f64,
    /// 95% interval of the ratio; missing if there are fewer repeats than it needs.
    pub interval: Fact<(f64, f64)>,
}

/// A kind of work in reading a file.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum FileWork {
    /// Entering and leaving the kernel.
    #[strum(serialize = "entry and exit")]
    Entry,
    /// The rest of a reading call apart from its copy: descriptor, folio, checks.
    Lookup,
    /// Copying bytes out of the cache, by the kernel.
    #[strum(serialize = "copy by the kernel")]
    KernelCopy,
    /// Copying bytes out of the mapping, by the program.
    #[strum(serialize = "copy by the program")]
    UserCopy,
    /// Summing bytes in place, by the program.
    #[strum(serialize = "sum in place")]
    Sum,
    /// Reaching a block, apart from its bytes. In a mapping this is the loop. In random order it is what is
    /// far away: translation, the first line, and the kernel's data about the block. For a call it is the
    /// cost above that in sequential order.
    #[strum(serialize = "reaching a block")]
    Reach,
    /// Page faults on the mapping.
    Faults,
    /// Page faults on memory that blocks are put into for the first time.
    #[strum(serialize = "fresh memory")]
    FreshMemory,
    /// Mapping pages by a populating call.
    #[strum(serialize = "populating")]
    Populate,
    /// Unmapping pages.
    #[strum(serialize = "unmapping")]
    Unmap,
    /// Opening, mapping and closing, without the part that grows with the number of pages.
    #[strum(serialize = "opening and closing")]
    Open,
    /// Sleeping until the device answers.
    #[strum(serialize = "waiting")]
    Wait,
}

/// One kind of work in the time of a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileWorkPart {
    pub work: FileWork,
    pub per_gib_ns: f64,
    /// Counts and prices in one phrase.
    pub evidence: String,
}

/// The parts of the time of one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileTimeAccount {
    /// Number of the point, from 0.
    pub point: usize,
    /// Time from the first call to the last, in nanoseconds for each GiB: the median of a cold cell, the
    /// undisturbed time of a warm one.
    pub per_gib_ns: f64,
    /// Excess of the median over that time, in nanoseconds for each GiB: other programs on the CPU, or a
    /// slower core or memory.
    #[serde(default)]
    pub disturbed_per_gib_ns: f64,
    /// The kinds of work that make up the time.
    pub parts: Vec<FileWorkPart>,
    /// `per_gib_ns` minus all parts. It is negative if counts and prices give more time than passed.
    pub unexplained_per_gib_ns: f64,
}

impl FileTimeAccount {
    /// Share of the time that the parts explain: 1 minus their error in either direction.
    #[must_use]
    pub fn explained_share(&self) -> f64 {
        (1.0 - self.unexplained_per_gib_ns.abs() / self.per_gib_ns.max(f64::MIN_POSITIVE)).max(0.0)
    }

    /// Share of the whole median time that is disturbance.
    #[must_use]
    pub fn disturbed_share(&self) -> f64 {
        self.disturbed_per_gib_ns
            / (self.per_gib_ns + self.disturbed_per_gib_ns).max(f64::MIN_POSITIVE)
    }

    /// Share of the time that these kinds of work take.
    #[must_use]
    pub fn share(&self, works: &[FileWork]) -> f64 {
        let of = self.parts.iter().filter(|part| works.contains(&part.work));
        of.map(|part| part.per_gib_ns).sum::<f64>() / self.per_gib_ns.max(f64::MIN_POSITIVE)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileJudgement {
    /// Cells that did other work than requested.
    pub refusals: Vec<RefusedCell>,
    /// Every other way compared with read().
    pub ratios: Vec<FileRatio>,
    /// The time of each cell with one thread, as counts times prices; empty without prices.
    pub accounts: Vec<FileTimeAccount>,
    /// Findings of the published study, and whether they hold here.
    pub claims: Vec<BenchClaim>,
    /// Advice for this machine: three sentences.
    pub advice: Vec<String>,
}

impl FileJudgement {
    /// Why a point was refused.
    #[must_use]
    pub fn refusal(&self, point: usize) -> Option<&str> {
        self.refusals.iter().find(|r| r.point == point).map(|r| r.why.as_str())
    }

    /// The parts of the time of a point.
    #[must_use]
    pub fn account(&self, point: usize) -> Option<&FileTimeAccount> {
        self.accounts.iter().find(|account| account.point == point)
    }

    /// A point compared with read().
    #[must_use]
    pub fn ratio(&self, point: usize) -> Option<&FileRatio> {
        self.ratios.iter().find(|r| r.point == point)
    }
}
