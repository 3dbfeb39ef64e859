//! What an instruction was doing to the page it faulted on, and whether the page was absent or protected
//! ([`cause`]).
//!
//! An x86-64 instruction faults on its own bytes or on a memory operand. It faulted on its own bytes in three
//! cases: the address is that of the instruction; the page is the instruction's page and was absent; or the
//! instruction extends into the page. Most instructions have one memory operand, or all their operands are of
//! one sort. An operand that is read and written back faults as a write, because the processor asks for both
//! rights together. If an instruction reads one operand and writes another (string moves, push and call of
//! memory), the recorded registers decide which operand contains the address. All other faults are `unknown`,
//! including faults taken in the kernel.
//!
//! The error code of an x86-64 processor gives the answer directly (arch/x86/include/asm/trap_pf.h): bit 0
//! the page was present, bit 1 a write, bit 4 an instruction fetch.

use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory, OpAccess, Register, UsedMemory};
use pagewise_model::fault::event::{FaultBegin, FaultErrorCode, OperandRegisters};
use pagewise_model::fault::{AccessKind, FaultCause};
use pagewise_model::{Bytes, PageSize};

/// A string instruction may be at most this many bytes from where it faulted.
const STRING_REACH: u64 = 64;

/// An instruction, as far as its faults need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FaultInstruction {
    /// Bytes; 0 when it is not known.
    length: u64,
    operands: Vec<MemoryOperand>,
    is_string: bool,
}

/// A memory operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MemoryOperand {
    is_write: bool,
    /// The base register, if it was recorded and is the only one.
    base: Option<BaseRegister>,
    displacement: u64,
    size: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BaseRegister {
    Source,
    Target,
    Stack,
}

impl FaultInstruction {
    pub(super) const UNKNOWN: Self = Self { length: 0, operands: Vec::new(), is_string: false };
}

/// The instruction in `bytes`, which stands at `address`.
pub(super) fn decode(bytes: &[u8], address: u64) -> FaultInstruction {
    let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
    let instruction = decoder.decode();
    if instruction.is_invalid() {
        return FaultInstruction::UNKNOWN;
    }
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(&instruction);
    FaultInstruction {
        length: instruction.len() as u64,
        operands: info.used_memory().iter().filter_map(operand).collect(),
        is_string: instruction.is_string_instruction(),
    }
}

fn operand(memory: &UsedMemory) -> Option<MemoryOperand> {
    let is_write = match memory.access() {
        OpAccess::Read | OpAccess::CondRead => false,
        OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite => {
            true
        }
        OpAccess::None | OpAccess::NoMemAccess => return None,
    };
    let base = match (memory.base(), memory.index()) {
        (Register::RSI, Register::None) => Some(BaseRegister::Source),
        (Register::RDI, Register::None) => Some(BaseRegister::Target),
        (Register::RSP, Register::None) => Some(BaseRegister::Stack),
        _ => None,
    };
    let size = memory.memory_size().size() as u64;
    Some(MemoryOperand { is_write, base, displacement: memory.displacement(), size })
}

/// The access and its cause, from the processor's error code.
pub(super) const fn from_code(code: FaultErrorCode) -> (AccessKind, FaultCause) {
    const PRESENT: u64 = 1;
    const WRITE: u64 = 1 << 1;
    const FETCH: u64 = 1 << 4;
    let access = if code.bits & FETCH != 0 {
        AccessKind::Execute
    } else if code.bits & WRITE != 0 {
        AccessKind::Write
    } else {
        AccessKind::Read
    };
    let cause = if code.bits & PRESENT != 0 { FaultCause::Protection } else { FaultCause::Absent };
    (access, cause)
}

/// Why the fault `begin` came, by the page that was mapped then.
pub(super) const fn cause(begin: &FaultBegin) -> FaultCause {
    match begin.page_bytes {
        Some(Bytes(0)) => FaultCause::Absent,
        Some(_) => FaultCause::Protection,
        None => FaultCause::Unknown,
    }
}

/// What the fault `begin` of `instruction` was about, with base pages of `page`.
pub(super) fn classify(
    begin: &FaultBegin,
    instruction: &FaultInstruction,
    page: PageSize,
) -> AccessKind {
    if begin.in_kernel {
        return AccessKind::Unknown;
    }
    if is_fetch(begin, instruction, page) {
        return AccessKind::Execute;
    }
    let operands = &instruction.operands;
    if let Some(access) = common(operands.iter()) {
        return access;
    }
    let Some(registers) = begin.registers else { return AccessKind::Unknown };
    let distance = |operand: &MemoryOperand| operand.distance(begin.address, registers);
    let hit = operands.iter().filter(|one| distance(one).is_some_and(|d| d < one.size.max(1)));
    // An operand whose address cannot be computed is the one meant if no other fits.
    let open = operands.iter().filter(|one| distance(one).is_none());
    let near = operands.iter().filter(|one| {
        let off = distance(one).map(|d| d.min(d.wrapping_neg()));
        instruction.is_string && off.is_some_and(|off| off < STRING_REACH)
    });
    common(hit).or_else(|| common(near)).or_else(|| common(open)).unwrap_or(AccessKind::Unknown)
}

fn is_fetch(begin: &FaultBegin, instruction: &FaultInstruction, page: PageSize) -> bool {
    let page_of = |address: u64| address / page.bytes();
    let (address, ip) = (begin.address, begin.ip_address);
    let may_be_absent = begin.page_bytes.is_none_or(|size| size == Bytes(0));
    if page_of(address) == page_of(ip) {
        return address == ip || may_be_absent;
    }
    address > ip && address - ip < instruction.length
}

