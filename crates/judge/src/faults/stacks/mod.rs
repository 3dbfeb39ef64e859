//! The stacks recorded with faults. Each distinct stack is kept once.
//!
//! A stack is taken during its fault, by a separate event or with the beginning. It belongs to the
//! instruction that faulted and to the fault itself. That is the fault that its thread has under way at the
//! same address, or begins next: two events of one moment come in any order.

use super::interned::InternedValues;
use super::sites::CodeKey;
use pagewise_model::fault::StackEnd;
use rustc_hash::FxHashMap;

/// Distinct stacks that are kept; those beyond count as not taken.
const MOST_STACKS: usize = 100_000;

/// The callers of an instruction.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct WalkedStack {
    /// Return addresses less one, innermost first.
    pub(super) frames: Vec<CodeKey>,
    pub(super) end: StackEnd,
}

#[derive(Debug, Default)]
pub(super) struct WalkedStacks {
    distinct: InternedValues<WalkedStack>,
    /// The number of faults that each stack represents, by instruction.
    by_code: FxHashMap<CodeKey, FxHashMap<u32, u64>>,
    /// Of threads whose fault has not begun yet: address and stack.
    early: FxHashMap<i32, (u64, u32)>,
    count: u64,
    pub(super) lost: u64,
}

impl WalkedStacks {
    /// Adds a stack of `code` that represents `faults` faults. Returns its number.
    pub(super) fn add(&mut self, code: CodeKey, walked: &WalkedStack, faults: u64) -> Option<u32> {
        self.count += 1;
        let has_room = self.distinct.all().len() < MOST_STACKS;
        let number = match self.distinct.known(walked) {
            None if has_room => self.distinct.number(walked),
            known => known?,
        };
        *self.by_code.entry(code).or_default().entry(number).or_default() += faults.max(1);
        Some(number)
    }

    /// Keeps a stack for the fault at `address` that thread `tid` is about to begin.
    pub(super) fn keep_early(&mut self, tid: i32, address: u64, number: u32) {
        self.early.insert(tid, (address, number));
    }

    /// The stack kept for a fault that begins.
    pub(super) fn take_early(&mut self, tid: i32, address: u64) -> Option<u32> {
        let (at, number) = self.early.remove(&tid)?;
        (at == address).then_some(number)
    }

    /// The thread has ended.
    pub(super) fn forget(&mut self, tid: i32) {
        self.early.remove(&tid);
    }

    /// How many were taken.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// Each distinct stack, by its number.
    pub(super) fn all(&self) -> &[WalkedStack] {
        self.distinct.all()
    }

    /// The stacks of `code` by number, with the faults that they represent.
    pub(super) fn by_code(&self, code: CodeKey) -> Vec<(u32, u64)> {
        let stacks = self.by_code.get(&code).into_iter().flatten();
        let mut stacks: Vec<(u32, u64)> =
            stacks.map(|(number, faults)| (*number, *faults)).collect();
        stacks.sort_unstable();
        stacks
    }
}

#[cfg(test)]
mod tests;
