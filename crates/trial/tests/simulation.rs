//! The engine on a simulated machine whose truth is known: heavy-tailed noise, drift, stolen
//! time, two speeds, a user who interrupts. Nothing here waits: the clock is a number.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a simulation shows its figures, and a missing verdict is a failure"
)]

mod machine;

use machine::Machine;
use pagewise_judge::stats::Rng;
use pagewise_model::Nanos;
use pagewise_model::trial::{Experiment, Word};
use pagewise_trial::{Arm, ArmId, CONTROL_AGAIN, Kind, Plan, RunFailure, run};

fn arm(name: &str) -> Arm {
    Arm { id: ArmId(name.to_owned()), counted: false, barred: None }
}

fn plan(arms: &[&str], seed: u64) -> Plan {
    Plan {
        kind: Kind::Screened,
        control: ArmId("A".to_owned()),
        arms: arms.iter().map(|name| arm(name)).collect(),
        budget: Nanos::secs(60),
        seed,
        look_wall_ns: vec![],
        blocks: None,
    }
}

fn word(experiment: &Experiment, arm: &str) -> Word {
    experiment.verdicts.iter().find(|v| v.arm == arm).unwrap().word
}

fn why(experiment: &Experiment, arm: &str) -> String {
    experiment.verdicts.iter().find(|v| v.arm == arm).unwrap().why.clone()
}

const SEVEN: [&str; 7] = ["b", "c", "d", "e", "f", "g", "h"];

#[test]
fn seven_arms_that_do_nothing_are_hardly_ever_kept() {
    let mut alarms = 0;
    let mut worst = 0;
    for seed in 0..1000 {
        let mut machine = Machine::new(seed, Nanos::millis(200), 0.03 + 0.03 * (seed % 3) as f64);
        machine.steal_every_ns = Nanos::secs(8).0;
        let experiment = run(&mut machine, &plan(&SEVEN, seed));
        let keeps = experiment.verdicts.iter().filter(|v| v.word == Word::Keep).count();
        let rejects = experiment.verdicts.iter().filter(|v| v.word == Word::Reject).count();
        alarms += usize::from(keeps > 0);
        worst += usize::from(rejects > 0);
    }
    println!("false keeps {alarms}, false rejects {worst} of 1000");
    assert!(alarms <= 20, "{alarms} of 1000 keep a no-op");
    assert!(worst <= 20, "{worst} of 1000 reject a no-op");
}

/// Noise of mean 0 and deviation 1, three runs in ten at the slower of two speeds.
fn two_modes(rng: &mut Rng) -> f64 {
    let slow = if rng.uniform() < 0.3 { 0.7 } else { -0.3 };
    (slow + 0.1 * rng.normal()) / (0.21f64 + 0.01).sqrt()
}

#[test]
fn skewed_noise_and_two_modes_prove_nothing() {
    type Draw = fn(&mut Rng) -> f64;
    let noises: [(&str, Draw); 2] =
        [("exponential", |rng| rng.exponential() - 1.0), ("two modes", two_modes)];
    for (name, noise) in noises {
        let (mut keeps, mut rejects) = (0, 0);
        for seed in 0..1000 {
            let mut machine = Machine::new(seed, Nanos::millis(100), 0.15);
            machine.noise = noise;
            let pair = Plan::pair(ArmId("A".into()), ArmId("b".into()), Nanos::secs(60), seed);
            let word = word(&run(&mut machine, &pair), "b");
            keeps += usize::from(word == Word::Keep);
            rejects += usize::from(word == Word::Reject);
        }
        println!("{name}: false keeps {keeps}, false rejects {rejects} of 1000");
        // Two are expected of each at p 0.002; seven are beyond three deviations.
        assert!(keeps <= 6 && rejects <= 6, "{name}: {keeps} kept, {rejects} rejected");
    }
}

