//! Reports on one screen: the answer, its evidence, how to keep or find a gain, what disturbed the runs, and
//! the next step. The rest is in the whole report and on its page. Each kind of run supplies its parts; this
//! file holds what they share.

mod bench;
mod choice;
mod doctor;
mod faults;
mod memory;
mod profile;
mod session;

use crate::escape::{cut_end, escape_for, shorten};
use crate::headline::headline_section;
use crate::number::{counted, percent};
use crate::page::ReportDocument;
use crate::paragraph::{Paragraph, line};
use crate::shell::{command_line, quote, start_line};
use crate::style::{TerminalStyle, TextTone};
use crate::table::{ColumnAlignment, ReportTable};
use pagewise_model::diagnosis::{CostBasis, CostKind, PageCost};
use pagewise_model::run::{RunKind, SavedRun};

/// Most lines of a report, except for commands quoted over several lines.
const MOST_LINES: usize = 25;
/// Cells of the labels in front of the parts.
const LABEL: usize = 9;
/// Most rows of a part, for most kinds.
const MOST_ROWS: usize = 6;
/// Largest number of costs that are named.
const MOST_COSTS: usize = 3;
/// Smallest share of time that counts as a reason.
const LEAST_SHARE: f64 = 0.005;

/// The parts of one kind of run.
struct BriefKind {
    /// Adds the parts under the headline, each with at most this number of rows.
    parts: fn(&mut Brief<'_>, &SavedRun, usize),
    /// The command that continues from here.
    next: fn(&SavedRun) -> Option<String>,
    /// Other notes for the reader, the most important first.
    notes: fn(&SavedRun) -> Vec<String>,
    most_rows: usize,
}

/// The kind of a run with such a report; `None` for runs whose report is short by itself.
fn kind(run: &SavedRun) -> Option<&'static BriefKind> {
    match run.kind {
        _ if run.memory.is_some() => Some(&memory::KIND),
        RunKind::Bench if crate::bench::in_run(run).is_some() => Some(&bench::KIND),
        RunKind::Tune | RunKind::Ab | RunKind::Bench => Some(&session::KIND),
        RunKind::Doctor => Some(&doctor::KIND),
        RunKind::Choose => Some(&choice::KIND),
        RunKind::Profile => Some(&profile::KIND),
        RunKind::Faults => Some(&faults::KIND),
        _ => None,
    }
}

/// The report on one screen. Uses as many rows as fit beside all notes, or beside some of them if there are
/// too many. `None` for a run whose report is short by itself.
pub(crate) fn brief(run: &SavedRun, style: &TerminalStyle) -> Option<String> {
    let kind = kind(run)?;
    let all: Vec<(String, u64)> =
        (1..=kind.most_rows).rev().map(|rows| with_rows(kind, run, style, rows)).collect();
    let fits = |report: &str| report.lines().count() <= MOST_LINES;
    let whole = all.iter().find(|(report, left_out)| fits(report) && *left_out == 0);
    let found = whole.or_else(|| all.iter().find(|(report, _)| fits(report)));
    found.or(all.last()).map(|(report, _)| report.clone())
}

/// The report with this number of rows, and the number of notes that it leaves out.
fn with_rows(
    kind: &BriefKind,
    run: &SavedRun,
    style: &TerminalStyle,
    rows: usize,
) -> (String, u64) {
    let mut report = Brief { style, out: headline_section(run).text(style) };
    let is_named = !matches!(run.kind, RunKind::Ab | RunKind::Bench);
    if is_named && !run.command.is_empty() {
        report.out.push_str(&single(&start_line(run), style));
        report.out.push('\n');
    }
    (kind.parts)(&mut report, run, rows);
    let mut end = Brief { style, out: String::new() };
    if let Some(line) = (kind.next)(run) {
        end.exact("next", &line);
    }
    end.more(run);
    let room = MOST_LINES.saturating_sub(report.lines() + end.lines());
    let left_out = report.notes(&(kind.notes)(run), room);
    (report.out + &end.out, left_out)
}

/// Lines for a terminal, with labels in front.
struct Brief<'a> {
    style: &'a TerminalStyle,
    out: String,
}

