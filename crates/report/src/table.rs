//! Tables of short cells, as terminal text and as markup. Columns are as wide as their content; numbers are
//! aligned at the decimal point.
//!
//! If the columns do not fit, the gaps shrink first, then name columns and text columns (cut at the end),
//! then any column. So a table is never wider than its style. If the name at the start of a row does not fit,
//! it stands whole on a line above. Other names are cut in the middle. Widths are terminal cells.

use crate::escape::{cells, cut_end, escape_for, shorten};
use crate::markdown::inline;
use crate::markup::{escape_markup, prose_markup};
use crate::number::{bar, range_text, three_digits};
use crate::page::MOST_BYTES;
use crate::paragraph::Paragraph;
use crate::style::{TerminalStyle, TextTone};
use pagewise_model::{Fact, Measured};

/// Least cells of a name while other names can still shrink.
const SHORTEST_NAME: usize = 6;
/// From this width on, bars are long.
const ROOMY: usize = 76;
const LONG_BAR: usize = 16;
const SHORT_BAR: usize = 8;

/// Alignment of the cells of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnAlignment {
    /// Left, and may be cut in its middle.
    Name,
    /// Left, and may be cut at its end.
    Text,
    Left,
    Right,
    /// Aligned at the end of the leading integer.
    Decimal,
}

#[derive(Debug, Clone)]
pub(crate) struct TableColumn {
    pub(crate) title: &'static str,
    pub(crate) align: ColumnAlignment,
}

#[derive(Debug, Clone)]
pub(crate) struct TableCell {
    text: String,
    tone: TextTone,
    /// Text that a page shows on hover.
    hover: String,
    /// A share (0..1), drawn in place of text.
    bar: Option<f64>,
}

impl TableCell {
    pub(crate) fn new(text: impl Into<String>, tone: TextTone) -> Self {
        Self { text: text.into(), tone, hover: String::new(), bar: None }
    }

    /// A cell with a share (0..1), drawn as a bar.
    pub(crate) fn bar(share: f64) -> Self {
        Self { bar: Some(share), ..Self::from("") }
    }

    /// The cell with hover text for pages.
    pub(crate) fn hover(mut self, text: impl Into<String>) -> Self {
        self.hover = text.into();
        self
    }

    /// A figure with its range as hover text, or a dash with the reason.
    pub(crate) fn figure(figure: Option<&Measured>, why: &str) -> Self {
        match figure {
            Some(known) => Self::from(three_digits(known.median)).hover(range_text(known)),
            None => Self::new("-", TextTone::Faint).hover(why),
        }
    }

    /// A figure, and its range in a second cell.
    pub(crate) fn with_range(fact: &Fact<Measured>) -> [Self; 2] {
        let range = fact.known().map_or_else(String::new, range_text);
        let why = fact.reason().unwrap_or_default();
        [Self::figure(fact.known(), why), Self::new(range, TextTone::Faint)]
    }
}

impl TableCell {
    fn html(&self, align: ColumnAlignment) -> String {
        let hover = match self.hover.as_str() {
            "" => String::new(),
            hover => format!(" title=\"{}\"", escape_markup(hover)),
        };
        if let Some(share) = self.bar {
            let percent = 100.0 * share.clamp(0.0, 1.0);
            return format!(
                "<td><span class=\"bar\"><i style=\"width:{percent:.1}%\"></i></span></td>"
            );
        }
        let text = match self.tone {
            _ if self.text.is_empty() => String::new(),
            TextTone::Plain => prose_markup(&self.text),
            tone => {
                format!("<span class=\"{}\">{}</span>", tone.into_str(), prose_markup(&self.text))
            }
        };
        format!("<td{}{hover}>{text}</td>", side(align))
    }
}

impl From<String> for TableCell {
    fn from(text: String) -> Self {
        Self::new(text, TextTone::Plain)
    }
}

impl From<&str> for TableCell {
    fn from(text: &str) -> Self {
        Self::new(text, TextTone::Plain)
    }
}

#[derive(Debug, Clone)]
struct TableRow {
    /// Text above the row.
    above: Vec<Paragraph>,
    cells: Vec<TableCell>,
    /// Text below the row.
    under: Vec<Paragraph>,
}

