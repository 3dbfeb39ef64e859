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
use pagewise_model::fault::event::{Begin, ErrorCode, Registers};
use pagewise_model::fault::{Access, Cause};
use pagewise_model::{Bytes, PageSize};

/// A string instruction may be at most this many bytes from where it faulted.
const STRING_REACH: u64 = 64;

/// An instruction, as far as its faults need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Instruction {
    /// Bytes; 0 when it is not known.
    length: u64,
    operands: Vec<Operand>,
    is_string: bool,
}

/// A memory operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Operand {
    is_write: bool,
    /// The base register, if it was recorded and is the only one.
    base: Option<Base>,
    displacement: u64,
    size: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Base {
    Source,
    Target,
    Stack,
}

impl Instruction {
    pub(super) const UNKNOWN: Self = Self { length: 0, operands: Vec::new(), is_string: false };
}

/// The instruction in `bytes`, which stands at `address`.
pub(super) fn decode(bytes: &[u8], address: u64) -> Instruction {
    let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
    let instruction = decoder.decode();
    if instruction.is_invalid() {
        return Instruction::UNKNOWN;
    }
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(&instruction);
    Instruction {
        length: instruction.len() as u64,
        operands: info.used_memory().iter().filter_map(operand).collect(),
        is_string: instruction.is_string_instruction(),
    }
}

fn operand(memory: &UsedMemory) -> Option<Operand> {
    let is_write = match memory.access() {
        OpAccess::Read | OpAccess::CondRead => false,
        OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite => {
            true
        }
        OpAccess::None | OpAccess::NoMemAccess => return None,
    };
    let base = match (memory.base(), memory.index()) {
        (Register::RSI, Register::None) => Some(Base::Source),
        (Register::RDI, Register::None) => Some(Base::Target),
        (Register::RSP, Register::None) => Some(Base::Stack),
        _ => None,
    };
    let size = memory.memory_size().size() as u64;
    Some(Operand { is_write, base, displacement: memory.displacement(), size })
}

/// The access and its cause, from the processor's error code.
pub(super) const fn from_code(code: ErrorCode) -> (Access, Cause) {
    const PRESENT: u64 = 1;
    const WRITE: u64 = 1 << 1;
    const FETCH: u64 = 1 << 4;
    let access = if code.bits & FETCH != 0 {
        Access::Execute
    } else if code.bits & WRITE != 0 {
        Access::Write
    } else {
        Access::Read
    };
    let cause = if code.bits & PRESENT != 0 { Cause::Protection } else { Cause::Absent };
    (access, cause)
}

/// Why the fault `begin` came, by the page that was mapped then.
pub(super) const fn cause(begin: &Begin) -> Cause {
    match begin.page_bytes {
        Some(Bytes(0)) => Cause::Absent,
        Some(_) => Cause::Protection,
        None => Cause::Unknown,
    }
}

/// What the fault `begin` of `instruction` was about, with base pages of `page`.
pub(super) fn classify(begin: &Begin, instruction: &Instruction, page: PageSize) -> Access {
    if begin.in_kernel {
        return Access::Unknown;
    }
    if is_fetch(begin, instruction, page) {
        return Access::Execute;
    }
    let operands = &instruction.operands;
    if let Some(access) = common(operands.iter()) {
        return access;
    }
    let Some(registers) = begin.registers else { return Access::Unknown };
    let distance = |operand: &Operand| operand.distance(begin.address, registers);
    let hit = operands.iter().filter(|one| distance(one).is_some_and(|d| d < one.size.max(1)));
    // An operand whose address cannot be computed is the one meant if no other fits.
    let open = operands.iter().filter(|one| distance(one).is_none());
    let near = operands.iter().filter(|one| {
        let off = distance(one).map(|d| d.min(d.wrapping_neg()));
        instruction.is_string && off.is_some_and(|off| off < STRING_REACH)
    });
    common(hit).or_else(|| common(near)).or_else(|| common(open)).unwrap_or(Access::Unknown)
}

fn is_fetch(begin: &Begin, instruction: &Instruction, page: PageSize) -> bool {
    let page_of = |address: u64| address / page.bytes();
    let (address, ip) = (begin.address, begin.ip_address);
    let may_be_absent = begin.page_bytes.is_none_or(|size| size == Bytes(0));
    if page_of(address) == page_of(ip) {
        return address == ip || may_be_absent;
    }
    address > ip && address - ip < instruction.length
}

/// What all operands do. `None` if they differ or there are none.
fn common<'a>(mut operands: impl Iterator<Item = &'a Operand>) -> Option<Access> {
    let is_write = operands.next()?.is_write;
    let same = operands.all(|operand| operand.is_write == is_write);
    same.then_some(if is_write { Access::Write } else { Access::Read })
}

