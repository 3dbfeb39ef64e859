//! A choice on one screen: all but the slowest ways.

use super::{Brief, BriefKind};
use crate::choice::choice_lines;
use pagewise_model::body::RunBody;
use pagewise_model::run::SavedRun;

pub(super) const KIND: BriefKind =
    BriefKind { parts, next: |_| None, notes: |run| run.warnings.clone(), most_rows: 12 };

fn parts(report: &mut Brief<'_>, run: &SavedRun, rows: usize) {
    let Some(RunBody::Choice(choice)) = &run.body else { return };
    let lines = choice_lines(choice, rows).text(report.style);
    report.out.push_str(&format!("\n{lines}"));
    let slower = choice.forecasts.len().saturating_sub(rows);
    if slower > 0 {
        report.sentence("more", &format!("{slower} ways that take longer: --verbose or --json"));
    }
}
