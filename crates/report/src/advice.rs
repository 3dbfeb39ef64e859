//! What a machine should do, sentence by sentence.

use crate::page::Document;
use crate::style::Tone;

/// The sentences under their heading.
pub(crate) fn section(sentences: &[String]) -> Document {
    let mut page = Document::default();
    page.heading("advice for this machine");
    for sentence in sentences {
        page.bullet(sentence, Tone::Plain);
    }
    page
}
