//! Misses of the first-level TLB for code, estimated from single-stepped bursts, and the pages of code that
//! samples hit.
//!
//! The bursts pass one after the other through a simulated TLB: fully associative, the least recently used entry
//! replaced. The first [`STEPS_TO_FILL`] instructions of a burst only fill it, because the program's way between
//! the bursts is not known. A burst stands for the time that the program ran since the last one that counts. Bursts differ, so the
//! interval is that of a ratio of weighted sums over them, on a logarithmic scale. The pages of the same
//! instructions are huge ones if their numbers are divided by the number of base pages in one.
//!
//! TLBs of more than 64 entries fill later than a burst's first half, so the estimate for them is too high
//! (`bench/accept/text/code-tlb` simulates whole runs). Not seen: other sets and replacement, fetches ahead of
//! the execution, the kernel's code, and entries lost when the CPU switches.

use crate::text::PageSizePair;
use pagewise_model::code_tlb::{
    CodeBurst, CodeMissEstimate, CodeRun, MissRate, STEPS_TO_FILL, SampledCodePages, SteppedCode,
};
use pagewise_model::profile::StackSamples;
use pagewise_model::{Bytes, Fact, PageSize};
use std::collections::HashMap;

/// Half the width of the interval, in standard errors.
const ERRORS: f64 = 2.0;
/// Fewest bursts for an interval.
const FEWEST: usize = 5;
/// So many misses are ruled out by none that was seen.
const UNSEEN_MISSES: f64 = 3.0;
/// Samples for which different pages are given.
const SAMPLES: f64 = 1000.0;

/// The estimate, or why there is none.
#[must_use]
pub fn estimate(stepped: &SteppedCode, sizes: PageSizePair) -> Fact<CodeMissEstimate> {
    let tlb = stepped.tlb;
    let of = |entries, pages| BurstMisses::count(&stepped.bursts, entries as usize, pages);
    let base = of(tlb.base_entries, 1);
    if base.len() < FEWEST {
        let n = base.len();
        return Fact::Missing(format!(
            "{n} bursts of {STEPS_TO_FILL} steps without a system call, of {} begun",
            stepped.bursts.len()
        ));
    }
    let huge = of(tlb.huge_entries, sizes.huge.bytes() / sizes.base.bytes().max(1));
    Fact::Known(CodeMissEstimate {
        tlb,
        bursts: u32::try_from(base.len()).unwrap_or(u32::MAX),
        instructions: base.iter().map(|burst| burst.instructions).sum(),
        base: rate(&base),
        huge_bytes: Bytes(sizes.huge.bytes()),
        huge: rate(&huge),
    })
}

/// The part of a burst that counts.
struct BurstMisses {
    weight: f64,
    instructions: u64,
    misses: u64,
}

impl BurstMisses {
    /// The bursts with such a part; `pages` base pages make up one of the simulated TLB.
    fn count(bursts: &[CodeBurst], entries: usize, pages: u64) -> Vec<Self> {
        let mut held: Vec<u64> = Vec::with_capacity(entries + 1);
        let mut since = 0.0;
        let mut of_burst = |burst: &CodeBurst| {
            let (mut passed, mut misses) = (0, 0);
            for &CodeRun(page, instructions) in &burst.runs {
                let misses_here = u64::from(!touch(&mut held, entries, page / pages));
                misses += if passed < STEPS_TO_FILL { 0 } else { misses_here };
                passed = passed.saturating_add(instructions);
            }
            let instructions = u64::from(passed.saturating_sub(STEPS_TO_FILL));
            since += burst.after_ns.0 as f64;
            let weight = if instructions > 0 { std::mem::take(&mut since) } else { 0.0 };
            Self { weight, instructions, misses }
        };
        let all = bursts.iter().map(&mut of_burst);
        all.filter(|burst| burst.instructions > 0).collect()
    }
}

/// True for a hit; the page is the most recently used one afterwards.
fn touch(held: &mut Vec<u64>, entries: usize, page: u64) -> bool {
    let at = held.iter().position(|one| *one == page);
    let is_hit = at.is_some();
    match at {
        Some(at) => held[..=at].rotate_right(1),
        None => {
            held.insert(0, page);
            held.truncate(entries);
        }
    }
    is_hit
}

/// Misses in a thousand instructions of bursts that differ.
fn rate(bursts: &[BurstMisses]) -> MissRate {
    let sum = |of: &dyn Fn(&BurstMisses) -> f64| bursts.iter().map(of).sum::<f64>();
    let all = sum(&|burst| burst.weight * burst.instructions as f64).max(f64::MIN_POSITIVE);
    let ratio = sum(&|burst| burst.weight * burst.misses as f64) / all;
    let off = |burst: &BurstMisses| {
        burst.weight * (burst.misses as f64 - ratio * burst.instructions as f64)
    };
    let n = bursts.len() as f64;
    let error = (sum(&|burst| off(burst).powi(2)) * n / (n - 1.0)).sqrt() / all;
    let factor = if ratio > 0.0 { (ERRORS * error / ratio).exp() } else { 1.0 };
    let heaviest = bursts.iter().map(|burst| burst.weight).fold(0.0, f64::max);
    let unseen = UNSEEN_MISSES * heaviest / all;
    MissRate {
        per_1000: ratio * 1000.0,
        low: ratio / factor * 1000.0,
        high: (ratio * factor).max(ratio + unseen) * 1000.0,
    }
}

