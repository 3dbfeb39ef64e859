//! Two builds compared by their starts: whether the second follows the order, what both touch, and a map of
//! their code pages by first touch.

use super::map::{CodeMap, picture, text_maps};
use crate::chart::SvgPicture;
use crate::number::{change, count, counted, interval, percent, three_digits};
use crate::page::ReportDocument;
use crate::style::TextTone;
use crate::table::{ColumnAlignment, ReportTable};
use pagewise_model::pieces::{OrderCheck, OrderConformance, StartSeen};
use pagewise_model::run::SavedRun;
use pagewise_model::{Bytes, Nanos};

const FOLLOWED: &str = "the linker followed the order";
const IGNORED: &str = "the linker did not follow the order";

/// The comparison as lines.
#[must_use]
pub fn check_section(check: &OrderCheck) -> ReportDocument {
    let mut page = ReportDocument::default();
    if let Some(seen) = &check.conformance {
        page.append(conformance(seen));
    }
    page.section(figures(check));
    if let Some(verdict) = &check.time {
        let of =
            |e: &pagewise_model::trial::ArmEffect| interval(e.ratio, e.ratio_low, e.ratio_high);
        let effect = verdict.effect.as_ref().map_or_else(String::new, of);
        page.item("start", &format!("{effect} {}", verdict.why));
    }
    page
}

/// The comparison as a page, with the pictures.
#[must_use]
pub fn check_page(check: &OrderCheck, run: &SavedRun) -> String {
    let mut page = ReportDocument::default();
    page.figure(map(check));
    page.append(check_section(check));
    page.details("the pages as text", check_map(check));
    match (&check.time, check.conformance.map(|one| one.is_honoured())) {
        (Some(_), _) => crate::run::page(run, page),
        (None, Some(true)) => crate::run::page_titled(FOLLOWED, run, page),
        (None, Some(false)) => crate::run::page_titled(IGNORED, run, page),
        (None, None) => crate::run::page_titled("starts of two builds", run, page),
    }
}

fn conformance(seen: &OrderConformance) -> ReportDocument {
    let mut page = ReportDocument::default();
    let (word, tone) = match seen.is_honoured() {
        true => (FOLLOWED, TextTone::Good),
        false => (IGNORED, TextTone::Bad),
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
    page.para(&text, 0, TextTone::Plain);
    if !seen.is_honoured() {
        let text = "Compile with -ffunction-sections, give the order to the link of the whole program, and use an order of a build with the same link-time optimisation.";
        page.para(text, 0, TextTone::Warn);
    }
    page
}

fn figures(check: &OrderCheck) -> ReportTable {
    let mut table = ReportTable::new(&[
        ("the program's code, median of all starts", ColumnAlignment::Name),
        ("before", ColumnAlignment::Right),
        ("after", ColumnAlignment::Right),
        ("", ColumnAlignment::Right),
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

/// The pages of both builds as characters.
#[must_use]
pub fn check_map(check: &OrderCheck) -> ReportDocument {
    text_maps(maps(check).into())
}

fn map(check: &OrderCheck) -> SvgPicture {
    let title = "Pages of code, by the time of their first touch";
    picture(title, &format!("after {}, on a logarithmic scale", last(check)), &maps(check))
}

/// When the last page was touched.
fn last(check: &OrderCheck) -> Nanos {
    let touched = [&check.before, &check.after].into_iter().flat_map(|seen| &seen.touched);
    touched.map(|(_, at)| *at).max().unwrap_or(Nanos(1))
}

/// Both builds by offset in their files.
fn maps(check: &OrderCheck) -> [CodeMap; 2] {
    let last = last(check);
    [("before", &check.before), ("after", &check.after)].map(|(word, seen)| {
        let start = seen.text.iter().map(|(offset, _)| offset.0).min().unwrap_or_default();
        let end = seen.text.iter().map(|(offset, len)| offset.0 + len.0).max().unwrap_or(start);
        let touched = seen.touched.iter().map(|(offset, at)| (offset.0, *at));
        CodeMap::by_time(&format!("{word}: {}", seen.path), start..end, touched, last)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TerminalStyle;
    use pagewise_model::PageSize;

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
        let conformance = OrderConformance {
            names: 10,
            found: 10,
            in_order_share,
            ..OrderConformance::default()
        };
        OrderCheck { conformance: Some(conformance), before: seen(40), after: seen(10), time: None }
    }

    #[test]
    fn both_builds_stand_beside_each_other() {
        let style = TerminalStyle { colour: false, width: 80, unicode: false };
        let text = check_section(&check(1.0)).text(&style);
        assert!(text.starts_with("the linker followed the order\n"), "{text}");
        assert!(text.contains("pages touched") && text.contains("75% less"), "{text}");
        let text = check_section(&check(0.5)).text(&style);
        assert!(text.contains("did not follow") && text.contains("-ffunction-sections"), "{text}");
        let text = check_section(&OrderCheck { conformance: None, ..check(1.0) }).text(&style);
        assert!(text.trim_start().starts_with("the program's code"), "{text}");
    }

    #[test]
    fn the_map_shows_all_pages_and_colours_those_touched() {
        let svg = map(&check(1.0)).wide;
        assert_eq!(svg.matches("<title>after").count(), 50, "40 and 10");
        assert!(svg.contains("40 of 100 pages touched"), "{svg}");
        let style = TerminalStyle { colour: false, width: 80, unicode: false };
        let text = check_map(&check(1.0)).text(&style);
        assert!(text.contains("before: app\n40 of 100 pages touched\n"), "{text}");
    }
}
