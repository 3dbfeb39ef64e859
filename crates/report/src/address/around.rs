//! The pages under the same entry of the table above base pages, a character for each.

use crate::number::count;
use crate::page::Document;
use crate::style::{Style, Tone};
use pagewise_model::Fact;
use pagewise_model::address::{Address, Around, Layout};

/// Columns before a line.
const INDENT: usize = 2;
/// Most lines; where there are more pages, a character stands for several.
const MOST_LINES: usize = 16;

pub(super) fn section(address: Address, layout: &Layout, around: &Fact<Around>) -> Document {
    let mut page = Document::default();
    let span = layout.huge_page().map_or_else(String::new, |span| format!(" in the same {span}"));
    page.heading(&format!("pages around it{span}"));
    let around = match around {
        Fact::Known(around) => around,
        Fact::Missing(why) => {
            page.para(why, INDENT, Tone::Plain);
            return page;
        }
    };
    page.para(&counts(around), INDENT, Tone::Plain);
    let base = layout.base_page_bytes.bytes();
    let own = address.0.saturating_sub(around.start_address.0) / base;
    let own = usize::try_from(own).unwrap_or(usize::MAX);
    let cells: Vec<char> = around.pages.chars().collect();
    if cells.iter().any(|cell| Some(cell) != cells.first()) {
        let start = around.start_address;
        page.fitted(move |style| lines(start, base, &cells, own, style));
    }
    page
}

fn counts(around: &Around) -> String {
    let named = [
        (around.present_pages, "present"),
        (around.swapped_pages, "swapped"),
        (around.guard_pages, "guards"),
        (around.absent_pages, "absent"),
        (around.unmapped_pages, "in no mapping"),
    ];
    let text = |(n, name): &(u64, &str)| match *name {
        "present" if around.huge_pages > 0 => {
            format!("{} present ({} of them mapped huge)", count(*n), count(around.huge_pages))
        }
        _ => format!("{} {name}", count(*n)),
    };
    let some = |(n, _): &&(u64, &str)| *n > 0;
    named.iter().filter(some).map(text).collect::<Vec<_>>().join(", ")
}

/// The pages by lines, and a mark under the one that the address is in.
fn lines(start: Address, base: u64, cells: &[char], own: usize, style: &Style) -> Document {
    let mut page = Document::default();
    let digits = format!("{:012x}", start.0).len();
    let room = style.columns().saturating_sub(INDENT + digits + 1).max(1);
    // A power of two, so that lines begin at round addresses.
    let width = 1usize << room.ilog2();
    let each = cells.len().div_ceil(width * MOST_LINES).max(1);
    let pieces: Vec<char> = cells.chunks(each).map(together).collect();
    for (nth, line) in pieces.chunks(width).enumerate() {
        let first = nth * width;
        let mark = (own / each).checked_sub(first).filter(|at| *at < line.len());
        // What is in no mapping is counted above and needs no line.
        if mark.is_none() && line.iter().all(|cell| *cell == '-') {
            continue;
        }
        let address = start.0.saturating_add((first * each) as u64 * base);
        let text: String = line.iter().collect();
        page.single(&format!("{address:012x} {text}"), INDENT, Tone::Plain);
        if let Some(at) = mark {
            let lead = " ".repeat(digits + 1 + at);
            page.single(&format!("{lead}^"), INDENT, Tone::Strong);
        }
    }
    let unit = if each > 1 { format!("; each stands for {each} pages") } else { String::new() };
    page.para(&format!("{}{unit}", legend(cells)), INDENT, Tone::Faint);
    page
}

/// One character for several: their own where they agree, else `+` where any is present, `~` where none.
fn together(cells: &[char]) -> char {
    let first = cells.first().copied().unwrap_or('-');
    if cells.iter().all(|cell| *cell == first) {
        return first;
    }
    if cells.iter().any(|cell| "Hz#".contains(*cell)) { '+' } else { '~' }
}

/// What the characters that occur mean.
fn legend(cells: &[char]) -> String {
    let known = [
        ('H', "mapped huge"),
        ('#', "present"),
        ('z', "zero page"),
        ('s', "swapped"),
        ('g', "guard"),
        ('.', "absent"),
        ('-', "in no mapping"),
    ];
    let used = known.iter().filter(|(cell, _)| cells.contains(cell));
    used.map(|(cell, words)| format!("{cell} {words}")).collect::<Vec<_>>().join("  ")
}
