//! Splits the bytes of a ring into records and words: pure functions on bytes.
//!
//! A record is a header of 8 bytes (type u32, misc u16, size u16) and a body (perf_event_open(2), "MMAP
//! layout"). All numbers are in the machine's byte order. An impossible size ends the buffer, and a body that
//! is too short gives nothing. No input is trusted: any bytes give some result, without a panic.

use pagewise_kernel::perf::bindings as b;
use pagewise_model::fault::event::FrameRegisters;

pub(super) const HEADER_BYTES: usize = 8;
/// `PERF_RECORD_MISC_CPUMODE_MASK` and its value for kernel mode.
const MODE_MASK: u16 = 7;
pub(super) const MODE_KERNEL: u16 = 1;

/// Whether the word `misc` of a sample says kernel mode.
#[must_use]
pub fn is_in_kernel(misc: u16) -> bool {
    misc & MODE_MASK == MODE_KERNEL
}

/// Passes type, misc and body of each record to `take`; returns how many bytes they take.
pub(super) fn for_each_record(bytes: &[u8], mut take: impl FnMut(u32, u16, &[u8])) -> usize {
    let mut at = 0;
    while let Some(header) = bytes.get(at..at + HEADER_BYTES) {
        let size = usize::from(u16::from_ne_bytes([header[6], header[7]]));
        let Some(body) = bytes.get(at + HEADER_BYTES..at + size) else { break };
        let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
        let misc = u16::from_ne_bytes([header[4], header[5]]);
        take(kind, misc, body);
        at += size;
    }
    at
}

/// The remaining words of a body.
#[derive(Debug)]
pub struct RecordWords<'a>(pub &'a [u8]);

impl Iterator for RecordWords<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*first))
    }
}

impl<'a> RecordWords<'a> {
    /// Number of entries of a call chain, then the entries: those of the kernel, then those of user mode,
    /// each group after a mark.
    pub fn call_chain(&mut self) -> Option<(Vec<u64>, Vec<u64>)> {
        let entries = self.next()?;
        let (mut kernel, mut user) = (Vec::new(), Vec::new());
        let mut context = 0;
        for _ in 0..entries {
            match self.next()? {
                mark if mark >= b::PERF_CONTEXT_MAX => context = mark,
                address if context == b::PERF_CONTEXT_USER => user.push(address),
                address if context == b::PERF_CONTEXT_KERNEL => kernel.push(address),
                _ => {}
            }
        }
        Some((kernel, user))
    }

    /// Number of bytes, then the bytes, then the number of valid ones. After a number of 0 nothing follows.
    pub(super) fn sized_bytes(&mut self) -> Option<&'a [u8]> {
        let size = usize::try_from(self.next()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(size)?;
        self.0 = rest;
        let there = if size == 0 { 0 } else { usize::try_from(self.next()?).ok()? };
        bytes.get(..there.min(size))
    }
}

/// Registers for a stack walk, and the innermost part of the stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CopiedStack {
    pub(super) registers: FrameRegisters,
    pub(super) bytes: Vec<u8>,
}

impl RecordWords<'_> {
    /// The data requested by `event::copy_stacks`; `None` for a thread without user mode.
    pub(super) fn copied_stack(&mut self) -> Option<CopiedStack> {
        if self.next()? == 0 {
            return None;
        }
        let (base, frame) = (self.next()?, self.next()?);
        let (stack, ip_address) = (self.next()?, self.next()?);
        let registers = FrameRegisters { ip_address, stack, frame, base };
        Some(CopiedStack { registers, bytes: self.sized_bytes()?.to_vec() })
    }
}

/// The word that begins at byte `at`.
#[must_use]
pub fn word(body: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*body.get(at..)?.first_chunk::<8>()?))
}

/// The two 32-bit numbers of a word, in the order of memory.
#[must_use]
pub fn halves(word: u64) -> (i32, i32) {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    (i32::from_ne_bytes([a, b, c, d]), i32::from_ne_bytes([e, f, g, h]))
}

/// Records for tests.
#[cfg(test)]
pub(super) mod made {
    use super::HEADER_BYTES;

    pub(in crate::perf) fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
        let size = u16::try_from(HEADER_BYTES + body.len()).unwrap();
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(misc.to_ne_bytes());
        bytes.extend(size.to_ne_bytes());
        bytes.extend(body);
        bytes
    }

    pub(in crate::perf) fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    pub(in crate::perf) fn pair(first: u32, second: u32) -> u64 {
        let mut bytes = first.to_ne_bytes().to_vec();
        bytes.extend(second.to_ne_bytes());
        u64::from_ne_bytes(bytes.try_into().unwrap())
    }
}