/// What all operands do. `None` if they differ or there are none.
fn common<'a>(mut operands: impl Iterator<Item = &'a MemoryOperand>) -> Option<AccessKind> {
    let is_write = operands.next()?.is_write;
    let same = operands.all(|operand| operand.is_write == is_write);
    same.then_some(if is_write { AccessKind::Write } else { AccessKind::Read })
}

impl MemoryOperand {
    /// Bytes from its first byte to `address`. `None` if that cannot be computed.
    fn distance(&self, address: u64, registers: OperandRegisters) -> Option<u64> {
        let base = match self.base? {
            BaseRegister::Source => registers.source,
            BaseRegister::Target => registers.target,
            BaseRegister::Stack => registers.stack,
        };
        Some(address.wrapping_sub(base.wrapping_add(self.displacement)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IP: u64 = 0x40_1000;
    const DATA: u64 = 0x7000_0000;

    fn begin(address: u64, registers: OperandRegisters) -> FaultBegin {
        FaultBegin {
            pid: 1,
            tid: 1,
            address,
            ip_address: IP,
            page_bytes: Some(Bytes(0)),
            registers: Some(registers),
            in_kernel: false,
        }
    }

    fn seen(code: &[u8], address: u64, registers: OperandRegisters) -> AccessKind {
        classify(&begin(address, registers), &decode(code, IP), PageSize::BASE_4K)
    }

    #[test]
    fn one_operand_needs_no_registers() {
        let none = OperandRegisters::default();
        // mov rdx, [rax]; mov [rax], rdx; add [rax], edx; lock cmpxchg [rax], edx
        assert_eq!(seen(&[0x48, 0x8b, 0x10], DATA, none), AccessKind::Read);
        assert_eq!(seen(&[0x48, 0x89, 0x10], DATA, none), AccessKind::Write);
        assert_eq!(seen(&[0x01, 0x10], DATA, none), AccessKind::Write);
        assert_eq!(seen(&[0xf0, 0x0f, 0xb1, 0x10], DATA, none), AccessKind::Write);
        // vmovdqu ymm0, [rsi]; vmovdqu [rdi], ymm0; push rax; ret
        assert_eq!(seen(&[0xc5, 0xfe, 0x6f, 0x06], DATA, none), AccessKind::Read);
        assert_eq!(seen(&[0xc5, 0xfe, 0x7f, 0x07], DATA, none), AccessKind::Write);
        assert_eq!(seen(&[0x50], DATA, none), AccessKind::Write);
        assert_eq!(seen(&[0xc3], DATA, none), AccessKind::Read);
        // vpgatherdd ymm0, [rax + ymm1*4], ymm2
        assert_eq!(seen(&[0xc4, 0xe2, 0x6d, 0x90, 0x04, 0x88], DATA, none), AccessKind::Read);
    }

    #[test]
    fn two_operands_are_distinguished_by_the_registers() {
        let at = |source, target, stack| OperandRegisters { source, target, stack };
        let movsb = &[0xf3, 0xa4];
        assert_eq!(seen(movsb, DATA, at(DATA, 0x9000, 0)), AccessKind::Read);
        assert_eq!(seen(movsb, DATA, at(0x9000, DATA, 0)), AccessKind::Write);
        assert_eq!(seen(movsb, DATA, at(0x9000, 0x9000, 0)), AccessKind::Unknown);
        // Close to each other: the operand at the address counts. Beyond both, neither does.
        assert_eq!(seen(movsb, DATA, at(DATA, DATA + 8, 0)), AccessKind::Read);
        assert_eq!(seen(movsb, DATA + 8, at(DATA, DATA + 8, 0)), AccessKind::Write);
        assert_eq!(seen(movsb, DATA + 32, at(DATA, DATA + 8, 0)), AccessKind::Unknown);
        // push qword [rax + 8]: its address is not computed, so it is meant unless the stack is.
        let push = &[0xff, 0x70, 0x08];
        assert_eq!(seen(push, DATA, at(0, 0, 0x9000)), AccessKind::Read);
        assert_eq!(seen(push, DATA, at(0, 0, DATA + 8)), AccessKind::Write);
        let mut lean = begin(DATA, OperandRegisters::default());
        lean.registers = None;
        assert_eq!(classify(&lean, &decode(movsb, IP), PageSize::BASE_4K), AccessKind::Unknown);
    }

    #[test]
    fn fetches_are_known_without_their_bytes() {
        let none = OperandRegisters::default();
        assert_eq!(seen(&[], IP, none), AccessKind::Execute);
        assert_eq!(seen(&[], IP + 0x10, none), AccessKind::Execute);
        assert_eq!(seen(&[], DATA, none), AccessKind::Unknown);
        // mov rdx, [rax] that touches its own, present page
        let mut own = begin(IP + 0x10, none);
        own.page_bytes = Some(Bytes(4096));
        let read = decode(&[0x48, 0x8b, 0x10], IP);
        assert_eq!(classify(&own, &read, PageSize::BASE_4K), AccessKind::Read);
        // the last bytes of an instruction lie on the next page
        let mut straddling = begin(0x40_2000, none);
        straddling.ip_address = 0x40_1ffe;
        assert_eq!(classify(&straddling, &read, PageSize::BASE_4K), AccessKind::Execute);
        straddling.in_kernel = true;
        assert_eq!(classify(&straddling, &read, PageSize::BASE_4K), AccessKind::Unknown);
    }
}
