//! What a ladder of pipe techniques shows: which rung is faster, where the time of each goes, what became
//! cheaper from rung to rung, which sizes suit, and which published claims hold.
//!
//! The entries are [`judge`] and [`claims`]. Both are pure, so a saved ladder is judged again with the same
//! result. Times are those of both ends together for each GiB (see [`pagewise_model::bench::pipe::PipeTimeAccount`]).
//! Prices were measured before the ladder and are not adjusted to its results, so time that they do not
//! explain stays visible.
//!
//! Not seen: work of kernel threads, time stolen by the host (it counts as time asleep), and the effect of
//! one core's work on the caches of the other beyond the bytes themselves.
//!
//! Which of two points is faster: repeats run in shuffled order, so those of one number are paired only by
//! chance. Their log ratios give the Hodges-Lehmann estimate with its exact interval, from six repeats on.
//! Below six, or if the interval contains 1, the answer is *cannot tell*.
//!
//! From rung to rung: a point is compared with the one before it under the same consumption, and a switch with
//! the same rung without it. The changes of
//! the parts and the unexplained change together are exactly the change of the time.
//!
//! Only ways whose buffers no reader can see change are advised, and only if the interval of the ratio shows
//! that they are at least 3% faster than write(2) and read(2). If it contains that border the answer is
//! *open*.

use crate::activity;
use crate::bench::best::{BestWay, to_settle};
use crate::bench::pipe::account::{PipeCounts, copies_in};
use crate::diagnosis::disagree;
use crate::stats::paired_figure;
pub use claims::claims;
use pagewise_model::bench::pipe::{
    PipeBenchReport, PipeConsumption, PipeJudgement, PipePoint, PipeRatio, PipeRung, PipeSample,
    PipeTimeAccount, PipeWork, PipeWorkBasis, PointSpeed, ReferencePrices, RungReader, RungStep,
    RungWait, RungWriter,
};
use pagewise_model::bench::{ClaimAnswer, ClaimFigure, RepeatSeries};
use pagewise_model::diagnosis::KernelActivity;
use pagewise_model::look::CpuSamples;
use pagewise_model::price::SessionPrices;
use pagewise_model::{Bytes, Fact, Nanos, PageSize};
use prices::UnitPrices;

mod account;
mod claims;
mod prices;
mod profile;
mod sizes;

/// A way that is faster by less than this is not advised.
const WORTH: f64 = 1.03;

/// What was known before the ladder was measured, or was measured separately from its points.
#[derive(Debug, Clone, Copy)]
pub struct PipeContext<'a> {
    /// Prices of the session.
    pub prices: Option<&'a SessionPrices>,
    /// Prices that only a ladder needs.
    pub reference: &'a ReferencePrices,
    /// Base page of the machine.
    pub base_page: PageSize,
    /// The cache that one core has to itself.
    pub l2_bytes: &'a Fact<Bytes>,
    /// Kernel samples over both processes of some points, by index of the point.
    pub samples: &'a [(usize, CpuSamples)],
}

/// All conclusions from `ladder` but the claims.
#[must_use]
pub fn judge(ladder: &PipeBenchReport, known: &PipeContext<'_>) -> PipeJudgement {
    let prices = UnitPrices::freeze(known, &ladder.yardsticks);
    let measured = ladder.points.iter().enumerate();
    let accounts: Vec<_> = measured
        .filter_map(|(at, point)| {
            let account = account::account(at, point, &prices, known.base_page)?;
            Some(set_beside(ladder, account, point, known.samples))
        })
        .collect();
    let steps = if ladder.sweep { Vec::new() } else { steps(ladder, &accounts) };
    let advice = if ladder.sweep { sizes::advise(ladder, known.l2_bytes) } else { Vec::new() };
    let is_ladder = ladder.compared.is_none() && ladder.mechanism.is_none();
    let sentences = if is_ladder { sentences(ladder) } else { Vec::new() };
    PipeJudgement { prices: known.reference.clone(), accounts, steps, advice, sentences }
}

/// The rate of `second` over that of `first`. `None` if either has no rate.
pub(crate) fn rate_figure(first: &PipePoint, second: &PipePoint) -> Option<ClaimFigure> {
    let (a, b) = (first.rate()?, second.rate()?);
    let rates = |point: &PipePoint| -> RepeatSeries {
        let rate = |s: &PipeSample| Some((s.repeat, s.gib_per_s().filter(|rate| *rate > 0.0)?));
        point.samples.iter().filter_map(rate).collect()
    };
    let logs = rates(second).log_ratios(&rates(first));
    // Without common repeats there are still two medians.
    let apart = || {
        let interval = Fact::missing("no common repeats");
        ClaimFigure::new(b.median / a.median, interval, logs.len() as u64)
    };
    let figure = paired_figure(&logs, "common repeats").unwrap_or_else(apart);
    figure.estimate.is_finite().then_some(figure)
}

