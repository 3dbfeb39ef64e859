//! Rungs with and without a switch: both rates, and their ratio with its interval.

use super::{consumption_label, picture};
use crate::csv::known;
use crate::number::{UNKNOWN, counted, ratio_text, three_digits};
use crate::page::ReportDocument;
use crate::style::TextTone;
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use pagewise_model::bench::pipe::{PipeBenchReport, PipePoint, PointSpeed, RungStep};

/// The pairs with their comparison; none if nothing was compared.
fn pairs(ladder: &PipeBenchReport) -> &[RungStep] {
    match (&ladder.compared, &ladder.judgement) {
        (Some(_), Some(judgement)) => &judgement.steps,
        _ => &[],
    }
}

/// What the table shows; `None` if nothing was compared.
pub(super) fn title(ladder: &PipeBenchReport) -> Option<String> {
    let switch = ladder.compared?.into_str();
    Some(format!("with --{switch} and without, GiB/s; ratio with its 95% interval"))
}

/// The answer in one sentence; `None` if nothing was compared.
pub(super) fn headline(ladder: &PipeBenchReport) -> Option<String> {
    let switch = ladder.compared?.into_str();
    let of = |pace| pairs(ladder).iter().filter(|step| step.comparison.pace == pace).count();
    let all = counted(pairs(ladder).len() as u64, "pair", "pairs");
    let (faster, slower) = (of(PointSpeed::Faster), of(PointSpeed::Slower));
    Some(format!("pipes with --{switch}: faster in {faster}, slower in {slower} of {all}"))
}

pub(super) fn table(ladder: &PipeBenchReport, rows: usize) -> ReportTable {
    let mut table = ReportTable::new(&[
        ("", ColumnAlignment::Name),
        ("", ColumnAlignment::Left),
        ("without", ColumnAlignment::Decimal),
        ("with", ColumnAlignment::Decimal),
        ("ratio", ColumnAlignment::Left),
        ("", ColumnAlignment::Left),
    ]);
    for step in pairs(ladder).iter().take(rows) {
        let point = |at: usize| ladder.points.get(at);
        let rate = |at| {
            let rate = point(at).and_then(PipePoint::rate);
            TableCell::from(rate.map_or_else(|| UNKNOWN.to_owned(), |r| three_digits(r.median)))
        };
        let comparison = &step.comparison;
        let (word, tone) = match comparison.pace {
            PointSpeed::Faster => ("faster", TextTone::Good),
            PointSpeed::Slower => ("slower", TextTone::Warn),
            PointSpeed::CannotTell => ("cannot tell", TextTone::Faint),
        };
        table.row(vec![
            picture::rung_name(ladder, step.from).into(),
            point(step.from).map_or(UNKNOWN, |p| consumption_label(p.consumption)).into(),
            rate(step.from),
            rate(step.to),
            ratio_text(comparison.ratio, &comparison.interval).into(),
            TableCell::new(word, tone),
        ]);
    }
    table
}

/// All pairs under their heading; empty if nothing was compared.
pub(super) fn section(ladder: &PipeBenchReport) -> ReportDocument {
    let mut page = ReportDocument::default();
    if let Some(title) = title(ladder) {
        page.heading(&title);
        page.append(table(ladder, usize::MAX));
    }
    page
}

/// The ratio of point number `at` to the same rung without the switch, and its interval, as fields of CSV.
pub(super) fn fields(ladder: &PipeBenchReport, at: usize) -> [String; 3] {
    let comparison = pairs(ladder).iter().find(|step| step.to == at).map(|step| &step.comparison);
    let interval = comparison.and_then(|comparison| comparison.interval.known());
    let ratios = [
        comparison.map(|comparison| comparison.ratio),
        interval.map(|(low, _)| *low),
        interval.map(|(_, high)| *high),
    ];
    ratios.map(|ratio| known(ratio.map(|ratio| format!("{ratio:.4}"))))
}
