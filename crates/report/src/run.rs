//! A whole run as a document, for a terminal or as a page: verdict, why, what was tried and what not, receipt, notes.

use crate::bench::{Bench, caption};
use crate::cache::cache_section;
use crate::candidates::{candidates_section, untried_section};
use crate::choice::choice_section;
use crate::code::text_section;
use crate::doctor::doctor_section;
use crate::experiment::tried_section;
use crate::faults::faults_section;
use crate::headline::{headline, headline_section};
use crate::page::Document;
use crate::shell::start_line;
use crate::style::{Style, Tone};
use crate::{
    continue_section, diagnosis_section, document, look_section, machine_line, output_section,
    profile_section, receipt_section, text_trial_section,
};
use pagewise_model::run::{Outcome, Run, RunKind};

/// The report of a run. An empty id means that the run is not saved, and leaves out the line that
/// says how to see it again.
#[must_use]
pub fn render(run: &Run, style: &Style) -> String {
    let mut page = headline_section(run);
    add_body(run, &mut page);
    page.section(notes_section(run));
    page.text(style)
}

/// The run as one page that needs nothing from outside.
#[must_use]
pub fn html(run: &Run) -> String {
    let shown = match Bench::of(run) {
        Some(bench) => bench.document(&caption(run)),
        None => {
            let mut page = Document::default();
            add_body(run, &mut page);
            page
        }
    };
    page(run, shown)
}

/// A page of `run` that shows `body`.
pub(crate) fn page(run: &Run, mut body: Document) -> String {
    body.section(measured_section(run));
    document::head(&headline(run), run) + &body.html() + &document::foot(run)
}

/// What a page says of how the run came about.
fn measured_section(run: &Run) -> Document {
    let mut page = Document::default();
    page.heading("how it was measured");
    if !run.command.is_empty() {
        page.exact(&start_line(run));
    }
    for sentence in Bench::of(run).into_iter().flat_map(Bench::protocol) {
        page.para(&sentence, 0, Tone::Plain);
    }
    for warning in &run.warnings {
        page.para(warning, 0, Tone::Warn);
    }
    page
}

/// Adds what a run holds, beside its headline and notes.
fn add_body(run: &Run, page: &mut Document) {
    match run.kind {
        RunKind::Doctor => {
            if let Some(checkup) = &run.checkup {
                page.append(doctor_section(checkup));
            }
        }
        RunKind::Faults => faulted(run, page),
        RunKind::Cache | RunKind::Text | RunKind::Choose => looked_at(run, page),
        RunKind::Tune | RunKind::Ab | RunKind::Profile | RunKind::Bench => {
            examined(run, page);
        }
    }
}

/// The state of files and processes, and what follows from it.
fn looked_at(run: &Run, page: &mut Document) {
    if let Some(report) = &run.cache {
        page.section(cache_section(report));
    }
    if let Some(report) = &run.text {
        page.section(text_section(report));
    }
    if let Some(choice) = &run.choice {
        page.section(choice_section(choice));
    }
}

fn faulted(run: &Run, page: &mut Document) {
    page.single(&start_line(run), 2, Tone::Faint);
    if let Some(report) = &run.faults {
        page.section(faults_section(report));
    }
    if let Some(machine) = &run.machine {
        page.section(machine_line(machine));
    }
}

fn examined(run: &Run, page: &mut Document) {
    if !run.command.is_empty() {
        page.single(&start_line(run), 2, Tone::Faint);
    }
    for bench in Bench::all(run) {
        page.section(bench.document(&caption(run)));
    }
    if let Some(profile) = &run.profile {
        page.section(profile_section(profile));
    }
    if let Some(diagnosis) = &run.diagnosis {
        page.section(diagnosis_section(diagnosis));
    }
    if let Some(trial) = &run.text_trial {
        page.section(text_trial_section(trial, run.experiment.as_ref()));
    }
    if let Some(experiment) = &run.experiment {
        let ab = matches!(run.kind, RunKind::Ab | RunKind::Bench);
        page.section(tried_section(experiment, ab));
    }
    if matches!(run.outcome, Some(Outcome::AdviceOnly)) {
        page.section(candidates_section(&run.candidates));
    } else {
        page.section(untried_section(run));
    }
    page.section(output_section(&run.output_checks));
    if let Some(receipt) = &run.receipt {
        let is_proven = !matches!(run.outcome, Some(Outcome::Likely { .. }));
        page.section(receipt_section(receipt, is_proven));
    }
    page.section(continue_section(run));
    if let Some(look) = &run.look {
        page.section(look_section(look, &run.plain_runs()));
    }
    if let Some(machine) = &run.machine {
        page.section(machine_line(machine));
    }
}

fn notes_section(run: &Run) -> Document {
    let mut page = Document::default();
    if !run.warnings.is_empty() {
        page.heading("notes");
    }
    for warning in &run.warnings {
        page.bullet(warning, Tone::Warn);
    }
    if !run.environment.is_empty() {
        let pairs = run.environment.iter().map(|(name, value)| format!("{name}={value}"));
        page.para(&format!("with {}", pairs.collect::<Vec<_>>().join(" ")), 0, Tone::Faint);
    }
    if !run.id.is_empty() {
        let text =
            format!("took {}; saved; to see it again: pagewise show {}", run.took_ns, run.id);
        page.para(&text, 0, Tone::Faint);
    }
    page
}
