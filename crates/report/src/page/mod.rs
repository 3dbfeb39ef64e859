//! A document under construction: the only place where text becomes lines or markup.
//!
//! A report is built once, as blocks, and rendered as terminal text ([`ReportDocument::text`]) or as the body of a
//! page ([`ReportDocument::html`]). Rendering escapes all content, wraps it to the width and then colours it. The
//! only exception is [`ReportDocument::exact`], for lines to copy.

mod block;

use crate::chart::SvgPicture;
use crate::escape::{cells, escape, escape_for, is_hostile, shorten};
use crate::markup::{escape_markup, prose_markup, unescape_markup};
use crate::number::{count, date};
use crate::paragraph::{Paragraph, hang, line};
use crate::style::{TerminalStyle, TextTone};
use crate::table::ReportTable;
use block::{DocumentBlock, FittedPart};
use pagewise_model::run::SavedRun;
use std::rc::Rc;

/// Width of the label column of [`ReportDocument::item`].
const LABEL: usize = 14;

/// A report, built once and rendered as terminal text or as markup.
#[derive(Debug, Clone, Default)]
pub struct ReportDocument {
    blocks: Vec<DocumentBlock>,
    /// Size of the parts in memory.
    bytes: usize,
    /// Number of parts that did not fit.
    left_out: usize,
}

/// Largest document, some hundred thousand lines. It limits the memory of a page, whatever a saved run holds.
/// Further parts are only counted.
pub(crate) const MOST_BYTES: usize = 8 << 20;

impl From<&str> for ReportDocument {
    fn from(laid_out: &str) -> Self {
        let mut document = Self::default();
        if !laid_out.is_empty() {
            document.push(DocumentBlock::Transcript(laid_out.to_owned()));
        }
        document
    }
}

impl From<&String> for ReportDocument {
    fn from(laid_out: &String) -> Self {
        Self::from(laid_out.as_str())
    }
}

impl From<String> for ReportDocument {
    fn from(laid_out: String) -> Self {
        Self::from(laid_out.as_str())
    }
}

impl From<ReportTable> for ReportDocument {
    fn from(table: ReportTable) -> Self {
        let mut document = Self::default();
        document.table(table);
        document
    }
}

impl ReportDocument {
    /// Adds another document, or lines that this crate has laid out already.
    pub(crate) fn append(&mut self, other: impl Into<Self>) {
        let other = other.into();
        self.left_out += other.left_out;
        other.blocks.into_iter().for_each(|block| self.push(block));
    }

    fn push(&mut self, block: DocumentBlock) {
        if self.bytes >= MOST_BYTES {
            self.left_out += 1;
            return;
        }
        self.bytes += block.bytes();
        self.blocks.push(block);
    }

    /// The line about the parts that are left out; `None` if there are none.
    fn rest(&self) -> Option<DocumentBlock> {
        let text = format!(
            "{} more lines and parts are left out: pagewise show --json RUN has all of them",
            count(self.left_out as u64)
        );
        (self.left_out > 0).then(|| DocumentBlock::Para(Paragraph::new(&text, 0, TextTone::Plain)))
    }

    /// Adds another section after an empty line; nothing if it is empty.
    pub(crate) fn section(&mut self, other: impl Into<Self>) {
        let other = other.into();
        if other.has_text() {
            self.blank();
        }
        self.append(other);
    }

    /// Whether a terminal shows any of it.
    fn has_text(&self) -> bool {
        self.blocks.iter().any(|block| match block {
            DocumentBlock::Blank | DocumentBlock::Figure(_) | DocumentBlock::Details { .. } => {
                false
            }
            DocumentBlock::Para(paragraph) => !paragraph.text.is_empty(),
            DocumentBlock::Heading(text) => !text.is_empty(),
            DocumentBlock::Table(table) => !table.is_empty(),
            _ => true,
        })
    }

    pub(crate) fn blank(&mut self) {
        if self.has_text() {
            self.push(DocumentBlock::Blank);
        }
    }

    pub(crate) fn heading(&mut self, text: &str) {
        self.push(DocumentBlock::Heading(text.to_owned()));
    }

    /// Adds an indented paragraph.
    pub(crate) fn para(&mut self, text: &str, indent: usize, tone: TextTone) {
        self.push(DocumentBlock::Para(Paragraph::new(text, indent, tone)));
    }