/// Compares point `second` with point `first`. `None` if either has no rate.
#[must_use]
pub fn compare(first: &PipePoint, second: &PipePoint) -> Option<PipeRatio> {
    let figure = rate_figure(first, second)?.above(1.0);
    let pace = match figure.answer() {
        ClaimAnswer::Confirmed => PointSpeed::Faster,
        ClaimAnswer::Refuted => PointSpeed::Slower,
        ClaimAnswer::CannotTell => PointSpeed::CannotTell,
    };
    Some(PipeRatio { ratio: figure.estimate, interval: figure.interval, pace })
}

/// All steps, in the order of the ladder, one consumption after the other; of a comparison, one for each pair.
fn steps(ladder: &PipeBenchReport, accounts: &[PipeTimeAccount]) -> Vec<RungStep> {
    if ladder.compared.is_some() {
        let of = |at| accounts.iter().find(|account| account.point == at);
        let pairs = (0..ladder.points.len()).step_by(2);
        return pairs.filter_map(|at| step(ladder, of(at)?, of(at + 1)?)).collect();
    }
    PipeConsumption::ALL
        .into_iter()
        .flat_map(|consumption| {
            let same = accounts
                .iter()
                .filter(|account| ladder.points[account.point].consumption == consumption);
            let same: Vec<&PipeTimeAccount> = same.collect();
            let pairs: Vec<RungStep> =
                same.windows(2).filter_map(|pair| step(ladder, pair[0], pair[1])).collect();
            pairs
        })
        .collect()
}

fn step(
    ladder: &PipeBenchReport,
    from: &PipeTimeAccount,
    to: &PipeTimeAccount,
) -> Option<RungStep> {
    let comparison = compare(&ladder.points[from.point], &ladder.points[to.point])?;
    let change = |work: PipeWork| (work, to.part_ns(work) - from.part_ns(work));
    let mut parts: Vec<(PipeWork, f64)> =
        PipeWork::ALL.iter().copied().map(change).filter(|(_, ns)| *ns != 0.0).collect();
    parts.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    Some(RungStep {
        from: from.point,
        to: to.point,
        comparison,
        change_per_gib_ns: to.per_gib_ns - from.per_gib_ns,
        parts,
        unexplained_per_gib_ns: to.unexplained_per_gib_ns - from.unexplained_per_gib_ns,
    })
}

/// Three sentences of advice. A sentence gives the reason if there is no answer.
fn sentences(ladder: &PipeBenchReport) -> Vec<String> {
    let looked_at = "If the data is read";
    let passed_on = "If the data is only passed on";
    vec![
        way(ladder, PipeConsumption::Touched, looked_at),
        way(ladder, PipeConsumption::Untouched, passed_on),
        waiting(ladder),
    ]
}

/// The fastest safe way compared with write and read: proven, open, or not worth it.
fn way(ladder: &PipeBenchReport, consumption: PipeConsumption, place: &str) -> String {
    let of = || ladder.points.iter().filter(|p| p.consumption == consumption && p.rate().is_some());
    let copied = of().filter(|point| is_copied(&point.rung));
    let Some(plain) = copied.min_by_key(|point| point.rung.pipe_bytes) else {
        let what = consumption.into_str();
        return format!(
            "{place}: not measured. No sleeping write and read (rung P1) has a figure for {what} bytes."
        );
    };
    // A program is no way.
    let is_way = |p: &&PipePoint| p.safe && p.rung.writer != RungWriter::FizzBuzz;
    let others = of().filter(|point| is_way(point) && !std::ptr::eq(*point, plain));
    let figures = others.filter_map(|p| Some((p, rate_figure(plain, p)?.above(WORTH))));
    let base = format!("write and read ({})", rate(plain));
    let told = |point: &PipePoint, figure: &ClaimFigure| {
        format!(
            "{} through a pipe of {} (rung {}): {:.1} times the rate of write and read{}, {} against {}",
            point.technique(),
            point.pipe_bytes,
            point.rung.name,
            figure.estimate,
            range(figure),
            rate(point),
            rate(plain)
        )
    };
    match BestWay::largest(figures) {
        BestWay::Proven(point, figure) => format!("{place}, use {}.", told(point, &figure)),
        BestWay::Open(point, figure) => {
            format!("{place}: open. {}{}.", told(point, &figure), to_settle(&figure))
        }
        BestWay::No(count) => format!(
            "{place}, use plain {base}: of the {count} other safe ways measured none is more than 3% faster."
        ),
        BestWay::Unmeasured => format!("{place}: not measured. Only {base} has a figure."),
    }
}

/// The way that a program has without asking for anything, but for the size of its pipe.
fn is_copied(rung: &PipeRung) -> bool {
    (rung.writer, rung.reader, rung.wait) == (RungWriter::Write, RungReader::Read, RungWait::Block)
}

/// ` (1.8..2.4)`; nothing without an interval.
fn range(figure: &ClaimFigure) -> String {
    match figure.interval {
        Fact::Known((low, high)) => format!(" ({low:.1}..{high:.1})"),
        Fact::Missing(_) => String::new(),
    }
}

fn rate(point: &PipePoint) -> String {
    point.rate().map_or_else(|| "nothing".to_owned(), |rate| format!("{:.2} GiB/s", rate.median))
}