/// Of 60 experiments with the one arm `effect` slower, those that end in `wanted`.
fn found(kind: Kind, others: &[&str], effect: f64, sd: f64, wanted: Word) -> usize {
    let hits = (0..60).filter(|seed| {
        let mut machine = Machine::new(*seed, Nanos::millis(200), sd);
        machine.effects = vec![("b", effect.ln_1p())];
        let mut arms = vec!["b"];
        arms.extend(others);
        let experiment = run(&mut machine, &Plan { kind, ..plan(&arms, *seed) });
        word(&experiment, "b") == wanted
    });
    let hits = hits.count();
    println!("{kind:?} with {} others, {effect:+} at sd {sd}: {hits} of 60", others.len());
    hits
}

#[test]
fn five_percent_are_found_at_a_spread_of_six() {
    assert!(found(Kind::Screened, &[], -0.05, 0.06, Word::Keep) >= 54);
    assert!(found(Kind::Screened, &[], 0.05, 0.06, Word::Reject) >= 54);
    assert!(found(Kind::Direct, &[], -0.05, 0.06, Word::Keep) >= 54);
    assert!(found(Kind::Direct, &[], 0.05, 0.06, Word::Reject) >= 54);
}

#[test]
fn three_percent_are_found_at_a_spread_of_three() {
    assert!(found(Kind::Screened, &[], -0.03, 0.03, Word::Keep) >= 48);
    assert!(found(Kind::Direct, &[], 0.03, 0.03, Word::Reject) >= 48);
}

#[test]
fn a_large_gain_is_found_among_seven() {
    assert!(found(Kind::Screened, &SEVEN[1..], -0.15, 0.03, Word::Keep) >= 54);
}

#[test]
fn intervals_cover_the_truth_as_often_as_they_say() {
    let covered = (0..200).filter(|seed| {
        let mut machine = Machine::new(*seed, Nanos::millis(600), 0.06);
        machine.effects = vec![("b", 0.97f64.ln())];
        let pair = Plan::pair(ArmId("A".into()), ArmId("b".into()), Nanos::secs(60), *seed);
        let experiment = run(&mut machine, &pair);
        let effect = experiment.verdicts[0].effect.as_ref().unwrap();
        effect.ratio_low <= 0.97 && 0.97 <= effect.ratio_high
    });
    let covered = covered.count();
    println!("covered {covered} of 200");
    assert!((180..=199).contains(&covered), "{covered} of 200");
}

#[test]
fn the_budget_is_kept() {
    for (seed, run_ms, slump) in
        [(1, 200, 1.0), (2, 2000, 1.0), (3, 20, 1.0), (4, 700, 2.0), (5, 1500, 4.0), (6, 9000, 1.0)]
    {
        let mut machine = Machine::new(seed, Nanos::millis(run_ms), 0.06);
        machine.slump = slump;
        let started = machine.clock_ns;
        let experiment = run(&mut machine, &plan(&["b", "c"], seed));
        let took = machine.clock_ns - started;
        let longest = experiment.blocks.iter().flat_map(|b| &b.points).map(|p| p.usage.wall_ns.0);
        let one_run = longest.max().unwrap_or(Nanos::millis(run_ms).0 * 2) + 20_000_000;
        assert!(took <= Nanos::secs(66).0 + one_run, "{run_ms} ms: took {}", Nanos(took));
        if slump == 1.0 && machine.announced.is_some() && experiment.design.blocks < 1000 {
            assert!(took >= Nanos::secs(44).0, "{run_ms} ms: took only {}", Nanos(took));
        }
    }
}

#[test]
fn a_budget_too_short_for_proof_never_keeps() {
    let mut machine = Machine::new(1, Nanos::secs(3), 0.01);
    machine.effects = vec![("b", -0.7)];
    let experiment = run(&mut machine, &plan(&["b"], 1));
    assert_eq!(word(&experiment, "b"), Word::NotProven);
    assert!(why(&experiment, "b").contains("a budget of"), "{}", why(&experiment, "b"));
    assert!(experiment.blocks.is_empty() && machine.announced.is_none());
}

