//! What is not to be had on a machine, with what would make it available, as text and as markup.

use crate::chart::escape_markup;
use crate::page::Page;
use crate::style::{Style, Tone};
use crate::text::cells;
use pagewise_model::walk::Unavailable;

/// Labels of this width or more have a line of their own.
const LABEL: usize = 13;

/// One thing.
pub(crate) struct Lacking<'a> {
    pub(crate) label: String,
    /// What the kernel said.
    pub(crate) why: &'a str,
    /// What to do.
    pub(crate) next: &'a str,
}

/// The kinds of pages that are not to be had.
pub(crate) fn pages(all: &[Unavailable]) -> impl Iterator<Item = Lacking<'_>> {
    all.iter().map(|Unavailable { pages, why, next }| Lacking {
        label: pages.label().to_owned(),
        why,
        next,
    })
}

/// All under their heading; nothing where nothing lacks.
pub(crate) fn section(heading: &str, all: &[Lacking<'_>], style: &Style) -> String {
    let mut page = Page::new(style);
    if !all.is_empty() {
        page.heading(heading);
    }
    for lacking in all {
        if cells(&lacking.label) < LABEL {
            page.item(&lacking.label, lacking.why);
        } else {
            page.para(&lacking.label, 2, Tone::Plain);
            page.para(lacking.why, 16, Tone::Plain);
        }
        page.para(&format!("next step: {}", lacking.next), 16, Tone::Faint);
    }
    page.finish()
}

/// The same as markup.
pub(crate) fn html(heading: &str, all: &[Lacking<'_>]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let one = |lacking: &Lacking<'_>| {
        format!(
            "<li><b>{}</b>: {}<br><span class=\"faint\">next step: {}</span></li>\n",
            escape_markup(&lacking.label),
            escape_markup(lacking.why),
            escape_markup(lacking.next)
        )
    };
    format!("<h2>{heading}</h2>\n<ul>\n{}</ul>\n", all.iter().map(one).collect::<String>())
}
