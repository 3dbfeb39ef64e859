//! The exactness of a recording without fault-around, what fault-around would map, and the forecast for other
//! page sizes.

use crate::number::{count, counted, percent, whole_size};
use crate::page::ReportDocument;
use crate::style::TextTone;
use crate::table::{ColumnAlignment, ReportTable};
use pagewise_model::fault::{ExactTouch, FaultAround, FaultReport};

/// Adds how exact the touches are.
pub(super) fn touches(exact: &ExactTouch, page: &mut ReportDocument) {
    let mappings = counted(exact.mappings, "mapping of a file", "mappings of files");
    let text = format!("each page has its own fault in {mappings}; no times are recorded");
    page.item("exact", &text);
    for text in left(exact) {
        page.item_tone("not exact", &text, TextTone::Warn);
    }
}

/// What was not recorded page by page.
pub(super) fn left(exact: &ExactTouch) -> Vec<String> {
    let mut found = Vec::new();
    if exact.left_mappings > 0 {
        let left = counted(exact.left_mappings, "shared mapping", "shared mappings");
        found.push(format!(
            "{left} of files open only for reading: a fault also maps neighbouring pages"
        ));
    }
    found.extend(
        exact
            .left_programs
            .iter()
            .map(|left| format!("{}: {}", counted(left.programs, "program", "programs"), left.why)),
    );
    found
}

/// What is mapped along with pages of files, and how much of it is never touched.
pub(super) fn around(around: &FaultAround, is_exact: bool) -> String {
    let (mapped, untouched) = (around.mapped_bytes, around.untouched_bytes);
    let faults = counted(around.faults, "fault", "faults");
    let share = percent(untouched.0 as f64 / mapped.0.max(1) as f64);
    if is_exact {
        format!(
            "without --exact, {faults} would also map {mapped} of files; {untouched} of it ({share}) is never touched"
        )
    } else {
        format!(
            "{faults} also mapped up to {mapped} of files; up to {untouched} of it is never touched (--exact measures it)"
        )
    }
}

/// Faults and memory by page size.
pub(super) fn page_sizes(report: &FaultReport) -> ReportDocument {
    let [_, _, ..] = report.page_forecasts[..] else { return ReportDocument::default() };
    let mut table = ReportTable::new(&[
        ("page size", ColumnAlignment::Right),
        ("faults", ColumnAlignment::Right),
        ("memory", ColumnAlignment::Right),
        ("never touched", ColumnAlignment::Right),
    ]);
    for forecast in &report.page_forecasts {
        table.row(vec![
            whole_size(forecast.page_bytes).into(),
            count(forecast.faults).into(),
            forecast.memory_bytes.to_string().into(),
            forecast.untouched_bytes.to_string().into(),
        ]);
    }
    let mut page = ReportDocument::default();
    page.append(table);
    let around = match report.exact {
        Some(_) => "without fault-around",
        None => "fault-around as recorded: pages mapped along with a fault count as never touched",
    };
    let text = format!(
        "forecast from the pages faulted on: base pages of 16 and 64 KiB, huge pages of 2 MiB where \
         a mapping holds all of one; {around}"
    );
    page.para(&text, 2, TextTone::Faint);
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::Bytes;
    use pagewise_model::fault::LeftProgram;

    #[test]
    fn what_is_mapped_along_is_a_bound_unless_each_touch_is_known() {
        let sums = FaultAround {
            faults: 3,
            mapped_bytes: Bytes::kib(180),
            untouched_bytes: Bytes::kib(90),
        };
        assert_eq!(
            around(&sums, true),
            "without --exact, 3 faults would also map 180 KiB of files; 90.0 KiB of it \
             (50%) is never touched"
        );
        let bound = around(&sums, false);
        assert_eq!(bound.matches("up to").count(), 2, "{bound}");
    }

    #[test]
    fn what_is_not_exact_is_reported() {
        let reported = |exact: &ExactTouch| {
            let mut page = ReportDocument::default();
            touches(exact, &mut page);
            page.text(&crate::TerminalStyle::default())
        };
        let mut exact = ExactTouch { mappings: 12, ..ExactTouch::default() };
        assert!(!reported(&exact).contains("not exact"), "{}", reported(&exact));
        exact.left_mappings = 1;
        exact.left_programs = vec![LeftProgram { why: "it runs 32-bit code".into(), programs: 2 }];
        let text = reported(&exact);
        assert_eq!(text.matches("not exact").count(), 2, "{text}");
        assert!(text.contains("2 programs: it runs 32-bit code"), "{text}");
    }
}
