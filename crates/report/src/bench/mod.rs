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

use crate::page::Document;
use pagewise_model::bench::code::Jumps;
use pagewise_model::bench::file::Readings;
use pagewise_model::bench::fork::Forks;
use pagewise_model::bench::memory::FirstTouch;
use pagewise_model::bench::pin::Pins;
use pagewise_model::bench::pipe::Ladder;
use pagewise_model::bench::tlb::Walks;
use pagewise_model::machine::Machine;
use pagewise_model::run::Run;

/// The measurements of one kind.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bench<'a> {
    Pipe(&'a Ladder),
    Tlb(&'a Walks),
    Memory(&'a FirstTouch),
    File(&'a Readings),
    Pin(&'a Pins),
    Fork(&'a Forks),
    Code(&'a Jumps),
}

impl<'a> Bench<'a> {
    /// All that `run` holds: one at most, as a bench saves it.
    pub(crate) fn all(run: &'a Run) -> impl Iterator<Item = Self> {
        let all = [
            run.ladder.as_ref().map(Self::Pipe),
            run.walks.as_ref().map(Self::Tlb),
            run.first_touch.as_ref().map(Self::Memory),
            run.readings.as_ref().map(Self::File),
            run.pins.as_ref().map(Self::Pin),
            run.forks.as_ref().map(Self::Fork),
            run.jumps.as_ref().map(Self::Code),
        ];
        all.into_iter().flatten()
    }

    /// What `run` holds.
    pub(crate) fn in_run(run: &'a Run) -> Option<Self> {
        Self::all(run).next()
    }

    /// The verdict in one sentence.
    pub(crate) fn headline(self) -> String {
        match self {
            Self::Pipe(ladder) => pipe::headline(ladder),
            Self::Tlb(walks) => tlb::headline(walks),
            Self::Memory(touches) => memory::headline(touches),
            Self::File(readings) => file::headline(readings),
            Self::Pin(pins) => pin::headline(pins),
            Self::Fork(forks) => fork::headline(forks),
            Self::Code(jumps) => code::headline(jumps),
        }
    }

    /// All that is shown of it; `caption` says where it was measured.
    pub(crate) fn document(self, caption: &str) -> Document {
        match self {
            Self::Pipe(it) => pipe::document(it, caption),
            Self::Tlb(it) => tlb::document(it, caption),
            Self::Memory(it) => memory::document(it, caption),
            Self::File(it) => file::document(it, caption),
            Self::Pin(it) => pin::document(it, caption),
            Self::Fork(it) => fork::document(it, caption),
            Self::Code(it) => code::document(it, caption),
        }
    }

    pub(crate) fn csv(self) -> String {
        match self {
            Self::Pipe(ladder) => pipe::csv(ladder),
            Self::Tlb(walks) => tlb::csv(walks),
            Self::Memory(touches) => memory::csv(touches),
            Self::File(readings) => file::csv(readings),
            Self::Pin(pins) => pin::csv(pins),
            Self::Fork(forks) => fork::csv(forks),
            Self::Code(jumps) => code::csv(jumps),
        }
    }

    fn svg(self, caption: &str) -> String {
        match self {
            Self::Pipe(ladder) => pipe::svg(ladder, caption),
            Self::Tlb(walks) => tlb::svg(walks, caption),
            Self::Memory(touches) => memory::svg(touches, caption),
            Self::File(readings) => file::svg(readings, caption),
            Self::Pin(pins) => pin::svg(pins, caption),
            Self::Fork(forks) => fork::svg(forks, caption),
            Self::Code(jumps) => code::svg(jumps, caption),
        }
    }

    /// How it was measured, sentence by sentence, where the document does not say so.
    pub(crate) fn protocol(self) -> Vec<String> {
        match self {
            Self::Pipe(it) => vec![pipe::protocol(it)],
            Self::Tlb(it) => vec![tlb::protocol(it) + "."],
            Self::Memory(_) | Self::File(_) => Vec::new(),
            Self::Pin(it) => vec![pin::protocol(it) + "."],
            Self::Fork(it) => vec![fork::protocol(it) + "."],
            Self::Code(it) => vec![code::protocol(it) + "."],
        }
    }
}

/// Where it was measured.
pub(crate) fn caption(run: &Run) -> String {
    run.machine.as_ref().map_or_else(String::new, Machine::line)
}

/// The picture of what a bench measured; none of a run that holds no such thing.
#[must_use]
pub fn svg(run: &Run) -> Option<String> {
    Some(Bench::in_run(run)?.svg(&caption(run)))
}
