//! The result of any bench: a sentence, a document, CSV, and a picture.
//!
//! Only this file lists the kinds.

pub mod file;
pub mod fork;
pub mod memory;
pub mod pin;
pub mod pipe;
pub mod text;
pub(crate) mod text_load;
pub mod tlb;

use crate::chart::SvgPicture;
use crate::page::ReportDocument;
use crate::table::ReportTable;
use pagewise_model::bench::BenchClaim;
use pagewise_model::body::{BenchReport, RunBody};
use pagewise_model::machine::Machine;
use pagewise_model::run::SavedRun;
use pagewise_model::{Fact, Measured};

/// The bench in `run`; `None` for other runs.
pub(crate) fn in_run(run: &SavedRun) -> Option<&BenchReport> {
    match &run.body {
        Some(RunBody::Bench(bench)) => Some(bench),
        _ => None,
    }
}

/// The verdict in one sentence.
pub(crate) fn headline(bench: &BenchReport) -> String {
    match bench {
        BenchReport::Pipe(ladder) => pipe::headline(ladder),
        BenchReport::Tlb(walks) => tlb::headline(walks),
        BenchReport::Memory(touches) => memory::headline(touches),
        BenchReport::File(readings) => file::headline(readings),
        BenchReport::Pin(pins) => pin::headline(pins),
        BenchReport::Fork(forks) => fork::headline(forks),
        BenchReport::Text(jumps) => text::headline(jumps),
        BenchReport::TextLoad(load) => text_load::headline(load),
    }
}

/// A bench on one screen.
pub(crate) struct BenchSummary<'a> {
    /// Title of the table.
    pub(crate) title: String,
    /// The rows that support the advice.
    pub(crate) table: ReportTable,
    pub(crate) advice: &'a [String],
    pub(crate) claims: &'a [BenchClaim],
    /// The figures, each over its repeats.
    pub(crate) figures: Vec<Measured>,
    /// Why figures are missing, or have fewer repeats than requested.
    pub(crate) refusals: Vec<&'a str>,
    /// What is not available here.
    pub(crate) lacking: Vec<String>,
}

/// A bench on one screen, with about `rows` table rows.
pub(crate) fn short(bench: &BenchReport, rows: usize) -> BenchSummary<'_> {
    match bench {
        BenchReport::Pipe(it) => pipe::short(it, rows),
        BenchReport::Tlb(it) => tlb::short(it, rows),
        BenchReport::Memory(it) => memory::short(it, rows),
        BenchReport::File(it) => file::short(it, rows),
        BenchReport::Pin(it) => pin::short(it, rows),
        BenchReport::Fork(it) => fork::short(it, rows),
        BenchReport::Text(it) => text::short(it, rows),
        BenchReport::TextLoad(it) => text_load::short(it, rows),
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

/// What a bench shows beside its figures; `None` for most.
pub(crate) fn shown(bench: &BenchReport) -> Option<ReportDocument> {
    match bench {
        BenchReport::Pipe(ladder) => pipe::mechanism(ladder),
        _ => None,
    }
}

/// The whole document; `caption` names the machine.
pub(crate) fn document(bench: &BenchReport, caption: &str) -> ReportDocument {
    match bench {
        BenchReport::Pipe(it) => pipe::document(it, caption),
        BenchReport::Tlb(it) => tlb::document(it, caption),
        BenchReport::Memory(it) => memory::document(it, caption),
        BenchReport::File(it) => file::document(it, caption),
        BenchReport::Pin(it) => pin::document(it, caption),
        BenchReport::Fork(it) => fork::document(it, caption),
        BenchReport::Text(it) => text::document(it, caption),
        BenchReport::TextLoad(it) => text_load::document(it, caption),
    }
}

pub(crate) fn csv(bench: &BenchReport) -> String {
    match bench {
        BenchReport::Pipe(ladder) => pipe::csv(ladder),
        BenchReport::Tlb(walks) => tlb::csv(walks),
        BenchReport::Memory(touches) => memory::csv(touches),
        BenchReport::File(readings) => file::csv(readings),
        BenchReport::Pin(pins) => pin::csv(pins),
        BenchReport::Fork(forks) => fork::csv(forks),
        BenchReport::Text(jumps) => text::csv(jumps),
        BenchReport::TextLoad(load) => text_load::csv(load),
    }
}

fn picture(bench: &BenchReport, caption: &str) -> SvgPicture {
    match bench {
        BenchReport::Pipe(ladder) => pipe::svg(ladder, caption),
        BenchReport::Tlb(walks) => tlb::svg(walks, caption),
        BenchReport::Memory(touches) => memory::svg(touches, caption),
        BenchReport::File(readings) => file::svg(readings, caption),
        BenchReport::Pin(pins) => pin::svg(pins, caption),
        BenchReport::Fork(forks) => fork::svg(forks, caption),
        BenchReport::Text(jumps) => text::svg(jumps, caption),
        BenchReport::TextLoad(load) => text_load::svg(load, caption),
    }
}

/// How it was measured, sentence by sentence; empty if the document says so itself.
pub(crate) fn protocol(bench: &BenchReport) -> Vec<String> {
    match bench {
        BenchReport::Pipe(it) => vec![pipe::protocol(it)],
        BenchReport::Tlb(it) => vec![tlb::protocol(it) + "."],
        BenchReport::Memory(_) | BenchReport::File(_) => Vec::new(),
        BenchReport::Pin(it) => vec![pin::protocol(it) + "."],
        BenchReport::Fork(it) => vec![fork::protocol(it) + "."],
        BenchReport::Text(it) => vec![text::protocol(it) + "."],
        BenchReport::TextLoad(it) => vec![text_load::protocol(it) + "."],
    }
}

/// The machine on which it was measured.
pub(crate) fn caption(run: &SavedRun) -> String {
    run.machine.as_ref().map_or_else(String::new, Machine::line)
}

/// The picture of a bench; `None` for other runs.
#[must_use]
pub fn svg(run: &SavedRun) -> Option<String> {
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
