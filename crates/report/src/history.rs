//! Saved runs, one line each; the times of programs over their sessions; lost gains.

use crate::headline::{headline, outcome_line};
use crate::number::{change, date, interval};
use crate::page::ReportDocument;
use crate::recheck::recheck_page;
use crate::shell::command_line;
use crate::style::{TerminalStyle, TextTone};
use crate::table::{ColumnAlignment, ReportTable};
use pagewise_model::history::Trend;
use pagewise_model::recheck::GainRecheck;
use pagewise_model::run::{RunKind, SavedRun};

/// Largest number of sessions whose medians are drawn.
const DRAWN: usize = 24;
/// Steps of a drawing, lowest first; below, in plain ASCII.
const STEPS: [char; 8] = [
    '\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}', '\u{2588}',
];
const PLAIN_STEPS: [char; 8] = ['.', ':', '-', '=', '+', '*', '%', '#'];
/// Least range of a drawing, as a share of the lowest value: smaller changes are noise.
const LEAST_SPAN: f64 = 0.1;

/// The facts that `history` shows of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunHead {
    /// Its permanent number, for `pagewise show N`.
    pub number: usize,
    /// Start, nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// The command that made it.
    pub kind: RunKind,
    /// The command that was examined.
    pub command: Vec<String>,
    /// The outcome; for two commands, in the words of `ab`.
    pub outcome: String,
}

impl RunHead {
    /// The head of the run with this number.
    #[must_use]
    pub fn new(number: usize, run: &SavedRun) -> Self {
        Self {
            number,
            started_unix_ns: run.started_unix_ns,
            kind: run.kind,
            command: run.command.clone(),
            outcome: match (&run.outcome, run.kind) {
                (Some(_), RunKind::Ab) => headline(run),
                (outcome, _) => outcome.as_ref().map_or_else(String::new, outcome_line),
            },
        }
    }
}

/// The command that makes a run of this kind.
pub(crate) const fn kind_label(kind: RunKind) -> &'static str {
    match kind {
        RunKind::Tune => "tune",
        RunKind::Ab => "ab",
        RunKind::Profile => "profile",
        RunKind::Doctor => "doctor",
        RunKind::Bench => "bench",
        RunKind::Faults => "faults",
        RunKind::Cache => "cache",
        RunKind::Text => "text",
        RunKind::Choose => "choose",
    }
}

/// Saved runs as a table, in the order given.
#[must_use]
pub fn history_table(heads: &[RunHead], style: &TerminalStyle) -> String {
    if heads.is_empty() {
        return "no saved runs\n".to_owned();
    }
    let mut table = ReportTable::new(&[
        ("run", ColumnAlignment::Right),
        ("started (UTC)", ColumnAlignment::Left),
        ("kind", ColumnAlignment::Left),
        ("command", ColumnAlignment::Text),
        ("outcome", ColumnAlignment::Text),
    ]);
    for head in heads {
        table.row(vec![
            head.number.to_string().into(),
            date(head.started_unix_ns).into(),
            kind_label(head.kind).into(),
            command_line(&head.command).into(),
            head.outcome.as_str().into(),
        ]);
    }
    table.render(style)
}

/// Programs with the course of their times, each with its machine.
#[must_use]
pub fn trend_table(trends: &[Trend], style: &TerminalStyle) -> String {
    if trends.is_empty() {
        return "no command has two sessions on one machine\n".to_owned();
    }
    let mut page = ReportDocument::default();
    for trend in trends {
        page.section(trend_section(trend, style.unicode));
    }
    page.text(style)
}

fn trend_section(trend: &Trend, unicode: bool) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.single(&command_line(&trend.command), 0, TextTone::Strong);
    let (Some(first), Some(last)) = (trend.points.first(), trend.points.last()) else {
        return page;
    };
    let what = if trend.is_service { "CPU per request" } else { "time" };
    let steps = if unicode { &STEPS } else { &PLAIN_STEPS };
    let text = format!(
        "{} {} to {} in {} sessions, {} to {}",
        drawing(trend, steps),
        first.typical_ns,
        last.typical_ns,
        trend.points.len(),
        date(first.started_unix_ns),
        date(last.started_unix_ns)
    );
    page.item(what, &text);
    let text = match &trend.change {
        Some(ratio) => {
            let range = interval(ratio.ratio, ratio.ratio_low, ratio.ratio_high);
            let is_open = ratio.ratio_low <= 1.0 && 1.0 <= ratio.ratio_high;
            let doubt = if is_open { "cannot tell: " } else { "" };
            format!("{doubt}{} from first to last (95%: {range})", change(ratio.ratio))
        }
        None => "too few runs for a verdict".to_owned(),
    };
    page.item("change", &text);
    let mut kernels: Vec<&str> = trend.points.iter().map(|point| point.kernel.as_str()).collect();
    kernels.dedup();
    if kernels.len() > 1 {
        page.item("kernel", &kernels.join(", then "));
    }
    page.item("machine", &trend.machine);
    page
}

/// The medians of the newest sessions as steps between the lowest and the highest.
fn drawing(trend: &Trend, steps: &[char; 8]) -> String {
    let older = trend.points.len().saturating_sub(DRAWN);
    let values: Vec<f64> =
        trend.points.iter().skip(older).map(|point| point.typical_ns.0 as f64).collect();
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    let span = (most - least).max(least * LEAST_SPAN).max(1.0);
    let step = |value: &f64| {
        let at = ((value - least) / span * 7.0).round().clamp(0.0, 7.0) as usize;
        steps.get(at).copied().unwrap_or(' ')
    };
    values.iter().map(step).collect()
}

/// Gains that were proven once and are lost; empty without any.
#[must_use]
pub fn lost_gains_page(lost: &[GainRecheck]) -> ReportDocument {
    let mut page = ReportDocument::default();
    for one in lost {
        page.blank();
        page.append(recheck_page(one));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::Nanos;
    use pagewise_model::history::TrendPoint;
    use pagewise_model::trial::TimeRatio;

    fn trend(ms: &[u64]) -> Trend {
        let point = |(n, ms): (usize, &u64)| TrendPoint {
            run: n.to_string(),
            started_unix_ns: 0,
            kernel: if n < 2 { "6.1" } else { "6.18" }.to_owned(),
            typical_ns: Nanos::millis(*ms),
        };
        Trend {
            command: vec!["app".to_owned()],
            machine: "2 x none".to_owned(),
            is_service: false,
            points: ms.iter().enumerate().map(point).collect(),
            change: Some(TimeRatio { ratio: 2.0, ratio_low: 1.8, ratio_high: 2.2 }),
        }
    }

    #[test]
    fn medians_are_drawn_between_the_lowest_and_the_highest() {
        assert_eq!(drawing(&trend(&[100, 200, 150]), &PLAIN_STEPS), ".#+");
        // Changes below a tenth are noise, and are drawn flat or nearly so.
        assert_eq!(drawing(&trend(&[1000, 1001]), &PLAIN_STEPS), "..");
        let many: Vec<u64> = (0..60).collect();
        assert_eq!(drawing(&trend(&many), &STEPS).chars().count(), DRAWN);
    }

    #[test]
    fn a_trend_names_its_change_and_its_kernels() {
        let style = TerminalStyle { colour: false, width: 80, unicode: false };
        let shown = trend_table(&[trend(&[100, 100, 200])], &style);
        for part in [
            "app\n",
            "..# 100.0 ms to 200.0 ms in 3 sessions",
            "100% more from first",
            "6.1, then 6.18",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(trend_table(&[], &style).contains("no command"));
    }
}
