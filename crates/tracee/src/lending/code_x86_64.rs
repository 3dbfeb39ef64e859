//! Finds system calls by number in x86-64 code.
//!
//! The number of vmsplice is loaded as a constant. Soon after it comes a `syscall` instruction, or a call of
//! code that makes system calls by number: the C library's `syscall`, through its address slot, or a function
//! with the instruction near its beginning. Go passes numbers through several functions, so in Go code any
//! call counts. The bytes after the constant are searched, not disassembled, so an ordinary number is
//! occasionally mistaken for it.
//!
//! Whether bytes are the constant of an instruction depends on where instructions begin. Disassembly from a
//! wrong start soon falls in step with the real instructions. So it is started at many places before the
//! bytes, and if a quarter of them agree, the bytes are a constant.

use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind, Register};
use memchr::memmem;
use object::elf::{EM_X86_64, Machine};

/// The architecture whose code this module understands.
pub(super) const MACHINE: Machine = EM_X86_64;
/// Number of bytes of a called function that are examined.
pub(super) const BODY: usize = 128;

/// Number of bytes after a constant in which it may be used.
const NEAR: usize = 96;
/// The same distance in Go code, whose calls load the number last.
const NEAR_IN_GO: usize = 64;
/// Largest distance before a constant, in bytes, at which disassembly is started.
const FURTHEST: usize = 48;
/// Smallest distance before a constant, in bytes, at which disassembly is started.
const NEAREST: usize = 24;
/// Encoding of `syscall`.
const INSTRUCTION: &[u8] = &[0x0f, 0x05];
/// Encoding of `endbr64`, with which a function may begin.
const LANDING: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];

/// Opcode of `mov esi, CONSTANT`, which loads the second argument.
const MODE_LOAD: u8 = 0xbe;

/// glibc's value; other C libraries lack it.
const RTLD_DEEPBIND: i32 = 8;

/// The modes of dlopen(3) with `RTLD_DEEPBIND` that a program may give as a constant.
fn deep_modes() -> impl Iterator<Item = i32> {
    let when = [libc::RTLD_LAZY, libc::RTLD_NOW];
    let more = [0, libc::RTLD_GLOBAL, libc::RTLD_NODELETE, libc::RTLD_GLOBAL | libc::RTLD_NODELETE];
    when.into_iter().flat_map(move |when| more.map(|more| RTLD_DEEPBIND | when | more))
}

/// Resolves where calls in the code lead.
pub(super) struct CallResolver<'a> {
    /// The first [`BODY`] bytes of the code at an address.
    pub(super) body: &'a dyn Fn(u64) -> Vec<u8>,
    /// Addresses of the slots that hold the imported function's address.
    pub(super) slots: &'a [u64],
    /// The code is Go's.
    pub(super) is_go: bool,
}

impl CallResolver<'_> {
    /// Whether `code`, located at `address`, calls vmsplice by its number.
    pub(super) fn vmsplice(&self, code: &[u8], address: u64) -> bool {
        let number = (libc::SYS_vmsplice as u32).to_le_bytes();
        memmem::find_iter(code, &number).any(|at| {
            let end = at + number.len();
            let is_made = memmem::find(near(code, end), INSTRUCTION).is_some()
                || targets(code, end, address).any(|target| self.makes_calls(target));
            is_made && is_loaded(code, at, &|_| true)
                || self.is_go && has_call(code, end) && is_loaded(code, at, &is_first_of_go)
        })
    }

    /// Whether `code`, located at `address`, gets or sets the capacity of a pipe.
    pub(super) fn capacity(&self, code: &[u8], address: u64) -> bool {
        [libc::F_GETPIPE_SZ, libc::F_SETPIPE_SZ].into_iter().any(|command| {
            memmem::find_iter(code, &command.to_le_bytes()).any(|at| {
                targets(code, at + 4, address).any(|target| self.is_import(target))
                    && is_loaded(code, at, &|to| {
                        matches!(to, ConstantPlace::Register(Register::RSI))
                    })
            })
        })
    }

    /// Whether `code`, located at `address`, opens libraries with `RTLD_DEEPBIND`.
    pub(super) fn opens_deep(&self, code: &[u8], address: u64) -> bool {
        deep_modes().any(|mode| {
            let load = [&[MODE_LOAD][..], &mode.to_le_bytes()].concat();
            memmem::find_iter(code, &load).any(|at| {
                targets(code, at + load.len(), address).any(|target| self.is_import(target))
                    && is_loaded(code, at + 1, &|to| {
                        matches!(to, ConstantPlace::Register(Register::RSI))
                    })
            })
        })
    }

    /// Whether the called code makes system calls of any number.
    fn makes_calls(&self, target: CallTarget) -> bool {
        self.is_import(target)
            || matches!(target, CallTarget::Code(at) if memmem::find(&(self.body)(at), INSTRUCTION).is_some())
    }

    /// Whether the called code is the imported function, through its slot or a stub that jumps there.
    fn is_import(&self, target: CallTarget) -> bool {
        let slot = match target {
            CallTarget::Slot(slot) => Some(slot),
            CallTarget::Code(_) if self.slots.is_empty() => None,
            CallTarget::Code(address) => {
                let body = (self.body)(address);
                let skipped = if body.starts_with(LANDING) { LANDING.len() } else { 0 };
                // The jump may have a `bnd` prefix.
                let skipped = skipped + usize::from(body.get(skipped) == Some(&0xf2));
                match target_at(&body, skipped, address) {
                    Some(CallTarget::Slot(slot)) => Some(slot),
                    _ => None,
                }
            }
        };
        slot.is_some_and(|slot| self.slots.contains(&slot))
    }
}

