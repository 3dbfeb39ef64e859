//! A paragraph: wrapped to the width of a terminal, or one element of a page.

use crate::escape::{escape_for, wrap};
use crate::markup::prose_markup;
use crate::style::{TerminalStyle, TextTone};

/// Text with the indentation of its first line and of the others.
#[derive(Debug, Clone)]
pub(crate) struct Paragraph {
    pub(crate) text: String,
    pub(crate) indent: usize,
    pub(crate) rest: usize,
    pub(crate) tone: TextTone,
}

impl Paragraph {
    /// A paragraph, all of it indented.
    pub(crate) fn new(text: impl Into<String>, indent: usize, tone: TextTone) -> Self {
        Self { text: text.into(), indent, rest: indent, tone }
    }

    /// Its lines for a terminal.
    pub(crate) fn lines(&self, style: &TerminalStyle) -> String {
        let first = if self.indent == self.rest { String::new() } else { " ".repeat(self.indent) };
        hang(style, &first, self.rest, &self.text, self.tone)
    }

    /// Its HTML element; empty without text.
    pub(crate) fn html(&self) -> String {
        if self.text.is_empty() {
            return String::new();
        }
        let far = if self.indent > 4 { " far" } else { "" };
        format!("<p class=\"{}{far}\">{}</p>\n", self.tone.into_str(), prose_markup(&self.text))
    }
}

/// Lines of `text`. The first follows `first`; the others are indented, as is the first if `first` is empty.
pub(crate) fn hang(
    style: &TerminalStyle,
    first: &str,
    indent: usize,
    text: &str,
    tone: TextTone,
) -> String {
    let escaped = escape_for(text, style.unicode);
    if escaped.is_empty() && first.is_empty() {
        return String::new();
    }
    let rest = " ".repeat(indent);
    let lines = wrap(&escaped, style.columns() - indent);
    let line = |(at, text): (usize, &String)| {
        let lead = if at == 0 && !first.is_empty() { first } else { rest.as_str() };
        line(style, lead, text, tone)
    };
    lines.iter().enumerate().map(line).collect()
}

/// One line, coloured after its indentation.
pub(crate) fn line(style: &TerminalStyle, lead: &str, text: &str, tone: TextTone) -> String {
    match text {
        "" => format!("{}\n", lead.trim_end()),
        text => format!("{lead}{}\n", style.paint(text, tone)),
    }
}
