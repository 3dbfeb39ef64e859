//! Time and memory of each arm side by side, with the memory that an arm spends per time saved.

use crate::number::{change, percent};
use crate::page::ReportDocument;
use crate::style::TextTone;
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use pagewise_model::trial::{Experiment, TimeAndMemory};

/// From this width on, figures stand beside their changes.
const ROOMY: usize = 76;
/// Least number of arms, with the control, for a table that says more than the verdicts.
const SEVERAL: usize = 3;

/// Time and memory of each arm; empty if fewer than [`SEVERAL`] arms ran.
pub(crate) fn tradeoff_section(experiment: &Experiment) -> ReportDocument {
    let mut page = ReportDocument::default();
    let all = &experiment.time_and_memory;
    if all.len() < SEVERAL {
        return page;
    }
    page.heading("time and memory side by side");
    let (wide, narrow) = (table(experiment, true), table(experiment, false));
    page.fitted(move |style| if style.columns() >= ROOMY { &wide } else { &narrow }.clone());
    let of = match experiment.points_of(&experiment.design.control).next() {
        Some(point) if point.usage.memory.is_some() => "all processes together",
        _ => "the largest process",
    };
    let text = format!(
        "medians; memory is the peak of {of}. Unbeaten: no other arm has less of one without more of the other"
    );
    page.para(&text, 2, TextTone::Faint);
    page
}

/// The table, with figures beside their changes if `roomy`.
fn table(experiment: &Experiment, roomy: bool) -> ReportDocument {
    let figure = ColumnAlignment::Decimal;
    let mut columns = vec![("arm", ColumnAlignment::Name), ("time", figure)];
    match roomy {
        true => columns.extend([("", figure), ("memory", figure), ("", figure)]),
        false => columns.push(("memory", figure)),
    }
    let price = if roomy { "memory for 1% time" } else { "for 1% time" };
    columns.extend([(price, figure), ("", ColumnAlignment::Left)]);
    let mut table = ReportTable::new(&columns);
    for one in &experiment.time_and_memory {
        table.row(row(one, one.arm == experiment.design.control, roomy));
    }
    table.into()
}

fn row(one: &TimeAndMemory, is_control: bool, roomy: bool) -> Vec<TableCell> {
    let [time, memory] = [
        (one.time_ns.to_string(), one.time_ratio),
        (one.memory_bytes.to_string(), one.memory_ratio),
    ]
    .map(|(figure, ratio)| -> Vec<TableCell> {
        match (roomy, is_control) {
            (true, true) => vec![figure.into(), "".into()],
            (true, false) => vec![figure.into(), change(ratio).into()],
            (false, true) => vec![figure.into()],
            (false, false) => vec![change(ratio).into()],
        }
    });
    let mark = match one.is_on_front {
        true => TableCell::new("unbeaten", TextTone::Good),
        false => "".into(),
    };
    let (arm, price) = (one.arm.as_str().into(), price(one).into());
    [vec![arm], time, memory, vec![price, mark]].concat()
}

/// The memory that one percent of time costs, or saves if the arm takes more time; empty if unknown.
fn price(one: &TimeAndMemory) -> String {
    let shown = |price: f64| {
        let word = if one.memory_ratio > 1.0 { "more" } else { "less" };
        format!("{} {word}", percent(price / 100.0))
    };
    one.memory_price.map_or_else(String::new, shown)
}
