//! What is concluded from readings.

use crate::bench::pipe::Claim;
use crate::measured::Fact;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A cell that did other work than it was asked for: it is compared with nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refusal {
    /// Which point, from 0.
    pub point: usize,
    /// What its ledger shows.
    pub why: String,
}

/// The time of one point over that of another with the same work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    /// Which point, from 0.
    pub point: usize,
    /// The point it is compared with: read() of the same blocks.
    pub base: usize,
    /// Time over that of the base; below 1 it is faster.
    pub ratio: f64,
    /// Its 95% interval; missing with fewer repeats than one needs.
    pub interval: Fact<(f64, f64)>,
}

/// Work that reading costs.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum Work {
    /// Into the kernel and back.
    #[strum(serialize = "entry and exit")]
    Entry,
    /// The rest of a reading call beside its copy: descriptor, folio, checks.
    Lookup,
    /// The kernel copies bytes out of the cache.
    #[strum(serialize = "copy by the kernel")]
    KernelCopy,
    /// The program copies them out of the mapping.
    #[strum(serialize = "copy by the program")]
    UserCopy,
    /// The program adds them up where they lie.
    #[strum(serialize = "sum in place")]
    Sum,
    /// What a block costs beside its bytes, and by a call beside what it costs in order: in a mapping the
    /// loop, and in random order what is not near: translation, the first line, what the kernel keeps of it.
    #[strum(serialize = "reaching a block")]
    Reach,
    /// Page faults on the mapping.
    Faults,
    /// Page faults on memory that blocks are put into for the first time.
    #[strum(serialize = "fresh memory")]
    FreshMemory,
    /// Pages mapped by a populating call.
    #[strum(serialize = "populating")]
    Populate,
    /// Pages unmapped.
    #[strum(serialize = "unmapping")]
    Unmap,
    /// Opening, mapping, closing, beside what grows with the pages.
    #[strum(serialize = "opening and closing")]
    Open,
    /// Asleep, until the device has answered.
    #[strum(serialize = "waiting")]
    Wait,
}

/// One kind of work of one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkPart {
    pub work: Work,
    pub per_gib_ns: f64,
    /// Count and price in one phrase.
    pub evidence: String,
}

/// Where the time of one point goes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Account {
    /// Which point, from 0.
    pub point: usize,
    /// First call to last, for each GiB: of a cold cell the median, of a warm one undisturbed.
    pub per_gib_ns: f64,
    /// What the median took more than that: others on the CPU, slower core and memory.
    #[serde(default)]
    pub disturbed_per_gib_ns: f64,
    /// What it is made of.
    pub parts: Vec<WorkPart>,
    /// `per_gib_ns` less all parts; negative where counts and prices say more than passed.
    pub unexplained_per_gib_ns: f64,
}

impl Account {
    /// The share of the time that the parts tell, wherever they err: 1 less the error.
    #[must_use]
    pub fn explained_share(&self) -> f64 {
        (1.0 - self.unexplained_per_gib_ns.abs() / self.per_gib_ns.max(f64::MIN_POSITIVE)).max(0.0)
    }

    /// The share of the whole median time in which it was disturbed.
    #[must_use]
    pub fn disturbed_share(&self) -> f64 {
        self.disturbed_per_gib_ns
            / (self.per_gib_ns + self.disturbed_per_gib_ns).max(f64::MIN_POSITIVE)
    }

    /// The share of some kinds of work.
    #[must_use]
    pub fn share(&self, works: &[Work]) -> f64 {
        let of = self.parts.iter().filter(|part| works.contains(&part.work));
        of.map(|part| part.per_gib_ns).sum::<f64>() / self.per_gib_ns.max(f64::MIN_POSITIVE)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judgement {
    /// Cells that did other work.
    pub refusals: Vec<Refusal>,
    /// Every other way against read().
    pub ratios: Vec<Ratio>,
    /// Where the time of each cell with one thread goes, by counts times prices; empty without prices.
    pub accounts: Vec<Account>,
    /// What the published study found, and what holds here.
    pub claims: Vec<Claim>,
    /// What this machine should do: three sentences.
    pub advice: Vec<String>,
}

impl Judgement {
    /// Why a point is compared with nothing.
    #[must_use]
    pub fn refusal(&self, point: usize) -> Option<&str> {
        self.refusals.iter().find(|r| r.point == point).map(|r| r.why.as_str())
    }

    /// Where the time of a point goes.
    #[must_use]
    pub fn account(&self, point: usize) -> Option<&Account> {
        self.accounts.iter().find(|account| account.point == point)
    }

    /// A point against read().
    #[must_use]
    pub fn ratio(&self, point: usize) -> Option<&Ratio> {
        self.ratios.iter().find(|r| r.point == point)
    }
}
