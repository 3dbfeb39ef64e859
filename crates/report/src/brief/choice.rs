//! A choice on one screen: all but the slowest ways.

use super::{Brief, Kind};
use crate::choice::choice_lines;
use pagewise_model::body::Body;
use pagewise_model::run::Run;

pub(super) const KIND: Kind =
    Kind { parts, next: |_| None, notes: |run| run.warnings.clone(), most_rows: 12 };

fn parts(report: &mut Brief<'_>, run: &Run, rows: usize) {
    let Some(Body::Choice(choice)) = &run.body else { return };
    let lines = choice_lines(choice, rows).text(report.style);
    report.out.push_str(&format!("\n{lines}"));
    let slower = choice.forecasts.len().saturating_sub(rows);
    if slower > 0 {
        report.sentence("more", &format!("{slower} ways that take longer: --verbose or --json"));
    }
}
