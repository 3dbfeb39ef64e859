//! Counts equal stacks, and turns the counts into activities.

use super::record::Record;
use pagewise_judge::activity::{UNKNOWN_SYMBOL, classify};
use pagewise_kernel::kallsyms::KernelSymbols;
use pagewise_model::Nanos;
use pagewise_model::look::Samples;
use std::collections::{BTreeMap, HashMap};

/// Leaf symbols listed at most.
const MOST_SYMBOLS: usize = 40;

/// Samples by stack, without names yet.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    user: u64,
    kernel: HashMap<Vec<u64>, u64>,
    lost: u64,
}

impl Stacks {
    /// Counts `records`.
    pub(super) fn add(&mut self, records: Vec<Record>) {
        for record in records {
            match record {
                Record::User => self.user += 1,
                Record::Kernel(stack) => *self.kernel.entry(stack).or_default() += 1,
                Record::Lost(count) => self.lost = self.lost.saturating_add(count),
            }
        }
    }

    /// Names the stacks and sorts them into activities.
    pub(super) fn resolve(&self, symbols: &KernelSymbols, period_ns: Nanos) -> Samples {
        let mut kernel = BTreeMap::new();
        let mut leaves: HashMap<&str, u64> = HashMap::new();
        for (stack, count) in &self.kernel {
            let names: Vec<&str> =
                stack.iter().enumerate().map(|(depth, ip)| name(symbols, depth, *ip)).collect();
            *kernel.entry(classify(&names)).or_default() += count;
            *leaves.entry(names.first().copied().unwrap_or(UNKNOWN_SYMBOL)).or_default() += count;
        }
        let mut listed: Vec<(String, u64)> =
            leaves.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
        listed.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        listed.truncate(MOST_SYMBOLS);
        Samples { user: self.user, kernel, symbols: listed, period_ns, lost: self.lost }
    }
}

/// Above the leaf an entry is a return address: it may lie just past a function that never returns.
fn name(symbols: &KernelSymbols, depth: usize, ip: u64) -> &str {
    let address = if depth == 0 { ip } else { ip.saturating_sub(1) };
    symbols.resolve(address).unwrap_or(UNKNOWN_SYMBOL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::look::Activity;

    #[test]
    fn equal_stacks_are_counted_and_named() {
        let symbols = KernelSymbols::parse(
            "ffffffff81000000 T filemap_read\nffffffff81000100 T _copy_to_iter\n\
             ffffffff81000200 t anon_pipe_write\n",
        )
        .unwrap();
        let at = |offset: u64| 0xffff_ffff_8100_0000 + offset;
        let mut stacks = Stacks::default();
        let copy = Record::Kernel(vec![at(0x104), at(0x100)]);
        stacks.add(vec![copy.clone(), copy, Record::User, Record::Lost(3)]);
        stacks.add(vec![Record::Kernel(vec![at(0x210)]), Record::Kernel(vec![12])]);
        let samples = stacks.resolve(&symbols, Nanos(500));
        assert_eq!((samples.user, samples.lost, samples.kernel_total()), (1, 3, 4));
        assert_eq!(samples.kernel[&Activity::Copy], 2);
        assert_eq!(samples.kernel[&Activity::Pipe], 1);
        assert_eq!(samples.kernel[&Activity::Unknown], 1);
        assert_eq!(samples.symbols[0], ("_copy_to_iter".to_owned(), 2));
    }
}
