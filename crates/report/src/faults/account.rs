//! The account of faults: the kernel's count, and what explains it.

use crate::number::{count, counted};
use crate::page::ReportDocument;
use crate::style::TextTone;
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use pagewise_model::Fact;
use pagewise_model::fault::{CallTally, FaultAccount};

/// Largest number of calls that are named; the saved form has all.
const CALLS: usize = 8;

/// The account as a table, and what it leaves open; `is_attached` if the process was already running.
pub(super) fn account(account: &FaultAccount, is_attached: bool) -> ReportDocument {
    let mut table =
        ReportTable::new(&[("account", ColumnAlignment::Left), ("faults", ColumnAlignment::Right)]);
    let fact = |fact: &Fact<u64>| fact.known().map_or_else(|| "not known".into(), |n| count(*n));
    let unexplained = account.unexplained_faults.known().map_or_else(
        || "not known".to_owned(),
        |n| format!("{}{}", if *n < 0 { "-" } else { "" }, count(n.unsigned_abs())),
    );
    for (name, value) in [
        ("counted by the kernel (rusage)", fact(&account.rusage_faults)),
        ("  before the program began", fact(&account.before_exec_faults)),
        ("  in user mode", count(account.user_faults)),
        ("  in the kernel, for the program", fact(&account.kernel_faults)),
        ("  making processes, executing programs", fact(&account.start_faults)),
        ("  populated and pinned pages", fact(&account.populate_faults)),
        ("  in the kernel, outside of calls", fact(&account.outside_faults)),
        ("  unexplained", unexplained),
        ("begun and not served (not in rusage)", fact(&account.failed_faults)),
    ] {
        table.row(vec![TableCell::from(name), value.into()]);
    }
    let mut page = ReportDocument::default();
    page.append(table);
    if !account.calls.is_empty() {
        page.para(&calls(&account.calls), 2, TextTone::Plain);
    }
    page.para(&what_is_unexplained(account, is_attached), 2, TextTone::Faint);
    page
}

fn calls(calls: &[CallTally]) -> String {
    let named: Vec<String> = calls
        .iter()
        .take(CALLS)
        .map(|call| format!("{} {}", call.call, count(call.faults)))
        .collect();
    let rest = match calls.len().saturating_sub(CALLS) {
        0 => String::new(),
        more => format!(" and {}", counted(more as u64, "other call", "other calls")),
    };
    format!("inside calls: {}{rest}", named.join(", "))
}

fn what_is_unexplained(account: &FaultAccount, is_attached: bool) -> String {
    if let Some(why) = account.unexplained_faults.reason() {
        return format!("the unexplained part is not known: {why}");
    }
    let negative = match account.unexplained_faults {
        Fact::Known(n) if n < 0 => "; negative: rusage omits processes that no parent waited for",
        _ => "",
    };
    if account.outside_faults.known().is_some() {
        return format!("unexplained: faults that neither call counters nor events show{negative}");
    }
    if account.start_faults.known().is_some() {
        return format!(
            "unexplained: faults of the kernel outside calls, visible only with more rights: \
             signal frames, writes after a fork, the end of processes{negative}"
        );
    }
    let mut parts = vec!["populated and pinned pages", "making processes and executing programs"];
    if account.kernel_faults.known().is_none() {
        parts.insert(0, "faults in the kernel");
    }
    if account.before_exec_faults.known().is_none() && !is_attached {
        parts.insert(0, "faults before the program began");
    }
    let parts = parts.join(", ");
    let hint = if is_attached { "" } else { "; --account counts them at each call" };
    format!("unexplained: faults without events: {parts}{negative}{hint}")
}
