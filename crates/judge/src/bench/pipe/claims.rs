//! Compares what has been published about pipes with what this machine shows.
//!
//! The claims are those of a study of 2022 on one laptop (Linux 5.17, 256 KiB buffers, bytes that are never
//! read). Its five rungs reach 3.7, 12.7, 32.8, 51.0 and 62.5 GiB/s. It also says that buffer and pipe size
//! hardly matter, and that the speed of memory is the ceiling. Absolute figures depend on the machine.
//! Testable are their order, the ratio of each rung to the one before, and the two sentences.
//!
//! Of a comparison (`--compare`), the claims about its switch are tested: untouched pages gave 25 GiB/s instead of
//! 30, without effect on huge pages; and two buffers contend less for the count of references to one page.
//!
//! A ratio is claimed to be within a quarter of the published one, and above 1. A rate above the ceiling
//! refutes it, and a rate that reaches it confirms it. A rate below decides nothing. So it is also asked how near
//! the best rung that copies comes to the rate at which one core streams memory.
//!
//! That it matters to fit the second-level cache is asked of bytes that are copied, through one pipe size, with a
//! buffer that fits it together with the pipe, and with one that does not.
//!
//! The lines of FizzBuzz show what is left of a rung when a program makes new bytes: 35 GiB/s were published.

use super::rate_figure;
use super::sizes::{PipeSizeGrid, grids};
use crate::stats::interval_text;
use pagewise_model::bench::pipe::{
    CpuPlacement, PipeBenchReport, PipeConsumption, PipeMechanism, PipePoint, RungPages,
    RungReader, RungSwitch, RungWait, RungWriter,
};
use pagewise_model::bench::{BenchClaim, ClaimEvidence, ClaimFigure};
use pagewise_model::{Bytes, Fact, Measured};

/// A published rung: its figure and how it is recognised.
pub(super) struct PublishedRung {
    name: &'static str,
    gib_per_s: f64,
    writer: RungWriter,
    reader: RungReader,
    pages: RungPages,
    wait: RungWait,
}

const fn published(
    name: &'static str,
    gib_per_s: f64,
    writer: RungWriter,
    reader: RungReader,
    pages: RungPages,
    wait: RungWait,
) -> PublishedRung {
    PublishedRung { name, gib_per_s, writer, reader, pages, wait }
}

pub(super) const PUBLISHED: [PublishedRung; 5] = [
    published(
        "write/read",
        3.7,
        RungWriter::Write,
        RungReader::Read,
        RungPages::Base,
        RungWait::Block,
    ),
    published(
        "vmsplice",
        12.7,
        RungWriter::Vmsplice,
        RungReader::Read,
        RungPages::Base,
        RungWait::Block,
    ),
    published(
        "splice",
        32.8,
        RungWriter::Vmsplice,
        RungReader::Splice,
        RungPages::Base,
        RungWait::Block,
    ),
    published(
        "huge pages",
        51.0,
        RungWriter::Vmsplice,
        RungReader::Splice,
        RungPages::Huge,
        RungWait::Block,
    ),
    published(
        "busy loop",
        62.5,
        RungWriter::Vmsplice,
        RungReader::Splice,
        RungPages::Huge,
        RungWait::Busy,
    ),
];

/// Buffer of the published figures.
const PUBLISHED_BUFFER: Bytes = Bytes::kib(256);
/// A ratio this far from the published one, either way, is still the same.
const SAME_RATIO: f64 = 1.25;
/// A ratio up to this, or its inverse, is no effect.
const NO_EFFECT: f64 = 1.05;
/// Sizes hardly matter below this ratio of best to worst.
const HARDLY: f64 = 1.2;
/// Above the yardstick by this much is above it.
const ABOVE: f64 = 1.05;
/// From this share of the yardstick on it is what limits.
const REACHED: f64 = 0.8;
/// A published rate of FizzBuzz, GiB/s.
const FIZZBUZZ: f64 = 35.0;

