//! Claims with the answer of this machine: a word, the claim, the figures behind it.

use crate::page::Document;
use crate::style::Tone;
use pagewise_model::bench::pipe::{Answer, Claim};

/// An answer as a word, with its colour.
const fn answer(answer: Answer) -> (&'static str, Tone) {
    match answer {
        Answer::Confirmed => ("confirmed", Tone::Good),
        Answer::Refuted => ("refuted", Tone::Warn),
        Answer::CannotTell => ("cannot tell", Tone::Faint),
    }
}

/// The claims under their heading; nothing where there are none.
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
