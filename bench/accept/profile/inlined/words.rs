//! Counts words by chance in collections of the standard library, then sorts them: words COUNT

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

struct Source(u64);

impl Iterator for Source {
    type Item = u64;
    fn next(&mut self) -> Option<u64> {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        Some(self.0)
    }
}

fn spelled(bits: u64) -> String {
    let length = 2 + bits % 8;
    (0..length).map(|nth| char::from(b'a' + ((bits >> (4 * nth)) & 15) as u8)).collect()
}

#[derive(Default)]
struct Counter {
    words: HashMap<Rc<str>, u32>,
    by_length: BTreeMap<usize, HashSet<Rc<str>>>,
    all: Vec<Rc<str>>,
}

impl Counter {
    fn add(&mut self, text: String) {
        let text: Rc<str> = text.into();
        let count = self.words.entry(Rc::clone(&text)).or_default();
        *count += 1;
        if *count == 1 {
            self.by_length.entry(text.len()).or_default().insert(Rc::clone(&text));
            self.all.push(text);
        }
    }

    fn sorted(&self) -> Vec<(&str, u32)> {
        let mut all: Vec<(&str, u32)> = self.words.iter().map(|(text, count)| (&**text, *count)).collect();
        all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
        all
    }

    fn alike(&self) -> usize {
        self.all.iter().filter(|text| text.contains("ab") || text.split('c').count() > 2).count()
    }
}

fn main() {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(100_000);
    let mut counter = Counter::default();
    Source(88_172_645_463_325_252).take(count).map(spelled).for_each(|text| counter.add(text));
    for (text, count) in counter.sorted().into_iter().take(5) {
        println!("{text} {count}");
    }
    let letters: usize = counter.by_length.iter().map(|(length, words)| length * words.len()).sum();
    println!("{letters} {}", counter.alike());
}
