//! Reports of constructed runs against reviewed texts in `tests/golden`. With `UPDATE_GOLDEN` set
//! the texts are written anew: review the difference.
#![allow(clippy::unwrap_used, reason = "constructed facts hold what is unwrapped")]

mod support;

use pagewise_model::run::{Outcome, RunKind};
use pagewise_model::trial::{AllBlocks, Word};
use pagewise_report::{
    RunHead, Style, compare, csv, history_table, look_section, markdown, render,
};
use support::{
    PLAIN, candidate, doctor, effect, experiment, proven, run, slower_ab, traced_look, verdict,
};

fn check(name: &str, got: &str) {
    support::check(&format!("{name}.txt"), got);
    assert!(got.lines().count() < 60, "{name} is too long to review");
}

#[test]
fn a_proven_gain() {
    let mut run = proven();
    run.look = None;
    check("proven", &render(&run, &PLAIN));
    run.experiment.as_mut().unwrap().verdicts.truncate(1);
    (run.receipt, run.machine) = (None, None);
    check("proven-60", &render(&run, &Style { width: 60, unicode: false, ..PLAIN }));
}

#[test]
fn a_proven_gain_for_a_pull_request() {
    check("markdown", &markdown(&proven()));
    check("csv", &csv(&proven()));
}

#[test]
fn a_slower_second_command() {
    check("ab-slower", &render(&slower_ab(), &PLAIN));
}

#[test]
fn a_slower_second_command_for_a_pull_request() {
    let text = markdown(&slower_ab());
    assert!(text.contains("| slower: slower in 9 of 9 blocks |"), "{text}");
    let mut faster = slower_ab();
    faster.experiment.as_mut().unwrap().verdicts[0].word = Word::Keep;
    assert!(markdown(&faster).contains("| faster: "));
}

#[test]
fn a_remedy_that_fits_and_has_no_verdict_says_why() {
    let mut run = proven();
    run.candidates.push(candidate("malloc-keep", "churn", true));
    run.experiment.as_mut().unwrap().verdicts.truncate(1);
    let said = |run: &pagewise_model::run::Run| {
        render(run, &PLAIN).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(said(&run).contains("but no run of it counted"), "{}", said(&run));
    let design = &mut run.experiment.as_mut().unwrap().design;
    design.screened = vec!["heap-huge".into()];
    design.confirmed = vec!["heap-huge".into()];
    assert!(said(&run).contains("but it was left out by --only"), "{}", said(&run));
    run.experiment = None;
    assert!(said(&run).contains("but nothing was tried"), "{}", said(&run));
}

#[test]
fn the_checkup() {
    check("doctor", &render(&doctor(), &PLAIN));
}

#[test]
fn the_program_as_it_is() {
    check("look", &look_section(&traced_look(), &PLAIN));
}

#[test]
fn advice_only() {
    let mut run = proven();
    run.outcome = Some(Outcome::AdviceOnly);
    (run.experiment, run.look, run.receipt) = (None, None, None);
    check("advice", &render(&run, &PLAIN));
}

#[test]
fn nothing_to_gain() {
    let why = "page costs and wake-ups are at most 0.8% of its time".to_owned();
    let run = run(RunKind::Tune, Some(Outcome::NothingToGain { why }));
    check("nothing-to-gain", &render(&run, &PLAIN));
}

#[test]
fn interrupted_with_every_block_dropped() {
    let mut run = run(RunKind::Tune, Some(Outcome::Interrupted));
    let mut all =
        experiment(vec![verdict("heap-huge", Word::CannotTell, "no block counted", None)]);
    for block in &mut all.blocks {
        block.dropped = Some("the canary was 9% slow".into());
    }
    all.interrupted = true;
    all.design.smallest_provable_share = None;
    all.design.budget_for_10_percent_ns = None;
    run.experiment = Some(all);
    check("interrupted", &render(&run, &PLAIN));
}

#[test]
fn two_runs_of_different_machines() {
    let (a, mut b) = (proven(), proven());
    b.id = "t-0002".into();
    if let Some(machine) = &mut b.machine {
        machine.kernel = "6.1.0-test".into();
    }
    b.look.as_mut().unwrap().runs.truncate(1);
    check("compare", &compare(&a, &b, &PLAIN));
    assert!(compare(&a, &a, &PLAIN).starts_with("same machine\n"));
    b.environment = vec![("GLIBC_TUNABLES".into(), "x=1".into())];
    b.input = Some("in put".into());
    let text = compare(&a, &b, &PLAIN);
    assert!(text.contains("environments differ: GLIBC_TUNABLES not set / x=1"), "{text}");
    assert!(
        text.contains("input differs") && text.contains("./walk --size 1G < 'in put'"),
        "{text}"
    );
    b.machine = None;
    assert!(compare(&a, &b, &PLAIN).starts_with("cannot tell whether"));
}

#[test]
fn the_history() {
    let heads: Vec<RunHead> = [&proven(), &slower_ab(), &doctor()].map(RunHead::from).to_vec();
    check("history", &history_table(&heads, &PLAIN));
    assert_eq!(history_table(&[], &PLAIN), "no saved runs\n");
}

#[test]
fn blocks_of_the_host_are_told_whether_they_count_or_not() {
    let mut dropped = proven();
    let experiment = dropped.experiment.as_mut().unwrap();
    experiment.blocks[1].host = Some("the host interfered for 8% of a run".into());
    let all = AllBlocks { ratio: 0.53, ratio_low: 0.5, ratio_high: 0.6, blocks: 10 };
    experiment.verdicts[0].effect.as_mut().unwrap().with_host = Some(all);
    let mut counted = dropped.clone();
    let line = "with the host's blocks counted: 47% less (95% interval 40..50%), 10 blocks";
    assert!(render(&dropped, &PLAIN).contains(line), "{}", render(&dropped, &PLAIN));
    assert!(markdown(&dropped).contains(line));
    let experiment = counted.experiment.as_mut().unwrap();
    experiment.blocks[1].dropped = None;
    let text = render(&counted, &PLAIN);
    assert!(
        text.contains("3 blocks of 10 planned, 1 counted though the host interfered"),
        "{text}"
    );
}

#[test]
fn headlines_of_every_direction() {
    let headline = |ratio: f64, low, high, word| {
        let mut run = run(RunKind::Tune, Some(Outcome::NothingKept));
        let verdict = verdict("place", word, "", Some(effect(ratio, low, high)));
        run.experiment = Some(experiment(vec![verdict]));
        pagewise_report::headline(&run)
    };
    assert_eq!(
        headline(0.996, 0.982, 1.01, Word::Equivalent),
        "nothing worth keeping; the best of 1 arm was place: 0.4% less time \
         (95% interval -1.0..1.8%; a later repeat -3.0..3.8%), equivalent within 2%"
    );
    assert_eq!(
        headline(1.1, 0.9, 1.3, Word::CannotTell),
        "nothing worth keeping; the best of 1 arm was place: 10% more time \
         (95% interval -10..30%; a later repeat -12..32%), cannot tell"
    );
    assert!(pagewise_report::headline(&proven()).starts_with(
        "heap-huge: 1.94 times as fast (48% less time; 95% interval 46..50%; \
             a later repeat 44..52%), keep"
    ));
}
