//! The cost of page work, largest first, with the evidence under each cost.
//!
//! Shares are of CPU time, for wake-ups of wall time. A bound is marked "at most, estimate".

use crate::headline::without;
use crate::number::{at_most, percent};
use crate::page::ReportDocument;
use crate::paragraph::Paragraph;
use crate::style::TextTone;
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use pagewise_model::diagnosis::{CostBasis, CostKind, Diagnosis, KernelTime, PageCost};
use pagewise_model::run::SavedRun;
use pagewise_model::trial::{ComparedQuantity, VerdictWord};
use pagewise_model::{Fact, Nanos};

/// Smallest share of samples that is listed.
const LEAST_SHARE: f64 = 0.005;
/// Largest number of kernel symbols that are listed.
const MOST_SYMBOLS: usize = 4;

/// The diagnosis. Its ceiling is a share of `whole`, of which the share `proven` (0..1) is proven to be saved.
#[must_use]
pub fn diagnosis_section(diagnosis: &Diagnosis, whole: &str, proven: f64) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.heading("why: what its pages cost (share of CPU time; wake-ups: of wall time)");
    if diagnosis.costs.is_empty() {
        page.para("no page cost was found", 2, TextTone::Plain);
    }
    page.append(cost_table(&diagnosis.costs));
    page.item("ceiling", &ceiling(diagnosis, whole, proven));
    match &diagnosis.host_share {
        Fact::Known(share) => {
            let text = "of CPU time is system time above this session's price of a fault: the host";
            page.item("host", &format!("{} {text}", percent(*share)));
        }
        Fact::Missing(why) => page.item("host", &format!("not known: {why}")),
    }
    for sentence in &diagnosis.disagreements {
        page.item_tone("disagreement", sentence, TextTone::Warn);
    }
    match &diagnosis.kernel_time {
        Fact::Known(time) => page.item("samples", &kernel_time(time)),
        Fact::Missing(why) => {
            page.item("samples", &format!("none, so only counts are used: {why}"));
        }
    }
    page
}

/// The bound in words; empty if a proven gain exceeds it.
pub(crate) fn ceiling(diagnosis: &Diagnosis, whole: &str, proven: f64) -> String {
    if proven > diagnosis.ceiling_share {
        return "none: a proven gain is above what counts and prices explain".to_owned();
    }
    let share = at_most(diagnosis.ceiling_share);
    format!("removing all of it could save {share} of {whole} (estimate){}", without(diagnosis))
}

/// The least share (0..1) of its time that is proven to be saved; 0 without a proven gain.
pub(crate) fn proven_share(run: &SavedRun) -> f64 {
    let of_time =
        run.experiment.as_ref().filter(|one| one.design.quantity != ComparedQuantity::Memory);
    let kept = of_time.into_iter().flat_map(|one| &one.verdicts);
    let kept = kept.filter(|verdict| verdict.word == VerdictWord::Keep);
    let least = kept.filter_map(|verdict| Some(1.0 - verdict.effect.as_ref()?.ratio_high));
    least.fold(0.0, f64::max)
}

/// Where the samples fell in the kernel, largest first; leaves out shares that round to zero.
fn kernel_time(time: &KernelTime) -> String {
    let mut activities: Vec<(&str, f64)> =
        time.activity_share.iter().map(|(a, share)| (a.into_str(), *share)).collect();
    activities.sort_by(|a, b| b.1.total_cmp(&a.1));
    let list = |parts: &mut dyn Iterator<Item = (&str, f64)>| {
        let worth = parts.filter(|(_, share)| *share >= LEAST_SHARE);
        worth
            .map(|(name, share)| format!("{name} {}", percent(share)))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let text = list(&mut activities.into_iter());
    if text.is_empty() {
        return "almost none of them in the kernel".to_owned();
    }
    let symbols =
        time.symbol_share.iter().take(MOST_SYMBOLS).map(|(s, share)| (s.as_str(), *share));
    match list(&mut symbols.into_iter()) {
        symbols if symbols.is_empty() => text,
        symbols => format!("{text}; by symbol: {symbols}"),
    }
}

fn cost_table(costs: &[PageCost]) -> ReportDocument {
    let mut table = ReportTable::new(&[
        ("", ColumnAlignment::Name),
        ("", ColumnAlignment::Left),
        ("", ColumnAlignment::Decimal),
        ("", ColumnAlignment::Decimal),
        ("", ColumnAlignment::Left),
    ]);
    for cost in costs {
        let (basis, tone) = match cost.basis {
            CostBasis::CountsTimesPrice => ("counted", TextTone::Faint),
            CostBasis::UpperBound => ("at most, estimate", TextTone::Warn),
            CostBasis::Counters => ("hardware counters", TextTone::Faint),
            CostBasis::Samples => ("sampled", TextTone::Faint),
            CostBasis::Timed => ("timed", TextTone::Faint),
        };
        let cells = vec![
            cost.kind.into_str().into(),
            TableCell::bar(cost.time_share),
            percent(cost.time_share).into(),
            cost.cost_ns.to_string().into(),
            TableCell::new(basis, tone),
        ];
        table.row_with(cells, vec![Paragraph::new(evidence(cost), 6, TextTone::Faint)]);
    }
    table.into()
}

fn evidence(cost: &PageCost) -> String {
    let mut text = cost.evidence.clone();
    if let Fact::Known(Nanos(ns)) = cost.sampled_ns {
        text.push_str(&format!("; by samples {}", Nanos(ns)));
    }
    if cost.kind == CostKind::Wakeups {
        text.push_str("; share of wall time");
    }
    text
}
