//! Walks through memory for people: one document, CSV, and curves.
//!
//! Entries, all pure functions of the saved form:
//! - [`document`], and as terminal text [`section`]: the list that shows most at every size, all lists at five sizes, what is not to be
//!   had, translation with the processor's claims, bandwidth, and last the three sentences;
//! - [`csv`]: every mapping, for other tools;
//! - [`svg`]: the curves, with caches and the reach of TLBs marked.
//!
//! A ratio that may be another in the next run says why. What was refused says so under its table.

mod picture;
mod table;

pub use picture::svg;

use crate::csv::{known, samples};
use crate::lacking;
use crate::number::{counted, percent, three_digits, whole_size};
use crate::page::Document;
use crate::style::{Style, Tone};
use crate::table::{Align, Cell, Table};
use crate::{advice, claims};
use pagewise_model::bench::tlb::{
    Bandwidth, Judgement, LINE, Order, PageKind, Path, Point, Ratio, Sample, Steadiness, Walks,
};
use pagewise_model::{Fact, Measured};

/// What the claims are about.
const CLAIMS: &str = "TLBs as the processor claims, and where loads begin to cost more";

const LACKING: &str = "pages that are not available here";

/// The walks as terminal text.
#[must_use]
pub fn section(walks: &Walks, style: &Style) -> String {
    document(walks, "").text(style)
}

/// All that is shown of the walks; `caption` says where they were measured.
pub(crate) fn document(walks: &Walks, caption: &str) -> Document {
    let mut page = Document::default();
    page.figure(svg(walks, caption));
    let usual = usual(walks);
    if let Some(path) = usual {
        page.append(table::list(walks, path));
        page.section(table::overview(walks));
    }
    for path in walks.lists().into_iter().filter(|path| Some(*path) != usual) {
        page.details(&describe(path), table::list(walks, path));
    }
    page.section(lacking::section(LACKING, lacking::pages(&walks.unavailable)));
    if let Some(judgement) = &walks.judgement {
        page.section(claims::section(CLAIMS, &judgement.claims));
        page.section(backing(judgement));
    }
    page.section(bandwidth(&walks.bandwidth));
    if let Some(judgement) = &walks.judgement {
        page.section(advice::section(&judgement.advice));
    }
    page
}

/// Every mapping as CSV (RFC 4180), one line each. Names end in the unit; an empty field does not apply or
/// was not measured. A point without samples has one line with the reason.
#[must_use]
pub fn csv(walks: &Walks) -> String {
    let header = "path,order,npad,apart_bytes,pages,elements,set_bytes,page_bytes,refused,repeat,place,\
                  load_ns,within_share";
    let sample = |s: &Sample| {
        let (load, share) = (format!("{:.4}", s.load_ns), format!("{:.4}", s.within_share));
        vec![s.repeat.to_string(), s.place.to_string(), load, share]
    };
    let point = |point: &Point| {
        let (path, order, npad, apart) = match point.path {
            Path::List { order, npad } => ("list", order.label(), Some(npad), None),
            Path::Lines { apart_bytes } => ("lines", "random", None, Some(apart_bytes.0)),
        };
        let lead = vec![
            path.to_owned(),
            order.to_owned(),
            known(npad),
            known(apart),
            point.pages.label().to_owned(),
            point.elements.to_string(),
            point.set_bytes().0.to_string(),
            known(point.page_bytes.known().map(|page| page.bytes())),
            known(point.refused.as_ref()),
        ];
        (lead, point.samples.iter().map(sample).collect())
    };
    samples(header, walks.points.iter().map(point))
}

