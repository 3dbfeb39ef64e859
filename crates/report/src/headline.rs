//! The verdict in one sentence: the first thing a reader sees.

use crate::bench::Bench;
use crate::number::{change, counted, interval, percent, times_as_fast};
use crate::page::Page;
use crate::style::{Style, Tone};
use pagewise_model::diagnosis::Diagnosis;
use pagewise_model::run::{Outcome, Run, RunKind};
use pagewise_model::trial::{Effect, Verdict, Word};

/// How a warning begins that says why a session ended before it had an outcome.
pub const ENDED_EARLY: &str = "the session ended early: ";

/// How a session ended, without its figures.
#[must_use]
pub fn outcome_line(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Proven { keep } if keep.is_empty() => "proven, but no arm is named".to_owned(),
        Outcome::Proven { keep } => format!("keep {}", keep.join(", ")),
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
        RunKind::Doctor => crate::doctor::summary(run.checkup.as_ref()),
        RunKind::Profile => profile_headline(run),
        RunKind::Faults => crate::faults::headline(run),
        RunKind::Ab => ab_headline(run),
        RunKind::Tune => tune_headline(run),
        RunKind::Bench => bench_headline(run),
        RunKind::Cache => of(run.cache.as_ref(), crate::cache::headline),
        RunKind::Text => of(run.text.as_ref(), crate::code::headline),
        RunKind::Choose => of(run.choice.as_ref(), crate::choice::headline),
    }
}

/// What `say` makes of a report that is there.
fn of<T>(report: Option<&T>, say: impl Fn(&T) -> String) -> String {
    report.map_or_else(|| "nothing was looked at".to_owned(), say)
}

/// The headline as lines of a report.
pub(crate) fn headline_section(run: &Run, style: &Style) -> String {
    let mut page = Page::new(style);
    let tone = match &run.outcome {
        Some(Outcome::Proven { .. }) => Tone::Good,
        Some(Outcome::CannotTell { .. } | Outcome::Interrupted) => Tone::Warn,
        _ => Tone::Strong,
    };
    page.para(&headline(run), 0, tone);
    page.finish()
}

fn bench_headline(run: &Run) -> String {
    let nothing = || {
        let is_early = matches!(run.outcome, Some(Outcome::Interrupted));
        let when = if is_early { "interrupted before anything" } else { "nothing" };
        format!("{when} was measured")
    };
    let is_decided = matches!(run.outcome, Some(Outcome::NothingToGain { .. }));
    match Bench::of(run) {
        Some(bench) => bench.headline(),
        // Of a program, and not of what a technique is worth here.
        None if run.text_trial.is_some() || is_decided => ab_headline(run),
        None => nothing(),
    }
}

fn profile_headline(run: &Run) -> String {
    let Some(diagnosis) = &run.diagnosis else {
        let none = || "no diagnosis was made".to_owned();
        return run.profile.as_ref().map_or_else(none, crate::profile::headline);
    };
    let ceiling = percent(diagnosis.ceiling_share);
    let without = without(diagnosis);
    let costs =
        format!("page costs and wake-ups: at most {ceiling} of wall time (estimate){without}");
    match diagnosis.costs.first() {
        Some(cost) => format!("{costs}; the largest: {}", cost.kind.label()),
        None => costs,
    }
}

/// What the ceiling does not have in it, as the end of a sentence.
pub(crate) fn without(diagnosis: &Diagnosis) -> String {
    match diagnosis.not_in_ceiling.as_slice() {
        [] => String::new(),
        costs => format!(", without {}: not seen", costs.join(" and ")),
    }
}

fn verdicts(run: &Run) -> &[Verdict] {
    run.experiment.as_ref().map_or(&[], |e| e.verdicts.as_slice())
}

