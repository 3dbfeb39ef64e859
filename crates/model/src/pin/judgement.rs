//! What is concluded from pinning: a price for each page and for each call, its share of a transfer, what
//! huge pages are worth, what becomes of published figures, and what to do.

use super::Way;
use crate::ladder::Claim;
use crate::measured::{Fact, Measured};
use crate::units::Bytes;
use crate::walk::PageKind;
use serde::{Deserialize, Serialize};

/// What pinning costs by one way on one kind of page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// The way.
    pub way: Way,
    /// The pages.
    pub pages: PageKind,
    /// For each base page of a piece, pinned and let go: from the smallest size to the largest.
    pub page_ns: Fact<Measured>,
    /// For each call beside its pages.
    pub call_ns: Fact<Measured>,
}

/// How much of a transfer through a pipe by vmsplice and splice is pinning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// The pages.
    pub pages: PageKind,
    /// Bytes of a call.
    pub size_bytes: Bytes,
    /// Of the call of vmsplice.
    pub of_call_share: Fact<f64>,
    /// Of the call and of emptying the pipe together.
    pub of_transfer_share: Fact<f64>,
    /// Rate of the transfer by one thread that fills and empties in turn.
    pub transfer_gib_per_s: Fact<Measured>,
}

/// Larger pages against base pages, by one way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The way.
    pub way: Way,
    /// The larger pages.
    pub pages: PageKind,
    /// What a call and its release take for each page, over the same on base pages; below 1 the larger
    /// pages are cheaper.
    pub ratio: f64,
    /// Its 95% interval; missing with fewer repeats than one needs.
    pub interval: Fact<(f64, f64)>,
}

/// All conclusions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// Prices by way and kind of page.
    pub prices: Vec<Price>,
    /// Shares by kind of page and size.
    pub shares: Vec<Share>,
    /// Larger pages against base pages.
    pub ratios: Vec<Ratio>,
    /// Published figures, set beside this machine's.
    pub claims: Vec<Claim>,
    /// What this machine should do: three sentences.
    pub advice: Vec<String>,
}
