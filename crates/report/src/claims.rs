//! Claims with this machine's answer: a word, the claim, and the figures behind it.

use crate::page::Document;
use crate::style::Tone;
use crate::text::cells;
use pagewise_model::bench::pipe::{Answer, Claim};
use pagewise_model::bench::tlb::Unavailable;

/// An answer as a word, with its colour.
pub(crate) const fn answer(answer: Answer) -> (&'static str, Tone) {
    match answer {
        Answer::Confirmed => ("confirmed", Tone::Good),
        Answer::Refuted => ("refuted", Tone::Warn),
        Answer::CannotTell => ("cannot tell", Tone::Faint),
    }
}

/// The claims under their heading; empty without claims.
pub(crate) fn section(heading: &str, claims: &[Claim]) -> Document {
    let mut page = Document::default();
    if !claims.is_empty() {
        page.heading(heading);
    }
    for claim in claims {
        let (word, tone) = answer(claim.answer);
        page.item_tone(word, &claim.claim, tone);
        page.para(&claim.why, 16, Tone::Faint);
    }
    page
}

// Advice for a machine, sentence by sentence.

/// The sentences under their heading.
pub(crate) fn advice(sentences: &[String]) -> Document {
    let mut page = Document::default();
    page.heading("advice for this machine");
    for sentence in sentences {
        page.bullet(sentence, Tone::Plain);
    }
    page
}

// What is not available on a machine, how to make it available, and why samples are missing.

/// Labels of at least this width get their own line.
const LABEL: usize = 13;

/// One unavailable thing.
pub(crate) struct Lacking<'a> {
    pub(crate) label: String,
    /// The kernel's error.
    pub(crate) why: &'a str,
    pub(crate) next: &'a str,
}

/// The kinds of pages that are not available.
pub(crate) fn pages(all: &[Unavailable]) -> impl Iterator<Item = Lacking<'_>> {
    all.iter().map(|Unavailable { pages, why, next }| Lacking {
        label: pages.into_str().to_owned(),
        why,
        next,
    })
}

/// All unavailable things under their heading; empty if there are none.
pub(crate) fn lacking<'a>(heading: &str, all: impl IntoIterator<Item = Lacking<'a>>) -> Document {
    let mut page = Document::default();
    for (at, lacking) in all.into_iter().enumerate() {
        if at == 0 {
            page.heading(heading);
        }
        if cells(&lacking.label) < LABEL {
            page.item(&lacking.label, lacking.why);
        } else {
            page.para(&lacking.label, 2, Tone::Plain);
            page.para(lacking.why, 16, Tone::Plain);
        }
        page.para(&format!("next step: {}", lacking.next), 16, Tone::Faint);
    }
    page
}

/// Each reason once, with its count.
pub(crate) fn reasons<'a>(all: impl Iterator<Item = &'a str>) -> Vec<(&'a str, u64)> {
    let mut reasons: Vec<(&str, u64)> = Vec::new();
    for why in all {
        match reasons.iter_mut().find(|(reason, _)| *reason == why) {
            Some((_, count)) => *count += 1,
            None => reasons.push((why, 1)),
        }
    }
    reasons
}
