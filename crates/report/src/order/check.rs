//! Two builds by their starts: whether the second follows the order, what both touch, and a map of the
//! pages of their code by first touch.

use crate::chart::{PageMap, PageRow, Pages};
use crate::number::{change, count, counted, interval, percent, three_digits};
use crate::page::Document;
use crate::style::Tone;
use crate::table::{Align, Table};
use pagewise_model::pieces::{Conformance, OrderCheck, StartSeen};
use pagewise_model::run::Run;
use pagewise_model::{Bytes, Nanos, PageSize};

/// Cells of a row of the map.
const COLUMNS: u64 = 64;
/// Rows of one build, at most.
const MOST_ROWS: u64 = 48;

/// The comparison as lines.
#[must_use]
pub fn check_section(check: &OrderCheck) -> Document {
    let mut page = Document::default();
    page.append(conformance(&check.conformance));
    page.section(figures(check));
    if let Some(verdict) = &check.time {
        let of = |e: &pagewise_model::trial::Effect| interval(e.ratio, e.ratio_low, e.ratio_high);
        let effect = verdict.effect.as_ref().map_or_else(String::new, of);
        page.item("start", &format!("{effect} {}", verdict.why));
    }
    page
}

/// The same as a page, with the pictures.
#[must_use]
pub fn check_page(check: &OrderCheck, run: &Run) -> String {
    let mut page = Document::default();
    page.figure(map(check).draw());
    page.append(check_section(check));
    crate::run::page(run, page)
}

fn conformance(seen: &Conformance) -> Document {
    let mut page = Document::default();
    let (word, tone) = match seen.is_honoured() {
        true => ("the linker followed the order", Tone::Good),
        false => ("the linker did not follow the order", Tone::Bad),
    };
    page.para(word, 0, tone);
    let text = format!(
        "{} of {} found ({}), {} of neighbours in order, {} in one run; {} of code in {}",
        count(seen.found),
        counted(seen.names, "name", "names"),
        percent(seen.found_share()),
        percent(seen.in_order_share),
        counted(seen.longest_run, "function", "functions"),
        seen.function_bytes,
        seen.span_bytes
    );
    page.para(&text, 0, Tone::Plain);
    if !seen.is_honoured() {
        let text = "Compile with -ffunction-sections, give the order to the link of the whole program, and use an order of a build with the same link-time optimisation.";
        page.para(text, 0, Tone::Warn);
    }
    page
}

fn figures(check: &OrderCheck) -> Table {
    let mut table = Table::new(&[
        ("the program's code, median of all starts", Align::Name),
        ("before", Align::Right),
        ("after", Align::Right),
        ("", Align::Right),
    ]);
    let mut row = |name: &str, of: &dyn Fn(&StartSeen) -> f64, show: &dyn Fn(f64) -> String| {
        let (before, after) = (of(&check.before), of(&check.after));
        let changed = if before > 0.0 { change(after / before) } else { String::new() };
        table.row(vec![name.into(), show(before).into(), show(after).into(), changed.into()]);
    };
    let bytes = |bytes: f64| Bytes(bytes as u64).to_string();
    row("faults", &|seen| median(seen.faults.iter().map(|n| *n as f64)), &three_digits);
    row("pages touched", &|seen| seen.touched.len() as f64, &three_digits);
    row("resident", &|seen| median(seen.resident_bytes.iter().map(|b| b.0 as f64)), &bytes);
    row(
        "its share of that (PSS)",
        &|seen| median(seen.proportional_bytes.iter().map(|b| b.0 as f64)),
        &bytes,
    );
    table
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = values.collect();
    all.sort_by(f64::total_cmp);
    let middle = all.len() / 2;
    match all.len() {
        0 => 0.0,
        n if n % 2 == 0 => f64::midpoint(all[middle - 1], all[middle]),
        _ => all[middle],
    }
}

