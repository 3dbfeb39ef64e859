//! Claims with this machine's answer: a word, the claim, and the figures behind it.

use crate::escape::cells;
use crate::page::ReportDocument;
use crate::style::TextTone;
use pagewise_model::bench::pipe::{BenchClaim, ClaimAnswer};
use pagewise_model::bench::tlb::UnavailablePages;

/// An answer as a word, with its colour.
pub(crate) const fn answer(answer: ClaimAnswer) -> (&'static str, TextTone) {
    match answer {
        ClaimAnswer::Confirmed => ("confirmed", TextTone::Good),
        ClaimAnswer::Refuted => ("refuted", TextTone::Warn),
        ClaimAnswer::CannotTell => ("cannot tell", TextTone::Faint),
    }
}

/// The claims under their heading; empty without claims.
pub(crate) fn section(heading: &str, claims: &[BenchClaim]) -> ReportDocument {
    let mut page = ReportDocument::default();
    if !claims.is_empty() {
        page.heading(heading);
    }
    for claim in claims {
        let (word, tone) = answer(claim.answer);
        page.item_tone(word, &claim.claim, tone);
        page.para(&claim.why, 16, TextTone::Faint);
    }
    page
}

// Advice for a machine, sentence by sentence.

/// The sentences under their heading.
pub(crate) fn advice(sentences: &[String]) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.heading("advice for this machine");
    for sentence in sentences {
        page.bullet(sentence, TextTone::Plain);
    }
    page
}

// What is not available on a machine, how to make it available, and why samples are missing.

/// Labels of at least this width get their own line.
const LABEL: usize = 13;

/// One unavailable thing.
pub(crate) struct MissingCapability<'a> {
    pub(crate) label: String,
    /// The kernel's error.
    pub(crate) why: &'a str,
    pub(crate) next: &'a str,
}

/// The kinds of pages that are not available.
pub(crate) fn pages(all: &[UnavailablePages]) -> impl Iterator<Item = MissingCapability<'_>> {
    all.iter().map(|UnavailablePages { pages, why, next }| MissingCapability {
        label: pages.into_str().to_owned(),
        why,
        next,
    })
}

/// All unavailable things under their heading; empty if there are none.
pub(crate) fn lacking<'a>(
    heading: &str,
    all: impl IntoIterator<Item = MissingCapability<'a>>,
) -> ReportDocument {
    let mut page = ReportDocument::default();
    for (at, lacking) in all.into_iter().enumerate() {
        if at == 0 {
            page.heading(heading);
        }
        if cells(&lacking.label) < LABEL {
            page.item(&lacking.label, lacking.why);
        } else {
            page.para(&lacking.label, 2, TextTone::Plain);
            page.para(lacking.why, 16, TextTone::Plain);
        }
        page.para(&format!("next step: {}", lacking.next), 16, TextTone::Faint);
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
