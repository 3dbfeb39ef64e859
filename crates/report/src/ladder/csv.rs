//! Every repeat of every point as CSV (RFC 4180), one line each. Names end in the unit; an empty
//! field was not measured. A point without repeats has one line with the reason.

use super::consumption_label;
use crate::csv::field;
use pagewise_model::ladder::{EndUsage, Ladder, Pages, Point, Sample};

const HEADER: &str = "rung,writer,reader,pages,wait,placement,gift,lock,untouched_pages,\
buffer_bytes,pipe_bytes,page_bytes,consumption,safe,refused,repeat,place,bytes,timed_bytes,wall_ns,\
gib_per_s,writer_user_ns,writer_sys_ns,writer_voluntary_switches,writer_involuntary_switches,\
writer_minor_faults,writer_calls,writer_slots,writer_spins,writer_spun_ns,writer_own_ns,\
writer_blocks,reader_user_ns,reader_sys_ns,reader_voluntary_switches,reader_involuntary_switches,\
reader_minor_faults,reader_calls,reader_slots,reader_spins,reader_spun_ns,reader_own_ns,\
reader_blocks\n";

/// Fields of a repeat, for points that have none.
const SAMPLE_FIELDS: usize = 28;

/// All repeats of `ladder`.
#[must_use]
pub fn csv(ladder: &Ladder) -> String {
    let mut out = HEADER.to_owned();
    for point in &ladder.points {
        let lead = lead(point);
        if point.samples.is_empty() {
            let empty = vec![String::new(); SAMPLE_FIELDS];
            push(&mut out, &lead, &empty);
        }
        for sample in &point.samples {
            push(&mut out, &lead, &sample_fields(sample));
        }
    }
    out
}

fn push(out: &mut String, lead: &[String], rest: &[String]) {
    out.push_str(&[lead, rest].concat().join(","));
    out.push('\n');
}

fn lead(point: &Point) -> Vec<String> {
    let rung = &point.rung;
    let pages = match rung.pages {
        Pages::Base => "base",
        Pages::Huge => "huge",
        Pages::HugeTlb => "hugetlb",
    };
    let page = point.page_bytes.known().map_or_else(String::new, |p| p.bytes().to_string());
    vec![
        field(&rung.name),
        rung.writer.label().to_owned(),
        point.reader.label().to_owned(),
        pages.to_owned(),
        rung.wait.label().to_owned(),
        rung.placement.label().to_owned(),
        rung.gift.to_string(),
        rung.lock.to_string(),
        rung.untouched.to_string(),
        rung.buffer_bytes.0.to_string(),
        point.pipe_bytes.0.to_string(),
        page,
        consumption_label(point.consumption).to_owned(),
        point.safe.to_string(),
        field(point.refused.as_deref().unwrap_or("")),
    ]
}

fn sample_fields(sample: &Sample) -> Vec<String> {
    let rate = sample.gib_per_s().map_or_else(String::new, |rate| format!("{rate:.4}"));
    let mut fields = vec![
        sample.repeat.to_string(),
        sample.place.to_string(),
        sample.bytes.0.to_string(),
        sample.timed_bytes.0.to_string(),
        sample.wall_ns.0.to_string(),
        rate,
    ];
    fields.extend(end_fields(&sample.writer));
    fields.extend(end_fields(&sample.reader));
    fields
}

fn end_fields(end: &EndUsage) -> impl Iterator<Item = String> {
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
    .map(|n| n.map_or_else(String::new, |n| n.to_string()))
}
