//! The report on one screen: of constructed sessions against reviewed texts, of saved ones and of random ones
//! against what a reader may rely on.
#![allow(clippy::unwrap_used, reason = "constructed facts hold what is unwrapped")]

mod support;

use pagewise_model::run::{Outcome, Run, RunKind};
use pagewise_model::trial::{Effect, Word};
use pagewise_report::{Style, render};
use proptest::prelude::*;
use support::{PLAIN, candidate, effect, experiment, proven, slower_ab, verdict};

/// Lines of a screen.
const MOST_LINES: usize = 25;

/// What holds of every report on one screen.
fn check(run: &Run, style: &Style) -> String {
    let text = render(run, style);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() <= MOST_LINES, "{} lines:\n{text}", lines.len());
    let copied = |line: &str| line.contains("pagewise ") || line.contains("export ");
    for line in &lines {
        assert!(copied(line) || line.chars().count() <= style.width.max(40), "too wide: {line}");
    }
    let mut said: Vec<&str> = lines
        .iter()
        .map(|line| line.trim())
        .filter(|line| line.split_whitespace().count() > 6)
        .collect();
    said.sort_unstable();
    assert!(said.windows(2).all(|pair| pair[0] != pair[1]), "twice:\n{text}");
    for share in text.split("up to ").skip(1) {
        let number = share.split('%').next().unwrap_or_default().trim_start_matches('<');
        if let Ok(percent) = number.parse::<f64>() {
            assert!(percent <= 100.0, "more than the whole:\n{text}");
        }
    }
    for verdict in run.experiment.iter().flat_map(|experiment| &experiment.verdicts) {
        let is_known = verdict.effect.as_ref().is_some_and(Effect::is_measured);
        let of_arm = lines.iter().filter(|line| {
            line.split_whitespace().nth(usize::from(line.starts_with("  tried")))
                == Some(&verdict.arm)
        });
        for line in of_arm.filter(|_| !is_known && run.kind == RunKind::Tune) {
            assert!(
                !line.contains("% less") && !line.contains("% more"),
                "a figure from one run: {line}"
            );
        }
    }
    text
}

#[test]
fn a_session_fits_a_screen() {
    support::check("brief-proven.txt", &check(&proven(), &PLAIN));
    support::check("brief-ab.txt", &check(&slower_ab(), &PLAIN));
    support::check("brief-service.txt", &check(&support::served(), &PLAIN));
    check(&proven(), &Style { width: 40, unicode: false, ..PLAIN });
}

#[test]
fn saved_sessions_fit_a_screen() {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");
    let mut seen = 0;
    for place in ["runs", "cookbook"] {
        for file in std::fs::read_dir(format!("{fixtures}/{place}")).unwrap() {
            let file = file.unwrap().path();
            if file.extension().is_none_or(|end| end != "json") {
                continue;
            }
            let run = Run::from_json(&std::fs::read(file).unwrap()).unwrap();
            if matches!(run.kind, RunKind::Tune | RunKind::Ab) {
                check(&run, &PLAIN);
                seen += 1;
            }
        }
    }
    assert!(seen >= 15, "{seen}");
}

#[test]
fn many_arms_and_many_notes_fit_as_well() {
    let mut run = proven();
    let arm = |at: usize| {
        verdict(&format!("arm-{at}"), Word::NoGain, "why", Some(effect(0.99, 0.97, 1.01)))
    };
    run.experiment = Some(experiment((0..40).map(arm).collect()));
    run.warnings = (0..40).map(|at| format!("note {at} {}", "of many words ".repeat(12))).collect();
    let text = check(&run, &PLAIN);
    assert!(text.contains("34 more: arm-") && text.contains("notes are left out here"), "{text}");
}

#[test]
fn where_nothing_was_tried_the_remedies_stand() {
    let mut run = proven();
    (run.experiment, run.receipt, run.outcome) = (None, None, Some(Outcome::AdviceOnly));
    let many = (0..40).map(|at| candidate(&format!("other-{at}"), "it does not fit", false));
    run.candidates.extend(many);
    let text = check(&run, &PLAIN);
    assert!(text.contains("\n  fits   heap-huge    up to "), "{text}");
    assert!(text.contains("it does not fit\n") && text.contains(" more\n"), "{text}");
}

#[test]
fn one_run_is_no_figure() {
    let mut run = proven();
    let once = Effect { runs: 1, ..effect(0.5, 0.1, 9.0) };
    run.experiment = Some(experiment(vec![verdict("place", Word::CannotTell, "why", Some(once))]));
    run.outcome = Some(Outcome::CannotTell { why: "too few runs".into() });
    let text = check(&run, &PLAIN);
    assert!(text.contains("too few") && !text.contains("50%"), "{text}");
}

proptest! {
    #[test]
    fn whatever_was_found_is_shown_as_found(
        arms in proptest::collection::vec((0.01f64..20.0, 0.0f64..3.0, 0u32..40, 0usize..8), 0..12),
        width in 40usize..160,
    ) {
        const WORDS: [Word; 8] = [
            Word::Keep, Word::Likely, Word::NoGain, Word::Slower,
            Word::Reject, Word::CannotTell, Word::NotTried, Word::CannotTell,
        ];
        let arms = arms.iter().enumerate().map(|(at, (ratio, spread, runs, word))| {
            let found = effect(*ratio, ratio * (-spread).exp(), ratio * spread.exp());
            let found = (*runs > 0).then_some(Effect { runs: *runs, ..found });
            verdict(&format!("arm-{at}"), WORDS[*word], "why", found)
        });
        let mut run = proven();
        run.experiment = Some(experiment(arms.collect()));
        check(&run, &Style { width, ..PLAIN });
    }
}
