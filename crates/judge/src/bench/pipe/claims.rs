//! What has been published about pipes, set beside what this machine says.
//!
//! The claims are those of a study of 2022 on one laptop (Linux 5.17, 256 KiB buffers, bytes that
//! nobody looks at): five rungs with 3.7, 12.7, 32.8, 51.0 and 62.5 GiB/s, that buffer and pipe size
//! hardly matter, that the speed of memory is the ceiling. Absolute figures belong to their machine;
//! what can be tested is their order, the ratio of each rung to the one before, and the two sentences.
//!
//! A ratio is confirmed when this machine's is within a quarter of it, refuted when its interval (or,
//! with few repeats, the ratio itself at twice that distance) lies outside; else nobody can tell.

use super::compare;
use super::sizes::{Grid, grids};
use pagewise_model::bench::pipe::{
    Comparison, Consumption, Ladder, Pace, Pages, Placement, Point, Reader, Wait, Writer,
};
use pagewise_model::bench::{Answer, Claim};
use pagewise_model::measured::Measured;
use pagewise_model::{Bytes, Fact};

/// A published rung: its figure and how it is recognised.
struct Published {
    name: &'static str,
    gib_per_s: f64,
    writer: Writer,
    reader: Reader,
    pages: Pages,
    wait: Wait,
}

const fn published(
    name: &'static str,
    gib_per_s: f64,
    writer: Writer,
    reader: Reader,
    pages: Pages,
    wait: Wait,
) -> Published {
    Published { name, gib_per_s, writer, reader, pages, wait }
}

const PUBLISHED: [Published; 5] = [
    published("write/read", 3.7, Writer::Write, Reader::Read, Pages::Base, Wait::Block),
    published("vmsplice", 12.7, Writer::Vmsplice, Reader::Read, Pages::Base, Wait::Block),
    published("splice", 32.8, Writer::Vmsplice, Reader::Splice, Pages::Base, Wait::Block),
    published("huge pages", 51.0, Writer::Vmsplice, Reader::Splice, Pages::Huge, Wait::Block),
    published("busy loop", 62.5, Writer::Vmsplice, Reader::Splice, Pages::Huge, Wait::Busy),
];

/// Buffer of the published figures.
const PUBLISHED_BUFFER: Bytes = Bytes::kib(256);
/// A ratio this far from the published one, either way, is still the same.
const SAME_RATIO: f64 = 1.25;
/// Sizes matter from this ratio of best to worst on, and hardly below the other.
const MATTERS: f64 = 1.5;
const HARDLY: f64 = 1.2;
/// Above the yardstick by this much is above it.
const ABOVE: f64 = 1.05;
/// From this share of the yardstick on it is what limits.
const REACHED: f64 = 0.8;

/// Every claim with its answer.
#[must_use]
pub fn claims(ladder: &Ladder) -> Vec<Claim> {
    let here: Vec<Option<&Point>> = PUBLISHED.iter().map(|p| find(ladder, p)).collect();
    let mut claims = vec![order(&here)];
    claims.extend((1..PUBLISHED.len()).map(|at| ratio(at, here[at - 1], here[at])));
    claims.push(sizes_hardly_matter(ladder));
    claims.push(memory_is_the_ceiling(ladder, Consumption::Untouched));
    claims.push(memory_is_the_ceiling(ladder, Consumption::Touched));
    claims
}

/// The measured point that is a published rung; of several the one nearest to its settings.
fn find<'a>(ladder: &'a Ladder, rung: &Published) -> Option<&'a Point> {
    let same = |point: &&Point| {
        let r = &point.rung;
        point.consumption == Consumption::Untouched
            && (r.writer, r.reader, r.pages) == (rung.writer, rung.reader, rung.pages)
            && r.wait == rung.wait
            && !(r.gift || r.lock || r.untouched)
            && point.rate().is_some()
    };
    let distance = |point: &&Point| {
        let elsewhere = point.rung.placement != Placement::TwoCores;
        (elsewhere, point.rung.buffer_bytes.0.abs_diff(PUBLISHED_BUFFER.0))
    };
    ladder.points.iter().filter(same).min_by_key(distance)
}

fn rate_text(point: &Point) -> String {
    point.rate().map_or_else(|| "nothing".to_owned(), |rate| figure(rate.median))
}

/// A rate with the digits that mean something.
fn figure(gib_per_s: f64) -> String {
    if gib_per_s < 10.0 { format!("{gib_per_s:.2}") } else { format!("{gib_per_s:.1}") }
}

