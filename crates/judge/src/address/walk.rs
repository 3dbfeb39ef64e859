//! The levels of the page table: a table fills one base page with entries of 8 bytes, so each level
//! takes as many bits of the address as number the entries of a table, and the top level what is left.

use pagewise_model::address::{Half, Layout, Level, Role};
use pagewise_model::{Bytes, PageSize};

/// The name of a level, by how many are below and above it.
const fn name(below: u32, above: u32) -> &'static str {
    match (below, above) {
        (0, _) => "PTE",
        (_, 0) => "PGD",
        (1, _) => "PMD",
        (2, _) => "PUD",
        _ => "P4D",
    }
}

/// Whose an address is.
#[must_use]
pub fn half(layout: &Layout, address: u64) -> Half {
    let user = 1u64.checked_shl(layout.user_bits).unwrap_or(0);
    match address {
        _ if address < user => Half::User,
        _ if address >= user.wrapping_neg() && user != 0 => Half::Kernel,
        _ => Half::NotCanonical,
    }
}

/// The way of `address` through the levels, to a page of `size` where one is known; the top level first.
#[must_use]
pub fn levels(layout: &Layout, address: u64, size: Option<PageSize>) -> Vec<Level> {
    let (shift, width) = (layout.page_bits(), layout.table_bits().max(1));
    let top = layout.address_bits.min(u64::BITS);
    let count = top.saturating_sub(shift).div_ceil(width);
    let span = |nth: u32| 1u64 << (shift + nth * width);
    // The walk ends at the highest level whose entry covers no more than the page.
    let last =
        size.map(|size| (1..count).rev().find(|nth| span(*nth) <= size.bytes()).unwrap_or(0));
    let level = |nth: u32| {
        let low_bit = shift + nth * width;
        let end = (low_bit + width).min(top);
        Level {
            name: name(nth, count - 1 - nth).to_owned(),
            high_bit: end - 1,
            low_bit,
            index: address >> low_bit & ((1 << (end - low_bit)) - 1),
            entry_spans_bytes: Bytes(span(nth)),
            role: match last {
                None => Role::NotKnown,
                Some(last) if nth > last => Role::Table,
                Some(last) if nth == last => Role::Page,
                Some(_) => Role::Beyond,
            },
        }
    };
    (0..count).rev().map(level).collect()
}
