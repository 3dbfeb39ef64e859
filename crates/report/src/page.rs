//! A page of lines under construction: the only place where text becomes lines.
//!
//! Whatever comes in is escaped here, wrapped to the width and then coloured; the one exception
//! is [`Page::exact`], for lines that are meant to be copied.

use crate::style::{Style, Tone};
use crate::text::{cells, escape, escape_for, is_hostile, shorten, wrap};

/// Width of the label column of [`Page::item`].
const LABEL: usize = 14;

/// Lines so far.
pub(crate) struct Page<'a> {
    pub(crate) style: &'a Style,
    out: String,
}

impl<'a> Page<'a> {
    pub(crate) fn new(style: &'a Style) -> Self {
        Self { style, out: String::new() }
    }

    pub(crate) fn finish(self) -> String {
        self.out
    }

    /// Text that this crate has laid out already.
    pub(crate) fn append(&mut self, laid_out: &str) {
        self.out.push_str(laid_out);
    }

    /// Another section, set apart by an empty line; nothing when it is empty.
    pub(crate) fn section(&mut self, laid_out: &str) {
        if !laid_out.is_empty() {
            self.blank();
            self.out.push_str(laid_out);
        }
    }

    pub(crate) fn blank(&mut self) {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
    }

    pub(crate) fn heading(&mut self, text: &str) {
        self.para(text, 0, Tone::Strong);
    }

    /// A paragraph, all of it indented.
    pub(crate) fn para(&mut self, text: &str, indent: usize, tone: Tone) {
        self.hang("", indent, text, tone);
    }

    /// A paragraph whose later lines stand further in than its first.
    pub(crate) fn hanging(&mut self, text: &str, indent: usize) {
        self.hang(&" ".repeat(indent), indent + 4, text, Tone::Plain);
    }

    /// A list entry.
    pub(crate) fn bullet(&mut self, text: &str, tone: Tone) {
        self.hang("  - ", 4, text, tone);
    }

    /// A label with its text in a column of its own.
    pub(crate) fn item(&mut self, label: &str, text: &str) {
        self.item_tone(label, text, Tone::Plain);
    }

    /// The same with a colour.
    pub(crate) fn item_tone(&mut self, label: &str, text: &str, tone: Tone) {
        let label = shorten(&escape_for(label, self.style.unicode), LABEL - 2, self.style.unicode);
        let pad = " ".repeat((LABEL).saturating_sub(cells(&label)));
        self.hang(&format!("  {label}{pad}"), LABEL + 2, text, tone);
    }

    /// One line, cut in the middle where it is too long: for command lines and paths.
    pub(crate) fn single(&mut self, text: &str, indent: usize, tone: Tone) {
        let escaped = escape_for(text, self.style.unicode);
        let width = self.style.columns().saturating_sub(indent);
        self.push_line(&" ".repeat(indent), &shorten(&escaped, width, self.style.unicode), tone);
    }

    /// A line to be copied: never wrapped nor cut. What [`crate::quote`] makes holds nothing
    /// hostile but newlines inside quotes, which stay; anything else is spelled out, with a warning.
    pub(crate) fn exact(&mut self, text: &str) {
        let hostile = text.chars().any(|c| c != '\n' && is_hostile(c));
        for (i, row) in text.split('\n').enumerate() {
            // The second row of a quoted newline belongs to the word: it must not be indented.
            let indent = if i == 0 { "    " } else { "" };
            let row = if hostile { escape(row) } else { row.to_owned() };
            self.push_line(indent, &row, Tone::Good);
        }
        if hostile {
            let text = "the line above holds control characters, spelled out here: do not copy it";
            self.para(text, 4, Tone::Warn);
        }
    }

    fn hang(&mut self, first: &str, indent: usize, text: &str, tone: Tone) {
        let escaped = escape_for(text, self.style.unicode);
        if escaped.is_empty() && first.is_empty() {
            return;
        }
        let rest = " ".repeat(indent);
        for (i, line) in wrap(&escaped, self.style.columns() - indent).iter().enumerate() {
            let lead = if i == 0 && !first.is_empty() { first } else { rest.as_str() };
            self.push_line(lead, line, tone);
        }
    }

    fn push_line(&mut self, lead: &str, text: &str, tone: Tone) {
        if text.is_empty() {
            self.out.push_str(lead.trim_end());
        } else {
            self.out.push_str(lead);
            self.out.push_str(&self.style.paint(text, tone));
        }
        self.out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NARROW: Style = Style { colour: false, width: 40, unicode: true };

    #[test]
    fn items_hang_under_their_text() {
        let mut page = Page::new(&NARROW);
        page.item("budget", "sixty seconds for all of the experiments");
        assert_eq!(
            page.finish(),
            "  budget        sixty seconds for all of\n                the experiments\n"
        );
    }

    #[test]
    fn exact_lines_are_never_cut_nor_wrapped() {
        let mut page = Page::new(&NARROW);
        let line = "pagewise run --with heap-huge -- ./a-program with 'many words' --and=options";
        page.exact(line);
        assert_eq!(page.finish(), format!("    {line}\n"));
        let mut page = Page::new(&NARROW);
        page.exact("run 'a\n'");
        assert_eq!(page.finish(), "    run 'a\n'\n");
    }

    #[test]
    fn exact_lines_that_would_deceive_are_spelled_out() {
        let mut page = Page::new(&NARROW);
        page.exact("run \x1b[2J");
        let text = page.finish();
        assert!(text.starts_with("    run \\x1b[2J\n"), "{text}");
        assert!(text.contains("characters, spelled out"), "{text}");
    }

    #[test]
    fn sections_are_set_apart_once() {
        let mut page = Page::new(&NARROW);
        page.section("a\n");
        page.section("");
        page.section("b\n");
        assert_eq!(page.finish(), "a\n\nb\n");
    }
}
