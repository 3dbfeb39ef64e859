//! A session on one screen: the reasons, what was tried, how to keep a gain, and how the runs went.

use super::{Brief, BriefKind, MOST_ROWS, beside, cost_rows, rest_line};
use crate::escape::{cut_end, escape_for};
use crate::experiment::{columns, control_row, short_arm, short_word, verdict_row};
use crate::number::{counted, percent};
use crate::prediction::probable;
use crate::service;
use crate::style::TerminalStyle;
use crate::table::ReportTable;
use crate::{code_tlb, text_trial};
use pagewise_model::body::RunBody;
use pagewise_model::measured::mean;
use pagewise_model::plan::RemedyCandidate;
use pagewise_model::run::{RunKind, SavedRun, SessionOutcome};
use pagewise_model::trial::{
    ArmRun, ArmVerdict, ComparedQuantity, Experiment, ExperimentBlock, VerdictWord,
};

/// Largest number of unfit remedies whose reasons are shown.
const MOST_UNFIT: usize = 3;
/// From this width on, memory has its own column.
const ROOMY: usize = 56;
/// From this share of the time on, a note names other users of the CPUs.
const LEAST_DISTURBANCE: f64 = 0.05;
/// Least number of runs that show how much a program varies by itself.
const LEAST_RUNS: usize = 4;

pub(super) const KIND: BriefKind =
    BriefKind { parts, next: crate::receipt::continue_line, notes, most_rows: MOST_ROWS };

fn parts(report: &mut Brief<'_>, run: &SavedRun, rows: usize) {
    let inner = report.inner();
    if run.kind == RunKind::Tune {
        let costs = run.diagnosis.as_ref().map(|found| cost_rows(found.costs.iter(), &inner));
        report.add("why", &costs.unwrap_or_default());
    }
    report.add("tried", &tried(run, &inner, rows));
    if run.experiment.is_none() {
        report.add("fits", &remedies(run, &inner, true, MOST_ROWS));
        report.add("not", &remedies(run, &inner, false, MOST_UNFIT.min(rows)));
    }
    if let Some(RunBody::TextTrial(trial)) = &run.body {
        if !trial.files.is_empty() {
            report.sentence("text", &text_trial::summary(trial));
        }
        report.sentence("iTLB", &code_tlb::of_trial(trial));
    }
    keep(report, run);
    report.sentence("noise", &noise(run));
}

/// Whether commands were compared instead of remedies.
const fn is_ab(run: &SavedRun) -> bool {
    matches!(run.kind, RunKind::Ab | RunKind::Bench)
}

fn notes(run: &SavedRun) -> Vec<String> {
    let of_race = run.experiment.iter().flat_map(|one| &one.warnings);
    let differing = run.output_checks.iter().filter(|check| !check.equal);
    let differing = differing.map(|check| {
        format!("output of {} differs: {}", short_arm(&check.arm), check.notes.join("; "))
    });
    differing.chain(of_race.cloned()).chain(run.warnings.iter().cloned()).collect()
}

/// Adds how to keep the gain.
fn keep(report: &mut Brief<'_>, run: &SavedRun) {
    let Some(receipt) = run.receipt.as_ref().filter(|one| !one.command.is_empty()) else {
        return;
    };
    let is_likely = matches!(run.outcome, Some(SessionOutcome::Likely { .. }));
    report.exact(if is_likely { "use" } else { "keep" }, &receipt.command);
    if !run.id.is_empty() && !is_likely {
        report.sentence("", &format!("pagewise apply {} (docs/apply.md)", run.id));
    }
    if let Some(cost) = receipt.notes.first() {
        report.sentence("costs", cost);
    }
}

/// The arms, the best first, and a line with what was not tried.
fn tried(run: &SavedRun, style: &TerminalStyle, most_arms: usize) -> String {
    let Some(experiment) = &run.experiment else { return String::new() };
    let mut verdicts: Vec<&ArmVerdict> = experiment.verdicts.iter().collect();
    if run.kind == RunKind::Tune {
        let ratio =
            |one: &ArmVerdict| one.effect.as_ref().map_or(f64::INFINITY, |effect| effect.ratio);
        verdicts
            .sort_by(|a, b| rank(a.word).cmp(&rank(b.word)).then(ratio(a).total_cmp(&ratio(b))));
    }
    let more = verdicts.split_off(verdicts.len().min(most_arms));
    let table = match &run.service {
        Some(service) => service::brief_table(service, experiment, &verdicts),
        None => arms(run, experiment, &verdicts, style.columns() >= ROOMY),
    };
    let word = |one: &&ArmVerdict| {
        let (word, _) = short_word(one, experiment.design.quantity, is_ab(run));
        format!("{} {word}", short_arm(&one.arm))
    };
    beside(table, style) + &rest_line(more.iter().map(word).collect(), style)
}

/// Remedies that fit, with their possible saving, or those that do not, with their reasons. The largest
/// possible savings come first. Those without room are only named.
fn remedies(run: &SavedRun, style: &TerminalStyle, fit: bool, most: usize) -> String {
    let mut all: Vec<&RemedyCandidate> =
        run.candidates.iter().filter(|one| one.fits() == fit).collect();
    let promise = |one: &RemedyCandidate| {
        run.best_prediction(one).map_or(one.ceiling_share, |best| best.gain_share)
    };
    all.sort_by(|a, b| promise(b).total_cmp(&promise(a)));
    let row = |one: &&RemedyCandidate| {
        let share = match run.best_prediction(one).filter(|_| fit) {
            Some(best) => probable(best) + ": ",
            None if fit => format!("up to {}: ", percent(one.ceiling_share.min(1.0))),
            None => String::new(),
        };
        let text = format!("{:<13}{share}{}", one.remedy, one.why);
        cut_end(&escape_for(&text, style.unicode), style.columns(), style.unicode) + "\n"
    };
    let rest = all.split_off(all.len().min(most));
    let rows: String = all.iter().map(row).collect();
    rows + &rest_line(rest.iter().map(|one| one.remedy.clone()).collect(), style)
}