    /// Adds a paragraph with a hanging indent.
    pub(crate) fn hanging(&mut self, text: &str, indent: usize) {
        let rest = indent + 4;
        self.push(DocumentBlock::Para(Paragraph {
            rest,
            ..Paragraph::new(text, indent, TextTone::Plain)
        }));
    }

    /// A list entry.
    pub(crate) fn bullet(&mut self, text: &str, tone: TextTone) {
        self.push(DocumentBlock::Bullet { text: text.to_owned(), tone });
    }

    /// Adds a label and text in a second column.
    pub(crate) fn item(&mut self, label: &str, text: &str) {
        self.item_tone(label, text, TextTone::Plain);
    }

    /// As `item`, with a colour.
    pub(crate) fn item_tone(&mut self, label: &str, text: &str, tone: TextTone) {
        self.push(DocumentBlock::Item { label: label.to_owned(), text: text.to_owned(), tone });
    }

    /// Adds one line, cut in the middle if it is too long: for command lines and paths.
    pub(crate) fn single(&mut self, text: &str, indent: usize, tone: TextTone) {
        self.push(DocumentBlock::Single { text: text.to_owned(), indent, tone });
    }

    /// Adds a line to copy: never wrapped or cut. The output of [`crate::quote`] has no hostile characters
    /// except newlines inside quotes, which stay. Any others are spelled out, with a warning.
    pub(crate) fn exact(&mut self, text: &str) {
        self.push(DocumentBlock::Exact(text.to_owned()));
    }

    pub(crate) fn table(&mut self, table: ReportTable) {
        self.left_out += table.left_out();
        self.push(DocumentBlock::Table(table));
    }

    /// Adds the output of `make` for the width of the terminal; a page uses the largest width.
    pub(crate) fn fitted(&mut self, make: impl Fn(&TerminalStyle) -> Self + 'static) {
        self.push(DocumentBlock::Fitted(FittedPart(Rc::new(make))));
    }

    /// Adds a drawing; shown only on pages.
    pub(crate) fn figure(&mut self, picture: SvgPicture) {
        self.push(DocumentBlock::Figure(picture));
    }

    /// Adds details under a title that opens them; shown only on pages.
    pub(crate) fn details(&mut self, title: &str, inside: Self) {
        self.left_out += inside.left_out;
        self.push(DocumentBlock::Details { title: title.to_owned(), inside });
    }

    /// The drawings in order, with their titles.
    pub(crate) fn drawings(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for block in &self.blocks {
            match block {
                DocumentBlock::Figure(SvgPicture { wide, .. }) => {
                    let title = wide
                        .split_once("<title>")
                        .and_then(|(_, rest)| rest.split_once("</title>"));
                    let title = title.map_or("", |(title, _)| title);
                    all.push((unescape_markup(title), wide.clone()));
                }
                DocumentBlock::Details { inside, .. } => all.extend(inside.drawings()),
                DocumentBlock::Fitted(FittedPart(make)) => {
                    all.extend(make(&TerminalStyle::default()).drawings())
                }
                _ => {}
            }
        }
        all
    }

    /// The document as lines for a terminal.
    #[must_use]
    pub fn text(&self, style: &TerminalStyle) -> String {
        let mut lines = TerminalText { style, out: String::new() };
        self.blocks.iter().chain(&self.rest()).for_each(|block| lines.block(block));
        lines.out
    }

    /// The document as markup: the body of a page.
    pub(crate) fn html(&self) -> String {
        let mut out = String::new();
        let mut open = BlockWrapper::Nothing;
        for block in self.blocks.iter().chain(&self.rest()) {
            let around = BlockWrapper::block(block);
            if around != open {
                out.push_str(open.end());
                out.push_str(around.begin());
                open = around;
            }
            out.push_str(&markup(block));
        }
        out.push_str(open.end());
        out
    }
}

/// The element around adjacent blocks of the same kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockWrapper {
    Nothing,
    List,
    /// Lines to copy, with one button for all.
    Exact,
}

impl BlockWrapper {
    const fn block(block: &DocumentBlock) -> Self {
        match block {
            DocumentBlock::Bullet { .. } => Self::List,
            DocumentBlock::Exact(_) => Self::Exact,
            _ => Self::Nothing,
        }
    }
    const fn begin(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::List => "<ul>\n",
            Self::Exact => "<pre class=\"exact\">",
        }
    }
    const fn end(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::List => "</ul>\n",
            Self::Exact => "</pre>\n",
        }
    }
}

