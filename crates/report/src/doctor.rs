//! What this machine, kernel and account allow: disturbances of measurements first, then what works and what
//! does not by group, then plain facts.

use crate::number::counted;
use crate::page::ReportDocument;
use crate::style::TextTone;
use pagewise_model::capability::{
    Capability, CapabilityAnswer, DoctorReport, FtokKeys, KeyedSegment,
};

/// A count of the answers in one sentence.
pub(crate) fn summary(checkup: &DoctorReport) -> String {
    let count = |wanted: fn(&CapabilityAnswer) -> bool| {
        checkup.capabilities.iter().filter(|c| wanted(&c.answer)).count()
    };
    let mut text = format!(
        "{} of {} work here",
        count(|a| *a == CapabilityAnswer::Yes),
        counted(checkup.capabilities.len() as u64, "capability", "capabilities")
    );
    let unknown = count(|a| matches!(a, CapabilityAnswer::Unknown(_)));
    if unknown > 0 {
        text.push_str(&format!(", {unknown} unknown"));
    }
    let spoilers = checkup.spoilers.len() as u64;
    text.push_str("; ");
    match spoilers {
        0 => text.push_str("nothing known disturbs measurements"),
        n => text
            .push_str(&format!("{} measurements", counted(n, "thing disturbs", "things disturb"))),
    }
    text
}

/// The checkup without its headline.
#[must_use]
pub fn doctor_section(checkup: &DoctorReport) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.append(crate::look::machine_line(&checkup.machine));
    if !checkup.spoilers.is_empty() {
        page.blank();
        page.heading("what disturbs measurements here");
    }
    for spoiler in &checkup.spoilers {
        page.bullet(&spoiler.what, TextTone::Warn);
        page.para(&spoiler.remedy, 4, TextTone::Plain);
    }
    if !checkup.keys.is_empty() {
        page.blank();
        page.heading("keys of shared memory (ftok)");
    }
    for line in checkup.keys.iter().flat_map(key_lines) {
        page.bullet(&line, TextTone::Plain);
    }
    for group in groups(checkup.capabilities.iter().map(|c| c.group.as_str())) {
        page.blank();
        page.heading(group);
        for capability in checkup.capabilities.iter().filter(|c| c.group == group) {
            capability_lines(capability, &mut page);
        }
    }
    for group in groups(checkup.traits.iter().map(|t| t.group.as_str())) {
        page.blank();
        page.heading(group);
        for fact in checkup.traits.iter().filter(|t| t.group == group) {
            page.hanging(&format!("{}: {}", fact.name, fact.value), 2);
        }
    }
    page
}

/// The keys of a file, and who has them.
pub(crate) fn key_lines(keys: &FtokKeys) -> Vec<String> {
    let FtokKeys { path, low_bits, same_as, segments } = keys;
    let mut lines: Vec<String> = same_as
        .iter()
        .map(|other| format!("{path} and {other} give the same keys: 0x??{low_bits:06x}"))
        .collect();
    let taken = |segment: &KeyedSegment| {
        let KeyedSegment { key, id, size_bytes, uid, creator_pid, .. } = segment;
        let creator = segment.creator.as_deref().unwrap_or("a process that has ended");
        let whose = if segment.is_of_other { ", who does not own the file" } else { "" };
        format!(
            "{path}: key {key:#010x} has segment {id} ({size_bytes}) of uid {uid}{whose}, made by {creator} ({creator_pid})"
        )
    };
    lines.extend(segments.iter().map(taken));
    if segments.is_empty() {
        lines.push(format!("{path}: no segment has a key 0x??{low_bits:06x}"));
    }
    lines
}

/// The distinct groups, in order of appearance.
fn groups<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for group in all {
        if !seen.contains(&group) {
            seen.push(group);
        }
    }
    seen
}

fn capability_lines(capability: &Capability, page: &mut ReportDocument) {
    let (word, reason, tone) = match &capability.answer {
        CapabilityAnswer::Yes => ("yes", None, TextTone::Plain),
        CapabilityAnswer::No(why) => ("no", Some(why), TextTone::Bad),
        CapabilityAnswer::Unknown(error) => ("unknown", Some(error), TextTone::Warn),
    };
    page.item_tone(word, &format!("{}: {}", capability.name, capability.gives), tone);
    if let Some(reason) = reason {
        page.para(&format!("because: {reason}"), 16, TextTone::Plain);
    }
    if let Some(unlock) =
        capability.unlock.as_ref().filter(|_| capability.answer != CapabilityAnswer::Yes)
    {
        page.para(&format!("to unlock: {unlock}"), 16, TextTone::Plain);
    }
}
