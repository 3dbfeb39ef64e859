//! Copies of memory by one kind of instruction each, and saving of the vector registers, which the kernel
//! would have to do for a program before it could use them.
//!
//! The loops are written in assembly, so that no compiler turns them into a call of the C library; 128 bytes
//! per iteration. CPUID and XCR0 are checked first for the instructions that the processor and the system
//! allow.

use pagewise_kernel::cpuid;
use std::arch::asm;

/// Bytes that the vector loops copy in a turn.
pub(crate) const TURN: usize = 128;

/// What copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CopyInstruction {
    /// `rep movsb`.
    RepMovsb,
    /// Loads and stores of 32 bytes.
    Avx2,
    /// Loads and stores of 64 bytes.
    Avx512,
}

impl CopyInstruction {
    /// Whether it may be used here.
    pub(crate) fn is_there(self) -> bool {
        match self {
            Self::RepMovsb => true,
            Self::Avx2 => is_x86_feature_detected!("avx2"),
            Self::Avx512 => is_x86_feature_detected!("avx512f"),
        }
    }
}

/// Copies `len` bytes. The vector loops copy only whole iterations.
///
/// # Safety
/// `len` bytes from `from` on must be readable and `len` bytes from `to` on writable. They must not overlap,
/// and the processor must have the instruction.
pub(crate) unsafe fn copy(how: CopyInstruction, from: *const u8, to: *mut u8, len: usize) {
    let turns = len / TURN;
    if len == 0 || (turns == 0 && how != CopyInstruction::RepMovsb) {
        return;
    }
    match how {
        CopyInstruction::RepMovsb => {
            // SAFETY: by this function's own contract; the direction flag is clear as the ABI has it.
            unsafe {
                asm!("rep movsb", inout("rcx") len => _, inout("rdi") to => _, inout("rsi") from => _,
                    options(nostack, preserves_flags));
            }
        }
        CopyInstruction::Avx2 => {
            // SAFETY: by this function's own contract; `turns` is not 0, and the upper halves are cleared.
            unsafe {
                asm!(
                    "2:",
                    "vmovdqu ymm0, [rsi]",
                    "vmovdqu ymm1, [rsi + 32]",
                    "vmovdqu ymm2, [rsi + 64]",
                    "vmovdqu ymm3, [rsi + 96]",
                    "vmovdqu [rdi], ymm0",
                    "vmovdqu [rdi + 32], ymm1",
                    "vmovdqu [rdi + 64], ymm2",
                    "vmovdqu [rdi + 96], ymm3",
                    "add rsi, 128",
                    "add rdi, 128",
                    "dec rcx",
                    "jnz 2b",
                    "vzeroupper",
                    inout("rcx") turns => _, inout("rdi") to => _, inout("rsi") from => _,
                    clobber_abi("C"),
                    options(nostack),
                );
            }
        }
        CopyInstruction::Avx512 => {
            // SAFETY: as above.
            unsafe {
                asm!(
                    "2:",
                    "vmovdqu64 zmm0, [rsi]",
                    "vmovdqu64 zmm1, [rsi + 64]",
                    "vmovdqu64 [rdi], zmm0",
                    "vmovdqu64 [rdi + 64], zmm1",
                    "add rsi, 128",
                    "add rdi, 128",
                    "dec rcx",
                    "jnz 2b",
                    "vzeroupper",
                    inout("rcx") turns => _, inout("rdi") to => _, inout("rsi") from => _,
                    clobber_abi("C"),
                    options(nostack),
                );
            }
        }
    }
}

/// Bytes that the register state takes when it is saved, if a program may save it.
pub(crate) fn state_bytes() -> Option<usize> {
    const OSXSAVE: u32 = 1 << 27;
    let may = cpuid::leaf(1, 0)?.ecx & OSXSAVE != 0 && CopyInstruction::Avx2.is_there();
    let size = cpuid::leaf(0xd, 0)?.ebx;
    may.then(|| usize::try_from(size).ok()).flatten().filter(|size| *size > 0)
}

/// Saves the vector registers to `area` and restores them, `rounds` times. Returns false if that is not
/// permitted or not supported. `area` must begin at a multiple of 64 bytes and hold [`state_bytes`].
pub(crate) fn save_state(area: &mut [u8], rounds: u64) -> bool {
    let fits = state_bytes().is_some_and(|size| size <= area.len());
    if !fits || !area.as_ptr().addr().is_multiple_of(64) {
        return false;
    }
    // A header that was not saved by this processor would be a fault.
    let Some(header) = area.get_mut(512..576) else { return false };
    header.fill(0);
    // SAFETY: size and alignment were checked above, and the header is there and cleared.
    unsafe { save_and_restore(area.as_mut_ptr(), rounds) };
    true
}

/// Saves and restores the vector registers, one of which is in use, so many times.
///
/// # Safety
/// [`state_bytes`] are there from `area` on, their header (64 bytes from 512 on) zeroed, aligned to 64 bytes.
unsafe fn save_and_restore(area: *mut u8, rounds: u64) {
    /// x87, SSE, AVX and the three parts of AVX-512. Parts that are not enabled are skipped.
    const PARTS: u32 = 0xe7;
    if rounds == 0 {
        return;
    }
    // SAFETY: by this function's own contract; what is restored is what was saved just before, and the
    // upper halves are cleared behind it.
    unsafe {
        asm!(
            "vpcmpeqb ymm0, ymm0, ymm0",
            "2:",
            "xsave64 [rdi]",
            "xrstor64 [rdi]",
            "dec rcx",
            "jnz 2b",
            "vzeroupper",
            inout("rcx") rounds => _, in("rdi") area, in("eax") PARTS, in("edx") 0,
            clobber_abi("C"),
            options(nostack),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_copied_is_what_was_there() {
        let from: Vec<u8> = (0..1024).map(|at| (at * 7) as u8).collect();
        for how in [CopyInstruction::RepMovsb, CopyInstruction::Avx2, CopyInstruction::Avx512] {
            if !how.is_there() {
                continue;
            }
            for (start, len) in [(0, 1024), (1, 512), (63, 128), (5, 0)] {
                let mut to = vec![0_u8; 2048];
                let place = to[start..].as_mut_ptr();
                // SAFETY: both buffers have more than `len` bytes from there, and are two.
                unsafe { copy(how, from.as_ptr(), place, len) };
                assert_eq!(to[start..start + len], from[..len], "{how:?} {start} {len}");
                assert!(to[start + len..].iter().all(|byte| *byte == 0), "{how:?} {start} {len}");
            }
        }
    }

    #[test]
    fn registers_survive() {
        let Some(size) = state_bytes() else { return };
        let mut area = vec![0_u8; size + 64];
        let shift = area.as_ptr().align_offset(64);
        let sum: f64 = (0..100).map(f64::from).sum();
        assert!(!save_state(&mut area[shift + 1..], 1), "not aligned");
        assert!(!save_state(&mut area[shift..shift + 64], 1), "too small");
        assert!(save_state(&mut area[shift..shift + size], 100));
        assert_eq!((0..100).map(f64::from).sum::<f64>(), sum);
        assert!(area.iter().any(|byte| *byte != 0), "something was saved");
    }
}
