//! Stores each text once, under a number.

use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Texts by number.
#[derive(Debug, Default)]
pub struct NumberedTexts {
    all: Vec<Arc<str>>,
    numbers: FxHashMap<Arc<str>, u32>,
    length: u64,
}

/// Bytes per text besides its content: reference counts, and entries in the list and the map while they grow.
const BESIDE: u64 = 144;

impl NumberedTexts {
    /// The number of `text`; assigns one if it has none.
    pub fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.length += text.len() as u64;
        let text: Arc<str> = Arc::from(text);
        self.all.push(Arc::clone(&text));
        self.numbers.insert(text, number);
        number
    }

    /// The text with this number.
    #[must_use]
    pub fn text(&self, number: u32) -> &str {
        self.all.get(number as usize).map_or("", AsRef::as_ref)
    }

    /// The shared copy of the text with this number.
    #[must_use]
    pub fn get(&self, number: u32) -> Arc<str> {
        self.all.get(number as usize).cloned().unwrap_or_default()
    }

    /// Upper bound for the bytes of memory that the texts take.
    #[must_use]
    pub fn kept_bytes(&self) -> u64 {
        self.all.len() as u64 * BESIDE + self.length
    }

    /// The shared copy of `text`.
    pub fn shared(&mut self, text: &str) -> Arc<str> {
        let number = self.number(text);
        self.get(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_one_number_and_one_copy() {
        let mut texts = NumberedTexts::default();
        let (first, other) = (texts.number("a"), texts.number("b"));
        assert_eq!((texts.number("a"), &*texts.get(other)), (first, "b"));
        assert!(Arc::ptr_eq(&texts.shared("a"), &texts.get(first)) && first != other);
        assert_eq!(&*texts.get(7), "");
    }
}
