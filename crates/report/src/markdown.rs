//! A run for a pull request: GitHub's markdown. Foreign text is escaped twice, for control characters and for
//! markup (a name must neither open a tag nor mention a person). Exact lines stand in fences.

use crate::diagnosis::{ceiling, proven_share};
use crate::escape::escape;
use crate::headline::headline;
use crate::memory_account::{by_kind, share};
use crate::number::percent;
use crate::run::whole;
use crate::shell::start_line;
use crate::{bench, code_tlb, experiment, service, text_trial};
use pagewise_model::body::RunBody;
use pagewise_model::diagnosis::{CostBasis, Diagnosis};
use pagewise_model::memory_account::MemoryAccount;
use pagewise_model::plan::RemedyReceipt;
use pagewise_model::run::{RunKind, SavedRun};

/// Most rows of the table of a bench.
const MOST_ROWS: usize = 12;

/// The run as markdown: verdict, command, costs, arms, receipt, notes.
#[must_use]
pub fn markdown(run: &SavedRun) -> String {
    let mut out = format!("**{}**\n\n", inline(&headline(run)));
    if !run.command.is_empty() {
        out.push_str(&fence(&[escape(&start_line(run))]));
    }
    if let Some(diagnosis) = &run.diagnosis {
        out.push_str(&costs(diagnosis, run));
    }
    if let Some(account) = &run.memory {
        out.push_str(&memory(account));
    }
    if let Some(experiment) = &run.experiment {
        let table = match &run.service {
            Some(service) => service::arms_table(service, experiment),
            None => experiment::arms_table(
                experiment,
                run.kind == RunKind::Ab,
                &experiment::asides(experiment.design.quantity),
            ),
        };
        out.push_str(&format!("{}\n", table.markdown()));
    }
    if let Some(bench) = bench::in_run(run) {
        let table = bench::short(bench, MOST_ROWS).table;
        out.push_str(&format!("{}\n", table.markdown()));
    }
    if let Some(RunBody::TextTrial(trial)) = &run.body {
        let lines = [text_trial::summary(trial), format!("iTLB: {}", code_tlb::of_trial(trial))];
        lines.iter().for_each(|line| out.push_str(&format!("- {}\n", inline(line))));
        out.push('\n');
    }
    for check in run.output_checks.iter().filter(|c| !c.equal) {
        let notes = check.notes.join("; ");
        out.push_str(&format!(
            "- output of {} differs: {}\n\n",
            inline(&check.arm),
            inline(&notes)
        ));
    }
    if let Some(receipt) = &run.receipt {
        out.push_str(&receipt_part(receipt));
    }
    let warnings = run.experiment.iter().flat_map(|e| &e.warnings).chain(&run.warnings);
    for warning in warnings {
        out.push_str(&format!("- {}\n", inline(warning)));
    }
    if let Some(machine) = &run.machine {
        let (line, version) = (inline(&machine.line()), inline(&run.pagewise));
        out.push_str(&format!("\n{line}; pagewise {version}, run {}\n", inline(&run.id)));
    }
    out
}

/// Foreign text, escaped for a line of markdown.
pub(crate) fn inline(text: &str) -> String {
    let mut out = String::new();
    for c in escape(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '@' => out.push_str("&#64;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '|' | '!' | '~' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

/// A code block with a fence longer than any run of backticks in it.
fn fence(lines: &[String]) -> String {
    let longest = lines.iter().flat_map(|l| l.split(|c| c != '`')).map(str::len).max();
    let fence = "`".repeat(longest.unwrap_or(0).max(2) + 1);
    format!("{fence}sh\n{}\n{fence}\n\n", lines.join("\n"))
}

/// Bytes by kind.
fn memory(account: &MemoryAccount) -> String {
    let mut out = "| memory | bytes | share |\n|---|---:|---:|\n".to_owned();
    for (kind, bytes) in by_kind(account) {
        let part = percent(share(bytes, account.pss()));
        out.push_str(&format!("| {} | {bytes} | {part} |\n", kind.into_str()));
    }
    out + "\n"
}

fn costs(diagnosis: &Diagnosis, run: &SavedRun) -> String {
    let mut out = String::from("| page cost | share | time | how |\n|---|--:|--:|---|\n");
    for cost in &diagnosis.costs {
        let basis = match cost.basis {
            CostBasis::CountsTimesPrice => "counted",
            CostBasis::UpperBound => "at most, estimate",
            CostBasis::Counters => "hardware counters",
            CostBasis::Samples => "sampled",
            CostBasis::Timed => "timed",
        };
        let (kind, share) = (cost.kind.into_str(), percent(cost.time_share));
        out.push_str(&format!("| {kind} | {share} | {} | {basis} |\n", cost.cost_ns));
    }
    let ceiling = ceiling(diagnosis, whole(run), proven_share(run));
    out.push_str(&format!("\nCeiling: {ceiling}.\n\n"));
    out
}

fn receipt_part(receipt: &RemedyReceipt) -> String {
    let exact = |line: &String| line.split('\n').map(escape).collect::<Vec<_>>().join("\n");
    let mut out = String::new();
    let command: Vec<String> =
        Some(&receipt.command).filter(|c| !c.is_empty()).map(exact).into_iter().collect();
    let parts = [
        ("To keep it:", command),
        ("With environment variables only:", receipt.environment.iter().map(exact).collect()),
        ("As a systemd drop-in:", receipt.systemd.iter().map(exact).collect()),
    ];
    for (title, lines) in parts {
        if !lines.is_empty() {
            out.push_str(&format!("{title}\n\n{}", fence(&lines)));
        }
    }
    if !receipt.undo.is_empty() {
        out.push_str(&format!("To go back: {}\n\n", inline(&receipt.undo)));
    }
    for note in &receipt.notes {
        out.push_str(&format!("- {}\n", inline(note)));
    }
    out
}
