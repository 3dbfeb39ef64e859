//! The chain for unsupported architectures: no code is written, so none is entered.

/// There is no code for this architecture.
pub(crate) const IS_KNOWN: bool = false;
/// Instructions of an element.
pub(crate) const INSTRUCTIONS: u64 = 1;

pub(super) const FRAME: [u8; 0] = [];
/// Of nothing.
pub(super) const EXIT: usize = 0;

pub(super) const fn element(_number: u32) -> [u8; 0] {
    []
}

/// No sum.
///
/// # Safety
/// Nothing is entered.
pub(super) const unsafe fn enter(_entry: *const u8, _list: *const usize) -> u64 {
    0
}