/// What is gained if the ends do not sleep and everything else is equal.
fn waiting(ladder: &PipeBenchReport) -> String {
    let awake = ladder.points.iter().filter(|point| point.rung.wait != RungWait::Block);
    let pairs = awake.filter_map(|awake| {
        let asleep = ladder.points.iter().find(|point| differ_by_waiting(point, awake))?;
        Some(((asleep, awake), rate_figure(asleep, awake)?.above(WORTH)))
    });
    let told = |awake: &PipePoint, figure: &ClaimFigure| {
        format!(
            "{} ({}) has {:.1} times the rate of the same way with sleeping ends{}",
            awake.technique(),
            awake.consumption.into_str(),
            figure.estimate,
            range(figure)
        )
    };
    match BestWay::largest(pairs) {
        BestWay::Proven((asleep, awake), figure) => format!(
            "If the rate matters, do not let both ends sleep: {}{}.",
            told(awake, &figure),
            more_cpu(asleep, awake)
        ),
        BestWay::Open((_, awake), figure) => format!(
            "Whether the ends should sleep: open. {}{}.",
            told(awake, &figure),
            to_settle(&figure)
        ),
        BestWay::No(pairs) => format!(
            "Let the ends of a pipe sleep: staying awake is more than 3% faster in none of {pairs} pairs."
        ),
        BestWay::Unmeasured => {
            "Whether the ends should sleep: not measured. No way has a figure for both.".to_owned()
        }
    }
}

fn differ_by_waiting(asleep: &PipePoint, awake: &PipePoint) -> bool {
    let as_asleep =
        PipeRung { wait: RungWait::Block, name: asleep.rung.name.clone(), ..awake.rung.clone() };
    asleep.consumption == awake.consumption && asleep.rung == as_asleep
}

/// The extra CPU time of ends that do not sleep.
fn more_cpu(asleep: &PipePoint, awake: &PipePoint) -> String {
    let cpu = |point: &PipePoint| Some(point.measured(PipeSample::cpu_s_per_gib)?.median);
    match cpu(asleep).zip(cpu(awake)) {
        Some((before, after)) if before > 0.0 => {
            format!(", at {:.2} times the CPU time for each GiB", after / before)
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests;

// Kernel samples over both processes, shown beside the prices. They never replace prices.
//
// Samples measure CPU time only and are taken in separate runs. So they are compared as shares of the CPU
// time of the timed repeats. They sort into activities ([`crate::activity`]), which are coarser than kinds of
// work. Looking up a page and a fault are one activity. A pipe's pages, slots, locks and calls are two
// activities, and only their sum can be compared. If prices and samples of a sum differ by more than a fifth,
// a sentence says so.

/// Sums that must agree: name, kinds of work, activities.
const COMPARED: &[(&str, &[PipeWork], &[KernelActivity])] = &[
    ("copies", &[PipeWork::Copy, PipeWork::CacheTransfer], &[KernelActivity::Copy]),
    (
        "page pinning and faults",
        &[PipeWork::Pinning, PipeWork::Faults],
        &[KernelActivity::Fault, KernelActivity::Zeroing],
    ),
    (
        "calls, locks, slots and pages of the pipe",
        &[
            PipeWork::PageAllocation,
            PipeWork::Slots,
            PipeWork::CacheTransfer,
            PipeWork::Locks,
            PipeWork::Entry,
        ],
        &[KernelActivity::Pipe, KernelActivity::Entry],
    ),
];

/// `account` with the samples of its point, and where they contradict it.
fn set_beside(
    ladder: &PipeBenchReport,
    mut account: PipeTimeAccount,
    point: &PipePoint,
    samples: &[(usize, CpuSamples)],
) -> PipeTimeAccount {
    let Some((_, samples)) = samples.iter().find(|(at, _)| *at == account.point) else {
        return account;
    };
    if let Some(counts) = PipeCounts::from_point(point).filter(|_| samples.total() > 0) {
        account.disagreements = disagreements(&account, point, &counts, samples);
    }
    account.published = profile::beside(ladder, point, samples);
    account.samples = Fact::Known(samples.clone());
    account
}

fn disagreements(
    account: &PipeTimeAccount,
    point: &PipePoint,
    counts: &PipeCounts,
    samples: &CpuSamples,
) -> Vec<String> {
    let sorted = activity::sort(samples);
    let per_sample = counts.cpu / samples.total() as f64;
    let compare = |(name, works, activities): &(&str, &[PipeWork], &[KernelActivity])| {
        // An end that spins is in the pipe's code all the time; only its prices call it waiting.
        let spun = works.contains(&PipeWork::Entry) && counts.spins > 0.0;
        // The cost of the other core's caches shows up where the bytes or the slots are fetched.
        let elsewhere = activities.contains(&KernelActivity::Copy) != copies_in(point.rung.writer);
        let is_meant = |work| match work {
            PipeWork::CacheTransfer => works.contains(&work) && !elsewhere,
            PipeWork::Waiting => spun,
            _ => works.contains(&work),
        };
        let priced = account.parts.iter().filter(|p| p.basis == PipeWorkBasis::CountsTimesPrice);
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
