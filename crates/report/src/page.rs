//! A document under construction: the only place where text becomes lines or markup.
//!
//! A report is built once, as blocks, and rendered as terminal text ([`Document::text`]) or as the body of a
//! page ([`Document::html`]). Rendering escapes all content, wraps it to the width and then colours it. The
//! only exception is [`Document::exact`], for lines to copy.

mod block;

use crate::chart::{Picture, escape_markup, prose_markup, unescape_markup};
use crate::number::{count, date};
use crate::paragraph::{Paragraph, hang, line};
use crate::style::{Style, Tone};
use crate::table::Table;
use crate::text::{cells, escape, escape_for, is_hostile, shorten};
use block::{Block, Fitted};
use pagewise_model::run::Run;
use std::rc::Rc;

/// Width of the label column of [`Document::item`].
const LABEL: usize = 14;

/// A report, built once and rendered as terminal text or as markup.
#[derive(Debug, Clone, Default)]
pub struct Document {
    blocks: Vec<Block>,
    /// Size of the parts in memory.
    bytes: usize,
    /// Number of parts that did not fit.
    left_out: usize,
}

/// Largest document, some hundred thousand lines. It limits the memory of a page, whatever a saved run holds.
/// Further parts are only counted.
pub(crate) const MOST_BYTES: usize = 8 << 20;

impl From<&str> for Document {
    fn from(laid_out: &str) -> Self {
        let mut document = Self::default();
        if !laid_out.is_empty() {
            document.push(Block::Transcript(laid_out.to_owned()));
        }
        document
    }
}

impl From<&String> for Document {
    fn from(laid_out: &String) -> Self {
        Self::from(laid_out.as_str())
    }
}

impl From<String> for Document {
    fn from(laid_out: String) -> Self {
        Self::from(laid_out.as_str())
    }
}

impl From<Table> for Document {
    fn from(table: Table) -> Self {
        let mut document = Self::default();
        document.table(table);
        document
    }
}

impl Document {
    /// Adds another document, or lines that this crate has laid out already.
    pub(crate) fn append(&mut self, other: impl Into<Self>) {
        let other = other.into();
        self.left_out += other.left_out;
        other.blocks.into_iter().for_each(|block| self.push(block));
    }

    fn push(&mut self, block: Block) {
        if self.bytes >= MOST_BYTES {
            self.left_out += 1;
            return;
        }
        self.bytes += block.bytes();
        self.blocks.push(block);
    }

