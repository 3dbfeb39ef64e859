//! How to keep a gain and how to undo it, and whether the output stayed the same.

use crate::page::ReportDocument;
use crate::style::TextTone;
use pagewise_model::Nanos;
use pagewise_model::plan::RemedyReceipt;
use pagewise_model::run::{OutputCheck, SavedRun, SessionOutcome};
use pagewise_model::trial::VerdictWord;

/// The receipt. Its lines are exact at any width, so that they can be copied.
#[must_use]
pub fn receipt_section(receipt: &RemedyReceipt, is_proven: bool) -> ReportDocument {
    let mut page = ReportDocument::default();
    if !receipt.command.is_empty() {
        page.heading(if is_proven { "to keep it" } else { "to use it (likely, not proven)" });
        page.exact(&receipt.command);
    }
    exact_lines(&mut page, "or with environment variables only", &receipt.environment);
    exact_lines(&mut page, "as a systemd drop-in", &receipt.systemd);
    if let Some(lines) = &receipt.containers {
        exact_lines(&mut page, "in a container", std::slice::from_ref(&lines.docker_run));
        exact_lines(&mut page, "in a Compose file", &lines.compose);
        exact_lines(&mut page, "in a container of a Kubernetes pod", &lines.kubernetes);
    }
    if !receipt.notes.is_empty() {
        page.heading("what it costs, what to know");
        for note in &receipt.notes {
            page.bullet(note, TextTone::Plain);
        }
    }
    if !receipt.undo.is_empty() {
        page.heading("to go back");
        page.para(&receipt.undo, 4, TextTone::Plain);
    }
    page
}

/// Adds lines to copy under a heading; nothing without lines.
pub(crate) fn exact_lines(page: &mut ReportDocument, heading: &str, lines: &[String]) {
    if !lines.is_empty() {
        page.heading(heading);
        for line in lines {
            page.exact(line);
        }
    }
}

/// The command that continues a session with an open question.
#[must_use]
pub fn continue_section(run: &SavedRun) -> ReportDocument {
    let mut page = ReportDocument::default();
    if let Some(line) = continue_line(run) {
        page.heading("to settle it");
        page.exact(&line);
    }
    page
}

/// The command as a line; `None` if the question is settled.
pub(crate) fn continue_line(run: &SavedRun) -> Option<String> {
    let is_open = matches!(
        run.outcome,
        Some(
            SessionOutcome::Likely { .. }
                | SessionOutcome::CannotTell { .. }
                | SessionOutcome::Interrupted
        )
    );
    let can_continue = run.can_continue() && !run.id.is_empty();
    let experiment = run
        .experiment
        .as_ref()
        .filter(|e| is_open && can_continue && e.halted.is_none() && !e.verdicts.is_empty())?;
    let settled = |word: VerdictWord| {
        let of_word = experiment.verdicts.iter().filter(move |verdict| verdict.word == word);
        of_word.filter_map(|verdict| verdict.settled_by_ns).min()
    };
    let known = settled(VerdictWord::Likely)
        .or_else(|| settled(VerdictWord::CannotTell))
        .or_else(|| settled(VerdictWord::NotTried));
    let seconds = known.unwrap_or(experiment.design.budget_ns).0.div_ceil(Nanos::secs(1).0);
    Some(format!("pagewise tune --continue {} --budget {seconds}s", run.id))
}

/// The output of each arm compared with a plain run.
#[must_use]
pub fn output_section(checks: &[OutputCheck]) -> ReportDocument {
    let mut page = ReportDocument::default();
    if checks.is_empty() {
        return page;
    }
    page.heading("output compared with a plain run");
    for check in checks {
        let (word, tone) =
            if check.equal { ("equal", TextTone::Good) } else { ("DIFFERS", TextTone::Bad) };
        let notes: String = check.notes.iter().map(|n| format!("; {n}")).collect();
        page.item_tone(&check.arm, &format!("{word}{notes}"), tone);
    }
    page
}
