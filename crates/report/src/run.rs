//! A whole run as a document, for a terminal or as a page, and its timed points as CSV. The document holds
//! the verdict, the reasons, what was tried and what was not, the receipt, and notes.

use crate::bench::{self, caption};
use crate::brief::brief;
use crate::cache::cache_section;
use crate::cache_restore::cache_restore_section;
use crate::candidates::{candidates_section, untried_section};
use crate::choice::choice_section;
use crate::csv::field;
use crate::diagnosis::proven_share;
use crate::doctor::doctor_section;
use crate::experiment::tried_section;
use crate::faults::faults_section;
use crate::headline::{headline, headline_section};
use crate::page::{ReportDocument, foot, head};
use crate::service::{service_csv, service_section};
use crate::shell::{session_line, start_line};
use crate::style::{TerminalStyle, TextTone};
use crate::text_report::text_section;
use crate::tradeoff::tradeoff_section;
use crate::{
    continue_section, diagnosis_section, look_section, machine_line, memory_section,
    output_section, profile_section, receipt_section, text_trial_section,
};
use pagewise_model::body::RunBody;
use pagewise_model::run::{OutputCheck, RunKind, SavedRun, SessionOutcome};
use pagewise_model::trial::{ArmRun, ComparedQuantity};
use pagewise_model::usage::ProgramUsage;

/// Columns of the CSV of a run.
const HEADER: &str = "stage,block,position,arm,dropped,wall_ns,user_ns,sys_ns,peak_rss_bytes,\
minor_faults,major_faults,voluntary_switches,involuntary_switches,read_bytes,written_bytes,\
read_calls,write_calls,device_read_bytes,shell_status,mechanism,supervisor_ns,machine_huge_faults\n";

/// The report of a run; on one screen if it would be longer and its kind has a short form.
#[must_use]
pub fn render(run: &SavedRun, style: &TerminalStyle) -> String {
    brief(run, style).unwrap_or_else(|| render_whole(run, style))
}

/// The whole report of a run. An empty id means that the run is not saved: the report leaves out how to show
/// it again.
#[must_use]
pub fn render_whole(run: &SavedRun, style: &TerminalStyle) -> String {
    let mut page = headline_section(run);
    add_body(run, &mut page);
    page.section(notes_section(run));
    page.text(style)
}

/// The run as one page without external resources.
#[must_use]
pub fn html(run: &SavedRun) -> String {
    page(run, shown(run))
}

/// The content of its page, except for the headline and how it was measured.
fn shown(run: &SavedRun) -> ReportDocument {
    match bench::in_run(run) {
        Some(bench) => bench::document(bench, &caption(run)),
        None => {
            let mut page = ReportDocument::default();
            add_body(run, &mut page);
            page
        }
    }
}

/// The pictures on the page of a run, with their titles: each a separate SVG.
#[must_use]
pub fn pictures(run: &SavedRun) -> Vec<(String, String)> {
    shown(run).drawings()
}

/// A page of `run` that shows `body`.
pub(crate) fn page(run: &SavedRun, body: ReportDocument) -> String {
    page_titled(&headline(run), run, body)
}

/// A page with another title than the headline of the run.
pub(crate) fn page_titled(title: &str, run: &SavedRun, mut body: ReportDocument) -> String {
    body.section(measured_section(run));
    head(title, run) + &body.html() + &foot(run)
}

/// How the run was made, for its page.
fn measured_section(run: &SavedRun) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.heading("how it was measured");
    if !run.command.is_empty() {
        page.exact(&session_line(run));
    }
    for sentence in bench::in_run(run).into_iter().flat_map(bench::protocol) {
        page.para(&sentence, 0, TextTone::Plain);
    }
    for warning in &run.warnings {
        page.para(warning, 0, TextTone::Warn);
    }
    page
}

/// Adds the content of a run, except for headline and notes.
fn add_body(run: &SavedRun, page: &mut ReportDocument) {
    match run.kind {
        RunKind::Faults => faulted(run, page),
        RunKind::Doctor | RunKind::Cache | RunKind::Text | RunKind::Choose => looked_at(run, page),
        RunKind::Tune | RunKind::Ab | RunKind::Profile | RunKind::Bench => {
            examined(run, page);
        }
    }
}

/// The state of the machine, of files and processes, and the conclusions.
fn looked_at(run: &SavedRun, page: &mut ReportDocument) {
    match &run.body {
        Some(RunBody::Checkup(checkup)) => page.append(doctor_section(checkup)),
        Some(RunBody::Cache(report)) => page.section(cache_section(report)),
        Some(RunBody::CacheRestore(restore)) => page.section(cache_restore_section(restore)),
        Some(RunBody::Text(report)) => page.section(text_section(report)),
        Some(RunBody::Choice(choice)) => page.section(choice_section(choice)),
        _ => {}
    }
}

fn faulted(run: &SavedRun, page: &mut ReportDocument) {
    page.single(&start_line(run), 2, TextTone::Faint);
    if let Some(RunBody::Faults(report)) = &run.body {
        page.section(faults_section(report));
    }
    if let Some(machine) = &run.machine {
        page.section(machine_line(machine));
    }
}

