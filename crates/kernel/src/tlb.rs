//! TLB entries as the processor claims them: decoding of CPUID registers.
//!
//! AMD: leaves 0x8000_0005 (first level), 0x8000_0006 (second level) and 0x8000_0019 (1 GiB pages),
//! AMD64 Architecture Programmer's Manual volume 3, appendix E. Intel: one-byte descriptors in leaf
//! 2; the descriptor 0xFE says that leaf 0x18 has the parameters instead (Software Developer's
//! Manual volume 2, CPUID). A hypervisor may blank or invent all of it: an empty list means that
//! nothing is claimed, not that there is no TLB.
//!
//! From family 1Ah on (Zen 5), AMD counts the second level in units of 32, and leaf 0x8000_0021 says so (EAX
//! bit 14, L2TlbSizeX32). A hypervisor that does not know the bit hides it, and then the figure is 32 times
//! too small. For such a family without the bit, both readings are given. On processors with several kinds of
//! cores, the result is for the core that runs the query.

use crate::cpuid::{self, CpuidRegisters};
use crate::proc::cpuinfo;
use pagewise_model::bench::tlb::TlbSide as Side;
use pagewise_model::code_tlb::CodeTlb;
use pagewise_model::{Bytes, PageSize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuidTlb {
    /// 1 or 2.
    pub level: u8,
    /// What it translates.
    pub side: Side,
    /// The page sizes that share its entries, as text ("4K", "2M/4M", ...).
    pub pages: &'static str,
    pub entries: u32,
    /// Number of entries if the figure is in a larger unit; `None` if it is unambiguous.
    pub scaled: Option<u32>,
}

impl CpuidTlb {
    /// The page sizes that share its entries; sizes without a name are left out.
    #[must_use]
    pub fn page_sizes(&self) -> Vec<PageSize> {
        let sizes = self.pages.split('/').filter_map(|size| size.parse::<Bytes>().ok());
        sizes.filter_map(|size| PageSize::new(size.0)).collect()
    }
}

/// The TLBs that the current processor claims; empty if it claims nothing.
#[must_use]
pub fn claimed() -> Vec<CpuidTlb> {
    let info = cpuinfo::read().unwrap_or_default();
    match info.vendor.as_str() {
        "AuthenticAMD" | "HygonGenuine" => amd(&AmdLeaves {
            first: cpuid::leaf(0x8000_0005, 0),
            second: cpuid::leaf(0x8000_0006, 0),
            giant: cpuid::leaf(0x8000_0019, 0),
            extended: cpuid::leaf(0x8000_0021, 0),
            family: info.family.unwrap_or(0),
        }),
        "GenuineIntel" => intel(cpuid::leaf(2, 0).unwrap_or_default(), &leaf18()),
        _ => Vec::new(),
    }
}

/// Entries of the first-level TLB for code, by the claims of the current processor.
#[must_use]
pub fn code() -> CodeTlb {
    code_of(&claimed())
}

/// A usual size, for processors that claim none.
const USUAL: u32 = 64;

fn code_of(claims: &[CpuidTlb]) -> CodeTlb {
    let entries = |page| {
        let serves = |tlb: &&CpuidTlb| tlb.level == 1 && tlb.side.serves_code();
        let of_page = claims.iter().filter(serves).filter(|tlb| tlb.page_sizes().contains(&page));
        of_page.map(|tlb| tlb.entries).max()
    };
    let (base, huge) = (entries(PageSize::BASE_4K), entries(PageSize::PMD_2M));
    CodeTlb {
        base_entries: base.unwrap_or(USUAL),
        huge_entries: huge.or(base).unwrap_or(USUAL),
        is_assumed: base.is_none(),
    }
}

fn leaf18() -> Vec<CpuidRegisters> {
    const MOST: u32 = 32;
    let last = cpuid::leaf(0x18, 0).map_or(0, |r| r.eax.min(MOST));
    (0..=last).filter_map(|sub| cpuid::leaf(0x18, sub)).collect()
}

/// The leaves needed for decoding; missing ones are `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AmdLeaves {
    /// 0x8000_0005.
    pub first: Option<CpuidRegisters>,
    /// 0x8000_0006.
    pub second: Option<CpuidRegisters>,
    /// 0x8000_0019.
    pub giant: Option<CpuidRegisters>,
    /// 0x8000_0021.
    pub extended: Option<CpuidRegisters>,
    /// Family of the processor.
    pub family: u32,
}

