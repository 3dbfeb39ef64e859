//! Values that come again and again, each kept once under a number.

use rustc_hash::FxHashMap;
use std::hash::Hash;

/// Values with a number each.
#[derive(Debug)]
pub(super) struct InternedValues<T> {
    all: Vec<T>,
    numbers: FxHashMap<T, u32>,
}

impl<T> Default for InternedValues<T> {
    fn default() -> Self {
        Self { all: Vec::new(), numbers: FxHashMap::default() }
    }
}

impl<T: Clone + Eq + Hash> InternedValues<T> {
    /// The number of `value`. A new value is added.
    pub(super) fn number(&mut self, value: &T) -> u32 {
        if let Some(number) = self.known(value) {
            return number;
        }
        let number = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.all.push(value.clone());
        self.numbers.insert(value.clone(), number);
        number
    }

    /// The number of a `value` that is there.
    pub(super) fn known(&self, value: &T) -> Option<u32> {
        self.numbers.get(value).copied()
    }

    /// The value of a number.
    pub(super) fn get(&self, number: u32) -> Option<&T> {
        self.all.get(number as usize)
    }

    /// All of them, by their numbers.
    pub(super) fn all(&self) -> &[T] {
        &self.all
    }
}