    /// The line about the parts that are left out; `None` if there are none.
    fn rest(&self) -> Option<Block> {
        let text = format!(
            "{} more lines and parts are left out: pagewise show --json RUN has all of them",
            count(self.left_out as u64)
        );
        (self.left_out > 0).then(|| Block::Para(Paragraph::new(&text, 0, Tone::Plain)))
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
            Block::Blank | Block::Figure(_) | Block::Details { .. } => false,
            Block::Para(paragraph) => !paragraph.text.is_empty(),
            Block::Heading(text) => !text.is_empty(),
            Block::Table(table) => !table.is_empty(),
            _ => true,
        })
    }

    pub(crate) fn blank(&mut self) {
        if self.has_text() {
            self.push(Block::Blank);
        }
    }

    pub(crate) fn heading(&mut self, text: &str) {
        self.push(Block::Heading(text.to_owned()));
    }

    /// Adds an indented paragraph.
    pub(crate) fn para(&mut self, text: &str, indent: usize, tone: Tone) {
        self.push(Block::Para(Paragraph::new(text, indent, tone)));
    }

    /// Adds a paragraph with a hanging indent.
    pub(crate) fn hanging(&mut self, text: &str, indent: usize) {
        let rest = indent + 4;
        self.push(Block::Para(Paragraph { rest, ..Paragraph::new(text, indent, Tone::Plain) }));
    }

    /// A list entry.
    pub(crate) fn bullet(&mut self, text: &str, tone: Tone) {
        self.push(Block::Bullet { text: text.to_owned(), tone });
    }

    /// Adds a label and text in a second column.
    pub(crate) fn item(&mut self, label: &str, text: &str) {
        self.item_tone(label, text, Tone::Plain);
    }

    /// As `item`, with a colour.
    pub(crate) fn item_tone(&mut self, label: &str, text: &str, tone: Tone) {
        self.push(Block::Item { label: label.to_owned(), text: text.to_owned(), tone });
    }

    /// Adds one line, cut in the middle if it is too long: for command lines and paths.
    pub(crate) fn single(&mut self, text: &str, indent: usize, tone: Tone) {
        self.push(Block::Single { text: text.to_owned(), indent, tone });
    }

    /// Adds a line to copy: never wrapped or cut. The output of [`crate::quote`] has no hostile characters
    /// except newlines inside quotes, which stay. Any others are spelled out, with a warning.
    pub(crate) fn exact(&mut self, text: &str) {
        self.push(Block::Exact(text.to_owned()));
    }

    pub(crate) fn table(&mut self, table: Table) {
        self.left_out += table.left_out();
        self.push(Block::Table(table));
    }

    /// Adds the output of `make` for the width of the terminal; a page uses the largest width.
    pub(crate) fn fitted(&mut self, make: impl Fn(&Style) -> Self + 'static) {
        self.push(Block::Fitted(Fitted(Rc::new(make))));
    }

    /// Adds a drawing; shown only on pages.
    pub(crate) fn figure(&mut self, picture: Picture) {
        self.push(Block::Figure(picture));
    }

    /// Adds details under a title that opens them; shown only on pages.
    pub(crate) fn details(&mut self, title: &str, inside: Self) {
        self.left_out += inside.left_out;
        self.push(Block::Details { title: title.to_owned(), inside });
    }

    /// The drawings in order, with their titles.
    pub(crate) fn drawings(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for block in &self.blocks {
            match block {
                Block::Figure(Picture { wide, .. }) => {
                    let title = wide
                        .split_once("<title>")
                        .and_then(|(_, rest)| rest.split_once("</title>"));
                    let title = title.map_or("", |(title, _)| title);
                    all.push((unescape_markup(title), wide.clone()));
                }
                Block::Details { inside, .. } => all.extend(inside.drawings()),
                Block::Fitted(Fitted(make)) => all.extend(make(&Style::default()).drawings()),
                _ => {}
            }
        }
        all
    }

    /// The document as lines for a terminal.
    #[must_use]
    pub fn text(&self, style: &Style) -> String {
        let mut lines = Lines { style, out: String::new() };
        self.blocks.iter().chain(&self.rest()).for_each(|block| lines.block(block));
        lines.out
    }

    /// The document as markup: the body of a page.
    pub(crate) fn html(&self) -> String {
        let mut out = String::new();
        let mut open = Around::Nothing;
        for block in self.blocks.iter().chain(&self.rest()) {
            let around = Around::block(block);
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
enum Around {
    Nothing,
    List,
    /// Lines to copy, with one button for all.
    Exact,
}

impl Around {
    const fn block(block: &Block) -> Self {
        match block {
            Block::Bullet { .. } => Self::List,
            Block::Exact(_) => Self::Exact,
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

fn markup(block: &Block) -> String {
    let class = |tone: &Tone| tone.into_str();
    match block {
        Block::Blank => String::new(),
        Block::Heading(text) => format!("<h2>{}</h2>\n", prose_markup(text)),
        Block::Para(paragraph) => paragraph.html(),
        Block::Bullet { text, tone } => {
            format!("<li class=\"{}\">{}</li>\n", class(tone), prose_markup(text))
        }
        Block::Item { label, text, tone } => format!(
            "<p><b class=\"{}\">{}</b>: {}</p>\n",
            class(tone),
            prose_markup(label),
            prose_markup(text)
        ),
        Block::Single { text, tone, .. } => {
            format!("<p class=\"{}\"><code>{}</code></p>\n", class(tone), escape_markup(text))
        }
        Block::Exact(text) => markup_lines(text) + "\n",
        Block::Transcript(text) => format!("<pre>{}</pre>\n", markup_lines(text)),
        Block::Table(table) => table.html(),
        Block::Fitted(Fitted(make)) => make(&Style::default()).html(),
        Block::Figure(Picture { wide, narrow }) => {
            format!("<figure tabindex=\"0\">{wide}{narrow}</figure>\n")
        }
        Block::Details { title, inside } => format!(
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
struct Lines<'a> {
    style: &'a Style,
    out: String,
}

impl Lines<'_> {
    fn block(&mut self, block: &Block) {
        match block {
            Block::Blank => self.out.push('\n'),
            Block::Heading(text) => self.hang("", 0, text, Tone::Strong),
            Block::Para(paragraph) => {
                self.out.push_str(&paragraph.lines(self.style));
            }
            Block::Bullet { text, tone } => self.hang("  - ", 4, text, *tone),
            Block::Item { label, text, tone } => {
                let unicode = self.style.unicode;
                let label = shorten(&escape_for(label, unicode), LABEL - 2, unicode);
                let pad = " ".repeat(LABEL.saturating_sub(cells(&label)));
                self.hang(&format!("  {label}{pad}"), LABEL + 2, text, *tone);
            }
            Block::Single { text, indent, tone } => {
                let escaped = escape_for(text, self.style.unicode);
                let width = self.style.columns().saturating_sub(*indent);
                let text = shorten(&escaped, width, self.style.unicode);
                self.push(&" ".repeat(*indent), &text, *tone);
            }
            Block::Exact(text) => self.exact(text),
            Block::Table(table) => self.out.push_str(&table.clone().render(self.style)),
            Block::Transcript(text) => self.out.push_str(text),
            Block::Fitted(Fitted(make)) => self.out.push_str(&make(self.style).text(self.style)),
            Block::Figure(_) | Block::Details { .. } => {}
        }
    }

    fn exact(&mut self, text: &str) {
        let hostile = text.chars().any(|c| c != '\n' && is_hostile(c));
        for (i, row) in text.split('\n').enumerate() {
            // The part after a quoted newline belongs to the same word: it must not be indented.
            let indent = if i == 0 { "    " } else { "" };
            let row = if hostile { escape(row) } else { row.to_owned() };
            self.push(indent, &row, Tone::Good);
        }
        if hostile {
            let text =
                "the line above contains control characters, shown as escapes: do not copy it";
            self.hang("", 4, text, Tone::Warn);
        }
    }

    fn hang(&mut self, first: &str, indent: usize, text: &str, tone: Tone) {
        self.out.push_str(&hang(self.style, first, indent, text, tone));
    }

    fn push(&mut self, lead: &str, text: &str, tone: Tone) {
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
pub(crate) fn head(title: &str, run: &Run) -> String {
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
pub(crate) fn foot(run: &Run) -> String {
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

    const NARROW: Style = Style { colour: false, width: 40, unicode: true };

    #[test]
    fn items_hang_under_their_text() {
        let mut page = Document::default();
        page.item("budget", "sixty seconds for all of the experiments");
        assert_eq!(
            page.text(&NARROW),
            "  budget        sixty seconds for all of\n                the experiments\n"
        );
    }

    #[test]
    fn exact_lines_are_never_cut_nor_wrapped() {
        let mut page = Document::default();
        let line = "pagewise run --with heap-huge -- ./a-program with 'many words' --and=options";
        page.exact(line);
        assert_eq!(page.text(&NARROW), format!("    {line}\n"));
        let mut page = Document::default();
        page.exact("run 'a\n'");
        assert_eq!(page.text(&NARROW), "    run 'a\n'\n");
    }

    #[test]
    fn exact_lines_that_would_deceive_are_spelled_out() {
        let mut page = Document::default();
        page.exact("run \x1b[2J");
        let text = page.text(&NARROW);
        assert!(text.starts_with("    run \\x1b[2J\n"), "{text}");
        assert!(text.contains("characters, shown as"), "{text}");
    }

    #[test]
    fn lines_to_be_copied_stand_together_and_the_script_is_the_one_allowed() {
        let mut page = Document::default();
        page.exact("[Service]");
        page.exact("A=<b>");
        page.para("and", 0, Tone::Plain);
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
        let (mut page, line) = (Document::default(), "x".repeat(60));
        let mut table = Table::new(&[("", crate::table::Align::Left)]);
        for _ in 0..200_000 {
            table.row(vec![line.as_str().into()]);
        }
        page.table(table);
        for _ in 0..200_000 {
            page.para(&line, 2, Tone::Plain);
        }
        for shown in [page.text(&NARROW), page.html()] {
            assert!(shown.len() < 2 * MOST_BYTES, "{}", shown.len());
            let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.contains("more lines and parts are left out: pagewise show --json RUN"));
        }
    }

    #[test]
    fn sections_are_set_apart_once() {
        let mut page = Document::default();
        page.section("a\n");
        page.section("");
        page.section("b\n");
        assert_eq!(page.text(&NARROW), "a\n\nb\n");
    }
}
