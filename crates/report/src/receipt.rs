//! How to keep a gain and how to go back, and whether the output stayed the same.

use crate::page::Page;
use crate::style::{Style, Tone};
use pagewise_model::plan::Receipt;
use pagewise_model::run::OutputCheck;

/// The receipt: its lines are exact, whatever the width, so that they can be copied.
#[must_use]
pub fn receipt_section(receipt: &Receipt, style: &Style) -> String {
    let mut page = Page::new(style);
    if !receipt.command.is_empty() {
        page.heading("to keep it");
        page.exact(&receipt.command);
    }
    exact_lines(&mut page, "or by the environment alone", &receipt.environment);
    exact_lines(&mut page, "as a systemd drop-in", &receipt.systemd);
    if !receipt.notes.is_empty() {
        page.heading("what it costs, what to know");
        for note in &receipt.notes {
            page.bullet(note, Tone::Plain);
        }
    }
    if !receipt.undo.is_empty() {
        page.heading("to go back");
        page.para(&receipt.undo, 4, Tone::Plain);
    }
    page.finish()
}

fn exact_lines(page: &mut Page<'_>, heading: &str, lines: &[String]) {
    if !lines.is_empty() {
        page.heading(heading);
        for line in lines {
            page.exact(line);
        }
    }
}

/// Output of each arm against a plain run.
#[must_use]
pub fn output_section(checks: &[OutputCheck], style: &Style) -> String {
    let mut page = Page::new(style);
    if checks.is_empty() {
        return page.finish();
    }
    page.heading("output compared with a plain run");
    for check in checks {
        let (word, tone) = if check.equal { ("equal", Tone::Good) } else { ("DIFFERS", Tone::Bad) };
        let notes: String = check.notes.iter().map(|n| format!("; {n}")).collect();
        page.item_tone(&check.arm, &format!("{word}{notes}"), tone);
    }
    page.finish()
}