/// The pages of code that samples in user mode hit; none without such a sample.
#[must_use]
pub fn sampled_pages(samples: &StackSamples, entries: Option<u32>) -> Option<SampledCodePages> {
    let mut hits: HashMap<(&str, u64), u64> = HashMap::new();
    for stack in samples.stacks.iter().filter(|stack| stack.kernel.is_empty()) {
        let Some(leaf) = stack.user.first() else { continue };
        let page = leaf.offset_bytes.0 / PageSize::BASE_4K.bytes();
        *hits.entry((&leaf.path, page)).or_default() += stack.count;
    }
    let all: u64 = hits.values().sum();
    let missed = |hits: &u64| (1.0 - *hits as f64 / all as f64).powf(SAMPLES);
    let mut counts: Vec<u64> = hits.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let mut sum = 0;
    let most = counts.iter().take_while(|hits| {
        let is_needed = sum * 10 < all * 9;
        sum += **hits;
        is_needed
    });
    (all > 0).then(|| SampledCodePages {
        samples: all,
        pages: counts.len() as u64,
        pages_in_1000: counts.iter().map(|hits| 1.0 - missed(hits)).sum(),
        pages_of_most: most.count() as u64,
        entries,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::Nanos;
    use pagewise_model::code_tlb::CodeTlb;

    const SIZES: PageSizePair = PageSizePair { base: PageSize::BASE_4K, huge: PageSize::PMD_2M };

    /// Bursts that stay on each of these pages for 20 instructions, in turn.
    fn turns(pages: &[u64], bursts: usize) -> SteppedCode {
        let run = |step: usize| CodeRun(pages[step % pages.len()], 20);
        let burst = CodeBurst { after_ns: Nanos::millis(5), runs: (0..1000).map(run).collect() };
        let tlb = CodeTlb { base_entries: 64, huge_entries: 8, is_assumed: false };
        SteppedCode { tlb, bursts: vec![burst; bursts] }
    }

    fn estimated(stepped: &SteppedCode) -> CodeMissEstimate {
        estimate(stepped, SIZES).known().cloned().expect("enough bursts")
    }

    #[test]
    fn a_loop_misses_on_each_page_or_on_none() {
        let fits = estimated(&turns(&(0..64).collect::<Vec<_>>(), 10));
        assert_eq!((fits.base.per_1000, fits.bursts, fits.instructions), (0.0, 10, 100_000));
        assert!((fits.base.high - 0.03).abs() < 1e-9, "three of 100,000: {:?}", fits.base);
        let beyond = estimated(&turns(&(0..65).collect::<Vec<_>>(), 10)).base;
        assert_eq!((beyond.per_1000, beyond.low), (50.0, 50.0), "bursts that do not differ");
    }

    #[test]
    fn huge_pages_have_their_own_entries() {
        let far: Vec<u64> = (0..9).map(|n| n * 512).collect();
        let found = estimated(&turns(&far, 10));
        assert_eq!((found.base.per_1000, found.huge.per_1000), (0.0, 50.0));
        let near = estimated(&turns(&(0..600).collect::<Vec<_>>(), 10));
        assert_eq!(near.base.per_1000, 50.0);
        assert!(near.huge.per_1000 < 0.02, "one miss for its second page: {:?}", near.huge);
    }

    #[test]
    fn a_burst_stands_for_the_time_before_it() {
        let mut mixed = turns(&[1], 10);
        let wide = turns(&(0..100).collect::<Vec<_>>(), 10);
        mixed.bursts.extend(wide.bursts);
        mixed.bursts[10..].iter_mut().for_each(|burst| burst.after_ns = Nanos::millis(15));
        let found = estimated(&mixed).base;
        assert!((found.per_1000 - 37.5).abs() < 0.5, "{found:?}");
        assert!(found.low < 30.0 && found.high > 45.0, "{found:?}");
    }

    #[test]
    fn short_bursts_give_none() {
        let mut short = turns(&[1, 2], 10);
        short.bursts.iter_mut().for_each(|burst| burst.runs.truncate(500));
        let why = estimate(&short, SIZES);
        assert!(why.reason().is_some_and(|why| why.contains("0 bursts")), "{why:?}");
    }

    #[test]
    fn hot_pages_hold_most_samples() {
        use pagewise_model::profile::{ProfiledStack, SamplingClock, UserFrame};
        use std::sync::Arc;
        let stack = |page: u64, count| ProfiledStack {
            process: "x".into(),
            kernel: Vec::new(),
            user: vec![Arc::new(UserFrame {
                path: "/bin/x".into(),
                offset_bytes: Bytes(page * 4096 + 5),
                function: None,
                maker: None,
            })],
            count,
        };
        let stacks = vec![stack(0, 900), stack(1, 60), stack(1, 20), stack(2, 20)];
        let samples = StackSamples {
            stacks,
            period_ns: Nanos(500),
            clock: SamplingClock::default(),
            lost: 0,
            begun_tasks: 0,
            processes: Default::default(),
        };
        let pages = sampled_pages(&samples, Some(64)).expect("samples");
        assert_eq!((pages.samples, pages.pages, pages.pages_of_most), (1000, 3, 1));
        assert!(pages.pages_in_1000 > 2.99, "{pages:?}");
    }
}
