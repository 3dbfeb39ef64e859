//! The cost of page work, largest first, with the evidence under each cost.
//!
//! Shares are of CPU time, for wake-ups of wall time. A bound is marked "at most, estimate".

use crate::headline::without;
use crate::number::{at_most, percent};
use crate::page::Document;
use crate::paragraph::Paragraph;
use crate::style::Tone;
use crate::table::{Align, Cell, Table};
use pagewise_model::diagnosis::{Basis, Cost, CostKind, Diagnosis, KernelTime};
use pagewise_model::run::Run;
use pagewise_model::trial::{Quantity, Word};
use pagewise_model::{Fact, Nanos};

/// Smallest share of samples that is listed.
const LEAST_SHARE: f64 = 0.005;
/// Largest number of kernel symbols that are listed.
const MOST_SYMBOLS: usize = 4;

/// The diagnosis. Its ceiling is a share of `whole`, of which the share `proven` (0..1) is proven to be saved.
#[must_use]
pub fn diagnosis_section(diagnosis: &Diagnosis, whole: &str, proven: f64) -> Document {
    let mut page = Document::default();
    page.heading("why: what its pages cost (share of CPU time; wake-ups: of wall time)");
    if diagnosis.costs.is_empty() {
        page.para("no page cost was found", 2, Tone::Plain);
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
        page.item_tone("disagreement", sentence, Tone::Warn);
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
pub(crate) fn proven_share(run: &Run) -> f64 {
    let of_time = run.experiment.as_ref().filter(|one| one.design.quantity != Quantity::Memory);
    let kept = of_time.into_iter().flat_map(|one| &one.verdicts);
    let kept = kept.filter(|verdict| verdict.word == Word::Keep);
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

fn cost_table(costs: &[Cost]) -> Document {
    let mut table = Table::new(&[
        ("", Align::Name),
        ("", Align::Left),
        ("", Align::Decimal),
        ("", Align::Decimal),
        ("", Align::Left),
    ]);
    for cost in costs {
        let (basis, tone) = match cost.basis {
            Basis::CountsTimesPrice => ("counted", Tone::Faint),
            Basis::UpperBound => ("at most, estimate", Tone::Warn),
            Basis::Counters => ("hardware counters", Tone::Faint),
            Basis::Samples => ("sampled", Tone::Faint),
            Basis::Timed => ("timed", Tone::Faint),
        };
        let cells = vec![
            cost.kind.into_str().into(),
            Cell::bar(cost.time_share),
            percent(cost.time_share).into(),
            cost.cost_ns.to_string().into(),
            Cell::new(basis, tone),
        ];
        table.row_with(cells, vec![Paragraph::new(evidence(cost), 6, Tone::Faint)]);
    }
    table.into()
}

fn evidence(cost: &Cost) -> String {
    let mut text = cost.evidence.clone();
    if let Fact::Known(Nanos(ns)) = cost.sampled_ns {
        text.push_str(&format!("; by samples {}", Nanos(ns)));
    }
    if cost.kind == CostKind::Wakeups {
        text.push_str("; share of wall time");
    }
    text
}
