//! The result of a closure, in a few lines.

use crate::number::{count, counted, percent};
use crate::page::ReportDocument;
use crate::style::TextTone;
use pagewise_model::pieces::{LinkOrder, OrderUnit};

/// What is reached, the pages that it fills, and what remains in doubt.
#[must_use]
pub fn close_section(order: &LinkOrder, by: OrderUnit, undefined: u64) -> ReportDocument {
    let mut page = ReportDocument::default();
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
    page.para(&text, 0, TextTone::Strong);
    let text = format!(
        "{}; {} over the end of a page, {} in the order of the files",
        counted(order.packed.pages, "page", "pages"),
        counted(order.packed.crossing, one, many),
        count(order.plain.crossing)
    );
    page.para(&text, 0, TextTone::Plain);
    if order.joined > 0 {
        let sections = counted(order.joined, "section holds", "sections hold");
        let text = format!("{sections} several {many}: compile with {}", flag(by));
        page.para(&text, 0, TextTone::Warn);
    }
    if undefined > 0 {
        let symbols = counted(undefined, "symbol is", "symbols are");
        let text = format!(
            "{symbols} defined in none of the files: functions that only others call may be missing"
        );
        page.para(&text, 0, TextTone::Faint);
    }
    page
}

const fn noun(by: OrderUnit) -> (&'static str, &'static str) {
    match by {
        OrderUnit::Object => ("object file", "object files"),
        OrderUnit::Function => ("function", "functions"),
        OrderUnit::Variable => ("variable", "variables"),
    }
}

const fn flag(by: OrderUnit) -> &'static str {
    match by {
        OrderUnit::Variable => "-fdata-sections",
        OrderUnit::Object | OrderUnit::Function => "-ffunction-sections",
    }
}

/// How many names of an order a build still has.
#[must_use]
pub fn match_section(names: u64, exact: u64, by_stem: u64, by_callees: u64) -> ReportDocument {
    let found = exact + by_stem + by_callees;
    let mut page = ReportDocument::default();
    let text = format!(
        "{} of {} found ({}): {} as they are, {} without what compilers append, {} by size and callees",
        count(found),
        counted(names, "name", "names"),
        percent(found as f64 / (names as f64).max(1.0)),
        count(exact),
        count(by_stem),
        count(by_callees)
    );
    page.para(&text, 0, if found < names { TextTone::Warn } else { TextTone::Plain });
    page
}