/// Every claim with its answer. One core has the second-level cache `l2` to itself.
#[must_use]
pub fn claims(ladder: &PipeBenchReport, l2: &Fact<Bytes>) -> Vec<BenchClaim> {
    if let Some(mechanism) = &ladder.mechanism {
        return vec![flushes(mechanism)];
    }
    if let Some(switch) = ladder.compared {
        return claims_about(ladder, switch);
    }
    let here: Vec<Option<&PipePoint>> = PUBLISHED.iter().map(|p| find(ladder, p)).collect();
    let mut claims = vec![order(&here)];
    claims.extend((1..PUBLISHED.len()).map(|at| ratio(at, here[at - 1], here[at])));
    claims.push(sizes_hardly_matter(ladder));
    claims.push(fitting_matters(ladder, l2));
    claims.push(memory_is_the_ceiling(ladder));
    claims.push(copies_reach_memory(ladder));
    if let Some(told) = fizzbuzz(ladder) {
        claims.retain(|claim| claim.evidence != ClaimEvidence::Nothing);
        claims.splice(0..0, told);
    }
    claims
}

/// Whether pages cost after a switch between processes what they cost after a flush.
fn flushes(mechanism: &PipeMechanism) -> BenchClaim {
    let evidence = mechanism.flush_figure().map_or(ClaimEvidence::Nothing, ClaimEvidence::figure);
    let why = "share of the cost of a flush that a touch has after a switch, above a switch between threads";
    BenchClaim::judged("a switch between two processes flushes the TLB", evidence, why)
}

/// Claims about a switch, each about the rung on base pages (P3) or on huge pages (P4).
fn claims_about(ladder: &PipeBenchReport, switch: RungSwitch) -> Vec<BenchClaim> {
    let pair = |rung: usize| {
        let without = find(ladder, &PUBLISHED[rung])?;
        let at = ladder.points.iter().position(|point| std::ptr::eq(point, without))?;
        Some((without, ladder.points.get(at + 1).filter(|_| at.is_multiple_of(2))?))
    };
    let judged = |claim: &str, pair: Option<_>, range: fn(ClaimFigure) -> ClaimFigure| match pair
        .and_then(|(a, b)| Some((rate_figure(a, b)?, a, b)))
    {
        Some((figure, a, b)) => {
            let why = rates_text(&figure, a, b);
            BenchClaim::judged(claim, ClaimEvidence::figure(range(figure)), why)
        }
        None => BenchClaim::judged(claim, ClaimEvidence::Nothing, "not measured here"),
    };
    match switch {
        RungSwitch::Untouched => vec![
            judged("untouched base pages give 0.83 times the rate", pair(2), |figure| {
                figure.above(25.0 / 30.0 / SAME_RATIO).below(1.0 / NO_EFFECT)
            }),
            judged("untouched huge pages make no difference above 5%", pair(3), |figure| {
                figure.above(1.0 / NO_EFFECT).below(NO_EFFECT)
            }),
        ],
        RungSwitch::OneBuffer => vec![judged(
            "two buffers on different entries for huge pages are faster than the halves of one",
            pair(3).map(|(two, one)| (one, two)),
            |figure| figure.above(1.0),
        )],
        _ => Vec::new(),
    }
}

/// The measured point for a published rung. If there are several, the one nearest to its settings.
pub(super) fn find<'a>(ladder: &'a PipeBenchReport, rung: &PublishedRung) -> Option<&'a PipePoint> {
    let same = |point: &&PipePoint| {
        let r = &point.rung;
        point.consumption == PipeConsumption::Untouched
            && (r.writer, r.reader, r.pages) == (rung.writer, rung.reader, rung.pages)
            && r.wait == rung.wait
            && !(r.gift || r.lock || r.untouched)
            && point.rate().is_some()
    };
    let distance = |point: &&PipePoint| {
        let elsewhere = point.rung.placement != CpuPlacement::TwoCores;
        (elsewhere, point.rung.buffer_bytes.0.abs_diff(PUBLISHED_BUFFER.0))
    };
    ladder.points.iter().filter(same).min_by_key(distance)
}

