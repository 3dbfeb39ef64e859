//! What the machine should do: three sentences, on bytes that are looked at, on bytes that are passed
//! on unread, and on waiting.
//!
//! Advised are only ways whose buffers no reader can see change, and only where [`compare`] says that
//! they are faster than write(2) and read(2) through a pipe as it comes.

use super::compare::compare;
use pagewise_model::ladder::{
    Comparison, Consumption, Ladder, Pace, Point, Reader, Rung, Sample, Wait, Writer,
};

/// Three sentences, each a reason where nothing is known.
pub(super) fn sentences(ladder: &Ladder) -> Vec<String> {
    let looked_at = "Where bytes are looked at";
    let passed_on = "Where bytes are only passed on";
    vec![
        way(ladder, Consumption::Touched, looked_at),
        way(ladder, Consumption::Untouched, passed_on),
        waiting(ladder),
    ]
}

/// The fastest safe way beside write and read.
fn way(ladder: &Ladder, consumption: Consumption, place: &str) -> String {
    let of = || ladder.points.iter().filter(|p| p.consumption == consumption);
    let Some(plain) = of().find(|point| is_plain(&point.rung) && point.rate().is_some()) else {
        return format!("{place}, nothing is said: write and read were not measured.");
    };
    let faster = of().filter(|point| point.safe).filter_map(|point| {
        let comparison = compare(plain, point)?;
        (comparison.pace == Pace::Faster).then_some((point, comparison))
    });
    let best = faster.max_by(|(_, a), (_, b)| a.ratio.total_cmp(&b.ratio));
    match best {
        Some((point, Comparison { ratio, .. })) => format!(
            "{place}, use {} through a pipe of {} (rung {}): {ratio:.1} times the rate of write and \
             read, {} against {}.",
            point.rung.technique(),
            point.pipe_bytes,
            point.rung.name,
            rate(point),
            rate(plain)
        ),
        None => format!(
            "{place}, stay with write and read ({}): no safe way is proven faster.",
            rate(plain)
        ),
    }
}

/// The plain way that a program has without asking for anything.
fn is_plain(rung: &Rung) -> bool {
    (rung.writer, rung.reader, rung.wait) == (Writer::Write, Reader::Read, Wait::Block)
        && rung.pipe_bytes.is_none()
}

fn rate(point: &Point) -> String {
    point.rate().map_or_else(|| "nothing".to_owned(), |rate| format!("{:.2} GiB/s", rate.median))
}

/// What it gives that ends do not sleep, where everything else is the same.
fn waiting(ladder: &Ladder) -> String {
    let mut pairs = 0;
    let mut best: Option<(&Point, &Point, f64)> = None;
    for awake in ladder.points.iter().filter(|point| point.rung.wait != Wait::Block) {
        let Some(asleep) = ladder.points.iter().find(|point| differ_by_waiting(point, awake))
        else {
            continue;
        };
        let Some(comparison) = compare(asleep, awake) else { continue };
        pairs += 1;
        let is_better = best.is_none_or(|(_, _, ratio)| comparison.ratio > ratio);
        if comparison.pace == Pace::Faster && is_better {
            best = Some((asleep, awake, comparison.ratio));
        }
    }
    match (best, pairs) {
        (Some((asleep, awake, ratio)), _) => format!(
            "Where the rate counts, do not let both ends sleep: {} ({}) has {ratio:.1} times the rate \
             of the same that sleeps{}.",
            awake.rung.technique(),
            awake.consumption.label(),
            more_cpu(asleep, awake)
        ),
        (None, 0) => {
            "On waiting nothing is said: no way was measured both asleep and awake.".to_owned()
        }
        (None, pairs) => format!(
            "Let the ends of a pipe sleep: in none of {pairs} pairs is staying awake proven faster."
        ),
    }
}

fn differ_by_waiting(asleep: &Point, awake: &Point) -> bool {
    let as_asleep =
        Rung { wait: Wait::Block, name: asleep.rung.name.clone(), ..awake.rung.clone() };
    asleep.consumption == awake.consumption && asleep.rung == as_asleep
}

/// What it costs.
fn more_cpu(asleep: &Point, awake: &Point) -> String {
    let cpu = |point: &Point| Some(point.measured(Sample::cpu_s_per_gib)?.median);
    match cpu(asleep).zip(cpu(awake)) {
        Some((before, after)) if before > 0.0 => {
            format!(", at {:.2} times the CPU time for each GiB", after / before)
        }
        _ => String::new(),
    }
}
