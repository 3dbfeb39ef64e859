//! Kernel samples over both processes, beside the prices and never in their place.
//!
//! Samples tell CPU time only and are taken in runs of their own, so they are compared as shares of
//! the CPU time of the timed repeats. They sort into activities ([`crate::activity`]), which are
//! coarser than kinds of work: a page that is looked up and a fault are one activity, a pipe's pages,
//! slots, locks and calls are two that only their sum tells apart from others. Where prices and
//! samples of a sum differ by more than a fifth, that is a sentence.

use super::account::{Counts, copies_in};
use crate::activity;
use crate::diagnosis::disagree;
use pagewise_model::bench::pipe::{Account, PartBasis, Point, Work};
use pagewise_model::diagnosis::Activity;
use pagewise_model::look::Samples;
use pagewise_model::{Fact, Nanos};

/// Sums that must agree: name, kinds of work, activities.
const COMPARED: &[(&str, &[Work], &[Activity])] = &[
    ("copies", &[Work::Copy, Work::CacheTransfer], &[Activity::Copy]),
    (
        "page pinning and faults",
        &[Work::Pinning, Work::Faults],
        &[Activity::Fault, Activity::Zeroing],
    ),
    (
        "calls, locks, slots and pages of the pipe",
        &[Work::PageAllocation, Work::Slots, Work::CacheTransfer, Work::Locks, Work::Entry],
        &[Activity::Pipe, Activity::Entry],
    ),
];

/// `account` with the samples of its point and where they contradict it.
pub(super) fn set_beside(
    mut account: Account,
    point: &Point,
    samples: &[(usize, Samples)],
) -> Account {
    let Some((_, samples)) = samples.iter().find(|(at, _)| *at == account.point) else {
        return account;
    };
    if let Some(counts) = Counts::of(point).filter(|_| samples.total() > 0) {
        account.disagreements = disagreements(&account, point, &counts, samples);
    }
    account.samples = Fact::Known(samples.clone());
    account
}

fn disagreements(
    account: &Account,
    point: &Point,
    counts: &Counts,
    samples: &Samples,
) -> Vec<String> {
    let sorted = activity::sort(samples);
    let per_sample = counts.cpu / samples.total() as f64;
    let compare = |(name, works, activities): &(&str, &[Work], &[Activity])| {
        // An end that spins is in the pipe's code all the time; only its prices call it waiting.
        let spun = works.contains(&Work::Entry) && counts.spins > 0.0;
        // What the other core's caches cost shows where the bytes or the slots are fetched.
        let elsewhere = activities.contains(&Activity::Copy) != copies_in(point.rung.writer);
        let is_meant = |work| match work {
            Work::CacheTransfer => works.contains(&work) && !elsewhere,
            Work::Waiting => spun,
            _ => works.contains(&work),
        };
        let priced = account.parts.iter().filter(|p| p.basis == PartBasis::CountsTimesPrice);
        let priced: f64 = priced.filter(|p| is_meant(p.work)).map(|p| p.per_gib_ns).sum();
        let priced = priced + counts.spun().filter(|_| spun).unwrap_or(0.0);
        let seen: u64 = activities.iter().filter_map(|a| sorted.get(a)).sum();
        let sampled = seen as f64 * per_sample;
        disagree(priced, sampled, counts.cpu).then(|| {
            let (priced, sampled) = (Nanos::from_f64(priced), Nanos::from_f64(sampled));
            format!("{name}: {priced} per GiB by counts and prices, {sampled} by samples")
        })
    };
    COMPARED.iter().filter_map(compare).collect()
}