impl Brief<'_> {
    fn lines(&self) -> usize {
        self.out.lines().count()
    }

    /// The style of text beside a label.
    fn inner(&self) -> TerminalStyle {
        TerminalStyle { width: self.style.columns() - LABEL, ..*self.style }
    }

    /// Adds a part: lines that are already wrapped.
    fn add(&mut self, label: &str, lines: &str) {
        for (at, text) in lines.lines().enumerate() {
            let label = if at == 0 { label } else { "" };
            let pad = " ".repeat(LABEL - 2 - label.len());
            let text = format!("  {}{pad}{text}", self.style.paint(label, TextTone::Strong));
            self.out.push_str(text.trim_end());
            self.out.push('\n');
        }
    }

    fn sentence(&mut self, label: &str, text: &str) {
        let lines = Paragraph::new(text, 0, TextTone::Plain).lines(&self.inner());
        self.add(label, &lines);
    }

    /// Adds where to find the rest.
    fn more(&mut self, run: &SavedRun) {
        if !run.id.is_empty() {
            self.sentence("more", &format!("pagewise show {} --verbose, or --html FILE", run.id));
        }
    }

    /// Adds a line to copy, which is never cut.
    fn exact(&mut self, label: &str, text: &str) {
        let mut page = ReportDocument::default();
        page.exact(text);
        let lines = page.text(self.style);
        match lines.lines().count() {
            1 => self.add(label, lines.trim_start()),
            _ => {
                self.add(label, "\n");
                self.out.push_str(&lines);
            }
        }
    }

    /// Adds notes for the reader. Returns the number of notes that did not fit.
    fn notes(&mut self, notes: &[String], room: usize) -> u64 {
        let inner = self.inner();
        let (mut used, mut left_out) = (0, 0);
        for note in notes {
            let lines = Paragraph::new(note, 0, TextTone::Warn).lines(&inner);
            let takes = lines.lines().count();
            // One line is reserved for the number of notes left out, unless this is the last note.
            let is_last = std::ptr::eq(note, &notes[notes.len() - 1]) && left_out == 0;
            if used + takes + usize::from(!is_last) > room {
                left_out += 1;
                continue;
            }
            self.add(if used == 0 { "note" } else { "" }, &lines);
            used += takes;
        }
        if left_out > 0 {
            let label = if used == 0 { "note" } else { "" };
            self.sentence(
                label,
                &format!("{} left out here", counted(left_out, "note is", "notes are")),
            );
        }
        left_out
    }
}

/// One line; shortened in the middle if it is too long.
fn single(text: &str, style: &TerminalStyle) -> String {
    let text = shorten(&escape_for(text, style.unicode), style.columns() - 2, style.unicode);
    line(style, "  ", &text, TextTone::Faint)
}

/// The largest costs, each with its share and its evidence.
fn cost_rows<'a>(costs: impl Iterator<Item = &'a PageCost>, style: &TerminalStyle) -> String {
    let worth = costs.filter(|cost| cost.time_share >= LEAST_SHARE);
    let (mut rows, mut said) = (String::new(), Vec::new());
    for cost in worth.take(MOST_COSTS) {
        let evidence = cost.evidence.split(';').next().unwrap_or_default();
        let shown = if said.contains(&evidence) { "in the same events" } else { evidence };
        let text = format!("{:<24}{:>10}  {shown}", cost.kind.into_str(), share(cost));
        rows.push_str(&cut_end(&escape_for(&text, style.unicode), style.columns(), style.unicode));
        rows.push('\n');
        said.push(evidence);
    }
    if rows.is_empty() {
        return format!("no page cost above {}\n", percent(LEAST_SHARE));
    }
    rows
}

/// One line with the names of the rest; empty without names.
fn rest_line(names: Vec<String>, style: &TerminalStyle) -> String {
    if names.is_empty() {
        return String::new();
    }
    let text = format!("{} more: {}", names.len(), names.join(", "));
    cut_end(&escape_for(&text, style.unicode), style.columns(), style.unicode) + "\n"
}

/// The command of a session that tries remedies on the program of `run`.
fn tune_line(run: &SavedRun) -> String {
    let input =
        run.input.as_ref().map_or(String::new(), |file| format!("--input {} ", quote(file)));
    format!("pagewise tune {input}-- {}", command_line(&run.command))
}

/// The share of CPU time; for wake-ups, of wall time.
fn share(cost: &PageCost) -> String {
    let share = percent(cost.time_share.min(1.0));
    let is_bound = cost.basis == CostBasis::UpperBound || cost.kind == CostKind::Wakeups;
    if is_bound { format!("up to {share}") } else { share }
}

/// The lines of a table beside a label.
fn beside(table: ReportTable, style: &TerminalStyle) -> String {
    let lines = table.render(style);
    lines.lines().map(|line| format!("{}\n", line.strip_prefix("  ").unwrap_or(line))).collect()
}

/// A table without titles: a name, figures, and after two of them, text that may be cut.
fn rows_of(columns: usize) -> ReportTable {
    let align = |at| match at {
        0 => ColumnAlignment::Name,
        _ if at > 1 && at + 1 == columns => ColumnAlignment::Text,
        _ => ColumnAlignment::Decimal,
    };
    ReportTable::new(&(0..columns).map(|at| ("", align(at))).collect::<Vec<_>>())
}
