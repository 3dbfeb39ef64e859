//! What is concluded from first touches.

use super::Way;
use crate::ladder::Claim;
use crate::measured::Fact;
use serde::{Deserialize, Serialize};

/// One way against its baseline ([`Way::baseline`]), with as many threads, all of it together: making,
/// touching, giving back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The way.
    pub way: Way,
    /// It used one base page in so many.
    pub every_pages: u64,
    /// So many threads touched.
    pub threads: u32,
    /// Time for each page used over that of the baseline; below 1 it is faster.
    pub ratio: f64,
    /// Its 95% interval; missing with fewer repeats than one needs.
    pub interval: Fact<(f64, f64)>,
}

/// All conclusions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// Every way against its baseline.
    pub ratios: Vec<Ratio>,
    /// What is said of these calls, and whether it holds here.
    pub claims: Vec<Claim>,
    /// What this machine should do: three sentences.
    pub advice: Vec<String>,
}
