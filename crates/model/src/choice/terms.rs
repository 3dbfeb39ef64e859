//! The terms of a time, and the amount of each that a demand has.

use super::ReadDemand;
use crate::bench::tlb::AccessOrder;
use crate::schema::JsonSchema;
use crate::units::{Bytes, PageSize};
use serde::{Deserialize, Serialize};

/// A file of this size stays in the caches near a core from one pass to the next.
pub const NEAR: Bytes = Bytes::mib(2);
/// A file of this size does not stay there.
pub const FAR: Bytes = Bytes::mib(32);
/// After this many bytes the hardware's streams have reached full speed. They begin again with each block at
/// random.
pub const RAMP: Bytes = Bytes::kib(16);
/// Blocks larger than this fill a good part of the second-level cache.
pub const SPILL: Bytes = Bytes::kib(256);

/// An amount that has a price.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CostTerm {
    /// Everything that occurs once.
    Once,
    /// A base page of the file.
    Page,
    /// A byte of the block: buffers grow with it.
    BufferByte,
    /// A block: its call, lookup and loop.
    Block,
    /// A byte of the first page of each block, which no stream has fetched.
    LeadByte,
    /// A byte of a block beyond its first page, up to [`RAMP`].
    RampByte,
    /// A byte of a block beyond [`RAMP`], up to [`SPILL`].
    Byte,
    /// A byte of a block beyond [`SPILL`].
    SpillByte,
    /// A byte of a file that does not stay near: the more the file exceeds [`NEAR`], the more of its bytes.
    FarByte,
    /// A byte of a file that stays near, when it is first read.
    NearByte,
    /// A block in random order, for each doubling of the file beyond [`NEAR`]: its translation and first
    /// line.
    Reach,
}

impl CostTerm {
    /// The terms of set-up and tear-down.
    pub const FIXED: [Self; 3] = [Self::Once, Self::Page, Self::BufferByte];
    /// The terms of a pass. Each byte of a block is one of four kinds, by its place, so that the cost of a
    /// block may grow with its size in any way.
    pub const PASS: [Self; 7] = [
        Self::Block,
        Self::LeadByte,
        Self::RampByte,
        Self::Byte,
        Self::SpillByte,
        Self::FarByte,
        Self::Reach,
    ];
    /// The terms of the excess of a first pass.
    pub const FIRST: [Self; 2] = [Self::Page, Self::NearByte];
    /// The terms of bytes that are not cached.
    pub const DEVICE: [Self; 2] = [Self::Page, Self::Block];

    /// True if it grows with the number of blocks, not with the bytes.
    #[must_use]
    pub const fn is_of_blocks(self) -> bool {
        matches!(self, Self::Block | Self::Reach)
    }
}

/// Amount of `term` in a pass over `span` bytes.
#[must_use]
pub fn amounts(term: CostTerm, demand: &ReadDemand, span: Bytes, page: PageSize) -> f64 {
    let (bytes, block) = (span.0 as f64, demand.block_bytes.0.max(1) as f64);
    let blocks = span.0.div_ceil(demand.block_bytes.0.max(1)) as f64;
    let doublings = (bytes / NEAR.0 as f64).log2().max(0.0);
    let far = (doublings / (FAR.0 as f64 / NEAR.0 as f64).log2()).min(1.0);
    let between = |from: f64, to: f64| bytes / block * (block.min(to) - from).max(0.0);
    let (lead, ramp, spill) = (page.bytes() as f64, RAMP.0 as f64, SPILL.0 as f64);
    match term {
        CostTerm::Once => 1.0,
        CostTerm::Page => span.pages(page) as f64,
        CostTerm::BufferByte => block,
        CostTerm::Block => blocks,
        CostTerm::LeadByte => between(0.0, lead),
        CostTerm::RampByte => between(lead, ramp),
        CostTerm::Byte => between(lead.max(ramp), spill),
        CostTerm::SpillByte => between(spill, f64::INFINITY),
        CostTerm::FarByte => bytes * far,
        CostTerm::NearByte => bytes * (1.0 - far),
        CostTerm::Reach if demand.order == AccessOrder::Random => blocks * doublings,
        CostTerm::Reach => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(block_bytes: Bytes, order: AccessOrder) -> ReadDemand {
        ReadDemand { order, block_bytes, passes: 1, threads: 1 }
    }

    #[test]
    fn amounts_are_those_of_the_file() {
        let of = |term, block| {
            let demand = demand(block, AccessOrder::Random);
            amounts(term, &demand, Bytes::mib(8), PageSize::BASE_4K)
        };
        let large = Bytes::kib(32);
        assert_eq!((of(CostTerm::Once, large), of(CostTerm::Page, large)), (1.0, 2048.0));
        assert_eq!(
            (of(CostTerm::Block, large), of(CostTerm::BufferByte, large)),
            (256.0, 32_768.0)
        );
        assert_eq!(of(CostTerm::LeadByte, Bytes::kib(16)), 2_097_152.0);
        assert_eq!(of(CostTerm::LeadByte, Bytes(512)), 8_388_608.0);
        assert_eq!((of(CostTerm::RampByte, RAMP), of(CostTerm::Byte, RAMP)), (6_291_456.0, 0.0));
        assert_eq!((of(CostTerm::Byte, large), of(CostTerm::SpillByte, SPILL)), (4_194_304.0, 0.0));
        assert_eq!(of(CostTerm::SpillByte, Bytes::mib(1)), 8_388_608.0 * 0.75);
        for block in [512, 9_728, 20_480, 1 << 20].map(Bytes) {
            let kinds = &CostTerm::PASS[1..5];
            let sum: f64 = kinds.iter().map(|term| of(*term, block)).sum();
            assert!((sum - 8_388_608.0).abs() < 1.0, "each byte is of one kind: {sum}");
        }
        assert_eq!(of(CostTerm::Reach, large), 512.0);
        assert_eq!(of(CostTerm::FarByte, large) + of(CostTerm::NearByte, large), 8_388_608.0);
        assert_eq!(of(CostTerm::FarByte, large), 4_194_304.0);
    }

    #[test]
    fn small_files_stay_near_and_order_needs_no_reach() {
        let of = |term, span| {
            amounts(term, &demand(Bytes::kib(4), AccessOrder::Sequential), span, PageSize::BASE_4K)
        };
        assert_eq!((of(CostTerm::FarByte, Bytes(1)), of(CostTerm::NearByte, Bytes(1))), (0.0, 1.0));
        assert_eq!((of(CostTerm::Block, Bytes(4097)), of(CostTerm::Page, Bytes(4097))), (2.0, 2.0));
        assert_eq!(of(CostTerm::Reach, Bytes::gib(1)), 0.0);
        assert_eq!(of(CostTerm::FarByte, Bytes::gib(1)), 1_073_741_824.0);
    }
}
