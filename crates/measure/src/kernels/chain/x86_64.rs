//! The chain in x86-64 code, called by the System V convention. The list of addresses is passed in `rdi` and
//! the sum is returned in `rax`. Apart from those, only `rsi` and the flags change. The stack is used only
//! for the return address.

/// There is code for this architecture.
pub(crate) const IS_KNOWN: bool = true;
/// Instructions of an element.
pub(crate) const INSTRUCTIONS: u64 = 3;

/// Enters the chain and leaves it.
pub(super) const FRAME: [u8; 8] = [
    0x48, 0x89, 0xfe, // mov rsi, rdi
    0x31, 0xc0, // xor eax, eax
    0xff, 0x26, // jmp [rsi]
    0xc3, // ret
];
/// Offset within the frame at which the chain is left.
pub(super) const EXIT: usize = 7;

/// Adds its number and jumps to the next element.
pub(super) fn element(number: u32) -> [u8; 12] {
    let [a, b, c, d] = number.to_le_bytes();
    [
        0x48, 0x05, a, b, c, d, // add rax, number
        0x48, 0x83, 0xc6, 0x08, // add rsi, 8
        0xff, 0x26, // jmp [rsi]
    ]
}

/// Calls the frame at `entry` with a list.
///
/// # Safety
/// [`FRAME`] lies at `entry` in executable memory; the list holds addresses of elements, and last that
/// of the frame's exit.
pub(super) unsafe fn enter(entry: *const u8, list: *const usize) -> u64 {
    type Frame = unsafe extern "sysv64" fn(*const usize) -> u64;
    // SAFETY: the caller says that a frame lies there, which keeps to this convention.
    let frame = unsafe { std::mem::transmute::<*const u8, Frame>(entry) };
    // SAFETY: the caller says that the list leads from element to element and back to the frame's exit.
    unsafe { frame(list) }
}
