//! Memory of no file that a process writes (heap, stacks, arenas): what of it is on huge pages, what is not
//! and why.
//!
//! A slot counts as on a huge page when one entry of the page table maps it, or when it is a page of a reserved
//! pool (hugetlb). What was only read and is the zero page counts as not touched.

use crate::address::Scanned;
use crate::text::Standing;
use crate::units::{Bytes, PageSize};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A program's advice for a mapping (`madvise`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HugeAdvice {
    None,
    /// Huge pages, please (`MADV_HUGEPAGE`).
    Wanted,
    /// None (`MADV_NOHUGEPAGE`, and since Linux 6.7 `MAP_STACK`, which thread stacks have).
    Refused,
}

/// The reserved pool that a mapping is served from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSeen {
    pub page: PageSize,
    /// A touch of what is not there would find no page: nothing is set aside for the mapping, all that is free
    /// is set aside for others, and the pool may take none from elsewhere.
    pub is_empty: bool,
}

/// One mapping as it was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct HeapSeen {
    /// Its name, as `/proc/PID/maps` has it.
    pub name: String,
    /// Its first address.
    pub start: u64,
    /// The address after its last.
    pub end: u64,
    /// What was asked for it.
    pub advice: HugeAdvice,
    /// Its pool, where it has one.
    pub pool: Option<PoolSeen>,
    /// What of it is there, by address.
    pub populated: Vec<Scanned>,
}

/// Slots next to each other that stand alike, or the part of one that a mapping has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stretch {
    pub address: u64,
    pub length_bytes: Bytes,
    /// Huge, or why not.
    #[serde(flatten)]
    pub standing: Standing,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeapArea {
    /// Its name; empty where it has none.
    pub name: String,
    /// The huge page that it could have.
    pub slot_bytes: PageSize,
    /// What of it is there, in memory or swapped out.
    pub populated_bytes: Bytes,
    /// All of it, by address.
    pub stretches: Vec<Stretch>,
}

impl HeapArea {
    #[must_use]
    pub fn size(&self) -> Bytes {
        self.stretches.iter().fold(Bytes(0), |sum, stretch| sum + stretch.length_bytes)
    }

    /// How much of it is huge.
    #[must_use]
    pub fn huge(&self) -> Bytes {
        let huge = self.stretches.iter().filter(|stretch| stretch.standing == Standing::Huge);
        huge.fold(Bytes(0), |sum, stretch| sum + stretch.length_bytes)
    }
}