fn markup(block: &DocumentBlock) -> String {
    let class = |tone: &TextTone| tone.into_str();
    match block {
        DocumentBlock::Blank => String::new(),
        DocumentBlock::Heading(text) => format!("<h2>{}</h2>\n", prose_markup(text)),
        DocumentBlock::Para(paragraph) => paragraph.html(),
        DocumentBlock::Bullet { text, tone } => {
            format!("<li class=\"{}\">{}</li>\n", class(tone), prose_markup(text))
        }
        DocumentBlock::Item { label, text, tone } => format!(
            "<p><b class=\"{}\">{}</b>: {}</p>\n",
            class(tone),
            prose_markup(label),
            prose_markup(text)
        ),
        DocumentBlock::Single { text, tone, .. } => {
            format!("<p class=\"{}\"><code>{}</code></p>\n", class(tone), escape_markup(text))
        }
        DocumentBlock::Exact(text) => markup_lines(text) + "\n",
        DocumentBlock::Transcript(text) => format!("<pre>{}</pre>\n", markup_lines(text)),
        DocumentBlock::Table(table) => table.html(),
        DocumentBlock::Fitted(FittedPart(make)) => make(&TerminalStyle::default()).html(),
        DocumentBlock::Figure(SvgPicture { wide, narrow }) => {
            format!("<figure tabindex=\"0\">{wide}{narrow}</figure>\n")
        }
        DocumentBlock::Details { title, inside } => format!(
            "<details><summary>{}</summary>\n{}</details>\n",
            escape_markup(title),
            inside.html()
        ),
    }
}

/// Escapes each line; keeps line breaks.
fn markup_lines(text: &str) -> String {
    text.trim_end().split('\n').map(escape_markup).collect::<Vec<_>>().join("\n")
}

/// The lines of terminal text so far.
struct TerminalText<'a> {
    style: &'a TerminalStyle,
    out: String,
}

impl TerminalText<'_> {
    fn block(&mut self, block: &DocumentBlock) {
        match block {
            DocumentBlock::Blank => self.out.push('\n'),
            DocumentBlock::Heading(text) => self.hang("", 0, text, TextTone::Strong),
            DocumentBlock::Para(paragraph) => {
                self.out.push_str(&paragraph.lines(self.style));
            }
            DocumentBlock::Bullet { text, tone } => self.hang("  - ", 4, text, *tone),
            DocumentBlock::Item { label, text, tone } => {
                let unicode = self.style.unicode;
                let label = shorten(&escape_for(label, unicode), LABEL - 2, unicode);
                let pad = " ".repeat(LABEL.saturating_sub(cells(&label)));
                self.hang(&format!("  {label}{pad}"), LABEL + 2, text, *tone);
            }
            DocumentBlock::Single { text, indent, tone } => {
                let escaped = escape_for(text, self.style.unicode);
                let width = self.style.columns().saturating_sub(*indent);
                let text = shorten(&escaped, width, self.style.unicode);
                self.push(&" ".repeat(*indent), &text, *tone);
            }
            DocumentBlock::Exact(text) => self.exact(text),
            DocumentBlock::Table(table) => self.out.push_str(&table.clone().render(self.style)),
            DocumentBlock::Transcript(text) => self.out.push_str(text),
            DocumentBlock::Fitted(FittedPart(make)) => {
                self.out.push_str(&make(self.style).text(self.style))
            }
            DocumentBlock::Figure(_) | DocumentBlock::Details { .. } => {}
        }
    }

    fn exact(&mut self, text: &str) {
        let hostile = text.chars().any(|c| c != '\n' && is_hostile(c));
        for (i, row) in text.split('\n').enumerate() {
            // The part after a quoted newline belongs to the same word: it must not be indented.
            let indent = if i == 0 { "    " } else { "" };
            let row = if hostile { escape(row) } else { row.to_owned() };
            self.push(indent, &row, TextTone::Good);
        }
        if hostile {
            let text =
                "the line above contains control characters, shown as escapes: do not copy it";
            self.hang("", 4, text, TextTone::Warn);
        }
    }

    fn hang(&mut self, first: &str, indent: usize, text: &str, tone: TextTone) {
        self.out.push_str(&hang(self.style, first, indent, text, tone));
    }

    fn push(&mut self, lead: &str, text: &str, tone: TextTone) {
        self.out.push_str(&line(self.style, lead, text, tone));
    }
}

