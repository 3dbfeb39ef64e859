//! Claims with the answer of this machine, as text and as markup: a word, the claim, the figures behind it.

use crate::chart::escape_markup;
use crate::page::Page;
use crate::style::{Style, Tone};
use pagewise_model::ladder::{Answer, Claim};

/// An answer as a word, and how it is told.
const fn answer(answer: Answer) -> (&'static str, Tone) {
    match answer {
        Answer::Confirmed => ("confirmed", Tone::Good),
        Answer::Refuted => ("refuted", Tone::Warn),
        Answer::CannotTell => ("cannot tell", Tone::Faint),
    }
}

/// The claims under their heading; nothing where there are none.
pub(crate) fn section(heading: &str, claims: &[Claim], style: &Style) -> String {
    let mut page = Page::new(style);
    if !claims.is_empty() {
        page.heading(heading);
    }
    for claim in claims {
        let (word, tone) = answer(claim.answer);
        page.item_tone(word, &claim.claim, tone);
        page.para(&claim.why, 16, Tone::Faint);
    }
    page.finish()
}

/// The same as markup.
pub(crate) fn html(heading: &str, claims: &[Claim]) -> String {
    if claims.is_empty() {
        return String::new();
    }
    let mut out = format!("<h2>{heading}</h2>\n<table>\n");
    for claim in claims {
        let (word, _) = answer(claim.answer);
        out.push_str(&format!(
            "<tr><td><b class=\"{}\">{word}</b></td><td class=\"text\">{}<br>\
             <span class=\"faint\">{}</span></td></tr>\n",
            word.split(' ').next().unwrap_or(word),
            escape_markup(&claim.claim),
            escape_markup(&claim.why)
        ));
    }
    out + "</table>\n"
}
