//! The verdict in one sentence: the first thing a reader sees.

use crate::bench;
use crate::experiment::{effect_phrase, is_unproven, short_arm, short_word};
use crate::number::{at_most, counted, percent, times_as_fast, whole_percent};
use crate::page::Document;
use crate::style::Tone;
use pagewise_model::body::Body;
use pagewise_model::diagnosis::Diagnosis;
use pagewise_model::run::{Outcome, Run, RunKind};
use pagewise_model::trial::{Effect, Quantity, Verdict, Word};

/// Start of the warning that says why a session ended before it had an outcome.
pub const ENDED_EARLY: &str = "the session ended early: ";

/// How a session ended, without its figures.
#[must_use]
pub fn outcome_line(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Proven { keep } if keep.is_empty() => "proven, but the arm has no name".to_owned(),
        Outcome::Proven { keep } => format!("keep {}", keep.join(", ")),
        Outcome::Likely { arms } => format!("likely {}", arms.join(", ")),
        Outcome::NoGain { above_share } => {
            format!("no gain above {}", whole_percent(*above_share))
        }
        Outcome::NothingKept => "tried, nothing worth keeping".to_owned(),
        Outcome::NothingToGain { why } => format!("nothing to gain here: {why}"),
        Outcome::AdviceOnly => "advice only, nothing tried".to_owned(),
        Outcome::CannotTell { why } => format!("cannot tell: {why}"),
        Outcome::Interrupted => "interrupted".to_owned(),
    }
}

/// The verdict on a run in one sentence.
#[must_use]
pub fn headline(run: &Run) -> String {
    match run.kind {
        RunKind::Doctor => doctor_headline(run),
        RunKind::Profile => profile_headline(run),
        RunKind::Faults => crate::faults::headline(run),
        RunKind::Ab => ab_headline(run),
        RunKind::Tune => tune_headline(run),
        RunKind::Bench => bench_headline(run),
        RunKind::Cache | RunKind::Text | RunKind::Choose => match &run.body {
            Some(Body::CacheRestore(restore)) => crate::cache_restore::headline(restore),
            Some(Body::Cache(report)) => crate::cache::headline(report),
            Some(Body::Text(report)) => crate::text_report::headline(report),
            Some(Body::Choice(choice)) => crate::choice::headline(choice),
            _ => "nothing was examined".to_owned(),
        },
    }
}

fn doctor_headline(run: &Run) -> String {
    match &run.body {
        Some(Body::Checkup(checkup)) => crate::doctor::summary(checkup),
        _ => "no check was made".to_owned(),
    }
}

/// The headline as lines of a report.
pub(crate) fn headline_section(run: &Run) -> Document {
    let mut page = Document::default();
    let tone = match &run.outcome {
        Some(Outcome::Proven { .. } | Outcome::Likely { .. }) => Tone::Good,
        Some(Outcome::CannotTell { .. } | Outcome::Interrupted) => Tone::Warn,
        _ => Tone::Strong,
    };
    page.para(&headline(run), 0, tone);
    page
}

fn bench_headline(run: &Run) -> String {
    let nothing = || {
        let is_early = matches!(run.outcome, Some(Outcome::Interrupted));
        let when = if is_early { "interrupted before anything" } else { "nothing" };
        format!("{when} was measured")
    };
    let is_decided = matches!(run.outcome, Some(Outcome::NothingToGain { .. }));
    match &run.body {
        Some(Body::Bench(bench)) => bench::headline(bench),
        // About a program, not about a technique on this machine.
        Some(Body::TextTrial(_)) => ab_headline(run),
        _ if is_decided => ab_headline(run),
        _ => nothing(),
    }
}

fn profile_headline(run: &Run) -> String {
    if let Some(memory) = &run.memory {
        return crate::memory_account::headline(memory);
    }
    match (&run.body, &run.diagnosis) {
        (Some(Body::Profile(profile)), diagnosis) => {
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

fn verdicts(run: &Run) -> &[Verdict] {
    run.experiment.as_ref().map_or(&[], |e| e.verdicts.as_slice())
}

fn quantity(run: &Run) -> Quantity {
    run.experiment.as_ref().map_or(Quantity::Time, |experiment| experiment.design.quantity)
}

fn tune_headline(run: &Run) -> String {
    let quantity = quantity(run);
    let named = |arms: &[String]| {
        let first = arms.first()?;
        verdicts(run).iter().find(|v| v.arm == *first).map(|v| sentence(v, quantity))
    };
    match &run.outcome {
        Some(outcome @ (Outcome::Proven { keep: arms } | Outcome::Likely { arms })) => {
            named(arms).unwrap_or_else(|| outcome_line(outcome))
        }
        Some(outcome @ Outcome::NoGain { .. }) => {
            let (untried, tried): (Vec<_>, Vec<_>) =
                verdicts(run).iter().partition(|verdict| verdict.word == Word::NotTried);
            let tried = counted(tried.len() as u64, "arm", "arms");
            let untried: Vec<String> = untried.iter().map(|v| short_arm(&v.arm)).collect();
            let line = match best(verdicts(run), quantity) {
                Some((arm, time)) => {
                    format!("{}: the best of {tried}, {arm}, has {time}", outcome_line(outcome))
                }
                None => outcome_line(outcome),
            };
            let untried = match &untried[..] {
                [] => String::new(),
                arms => format!("; no time for {}", arms.join(", ")),
            };
            line + &untried + &rejection(verdicts(run))
        }
        Some(Outcome::CannotTell { why }) => {
            let halted = run.experiment.as_ref().is_some_and(|e| e.halted.is_some());
            let open = verdicts(run).iter().filter(|v| v.word == Word::CannotTell && !halted);
            match best_arm(open) {
                Some((verdict, effect)) => format!(
                    "{}: {} has {} so far",
                    open_words(verdict, verdicts(run).len()),
                    short_arm(&verdict.arm),
                    effect_phrase(effect, quantity)
                ),
                None => format!("cannot tell: {why}"),
            }
        }
        Some(Outcome::NothingKept) => nothing_kept(verdicts(run), quantity),
        Some(Outcome::AdviceOnly) => advice(run),
        Some(Outcome::Interrupted) => interrupted(run),
        Some(outcome) => outcome_line(outcome),
        None => unfinished(run),
    }
}

/// The arm with the least time that was not refused, and that time.
fn best<'a>(
    verdicts: impl IntoIterator<Item = &'a Verdict>,
    quantity: Quantity,
) -> Option<(String, String)> {
    let (verdict, effect) = best_arm(verdicts)?;
    Some((short_arm(&verdict.arm), effect_phrase(effect, quantity)))
}

fn best_arm<'a>(
    verdicts: impl IntoIterator<Item = &'a Verdict>,
) -> Option<(&'a Verdict, &'a Effect)> {
    let ran = verdicts.into_iter().filter(|v| v.word != Word::Reject);
    let timed = ran.filter_map(|v| Some((v, v.effect.as_ref()?)));
    let timed = timed.filter(|(_, effect)| effect.is_measured());
    timed.min_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio))
}