/// The TLBs that an AMD processor claims.
#[must_use]
pub(crate) fn amd(leaves: &AmdLeaves) -> Vec<CpuidTlb> {
    // The 12-bit fields of the second level overflow from 4096 entries on; then they count in 32s.
    const L2_TLB_SIZE_X32: u32 = 1 << 14;
    const FIRST_FAMILY_X32: u32 = 0x1a;
    let scaled = leaves.extended.is_some_and(|r| r.eax & L2_TLB_SIZE_X32 != 0);
    let unit = if scaled { 32 } else { 1 };
    let is_hidden = !scaled && leaves.family >= FIRST_FAMILY_X32;
    let mut found = Vec::new();
    if let Some(r) = leaves.first {
        for (register, pages) in [(r.ebx, "4K"), (r.eax, "2M")] {
            found.push(tlb(1, Side::Data, pages, register >> 16 & 0xff));
            found.push(tlb(1, Side::Code, pages, register & 0xff));
        }
    }
    let wide = [
        (1, leaves.giant.map(|r| r.eax), "1G", 1),
        (2, leaves.second.map(|r| r.ebx), "4K", unit),
        (2, leaves.second.map(|r| r.eax), "2M", unit),
        (2, leaves.giant.map(|r| r.ebx), "1G", unit),
    ];
    for (level, register, pages, unit) in wide {
        let Some(register) = register else { continue };
        for (side, count) in [(Side::Data, register >> 16 & 0xfff), (Side::Code, register & 0xfff)]
        {
            let scaled = (level == 2 && is_hidden).then_some(count * 32);
            found.push(CpuidTlb { scaled, ..tlb(level, side, pages, count * unit) });
        }
    }
    found.retain(|t| t.entries > 0);
    found
}

const fn tlb(level: u8, side: Side, pages: &'static str, entries: u32) -> CpuidTlb {
    CpuidTlb { level, side, pages, entries, scaled: None }
}

/// The TLBs that an Intel processor claims: `leaf2`, and the subleaves of leaf 0x18 from 0 on.
#[must_use]
pub(crate) fn intel(leaf2: CpuidRegisters, leaf18: &[CpuidRegisters]) -> Vec<CpuidTlb> {
    let bytes = descriptors(leaf2);
    let mut found: Vec<CpuidTlb> = bytes.iter().flat_map(|&b| descriptor(b)).collect();
    if bytes.contains(&0xfe) {
        found.extend(leaf18.iter().filter_map(|&r| parameters(r)));
    }
    found.sort_unstable();
    found
}

/// The descriptor bytes of leaf 2: three of EAX, whose lowest byte is a count, and four of each other
/// register. A register with its top bit set contains none.
fn descriptors(r: CpuidRegisters) -> Vec<u8> {
    let valid = |register: u32| register >> 31 == 0;
    let eax = [r.eax].into_iter().filter(|&e| valid(e)).flat_map(|e| e.to_le_bytes()[1..].to_vec());
    let rest = [r.ebx, r.ecx, r.edx].into_iter().filter(|&e| valid(e)).flat_map(u32::to_le_bytes);
    eax.chain(rest).filter(|&b| b != 0).collect()
}

/// Meaning of the descriptor bytes of leaf 2. Bytes that are missing here are caches or unknown.
const DESCRIPTORS: &[(u8, CpuidTlb)] = &[
    (0x01, tlb(1, Side::Code, "4K", 32)),
    (0x02, tlb(1, Side::Code, "4M", 2)),
    (0x03, tlb(1, Side::Data, "4K", 64)),
    (0x04, tlb(1, Side::Data, "4M", 8)),
    (0x05, tlb(1, Side::Data, "4M", 32)),
    (0x0b, tlb(1, Side::Code, "4M", 4)),
    (0x4f, tlb(1, Side::Code, "4K", 32)),
    (0x50, tlb(1, Side::Code, "4K/2M/4M", 64)),
    (0x51, tlb(1, Side::Code, "4K/2M/4M", 128)),
    (0x52, tlb(1, Side::Code, "4K/2M/4M", 256)),
    (0x55, tlb(1, Side::Code, "2M/4M", 7)),
    (0x56, tlb(1, Side::Data, "4M", 16)),
    (0x57, tlb(1, Side::Data, "4K", 16)),
    (0x59, tlb(1, Side::Data, "4K", 16)),
    (0x5a, tlb(1, Side::Data, "2M/4M", 32)),
    (0x5b, tlb(1, Side::Data, "4K/4M", 64)),
    (0x5c, tlb(1, Side::Data, "4K/4M", 128)),
    (0x5d, tlb(1, Side::Data, "4K/4M", 256)),
    (0x61, tlb(1, Side::Code, "4K", 48)),
    (0x63, tlb(1, Side::Data, "2M/4M", 32)),
    (0x63, tlb(1, Side::Data, "1G", 4)),
    (0x64, tlb(1, Side::Data, "4K", 512)),
    (0x6a, tlb(1, Side::Data, "4K", 64)),
    (0x6b, tlb(2, Side::Data, "4K", 256)),
    (0x6c, tlb(2, Side::Data, "2M/4M", 128)),
    (0x6d, tlb(2, Side::Data, "1G", 16)),
    (0x76, tlb(1, Side::Code, "2M/4M", 8)),
    (0xa0, tlb(1, Side::Data, "4K", 32)),
    (0xb0, tlb(1, Side::Code, "4K", 128)),
    (0xb1, tlb(1, Side::Code, "2M", 8)),
    (0xb2, tlb(1, Side::Code, "4K", 64)),
    (0xb3, tlb(1, Side::Data, "4K", 128)),
    (0xb4, tlb(1, Side::Data, "4K", 256)),
    (0xb5, tlb(1, Side::Code, "4K", 64)),
    (0xb6, tlb(1, Side::Code, "4K", 128)),
    (0xba, tlb(1, Side::Data, "4K", 64)),
    (0xc0, tlb(1, Side::Data, "4K/4M", 8)),
    (0xc1, tlb(2, Side::Unified, "4K/2M", 1024)),
    (0xc2, tlb(1, Side::Data, "4K/2M", 16)),
    (0xc3, tlb(2, Side::Unified, "4K/2M", 1536)),
    (0xc3, tlb(2, Side::Unified, "1G", 16)),
    (0xc4, tlb(1, Side::Data, "2M/4M", 32)),
    (0xca, tlb(2, Side::Unified, "4K", 512)),
];

