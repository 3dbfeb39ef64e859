//! Trials of code on huge pages, in a world made of numbers.

use crate::support::{Fake, request, spec};
use pagewise_model::Bytes;
use pagewise_model::body::RunBody;
use pagewise_model::plan::{FileKind, HugeFile};
use pagewise_model::run::{RunKind, SavedRun, SessionOutcome};
use pagewise_model::text_trial::{FileInArms, OFF, ON};
use pagewise_model::trial::VerdictWord;
use pagewise_tune::SessionStop;
use pagewise_tune::text::TextTrialSubject;

fn tried(world: &mut Fake, pairs: u32, path: Option<&str>) -> (SavedRun, Option<SessionStop>) {
    let file = |path: &str| HugeFile { path: path.to_owned(), kind: FileKind::Code };
    let files = path.map(file).into_iter().collect();
    TextTrialSubject { request: &request(spec()), pairs, files }.run(world)
}

#[test]
fn a_gain_is_proven_in_the_pairs_that_were_asked_for() {
    let mut world = Fake { text_factor: 0.9, ..Fake::default() };
    let (run, stop) = tried(&mut world, 20, Some("/bin/prog"));
    assert!(stop.is_none() && run.kind == RunKind::Bench, "{stop:?}");
    let experiment = run.experiment.expect("an experiment");
    assert_eq!(experiment.points_of(ON).count(), 20);
    assert_eq!(experiment.points_of(OFF).count(), 20);
    let verdict = &experiment.verdicts[0];
    assert_eq!((verdict.arm.as_str(), verdict.word), (ON, VerdictWord::Keep), "{}", verdict.why);
    let effect = verdict.effect.as_ref().expect("an effect");
    assert!((effect.ratio - 0.9).abs() < 0.01 && effect.ratio_high < 0.95, "{effect:?}");
    assert_eq!(run.outcome, Some(SessionOutcome::Proven { keep: vec![ON.to_owned()] }));
    let receipt = run.receipt.expect("how to keep it").command;
    assert!(receipt.contains("text-huge=/bin/prog"), "{receipt}");
}

#[test]
fn the_pages_of_both_arms_are_told_as_they_were() {
    let mut world = Fake::default();
    let (run, _) = tried(&mut world, 8, Some("/bin/prog"));
    let Some(RunBody::TextTrial(trial)) = run.body else { panic!("no text trial") };
    let file = FileInArms {
        path: "/bin/prog".to_owned(),
        text_bytes: Bytes::mib(5),
        off_huge_bytes: Bytes(0),
        on_huge_bytes: Bytes::mib(4),
    };
    assert_eq!((trial.pairs, trial.files), (8, vec![file]));
    assert!(trial.off_walks.reason().is_some() && trial.on_walks.reason().is_some());
    assert!(trial.off_misses.reason().is_some() && trial.on_misses.reason().is_some());
    let base = trial.estimate.known().expect("the fake steps a loop").base;
    assert_eq!((base.per_1000, base.low), (50.0, 50.0));
    let look = run.look.as_ref().and_then(|look| look.traced.known()).expect("a traced look");
    assert!(look.stepped.is_none(), "the steps are not saved");
    let experiment = run.experiment.expect("an experiment");
    for point in experiment.blocks.iter().flat_map(|block| &block.points) {
        match &point.mechanism {
            Some(count) => assert_eq!((point.arm.as_str(), *count), (ON, 2)),
            None => assert_eq!(point.idle_mechanisms, [(ON.to_owned(), 0)], "{}", point.arm),
        }
    }
}

#[test]
fn no_gain_is_told_as_none() {
    let mut world = Fake::default();
    let (run, _) = tried(&mut world, 24, Some("/bin/prog"));
    let outcome = run.outcome.expect("an outcome");
    assert!(!matches!(outcome, SessionOutcome::Proven { .. }), "{outcome:?}");
    assert!(run.receipt.is_none() && world.timed_runs(OFF) >= world.timed_runs(ON));
}

#[test]
fn without_a_file_that_could_be_on_huge_pages_nothing_is_run() {
    let mut world = Fake::default();
    let (run, stop) = tried(&mut world, 8, None);
    assert!(stop.is_none() && world.timed.is_empty(), "{stop:?}");
    assert!(matches!(run.outcome, Some(SessionOutcome::NothingToGain { .. })), "{:?}", run.outcome);
    let Some(RunBody::TextTrial(trial)) = run.body else { panic!("no estimate") };
    assert!(trial.files.is_empty() && trial.estimate.known().is_some());
}

#[test]
fn what_is_known_is_kept_when_the_user_ends_it() {
    let mut world = Fake { interrupt_after: 30, ..Fake::default() };
    let (run, _) = tried(&mut world, 100, Some("/bin/prog"));
    assert_eq!(run.outcome, Some(SessionOutcome::Interrupted));
}