#[test]
fn orders_are_random_and_repeat_with_the_seed() {
    let order = |seed| {
        let mut machine = Machine::new(1, Nanos::millis(200), 0.03);
        let experiment = run(&mut machine, &plan(&["b", "c", "d"], seed));
        (machine.order, experiment)
    };
    let (first, again, other) = (order(7), order(7), order(8));
    assert_eq!(first, again);
    assert_ne!(first.0, other.0);
    let places = |name: &str| -> Vec<usize> {
        let blocks = first.1.blocks.iter();
        blocks.filter_map(|b| b.points.iter().position(|p| p.arm == name)).collect()
    };
    for name in ["A", CONTROL_AGAIN, first.1.design.confirmed[0].as_str()] {
        let places = places(name);
        let in_front = places.iter().filter(|place| **place == 0).count();
        let share = in_front as f64 / places.len() as f64;
        assert!((0.08..0.6).contains(&share), "{name} comes first in {share}");
    }
}

#[test]
fn the_design_is_announced_and_followed() {
    let mut machine = Machine::new(3, Nanos::millis(200), 0.02);
    machine.effects = vec![("b", -0.2), ("c", -0.1), ("b+c", -0.3)];
    let experiment = run(&mut machine, &plan(&["b", "c", "d"], 3));
    assert_eq!(machine.announced.as_ref(), Some(&experiment.design));
    assert_eq!(experiment.design.confirmed, ["b", "c", "b+c"]);
    assert_eq!(experiment.blocks.len(), experiment.design.blocks as usize);
    assert!(experiment.design.smallest_provable_share.is_some_and(|g| g < 0.05));
    assert!(experiment.blocks.iter().all(|b| b.points.len() == 5));
    assert_eq!(word(&experiment, "b+c"), Word::Keep);
    assert_eq!(word(&experiment, "d"), Word::NotProven);
    assert!(why(&experiment, "d").contains("another arm did better"), "{}", why(&experiment, "d"));
}

#[test]
fn hopeless_arms_are_dropped() {
    let mut machine = Machine::new(3, Nanos::millis(200), 0.02);
    machine.effects = vec![("b", 0.5)];
    let experiment = run(&mut machine, &plan(&["b", "c"], 3));
    assert_eq!(experiment.design.confirmed, ["c"]);
    assert!(why(&experiment, "b").contains("dropped in screening"));
}

#[test]
fn our_own_failures_prove_nothing() {
    let mut machine = Machine::new(3, Nanos::millis(200), 0.02);
    machine.effects = vec![("b", -0.3)];
    machine.broken = vec!["c"];
    machine.breaks_at = 20;
    let mut plan = plan(&["b", "c", "d"], 3);
    plan.arms[2].barred = Some("its output differs".into());
    let experiment = run(&mut machine, &plan);
    assert_eq!(word(&experiment, "b"), Word::CannotTell);
    assert_eq!(word(&experiment, "c"), Word::CannotTell, "its failure may be ours, too");
    assert_eq!(word(&experiment, "d"), Word::Reject);
    assert!(why(&experiment, "b").contains("no more processes"), "{}", why(&experiment, "b"));
    assert!(experiment.halted.is_some_and(|why| why.contains("no more processes")));
}

#[test]
fn combinations_that_are_not_confirmed_are_listed() {
    let told = |together, budget| {
        let mut machine = Machine::new(3, Nanos::millis(200), 0.02);
        machine.effects = vec![("b", -0.2), ("c", -0.1), ("b+c", -0.3)];
        machine.together = together;
        run(&mut machine, &Plan { budget, ..plan(&["b", "c"], 3) })
    };
    let long = Nanos::secs(60);
    let experiment = told(Ok(Some("its output differs".into())), long);
    assert_eq!(word(&experiment, "b+c"), Word::Reject);
    assert_eq!(why(&experiment, "b+c"), "its output differs");
    let experiment = told(Err(RunFailure::Failed("no such file".into())), long);
    let failed = experiment.verdicts.last().unwrap();
    assert!(failed.why.contains("no such file") && failed.word == Word::NotProven, "{failed:?}");
    let experiment = told(Err(RunFailure::Broken("no more processes".into())), long);
    assert!(experiment.halted.is_some() && word(&experiment, "b") == Word::CannotTell);
    let experiment = told(Ok(None), Nanos::secs(7));
    assert_eq!(word(&experiment, "b+c"), Word::NotProven);
    assert!(why(&experiment, "b+c").contains("no room"), "{}", why(&experiment, "b+c"));
}