/// The TLBs that one descriptor byte describes.
fn descriptor(byte: u8) -> impl Iterator<Item = CpuidTlb> {
    DESCRIPTORS.iter().filter(move |(known, _)| *known == byte).map(|&(_, tlb)| tlb)
}

/// One subleaf of leaf 0x18; `None` for an empty one.
fn parameters(r: CpuidRegisters) -> Option<CpuidTlb> {
    let side = match r.edx & 0x1f {
        1 => Side::Data,
        2 => Side::Code,
        3 => Side::Unified,
        4 => Side::Load,
        5 => Side::Store,
        _ => return None,
    };
    let (ways, sets) = (r.ebx >> 16, r.ecx);
    let entries = ways.checked_mul(sets).filter(|&n| n > 0)?;
    let level = (r.edx >> 5 & 7) as u8;
    Some(CpuidTlb { level, side, pages: page_sizes(r.ebx & 0xf), entries, scaled: None })
}

/// The page sizes of a mask: bit 0 for 4K, 1 for 2M, 2 for 4M, 3 for 1G.
const fn page_sizes(mask: u32) -> &'static str {
    match mask {
        0b0001 => "4K",
        0b0010 => "2M",
        0b0100 => "4M",
        0b0110 => "2M/4M",
        0b1000 => "1G",
        0b0011 => "4K/2M",
        0b0101 => "4K/4M",
        0b0111 => "4K/2M/4M",
        0b1001 => "4K/1G",
        0b1011 => "4K/2M/1G",
        0b1110 => "2M/4M/1G",
        0b1111 => "4K/2M/4M/1G",
        _ => "other sizes",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn regs(eax: u32, ebx: u32, ecx: u32, edx: u32) -> CpuidRegisters {
        CpuidRegisters { eax, ebx, ecx, edx }
    }

    /// AMD Ryzen 5 3600X (Zen 2), registers as published in CPUID dumps.
    fn zen2() -> AmdLeaves {
        AmdLeaves {
            first: Some(regs(0xff40_ff40, 0xff40_ff40, 0x2008_0140, 0x2008_0140)),
            second: Some(regs(0x4800_6400, 0x6800_6400, 0x0200_6140, 0x0100_9140)),
            giant: Some(regs(0xf040_f040, 0, 0, 0)),
            extended: None,
            family: 0x17,
        }
    }

    #[test]
    fn amd_zen_2() {
        let found = amd(&zen2());
        assert_eq!(found.len(), 10);
        assert!(found.contains(&tlb(1, Side::Data, "4K", 64)));
        assert!(found.contains(&tlb(1, Side::Code, "1G", 64)));
        assert!(found.contains(&tlb(2, Side::Data, "4K", 2048)));
        assert!(found.contains(&tlb(2, Side::Data, "2M", 2048)));
        assert!(found.contains(&tlb(2, Side::Code, "4K", 1024)));
    }

    #[test]
    fn amd_sizes_in_units_of_32() {
        // Made by hand: 0x80 units of 32 entries for data, 0x40 for code.
        let mut leaves = zen2();
        leaves.second = Some(regs(0x4080_6040, 0x6080_6040, 0, 0));
        leaves.extended = Some(regs(1 << 14, 0, 0, 0));
        let found = amd(&leaves);
        assert!(found.contains(&tlb(2, Side::Data, "4K", 4096)));
        assert!(found.contains(&tlb(2, Side::Code, "2M", 2048)));
        assert!(found.contains(&tlb(1, Side::Data, "1G", 64)), "first level is not scaled");
        leaves.extended = Some(regs(!(1 << 14), 0, 0, 0));
        assert!(amd(&leaves).contains(&tlb(2, Side::Data, "4K", 128)));
        leaves.family = 0x1a;
        let hidden = amd(&leaves);
        let both = CpuidTlb { scaled: Some(4096), ..tlb(2, Side::Data, "4K", 128) };
        assert!(hidden.contains(&both), "both readings where the bit may be hidden");
        assert!(hidden.contains(&tlb(1, Side::Data, "4K", 64)));
    }

    #[test]
    fn page_sizes_that_share_entries() {
        let sizes = |pages| CpuidTlb { pages, ..tlb(1, Side::Data, "", 1) }.page_sizes();
        assert_eq!(sizes("4K/2M"), [PageSize::BASE_4K, PageSize::PMD_2M]);
        assert_eq!(sizes("1G"), [PageSize::new(Bytes::gib(1).0).unwrap()]);
        assert_eq!(sizes("other sizes"), []);
    }

    #[test]
    fn intel_cascade_lake_by_descriptors() {
        // Intel Xeon Gold 6252, published in CPUID dumps.
        let found = intel(regs(0x7603_6301, 0x00f0_b5ff, 0, 0x00c3_0000), &[]);
        let wanted = [
            tlb(1, Side::Data, "1G", 4),
            tlb(1, Side::Data, "2M/4M", 32),
            tlb(1, Side::Data, "4K", 64),
            tlb(1, Side::Code, "2M/4M", 8),
            tlb(1, Side::Code, "4K", 64),
            tlb(2, Side::Unified, "1G", 16),
            tlb(2, Side::Unified, "4K/2M", 1536),
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn intel_alder_lake_by_parameters() {
        // Intel Core i7-12700K, published in CPUID dumps.
        let leaf18 = [
            regs(8, 0, 0, 0),
            regs(0, 0x0008_0001, 0x20, 0x4022),
            regs(0, 0x0008_0006, 0x04, 0x4022),
            regs(0, 0x0010_000f, 0x01, 0x4125),
            regs(0, 0x0004_0001, 0x10, 0x4024),
            regs(0, 0x0004_0006, 0x08, 0x4024),
            regs(0, 0x0008_0008, 0x01, 0x4124),
            regs(0, 0x0008_0007, 0x80, 0x4043),
            regs(0, 0x0008_0009, 0x80, 0x4043),
        ];
        let found = intel(regs(0x00fe_ff01, 0xf0, 0, 0), &leaf18);
        let wanted = [
            tlb(1, Side::Load, "1G", 8),
            tlb(1, Side::Load, "2M/4M", 32),
            tlb(1, Side::Load, "4K", 64),
            tlb(1, Side::Store, "4K/2M/4M/1G", 16),
            tlb(1, Side::Code, "2M/4M", 32),
            tlb(1, Side::Code, "4K", 256),
            tlb(2, Side::Unified, "4K/1G", 1024),
            tlb(2, Side::Unified, "4K/2M/4M", 1024),
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn the_entries_for_code_are_those_of_the_first_level() {
        let code = code_of(&amd(&zen2()));
        assert_eq!((code.base_entries, code.huge_entries, code.is_assumed), (64, 64, false));
        let lake = code_of(&intel(regs(0x7603_6301, 0x00f0_b5ff, 0, 0x00c3_0000), &[]));
        assert_eq!((lake.base_entries, lake.huge_entries), (64, 8));
        assert!(code_of(&[]).is_assumed);
    }

    #[test]
    fn a_guest_that_claims_nothing() {
        // A guest whose hypervisor blanks leaf 0x18 and stops at extended leaf 8.
        assert!(intel(regs(0x00fe_ff01, 0xf0, 0, 0), &[CpuidRegisters::default(); 9]).is_empty());
        assert!(amd(&AmdLeaves::default()).is_empty());
        assert!(intel(regs(0x8000_0301, 0x8000_0003, 0, 0), &[]).is_empty());
    }

    proptest! {
        #[test]
        fn any_registers_are_accepted(a: u32, b: u32, c: u32, d: u32) {
            let r = regs(a, b, c, d);
            let _ = intel(r, &[r, r]);
            let all = Some(r);
            let leaves =
                AmdLeaves { first: all, second: all, giant: all, extended: all, family: a };
            prop_assert!(amd(&leaves).iter().all(|t| t.entries > 0));
        }
    }
}
