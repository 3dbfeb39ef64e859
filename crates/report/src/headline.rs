//! The verdict in one sentence: the first thing a reader sees.

use crate::bench;
use crate::experiment::{effect_phrase, is_unproven, short_arm, short_word};
use crate::number::{at_most, counted, percent, times_as_fast, whole_percent};
use crate::page::ReportDocument;
use crate::prediction::{likeliest, predicted_range};
use crate::style::TextTone;
use pagewise_model::body::RunBody;
use pagewise_model::diagnosis::Diagnosis;
use pagewise_model::run::{RunKind, SavedRun, SessionOutcome};
use pagewise_model::trial::{ArmEffect, ArmVerdict, ComparedQuantity, VerdictWord};

/// Start of the warning that says why a session ended before it had an outcome.
pub const ENDED_EARLY: &str = "the session ended early: ";

/// How a session ended, without its figures.
#[must_use]
pub fn outcome_line(outcome: &SessionOutcome) -> String {
    match outcome {
        SessionOutcome::Proven { keep } if keep.is_empty() => {
            "proven, but the arm has no name".to_owned()
        }
        SessionOutcome::Proven { keep } => format!("keep {}", keep.join(", ")),
        SessionOutcome::Likely { arms } => format!("likely {}", arms.join(", ")),
        SessionOutcome::NoGain { above_share } => {
            format!("no gain above {}", whole_percent(*above_share))
        }
        SessionOutcome::NothingKept => "tried, nothing worth keeping".to_owned(),
        SessionOutcome::NothingToGain { why } => format!("nothing to gain here: {why}"),
        SessionOutcome::AdviceOnly => "advice only, nothing tried".to_owned(),
        SessionOutcome::CannotTell { why } => format!("cannot tell: {why}"),
        SessionOutcome::Interrupted => "interrupted".to_owned(),
    }
}

/// The verdict on a run in one sentence.
#[must_use]
pub fn headline(run: &SavedRun) -> String {
    match run.kind {
        RunKind::Doctor => doctor_headline(run),
        RunKind::Profile => profile_headline(run),
        RunKind::Faults => crate::faults::headline(run),
        RunKind::Ab => ab_headline(run),
        RunKind::Tune => format!("{}{}", tune_headline(run), first_part(run)),
        RunKind::Bench => bench_headline(run),
        RunKind::Cache | RunKind::Text | RunKind::Choose => match &run.body {
            Some(RunBody::CacheRestore(restore)) => crate::cache_restore::headline(restore),
            Some(RunBody::Cache(report)) => crate::cache::headline(report),
            Some(RunBody::Text(report)) => crate::text_report::headline(report),
            Some(RunBody::Choice(choice)) => crate::choice::headline(choice),
            _ => "nothing was examined".to_owned(),
        },
    }
}

fn doctor_headline(run: &SavedRun) -> String {
    match &run.body {
        Some(RunBody::Checkup(checkup)) => crate::doctor::summary(checkup),
        _ => "no check was made".to_owned(),
    }
}

/// The headline as lines of a report.
pub(crate) fn headline_section(run: &SavedRun) -> ReportDocument {
    let mut page = ReportDocument::default();
    let tone = match &run.outcome {
        Some(SessionOutcome::Proven { .. } | SessionOutcome::Likely { .. }) => TextTone::Good,
        Some(SessionOutcome::CannotTell { .. } | SessionOutcome::Interrupted) => TextTone::Warn,
        _ => TextTone::Strong,
    };
    page.para(&headline(run), 0, tone);
    page
}

fn bench_headline(run: &SavedRun) -> String {
    let nothing = || {
        let is_early = matches!(run.outcome, Some(SessionOutcome::Interrupted));
        let when = if is_early { "interrupted before anything" } else { "nothing" };
        format!("{when} was measured")
    };
    let is_decided = matches!(run.outcome, Some(SessionOutcome::NothingToGain { .. }));
    match &run.body {
        Some(RunBody::Bench(bench)) => bench::headline(bench),
        // About a program, not about a technique on this machine.
        Some(RunBody::TextTrial(_)) => ab_headline(run),
        _ if is_decided => ab_headline(run),
        _ => nothing(),
    }
}

fn profile_headline(run: &SavedRun) -> String {
    if let Some(memory) = &run.memory {
        return crate::memory_account::headline(memory);
    }
    match (&run.body, &run.diagnosis) {
        (Some(RunBody::Profile(profile)), diagnosis) => {
            crate::profile::headline(profile, diagnosis.as_ref())
        }
        (_, Some(diagnosis)) => crate::profile::by_counts(diagnosis),
        _ => "no diagnosis".to_owned(),
    }
}

