//! The walk as a table: which bits of the address choose which entry, in decimal and in binary.

use crate::number::counted;
use crate::page::Document;
use crate::style::Tone;
use crate::table::{Align, Cell, Table};
use pagewise_model::address::{AddressReport, Half, Layout, Level, Role, View};
use pagewise_model::{Bytes, PageSize};

pub(super) fn section(report: &AddressReport, view: &View) -> Document {
    let mut page = Document::default();
    page.heading(&title(report, view));
    let mut table = Table::new(&[
        ("level", Align::Left),
        ("bits", Align::Left),
        ("entry", Align::Right),
        ("in binary", Align::Right),
        ("each covers", Align::Right),
        ("", Align::Left),
    ]);
    for level in &view.levels {
        table.row(row(level));
    }
    let bits = report.layout.page_bits();
    let offset = view.page_offset_bytes.0;
    table.row(vec![
        "offset".into(),
        format!("{}-0", bits.saturating_sub(1)).into(),
        offset.to_string().into(),
        binary(offset, bits).into(),
        size_text(Bytes(1)).into(),
        "the byte".into(),
    ]);
    page.append(table);
    if let Some(remark) = remark(&report.layout, view) {
        page.para(&remark, 2, Tone::Warn);
    }
    page
}

fn title(report: &AddressReport, view: &View) -> String {
    let levels = counted(view.levels.len() as u64, "level", "levels");
    let walked = view.levels.iter().filter(|l| matches!(l.role, Role::Table | Role::Page)).count();
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

fn row(level: &Level) -> Vec<Cell> {
    let (text, tone) = match level.role {
        Role::Table => ("leads to the next table", Tone::Plain),
        Role::Page => ("maps the page: the walk ends", Tone::Good),
        Role::Beyond => ("not walked: inside the page", Tone::Faint),
        Role::NotKnown => ("", Tone::Plain),
    };
    let width = level.high_bit.saturating_sub(level.low_bit) + 1;
    vec![
        level.name.as_str().into(),
        format!("{}-{}", level.high_bit, level.low_bit).into(),
        level.index.to_string().into(),
        binary(level.index, width).into(),
        size_text(level.entry_spans_bytes).into(),
        Cell::new(text, tone),
    ]
}

fn binary(value: u64, width: u32) -> String {
    format!("{value:0width$b}", width = width as usize)
}

/// A power of two without decimals.
fn size_text(size: Bytes) -> String {
    match size.0 {
        n if n >= 1 << 40 => format!("{} TiB", n >> 40),
        n if n >= 1 << 10 => PageSize::new(n).map_or_else(|| size.to_string(), |s| s.to_string()),
        n => format!("{n} B"),
    }
}

/// What to know of an address that no process has.
fn remark(layout: &Layout, view: &View) -> Option<String> {
    let bits = layout.user_bits;
    match view.half {
        Half::User => None,
        Half::Kernel => Some(
            "a kernel address: all processes share its entries, and no process can see them"
                .to_owned(),
        ),
        Half::NotCanonical => {
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
