//! A ladder of pipe techniques for people: as terminal text, CSV, a chart, and one page of HTML.
//!
//! Entries, all pure functions of the saved form:
//! - [`section`]: the table (three rows and more for each rung: what becomes of the bytes decides
//!   what a figure means), yardsticks, claims, explanation, advice;
//! - [`csv`]: every repeat, for other tools;
//! - [`svg`]: the ladder as bars or points with the range of the repeats, or a sweep as a table of
//!   colours;
//! - [`crate::html`]: everything above on one page that needs nothing from outside.
//!
//! Untouched rows are always headed *by reference*: nobody looked at those bytes. A touched figure
//! above what one core can read is marked as implausible. What was refused keeps its row with the
//! reason.

mod calls;
mod csv;
mod explanation;
mod html;
mod picture;
mod table;

pub use csv::csv;
pub(crate) use html::{body, protocol};
pub use picture::svg;

use crate::number::{counted, range_text, three_digits, whole_size};
use crate::page::Page;
use crate::style::Style;
use crate::{advice, claims};
use pagewise_model::ladder::{Consumption, Ladder, Point, Yardsticks};
use pagewise_model::{Fact, Measured};

/// The ladder as terminal text: table, yardsticks, claims, explanation, advice.
#[must_use]
pub fn section(ladder: &Ladder, style: &Style) -> String {
    let mut page = Page::new(style);
    page.heading(&title(ladder));
    page.append(&table::table(ladder, style));
    page.section(&yardstick_section(&ladder.yardsticks, style));
    let heading = "what is said of pipes, and what this machine says";
    page.section(&claims::section(heading, &ladder.claims, style));
    if let Some(judgement) = &ladder.judgement {
        page.section(&explanation::explanation(ladder, judgement, style));
        page.section(&explanation::advice(judgement, style));
        if !judgement.sentences.is_empty() {
            page.section(&advice::section(&judgement.sentences, style));
        }
    }
    page.finish()
}

/// The verdict on all rungs in one sentence.
pub(crate) fn headline(ladder: &Ladder) -> String {
    let rated = |point: &Point| Some((point.rate()?.median, point.rung.name.clone()));
    let untouched = ladder.points.iter().filter(|p| p.consumption == Consumption::Untouched);
    match untouched.filter_map(rated).max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((rate, name)) => {
            format!("pipes: at most {rate:.1} GiB/s by reference, with nobody looking ({name})")
        }
        None => "pipes: nothing could be measured by reference".to_owned(),
    }
}

/// `the ladder: median of 9 repeats, smallest to largest`.
fn title(ladder: &Ladder) -> String {
    let what = if ladder.sweep { "the sweep" } else { "the ladder" };
    let repeats = counted(u64::from(ladder.repeats), "repeat", "repeats");
    format!("{what}: median of {repeats} in shuffled order, smallest to largest")
}

/// A short name of what becomes of the bytes; the heading of its rows.
const fn consumption_label(consumption: Consumption) -> &'static str {
    match consumption {
        Consumption::Untouched => "by reference",
        Consumption::Touched => "touched",
        Consumption::ForwardedSocket => "to a socket",
        Consumption::ForwardedFile => "to a file",
    }
}

/// Sizes and placement of a point, and whether it is safe.
fn settings(point: &Point) -> String {
    let rung = &point.rung;
    let mut parts = vec![rung.technique(), format!("buffer {}", whole_size(rung.buffer_bytes))];
    if point.pipe_bytes.0 > 0 {
        parts.push(format!("pipe {}", whole_size(point.pipe_bytes)));
    }
    let switches =
        [(rung.gift, "gift"), (rung.lock, "locked"), (rung.untouched, "not touched before")];
    parts.extend(switches.iter().filter(|(on, _)| *on).map(|(_, name)| (*name).to_owned()));
    if !point.safe {
        parts.push("not safe to reuse".to_owned());
    }
    parts.join(", ")
}

/// The points of one rung: neighbours of one name and sizes under different consumptions.
fn rungs(ladder: &Ladder) -> impl Iterator<Item = &[Point]> {
    ladder.points.chunk_by(|a, b| a.rung == b.rung)
}

/// Yardsticks with their names.
fn yardsticks(all: &Yardsticks) -> [(&'static str, &Fact<Measured>); 3] {
    [
        ("memcpy", &all.memcpy_gib_per_s),
        ("one core reads memory", &all.read_gib_per_s),
        ("between two cores' caches", &all.cross_core_gib_per_s),
    ]
}

fn yardstick_section(all: &Yardsticks, style: &Style) -> String {
    let mut page = Page::new(style);
    page.heading("the memory itself in the same minutes");
    for (name, fact) in yardsticks(all) {
        let text = match fact {
            Fact::Known(rate) => {
                format!("{} GiB/s {}", three_digits(rate.median), range_text(rate))
            }
            Fact::Missing(why) => format!("not measured: {why}"),
        };
        page.hanging(&format!("{name}: {text}"), 2);
    }
    page.finish()
}