fn map(check: &OrderCheck) -> PageMap {
    let both = [("before", &check.before), ("after", &check.after)];
    let last = both.iter().flat_map(|(_, seen)| &seen.touched).map(|(_, at)| *at).max();
    let last = last.unwrap_or(Nanos(1));
    PageMap {
        title: "Pages of code, by the time of their first touch".to_owned(),
        last,
        panels: both.iter().map(|(word, seen)| panel(word, seen, last)).collect(),
        note: String::new(),
    }
}

/// All pages of the code of one build; those never touched have no colour.
fn panel(word: &str, seen: &StartSeen, last: Nanos) -> Pages {
    let page = PageSize::BASE_4K.bytes();
    let start = seen.text.iter().map(|(offset, _)| offset.0 / page).min().unwrap_or_default();
    let end = seen.text.iter().map(|(offset, len)| (offset.0 + len.0).div_ceil(page)).max();
    let pages = end.unwrap_or(start) - start;
    let pages_a_cell = pages.div_ceil(COLUMNS * MOST_ROWS).max(1);
    let mut cells: Vec<Option<Nanos>> = vec![None; pages.div_ceil(pages_a_cell) as usize];
    for (offset, at) in &seen.touched {
        let cell = cells.get_mut(((offset.0 / page).saturating_sub(start) / pages_a_cell) as usize);
        if let Some(cell) = cell {
            *cell = Some(cell.map_or(*at, |former| former.min(*at)));
        }
    }
    let row = |(number, cells): (usize, &[Option<Nanos>])| {
        let first = start + number as u64 * COLUMNS * pages_a_cell;
        let cell = |at: &Option<Nanos>| at.map(|at| (share(at, last), format!("after {at}")));
        PageRow { label: format!("{:#x}", first * page), cells: cells.iter().map(cell).collect() }
    };
    let each = counted(pages_a_cell, "page", "pages");
    let touched = count(seen.touched.len() as u64);
    Pages {
        title: format!("{word}: {}", seen.path),
        detail: format!(
            "{touched} of {} touched; each cell is {each}",
            counted(pages, "page", "pages")
        ),
        rows: cells.chunks(COLUMNS as usize).enumerate().map(row).collect(),
    }
}

/// Where a time stands on a logarithmic scale from one microsecond to `last`.
fn share(at: Nanos, last: Nanos) -> f64 {
    let scale = |at: Nanos| (at.0 as f64 / 1000.0).ln_1p();
    if last.0 == 0 { 0.0 } else { scale(at) / scale(last) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Style;

    fn seen(pages: u64) -> StartSeen {
        let page = PageSize::BASE_4K.bytes();
        StartSeen {
            path: "app".into(),
            text: vec![(Bytes(page), Bytes(page * 100))],
            faults: vec![pages, pages + 2],
            resident_bytes: vec![Bytes(pages * page)],
            proportional_bytes: vec![Bytes(pages * page)],
            touched: (0..pages).map(|n| (Bytes(page * (n + 1)), Nanos::millis(n + 1))).collect(),
        }
    }

    fn check(in_order_share: f64) -> OrderCheck {
        let conformance =
            Conformance { names: 10, found: 10, in_order_share, ..Conformance::default() };
        OrderCheck { conformance, before: seen(40), after: seen(10), time: None }
    }

    #[test]
    fn both_builds_stand_beside_each_other() {
        let style = Style { colour: false, width: 80, unicode: false };
        let text = check_section(&check(1.0)).text(&style);
        assert!(text.starts_with("the linker followed the order\n"), "{text}");
        assert!(text.contains("pages touched") && text.contains("75% less"), "{text}");
        let text = check_section(&check(0.5)).text(&style);
        assert!(text.contains("did not follow") && text.contains("-ffunction-sections"), "{text}");
    }

    #[test]
    fn the_map_shows_all_pages_and_colours_those_touched() {
        let svg = map(&check(1.0)).draw();
        assert_eq!(svg.matches("<title>after").count(), 50, "40 and 10");
        assert!(svg.contains("40 of 100 pages touched"), "{svg}");
    }
}
