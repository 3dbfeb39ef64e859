//! First touches for people: as terminal text, CSV, a chart, and one page of HTML.
//!
//! Entries, all pure functions of the saved form:
//! - [`section`]: what each way costs for each page used, what the kernel counted, threads, what else was
//!   found, what is not to be had, claims, and last the three sentences;
//! - [`csv`]: every mapping, for other tools;
//! - [`svg`]: every way as a bar;
//! - [`crate::html`]: everything above on one page that needs nothing from outside, with the parts of each way.
//!
//! All times are nanoseconds for each base page used. What was refused says so under its table.

mod csv;
mod findings;
mod html;
mod picture;
mod table;

pub use csv::csv;
pub(crate) use html::body;
pub use picture::svg;

use crate::lacking::{self, Lacking};
use crate::number::{change, counted, ratio_text, three_digits, whole_size};
use crate::page::Page;
use crate::style::Style;
use crate::{advice, claims};
use pagewise_model::first_touch::{FirstTouch, Part, Point, Ratio, Unavailable, Way};

const CLAIMS: &str = "what is said of these calls, and what the kernel counted";
const LACKING: &str = "ways that are not to be had here";

/// First touches as terminal text.
#[must_use]
pub fn section(touches: &FirstTouch, style: &Style) -> String {
    let mut page = Page::new(style);
    page.append(&table::times(touches, style));
    page.section(&table::threads(touches, style));
    page.section(&table::counts(touches, style));
    page.section(&findings::section(touches, style));
    page.section(&lacking::section(LACKING, &lacking(touches), style));
    if let Some(judgement) = &touches.judgement {
        page.section(&claims::section(CLAIMS, &judgement.claims, style));
        page.section(&advice::section(&judgement.advice, style));
    }
    page.finish()
}

/// The verdict on all ways in one sentence.
pub(crate) fn headline(touches: &FirstTouch) -> String {
    let demand = touches.plain(Way::OnDemand).and_then(|point| point.page_ns(Part::Whole));
    let Some(demand) = demand else {
        return "first touches: nothing was measured on demand".to_owned();
    };
    let page = touches.base_page_bytes;
    let own =
        |r: &&Ratio| r.way.baseline() == Way::OnDemand && (r.every_pages, r.threads) == (1, 1);
    let proven = |r: &&Ratio| r.interval.known().is_some_and(|(_, high)| *high < 1.0);
    let ratios = touches.judgement.iter().flat_map(|judgement| &judgement.ratios);
    let best = ratios.filter(own).filter(proven).min_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let rest = best.map_or_else(
        || "nothing is proven to take less".to_owned(),
        |r| format!("{} takes {}", r.way.label(), change(r.ratio)),
    );
    format!(
        "a page of {page} takes {} ns until it can be used; {rest}",
        three_digits(demand.median)
    )
}

/// The points of each baseline, with what they are.
fn groups(touches: &FirstTouch) -> Vec<(&'static str, Vec<&Point>)> {
    let of = |baseline: Way| {
        let points = touches.points.iter().filter(move |p| p.threads == 1);
        points.filter(|p| p.way.baseline() == baseline).collect::<Vec<&Point>>()
    };
    let groups = [
        ("own memory", of(Way::OnDemand)),
        ("a cached file", of(Way::FileFaultAround)),
        ("after a fork", of(Way::ForkCow)),
    ];
    groups.into_iter().filter(|(_, points)| !points.is_empty()).collect()
}

/// The ratio of a point to its baseline, as text; nothing where there is none.
fn ratio(touches: &FirstTouch, point: &Point) -> String {
    let mut ratios = touches.judgement.iter().flat_map(|judgement| &judgement.ratios);
    let ratio = ratios.find(|r| point.is(r.way, r.every_pages, r.threads));
    ratio.map_or_else(String::new, |r| ratio_text(r.ratio, &r.interval))
}

/// Ways that are not to be had; those with one reason and one remedy together.
fn lacking(touches: &FirstTouch) -> Vec<Lacking<'_>> {
    let mut all: Vec<Lacking<'_>> = Vec::new();
    for Unavailable { way, why, next } in &touches.unavailable {
        match all.iter_mut().find(|other| other.why == why && other.next == next) {
            Some(other) => other.label.push_str(&format!(", {}", way.label())),
            None => all.push(Lacking { label: way.label(), why, next }),
        }
    }
    all
}

/// How the mappings were made, in words.
pub(crate) fn protocol(touches: &FirstTouch) -> String {
    format!(
        "median of {} of {} for each way, in shuffled order (seed {}), on CPU {}; at most {} may be taken ({})",
        counted(u64::from(touches.repeats), "fresh mapping", "fresh mappings"),
        whole_size(touches.size_bytes),
        touches.seed,
        touches.cpus.first().copied().unwrap_or(0),
        touches.most_bytes,
        touches.bound_by
    )
}
