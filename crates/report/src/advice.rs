//! What a machine should do, sentence by sentence, as text and as markup.

use crate::chart::escape_markup;
use crate::page::Page;
use crate::style::{Style, Tone};

/// The sentences under their heading.
pub(crate) fn section(sentences: &[String], style: &Style) -> String {
    let mut page = Page::new(style);
    page.heading("what this machine should do");
    for sentence in sentences {
        page.bullet(sentence, Tone::Plain);
    }
    page.finish()
}

/// The same as markup.
pub(crate) fn html(sentences: &[String]) -> String {
    let sentences = sentences.iter().map(|s| format!("<li>{}</li>\n", escape_markup(s)));
    format!("<h2>What this machine should do</h2>\n<ul>\n{}</ul>\n", sentences.collect::<String>())
}