#[test]
fn other_endings_and_outputs_reject_the_arm() {
    let mut machine = Machine::new(3, Nanos::millis(200), 0.02);
    machine.statuses = vec![("b", 1)];
    machine.broken = vec!["c"];
    let mut plan = plan(&["b", "c", "d", "e"], 3);
    plan.arms[2].barred = Some("its output differs from the control's".into());
    let experiment = run(&mut machine, &plan);
    assert_eq!(["b", "c", "d"].map(|arm| word(&experiment, arm)), [Word::Reject; 3]);
    assert!(why(&experiment, "b").contains("exit status 1, the control with exit status 0"));
    assert!(why(&experiment, "c").contains("no such file"));
    assert!(!machine.order.contains(&"d".to_owned()));
    assert_eq!(experiment.design.confirmed, ["e"]);
}

#[test]
fn a_broken_control_tells_nothing() {
    let mut machine = Machine::new(3, Nanos::millis(200), 0.02);
    machine.broken = vec!["A"];
    let experiment = run(&mut machine, &plan(&["b"], 3));
    assert_eq!(word(&experiment, "b"), Word::CannotTell);
    assert!(experiment.warnings[0].contains("the control failed: no such file"));
}

#[test]
fn an_interruption_keeps_what_is_known() {
    for patience in [0, 3, 25, 120] {
        let mut machine = Machine::new(3, Nanos::millis(200), 0.02);
        machine.effects = vec![("b", -0.3)];
        machine.patience = patience;
        let experiment = run(&mut machine, &plan(&["b"], 3));
        assert!(experiment.interrupted);
        assert_eq!(machine.order.len(), patience);
        assert_eq!(word(&experiment, "b"), Word::NotProven);
        let effect = experiment.verdicts[0].effect.as_ref();
        assert_eq!(effect.is_some(), patience >= 25, "after {patience}");
    }
}

#[test]
fn a_stop_in_screening_says_so() {
    for patience in 0..8 {
        let mut machine = Machine::new(3, Nanos::millis(200), 0.02);
        machine.patience = patience;
        let experiment = run(&mut machine, &plan(&["b", "c", "d"], 3));
        assert!(experiment.interrupted && experiment.blocks.is_empty());
        assert_eq!(experiment.screening.len(), patience);
        for verdict in &experiment.verdicts {
            assert_eq!(verdict.word, Word::NotProven);
            assert!(!verdict.why.contains("inf") && !verdict.why.contains("NaN"), "{verdict:?}");
        }
    }
}

#[test]
fn the_counter_decides_between_keep_and_luck() {
    let counted = |moved, idle| {
        let mut machine = Machine::new(3, Nanos::millis(200), 0.02);
        machine.effects = vec![("b", -0.2)];
        machine.counters = vec![("b", moved, idle)];
        let mut plan = plan(&["b"], 3);
        plan.arms[0].counted = true;
        word(&run(&mut machine, &plan), "b")
    };
    assert_eq!(counted(500, 1), Word::Keep);
    assert_eq!(counted(0, 0), Word::CannotTell);
    assert_eq!(counted(500, 400), Word::CannotTell);
}