fn examined(run: &SavedRun, page: &mut ReportDocument) {
    if !run.command.is_empty() {
        page.single(&start_line(run), 2, TextTone::Faint);
    }
    match &run.body {
        Some(RunBody::Bench(bench)) => page.section(bench::document(bench, &caption(run))),
        Some(RunBody::Profile(profile)) => {
            page.section(profile_section(profile));
            if let Some(text) = crate::code_tlb::of_profile(profile, run) {
                page.item("code", &text);
            }
        }
        _ => {}
    }
    if let Some(memory) = &run.memory {
        page.section(memory_section(memory));
    }
    if let Some(diagnosis) = &run.diagnosis {
        page.section(diagnosis_section(diagnosis, whole(run), proven_share(run)));
    }
    if let Some(RunBody::TextTrial(trial)) = &run.body {
        page.section(text_trial_section(trial, run.experiment.as_ref()));
    }
    if let (Some(service), Some(experiment)) = (&run.service, &run.experiment) {
        page.section(service_section(run.asked_service(), service, experiment));
    } else if let Some(experiment) = &run.experiment {
        let ab = matches!(run.kind, RunKind::Ab | RunKind::Bench);
        page.section(tried_section(experiment, ab));
        if experiment.design.quantity == ComparedQuantity::Memory {
            page.section(tradeoff_section(experiment));
        }
    }
    if matches!(run.outcome, Some(SessionOutcome::AdviceOnly)) {
        page.section(candidates_section(run));
    } else {
        page.section(untried_section(run));
    }
    // For two commands, only differences are worth a line.
    let is_shown = |check: &&OutputCheck| run.kind != RunKind::Ab || !check.equal;
    let checks: Vec<OutputCheck> = run.output_checks.iter().filter(is_shown).cloned().collect();
    page.section(output_section(&checks));
    if let Some(receipt) = &run.receipt {
        let is_proven = !matches!(run.outcome, Some(SessionOutcome::Likely { .. }));
        page.section(receipt_section(receipt, is_proven));
    }
    page.section(continue_section(run));
    if let Some(look) = run.look.as_ref().filter(|_| run.kind != RunKind::Ab) {
        page.section(look_section(look, &run.plain_runs()));
    }
    if let Some(machine) = &run.machine {
        page.section(machine_line(machine));
    }
}

/// What the ceiling of page costs is a share of.
pub(crate) const fn whole(run: &SavedRun) -> &'static str {
    if run.service.is_some() { "its CPU time" } else { "wall time" }
}

fn notes_section(run: &SavedRun) -> ReportDocument {
    let mut page = ReportDocument::default();
    if !run.warnings.is_empty() {
        page.heading("notes");
    }
    for warning in &run.warnings {
        page.bullet(warning, TextTone::Warn);
    }
    if !run.environment.is_empty() {
        let pairs = run.environment.iter().map(|(name, value)| format!("{name}={value}"));
        page.para(&format!("with {}", pairs.collect::<Vec<_>>().join(" ")), 0, TextTone::Faint);
    }
    if !run.id.is_empty() {
        let text =
            format!("took {}; saved; to see it again: pagewise show {}", run.took_ns, run.id);
        page.para(&text, 0, TextTone::Faint);
    }
    page
}

/// All timed points of a run as CSV: the plain runs of the look, and the blocks of the race; or the repeats,
/// mappings or processes of a bench. `dropped` holds the reason why a block does not count.
#[must_use]
pub fn csv(run: &SavedRun) -> String {
    if let Some(bench) = bench::in_run(run) {
        return bench::csv(bench);
    }
    if let Some(service) = &run.service {
        return service_csv(service);
    }
    if let Some(memory) = &run.memory {
        return crate::memory_account::csv(memory);
    }
    let mut out = HEADER.to_owned();
    for (i, usage) in run.look.iter().flat_map(|l| &l.runs).enumerate() {
        push(&mut out, ["look", "", &i.to_string(), "plain", ""], usage, None);
    }
    let Some(experiment) = &run.experiment else {
        return out;
    };
    for (n, block) in experiment.blocks.iter().enumerate() {
        let dropped = block.dropped.as_deref().unwrap_or("");
        for (i, point) in block.points.iter().enumerate() {
            let stage = if block.at_once { "at-once" } else { "race" };
            let lead = [stage, &n.to_string(), &i.to_string(), &point.arm, dropped];
            push(&mut out, lead, &point.usage, Some(point));
        }
    }
    out
}

fn push(out: &mut String, lead: [&str; 5], u: &ProgramUsage, point: Option<&ArmRun>) {
    let mut fields: Vec<String> = lead.iter().map(|text| field(text)).collect();
    let counts = [
        u.wall_ns.0,
        u.user_ns.0,
        u.sys_ns.0,
        u.peak_rss_bytes.0,
        u.minor_faults,
        u.major_faults,
        u.voluntary_switches,
        u.involuntary_switches,
    ];
    fields.extend(counts.iter().map(ToString::to_string));
    let optional = [
        u.read_bytes.map(|b| b.0),
        u.written_bytes.map(|b| b.0),
        u.read_calls,
        u.write_calls,
        u.device_read_bytes.map(|b| b.0),
    ];
    let shown = |n: Option<u64>| n.map_or_else(String::new, |n| n.to_string());
    fields.extend(optional.map(shown));
    fields.push(u.ended.shell_status().to_string());
    fields.push(shown(point.and_then(|p| p.mechanism)));
    fields.push(shown(point.map(|p| p.supervisor_ns.0)));
    fields.push(shown(point.map(|p| p.huge_faults)));
    out.push_str(&fields.join(","));
    out.push('\n');
}
