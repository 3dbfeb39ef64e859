//! The unwind tables of an ELF file: for each instruction, where its caller's registers are.
//!
//! `.eh_frame` holds them (System V ABI, AMD64 supplement, "Unwind Library Interface"; DWARF 5, section 6.4),
//! `.eh_frame_hdr` an index by address. Both are read once for a file and kept. The rule of an instruction is
//! computed once. Only what a walk of callers needs is kept of it: the return address, the stack, RBP, and
//! RBX, in which some functions keep the frame. A file without these tables, or with `.debug_frame` only,
//! counts as having none.

use crate::segments::MappedSegments;
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, Encoding, EndianSlice, EvaluationResult,
    Expression, Format, LittleEndian, Location, Register, RegisterRule, UnwindContext,
    UnwindExpression, UnwindSection, UnwindTableRow, Value, X86_64,
};
use object::{Object, ObjectSection, ReadCache};
use std::collections::HashMap;
use std::fs::File;
use std::sync::{Mutex, MutexGuard, PoisonError};

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// Steps of an expression, at most: a damaged one could go round in circles.
const MOST_STEPS: u32 = 200;
const ADDRESS_BYTES: u8 = 8;

/// What an instruction's frame is measured from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameAddress {
    /// A register and a distance.
    From(Register, i64),
    Expression(UnwindExpression<usize>),
}

/// Where a register of the caller is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SavedRegister {
    /// Unchanged from this frame.
    Same,
    /// In memory, this far from the frame.
    At(i64),
    /// In memory, where an expression says.
    Expression(UnwindExpression<usize>),
    /// Nowhere: of a return address, there is no caller.
    Nowhere,
    /// In a place that is not followed.
    Elsewhere,
}

/// How to get from a frame to its caller's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnwindRule {
    pub(super) cfa: FrameAddress,
    pub(super) returns: SavedRegister,
    pub(super) frame: SavedRegister,
    pub(super) base: SavedRegister,
    /// A handler of a signal returns there: the next instruction is no call.
    pub(super) is_signal: bool,
}

/// The tables of a file.
#[derive(Debug)]
pub(super) struct UnwindTables {
    eh_frame: Vec<u8>,
    header: Vec<u8>,
    bases: BaseAddresses,
    segments: MappedSegments,
    rules: Mutex<HashMap<u64, Option<UnwindRule>>>,
    context: Mutex<UnwindContext<usize>>,
}

impl UnwindTables {
    /// `None` for a file without them.
    pub(super) fn read(file: &File) -> Option<Self> {
        let cache = ReadCache::new(file);
        let elf = object::File::parse(&cache).ok()?;
        let section = |name| {
            let section = elf.section_by_name(name)?;
            Some((section.address(), section.data().ok()?.to_vec()))
        };
        let (address, eh_frame) = section(".eh_frame")?;
        let mut bases = BaseAddresses::default().set_eh_frame(address);
        let header = match section(".eh_frame_hdr") {
            Some((address, header)) => {
                bases = bases.set_eh_frame_hdr(address);
                header
            }
            None => Vec::new(),
        };
        if let Some(text) = elf.section_by_name(".text") {
            bases = bases.set_text(text.address());
        }
        let segments = MappedSegments::from_elf(&elf);
        let (rules, context) = (Mutex::default(), Mutex::new(UnwindContext::new()));
        Some(Self { eh_frame, header, bases, segments, rules, context })
    }

    /// The rule of the instruction at `offset` of the file.
    pub(super) fn rule(&self, offset: u64) -> Option<UnwindRule> {
        let address = self.segments.address(offset)?;
        let known = held(&self.rules).get(&address).copied();
        known.unwrap_or_else(|| {
            let rule = self.find(address);
            held(&self.rules).insert(address, rule);
            rule
        })
    }

    fn section(&self) -> EhFrame<Bytes<'_>> {
        let mut section = EhFrame::new(&self.eh_frame, LittleEndian);
        section.set_address_size(ADDRESS_BYTES);
        section
    }

    fn find(&self, address: u64) -> Option<UnwindRule> {
        let section = self.section();
        let cie = EhFrame::cie_from_offset;
        let header = EhFrameHdr::new(&self.header, LittleEndian).parse(&self.bases, ADDRESS_BYTES);
        let found = match header.as_ref().ok().and_then(|header| header.table()) {
            Some(table) => table.fde_for_address(&section, &self.bases, address, cie),
            None => section.fde_for_address(&self.bases, address, cie),
        };
        let entry = found.ok()?;
        let mut context = held(&self.context);
        let row = entry.unwind_info_for_address(&section, &self.bases, &mut *context, address);
        Some(rule(row.ok()?, entry.is_signal_trampoline()))
    }

    /// The value of an expression. `frame`, if present, is pushed on its stack first.
    pub(super) fn evaluate(
        &self,
        expression: UnwindExpression<usize>,
        frame: Option<u64>,
        register: &dyn Fn(Register) -> Option<u64>,
        memory: &dyn Fn(u64) -> Option<u64>,
    ) -> Option<u64> {
        let expression: Expression<Bytes<'_>> = expression.get(&self.section()).ok()?;
        let encoding =
            Encoding { address_size: ADDRESS_BYTES, format: Format::Dwarf32, version: 4 };
        let mut evaluation = expression.evaluation(encoding);
        evaluation.set_max_iterations(MOST_STEPS);
        if let Some(frame) = frame {
            evaluation.set_initial_value(frame);
        }
        let mut state = evaluation.evaluate().ok()?;
        // Each request takes a step, so that this ends with them.
        loop {
            state = match state {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register: wanted, .. } => {
                    evaluation.resume_with_register(Value::Generic(register(wanted)?))
                }
                EvaluationResult::RequiresMemory { address, size: ADDRESS_BYTES, .. } => {
                    evaluation.resume_with_memory(Value::Generic(memory(address)?))
                }
                _ => return None,
            }
            .ok()?;
        }
        match evaluation.as_result() {
            [piece] => match piece.location {
                Location::Address { address } => Some(address),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Locks what one thread at a time uses.
fn held<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn rule(row: &UnwindTableRow<usize>, is_signal: bool) -> UnwindRule {
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => FrameAddress::From(*register, *offset),
        CfaRule::Expression(expression) => FrameAddress::Expression(*expression),
    };
    let saved = |register| match row.register(register) {
        None | Some(RegisterRule::SameValue) => SavedRegister::Same,
        Some(RegisterRule::Offset(offset)) => SavedRegister::At(offset),
        Some(RegisterRule::Expression(expression)) => SavedRegister::Expression(expression),
        Some(RegisterRule::Undefined) => SavedRegister::Nowhere,
        Some(_) => SavedRegister::Elsewhere,
    };
    UnwindRule {
        cfa,
        returns: saved(X86_64::RA),
        frame: saved(X86_64::RBP),
        base: saved(X86_64::RBX),
        is_signal,
    }
}
