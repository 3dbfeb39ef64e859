//! Finds whose code made a call: the file of the instruction. If that is the C library or the loader, it is
//! the file of the first return address above it that belongs to another. A stack word counts as a return
//! address if it follows a call instruction.

use crate::ptrace::{Regs, read_memory};
use pagewise_kernel::proc::maps::{self, Mapping};
use pagewise_model::library;
use std::sync::Arc;

/// Number of stack words that are examined.
const WORDS: usize = 64;
/// Length of the longest call instruction.
const LONGEST_CALL: usize = 7;

/// The code of a process.
#[derive(Debug, Default)]
pub(super) struct CallerFinder {
    code: Vec<CallerRange>,
}

#[derive(Debug, Clone)]
struct CallerRange {
    start: u64,
    end: u64,
    object: Arc<str>,
    /// The C library or the loader, which calls on behalf of others.
    is_library_of_c: bool,
}

impl CallerFinder {
    /// The file whose code makes the current call of a thread of process `pid`.
    pub(super) fn of(&mut self, pid: i32, regs: &Regs) -> Option<Arc<str>> {
        let direct = self.at(pid, regs.rip)?;
        if !direct.is_library_of_c {
            return Some(direct.object);
        }
        let mut stack = [0; WORDS * size_of::<u64>()];
        let read = read_memory(pid, regs.rsp, &mut stack).unwrap_or(0);
        let mut words =
            stack[..read].as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word));
        let is_caller = |address: &u64| {
            let known = self.known(*address);
            known.is_some_and(|code| !code.is_library_of_c) && follows_a_call(pid, *address)
        };
        let caller = words.find(is_caller);
        let caller = caller.and_then(|address| self.known(address).cloned());
        Some(caller.map_or(direct.object, |code| code.object))
    }

    fn known(&self, address: u64) -> Option<&CallerRange> {
        let at = self.code.partition_point(|code| code.end <= address);
        self.code.get(at).filter(|code| code.start <= address)
    }

    /// The code at `address`. If it is unknown, all mappings are read again.
    fn at(&mut self, pid: i32, address: u64) -> Option<CallerRange> {
        if self.known(address).is_none() {
            let maps = maps::read(pid).ok()?;
            self.code = maps.iter().filter(|mapping| mapping.perms.exec).map(code).collect();
        }
        self.known(address).cloned()
    }
}

fn code(mapping: &Mapping) -> CallerRange {
    let path = mapping.path.to_string_lossy();
    let is_library_of_c = library::is_of_c(&path);
    CallerRange {
        start: mapping.start,
        end: mapping.end,
        object: Arc::from(&*path),
        is_library_of_c,
    }
}

/// Whether the instruction before `address` is a call.
fn follows_a_call(pid: i32, address: u64) -> bool {
    let mut before = [0; LONGEST_CALL];
    let start = address.saturating_sub(LONGEST_CALL as u64);
    read_memory(pid, start, &mut before).is_ok_and(|read| read == before.len())
        && ends_in_a_call(before)
}

/// A direct call, or one through a register or memory with a length of two to seven bytes.
fn ends_in_a_call(code: [u8; LONGEST_CALL]) -> bool {
    const DIRECT: u8 = 0xe8;
    const INDIRECT: u8 = 0xff;
    let is_indirect = |length: &usize| {
        let at = LONGEST_CALL - length;
        // The middle bits of the second byte distinguish a call from a jump.
        code[at] == INDIRECT && code[at + 1] >> 3 & 7 == 2
    };
    code[2] == DIRECT || (2..=LONGEST_CALL).any(|length| is_indirect(&length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_end_where_they_return_to() {
        assert!(ends_in_a_call([0x90, 0x90, 0xe8, 1, 2, 3, 4]));
        assert!(ends_in_a_call([0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0xd0]), "call *%rax");
        assert!(ends_in_a_call([0x90, 0xff, 0x15, 1, 2, 3, 4]), "call *0x4030201(%rip)");
        assert!(!ends_in_a_call([0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0xe0]), "jmp *%rax");
        assert!(!ends_in_a_call([0x90; LONGEST_CALL]));
    }
}
