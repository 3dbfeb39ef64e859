//! The x86-64 signal frame from which `rt_sigreturn(2)` restores a thread, as laid out in
//! `arch/x86/include/asm/sigframe.h` and `uapi/asm/sigcontext.h`. Pure: bytes from registers.
//!
//! From low to high addresses it holds: the return address into a restorer, the `ucontext`, an unused
//! `siginfo`, then, aligned to 64 bytes, the extended state with its two magic words. The frame names only
//! the state components in use, plus the protection keys, whose initial state is not the kernel's default.
//! The kernel resets the other components to their initial state, which they are in already. The alternate
//! stack field carries a mode that `sigaltstack` refuses and sigreturn ignores. So the thread keeps its own
//! setting, which cannot be read from outside.

use crate::ptrace::Regs;

/// Bytes below the stack pointer that a function may use without moving it (System V ABI).
const RED_ZONE: u64 = 128;
/// Return address, ucontext and siginfo.
const FRAME_BYTES: u64 = 8 + UCONTEXT_BYTES + 128;
const UCONTEXT_BYTES: u64 = 304;

/// `UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS`.
const UCONTEXT_FLAGS: u64 = 0x7;
/// Neither `SS_DISABLE` nor `SS_ONSTACK` nor 0: the kernel refuses it without any effect.
const ALTSTACK_REFUSED: u32 = 4;

const MAGIC1: u32 = 0x4650_5853;
const MAGIC2: u32 = 0x4650_5845;
/// Where the XSAVE area keeps the software words, the header and its end.
const SOFTWARE_WORDS: usize = 464;
const HEADER: usize = 512;
const HEADER_END: usize = 576;
const FEATURE_FP_SSE: u64 = 0x3;
const FEATURE_PKRU: u64 = 1 << 9;

/// A frame to be written to the stack of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SignalFrame {
    /// Address of the first byte, and stack pointer at the moment of the call.
    pub(super) base: u64,
    pub(super) bytes: Vec<u8>,
}

/// What the state area must keep: its length and the mask of components in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct XstateExtent {
    len: usize,
    features: u64,
}

/// The frame that restores `regs`, `mask` and `xstate` (standard XSAVE format) after a call that
/// returns to `restorer`, placed below `top`. `None` when the state is not in the expected format.
/// `place` gives offset and size of a component of the XSAVE area.
#[must_use]
pub(super) fn build(
    regs: &Regs,
    mask: u64,
    xstate: &[u8],
    restorer: u64,
    top: u64,
    place: impl Fn(u32) -> (usize, usize),
) -> Option<SignalFrame> {
    let extent = extent(xstate, place)?;
    let state_at = top.checked_sub(RED_ZONE + extent.len as u64 + 4)? & !63;
    let base = (state_at.checked_sub(FRAME_BYTES)? & !15) - 8;
    let mut bytes = vec![0_u8; usize::try_from(state_at - base).ok()?];
    put_context(&mut bytes, regs, mask, restorer, state_at);
    bytes.extend(state_area(xstate, extent));
    Some(SignalFrame { base, bytes })
}

/// Maximum number of bytes below the stack pointer that a frame takes, for a state of this size.
#[must_use]
pub(super) const fn room(xstate_bytes: usize) -> u64 {
    RED_ZONE + xstate_bytes as u64 + 4 + 64 + FRAME_BYTES + 16 + 8
}

fn extent(xstate: &[u8], place: impl Fn(u32) -> (usize, usize)) -> Option<XstateExtent> {
    let allowed = word(xstate, SOFTWARE_WORDS)?;
    let used = word(xstate, HEADER)?;
    if word(xstate, HEADER + 8)? != 0 || xstate.len() < HEADER_END {
        return None;
    }
    let features = used | FEATURE_FP_SSE | (allowed & FEATURE_PKRU);
    let mut len = HEADER_END;
    for component in (2..63).filter(|c| features >> c & 1 == 1) {
        let (offset, size) = place(component);
        if size == 0 {
            return None;
        }
        len = len.max(offset.checked_add(size)?);
    }
    (len <= xstate.len()).then_some(XstateExtent { len, features })
}

fn state_area(xstate: &[u8], extent: XstateExtent) -> Vec<u8> {
    let mut area = xstate[..extent.len].to_vec();
    let used = word(xstate, HEADER).unwrap_or(0) | (extent.features & FEATURE_PKRU);
    let sized = extent.len as u32;
    put(&mut area, SOFTWARE_WORDS, &MAGIC1.to_le_bytes());
    put(&mut area, SOFTWARE_WORDS + 4, &(sized + 4).to_le_bytes());
    put(&mut area, SOFTWARE_WORDS + 8, &extent.features.to_le_bytes());
    put(&mut area, SOFTWARE_WORDS + 16, &sized.to_le_bytes());
    put(&mut area, SOFTWARE_WORDS + 20, &[0; 28]);
    put(&mut area, HEADER, &used.to_le_bytes());
    area.extend(MAGIC2.to_le_bytes());
    area
}

