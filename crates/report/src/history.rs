//! Saved runs, one line each.

use crate::headline::outcome_line;
use crate::number::date;
use crate::shell::command_line;
use crate::style::Style;
use crate::table::{Align, Table};
use pagewise_model::run::{Outcome, Run, RunKind};

/// What `history` shows of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunHead {
    /// Its place among all saved runs, counted from the newest, which is 1: `pagewise show N`.
    pub number: usize,
    /// Start, nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// Which command made it.
    pub kind: RunKind,
    /// The command that was examined.
    pub command: Vec<String>,
    /// How it ended.
    pub outcome: Option<Outcome>,
}

impl RunHead {
    /// The head of the run with this number.
    #[must_use]
    pub fn new(number: usize, run: &Run) -> Self {
        Self {
            number,
            started_unix_ns: run.started_unix_ns,
            kind: run.kind,
            command: run.command.clone(),
            outcome: run.outcome.clone(),
        }
    }
}

/// The word typed to make a run of this kind.
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
pub fn history_table(heads: &[RunHead], style: &Style) -> String {
    if heads.is_empty() {
        return "no saved runs\n".to_owned();
    }
    let mut table = Table::new(&[
        ("run", Align::Right),
        ("started (UTC)", Align::Left),
        ("kind", Align::Left),
        ("command", Align::Text),
        ("outcome", Align::Text),
    ]);
    for head in heads {
        let outcome = head.outcome.as_ref().map_or_else(String::new, outcome_line);
        table.row(vec![
            head.number.to_string().into(),
            date(head.started_unix_ns).into(),
            kind_label(head.kind).into(),
            command_line(&head.command).into(),
            outcome.into(),
        ]);
    }
    table.render(style)
}