/// Target of a call or a jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallTarget {
    /// The code at this address.
    Code(u64),
    /// The address that is stored here.
    Slot(u64),
}

/// Targets of calls and jumps soon after `end`.
fn targets(code: &[u8], end: usize, address: u64) -> impl Iterator<Item = CallTarget> {
    let last = code.len().min(end + NEAR);
    (end..last).filter_map(move |at| target_at(code, at, address))
}

/// Target of the instruction at `at`, if it is a call or a jump.
fn target_at(code: &[u8], at: usize, address: u64) -> Option<CallTarget> {
    let distance = |from: usize| -> Option<u64> {
        let bytes = code.get(from..from + 4)?.try_into().ok()?;
        let next = address.wrapping_add(from as u64 + 4);
        Some(next.wrapping_add_signed(i64::from(i32::from_le_bytes(bytes))))
    };
    match code.get(at..)? {
        [0xe8 | 0xe9, ..] => distance(at + 1).map(CallTarget::Code),
        [0xff, 0x15 | 0x25, ..] => distance(at + 2).map(CallTarget::Slot),
        _ => None,
    }
}

fn near(code: &[u8], end: usize) -> &[u8] {
    &code[end..code.len().min(end + NEAR)]
}

fn has_call(code: &[u8], end: usize) -> bool {
    code[end..code.len().min(end + NEAR_IN_GO)].contains(&0xe8)
}

/// Where an instruction stores its constant.
enum ConstantPlace {
    /// In this register, given by its 64-bit name.
    Register(Register),
    /// On the stack, this many bytes above the stack pointer.
    Stack(u64),
    /// In other memory.
    Memory,
}

/// Whether it becomes the first argument of a Go function, in a register or, before Go 1.17, on the stack.
fn is_first_of_go(to: &ConstantPlace) -> bool {
    matches!(to, ConstantPlace::Register(Register::RAX) | ConstantPlace::Stack(0))
}

/// Whether the four bytes at `at` are the constant of an instruction that stores it as `wanted` requires.
fn is_loaded(code: &[u8], at: usize, wanted: &dyn Fn(&ConstantPlace) -> bool) -> bool {
    let first = at.saturating_sub(FURTHEST);
    let last = at.saturating_sub(NEAREST).max(first);
    let starts = last - first + 1;
    let agree =
        (first..=last).filter(|start| loaded_from(code, *start, at).is_some_and(|to| wanted(&to)));
    agree.count() * 4 >= starts
}

