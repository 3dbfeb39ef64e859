//! Counts equal stacks, and names them.

use super::record::SamplingRecord;
use pagewise_kernel::kallsyms::KernelSymbols;
use pagewise_model::Nanos;
use pagewise_model::look::{CpuSamples, UNKNOWN_SYMBOL};
use std::collections::HashMap;

/// Samples by stack; function names are not resolved yet.
#[derive(Debug, Default)]
pub(super) struct KernelStackCounts {
    user: u64,
    kernel: HashMap<Vec<u64>, u64>,
    lost: u64,
}

impl KernelStackCounts {
    /// Counts `records`.
    pub(super) fn add(&mut self, records: Vec<SamplingRecord>) {
        for record in records {
            match record {
                SamplingRecord::User => self.user += 1,
                SamplingRecord::Kernel(stack) => *self.kernel.entry(stack).or_default() += 1,
                SamplingRecord::Lost(count) => self.lost = self.lost.saturating_add(count),
            }
        }
    }

    /// Takes the number of lost samples that the kernel counted; not all of them are reported.
    pub(super) fn found_lost(&mut self, counted: u64) {
        self.lost = self.lost.max(counted);
    }

    /// Resolves names. Stacks that differ only in addresses within the same functions are merged.
    pub(super) fn resolve(&self, symbols: &KernelSymbols, period_ns: Nanos) -> CpuSamples {
        let mut named: HashMap<Vec<&str>, u64> = HashMap::new();
        for (stack, count) in &self.kernel {
            let names =
                stack.iter().enumerate().map(|(depth, ip)| name(symbols, depth, *ip)).collect();
            *named.entry(names).or_default() += count;
        }
        let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
        let stacks = named.into_iter().map(|(names, count)| (owned(names), count)).collect();
        CpuSamples { user: self.user, ..CpuSamples::listing(stacks, period_ns, self.lost) }
    }
}

/// Name of the function at `ip`. Above the leaf an entry is a return address, which may be just past a
/// function that never returns.
pub(super) fn name(symbols: &KernelSymbols, depth: usize, ip: u64) -> &str {
    let address = if depth == 0 { ip } else { ip.saturating_sub(1) };
    symbols.resolve(address).unwrap_or(UNKNOWN_SYMBOL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::look::KernelStack;
    use pagewise_model::profile::MOST_LISTED;

    #[test]
    fn equal_stacks_are_counted_and_named() {
        let symbols = KernelSymbols::parse(
            "ffffffff81000000 T filemap_read\nffffffff81000100 T _copy_to_iter\n\
             ffffffff81000200 t anon_pipe_write\n",
        )
        .unwrap();
        let at = |offset: u64| 0xffff_ffff_8100_0000 + offset;
        let mut stacks = KernelStackCounts::default();
        let copy = |place: u64| SamplingRecord::Kernel(vec![at(0x100 + place), at(0x100)]);
        stacks.add(vec![copy(4), copy(4), copy(8), SamplingRecord::User, SamplingRecord::Lost(3)]);
        stacks.add(vec![SamplingRecord::Kernel(vec![at(0x210)]), SamplingRecord::Kernel(vec![12])]);
        let samples = stacks.resolve(&symbols, Nanos(500));
        assert_eq!((samples.user, samples.lost, samples.kernel_total()), (1, 3, 5));
        let stack = |symbols: &[&str], count| KernelStack {
            symbols: symbols.iter().map(ToString::to_string).collect(),
            count,
        };
        let want = [
            stack(&["_copy_to_iter", "filemap_read"], 3),
            stack(&[UNKNOWN_SYMBOL], 1),
            stack(&["anon_pipe_write"], 1),
        ];
        assert_eq!(samples.stacks, want);
        assert_eq!(samples.rest, 0);
    }

    #[test]
    fn rare_stacks_are_counted_together() {
        let base = 0xffff_ffff_8100_0000_u64;
        let text: String =
            (0..500_u64).map(|n| format!("{:x} t f{n}\n", base + n * 0x100)).collect();
        let symbols = KernelSymbols::parse(&text).unwrap();
        let mut stacks = KernelStackCounts::default();
        let frequent = SamplingRecord::Kernel(vec![base + 0x100 * 499]);
        stacks.add((0..500).map(|n| SamplingRecord::Kernel(vec![base + n * 0x100])).collect());
        stacks.add(vec![frequent]);
        let samples = stacks.resolve(&symbols, Nanos(500));
        assert_eq!((samples.stacks.len(), samples.rest), (MOST_LISTED, 100));
        assert_eq!(samples.stacks[0], KernelStack { symbols: vec!["f499".into()], count: 2 });
        assert_eq!(samples.kernel_total(), 501);
    }
}
