//! The result of a closure, in a few lines.

use crate::number::{count, counted, percent};
use crate::page::Document;
use crate::style::Tone;
use pagewise_model::pieces::{By, LinkOrder};

/// What is reached, the pages that it fills, and what remains in doubt.
#[must_use]
pub fn close_section(order: &LinkOrder, by: By, undefined: u64) -> Document {
    let mut page = Document::default();
    let (one, many) = noun(by);
    let share = order.reached_bytes.0 as f64 / (order.all_bytes.0 as f64).max(1.0);
    let text = format!(
        "{} of {} reached, {} of {} ({})",
        count(order.reached),
        counted(order.all, one, many),
        order.reached_bytes,
        order.all_bytes,
        percent(share)
    );
    page.para(&text, 0, Tone::Strong);
    let text = format!(
        "{}; {} over the end of a page, {} in the order of the files",
        counted(order.packed.pages, "page", "pages"),
        counted(order.packed.crossing, one, many),
        count(order.plain.crossing)
    );
    page.para(&text, 0, Tone::Plain);
    if order.joined > 0 {
        let sections = counted(order.joined, "section holds", "sections hold");
        let text = format!("{sections} several {many}: compile with {}", flag(by));
        page.para(&text, 0, Tone::Warn);
    }
    if undefined > 0 {
        let symbols = counted(undefined, "symbol is", "symbols are");
        let text = format!(
            "{symbols} defined in none of the files: functions that only others call may be missing"
        );
        page.para(&text, 0, Tone::Faint);
    }
    page
}

const fn noun(by: By) -> (&'static str, &'static str) {
    match by {
        By::Object => ("object file", "object files"),
        By::Function => ("function", "functions"),
        By::Variable => ("variable", "variables"),
    }
}

const fn flag(by: By) -> &'static str {
    match by {
        By::Variable => "-fdata-sections",
        By::Object | By::Function => "-ffunction-sections",
    }
}

/// How many names of an order a build still has.
#[must_use]
pub fn match_section(names: u64, exact: u64, by_stem: u64, by_callees: u64) -> Document {
    let found = exact + by_stem + by_callees;
    let mut page = Document::default();
    let text = format!(
        "{} of {} found ({}): {} as they are, {} without what compilers append, {} by size and callees",
        count(found),
        counted(names, "name", "names"),
        percent(found as f64 / (names as f64).max(1.0)),
        count(exact),
        count(by_stem),
        count(by_callees)
    );
    page.para(&text, 0, if found < names { Tone::Warn } else { Tone::Plain });
    page
}
