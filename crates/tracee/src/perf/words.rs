//! The words of a record, one after the other: pure functions on bytes.
//!
//! All numbers are in the machine's own byte order. What is too short gives nothing.

use pagewise_kernel::perf::bindings as b;

/// The words of a body that are left.
pub(super) struct Words<'a>(pub(super) &'a [u8]);

impl<'a> Words<'a> {
    pub(super) fn next(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*first))
    }

    /// How many entries a call chain has, then the entries: those of the kernel, then those of user
    /// mode, each kind after a mark.
    pub(super) fn chain(&mut self) -> Option<(Vec<u64>, Vec<u64>)> {
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

    /// How many bytes there are, then the bytes, then how many of them are true; nothing follows a
    /// number of 0.
    pub(super) fn sized_bytes(&mut self) -> Option<&'a [u8]> {
        let size = usize::try_from(self.next()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(size)?;
        self.0 = rest;
        let there = if size == 0 { 0 } else { usize::try_from(self.next()?).ok()? };
        bytes.get(..there.min(size))
    }
}

/// The word that begins at byte `at`.
pub(super) fn word(body: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*body.get(at..)?.first_chunk::<8>()?))
}

/// The two 32-bit numbers of a word, in the order of memory.
pub(super) fn halves(word: u64) -> (i32, i32) {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    (i32::from_ne_bytes([a, b, c, d]), i32::from_ne_bytes([e, f, g, h]))
}
