//! Memory without a file that a process writes (heap, stacks, arenas): the part on huge pages, the rest, and
//! the reasons.
//!
//! A slot counts as on a huge page if one entry of the page table maps it, or if it is a page of a reserved
//! pool (hugetlb). Memory that was only read and is the zero page counts as not touched.

use crate::address::ScannedRange;
use crate::schema::JsonSchema;
use crate::text::HugeStanding;
use crate::units::{Bytes, PageSize};
use serde::{Deserialize, Serialize};

/// A program's advice for a mapping (`madvise`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HugeAdvice {
    None,
    /// Huge pages are wanted (`MADV_HUGEPAGE`).
    Wanted,
    /// Huge pages are refused (`MADV_NOHUGEPAGE`, and since Linux 6.7 `MAP_STACK`, which thread stacks have).
    Refused,
}

/// The reserved pool that serves a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSeen {
    pub page: PageSize,
    /// True if a touch of absent memory would find no page: nothing is reserved for the mapping, all free
    /// pages are reserved for others, and the pool may take none from elsewhere.
    pub is_empty: bool,
}

/// Readings of one mapping.
#[derive(Debug, Clone, PartialEq)]
pub struct HeapSeen {
    /// Name of the mapping in `/proc/PID/maps`.
    pub name: String,
    /// First address of the mapping.
    pub start: u64,
    /// Address after the last one.
    pub end: u64,
    /// Advice of the program for the mapping.
    pub advice: HugeAdvice,
    /// Pool that serves the mapping; none if no pool does.
    pub pool: Option<PoolSeen>,
    /// Ranges of the mapping that are present, by address.
    pub populated: Vec<ScannedRange>,
}

/// Adjacent slots of the same standing, or the part of one slot that a mapping has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeapStretch {
    pub address: u64,
    pub length_bytes: Bytes,
    /// Huge, or the reason why not.
    #[serde(flatten)]
    pub standing: HugeStanding,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeapArea {
    /// Name of the mapping; empty if it has none.
    pub name: String,
    /// Size of the huge page that it could have.
    pub slot_bytes: PageSize,
    /// Bytes that exist, in memory or swapped out.
    pub populated_bytes: Bytes,
    /// The whole mapping, by address.
    pub stretches: Vec<HeapStretch>,
}

impl HeapArea {
    #[must_use]
    pub fn size(&self) -> Bytes {
        self.stretches.iter().fold(Bytes(0), |sum, stretch| sum + stretch.length_bytes)
    }

    /// Bytes on huge pages.
    #[must_use]
    pub fn huge(&self) -> Bytes {
        let huge = self.stretches.iter().filter(|stretch| stretch.standing == HugeStanding::Huge);
        huge.fold(Bytes(0), |sum, stretch| sum + stretch.length_bytes)
    }
}