/// Where the constant at `at` is stored, if disassembly starts at `start`.
fn loaded_from(code: &[u8], start: usize, at: usize) -> Option<ConstantPlace> {
    let mut decoder = Decoder::new(64, &code[start..code.len().min(at + 16)], DecoderOptions::NONE);
    while decoder.can_decode() && start + decoder.position() < at {
        let begin = start + decoder.position();
        let one = decoder.decode();
        let offsets = decoder.get_constant_offsets(&one);
        let is_it = offsets.has_immediate()
            && offsets.immediate_size() == 4
            && begin + offsets.immediate_offset() == at;
        if !is_it {
            continue;
        }
        return match (one.mnemonic(), one.op0_kind()) {
            (Mnemonic::Push, _) => Some(ConstantPlace::Stack(0)),
            (Mnemonic::Mov, OpKind::Register) => {
                Some(ConstantPlace::Register(one.op0_register().full_register()))
            }
            (Mnemonic::Mov, _) if one.memory_base() == Register::RSP => {
                Some(ConstantPlace::Stack(one.memory_displacement64()))
            }
            (Mnemonic::Mov, _) => Some(ConstantPlace::Memory),
            _ => None,
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Result for `code` at 0x1000, if the called code has the body `called`.
    fn lends(code: &[u8], called: &[u8], slots: &[u64], is_go: bool) -> bool {
        let body = |_| called.to_vec();
        CallResolver { body: &body, slots, is_go }.vmsplice(code, 0x1000)
    }

    const NUMBER: [u8; 4] = [0x16, 1, 0, 0];

    fn with(before: &[u8], after: &[u8]) -> Vec<u8> {
        [before, &NUMBER, after].concat()
    }

    #[test]
    fn the_instruction_after_the_number() {
        for load in [&[0xb8][..], &[0x41, 0xb8], &[0x48, 0xc7, 0xc0], &[0x68]] {
            assert!(lends(&with(load, &[0x90, 0x0f, 0x05]), &[], &[], false), "{load:x?}");
        }
        // The bytes before may look like the start of another instruction.
        let before = [&[0x90; 60][..], &[0x05, 1, 2, 3, 0x80, 0xb8]].concat();
        assert!(lends(&with(&before, &[0x0f, 0x05]), &[], &[], false));
        // A jump distance, a structure offset, a number for another purpose, and one far away.
        assert!(!lends(&with(&[0x80, 0xb8], &[0, 0x0f, 0x05]), &[], &[], false));
        assert!(!lends(&with(&[0x8b, 0xb8], &[0x0f, 0x05]), &[], &[], false));
        assert!(!lends(&with(&[0xe9], &[0x0f, 0x05]), &[], &[], false));
        assert!(!lends(&with(&[0xb8], &[0xc3]), &[], &[], false));
        assert!(!lends(
            &with(&[0xb8], &[&[0x90; 200][..], &[0x0f, 0x05]].concat()),
            &[],
            &[],
            false
        ));
    }

    #[test]
    fn a_call_of_what_makes_system_calls() {
        let call = with(&[0xbf], &[0xe8, 0x10, 0, 0, 0]);
        assert!(lends(&call, &[0x48, 0x89, 0xf8, 0x0f, 0x05, 0xc3], &[], false));
        assert!(!lends(&call, &[0x48, 0x89, 0xf8, 0xc3], &[], false));
        // The stub is at 0x101a; its slot is 6 + 0x100 bytes further on.
        let stub = [0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 0, 1, 0, 0];
        assert!(lends(&call, &stub, &[0x101a + 10 + 0x100], false));
        assert!(!lends(&call, &stub, &[0x2000], false));
        let direct = with(&[0xbf], &[0xff, 0x15, 0, 1, 0, 0]);
        assert!(lends(&direct, &[], &[0x1000 + 11 + 0x100], false));
    }

    #[test]
    fn any_call_counts_in_go() {
        let call = with(&[0xb8], &[0x31, 0xdb, 0xe8, 0x10, 0, 0, 0]);
        assert!(lends(&call, &[], &[], true) && !lends(&call, &[], &[], false));
        assert!(!lends(&with(&[0xbf], &[0xe8, 0, 0, 0, 0]), &[], &[], true));
    }

    #[test]
    fn capacities_asked_through_the_import() {
        let asks = |code: &[u8]| {
            CallResolver { body: &|_| Vec::new(), slots: &[0x1000 + 11 + 0x100], is_go: false }
                .capacity(code, 0x1000)
        };
        assert!(asks(&[0xbe, 0x08, 4, 0, 0, 0xff, 0x15, 0, 1, 0, 0]));
        assert!(asks(&[0xbe, 0x07, 4, 0, 0, 0xff, 0x15, 0, 1, 0, 0]));
        assert!(!asks(&[0xbe, 0x08, 4, 0, 0, 0xff, 0x15, 0, 2, 0, 0]));
        assert!(!asks(&[0xbf, 0x08, 4, 0, 0, 0xff, 0x15, 0, 1, 0, 0]));
    }

    #[test]
    fn libraries_opened_deep() {
        let opens = |code: &[u8]| {
            CallResolver { body: &|_| Vec::new(), slots: &[0x1000 + 11 + 0x100], is_go: false }
                .opens_deep(code, 0x1000)
        };
        let call = [0xff, 0x15, 0, 1, 0, 0];
        let with = |load: &[u8]| opens(&[load, &call].concat());
        assert!(with(&[0xbe, 0x09, 1, 0, 0]) && with(&[0xbe, 0x0a, 0, 0, 0]));
        // Without the flag, in another argument, and with another call.
        assert!(!with(&[0xbe, 0x02, 1, 0, 0]) && !with(&[0xbf, 0x09, 1, 0, 0]));
        assert!(!opens(&[0xbe, 0x09, 1, 0, 0, 0xff, 0x15, 0, 2, 0, 0]));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_accepted(mut code: Vec<u8>, at: usize, called: Vec<u8>) {
            let at = at % (code.len() + 1);
            code.splice(at..at, NUMBER);
            let _ = lends(&code, &called, &[1], true);
            let calls = CallResolver { body: &|_| called.clone(), slots: &[1], is_go: false };
            let _ = calls.capacity(&code, u64::MAX);
            let _ = calls.opens_deep(&code, u64::MAX);
        }
    }
}