fn rate_text(point: &PipePoint) -> String {
    point.rate().map_or_else(|| "nothing".to_owned(), |rate| rate_digits(rate.median))
}

/// A rate with the digits that mean something.
fn rate_digits(gib_per_s: f64) -> String {
    if gib_per_s < 10.0 { format!("{gib_per_s:.2}") } else { format!("{gib_per_s:.1}") }
}

fn order(here: &[Option<&PipePoint>]) -> BenchClaim {
    let step = |pair: &[Option<&PipePoint>]| Some(rate_figure(pair[0]?, pair[1]?)?.above(1.0));
    let steps: Option<Vec<ClaimFigure>> = here.windows(2).map(step).collect();
    let figures = PUBLISHED.iter().zip(here).map(|(rung, point)| {
        let seen = point.map_or_else(|| "not measured".to_owned(), rate_text);
        format!("{} {seen} ({} there)", rung.name, rung.gib_per_s)
    });
    let figures: Vec<String> = figures.collect();
    let claim = "each of the five rungs is faster than the one before";
    let evidence = steps.map_or(ClaimEvidence::Nothing, ClaimEvidence::Figures);
    BenchClaim::judged(claim, evidence, format!("{} GiB/s", figures.join(", ")))
}

fn ratio(at: usize, before: Option<&PipePoint>, point: Option<&PipePoint>) -> BenchClaim {
    let (from, to) = (&PUBLISHED[at - 1], &PUBLISHED[at]);
    let there = to.gib_per_s / from.gib_per_s;
    let claim = format!("{} gives {there:.1} times the rate of {}", to.name, from.name);
    let compared = before.zip(point).and_then(|(a, b)| Some((rate_figure(a, b)?, a, b)));
    let Some((figure, a, b)) = compared else {
        let lacks = [(before, from), (point, to)].map(|(p, rung)| p.is_none().then_some(rung.name));
        let lacks: Vec<&str> = lacks.into_iter().flatten().collect();
        return BenchClaim::judged(
            claim,
            ClaimEvidence::Nothing,
            format!("not measured here: {}", lacks.join(", ")),
        );
    };
    let why = rates_text(&figure, a, b);
    BenchClaim::judged(claim, ClaimEvidence::figure(figure.about(there, SAME_RATIO)), why)
}

/// `0.83 times here (95% interval 0.80 to 0.86): 25.0 against 30.1 GiB/s`.
fn rates_text(figure: &ClaimFigure, before: &PipePoint, point: &PipePoint) -> String {
    format!(
        "{:.2} times here{}: {} against {} GiB/s",
        figure.estimate,
        interval_text(&figure.interval),
        rate_text(point),
        rate_text(before)
    )
}

fn sizes_hardly_matter(ladder: &PipeBenchReport) -> BenchClaim {
    let claim = "buffer and pipe size hardly matter";
    let all = grids(ladder);
    let spread = |grid: &PipeSizeGrid<'_>| {
        let (best, worst) = (grid.best()?.0, grid.worst()?.0);
        Some(rate_figure(worst, best)?.below(HARDLY))
    };
    let spreads: Vec<(&PipeSizeGrid<'_>, ClaimFigure)> =
        all.iter().filter_map(|grid| Some((grid, spread(grid)?))).collect();
    let widest = spreads.iter().max_by(|a, b| a.1.estimate.total_cmp(&b.1.estimate));
    let ends = widest.and_then(|(grid, figure)| Some((grid.best()?, grid.worst()?, figure)));
    let Some(((best, top), (worst, bottom), figure)) = ends else {
        let why = "no technique was measured with several sizes: use --sweep";
        return BenchClaim::judged(claim, ClaimEvidence::Nothing, why);
    };
    let sizes = |p: &PipePoint| format!("buffer {}, pipe {}", p.rung.buffer_bytes, p.pipe_bytes);
    let why = format!(
        "{} ({}): {} GiB/s with {}, {} with {}, {:.1} times{}; the most of {} techniques",
        best.technique(),
        best.consumption.into_str(),
        rate_digits(bottom),
        sizes(worst),
        rate_digits(top),
        sizes(best),
        figure.estimate,
        interval_text(&figure.interval),
        all.len()
    );
    let figures = spreads.iter().map(|(_, figure)| figure.clone()).collect();
    BenchClaim::judged(claim, ClaimEvidence::Figures(figures), why)
}