fn tune_headline(run: &Run) -> String {
    match &run.outcome {
        Some(Outcome::Proven { keep }) => {
            let best = keep.first().and_then(|k| verdicts(run).iter().find(|v| &v.arm == k));
            match (best, &run.outcome) {
                (Some(verdict), _) => verdict_sentence(verdict, verdict.word.label()),
                (None, Some(outcome)) => outcome_line(outcome),
                (None, None) => String::new(),
            }
        }
        Some(Outcome::NothingKept) => nothing_kept(verdicts(run)),
        Some(Outcome::AdviceOnly) => advice(run),
        Some(Outcome::Interrupted) => interrupted(run),
        Some(outcome) => outcome_line(outcome),
        None => unfinished(run),
    }
}

/// Why a session has no outcome, as it was told.
fn unfinished(run: &Run) -> String {
    let told = run.warnings.iter().rev().find_map(|text| text.strip_prefix(ENDED_EARLY));
    format!("unfinished: {}", told.unwrap_or("no outcome was recorded"))
}

fn verdict_sentence(verdict: &Verdict, word: &str) -> String {
    match &verdict.effect {
        Some(effect) => format!("{}: {}, {word}", verdict.arm, effect_phrase(effect)),
        None => format!("{}: {word}: {}", verdict.arm, verdict.why),
    }
}

fn effect_phrase(e: &Effect) -> String {
    let change = match change(e.ratio) {
        none if none == "no change" => "no change in time".to_owned(),
        some => format!("{some} time"),
    };
    let interval = format!(
        "95% interval {}; a later repeat {}",
        interval(e.ratio, e.ratio_low, e.ratio_high),
        interval(e.ratio, e.repeat_low, e.repeat_high)
    );
    if e.ratio < 0.995 {
        format!("{} ({change}; {interval})", times_as_fast(e.ratio))
    } else {
        format!("{change} ({interval})")
    }
}

fn nothing_kept(verdicts: &[Verdict]) -> String {
    let tried = counted(verdicts.len() as u64, "arm", "arms");
    let of_arm = |v: &&Verdict| v.effect.as_ref().map_or(f64::INFINITY, |e| e.ratio);
    let best = verdicts
        .iter()
        .filter(|v| v.effect.is_some())
        .min_by(|a, b| of_arm(a).total_cmp(&of_arm(b)));
    match best {
        Some(best) => {
            let sentence = verdict_sentence(best, best.word.label());
            format!("nothing worth keeping; the best of {tried} was {sentence}")
        }
        None => format!("nothing worth keeping; {tried} tried, none beyond screening"),
    }
}

fn advice(run: &Run) -> String {
    let fitting: Vec<_> = run.candidates.iter().filter(|c| c.fits()).collect();
    let best = fitting.iter().max_by(|a, b| a.ceiling_share.total_cmp(&b.ceiling_share));
    match best {
        Some(best) => format!(
            "advice only, nothing tried: {}, the most promising {} (at most {}, estimate)",
            counted(fitting.len() as u64, "remedy fits", "remedies fit"),
            best.remedy,
            percent(best.ceiling_share)
        ),
        None => "advice only, nothing tried: no remedy fits".to_owned(),
    }
}

fn interrupted(run: &Run) -> String {
    let proven = verdicts(run).iter().find(|v| v.word == Word::Keep);
    match proven {
        Some(verdict) => {
            format!("interrupted, yet {}", verdict_sentence(verdict, verdict.word.label()))
        }
        None => "interrupted: nothing was proven by then".to_owned(),
    }
}

fn ab_headline(run: &Run) -> String {
    let Some(verdict) = verdicts(run).first() else {
        return run.outcome.as_ref().map_or("no comparison was made".to_owned(), outcome_line);
    };
    let slower = verdict.effect.as_ref().is_some_and(|e| e.ratio_low > 1.0);
    let word = match verdict.word {
        Word::Keep => "proven faster",
        Word::Reject if slower => "proven slower",
        Word::Reject => "rejected",
        other => other.label(),
    };
    let sentence = verdict_sentence(verdict, word);
    match &run.outcome {
        Some(Outcome::Interrupted) => format!("interrupted; {sentence}"),
        _ => sentence,
    }
}
