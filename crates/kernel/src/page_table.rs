//! How this machine's page tables divide an address, and which pages they can map.
//!
//! On x86 an address has 48 translated bits in four levels, or 57 in five if the kernel has enabled them. If
//! not, the kernel removes `la57` from `/proc/cpuinfo` (arch/x86/kernel/cpu/common.c). With five levels every
//! process walks all five, also for addresses below 47 bits. Other architectures do not report how many bits
//! they translate.

use crate::page_size;
use crate::proc::cpuinfo::CpuInfo;
use pagewise_model::address::AddressLayout;
use pagewise_model::{Bytes, PageSize};

/// The layout for the processor of `info`; `None` for an architecture that does not report it.
#[must_use]
pub fn layout(info: &CpuInfo) -> Option<AddressLayout> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    let address_bits = if has_five_levels(info) { 57 } else { 48 };
    Some(AddressLayout {
        base_page_bytes: page_size::base(),
        address_bits,
        user_bits: address_bits - 1,
    })
}

/// True where x86 page tables have five levels.
#[must_use]
pub fn has_five_levels(info: &CpuInfo) -> bool {
    info.has("la57")
}

/// The page sizes that processor and kernel can map, smallest first.
#[must_use]
pub fn page_sizes(info: &CpuInfo) -> Vec<PageSize> {
    let giant = PageSize::new(Bytes::gib(1).0).filter(|_| info.has("pdpe1gb"));
    [page_size::base(), page_size::huge()].into_iter().chain(giant).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::cpuinfo;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn four_levels_and_five() {
        let recorded = include_bytes!("../../../fixtures/proc/x86_64-cpuinfo");
        let mut info = cpuinfo::parse(recorded);
        let four = layout(&info).unwrap();
        assert_eq!((four.address_bits, four.user_bits), (48, 47));
        assert_eq!(page_sizes(&info).len(), 3);
        info.flags.insert("la57".to_owned());
        info.flags.remove("pdpe1gb");
        let five = layout(&info).unwrap();
        assert_eq!((five.address_bits, five.user_bits), (57, 56));
        assert_eq!(page_sizes(&info).len(), 2);
    }
}