/// A buffer and a pipe within the second-level cache against a larger buffer, through the same pipe, where every
/// byte is copied.
fn fitting_matters(ladder: &PipeBenchReport, l2: &Fact<Bytes>) -> BenchClaim {
    let claim =
        "fitting the L2 cache matters: copies from a buffer that fits it are 5% faster or more";
    let nothing = |why: &str| BenchClaim::judged(claim, ClaimEvidence::Nothing, why);
    let Fact::Known(l2) = l2 else { return nothing("the size of the L2 cache is not known") };
    let fits = |p: &PipePoint| p.rung.buffer_bytes + p.pipe_bytes <= *l2;
    let rate = |p: &&PipePoint| p.rate().map_or(0.0, |rate| rate.median);
    let is_copied = |p: &PipePoint| {
        (p.rung.writer, p.reader, p.consumption)
            == (RungWriter::Write, RungReader::Read, PipeConsumption::Untouched)
    };
    let all = grids(ladder);
    let copied = all.iter().flat_map(|grid| &grid.points).copied().filter(|p| is_copied(p));
    let pair = |outside: &'_ PipePoint| {
        let same = copied.clone().filter(|p| {
            fits(p) && p.pipe_bytes == outside.pipe_bytes && p.rung.is_alike(&outside.rung)
        });
        let inside = same.max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
        Some((inside, rate_figure(outside, inside)?))
    };
    let outside = copied.clone().filter(|p| !fits(p) && p.rung.buffer_bytes > *l2);
    let pairs = outside.filter_map(|p| Some((p, pair(p)?)));
    let Some((outside, (inside, figure))) = pairs.min_by_key(|(p, _)| p.pipe_bytes) else {
        return nothing("no copies with buffers within and beyond it: use --sweep");
    };
    let (one, other) = (inside.rung.buffer_bytes, outside.rung.buffer_bytes);
    let why = format!(
        "pipe {}, L2 {l2}: buffer {one} is {}, against buffer {other}",
        inside.pipe_bytes,
        rates_text(&figure, outside, inside)
    );
    BenchClaim::judged(claim, ClaimEvidence::figure(figure.above(NO_EFFECT)), why)
}

/// The fastest of the points that `which` takes.
fn fastest(
    ladder: &PipeBenchReport,
    which: impl Fn(&PipePoint) -> bool,
) -> Option<(&PipePoint, Measured)> {
    let rates = ladder.points.iter().filter(|point| which(point));
    let rates = rates.filter_map(|point| Some((point, point.rate()?)));
    rates.max_by(|a, b| a.1.median.total_cmp(&b.1.median))
}

