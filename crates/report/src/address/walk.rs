//! The walk as a drawing and as a table: which bits of the address select the entry of which page table, and
//! which are left as the offset.
//!
//! The drawing shows the bits in binary, and under them a box for each page table, linked to the next. It needs
//! about 72 columns. Without that room, the table has the binary digits.

use crate::number::counted;
use crate::page::ReportDocument;
use crate::style::{TerminalStyle, TextTone};
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use pagewise_model::address::{
    AddressHalf, AddressLayout, AddressReport, AddressView, EntryRole, PageTableLevel,
};
use pagewise_model::{Bytes, PageSize};

/// Columns before each line of the drawing.
const INDENT: usize = 2;
/// Least columns of a box.
const NARROWEST_BOX: usize = 9;

pub(super) fn section(report: &AddressReport, view: &AddressView) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.heading(&title(report, view));
    let walk = TableWalk::new(&report.layout, view);
    page.fitted(move |style| walk.document(style));
    if let Some(remark) = remark(&report.layout, view) {
        page.para(&remark, 2, TextTone::Warn);
    }
    page
}

fn title(report: &AddressReport, view: &AddressView) -> String {
    let levels = counted(view.levels.len() as u64, "level", "levels");
    let walked =
        view.levels.iter().filter(|l| matches!(l.role, EntryRole::Table | EntryRole::Page)).count();
    let sizes: Vec<String> = report.page_sizes_bytes.iter().map(PageSize::to_string).collect();
    let sizes = sizes.join(", ");
    let bits = report.layout.address_bits;
    match walked {
        0 => format!("the page table: {levels}, {bits} bits; pages of {sizes}"),
        n => {
            let read = counted(n as u64, "entry", "entries");
            format!("the walk: {read} read, of {levels} ({bits} bits); pages of {sizes}")
        }
    }
}

/// What to know about an address that no process can have.
fn remark(layout: &AddressLayout, view: &AddressView) -> Option<String> {
    let bits = layout.user_bits;
    match view.half {
        AddressHalf::User => None,
        AddressHalf::Kernel => Some(
            "a kernel address: all processes share its entries, and no process can see them"
                .to_owned(),
        ),
        AddressHalf::NotCanonical => {
            let five = if bits == 47 && view.address.0 >> 56 == 0 {
                "; with five levels (57 bits) it is a user address"
            } else {
                ""
            };
            Some(format!(
                "not canonical: bits 63 to {bits} are not all equal, so no process on this machine can use it, and a load from it traps. Its lower bits choose the entries above{five}"
            ))
        }
    }
}

/// The levels down to the page, and the bits of the address below them.
struct TableWalk {
    address: u64,
    levels: Vec<PageTableLevel>,
    offset_bits: u32,
}

impl TableWalk {
    fn new(layout: &AddressLayout, view: &AddressView) -> Self {
        let walked = view.levels.iter().filter(|level| level.role != EntryRole::Beyond);
        let levels: Vec<PageTableLevel> = walked.cloned().collect();
        let offset_bits = levels.last().map_or(layout.page_bits(), |level| level.low_bit);
        Self { address: view.address.0, levels, offset_bits }
    }

    /// Offset of the address in the memory that the last entry covers, in bytes.
    fn offset(&self) -> u64 {
        self.address & low_bits(self.offset_bits)
    }

    fn document(&self, style: &TerminalStyle) -> ReportDocument {
        let mut page = ReportDocument::default();
        let lines = self.drawing(if style.unicode { &UNICODE } else { &ASCII });
        let widest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        let is_drawn = INDENT + widest <= style.columns();
        if is_drawn {
            for line in &lines {
                page.single(line, INDENT, TextTone::Plain);
            }
            page.blank();
        }
        page.append(self.table(!is_drawn));
        page
    }

    /// The levels in rows, with or without the bits in binary.
    fn table(&self, has_bits: bool) -> ReportTable {
        let mut columns = vec![
            ("level", ColumnAlignment::Left),
            ("bits", ColumnAlignment::Left),
            ("entry", ColumnAlignment::Right),
        ];
        columns.extend(has_bits.then_some(("in binary", ColumnAlignment::Right)));
        columns.push(("each covers", ColumnAlignment::Right));
        columns.push(("", ColumnAlignment::Left));
        let mut table = ReportTable::new(&columns);
        let mut row = |name: &str, field: &BitField, covers: Bytes, part: TableCell| {
            let mut cells = vec![TableCell::from(name), field.range().into()];
            cells.push(field.value.to_string().into());
            cells.extend(has_bits.then(|| TableCell::from(field.binary())));
            cells.extend([size_text(covers).into(), part]);
            table.row(cells);
        };
        for level in &self.levels {
            row(&level.name, &BitField::of_level(level), level.entry_spans_bytes, part(level));
        }
        row("offset", &self.offset_field(), Bytes(1), "the byte".into());
        table
    }

    fn offset_field(&self) -> BitField {
        let size = self.levels.last().filter(|level| level.role == EntryRole::Page);
        let page =
            size.map_or("page".to_owned(), |l| format!("{} page", size_text(l.entry_spans_bytes)));
        BitField {
            high: self.offset_bits.saturating_sub(1),
            low: 0,
            value: self.offset(),
            label: Some([page, format!("+{:#x}", self.offset())]),
        }
    }

