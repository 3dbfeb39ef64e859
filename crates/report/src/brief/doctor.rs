//! A checkup on one screen: what disturbs measurements, what is missing, and what would make it available.

use super::{Brief, BriefKind, rest_line};
use crate::doctor::key_lines;
use crate::number::counted;
use crate::paragraph::hang;
use crate::style::{TerminalStyle, TextTone};
use pagewise_model::body::RunBody;
use pagewise_model::capability::{Capability, CapabilityAnswer, DoctorReport};
use pagewise_model::run::SavedRun;

pub(super) const KIND: BriefKind =
    BriefKind { parts, next: |_| None, notes: |_| Vec::new(), most_rows: 12 };

fn parts(report: &mut Brief<'_>, run: &SavedRun, rows: usize) {
    let Some(RunBody::Checkup(checkup)) = &run.body else { return };
    let inner = report.inner();
    report.sentence("here", &checkup.machine.line());
    let keys: Vec<String> = checkup.keys.iter().flat_map(key_lines).collect();
    report.add("keys", &lines(keys, &inner, rows));
    report.add("noise", &spoilers(checkup, &inner, rows));
    let lacks = |one: &&Capability| one.answer != CapabilityAnswer::Yes;
    let lacking: Vec<&Capability> = checkup.capabilities.iter().filter(lacks).collect();
    report.add("lacks", &missing(&lacking, &inner, rows));
    let (works, facts) = (checkup.capabilities.len() - lacking.len(), checkup.traits.len());
    let facts = counted(facts as u64, "fact", "facts");
    let text = format!("{works} that work, {facts} of the machine: pagewise doctor --verbose");
    report.sentence("more", &text);
}

/// What disturbs measurements.
fn spoilers(checkup: &DoctorReport, style: &TerminalStyle, rows: usize) -> String {
    lines(checkup.spoilers.iter().map(|one| one.what.clone()).collect(), style, rows)
}

/// What does not work here, with what would make it available, or else the reason.
fn missing(lacking: &[&Capability], style: &TerminalStyle, rows: usize) -> String {
    let text = |one: &&Capability| {
        let why = match &one.answer {
            CapabilityAnswer::Yes => "",
            CapabilityAnswer::No(why) | CapabilityAnswer::Unknown(why) => why,
        };
        format!("{}: {}", one.name, one.unlock.as_deref().unwrap_or(why))
    };
    lines(lacking.iter().map(text).collect(), style, rows)
}

/// The first `most` lines, and a count of the rest.
fn lines(mut all: Vec<String>, style: &TerminalStyle, most: usize) -> String {
    let more = all.split_off(all.len().min(most));
    let shown = all.iter().map(|text| hang(style, "", 0, text, TextTone::Plain));
    shown.collect::<String>() + &rest_line(more, style)
}
