//! The memory operands of one x86-64 instruction, computed from the registers before it runs. Pure.

use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register,
};
use pagewise_tracee::ptrace::{Regs, fs_base, gs_base};

/// Longest instruction.
pub(super) const LONGEST: usize = 15;

/// What stands at the instruction pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NextInstruction {
    /// An instruction with operands at these addresses.
    Plain(Vec<u64>),
    /// Enters the kernel or reads the single-step flag: must not be stepped over.
    Leave,
}

/// Decodes the instruction in `code`, which stands at `regs.rip`.
pub(super) fn decode(
    code: &[u8],
    regs: &Regs,
    factory: &mut InstructionInfoFactory,
) -> NextInstruction {
    let mut decoder = Decoder::with_ip(64, code, regs.rip, DecoderOptions::NONE);
    let instruction = decoder.decode();
    if instruction.is_invalid() || leaves(&instruction) {
        return NextInstruction::Leave;
    }
    if repeats(&instruction) && regs.rcx == 0 {
        return NextInstruction::Plain(Vec::new());
    }
    let info = factory.info(&instruction);
    let accesses = info
        .used_memory()
        .iter()
        .filter(|memory| !matches!(memory.access(), OpAccess::None | OpAccess::NoMemAccess))
        .filter_map(|memory| memory.virtual_address(0, |register, _, _| value(regs, register)))
        .collect();
    NextInstruction::Plain(accesses)
}

fn leaves(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Syscall
            | Mnemonic::Sysenter
            | Mnemonic::Int
            | Mnemonic::Int3
            | Mnemonic::Pushf
            | Mnemonic::Pushfd
            | Mnemonic::Pushfq
            | Mnemonic::Popfq
            | Mnemonic::Hlt
    )
}

/// A string instruction that is done as often as rcx says; a step does it once.
fn repeats(instruction: &Instruction) -> bool {
    instruction.is_string_instruction()
        && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
}

fn value(regs: &Regs, register: Register) -> Option<u64> {
    let whole = match register.full_register() {
        Register::RAX => regs.rax,
        Register::RBX => regs.rbx,
        Register::RCX => regs.rcx,
        Register::RDX => regs.rdx,
        Register::RSI => regs.rsi,
        Register::RDI => regs.rdi,
        Register::RBP => regs.rbp,
        Register::RSP => regs.rsp,
        Register::R8 => regs.r8,
        Register::R9 => regs.r9,
        Register::R10 => regs.r10,
        Register::R11 => regs.r11,
        Register::R12 => regs.r12,
        Register::R13 => regs.r13,
        Register::R14 => regs.r14,
        Register::R15 => regs.r15,
        Register::FS => fs_base(regs),
        Register::GS => gs_base(regs),
        Register::ES | Register::CS | Register::SS | Register::DS => 0,
        _ => return None,
    };
    Some(if register.is_gpr32() { whole & 0xffff_ffff } else { whole })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(code: &[u8]) -> NextInstruction {
        let mut regs = pagewise_tracee::ptrace::cleared();
        regs.rip = 0x1000;
        regs.rax = 0x10_0000;
        regs.rcx = 4;
        regs.rsp = 0x7000;
        regs.fs_base = 0x50_0000;
        decode(code, &regs, &mut InstructionInfoFactory::new())
    }

    fn one(code: &[u8]) -> u64 {
        match step(code) {
            NextInstruction::Plain(accesses) if accesses.len() == 1 => accesses[0],
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn addresses_are_computed() {
        // mov rdx, [rax + rcx*8 + 16]
        assert_eq!(one(&[0x48, 0x8b, 0x54, 0xc8, 0x10]), 0x10_0030);
        // mov rax, fs:[0x10]
        assert_eq!(one(&[0x64, 0x48, 0x8b, 0x04, 0x25, 0x10, 0, 0, 0]), 0x50_0010);
        // mov rax, [rip + 1]
        assert_eq!(one(&[0x48, 0x8b, 0x05, 1, 0, 0, 0]), 0x1008);
        // push rax
        assert_eq!(one(&[0x50]), 0x6ff8);
        // lea rax, [rax + rcx] and nop touch nothing
        assert_eq!(step(&[0x48, 0x8d, 0x04, 0x08]), NextInstruction::Plain(vec![]));
    }

    #[test]
    fn repeated_copies_touch_both_sides() {
        let mut regs = pagewise_tracee::ptrace::cleared();
        (regs.rip, regs.rsi, regs.rdi, regs.rcx) = (0x1000, 0x20_0000, 0x30_0000, 5);
        let decode =
            |regs: &Regs| match decode(&[0xf3, 0xa4], regs, &mut InstructionInfoFactory::new()) {
                NextInstruction::Plain(accesses) => accesses,
                NextInstruction::Leave => panic!("left"),
            };
        let mut both = decode(&regs);
        both.sort_unstable();
        assert_eq!(both, [0x20_0000, 0x30_0000]);
        regs.rcx = 0;
        assert!(decode(&regs).is_empty());
    }

    #[test]
    fn kernel_entries_end_a_burst() {
        assert_eq!(step(&[0x0f, 0x05]), NextInstruction::Leave);
        assert_eq!(step(&[0x9c]), NextInstruction::Leave);
        assert_eq!(step(&[]), NextInstruction::Leave);
    }
}
