//! What a time is made of, and how much of it a demand has.

use super::Demand;
use crate::units::{Bytes, PageSize};
use crate::walk::Order;
use serde::{Deserialize, Serialize};

/// A file of this size stays in the caches near a core from one pass to the next.
pub const NEAR: Bytes = Bytes::mib(2);
/// One of this size does not.
pub const FAR: Bytes = Bytes::mib(32);
/// Blocks beyond this no longer stay in the first-level cache while they are put into a buffer.
pub const SPILL: Bytes = Bytes::kib(32);
/// Blocks beyond this fill a good part of the second-level cache.
pub const SPILL_FAR: Bytes = Bytes::kib(256);

/// Something that has a price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Term {
    /// Whatever comes once.
    Once,
    /// A base page of the file.
    Page,
    /// A byte of the block, which buffers grow with.
    BufferByte,
    /// A block: call, lookup, loop.
    Block,
    /// A byte of the first page of each block, which no stream has brought near.
    LeadByte,
    /// A byte.
    Byte,
    /// A byte of a block beyond [`SPILL`].
    SpillByte,
    /// A byte of a block beyond [`SPILL_FAR`].
    FarSpillByte,
    /// A byte of a file that does not stay near: as much of it as the file is beyond [`NEAR`].
    FarByte,
    /// A byte of a file that stays near, when it comes there first.
    NearByte,
    /// A block at random, for each doubling of the file beyond [`NEAR`]: translation, and the first line.
    Reach,
}

impl Term {
    /// Those that set-up and tear-down are made of.
    pub const FIXED: [Self; 3] = [Self::Once, Self::Page, Self::BufferByte];
    /// Those of a pass.
    pub const PASS: [Self; 7] = [
        Self::Block,
        Self::LeadByte,
        Self::Byte,
        Self::SpillByte,
        Self::FarSpillByte,
        Self::FarByte,
        Self::Reach,
    ];
    /// Those of what a first pass takes more.
    pub const FIRST: [Self; 2] = [Self::Page, Self::NearByte];
    /// Those of what is not cached.
    pub const DEVICE: [Self; 2] = [Self::Page, Self::Block];

    /// It grows with the number of blocks, not with the bytes.
    #[must_use]
    pub const fn is_of_blocks(self) -> bool {
        matches!(self, Self::Block | Self::LeadByte | Self::Reach)
    }
}

/// How much of `term` a pass over `span` bytes has.
#[must_use]
pub fn amounts(term: Term, demand: &Demand, span: Bytes, page: PageSize) -> f64 {
    let (bytes, block) = (span.0 as f64, demand.block_bytes.0.max(1) as f64);
    let blocks = span.0.div_ceil(demand.block_bytes.0.max(1)) as f64;
    let doublings = (bytes / NEAR.0 as f64).log2().max(0.0);
    let far = (doublings / (FAR.0 as f64 / NEAR.0 as f64).log2()).min(1.0);
    let beyond = |size: Bytes| bytes / block * (block - size.0 as f64).max(0.0);
    match term {
        Term::Once => 1.0,
        Term::Page => span.pages(page) as f64,
        Term::BufferByte => block,
        Term::Block => blocks,
        Term::LeadByte => (bytes / block) * block.min(page.bytes() as f64),
        Term::Byte => bytes,
        Term::SpillByte => beyond(SPILL),
        Term::FarSpillByte => beyond(SPILL_FAR),
        Term::FarByte => bytes * far,
        Term::NearByte => bytes * (1.0 - far),
        Term::Reach if demand.order == Order::Random => blocks * doublings,
        Term::Reach => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(block_bytes: Bytes, order: Order) -> Demand {
        Demand { order, block_bytes, passes: 1, threads: 1 }
    }

    #[test]
    fn amounts_are_those_of_the_file() {
        let of = |term, block| {
            let demand = demand(block, Order::Random);
            amounts(term, &demand, Bytes::mib(8), PageSize::BASE_4K)
        };
        assert_eq!((of(Term::Once, SPILL), of(Term::Page, SPILL)), (1.0, 2048.0));
        assert_eq!((of(Term::Block, SPILL), of(Term::BufferByte, SPILL)), (256.0, 32_768.0));
        assert_eq!(of(Term::LeadByte, Bytes::kib(16)), 2_097_152.0);
        assert_eq!(of(Term::LeadByte, Bytes(512)), 8_388_608.0);
        assert_eq!(
            (of(Term::SpillByte, SPILL), of(Term::SpillByte, Bytes::kib(64))),
            (0.0, 4_194_304.0)
        );
        assert_eq!(of(Term::FarSpillByte, Bytes::mib(1)), 8_388_608.0 * 0.75);
        assert_eq!(of(Term::Reach, SPILL), 512.0);
        assert_eq!(of(Term::FarByte, SPILL) + of(Term::NearByte, SPILL), 8_388_608.0);
        assert_eq!(of(Term::FarByte, SPILL), 4_194_304.0);
    }

    #[test]
    fn small_files_stay_near_and_order_needs_no_reach() {
        let of = |term, span| {
            amounts(term, &demand(Bytes::kib(4), Order::Sequential), span, PageSize::BASE_4K)
        };
        assert_eq!((of(Term::FarByte, Bytes(1)), of(Term::NearByte, Bytes(1))), (0.0, 1.0));
        assert_eq!((of(Term::Block, Bytes(4097)), of(Term::Page, Bytes(4097))), (2.0, 2.0));
        assert_eq!(of(Term::Reach, Bytes::gib(1)), 0.0);
        assert_eq!(of(Term::FarByte, Bytes::gib(1)), 1_073_741_824.0);
    }
}