/// Words for an open arm, one of `arms`.
fn open_words(verdict: &Verdict, arms: usize) -> String {
    match is_unproven(verdict) {
        true if arms > 1 => format!("not proven among {arms} arms"),
        true => "not proven".to_owned(),
        false => "cannot tell".to_owned(),
    }
}

/// Why a session has no outcome, as it was reported.
fn unfinished(run: &Run) -> String {
    let reported = run.warnings.iter().rev().find_map(|text| text.strip_prefix(ENDED_EARLY));
    format!("unfinished: {}", reported.unwrap_or("no outcome was recorded"))
}

/// `keep heap-huge: 48% less time (46..50%), 1.94 times as fast`.
fn sentence(verdict: &Verdict, quantity: Quantity) -> String {
    let (word, _) = short_word(verdict, quantity, false);
    let arm = short_arm(&verdict.arm);
    let Some(effect) = &verdict.effect else {
        return format!("{word} {arm}: {}", verdict.why);
    };
    let saved = effect_phrase(effect, quantity);
    let end = match (verdict.word, quantity) {
        (Word::Likely, _) => format!(", {} sure", percent(effect.sure_share)),
        (_, Quantity::Time) => format!(", {}", times_as_fast(effect.ratio)),
        _ => String::new(),
    };
    format!("{word} {arm}: {saved}{end}")
}

fn nothing_kept(verdicts: &[Verdict], quantity: Quantity) -> String {
    let tried = counted(verdicts.len() as u64, "arm", "arms");
    let line = match best(verdicts, quantity) {
        Some((arm, time)) => {
            format!("nothing worth keeping; the best of {tried}, {arm}, has {time}")
        }
        None => format!("nothing worth keeping; {tried} tried, all refused"),
    };
    line + &rejection(verdicts)
}

/// Why the arm with the largest gain was rejected, as the end of a sentence.
fn rejection(verdicts: &[Verdict]) -> String {
    let rejected = verdicts.iter().filter(|verdict| verdict.word == Word::Reject);
    let ratio = |verdict: &Verdict| verdict.effect.as_ref().map_or(f64::INFINITY, |e| e.ratio);
    let most = rejected.min_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    most.map_or_else(String::new, |arm| {
        format!("; {} is rejected: {}", short_arm(&arm.arm), arm.why)
    })
}

fn advice(run: &Run) -> String {
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

fn interrupted(run: &Run) -> String {
    let quantity = quantity(run);
    let of = |word: Word| verdicts(run).iter().find(|v| v.word == word);
    match of(Word::Keep).or_else(|| of(Word::Likely)) {
        Some(verdict) => format!("interrupted, yet {}", sentence(verdict, quantity)),
        None => match best(verdicts(run), quantity) {
            Some((arm, time)) => format!("interrupted: {arm} has {time} so far"),
            None => "interrupted: no arm had run yet".to_owned(),
        },
    }
}

fn ab_headline(run: &Run) -> String {
    let all = verdicts(run);
    if all.is_empty() {
        return run.outcome.as_ref().map_or("no comparison".to_owned(), outcome_line);
    }
    let quantity = quantity(run);
    let of = |verdict: &Verdict| {
        let (word, _) = short_word(verdict, quantity, true);
        match &verdict.effect {
            Some(effect) if effect.is_measured() => {
                format!("{}: {}, {word}", verdict.arm, effect_phrase(effect, quantity))
            }
            _ => format!("{}: {word}: {}", verdict.arm, verdict.why),
        }
    };
    let ratio = |one: &Verdict| one.effect.as_ref().map_or(f64::INFINITY, |effect| effect.ratio);
    let sentence = match all {
        [_, _, _, ..] => {
            let best = all.iter().min_by(|a, b| ratio(a).total_cmp(&ratio(b)));
            let best = best.map(of).unwrap_or_default();
            format!("the best of {} beside the first, {best}", all.len())
        }
        _ => all.iter().map(of).collect::<Vec<_>>().join("; "),
    };
    match &run.outcome {
        Some(Outcome::Interrupted) => format!("interrupted; {sentence}"),
        _ => sentence,
    }
}