#[test]
fn stolen_time_and_the_host_are_named() {
    let mut machine = Machine::new(3, Nanos::millis(200), 0.02);
    machine.steal_every_ns = Nanos::secs(4).0;
    machine.effects = vec![("b", -0.2)];
    let experiment = run(&mut machine, &plan(&["b"], 3));
    let dropped = experiment.blocks.iter().filter(|b| b.dropped.is_some()).count();
    assert!(dropped > 3 && dropped < experiment.blocks.len() / 2, "{dropped}");
    assert_eq!(word(&experiment, "b"), Word::Keep);
    assert!(experiment.warnings.iter().any(|w| w.contains("the speed of the CPU moved")));

    let mut machine = Machine::new(3, Nanos::millis(200), 0.02);
    machine.host = vec![("A", (Nanos::millis(40), 1.0))];
    let experiment = run(&mut machine, &plan(&["b"], 3));
    assert_eq!(word(&experiment, "b"), Word::CannotTell);
    assert!(why(&experiment, "b").contains("host"), "{}", why(&experiment, "b"));
    assert!(experiment.blocks.iter().all(|b| b.dropped.is_none() && b.host.is_some()));
    assert!(experiment.warnings.iter().any(|w| w.contains("too many to be dropped")));
}

#[test]
fn a_block_in_which_the_speed_moved_is_run_again_while_the_budget_lasts() {
    let (mut dropped, mut replaced) = (0, 0);
    for seed in 0..20 {
        let mut machine = Machine::new(seed, Nanos::millis(900), 0.06);
        machine.steal_every_ns = Nanos::secs(8).0;
        let started = machine.clock_ns;
        let experiment = run(&mut machine, &plan(&["b"], seed));
        assert!(machine.clock_ns - started < Nanos::secs(70).0);
        let planned = experiment.design.blocks as usize;
        let spoiled = experiment.blocks.iter().filter(|block| block.dropped.is_some()).count();
        assert!((planned..=planned + spoiled).contains(&experiment.blocks.len()));
        assert!(!experiment.warnings.iter().any(|warning| warning.contains("budget ended")));
        dropped += spoiled;
        replaced += experiment.blocks.len() - planned;
    }
    assert!(replaced > 15 && replaced <= dropped, "{replaced} of {dropped}");
}

/// A host that takes from one side only, in fewer than half of its runs: too often to be dropped,
/// and a median of what it took is 0.
#[test]
fn what_the_host_takes_from_one_side_proves_nothing() {
    let (mut wrong, mut right) = (0, 0);
    for seed in 0..100 {
        let verdict = |arm: &'static str, often: f64, effect: f64| {
            let mut machine = Machine::new(seed, Nanos::millis(200), 0.02);
            machine.effects = vec![("b", effect)];
            machine.host = vec![(arm, (Nanos::millis(60), often))];
            word(&run(&mut machine, &Plan { kind: Kind::Direct, ..plan(&["b"], seed) }), "b")
        };
        wrong += usize::from(verdict("A", 0.3, 0.0) == Word::Keep);
        wrong += usize::from(verdict("b", 0.3, 0.0) == Word::Reject);
        wrong += usize::from(verdict("b", 0.15, 0.0) == Word::Reject);
        right += usize::from(verdict("A", 0.3, -0.1) == Word::Keep);
    }
    println!("made by the host {wrong} of 300, own gain kept {right} of 100");
    assert!(wrong <= 2, "{wrong} of 300 verdicts were made by the host");
    assert!(right >= 95, "{right} of 100 gains beside it were kept");
}

#[test]
fn two_speeds_are_told() {
    let mut machine = Machine::new(3, Nanos::millis(200), 0.01);
    machine.second_speeds = vec![("b", 0.5)];
    let experiment = run(&mut machine, &Plan { kind: Kind::Direct, ..plan(&["b"], 3) });
    let told = experiment.warnings.iter().filter(|w| w.contains("runs at two speeds"));
    let told: Vec<&String> = told.collect();
    assert!(told.len() == 1 && told[0].starts_with("b runs"), "{:?}", experiment.warnings);
}
