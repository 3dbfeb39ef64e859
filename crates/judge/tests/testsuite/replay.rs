//! Replays every recorded session through the policy that races. The verdicts must match the saved ones.

use pagewise_judge::race::{
    BlockUnit, RaceBlock, RaceEntrant, RaceGoal, RacePolicy, RaceTerms, RemedyCounter,
};
use pagewise_model::run::SavedRun;
use pagewise_model::service::ServiceMode;
use pagewise_model::trial::{ArmVerdict, Experiment, VerdictWord};
use std::path::{Path, PathBuf};

/// All saved sessions with an experiment.
fn recorded() -> Vec<(PathBuf, SavedRun)> {
    // The sessions in fixtures/runs were recorded with wider intervals.
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/cookbook");
    let files = fixtures.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let mut runs: Vec<(PathBuf, SavedRun)> = files
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .map(|path| {
            let run = SavedRun::from_json(&std::fs::read(&path).unwrap()).unwrap();
            (path, run)
        })
        .filter(|(_, run)| run.experiment.is_some())
        .collect();
    runs.sort_by(|a, b| a.0.cmp(&b.0));
    runs
}

/// The counter that shows that an arm acts, by its remedy and by what was read of it.
fn counter(run: &SavedRun, experiment: &Experiment, arm: &str) -> RemedyCounter {
    if run.service.is_none() {
        let is_read = experiment.points_of(arm).any(|point| point.mechanism.is_some());
        return if is_read { RemedyCounter::OfRun } else { RemedyCounter::None };
    }
    match arm.split('=').next() {
        Some("heap-huge") => RemedyCounter::AnonHuge,
        Some("text-huge") => RemedyCounter::FileHuge,
        _ => RemedyCounter::None,
    }
}

fn replayed(run: &SavedRun, experiment: &Experiment) -> RacePolicy {
    let design = &experiment.design;
    let terms = RaceTerms {
        quantity: design.quantity,
        guards: design.guards.clone(),
        goal: RaceGoal::Gain,
        unit: match run.service.as_ref().map(|service| service.mode) {
            None => BlockUnit::Runs,
            Some(ServiceMode::Toggle) => BlockUnit::WatchedPair,
            Some(_) => BlockUnit::Pair,
        },
        control: design.control.clone(),
        seed: design.seed,
        budget: design.budget_ns,
        most_at_once: experiment.blocks.iter().any(|block| block.at_once).then_some(Ok(4)),
    };
    let entrant = |name: &String| RaceEntrant {
        name: name.clone(),
        counter: counter(run, experiment, name),
        barred: None,
        at_once: experiment.is_at_once(name),
    };
    let runs = experiment.blocks.iter().cloned().map(RaceBlock::Runs);
    let pairs = run.service.iter().flat_map(|service| service.pairs.iter().cloned());
    let blocks = runs.chain(pairs.map(RaceBlock::Pair)).collect();
    RacePolicy::new(terms, design.arms.iter().map(entrant).collect(), blocks)
}

/// Both verdicts say the same about time, memory and counters. Not compared: what depends on the length of a
/// run, and words that rest on other facts (an output that differs, a failed start).
fn assert_equal(place: &str, saved: &ArmVerdict, now: &ArmVerdict) {
    let rests_elsewhere = matches!(saved.word, VerdictWord::Reject | VerdictWord::NotTried)
        || saved.why.ends_with("its output is not compared yet");
    // Later versions rule out gains above 1%.
    let is_less = |saved, now| (saved, now) == (Some(0.02), Some(0.01));
    let rules_out_less = is_less(saved.no_gain_above_share, now.no_gain_above_share);
    // In later versions *likely* needs an interval without *no gain* in it.
    let is_open = saved.effect.as_ref().is_some_and(|effect| effect.ratio_high >= 1.0);
    let was_likely = saved.word == VerdictWord::Likely && is_open;
    if was_likely {
        assert_eq!(now.word, VerdictWord::CannotTell, "{place}");
    } else if !rests_elsewhere {
        assert_eq!(saved.word, now.word, "{place}");
        let less =
            saved.why.replace("a gain above 2% is ruled out", "a gain above 1% is ruled out");
        let why = if rules_out_less && saved.why != now.why { &less } else { &saved.why };
        assert_eq!(why, &now.why, "{place}");
    }
    match (&saved.effect, &now.effect) {
        (Some(saved), Some(now)) => {
            let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-9, "{place}: {a} {b}");
            near(saved.ratio, now.ratio);
            near(saved.ratio_low, now.ratio_low);
            near(saved.ratio_high, now.ratio_high);
            near(saved.evidence_of_gain, now.evidence_of_gain);
            near(saved.evidence_of_worth, now.evidence_of_worth);
            assert_eq!((saved.runs, saved.control_runs), (now.runs, now.control_runs), "{place}");
        }
        (saved, now) => assert_eq!(saved, now, "{place}"),
    }
    assert_eq!(saved.peak_rss_change_bytes, now.peak_rss_change_bytes, "{place}");
    let shares = [
        (saved.no_gain_above_share, now.no_gain_above_share),
        (saved.no_loss_above_share, now.no_loss_above_share),
    ];
    for (saved, now) in shares {
        assert!(saved == now || is_less(saved, now), "{place}: {saved:?} {now:?}");
    }
}

#[test]
fn recorded_sessions_end_in_the_verdicts_that_were_saved() {
    let mut verdicts = 0;
    for (path, run) in recorded() {
        let experiment = run.experiment.as_ref().unwrap();
        let mut policy = replayed(&run, experiment);
        for arm in 0..experiment.design.arms.len() {
            policy.compared(arm, None);
        }
        for saved in &experiment.verdicts {
            let arm = policy.number(&saved.arm).unwrap();
            let place = format!("{}: {}", path.display(), saved.arm);
            assert_equal(&place, saved, &policy.verdict(arm, None, 1e9));
            verdicts += 1;
        }
    }
    assert!(verdicts >= 50, "only {verdicts} verdicts were recorded");
}
