//! Breakpoints on x86-64.

use crate::ptrace::Regs;
use iced_x86::{Decoder, DecoderOptions, FlowControl};

/// `int3`.
pub(super) const BREAK: u8 = 0xcc;

/// Code of functions that return from a signal handler, in both forms: `mov $15, %rax; syscall`. Unwinders
/// recognise them by these bytes.
const RETURNS_FROM_HANDLER: [&[u8]; 2] =
    [b"\x48\xc7\xc0\x0f\0\0\0\x0f\x05", b"\xb8\x0f\0\0\0\x0f\x05"];

/// Whether a breakpoint may replace the first byte of a function with this code.
pub(super) fn may_break(code: &[u8]) -> bool {
    code.first().is_some_and(|byte| *byte != BREAK)
        && !RETURNS_FROM_HANDLER.iter().any(|returns| code.starts_with(returns))
}

/// Number of bytes in `code` that belong to the function at its start: up to a return or jump, or all.
pub(super) fn own_bytes(code: &[u8]) -> usize {
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    let ends = |flow| {
        matches!(
            flow,
            FlowControl::Return | FlowControl::UnconditionalBranch | FlowControl::IndirectBranch
        )
    };
    while decoder.can_decode() {
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return code.len();
        }
        if ends(instruction.flow_control()) {
            return decoder.position();
        }
    }
    code.len()
}

/// Address of the breakpoint that a thread with these registers has hit.
pub(super) const fn met(regs: &Regs) -> u64 {
    regs.rip.wrapping_sub(1)
}

/// These registers with the instruction pointer at `address`.
pub(super) const fn at(regs: &Regs, address: u64) -> Regs {
    Regs { rip: address, ..*regs }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_breakpoint_already_or_read_by_unwinders_is_left_out() {
        assert!(may_break(b"\x55\x48\x89\xe5"));
        assert!(may_break(b"\xb8\x0f\0\0\0\xc3"));
        assert!(!may_break(b"\xcc\xc3"));
        assert!(!may_break(b""));
        assert!(!may_break(b"\x48\xc7\xc0\x0f\0\0\0\x0f\x05\x90"));
        assert!(!may_break(b"\xb8\x0f\0\0\0\x0f\x05"));
    }

    #[test]
    fn a_function_ends_with_its_return() {
        assert_eq!(own_bytes(b"\xb8\x01\0\0\0\xc3\x66\x90"), 6);
        assert_eq!(own_bytes(b"\xc3\x90\x90"), 1);
        assert_eq!(own_bytes(b"\xff\xe0\x90"), 2);
        assert_eq!(own_bytes(b"\x55\x48\x89\xe5"), 4);
        assert_eq!(own_bytes(b""), 0);
    }
}