/// Rank of an arm among others, by its verdict.
const fn rank(word: VerdictWord) -> u8 {
    match word {
        VerdictWord::Keep => 0,
        VerdictWord::Likely => 1,
        VerdictWord::CannotTell => 2,
        VerdictWord::NoGain => 3,
        VerdictWord::Slower => 4,
        VerdictWord::Reject => 5,
        VerdictWord::NotTried => 6,
    }
}

/// Shows memory beside the deciding quantity if `is_roomy`.
fn arms(
    run: &SavedRun,
    experiment: &Experiment,
    verdicts: &[&ArmVerdict],
    is_roomy: bool,
) -> ReportTable {
    let quantity = experiment.design.quantity;
    let beside = if quantity == ComparedQuantity::Memory {
        ComparedQuantity::Time
    } else {
        ComparedQuantity::Memory
    };
    let shown = if is_roomy { &[beside][..] } else { &[] };
    let is_ab = is_ab(run);
    let mut columns = columns(experiment, shown);
    // The line on noise gives the total number of runs.
    let runs = columns.len() - 2;
    columns.remove(runs);
    let rows = verdicts.iter().map(|verdict| verdict_row(experiment, verdict, shown, is_ab));
    let mut table = ReportTable::new(&columns);
    for mut row in control_row(experiment, shown).into_iter().chain(rows) {
        row.remove(runs);
        table.row(row);
    }
    table
}

/// How much the plain program varies by itself, how the runs were made, and what disturbed them.
fn noise(run: &SavedRun) -> String {
    let Some(experiment) = &run.experiment else {
        return format!("no runs to compare; took {}", run.took_ns);
    };
    let mut parts = Vec::new();
    parts.extend(deviation(experiment).map(|share| format!("{} from run to run", percent(share))));
    let runs: usize = experiment.blocks.iter().map(|block| block.points.len()).sum();
    match &run.service {
        Some(service) => {
            parts.push(format!(
                "{} of servers",
                counted(service.pairs.len() as u64, "pair", "pairs")
            ));
        }
        None => parts.push(counted(runs as u64, "run", "runs")),
    }
    let is_at_once = |block: &ExperimentBlock| block.at_once && block.dropped.is_none();
    match &experiment.in_turn_because {
        Some(why) => parts.push(format!("one at a time ({why})")),
        None if experiment.blocks.iter().any(is_at_once) => {
            parts.push("at once on shared CPUs".to_owned());
        }
        None => {}
    }
    parts.push(format!("took {}", run.took_ns));
    parts.extend(disturbed(run, experiment));
    parts.join(", ")
}

/// The plain program's standard deviation as a share of its mean. Simultaneous runs are compared within their
/// block.
fn deviation(experiment: &Experiment) -> Option<f64> {
    let control = experiment.design.control.as_str();
    let at_once = experiment.is_at_once(control);
    let logs = |block: &ExperimentBlock| -> Vec<f64> {
        let own = block.points.iter().filter(|point| point.arm == control);
        let figure = |point: &ArmRun| match at_once {
            true => point.usage.cpu_ns().0,
            false => point.usage.wall_ns.0,
        };
        own.map(|point| (figure(point).max(1) as f64).ln()).collect()
    };
    let counting = experiment.blocks.iter();
    let counting = counting.filter(|block| block.dropped.is_none() && block.at_once == at_once);
    let blocks: Vec<Vec<f64>> = counting.map(logs).collect();
    let groups = if at_once { blocks } else { vec![blocks.concat()] };
    let groups: Vec<&Vec<f64>> = groups.iter().filter(|group| group.len() > 1).collect();
    let square = |group: &&Vec<f64>| {
        let mean = mean(group);
        group.iter().map(|log| (log - mean).powi(2)).sum::<f64>()
    };
    let freedom: usize = groups.iter().map(|group| group.len() - 1).sum();
    (freedom + 1 >= LEAST_RUNS)
        .then(|| (groups.iter().map(square).sum::<f64>() / freedom as f64).sqrt())
}

/// How much other programs used the CPUs. `None` if the program may have delayed itself, as simultaneous
/// runs, threads and processes do.
fn disturbed(run: &SavedRun, experiment: &Experiment) -> Option<String> {
    let processes = &run.look.as_ref()?.traced.known()?.processes;
    if !matches!(processes.as_slice(), [one] if one.threads == 1) {
        return None;
    }
    let in_turn = experiment.blocks.iter().filter(|block| !block.at_once);
    let shares: Vec<f64> =
        in_turn.filter_map(|block| block.system_load.cpu_pressure_share).collect();
    let share = mean(&shares);
    let is_time = experiment.design.quantity == ComparedQuantity::Time;
    let other = if is_time { " (--goal cpu is disturbed less)" } else { "" };
    (share >= LEAST_DISTURBANCE)
        .then(|| format!("other programs kept the CPUs busy {} of the time{other}", percent(share)))
}
