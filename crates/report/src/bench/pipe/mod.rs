//! A ladder of pipe techniques for people: one document, CSV, and a chart.
//!
//! Entries, all pure functions of the saved form:
//! - [`document`], and as terminal text [`section`]: the table (at least three rows for each rung, because
//!   the use of the bytes decides what a figure means), yardsticks, claims, explanation, advice;
//! - with and without a switch (`--compare`): the ratio of each pair with its interval;
//! - [`csv`]: every repeat, for other tools;
//! - [`svg`]: the ladder as bars or points with the range of the repeats, or a sweep as a table of
//!   colours.
//!
//! Untouched rows are always headed *by reference*: the reader did not look at those bytes. A touched figure
//! above the read rate of one core is marked as implausible. A refused row stays, with the reason.

mod calls;
mod comparison;
mod explanation;
mod mechanism;
mod picture;
mod table;

pub use picture::svg;

use crate::bench::BenchSummary;
use crate::claims;
use crate::csv::{known, samples};
use crate::number::{counted, range_text, three_digits, whole_size};
use crate::page::ReportDocument;
use crate::style::TerminalStyle;
use pagewise_model::bench::pipe::{
    PipeBenchReport, PipeConsumption, PipeEndUsage, PipePoint, PipeRung, PipeSample,
    PipeYardsticks, RungBuffers, RungPages, RungWriter,
};
use pagewise_model::{Fact, Measured};

/// The ladder as terminal text.
#[must_use]
pub fn section(ladder: &PipeBenchReport, style: &TerminalStyle) -> String {
    document(ladder, "").text(style)
}

/// The whole document on the ladder; `caption` names the machine.
pub(crate) fn document(ladder: &PipeBenchReport, caption: &str) -> ReportDocument {
    let mut page = ReportDocument::default();
    let heading = "claims about pipes, and what this machine shows";
    if let Some(shown) = mechanism(ladder) {
        page.heading("how a pipe works, and what it costs here");
        page.append(shown);
        page.section(claims::section(heading, &ladder.claims));
        return page;
    }
    page.figure(svg(ladder, caption));
    page.heading(&title(ladder));
    page.append(table::table(ladder));
    page.section(comparison::section(ladder));
    page.section(yardstick_section(&ladder.yardsticks));
    page.section(claims::section(heading, &ladder.claims));
    if let Some(judgement) = &ladder.judgement {
        page.section(explanation::explanation(ladder, judgement));
        page.section(explanation::advice(judgement));
        if !judgement.sentences.is_empty() {
            page.section(claims::advice(&judgement.sentences));
        }
    }
    page
}

/// How a pipe works, if that was asked for.
pub(crate) fn mechanism(ladder: &PipeBenchReport) -> Option<ReportDocument> {
    let prices = ladder.judgement.as_ref().map(|judgement| &judgement.prices);
    ladder.mechanism.as_ref().map(|mechanism| mechanism::section(mechanism, prices))
}

/// The ladder on one screen: the fastest ways beside the first.
pub(crate) fn short(ladder: &PipeBenchReport, rows: usize) -> BenchSummary<'_> {
    let points = || ladder.points.iter();
    let usual = "GiB/s by reference, and where the reader looks at each byte";
    BenchSummary {
        title: comparison::title(ladder).unwrap_or_else(|| usual.to_owned()),
        table: match ladder.compared {
            Some(_) => comparison::table(ladder, rows),
            None => table::fastest(ladder, rows),
        },
        advice: ladder.judgement.as_ref().map_or(&[], |judgement| &judgement.sentences),
        claims: &ladder.claims,
        figures: match &ladder.mechanism {
            Some(mechanism) => mechanism.prices().copied().collect(),
            None => points().filter_map(PipePoint::rate).collect(),
        },
        refusals: points().filter_map(|point| point.refused.as_deref()).collect(),
        lacking: Vec::new(),
    }
}

/// How the points were measured.
pub(crate) fn protocol(ladder: &PipeBenchReport) -> String {
    format!(
        "{} repeats of each point, each a fresh pair of processes, in an order shuffled with seed {}.",
        ladder.repeats, ladder.seed
    )
}

/// Every repeat of every point as CSV (RFC 4180), one line each. Names end in the unit; an empty field was
/// not measured. A point without repeats has one line with the reason. `rate_ratio` is the rate over that of the
/// same rung without the compared switch, with its 95% interval.
#[must_use]
pub fn csv(ladder: &PipeBenchReport) -> String {
    let header = "rung,writer,reader,pages,wait,placement,gift,lock,untouched_pages,one_buffer,check_huge,\
                  buffer_bytes,pipe_bytes,page_bytes,consumption,safe,refused,rate_ratio,rate_ratio_low,\
                  rate_ratio_high,repeat,place,bytes,timed_bytes,wall_ns,gib_per_s,\
                  writer_user_ns,writer_sys_ns,writer_voluntary_switches,writer_involuntary_switches,\
                  writer_minor_faults,writer_calls,writer_slots,writer_spins,writer_spun_ns,writer_own_ns,\
                  writer_blocks,reader_user_ns,reader_sys_ns,reader_voluntary_switches,\
                  reader_involuntary_switches,reader_minor_faults,reader_calls,reader_slots,reader_spins,\
                  reader_spun_ns,reader_own_ns,reader_blocks";
    let point = |(at, point): (usize, &PipePoint)| {
        let mut fields = lead(point);
        fields.extend(comparison::fields(ladder, at));
        (fields, point.samples.iter().map(sample_fields).collect())
    };
    samples(header, ladder.points.iter().enumerate().map(point))
}

