//! What is concluded from walks: what larger pages are worth at each size, where the TLB ends, what
//! becomes of the processor's claims, and what to do.

use super::{PageKind, Path};
use crate::ladder::Claim;
use crate::measured::Fact;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// Whether a figure of one run is that of the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Steadiness {
    /// It is.
    Steady,
    /// It differs from mapping to mapping and stays while a mapping does: which physical pages the
    /// kernel gave decides (caches and TLBs choose their sets by address).
    Placement,
    /// It differs while the mapping stays: others use the same core, caches or memory.
    Disturbed,
}

/// Larger pages against base pages, for one list over one set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The list.
    pub path: Path,
    /// The larger pages.
    pub pages: PageKind,
    /// The set.
    pub set_bytes: Bytes,
    /// Time of a load over that on base pages; below 1 the larger pages are faster.
    pub ratio: f64,
    /// Its 95% interval; missing with fewer mappings than one needs.
    pub interval: Fact<(f64, f64)>,
    /// Whether the next run finds the same.
    pub steadiness: Steadiness,
}

/// Where a growing number of pages begins to cost more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// The pages.
    pub pages: PageKind,
    /// From one line to the next.
    pub apart_bytes: Bytes,
    /// The last number of pages that costs no more than fewer.
    pub below_pages: u64,
    /// The first that does.
    pub above_pages: u64,
    /// Where the rise begins, by its shape.
    pub about_pages: u64,
    /// Cost of translation for each load before the rise.
    pub from_ns: f64,
    /// And behind it.
    pub to_ns: f64,
}

/// All conclusions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// Larger pages against base pages, for every list and set with both.
    pub ratios: Vec<Ratio>,
    /// Where translations run out, by kind of page, smallest first.
    pub knees: Vec<Knee>,
    /// What the processor claims of its TLBs, set beside the knees.
    pub claims: Vec<Claim>,
    /// In a virtual machine: cost of translation on huge pages, as a share of that on base pages, where
    /// both walk the same lines. Near 0 the host backs huge pages by huge pages; near 1 it backs them by
    /// base pages, and the TLB holds those.
    pub huge_translation_share: Fact<f64>,
    /// What this machine should do: three sentences.
    pub advice: Vec<String>,
}