fn put_context(bytes: &mut [u8], regs: &Regs, mask: u64, restorer: u64, state_at: u64) {
    let segments =
        (regs.cs & 0xffff) | (regs.gs & 0xffff) << 16 | (regs.fs & 0xffff) << 32 | regs.ss << 48;
    let general = [
        regs.r8,
        regs.r9,
        regs.r10,
        regs.r11,
        regs.r12,
        regs.r13,
        regs.r14,
        regs.r15,
        regs.rdi,
        regs.rsi,
        regs.rbp,
        regs.rbx,
        regs.rdx,
        regs.rax,
        regs.rcx,
        regs.rsp,
        regs.rip,
        regs.eflags,
        segments,
    ];
    put(bytes, 0, &restorer.to_le_bytes());
    put(bytes, 8, &UCONTEXT_FLAGS.to_le_bytes());
    put(bytes, 32, &ALTSTACK_REFUSED.to_le_bytes());
    for (index, value) in general.iter().enumerate() {
        put(bytes, 48 + 8 * index, &value.to_le_bytes());
    }
    put(bytes, 48 + 184, &state_at.to_le_bytes());
    put(bytes, 48 + 256, &mask.to_le_bytes());
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Offset and size of a component of the standard XSAVE format, from CPUID leaf 0xD.
#[must_use]
pub(super) fn component_place(component: u32) -> (usize, usize) {
    let leaf = std::arch::x86_64::__cpuid_count(0xd, component);
    (leaf.ebx as usize, leaf.eax as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain_regs() -> Regs {
        let mut regs = crate::ptrace::cleared();
        regs.rip = 0xaaaa;
        regs.rsp = 0x7fff_0000;
        regs.cs = 0x33;
        regs.ss = 0x2b;
        regs
    }

    fn xstate(used: u64, allowed: u64) -> Vec<u8> {
        let mut state = vec![0x11; 2696];
        put(&mut state, SOFTWARE_WORDS, &allowed.to_le_bytes());
        put(&mut state, HEADER, &used.to_le_bytes());
        put(&mut state, HEADER + 8, &[0; 56]);
        state
    }

    fn place(component: u32) -> (usize, usize) {
        match component {
            2 => (576, 256),
            9 => (2688, 8),
            _ => (0, 0),
        }
    }

    #[test]
    fn frame_is_laid_out_as_the_kernel_reads_it() {
        let regs = plain_regs();
        let frame = build(&regs, 0x55, &xstate(7, 7), 0xbeef, regs.rsp, place).unwrap();
        let at = |offset: usize| word(&frame.bytes, offset).unwrap();
        assert_eq!(at(0), 0xbeef);
        assert_eq!((at(48 + 8 * 15), at(48 + 8 * 16)), (0x7fff_0000, 0xaaaa));
        assert_eq!(at(304), 0x55);
        let state_at = at(48 + 184);
        assert_eq!(state_at % 64, 0);
        let area = &frame.bytes[(state_at - frame.base) as usize..];
        assert_eq!(word(area, SOFTWARE_WORDS).unwrap() as u32, MAGIC1);
        assert_eq!(word(area, SOFTWARE_WORDS + 16).unwrap(), 832);
        assert_eq!(area[832..], MAGIC2.to_le_bytes());
        let end = frame.base + frame.bytes.len() as u64;
        assert!(end + RED_ZONE <= regs.rsp && regs.rsp - frame.base <= room(832));
        assert_eq!((frame.base + 8) % 16, 0);
    }

    #[test]
    fn protection_keys_are_always_kept() {
        let regs = plain_regs();
        let frame = build(&regs, 0, &xstate(3, 7 | FEATURE_PKRU), 1, regs.rsp, place).unwrap();
        let state_at = (word(&frame.bytes, 48 + 184).unwrap() - frame.base) as usize;
        let area = &frame.bytes[state_at..];
        assert_eq!(word(area, HEADER).unwrap(), 3 | FEATURE_PKRU);
        assert_eq!(area[2688..2696], [0x11; 8]);
    }

    #[test]
    fn unknown_formats_are_refused() {
        let regs = plain_regs();
        let mut compact = xstate(7, 7);
        compact[HEADER + 15] = 0x80;
        assert_eq!(build(&regs, 0, &compact, 1, regs.rsp, place), None);
        assert_eq!(build(&regs, 0, &xstate(1 << 19 | 7, 7), 1, regs.rsp, place), None);
        assert_eq!(build(&regs, 0, &[0; 100], 1, regs.rsp, place), None);
        assert_eq!(build(&regs, 0, &xstate(7, 7), 1, 64, place), None);
    }
}