/// The verdict on all walks in one sentence.
pub(crate) fn headline(walks: &Walks) -> String {
    let random = |path: &Path| matches!(path, Path::List { order: Order::Random, .. });
    let Some(path) = usual(walks).filter(random) else {
        return "loads: no list was walked in random order".to_owned();
    };
    let curve = walks.curve(path, PageKind::Base);
    let timed: Vec<(&Point, Measured)> =
        curve.into_iter().filter_map(|point| Some((point, point.load_ns()?))).collect();
    let (Some(first), Some(last)) = (timed.first(), timed.last()) else {
        return "loads: nothing could be measured on base pages".to_owned();
    };
    let at = |(point, ns): &(&Point, Measured)| {
        format!("{} ns in {}", three_digits(ns.median), whole_size(point.set_bytes()))
    };
    let gain = walks.judgement.iter().flat_map(|j| &j.ratios).filter(|r| r.path == path);
    let proven = gain.filter(|r| r.interval.known().is_some_and(|(_, high)| *high < 1.0));
    let best = proven.min_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let huge = best.map_or_else(
        || "no proof that huge pages make it faster".to_owned(),
        |r| {
            format!(
                "huge pages at most {} less (in {})",
                percent(1.0 - r.ratio),
                whole_size(r.set_bytes)
            )
        },
    );
    format!("a dependent random load takes {} and {}; {huge}", at(first), at(last))
}

/// The list that shows most: random, a line to an element, or what is nearest to that.
fn usual(walks: &Walks) -> Option<Path> {
    let far = |path: &Path| match path {
        Path::List { order, .. } => (*order, path.pitch().0.abs_diff(LINE.0)),
        Path::Lines { .. } => (Order::Sequential, u64::MAX),
    };
    walks.lists().into_iter().min_by_key(far)
}

/// A list in words: `random order, elements of 64 B (NPAD 7)`.
fn describe(path: Path) -> String {
    match path {
        Path::List { order, npad } => {
            format!("{} order, elements of {} (NPAD {npad})", order.label(), path.pitch())
        }
        Path::Lines { apart_bytes } => format!("lines {} apart", whole_size(apart_bytes)),
    }
}

/// Why a ratio may be another in the next run; nothing where it is not.
const fn unsteady(ratio: &Ratio) -> &'static str {
    match ratio.steadiness {
        Steadiness::Steady => "",
        Steadiness::Placement => "placement decides",
        Steadiness::Disturbed => "others disturb",
    }
}

/// What huge pages are to the TLB, in a sentence.
fn backing_text(share: &Fact<f64>) -> String {
    let share = match share {
        Fact::Known(share) => *share,
        Fact::Missing(why) => return format!("how huge pages are backed: {why}"),
    };
    let meaning = match share {
        s if s < 0.3 => "huge pages are translated as huge pages",
        s if s > 0.7 => {
            "huge pages are translated in base pages, as on a host that backs them that way: they shorten page walks, but extend no reach"
        }
        _ => "some huge pages are translated as huge pages and others in base pages",
    };
    format!(
        "over the same lines, translation on huge pages costs {} of that on base pages: {meaning}",
        percent(share)
    )
}

fn backing(judgement: &Judgement) -> Document {
    let mut page = Document::default();
    page.hanging(&backing_text(&judgement.huge_translation_share), 2);
    page
}

fn bandwidth(found: &Bandwidth) -> Document {
    let mut page = Document::default();
    let title = format!(
        "bandwidth, GiB/s over buffers of {}: one core, and all {} together",
        found.buffer_bytes, found.cpus
    );
    page.heading(&title);
    let right = Align::Decimal;
    let mut table = Table::new(&[
        ("", Align::Left),
        ("one core", right),
        ("spread", Align::Left),
        ("all", right),
        ("spread", Align::Left),
    ]);
    for ((name, one), (_, all)) in found.one.named().into_iter().zip(found.all.named()) {
        let mut row = vec![Cell::from(name)];
        row.extend(Cell::with_range(one).into_iter().chain(Cell::with_range(all)));
        table.row(row);
    }
    page.table(table);
    for (who, rates) in [("one core", &found.one), ("all", &found.all)] {
        if let Some(why) = rates.read_gib_per_s.reason() {
            page.para(&format!("{who}: {why}"), 2, Tone::Faint);
        }
    }
    page
}

/// How the mappings were made, in words.
pub(crate) fn protocol(walks: &Walks) -> String {
    format!(
        "median of {} of each point in shuffled order (seed {}), walked on CPU {}; sets up to {} ({})",
        counted(u64::from(walks.repeats), "fresh mapping", "fresh mappings"),
        walks.seed,
        walks.cpu,
        walks.most_bytes,
        walks.bound_by
    )
}
