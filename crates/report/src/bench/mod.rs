//! What a bench measured, whichever kind it is: a sentence, a document, CSV, and a picture.
//!
//! The kinds are listed here alone.

pub mod code;
pub mod file;
pub mod fork;
pub mod memory;
pub mod pin;
pub mod pipe;
pub mod tlb;

use crate::chart::Picture;
use crate::page::Document;
use pagewise_model::body::{Bench, Body};
use pagewise_model::machine::Machine;
use pagewise_model::run::Run;

/// What `run` holds.
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

/// All that is shown of it; `caption` says where it was measured.
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

/// How it was measured, sentence by sentence, where the document does not say so.
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

/// Where it was measured.
pub(crate) fn caption(run: &Run) -> String {
    run.machine.as_ref().map_or_else(String::new, Machine::line)
}

/// The picture of what a bench measured; none of a run that holds no such thing.
#[must_use]
pub fn svg(run: &Run) -> Option<String> {
    Some(picture(in_run(run)?, &caption(run)).wide)
}
