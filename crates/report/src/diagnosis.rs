//! Why: what page work costs, largest first, with the evidence under each cost.
//!
//! Shares are of CPU time, those of wake-ups of wall time. A bound is marked "at most, estimate".

use crate::number::{bar, percent};
use crate::page::Page;
use crate::style::{Style, Tone};
use crate::table::{Align, Cell, Table};
use pagewise_model::diagnosis::{Basis, Cost, CostKind, Diagnosis};
use pagewise_model::look::Look;
use pagewise_model::{Fact, Nanos};

/// The diagnosis; `look` says why samples are missing.
#[must_use]
pub fn diagnosis_section(diagnosis: &Diagnosis, look: &Look, style: &Style) -> String {
    section(diagnosis, Some(look), style)
}

pub(crate) fn section(diagnosis: &Diagnosis, look: Option<&Look>, style: &Style) -> String {
    let mut page = Page::new(style);
    page.heading("why: what its pages cost (share of CPU time; wake-ups: of wall time)");
    if diagnosis.costs.is_empty() {
        page.para("no page cost was found", 2, Tone::Plain);
    }
    page.append(&cost_table(&diagnosis.costs, style));
    page.item("ceiling", &ceiling(diagnosis));
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
    if let Some(why) = look.and_then(|l| l.samples.reason()) {
        page.item("samples", &format!("none, so counts stand alone: {why}"));
    }
    page.finish()
}

fn ceiling(diagnosis: &Diagnosis) -> String {
    let share = percent(diagnosis.ceiling_share);
    format!("removing all of it could save at most {share} of wall time (estimate)")
}

fn cost_table(costs: &[Cost], style: &Style) -> String {
    let mut table = Table::new(&[
        ("", Align::Name),
        ("", Align::Left),
        ("", Align::Decimal),
        ("", Align::Decimal),
        ("", Align::Left),
    ]);
    let bar_width = if style.columns() >= 76 { 16 } else { 8 };
    for cost in costs {
        let (basis, tone) = match cost.basis {
            Basis::CountsTimesPrice => ("counted", Tone::Faint),
            Basis::UpperBound => ("at most, estimate", Tone::Warn),
            Basis::Counters => ("hardware counters", Tone::Faint),
        };
        let cells = vec![
            cost.kind.label().into(),
            bar(cost.time_share, bar_width, style.unicode).into(),
            percent(cost.time_share).into(),
            cost.cost_ns.to_string().into(),
            Cell::new(basis, tone),
        ];
        let mut under = Page::new(style);
        under.para(&evidence(cost), 6, Tone::Faint);
        table.row_with(cells, under.finish());
    }
    table.render(style)
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