impl Operand {
    /// Bytes from its first byte to `address`. `None` if that cannot be computed.
    fn distance(&self, address: u64, registers: Registers) -> Option<u64> {
        let base = match self.base? {
            Base::Source => registers.source,
            Base::Target => registers.target,
            Base::Stack => registers.stack,
        };
        Some(address.wrapping_sub(base.wrapping_add(self.displacement)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IP: u64 = 0x40_1000;
    const DATA: u64 = 0x7000_0000;

    fn begin(address: u64, registers: Registers) -> Begin {
        Begin {
            pid: 1,
            tid: 1,
            address,
            ip_address: IP,
            page_bytes: Some(Bytes(0)),
            registers: Some(registers),
            in_kernel: false,
        }
    }

    fn seen(code: &[u8], address: u64, registers: Registers) -> Access {
        classify(&begin(address, registers), &decode(code, IP), PageSize::BASE_4K)
    }

    #[test]
    fn one_operand_needs_no_registers() {
        let none = Registers::default();
        // mov rdx, [rax]; mov [rax], rdx; add [rax], edx; lock cmpxchg [rax], edx
        assert_eq!(seen(&[0x48, 0x8b, 0x10], DATA, none), Access::Read);
        assert_eq!(seen(&[0x48, 0x89, 0x10], DATA, none), Access::Write);
        assert_eq!(seen(&[0x01, 0x10], DATA, none), Access::Write);
        assert_eq!(seen(&[0xf0, 0x0f, 0xb1, 0x10], DATA, none), Access::Write);
        // vmovdqu ymm0, [rsi]; vmovdqu [rdi], ymm0; push rax; ret
        assert_eq!(seen(&[0xc5, 0xfe, 0x6f, 0x06], DATA, none), Access::Read);
        assert_eq!(seen(&[0xc5, 0xfe, 0x7f, 0x07], DATA, none), Access::Write);
        assert_eq!(seen(&[0x50], DATA, none), Access::Write);
        assert_eq!(seen(&[0xc3], DATA, none), Access::Read);
        // vpgatherdd ymm0, [rax + ymm1*4], ymm2
        assert_eq!(seen(&[0xc4, 0xe2, 0x6d, 0x90, 0x04, 0x88], DATA, none), Access::Read);
    }

    #[test]
    fn two_operands_are_distinguished_by_the_registers() {
        let at = |source, target, stack| Registers { source, target, stack };
        let movsb = &[0xf3, 0xa4];
        assert_eq!(seen(movsb, DATA, at(DATA, 0x9000, 0)), Access::Read);
        assert_eq!(seen(movsb, DATA, at(0x9000, DATA, 0)), Access::Write);
        assert_eq!(seen(movsb, DATA, at(0x9000, 0x9000, 0)), Access::Unknown);
        // Close to each other: the operand at the address counts. Beyond both, neither does.
        assert_eq!(seen(movsb, DATA, at(DATA, DATA + 8, 0)), Access::Read);
        assert_eq!(seen(movsb, DATA + 8, at(DATA, DATA + 8, 0)), Access::Write);
        assert_eq!(seen(movsb, DATA + 32, at(DATA, DATA + 8, 0)), Access::Unknown);
        // push qword [rax + 8]: its address is not computed, so it is meant unless the stack is.
        let push = &[0xff, 0x70, 0x08];
        assert_eq!(seen(push, DATA, at(0, 0, 0x9000)), Access::Read);
        assert_eq!(seen(push, DATA, at(0, 0, DATA + 8)), Access::Write);
        let mut lean = begin(DATA, Registers::default());
        lean.registers = None;
        assert_eq!(classify(&lean, &decode(movsb, IP), PageSize::BASE_4K), Access::Unknown);
    }

    #[test]
    fn fetches_are_known_without_their_bytes() {
        let none = Registers::default();
        assert_eq!(seen(&[], IP, none), Access::Execute);
        assert_eq!(seen(&[], IP + 0x10, none), Access::Execute);
        assert_eq!(seen(&[], DATA, none), Access::Unknown);
        // mov rdx, [rax] that touches its own, present page
        let mut own = begin(IP + 0x10, none);
        own.page_bytes = Some(Bytes(4096));
        let read = decode(&[0x48, 0x8b, 0x10], IP);
        assert_eq!(classify(&own, &read, PageSize::BASE_4K), Access::Read);
        // the last bytes of an instruction lie on the next page
        let mut straddling = begin(0x40_2000, none);
        straddling.ip_address = 0x40_1ffe;
        assert_eq!(classify(&straddling, &read, PageSize::BASE_4K), Access::Execute);
        straddling.in_kernel = true;
        assert_eq!(classify(&straddling, &read, PageSize::BASE_4K), Access::Unknown);
    }
}