/// Rows under titles.
#[derive(Debug, Clone)]
pub(crate) struct ReportTable {
    columns: Vec<TableColumn>,
    rows: Vec<TableRow>,
    /// Size of the rows in memory.
    bytes: usize,
    /// Number of rows that did not fit.
    left_out: usize,
}

impl TableRow {
    fn bytes(&self) -> usize {
        let texts = self.above.iter().chain(&self.under);
        let texts = texts.map(|one| size_of::<Paragraph>() + one.text.len());
        let cells = self.cells.iter().map(|cell| size_of::<TableCell>() + cell.text.len());
        size_of::<Self>() + texts.chain(cells).sum::<usize>()
    }
}

impl ReportTable {
    pub(crate) fn new(columns: &[(&'static str, ColumnAlignment)]) -> Self {
        let columns = columns.iter().map(|&(title, align)| TableColumn { title, align }).collect();
        Self { columns, rows: Vec::new(), bytes: 0, left_out: 0 }
    }

    /// Adds a row; cells beyond the columns are dropped, missing ones are empty.
    pub(crate) fn row(&mut self, cells: Vec<TableCell>) {
        self.row_with(cells, Vec::new());
    }

    /// Adds a row with text under it.
    pub(crate) fn row_with(&mut self, cells: Vec<TableCell>, under: Vec<Paragraph>) {
        self.row_between(Vec::new(), cells, under);
    }

    /// Adds a row with text under it, and text above it: the heading of a group of rows.
    pub(crate) fn row_between(
        &mut self,
        above: Vec<Paragraph>,
        mut cells: Vec<TableCell>,
        under: Vec<Paragraph>,
    ) {
        if self.bytes >= MOST_BYTES {
            self.left_out += 1;
            return;
        }
        cells.resize_with(self.columns.len(), || TableCell::from(""));
        let row = TableRow { above, cells, under };
        self.bytes += row.bytes();
        self.rows.push(row);
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of rows that are left out, for the document's note.
    pub(crate) const fn left_out(&self) -> usize {
        self.left_out
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as markup; empty when it has no rows.
    pub(crate) fn html(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let mut out = "<div class=\"wide\" tabindex=\"0\"><table>\n".to_owned();
        if self.columns.iter().any(|c| !c.title.is_empty()) {
            let title =
                |c: &TableColumn| format!("<th{}>{}</th>", side(c.align), escape_markup(c.title));
            let titles: String = self.columns.iter().map(title).collect();
            out.push_str(&format!("<thead><tr>{titles}</tr></thead>\n"));
        }
        let columns = self.columns.len();
        let whole = |text: &[Paragraph]| match text.iter().map(Paragraph::html).collect::<String>()
        {
            text if text.is_empty() => text,
            text => format!("<tr><td class=\"text\" colspan=\"{columns}\">{text}</td></tr>\n"),
        };
        for row in &self.rows {
            out.push_str(&whole(&row.above));
            let cells = row.cells.iter().zip(&self.columns);
            let cells: String = cells.map(|(cell, column)| cell.html(column.align)).collect();
            out.push_str(&format!("<tr>{cells}</tr>\n"));
            out.push_str(&whole(&row.under));
        }
        out + "</table></div>\n"
    }

    /// The table as GitHub's markdown; empty without rows. Text under a row is appended to its last cell.
    pub(crate) fn markdown(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let titles: Vec<String> = self.columns.iter().map(|c| inline(c.title)).collect();
        let sides = self.columns.iter().map(|column| match column.align {
            ColumnAlignment::Name | ColumnAlignment::Text | ColumnAlignment::Left => "---",
            ColumnAlignment::Right | ColumnAlignment::Decimal => "--:",
        });
        let mut out = line(&titles);
        out.push_str(&format!("|{}|\n", sides.collect::<Vec<_>>().join("|")));
        for row in &self.rows {
            out.extend(row.above.iter().map(|text| line(&[inline(&text.text)])));
            let mut cells: Vec<String> = row.cells.iter().map(|c| inline(&c.text)).collect();
            let under: Vec<String> = row.under.iter().map(|text| inline(&text.text)).collect();
            if let Some(last) = cells.last_mut().filter(|_| !under.is_empty()) {
                *last = format!("{last}: {}", under.join("; "));
            }
            out.push_str(&line(&cells));
        }
        if self.left_out > 0 {
            out.push_str(&line(&[format!("{} more rows are left out", self.left_out)]));
        }
        out
    }

    /// The table as lines, two cells from the left; empty when it has no rows.
    pub(crate) fn render(mut self, style: &TerminalStyle) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        self.escape_cells(style);
        self.align_decimals();
        let (widths, gap) = self.fit(style.table_columns() - 2);
        let mut out = String::new();
        if self.columns.iter().any(|c| !c.title.is_empty()) {
            let titles = self.columns.iter().map(|c| TableCell::new(c.title, TextTone::Faint));
            out.push_str(&self.line(&titles.collect::<Vec<_>>(), &widths, gap, style));
        }
        for row in &self.rows {
            out.extend(row.above.iter().map(|text| text.lines(style)));
            if self.is_cut(row, &widths) {
                out.push_str(&Self::name_line(&row.cells[0], style));
                let mut rest = row.cells.clone();
                rest[0] = TableCell::from("");
                out.push_str(&self.line(&rest, &widths, gap, style));
            } else {
                out.push_str(&self.line(&row.cells, &widths, gap, style));
            }
            out.extend(row.under.iter().map(|text| text.lines(style)));
        }
        out
    }

    /// Whether the name that begins this row does not fit its column: it gets a line above the other cells.
    fn is_cut(&self, row: &TableRow, widths: &[usize]) -> bool {
        self.columns[0].align == ColumnAlignment::Name && cells(&row.cells[0].text) > widths[0]
    }

    fn name_line(name: &TableCell, style: &TerminalStyle) -> String {
        let text = shorten(&name.text, style.table_columns() - 2, style.unicode);
        format!("  {}\n", style.paint(&text, name.tone))
    }

    fn escape_cells(&mut self, style: &TerminalStyle) {
        let bar_cells = if style.columns() >= ROOMY { LONG_BAR } else { SHORT_BAR };
        for cell in self.rows.iter_mut().flat_map(|r| r.cells.iter_mut()) {
            cell.text = match cell.bar {
                Some(share) => bar(share, bar_cells, style.unicode),
                None => escape_for(&cell.text, style.unicode),
            };
        }
    }

    /// Pads the cells of decimal columns on both sides to equal width.
    fn align_decimals(&mut self) {
        for (at, column) in self.columns.iter().enumerate() {
            if column.align != ColumnAlignment::Decimal {
                continue;
            }
            let sides = |text: &str| {
                point(text).map(|point| (cells(&text[..point]), cells(&text[point..])))
            };
            let all: Vec<_> = self.rows.iter().map(|r| sides(&r.cells[at].text)).collect();
            let left = all.iter().flatten().map(|s| s.0).max().unwrap_or(0);
            let right = all.iter().flatten().map(|s| s.1).max().unwrap_or(0);
            for (row, sides) in self.rows.iter_mut().zip(all) {
                let text = &mut row.cells[at].text;
                let (before, after) = match sides {
                    Some((l, r)) => (left - l, right - r),
                    None => (0, (left + right).saturating_sub(cells(text))),
                };
                *text = format!("{}{text}{}", " ".repeat(before), " ".repeat(after));
            }
        }
    }

    /// Column widths and gap that keep a line within `room`.
    fn fit(&self, room: usize) -> (Vec<usize>, usize) {
        let natural = |(at, column): (usize, &TableColumn)| {
            let longest = self.rows.iter().map(|r| cells(&r.cells[at].text)).max().unwrap_or(0);
            longest.max(column.title.len())
        };
        let mut widths: Vec<usize> = self.columns.iter().enumerate().map(natural).collect();
        let gaps = widths.len().saturating_sub(1);
        let total = |widths: &[usize], gap: usize| widths.iter().sum::<usize>() + gaps * gap;
        if total(&widths, 2) <= room {
            return (widths, 2);
        }
        while total(&widths, 1) > room {
            let name = |at: &usize| {
                matches!(self.columns[*at].align, ColumnAlignment::Name | ColumnAlignment::Text)
            };
            let widest = |only: &dyn Fn(&usize) -> bool, least: usize| {
                let all = (0..widths.len()).filter(only).filter(|&at| widths[at] > least);
                all.max_by_key(|&at| widths[at])
            };
            match widest(&name, SHORTEST_NAME).or_else(|| widest(&|_| true, 1)) {
                Some(at) => widths[at] -= 1,
                None => break,
            }
        }
        (widths, 1)
    }

    fn line(
        &self,
        row: &[TableCell],
        widths: &[usize],
        gap: usize,
        style: &TerminalStyle,
    ) -> String {
        let mut out = String::from(" ");
        let mut blank = 1;
        for ((cell, column), &width) in row.iter().zip(&self.columns).zip(widths) {
            let cut = if column.align == ColumnAlignment::Text { cut_end } else { shorten };
            let text = cut(&cell.text, width, style.unicode);
            let pad = width.saturating_sub(cells(&text));
            let before =
                if matches!(column.align, ColumnAlignment::Right | ColumnAlignment::Decimal) {
                    pad
                } else {
                    0
                };
            let inner = text.trim();
            let lead = cells(&text) - cells(text.trim_start());
            let trail = cells(&text) - lead - cells(inner);
            if inner.is_empty() {
                blank += width + gap;
                continue;
            }
            out.push_str(&" ".repeat(blank + before + lead));
            out.push_str(&style.paint(inner, cell.tone));
            blank = trail + pad - before + gap;
        }
        let mut line = out.trim_end().to_owned();
        line.push('\n');
        line
    }
}

/// The CSS alignment of a column on a page.
const fn side(align: ColumnAlignment) -> &'static str {
    match align {
        ColumnAlignment::Name | ColumnAlignment::Text | ColumnAlignment::Left => " class=\"text\"",
        ColumnAlignment::Right | ColumnAlignment::Decimal => "",
    }
}

/// The end of the leading integer of `text`, if it starts with a number (after an optional sign).
fn point(text: &str) -> Option<usize> {
    let start = text.find(|c: char| c.is_ascii_digit()).filter(|&s| s <= 1)?;
    let end = text[start..].find(|c: char| !c.is_ascii_digit() && c != ',');
    Some(end.map_or(text.len(), |end| start + end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style(width: usize) -> TerminalStyle {
        TerminalStyle { colour: false, width, unicode: true }
    }

    fn sample() -> ReportTable {
        let mut t = ReportTable::new(&[
            ("arm", ColumnAlignment::Name),
            ("time", ColumnAlignment::Decimal),
            ("n", ColumnAlignment::Right),
        ]);
        t.row(vec!["heap-huge".into(), "48% less".into(), "9".into()]);
        t.row(vec!["pipe-grow=262144".into(), "1.2% less".into(), "12".into()]);
        t.row(vec!["place".into(), "no change".into(), "".into()]);
        t
    }

    #[test]
    fn numbers_line_up_at_the_point() {
        assert_eq!(
            sample().render(&style(80)),
            "  arm                     time   n\n\
             \x20 heap-huge         48% less     9\n\
             \x20 pipe-grow=262144   1.2% less  12\n\
             \x20 place             no change\n"
        );
    }

    #[test]
    fn names_give_way_and_the_width_holds() {
        let mut table = sample();
        table.row(vec!["a-remedy-with-a-very-long-name=and-value".into(), "3% less".into()]);
        let narrow = table.render(&style(40));
        assert!(narrow.lines().all(|l| cells(l) <= 40), "{narrow}");
        assert!(narrow.contains("48% less") && narrow.contains('…'), "{narrow}");
        let mut many = ReportTable::new(&[("aaaaaaaaaa", ColumnAlignment::Left); 12]);
        many.row((0..12).map(|_| TableCell::from("0123456789")).collect());
        assert!(many.render(&style(40)).lines().all(|l| cells(l) <= 40));
    }

    #[test]
    fn an_empty_table_is_nothing() {
        assert_eq!(ReportTable::new(&[("a", ColumnAlignment::Left)]).render(&style(80)), "");
    }
}