// The frame of an HTML page: what stands above and below the facts of a run.
//
// A page needs no external resources: style and pictures are embedded, and a content policy forbids
// everything else. The policy allows one script by its hash, which adds a button to lines for copying. The
// page follows the reader's light or dark setting.

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// SHA-256 of a newline and the script, in base64, for the content policy.
const SCRIPT_HASH: &str = "Xq58JC/RFkfzpLamf2qECvBE71qT8D3zFNZqin9x7b4=";

/// The page up to its title and the machine of `run`.
pub(crate) fn head(title: &str, run: &SavedRun) -> String {
    let (title, shown) = (escape_markup(title), prose_markup(title));
    let machine = run.machine.as_ref().map_or_else(String::new, |m| escape_markup(&m.line()));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{SCRIPT_HASH}'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>{shown}</h1>\n<p class=\"faint\">{machine}</p>\n"
    )
}

/// The end of the page.
pub(crate) fn foot(run: &SavedRun) -> String {
    format!(
        "<p class=\"faint\">pagewise {}, {} UTC, took {}</p>\n</main>\n<script>\n{SCRIPT}</script>\n\
         </body>\n</html>\n",
        escape_markup(&run.pagewise),
        date(run.started_unix_ns),
        run.took_ns
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use sha2::{Digest, Sha256};

    const NARROW: TerminalStyle = TerminalStyle { colour: false, width: 40, unicode: true };

    #[test]
    fn items_hang_under_their_text() {
        let mut page = ReportDocument::default();
        page.item("budget", "sixty seconds for all of the experiments");
        assert_eq!(
            page.text(&NARROW),
            "  budget        sixty seconds for all of\n                the experiments\n"
        );
    }

    #[test]
    fn exact_lines_are_never_cut_nor_wrapped() {
        let mut page = ReportDocument::default();
        let line = "pagewise run --with heap-huge -- ./a-program with 'many words' --and=options";
        page.exact(line);
        assert_eq!(page.text(&NARROW), format!("    {line}\n"));
        let mut page = ReportDocument::default();
        page.exact("run 'a\n'");
        assert_eq!(page.text(&NARROW), "    run 'a\n'\n");
    }

    #[test]
    fn exact_lines_that_would_deceive_are_spelled_out() {
        let mut page = ReportDocument::default();
        page.exact("run \x1b[2J");
        let text = page.text(&NARROW);
        assert!(text.starts_with("    run \\x1b[2J\n"), "{text}");
        assert!(text.contains("characters, shown as"), "{text}");
    }

    #[test]
    fn lines_to_be_copied_stand_together_and_the_script_is_the_one_allowed() {
        let mut page = ReportDocument::default();
        page.exact("[Service]");
        page.exact("A=<b>");
        page.para("and", 0, TextTone::Plain);
        let html = page.html();
        assert!(
            html.starts_with("<pre class=\"exact\">[Service]\nA=&lt;b&gt;\n</pre>\n"),
            "{html}"
        );
        let digest = Sha256::digest(format!("\n{SCRIPT}"));
        let hash = base64::engine::general_purpose::STANDARD.encode(digest);
        assert_eq!(hash, SCRIPT_HASH, "the hash of page.js is another");
    }

    #[test]
    fn a_page_is_bounded_and_says_what_it_lacks() {
        let (mut page, line) = (ReportDocument::default(), "x".repeat(60));
        let mut table = ReportTable::new(&[("", crate::table::ColumnAlignment::Left)]);
        for _ in 0..200_000 {
            table.row(vec![line.as_str().into()]);
        }
        page.table(table);
        for _ in 0..200_000 {
            page.para(&line, 2, TextTone::Plain);
        }
        for shown in [page.text(&NARROW), page.html()] {
            assert!(shown.len() < 2 * MOST_BYTES, "{}", shown.len());
            let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.contains("more lines and parts are left out: pagewise show --json RUN"));
        }
    }

    #[test]
    fn sections_are_set_apart_once() {
        let mut page = ReportDocument::default();
        page.section("a\n");
        page.section("");
        page.section("b\n");
        assert_eq!(page.text(&NARROW), "a\n\nb\n");
    }
}
