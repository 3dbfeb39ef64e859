//! Walks the stack of a thread whose innermost part was copied.
//!
//! Each step uses the tables of the file that contains the instruction ([`super::tables`]). If the file has
//! none (code generated at run time, Go), the code from the return address on is read, in case it returns
//! immediately (the trampolines of Python). Otherwise the frame pointer is used, if it points at a frame:
//! further up in the copied part, with a return address in code. The walk ends when no step works, and says
//! why. A return address lies one beyond its call, so the call is looked up by the address before it.
//!
//! Not seen: callers of functions that ended with a jump (tail calls), and inlined functions. Cost: 0.1-0.3
//! us a frame once its rule is known. The tables of a file are read when its first frame is met (1-5 ms for 5
//! MiB of them).

use super::tables::{FrameAddress, SavedRegister, UnwindRule, UnwindTables};
use gimli::{Register, X86_64};
use pagewise_model::fault::StackEnd;
use pagewise_model::fault::event::FrameRegisters;
use pagewise_tracee::perf::FindCode;
use std::sync::Arc;

/// Frames that are followed.
const MOST_FRAMES: usize = 128;
const WORD: u64 = 8;

/// The part of a stack that was copied.
#[derive(Debug, Clone, Copy)]
struct StackCopy<'a> {
    start: u64,
    bytes: &'a [u8],
}

impl StackCopy<'_> {
    /// The word at `address`, if it lies within the copied part.
    fn word(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.start)?).ok()?;
        Some(u64::from_ne_bytes(*self.bytes.get(at..)?.first_chunk::<8>()?))
    }
}

/// How to step from code to its caller.
pub(super) trait UnwindSource {
    /// The tables of a file.
    fn tables(&mut self, path: &str) -> Option<Arc<UnwindTables>>;
    /// How far above the stack pointer the return address is, for code of no file that is returned to at
    /// `address` and returns immediately.
    fn made_return(&mut self, address: u64) -> Option<u64>;
}

/// Bytes that are enough for [`distance_to_return`].
pub(super) const LONGEST_EPILOGUE: usize = 16;

/// How far above the stack pointer the return address is, for code that only frees its frame and returns:
/// `add rsp, N`, any number of `pop`, `ret`. It must not pop RBP or RBX, which the walk of callers uses.
pub(super) fn distance_to_return(code: &[u8]) -> Option<u64> {
    let (mut distance, mut rest) = (0, code);
    loop {
        (distance, rest) = match rest {
            [0xc3, ..] => return Some(distance),
            [0x48, 0x83, 0xc4, bytes @ 0..0x80, rest @ ..] => (distance + u64::from(*bytes), rest),
            [0x58..=0x5a | 0x5e | 0x5f, rest @ ..] | [0x41, 0x58..=0x5f, rest @ ..] => {
                (distance + WORD, rest)
            }
            _ => return None,
        }
    }
}

/// Instruction and return addresses, innermost first, and why the walk ended.
pub(super) fn walk(
    registers: &FrameRegisters,
    bytes: &[u8],
    code: FindCode<'_>,
    ways: &mut dyn UnwindSource,
) -> (Vec<u64>, StackEnd) {
    let stack = StackCopy { start: registers.stack, bytes };
    let mut addresses = vec![registers.ip_address];
    let mut here = *registers;
    // For the first instruction, and after a signal, the address is that of the instruction itself.
    let mut is_call = false;
    while addresses.len() < MOST_FRAMES {
        let at = here.ip_address.saturating_sub(u64::from(is_call));
        let Some((path, offset)) = code(at) else { return (addresses, StackEnd::NoTable) };
        let tables = ways.tables(path);
        let found = tables.and_then(|tables| tables.rule(offset).map(|rule| (tables, rule)));
        let is_returned_to = found.is_none() && is_call && path.is_empty();
        let made = if is_returned_to { ways.made_return(here.ip_address) } else { None };
        let next = match (&found, made) {
            (Some((tables, rule)), _) => by_rule(&here, rule, tables, &stack),
            (None, Some(distance)) => by_return(&here, distance, &stack),
            (None, None) => by_frame_pointer(&here, &stack),
        };
        let next = match next {
            Ok(next) => next,
            Err(end) => return (addresses, end),
        };
        is_call = found.is_none_or(|(_, rule)| !rule.is_signal);
        if next.ip_address == 0 {
            return (addresses, StackEnd::Outermost);
        }
        if code(next.ip_address.saturating_sub(u64::from(is_call))).is_none() {
            return (addresses, StackEnd::NoTable);
        }
        addresses.push(next.ip_address);
        here = next;
    }
    (addresses, StackEnd::Deep)
}

fn by_rule(
    here: &FrameRegisters,
    rule: &UnwindRule,
    tables: &UnwindTables,
    stack: &StackCopy<'_>,
) -> Result<FrameRegisters, StackEnd> {
    let register = |register| value(here, register);
    let memory = |address| stack.word(address);
    let cfa = match rule.cfa {
        FrameAddress::From(from, distance) => {
            register(from).map(|from| from.wrapping_add_signed(distance))
        }
        FrameAddress::Expression(expression) => {
            tables.evaluate(expression, None, &register, &memory)
        }
    };
    // A frame that is not further out would make the walk endless.
    let cfa = cfa.filter(|cfa| *cfa > here.stack).ok_or(StackEnd::NoTable)?;
    let saved = |saved: SavedRegister, same: u64| match saved {
        SavedRegister::Same => Ok(same),
        SavedRegister::At(distance) => {
            memory(cfa.wrapping_add_signed(distance)).ok_or(StackEnd::Cut)
        }
        SavedRegister::Expression(expression) => {
            let address = tables.evaluate(expression, Some(cfa), &register, &memory);
            memory(address.ok_or(StackEnd::NoTable)?).ok_or(StackEnd::Cut)
        }
        SavedRegister::Nowhere | SavedRegister::Elsewhere => Err(StackEnd::NoTable),
    };
    let ip_address = match rule.returns {
        SavedRegister::Nowhere => 0,
        SavedRegister::Same => return Err(StackEnd::NoTable),
        other => saved(other, 0)?,
    };
    // An unknown value of these two may never be needed.
    Ok(FrameRegisters {
        ip_address,
        stack: cfa,
        frame: saved(rule.frame, here.frame).unwrap_or(0),
        base: saved(rule.base, here.base).unwrap_or(0),
    })
}