/// What the ceiling leaves out, as the end of a sentence.
pub(crate) fn without(diagnosis: &Diagnosis) -> String {
    match diagnosis.not_in_ceiling.as_slice() {
        [] => String::new(),
        costs => format!(", without {}: not seen", costs.join(" and ")),
    }
}

/// That runs did not go to their ends, as the end of a sentence.
fn first_part(run: &SavedRun) -> String {
    let stopped = run.checkpoint_bytes().and(run.look.as_ref());
    let wall = stopped.and_then(|look| look.runs.iter().map(|usage| usage.wall_ns).max());
    wall.map_or_else(String::new, |wall| format!("; runs were stopped after {wall}"))
}

fn verdicts(run: &SavedRun) -> &[ArmVerdict] {
    run.experiment.as_ref().map_or(&[], |e| e.verdicts.as_slice())
}

fn quantity(run: &SavedRun) -> ComparedQuantity {
    run.experiment.as_ref().map_or(ComparedQuantity::Time, |experiment| experiment.design.quantity)
}

fn tune_headline(run: &SavedRun) -> String {
    let quantity = quantity(run);
    let named = |arms: &[String]| {
        let first = arms.first()?;
        verdicts(run).iter().find(|v| v.arm == *first).map(|v| sentence(v, quantity))
    };
    match &run.outcome {
        Some(
            outcome @ (SessionOutcome::Proven { keep: arms } | SessionOutcome::Likely { arms }),
        ) => named(arms).unwrap_or_else(|| outcome_line(outcome)),
        Some(outcome @ SessionOutcome::NoGain { .. }) => {
            let untried = verdicts(run).iter().filter(|v| v.word == VerdictWord::NotTried);
            let untried: Vec<String> = untried.map(|v| short_arm(&v.arm)).collect();
            let line = match best(verdicts(run), quantity) {
                Some(best) => format!("{}: {best}", outcome_line(outcome)),
                None => outcome_line(outcome),
            };
            let untried = match &untried[..] {
                [] => String::new(),
                arms => format!("; no time for {}", arms.join(", ")),
            };
            line + &untried + &rejection(verdicts(run))
        }
        Some(SessionOutcome::CannotTell { why }) => {
            let halted = run.experiment.as_ref().is_some_and(|e| e.halted.is_some());
            let open =
                verdicts(run).iter().filter(|v| v.word == VerdictWord::CannotTell && !halted);
            match best_arm(open) {
                Some((verdict, effect)) => format!(
                    "{}: {} has {} so far{}",
                    open_words(verdict, verdicts(run).len()),
                    short_arm(&verdict.arm),
                    effect_phrase(effect, quantity),
                    expected(run, &verdict.arm)
                ),
                None => match run.predictions.first().filter(|_| !halted) {
                    Some(one) => format!("cannot tell: {why}{}", likeliest(one)),
                    None => format!("cannot tell: {why}"),
                },
            }
        }
        Some(SessionOutcome::NothingKept) => nothing_kept(verdicts(run), quantity),
        Some(SessionOutcome::AdviceOnly) => advice(run),
        Some(SessionOutcome::Interrupted) => interrupted(run),
        Some(outcome) => outcome_line(outcome),
        None => unfinished(run),
    }
}

/// Names the arm with the least time among those that were not rejected, with that time. `None` if none has one.
fn best(verdicts: &[ArmVerdict], quantity: ComparedQuantity) -> Option<String> {
    let left = verdicts
        .iter()
        .filter(|verdict| !matches!(verdict.word, VerdictWord::Reject | VerdictWord::NotTried));
    let (verdict, effect) = best_arm(left.clone())?;
    let (arm, time) = (short_arm(&verdict.arm), effect_phrase(effect, quantity));
    Some(match left.count() {
        1 => format!("{arm} has {time}"),
        arms => format!("the best of {arms} arms, {arm}, has {time}"),
    })
}

fn best_arm<'a>(
    verdicts: impl IntoIterator<Item = &'a ArmVerdict>,
) -> Option<(&'a ArmVerdict, &'a ArmEffect)> {
    let timed = verdicts.into_iter().filter_map(|v| Some((v, v.effect.as_ref()?)));
    let timed = timed.filter(|(_, effect)| effect.is_measured());
    timed.min_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio))
}

/// Words for an open arm, one of `arms`.
fn open_words(verdict: &ArmVerdict, arms: usize) -> String {
    match is_unproven(verdict) {
        true if arms > 1 => format!("not proven among {arms} arms"),
        true => "not proven".to_owned(),
        false => "cannot tell".to_owned(),
    }
}