fn lead(point: &PipePoint) -> Vec<String> {
    let rung = &point.rung;
    let pages = match rung.pages {
        RungPages::Base => "base",
        RungPages::Huge => "huge",
        RungPages::HugeTlb => "hugetlb",
    };
    vec![
        rung.name.clone(),
        rung.writer.into_str().to_owned(),
        point.reader.into_str().to_owned(),
        pages.to_owned(),
        rung.wait.into_str().to_owned(),
        rung.placement.into_str().to_owned(),
        rung.gift.to_string(),
        rung.lock.to_string(),
        rung.untouched.to_string(),
        has_one_buffer(rung).to_string(),
        rung.check_huge.to_string(),
        rung.buffer_bytes.0.to_string(),
        point.pipe_bytes.0.to_string(),
        known(point.page_bytes.known().map(|page| page.bytes())),
        consumption_label(point.consumption).to_owned(),
        point.safe.to_string(),
        known(point.refused.as_ref()),
    ]
}

fn sample_fields(sample: &PipeSample) -> Vec<String> {
    let rate = sample.gib_per_s().map(|rate| format!("{rate:.4}"));
    let mut fields = vec![
        sample.repeat.to_string(),
        sample.place.to_string(),
        sample.bytes.0.to_string(),
        sample.timed_bytes.0.to_string(),
        sample.wall_ns.0.to_string(),
        known(rate),
    ];
    fields.extend(end_fields(&sample.writer));
    fields.extend(end_fields(&sample.reader));
    fields
}

fn end_fields(end: &PipeEndUsage) -> impl Iterator<Item = String> {
    [
        Some(end.user_ns.0),
        Some(end.sys_ns.0),
        Some(end.voluntary_switches),
        Some(end.involuntary_switches),
        Some(end.minor_faults),
        Some(end.calls),
        Some(end.slots),
        Some(end.spins),
        end.spun_ns.map(|ns| ns.0),
        end.own_ns.map(|ns| ns.0),
        Some(end.blocks),
    ]
    .into_iter()
    .map(known)
}

/// The verdict on all rungs in one sentence.
pub(crate) fn headline(ladder: &PipeBenchReport) -> String {
    let told = ladder.mechanism.as_deref().map(mechanism::headline);
    if let Some(text) = told.or_else(|| comparison::headline(ladder)) {
        return text;
    }
    let rated = |point: &PipePoint| Some((point.rate()?.median, point.rung.name.clone()));
    let untouched = ladder.points.iter().filter(|p| p.consumption == PipeConsumption::Untouched);
    match untouched.filter_map(rated).max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((rate, name)) => {
            let lines = ladder.points.iter().find(|p| p.rung.writer == RungWriter::FizzBuzz);
            let lines = lines.and_then(PipePoint::rate);
            let lines = lines.map_or_else(String::new, |rate| {
                format!("; new lines of FizzBuzz {:.1}", rate.median)
            });
            format!("pipes: at most {rate:.1} GiB/s by reference, data never read ({name}){lines}")
        }
        None => "pipes: nothing could be measured by reference".to_owned(),
    }
}

/// `the ladder: median of 9 repeats, smallest to largest`.
fn title(ladder: &PipeBenchReport) -> String {
    let what = match (ladder.sweep, ladder.compared) {
        (true, _) => "the sweep",
        (_, Some(_)) => "the pairs",
        _ => "the ladder",
    };
    let repeats = counted(u64::from(ladder.repeats), "repeat", "repeats");
    format!("{what}: median of {repeats} in shuffled order, smallest to largest")
}

/// Heading for rows of one consumption of the bytes.
const fn consumption_label(consumption: PipeConsumption) -> &'static str {
    match consumption {
        PipeConsumption::Untouched => "by reference",
        PipeConsumption::Touched => "touched",
        PipeConsumption::ForwardedSocket => "to a socket",
        PipeConsumption::ForwardedFile => "to a file",
    }
}

/// Whether the halves of one buffer are passed in turn.
fn has_one_buffer(rung: &PipeRung) -> bool {
    (rung.writer, rung.buffers) == (RungWriter::Vmsplice, RungBuffers::One)
}

/// Sizes and placement of a point, and whether it is safe.
fn settings(point: &PipePoint) -> String {
    let rung = &point.rung;
    let mut parts = vec![rung.technique(), format!("buffer {}", whole_size(rung.buffer_bytes))];
    if point.pipe_bytes.0 > 0 {
        parts.push(format!("pipe {}", whole_size(point.pipe_bytes)));
    }
    let switches = [
        (rung.gift, "gift"),
        (rung.lock, "locked"),
        (rung.untouched, "not touched before"),
        (has_one_buffer(rung), "one buffer"),
        (rung.check_huge, "huge pages checked"),
    ];
    parts.extend(switches.iter().filter(|(on, _)| *on).map(|(_, name)| (*name).to_owned()));
    if !point.safe {
        parts.push("not safe to reuse".to_owned());
    }
    parts.join(", ")
}

/// The points of each rung: neighbours with the same name and sizes under different consumptions.
fn rungs(ladder: &PipeBenchReport) -> impl Iterator<Item = &[PipePoint]> {
    ladder.points.chunk_by(|a, b| a.rung == b.rung)
}

/// Yardsticks with their names.
fn yardsticks(all: &PipeYardsticks) -> [(&'static str, &Fact<Measured>); 3] {
    [
        ("memcpy", &all.memcpy_gib_per_s),
        ("one core reads memory", &all.read_gib_per_s),
        ("between two cores' caches", &all.cross_core_gib_per_s),
    ]
}

fn yardstick_section(all: &PipeYardsticks) -> ReportDocument {
    let mut page = ReportDocument::default();
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
    page
}
