//! The result of any bench: a sentence, a document, CSV, and a picture.
//!
//! Only this file lists the kinds.

pub mod code;
pub mod file;
pub mod fork;
pub mod memory;
pub mod pin;
pub mod pipe;
pub mod tlb;

use crate::chart::Picture;
use crate::page::Document;
use crate::table::Table;
use pagewise_model::bench::Claim;
use pagewise_model::body::{Bench, Body};
use pagewise_model::machine::Machine;
use pagewise_model::run::Run;
use pagewise_model::{Fact, Measured};

/// The bench in `run`; `None` for other runs.
pub(crate) fn in_run(run: &Run) -> Option<&Bench> {
    match &run.body {
        Some(Body::Bench(bench)) => Some(bench),
        _ => None,
    }
}

/// The verdict in one sentence.
pub(crate) fn headline(bench: &Bench) -> String {
    match bench {
        Bench::Ladder(ladder) => pipe::headline(ladder),
        Bench::Walks(walks) => tlb::headline(walks),
        Bench::FirstTouch(touches) => memory::headline(touches),
        Bench::Readings(readings) => file::headline(readings),
        Bench::Pins(pins) => pin::headline(pins),
        Bench::Forks(forks) => fork::headline(forks),
        Bench::Jumps(jumps) => code::headline(jumps),
    }
}

/// A bench on one screen.
pub(crate) struct Short<'a> {
    /// Title of the table.
    pub(crate) title: String,
    /// The rows that support the advice.
    pub(crate) table: Table,
    pub(crate) advice: &'a [String],
    pub(crate) claims: &'a [Claim],
    /// The figures, each over its repeats.
    pub(crate) figures: Vec<Measured>,
    /// Why figures are missing, or have fewer repeats than requested.
    pub(crate) refusals: Vec<&'a str>,
    /// What is not available here.
    pub(crate) lacking: Vec<String>,
}

/// A bench on one screen, with about `rows` table rows.
pub(crate) fn short(bench: &Bench, rows: usize) -> Short<'_> {
    match bench {
        Bench::Ladder(it) => pipe::short(it, rows),
        Bench::Walks(it) => tlb::short(it, rows),
        Bench::FirstTouch(it) => memory::short(it, rows),
        Bench::Readings(it) => file::short(it, rows),
        Bench::Pins(it) => pin::short(it, rows),
        Bench::Forks(it) => fork::short(it, rows),
        Bench::Jumps(it) => code::short(it, rows),
    }
}

/// The smallest of the ratios whose interval proves a gain; `figure` reads a ratio and its interval.
fn largest_gain<'a, R>(
    ratios: impl Iterator<Item = &'a R>,
    figure: impl Fn(&R) -> (f64, &Fact<(f64, f64)>),
) -> Option<&'a R> {
    let proven = ratios.filter(|r| figure(r).1.known().is_some_and(|(_, high)| *high < 1.0));
    proven.min_by(|a, b| figure(a).0.total_cmp(&figure(b).0))
}

/// At most `most` of them, in ascending order and evenly spread from the first to the last, with `best` among them.
fn spread<T: Copy + Ord>(all: &[T], most: usize, best: Option<T>) -> Vec<T> {
    let last = all.len().saturating_sub(1);
    let even = |most: usize| -> Vec<T> {
        let steps = most.min(all.len()).saturating_sub(1).max(1);
        let mut shown: Vec<T> =
            (0..=steps).filter_map(|at| all.get(at * last / steps)).copied().collect();
        shown.dedup();
        shown
    };
    let mut shown = even(most);
    if let Some(best) = best.filter(|best| !shown.contains(best)) {
        shown = even(most.saturating_sub(1));
        shown.push(best);
        shown.sort_unstable();
        shown.dedup();
    }
    shown
}

/// The whole document; `caption` names the machine.
pub(crate) fn document(bench: &Bench, caption: &str) -> Document {
    match bench {
        Bench::Ladder(it) => pipe::document(it, caption),
        Bench::Walks(it) => tlb::document(it, caption),
        Bench::FirstTouch(it) => memory::document(it, caption),
        Bench::Readings(it) => file::document(it, caption),
        Bench::Pins(it) => pin::document(it, caption),
        Bench::Forks(it) => fork::document(it, caption),
        Bench::Jumps(it) => code::document(it, caption),
    }
}

pub(crate) fn csv(bench: &Bench) -> String {
    match bench {
        Bench::Ladder(ladder) => pipe::csv(ladder),
        Bench::Walks(walks) => tlb::csv(walks),
        Bench::FirstTouch(touches) => memory::csv(touches),
        Bench::Readings(readings) => file::csv(readings),
        Bench::Pins(pins) => pin::csv(pins),
        Bench::Forks(forks) => fork::csv(forks),
        Bench::Jumps(jumps) => code::csv(jumps),
    }
}

fn picture(bench: &Bench, caption: &str) -> Picture {
    match bench {
        Bench::Ladder(ladder) => pipe::svg(ladder, caption),
        Bench::Walks(walks) => tlb::svg(walks, caption),
        Bench::FirstTouch(touches) => memory::svg(touches, caption),
        Bench::Readings(readings) => file::svg(readings, caption),
        Bench::Pins(pins) => pin::svg(pins, caption),
        Bench::Forks(forks) => fork::svg(forks, caption),
        Bench::Jumps(jumps) => code::svg(jumps, caption),
    }
}

/// How it was measured, sentence by sentence; empty if the document says so itself.
pub(crate) fn protocol(bench: &Bench) -> Vec<String> {
    match bench {
        Bench::Ladder(it) => vec![pipe::protocol(it)],
        Bench::Walks(it) => vec![tlb::protocol(it) + "."],
        Bench::FirstTouch(_) | Bench::Readings(_) => Vec::new(),
        Bench::Pins(it) => vec![pin::protocol(it) + "."],
        Bench::Forks(it) => vec![fork::protocol(it) + "."],
        Bench::Jumps(it) => vec![code::protocol(it) + "."],
    }
}

/// The machine on which it was measured.
pub(crate) fn caption(run: &Run) -> String {
    run.machine.as_ref().map_or_else(String::new, Machine::line)
}

/// The picture of a bench; `None` for other runs.
#[must_use]
pub fn svg(run: &Run) -> Option<String> {
    Some(picture(in_run(run)?, &caption(run)).wide)
}

#[cfg(test)]
mod tests {
    use super::spread;

    #[test]
    fn rows_are_spread_and_hold_the_best() {
        let all: Vec<u32> = (0..30).collect();
        assert_eq!(spread(&all, 4, None), [0, 9, 19, 29]);
        assert_eq!(spread(&all, 4, Some(12)), [0, 12, 14, 29]);
        assert_eq!(spread(&all, 60, Some(12)), all);
        assert_eq!(spread(&all, 1, Some(29)), [0, 29]);
        assert_eq!(spread(&all[..1], 3, Some(0)), [0]);
        assert!(spread::<u32>(&[], 3, None).is_empty());
    }
}
