//! What a bench measured, whichever kind it is: a sentence, a document, CSV, and a picture.
//!
//! The kinds are listed here alone.

use crate::page::Document;
use crate::{file, first_touch, jump, ladder, pin, walk};
use pagewise_model::file::Readings;
use pagewise_model::first_touch::FirstTouch;
use pagewise_model::jump::Jumps;
use pagewise_model::ladder::Ladder;
use pagewise_model::machine::Machine;
use pagewise_model::pin::Pins;
use pagewise_model::run::Run;
use pagewise_model::walk::Walks;

/// The measurements of one kind.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bench<'a> {
    Ladder(&'a Ladder),
    Walks(&'a Walks),
    FirstTouch(&'a FirstTouch),
    Readings(&'a Readings),
    Pins(&'a Pins),
    Jumps(&'a Jumps),
}

impl<'a> Bench<'a> {
    /// All that `run` holds: one at most, as a bench saves it.
    pub(crate) fn all(run: &'a Run) -> impl Iterator<Item = Self> {
        let all = [
            run.ladder.as_ref().map(Self::Ladder),
            run.walks.as_ref().map(Self::Walks),
            run.first_touch.as_ref().map(Self::FirstTouch),
            run.readings.as_ref().map(Self::Readings),
            run.pins.as_ref().map(Self::Pins),
            run.jumps.as_ref().map(Self::Jumps),
        ];
        all.into_iter().flatten()
    }

    /// What `run` holds.
    pub(crate) fn of(run: &'a Run) -> Option<Self> {
        Self::all(run).next()
    }

    /// The verdict in one sentence.
    pub(crate) fn headline(self) -> String {
        match self {
            Self::Ladder(ladder) => ladder::headline(ladder),
            Self::Walks(walks) => walk::headline(walks),
            Self::FirstTouch(touches) => first_touch::headline(touches),
            Self::Readings(readings) => file::headline(readings),
            Self::Pins(pins) => pin::headline(pins),
            Self::Jumps(jumps) => jump::headline(jumps),
        }
    }

    /// All that is shown of it; `caption` says where it was measured.
    pub(crate) fn document(self, caption: &str) -> Document {
        match self {
            Self::Ladder(it) => ladder::document(it, caption),
            Self::Walks(it) => walk::document(it, caption),
            Self::FirstTouch(it) => first_touch::document(it, caption),
            Self::Readings(it) => file::document(it, caption),
            Self::Pins(it) => pin::document(it, caption),
            Self::Jumps(it) => jump::document(it, caption),
        }
    }

    pub(crate) fn csv(self) -> String {
        match self {
            Self::Ladder(ladder) => ladder::csv(ladder),
            Self::Walks(walks) => walk::csv(walks),
            Self::FirstTouch(touches) => first_touch::csv(touches),
            Self::Readings(readings) => file::csv(readings),
            Self::Pins(pins) => pin::csv(pins),
            Self::Jumps(jumps) => jump::csv(jumps),
        }
    }

    fn svg(self, caption: &str) -> String {
        match self {
            Self::Ladder(ladder) => ladder::svg(ladder, caption),
            Self::Walks(walks) => walk::svg(walks, caption),
            Self::FirstTouch(touches) => first_touch::svg(touches, caption),
            Self::Readings(readings) => file::svg(readings, caption),
            Self::Pins(pins) => pin::svg(pins, caption),
            Self::Jumps(jumps) => jump::svg(jumps, caption),
        }
    }

    /// How it was measured, sentence by sentence, where the document does not say so.
    pub(crate) fn protocol(self) -> Vec<String> {
        match self {
            Self::Ladder(it) => vec![ladder::protocol(it)],
            Self::Walks(it) => vec![walk::protocol(it) + "."],
            Self::FirstTouch(_) | Self::Readings(_) => Vec::new(),
            Self::Pins(it) => vec![pin::protocol(it) + "."],
            Self::Jumps(it) => vec![jump::protocol(it) + "."],
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
    Some(Bench::of(run)?.svg(&caption(run)))
}
