//! What a bench measured, whichever kind it is: a sentence, terminal text, CSV, a picture, and one page.
//!
//! The kinds are listed here alone. A page needs nothing from outside: in it stand the picture, tables,
//! what to do, and how it was measured.

use crate::style::Style;
use crate::{document, file, first_touch, jump, ladder, pin, walk};
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

    pub(crate) fn section(self, style: &Style) -> String {
        match self {
            Self::Ladder(ladder) => ladder::section(ladder, style),
            Self::Walks(walks) => walk::section(walks, style),
            Self::FirstTouch(touches) => first_touch::section(touches, style),
            Self::Readings(readings) => file::section(readings, style),
            Self::Pins(pins) => pin::section(pins, style),
            Self::Jumps(jumps) => jump::section(jumps, style),
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

    /// What a page shows, and how that was measured, sentence by sentence.
    fn page(self, caption: &str) -> (String, Vec<String>) {
        match self {
            Self::Ladder(it) => (ladder::body(it, caption), vec![ladder::protocol(it)]),
            Self::Walks(it) => (walk::body(it, caption), vec![walk::protocol(it) + "."]),
            Self::FirstTouch(it) => {
                (first_touch::body(it, caption), vec![first_touch::protocol(it) + "."])
            }
            Self::Readings(it) => (file::body(it, caption), file::protocol(it)),
            Self::Pins(it) => (pin::body(it, caption), vec![pin::protocol(it) + "."]),
            Self::Jumps(it) => (jump::body(it, caption), vec![jump::protocol(it) + "."]),
        }
    }
}

/// Where it was measured.
fn caption(run: &Run) -> String {
    run.machine.as_ref().map_or_else(String::new, Machine::line)
}

/// The picture of what a bench measured; none of a run that holds no such thing.
#[must_use]
pub fn svg(run: &Run) -> Option<String> {
    Some(Bench::of(run)?.svg(&caption(run)))
}

/// The page of a bench with everything; none of a run that holds no such thing.
#[must_use]
pub fn html(run: &Run) -> Option<String> {
    let (body, protocol) = Bench::of(run)?.page(&caption(run));
    let protocol: String = protocol.iter().map(|text| document::para(text)).collect();
    Some(document::head(run) + &body + &document::foot(run, &protocol))
}