    /// All bits of the address by their use, from the highest.
    fn fields(&self) -> Vec<BitField> {
        let top =
            self.levels.first().map_or(self.offset_bits, |level| level.high_bit.saturating_add(1));
        let unused = (top < u64::BITS).then(|| BitField {
            high: u64::BITS - 1,
            low: top,
            value: self.address.checked_shr(top).unwrap_or(0),
            label: None,
        });
        let levels = self.levels.iter().map(BitField::of_level);
        unused.into_iter().chain(levels).chain([self.offset_field()]).collect()
    }

    /// The lines of the drawing: bit numbers, bits, and the boxes with names and entries.
    fn drawing(&self, glyphs: &DrawingGlyphs) -> Vec<String> {
        let fields = self.fields();
        let line = |draw: &dyn Fn(&BitField) -> String| {
            let parts: Vec<String> = fields.iter().map(draw).collect();
            parts.join(" ").trim_end().to_owned()
        };
        let DrawingGlyphs { across, down, into, next, leave, corners } = *glyphs;
        let [top_left, top_right, low_left, low_right] = corners;
        let last = fields.len().saturating_sub(1);
        // The register that holds the address of the first table.
        let first = format!("CR3 {across}");
        let names = fields.iter().enumerate().map(|(nth, field)| match &field.label {
            Some([name, _]) if nth < last => field.boxed(down, name, leave),
            Some([name, _]) => field.boxed(down, name, down),
            None => format!("{first:>width$}", width = field.width()),
        });
        let names: Vec<String> = names.collect();
        vec![
            line(&BitField::ends),
            line(&|field| format!("{:>width$}", field.binary(), width = field.width())),
            line(&|field| field.centred(" ", " ", down, " ")),
            line(&|field| field.centred(top_left, across, into, top_right)),
            names.join(next),
            line(&|field| field.boxed(down, field.entry(), down)),
            line(&|field| field.centred(low_left, across, across, low_right)),
        ]
    }
}

/// The part that a level plays in the walk.
fn part(level: &PageTableLevel) -> TableCell {
    let (text, tone) = match level.role {
        EntryRole::Table => ("leads to the next table", TextTone::Plain),
        EntryRole::Page => ("maps the page: the walk ends", TextTone::Good),
        EntryRole::Beyond | EntryRole::NotKnown => ("", TextTone::Plain),
    };
    TableCell::new(text, tone)
}

/// Adjacent bits of the address with one use.
struct BitField {
    high: u32,
    low: u32,
    value: u64,
    /// Name and entry in its box; `None` for bits that select nothing.
    label: Option<[String; 2]>,
}

impl BitField {
    fn of_level(level: &PageTableLevel) -> Self {
        let label = Some([level.name.clone(), level.index.to_string()]);
        Self { high: level.high_bit, low: level.low_bit, value: level.index, label }
    }

    const fn bits(&self) -> u32 {
        self.high.saturating_sub(self.low) + 1
    }

    /// Columns of its part of the drawing.
    fn width(&self) -> usize {
        let bits = self.bits() as usize;
        if self.label.is_some() { bits.max(NARROWEST_BOX) } else { bits }
    }

    fn binary(&self) -> String {
        format!("{value:0bits$b}", value = self.value, bits = self.bits() as usize)
    }

    fn range(&self) -> String {
        format!("{}-{}", self.high, self.low)
    }

    /// The numbers of its first and last bit, above them.
    fn ends(&self) -> String {
        let (high, low, width) = (self.high.to_string(), self.low.to_string(), self.width());
        let room = width.saturating_sub(high.len());
        if self.bits() == 1 { format!("{low:>width$}") } else { format!("{high}{low:>room$}") }
    }

    fn entry(&self) -> &str {
        self.label.as_ref().map_or("", |[_, entry]| entry)
    }

    /// A line of its box with `text`; blank without a box.
    fn boxed(&self, left: &str, text: &str, right: &str) -> String {
        match self.label {
            Some(_) => format!("{left}{text:^inner$}{right}", inner = self.width() - 2),
            None => " ".repeat(self.width()),
        }
    }

    /// A line of its box that is filled, with `middle` under the middle of the bits; blank without a box.
    fn centred(&self, left: &str, fill: &str, middle: &str, right: &str) -> String {
        if self.label.is_none() {
            return " ".repeat(self.width());
        }
        let before = self.width() / 2 - 1;
        let after = self.width() - 3 - before;
        format!("{left}{}{middle}{}{right}", fill.repeat(before), fill.repeat(after))
    }
}

/// The characters of the drawing, each of one column.
struct DrawingGlyphs {
    across: &'static str,
    down: &'static str,
    /// From the bits into a box.
    into: &'static str,
    /// Between two boxes.
    next: &'static str,
    /// The right side of a box that leads to the next.
    leave: &'static str,
    /// Of a box: top left, top right, low left, low right.
    corners: [&'static str; 4],
}

const UNICODE: DrawingGlyphs = DrawingGlyphs {
    across: "─",
    down: "│",
    into: "▼",
    next: "►",
    leave: "├",
    corners: ["┌", "┐", "└", "┘"],
};
const ASCII: DrawingGlyphs =
    DrawingGlyphs { across: "-", down: "|", into: "v", next: ">", leave: "|", corners: ["+"; 4] };

const fn low_bits(bits: u32) -> u64 {
    match 1u64.checked_shl(bits) {
        Some(bit) => bit - 1,
        None => u64::MAX,
    }
}

/// A power of two without decimals.
fn size_text(size: Bytes) -> String {
    match size.0 {
        n if n >= 1 << 40 => format!("{} TiB", n >> 40),
        n if n >= 1 << 10 => PageSize::new(n).map_or_else(|| size.to_string(), |s| s.to_string()),
        n => format!("{n} B"),
    }
}