/// Why a session has no outcome, as it was reported.
fn unfinished(run: &SavedRun) -> String {
    let reported = run.warnings.iter().rev().find_map(|text| text.strip_prefix(ENDED_EARLY));
    format!("unfinished: {}", reported.unwrap_or("no outcome was recorded"))
}

/// `keep heap-huge: 48% less time (46..50%), 1.94 times as fast`.
fn sentence(verdict: &ArmVerdict, quantity: ComparedQuantity) -> String {
    let (word, _) = short_word(verdict, quantity, false);
    let arm = short_arm(&verdict.arm);
    let Some(effect) = &verdict.effect else {
        return format!("{word} {arm}: {}", verdict.why);
    };
    let saved = effect_phrase(effect, quantity);
    let end = match (verdict.word, quantity) {
        (VerdictWord::Likely, _) => format!(", {} sure", percent(effect.sure_share)),
        (_, ComparedQuantity::Time) => format!(", {}", times_as_fast(effect.ratio)),
        _ => String::new(),
    };
    format!("{word} {arm}: {saved}{end}")
}

fn nothing_kept(verdicts: &[ArmVerdict], quantity: ComparedQuantity) -> String {
    let line = best(verdicts, quantity).unwrap_or_else(|| {
        format!("{} tried, all refused", counted(verdicts.len() as u64, "arm", "arms"))
    });
    format!("nothing worth keeping; {line}{}", rejection(verdicts))
}

/// Why the arm with the largest gain was rejected, as the end of a sentence.
fn rejection(verdicts: &[ArmVerdict]) -> String {
    let rejected = verdicts.iter().filter(|verdict| verdict.word == VerdictWord::Reject);
    let ratio = |verdict: &ArmVerdict| verdict.effect.as_ref().map_or(f64::INFINITY, |e| e.ratio);
    let most = rejected.min_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    most.map_or_else(String::new, |arm| {
        format!("; {} is rejected: {}", short_arm(&arm.arm), arm.why)
    })
}

/// The prediction for an open arm, as the end of a sentence.
fn expected(run: &SavedRun, arm: &str) -> String {
    run.prediction(arm).map_or_else(String::new, |one| format!("; {}", predicted_range(one)))
}

fn advice(run: &SavedRun) -> String {
    if let Some(one) = run.predictions.first() {
        return format!("advice only, nothing tried{}", likeliest(one));
    }
    let fitting: Vec<_> = run.candidates.iter().filter(|c| c.fits()).collect();
    let best = fitting.iter().max_by(|a, b| a.ceiling_share.total_cmp(&b.ceiling_share));
    match best {
        Some(best) => format!(
            "advice only, nothing tried: {}, the most promising {} ({}, estimate)",
            counted(fitting.len() as u64, "remedy fits", "remedies fit"),
            best.remedy,
            at_most(best.ceiling_share)
        ),
        None => "advice only, nothing tried: no remedy fits".to_owned(),
    }
}

fn interrupted(run: &SavedRun) -> String {
    let quantity = quantity(run);
    let of = |word: VerdictWord| verdicts(run).iter().find(|v| v.word == word);
    match of(VerdictWord::Keep).or_else(|| of(VerdictWord::Likely)) {
        Some(verdict) => format!("interrupted, yet {}", sentence(verdict, quantity)),
        None => match best(verdicts(run), quantity) {
            Some(best) => format!("interrupted: {best} so far"),
            None => "interrupted: no arm had run yet".to_owned(),
        },
    }
}

fn ab_headline(run: &SavedRun) -> String {
    let all = verdicts(run);
    if all.is_empty() {
        return run.outcome.as_ref().map_or("no comparison".to_owned(), outcome_line);
    }
    let quantity = quantity(run);
    let of = |verdict: &ArmVerdict| {
        let (word, _) = short_word(verdict, quantity, true);
        match &verdict.effect {
            Some(effect) if effect.is_measured() => {
                format!("{}: {}, {word}", verdict.arm, effect_phrase(effect, quantity))
            }
            _ => format!("{}: {word}: {}", verdict.arm, verdict.why),
        }
    };
    let ratio = |one: &ArmVerdict| one.effect.as_ref().map_or(f64::INFINITY, |effect| effect.ratio);
    let sentence = match all {
        [_, _, _, ..] => {
            let best = all.iter().min_by(|a, b| ratio(a).total_cmp(&ratio(b)));
            let best = best.map(of).unwrap_or_default();
            format!("the best of {} beside the first, {best}", all.len())
        }
        _ => all.iter().map(of).collect::<Vec<_>>().join("; "),
    };
    match &run.outcome {
        Some(SessionOutcome::Interrupted) => format!("interrupted; {sentence}"),
        _ => sentence,
    }
}