fn memory_is_the_ceiling(ladder: &PipeBenchReport) -> BenchClaim {
    let claim = "the speed of memory is the ceiling, by reference";
    let best = fastest(ladder, |point| point.consumption == PipeConsumption::Untouched);
    let (Some((point, rate)), Some(memory)) = (best, ladder.yardsticks.read_gib_per_s.known())
    else {
        let why = "no rate, or no speed of memory, was measured";
        return BenchClaim::judged(claim, ClaimEvidence::Nothing, why);
    };
    let figure = ClaimFigure::over(&rate, memory);
    let is_lower = figure.interval.known().is_some_and(|(_, high)| *high < REACHED);
    let mut why = beside_memory(point, &rate, memory, &figure);
    if is_lower {
        why.push_str(": a rate that stays below a ceiling does not show what limits it");
        return BenchClaim::judged(claim, ClaimEvidence::Nothing, why);
    }
    BenchClaim::judged(claim, ClaimEvidence::figure(figure.above(REACHED).below(ABOVE)), why)
}

/// How near the best rung that copies, which has to read the bytes, comes to reading memory.
fn copies_reach_memory(ladder: &PipeBenchReport) -> BenchClaim {
    let claim = "the best rung that copies reaches 80% of the rate at which one core reads memory";
    let best = fastest(ladder, |point| point.reader.copies());
    let (Some((point, rate)), Some(memory)) = (best, ladder.yardsticks.read_gib_per_s.known())
    else {
        let why = "no rung that copies, or no speed of memory, was measured";
        return BenchClaim::judged(claim, ClaimEvidence::Nothing, why);
    };
    let figure = ClaimFigure::over(&rate, memory);
    let why = beside_memory(point, &rate, memory, &figure);
    BenchClaim::judged(claim, ClaimEvidence::figure(figure.above(REACHED)), why)
}

/// `0.31 times here (95% interval 0.29 to 0.33): best 5.02 GiB/s (P1), one core reads memory at 16.1`.
fn beside_memory(
    point: &PipePoint,
    rate: &Measured,
    memory: &Measured,
    figure: &ClaimFigure,
) -> String {
    format!(
        "{:.2} times here{}: best {} GiB/s ({}), one core reads memory at {}",
        figure.estimate,
        interval_text(&figure.interval),
        rate_digits(rate.median),
        point.rung.name,
        rate_digits(memory.median)
    )
}

/// What the lines of FizzBuzz show, if they were measured.
fn fizzbuzz(ladder: &PipeBenchReport) -> Option<Vec<BenchClaim>> {
    let lines = |consumption| {
        ladder.points.iter().find(|point| {
            point.rung.writer == RungWriter::FizzBuzz && point.consumption == consumption
        })
    };
    let passed = lines(PipeConsumption::Untouched)?;
    let rate = passed.rate()?;
    let is_other = |p: &PipePoint| {
        p.rung.writer != RungWriter::FizzBuzz && p.consumption == PipeConsumption::Untouched
    };
    let mut claims = vec![BenchClaim::judged(
        "FizzBuzz, new lines all the time, fills a pipe at 35 GiB/s",
        ClaimEvidence::figure(ClaimFigure::of(&rate).above(FIZZBUZZ)),
        format!("{} GiB/s here ({:.1} to {:.1})", rate_digits(rate.median), rate.min, rate.max),
    )];
    let mut beside = |claim: String, other: &PipePoint, least: f64| {
        let figure = rate_figure(other, passed)?;
        let why = rates_text(&figure, other, passed);
        claims.push(BenchClaim::judged(claim, ClaimEvidence::figure(figure.above(least)), why));
        Some(())
    };
    if let Some(plain) = find(ladder, &PUBLISHED[0]) {
        beside("FizzBuzz is faster than write and read of bytes that are there".into(), plain, 1.0);
    }
    if let Some((best, _)) = fastest(ladder, is_other) {
        beside(
            format!("FizzBuzz has half the rate of the best rung, {}", best.rung.name),
            best,
            0.5,
        );
    }
    if let Some(whole) = lines(PipeConsumption::Touched).and_then(|point| point.verified.known()) {
        claims.push(BenchClaim::judged(
            "the first 16 MiB are those of a plain generator, in each repeat",
            ClaimEvidence::counted([*whole]),
            "every byte was compared",
        ));
    }
    Some(claims)
}