fn order(here: &[Option<&Point>]) -> Claim {
    let mut answer = Answer::Confirmed;
    for pair in here.windows(2) {
        let pace = match pair {
            [Some(a), Some(b)] => compare(a, b).map_or(Pace::CannotTell, |c| c.pace),
            _ => Pace::CannotTell,
        };
        answer = match (answer, pace) {
            (Answer::Refuted, _) | (_, Pace::Slower) => Answer::Refuted,
            (_, Pace::CannotTell) => Answer::CannotTell,
            (before, Pace::Faster) => before,
        };
    }
    let figures = PUBLISHED.iter().zip(here).map(|(rung, point)| {
        let seen = point.map_or_else(|| "not measured".to_owned(), rate_text);
        format!("{} {seen} ({} there)", rung.name, rung.gib_per_s)
    });
    let figures: Vec<String> = figures.collect();
    let claim = "each of the five rungs is faster than the one before";
    Claim::new(claim, answer, format!("{} GiB/s", figures.join(", ")))
}

fn ratio(at: usize, before: Option<&Point>, point: Option<&Point>) -> Claim {
    let (from, to) = (&PUBLISHED[at - 1], &PUBLISHED[at]);
    let there = to.gib_per_s / from.gib_per_s;
    let claim = format!("{} gives {there:.1} times the rate of {}", to.name, from.name);
    let compared = before.zip(point).and_then(|(a, b)| Some((compare(a, b)?, a, b)));
    let Some((comparison, a, b)) = compared else {
        return Claim::new(claim, Answer::CannotTell, "this ladder does not have both");
    };
    let range = match &comparison.interval {
        Fact::Known((low, high)) => format!(" (95% interval {low:.2} to {high:.2})"),
        Fact::Missing(_) => String::new(),
    };
    let why = format!(
        "{:.2} times here{range}: {} against {} GiB/s",
        comparison.ratio,
        rate_text(b),
        rate_text(a)
    );
    Claim::new(claim, same_ratio(&comparison, there), why)
}

fn same_ratio(here: &Comparison, there: f64) -> Answer {
    let off = (here.ratio / there).ln().abs();
    let tolerance = SAME_RATIO.ln();
    if off <= tolerance {
        return Answer::Confirmed;
    }
    let outside = match here.interval {
        Fact::Known((low, high)) => low > there * SAME_RATIO || high < there / SAME_RATIO,
        Fact::Missing(_) => off > 2.0 * tolerance,
    };
    if outside { Answer::Refuted } else { Answer::CannotTell }
}

fn sizes_hardly_matter(ladder: &Ladder) -> Claim {
    let claim = "buffer and pipe size hardly matter";
    let all = grids(ladder);
    let spread = |grid: &Grid<'_>| Some(grid.best()?.1 / grid.worst()?.1);
    let widest =
        all.iter().filter_map(|g| Some((g, spread(g)?))).max_by(|a, b| a.1.total_cmp(&b.1));
    let Some((grid, ratio)) = widest else {
        let why = "no technique was measured with several sizes: use --sweep";
        return Claim::new(claim, Answer::CannotTell, why);
    };
    let (Some((best, top)), Some((worst, bottom))) = (grid.best(), grid.worst()) else {
        return Claim::new(claim, Answer::CannotTell, "no figures");
    };
    let proven = compare(worst, best).is_some_and(|c| c.pace == Pace::Faster);
    let answer = match ratio {
        r if r >= MATTERS && proven => Answer::Refuted,
        r if r <= HARDLY => Answer::Confirmed,
        _ => Answer::CannotTell,
    };
    let sizes = |p: &Point| format!("buffer {}, pipe {}", p.rung.buffer_bytes, p.pipe_bytes);
    let why = format!(
        "{} ({}): {} GiB/s with {}, {} with {}, {ratio:.1} times; the most of {} techniques",
        best.rung.technique(),
        best.consumption.into_str(),
        figure(bottom),
        sizes(worst),
        figure(top),
        sizes(best),
        all.len()
    );
    Claim::new(claim, answer, why)
}

fn memory_is_the_ceiling(ladder: &Ladder, consumption: Consumption) -> Claim {
    let claim = match consumption {
        Consumption::Untouched => "the speed of memory is the ceiling, by reference",
        _ => "the speed of memory is the ceiling, for touched bytes",
    };
    let rates = ladder.points.iter().filter(|p| p.consumption == consumption);
    let best =
        rates.filter_map(|p| Some((p, p.rate()?))).max_by(|a, b| a.1.median.total_cmp(&b.1.median));
    let yardstick = ladder.yardsticks.read_gib_per_s.known();
    let (Some((point, rate)), Some(memory)) = (best, yardstick) else {
        return Claim::new(claim, Answer::CannotTell, "no point or no yardstick to compare");
    };
    let why = format!(
        "best {} GiB/s ({}), one core reads memory at {}",
        figure(rate.median),
        point.rung.name,
        figure(memory.median)
    );
    Claim::new(claim, ceiling(&rate, memory), why)
}

/// Above the yardstick in every repeat it is no ceiling; well below it, something else is.
fn ceiling(rate: &Measured, memory: &Measured) -> Answer {
    if rate.min > ABOVE * memory.max || rate.max < REACHED * memory.min {
        Answer::Refuted
    } else if rate.median <= ABOVE * memory.median && rate.median >= REACHED * memory.median {
        Answer::Confirmed
    } else {
        Answer::CannotTell
    }
}
