//! What is concluded from jumps: what larger pages are worth by the size of the code, where the TLB ends,
//! what becomes of the processor's claims, and what to do.

use super::Order;
use crate::ladder::Claim;
use crate::measured::Fact;
use crate::units::Bytes;
use crate::walk::{Knee, PageKind, Steadiness};
use serde::{Deserialize, Serialize};

/// Larger pages against base pages, for code of one size in one order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The order.
    pub order: Order,
    /// The larger pages.
    pub pages: PageKind,
    /// Size of the code.
    pub set_bytes: Bytes,
    /// Time of a jump over that on base pages; below 1 the larger pages are faster.
    pub ratio: f64,
    /// Its 95% interval; missing with fewer mappings than one needs.
    pub interval: Fact<(f64, f64)>,
    /// Whether the next run finds the same.
    pub steadiness: Steadiness,
}

/// All conclusions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// Larger pages against base pages, for every order and size with both.
    pub ratios: Vec<Ratio>,
    /// Where translations of code run out, by kind of page, smallest first.
    pub knees: Vec<Knee>,
    /// What the processor claims of its TLBs for code, set beside the knees.
    pub claims: Vec<Claim>,
    /// What this machine should do: three sentences.
    pub advice: Vec<String>,
}