/// The frame pointer is the caller's still.
fn by_return(
    here: &FrameRegisters,
    distance: u64,
    stack: &StackCopy<'_>,
) -> Result<FrameRegisters, StackEnd> {
    let returns = here.stack.saturating_add(distance);
    let ip_address = stack.word(returns).ok_or(StackEnd::Cut)?;
    Ok(FrameRegisters { ip_address, stack: returns.saturating_add(WORD), ..*here })
}

fn by_frame_pointer(
    here: &FrameRegisters,
    stack: &StackCopy<'_>,
) -> Result<FrameRegisters, StackEnd> {
    let FrameRegisters { frame, base, .. } = *here;
    // So the kernel starts a program, and the outermost function of a thread leaves it.
    if frame == 0 {
        return Ok(FrameRegisters { ip_address: 0, ..*here });
    }
    if frame < here.stack || frame % WORD != 0 {
        return Err(StackEnd::NoTable);
    }
    let word = |address: u64| stack.word(address).ok_or(StackEnd::Cut);
    let returns = frame.saturating_add(WORD);
    Ok(FrameRegisters {
        ip_address: word(returns)?,
        stack: returns.saturating_add(WORD),
        frame: word(frame)?,
        base,
    })
}

/// The registers that are followed.
fn value(here: &FrameRegisters, register: Register) -> Option<u64> {
    match register {
        X86_64::RA => Some(here.ip_address),
        X86_64::RSP => Some(here.stack),
        X86_64::RBP => Some(here.frame),
        X86_64::RBX => Some(here.base),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// Code everywhere from 0x1000 up to 0x2000, of no file.
    fn code(address: u64) -> Option<(&'static str, u64)> {
        (0x1000..0x2000).contains(&address).then_some(("", address))
    }

    fn walked(frame: u64, words: &[u64]) -> (Vec<u64>, StackEnd) {
        let registers = FrameRegisters { ip_address: 0x1500, stack: 0x8000, frame, base: 0 };
        walk(&registers, &bytes(words), &code, &mut Trampoline)
    }

    /// No tables. The code returned to at 0x1700 frees 16 bytes and returns.
    struct Trampoline;

    impl UnwindSource for Trampoline {
        fn tables(&mut self, _path: &str) -> Option<Arc<UnwindTables>> {
            None
        }
        fn made_return(&mut self, address: u64) -> Option<u64> {
            (address == 0x1700).then_some(16)
        }
    }

    #[test]
    fn code_that_returns_at_once_needs_no_frame_pointer() {
        // Its caller's frame pointer leads on.
        let words = [7, 0x8040, 0x1700, 7, 7, 0x1300, 7, 7, 0, 0];
        assert_eq!(walked(0x8008, &words).0, [0x1500, 0x1700, 0x1300]);
    }

    #[test]
    fn returns_are_read_from_code() {
        assert_eq!(distance_to_return(&[0x48, 0x83, 0xc4, 8, 0xc3, 0xff]), Some(8));
        assert_eq!(distance_to_return(&[0x48, 0x83, 0xc4, 0x10, 0x5e, 0x41, 0x5c, 0xc3]), Some(32));
        assert_eq!(distance_to_return(&[0xc3]), Some(0));
        let others: [&[u8]; 5] = [
            &[],
            &[0x48, 0x83, 0xc4],
            &[0x48, 0x83, 0xc4, 0xf8, 0xc3],
            &[0x90, 0xc3],
            &[0x5d, 0xc3],
        ];
        for other in others {
            assert_eq!(distance_to_return(other), None, "{other:x?}");
        }
    }

    #[test]
    fn without_tables_frame_pointers_are_followed() {
        let words = [7, 0x8020, 0x1100, 7, 0x8050, 0x1200, 7, 7, 7, 7, 0, 0];
        assert_eq!(walked(0x8008, &words), (vec![0x1500, 0x1100, 0x1200], StackEnd::Outermost));
    }

    #[test]
    fn a_walk_that_cannot_go_on_says_why() {
        let only = |end| (vec![0x1500], end);
        assert_eq!(walked(0, &[0, 0]), only(StackEnd::Outermost));
        // The frame pointer is below the stack, misaligned, or beyond the copied part.
        assert_eq!(walked(0x7000, &[0, 0]), only(StackEnd::NoTable));
        assert_eq!(walked(0x8004, &[0, 0]), only(StackEnd::NoTable));
        assert_eq!(walked(0x9000, &[0, 0]), only(StackEnd::Cut));
        assert_eq!(walked(u64::MAX - 7, &[0, 0]), only(StackEnd::Cut));
        // The word it points at is no return address.
        assert_eq!(walked(0x8000, &[0, 0x9999]), only(StackEnd::NoTable));
    }

    #[test]
    fn frames_that_do_not_lead_outwards_end() {
        // Each frame pointer points at itself.
        let (addresses, end) = walked(0x8000, &[0x8000, 0x1100]);
        assert_eq!((addresses, end), (vec![0x1500, 0x1100], StackEnd::NoTable));
    }
}
