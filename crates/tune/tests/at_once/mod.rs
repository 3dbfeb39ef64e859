//! Races of concurrent runs on the simulated machine: a disturbance of one run hits the other runs of its block
//! alike.

use crate::machine::Machine;
use crate::machine::plan::{Plan, plan, run};
use crate::{NOISES, SEVEN, arm, has, of, runs, word};
use pagewise_model::Nanos;
use pagewise_model::plan::ArmSettings;
use pagewise_model::trial::VerdictWord;
use pagewise_tune::race::RaceGoal;
use pagewise_tune::world::ProgramArm;

/// A machine on which single runs deviate by 10%, and concurrent runs by 1% from each other.
fn noisy(seed: u64) -> Machine {
    Machine { own_sd: 0.01, ..Machine::new(seed, Nanos::millis(200), 0.10) }
}

fn at_once(arms: &[&str], seed: u64) -> Plan {
    Plan { most_at_once: Some(4), ..plan(arms, seed) }
}

#[test]
fn arms_that_do_nothing_are_hardly_ever_kept() {
    let (mut keeps, mut likely, mut slower) = (0, 0, 0);
    for (name, own_noise) in NOISES {
        for seed in 0..100 {
            let own_sd = [0.003, 0.01, 0.03][seed as usize % 3];
            let mut machine = Machine { own_sd, own_noise, ..noisy(seed) };
            // Favours one arm equally in every block, as a memory layout may.
            machine.only_at_once = vec![("d", -0.0025)];
            let experiment = run(&mut machine, &at_once(&SEVEN, seed));
            keeps += u32::from(has(&experiment, VerdictWord::Keep));
            likely += u32::from(has(&experiment, VerdictWord::Likely));
            slower += u32::from(has(&experiment, VerdictWord::Slower));
        }
        println!("{name}: by now kept {keeps}, likely {likely}, slower {slower}");
    }
    // 2 in 100 are allowed, which makes 8 of 400. 14 are beyond two deviations.
    assert!(keeps <= 14 && likely <= 40 && slower <= 14, "{keeps} {likely} {slower} of 400");
}

#[test]
fn two_percent_are_found_in_a_minute_and_five_in_few_runs() {
    let found = |effect: f64, seed: u64| {
        let mut machine = noisy(seed);
        machine.effects = vec![("d", (-effect).ln_1p())];
        let experiment = run(&mut machine, &at_once(&SEVEN, seed));
        (word(&experiment, "d") == VerdictWord::Keep).then(|| runs(&experiment))
    };
    let two = (0..40).filter_map(|seed| found(0.02, seed)).count();
    let mut five: Vec<usize> = (0..40).filter_map(|seed| found(0.05, seed)).collect();
    five.sort_unstable();
    println!("2%: {two} of 40; 5%: {} of 40, runs {five:?}", five.len());
    assert!(two >= 24 && five.len() >= 38, "{two} {five:?}");
    assert!(five[five.len() / 2] <= 60, "{five:?}");
}

/// The leader gains too little to be kept and too much to be ruled out. The others lost in their first run.
#[test]
fn arms_that_fell_behind_early_are_ruled_out() {
    let mut open = 0;
    for seed in 0..4 {
        let mut machine = noisy(seed);
        let slow = ["c", "d", "e"].map(|arm| (arm, 0.25));
        machine.effects = [&[("b", -0.016)][..], &slow[..]].concat();
        let experiment = run(&mut machine, &at_once(&["b", "c", "d", "e"], seed));
        let words = ["c", "d", "e"].map(|arm| word(&experiment, arm));
        open += words.iter().filter(|word| **word == VerdictWord::CannotTell).count();
    }
    println!("{open} of 12 arms are open");
    assert!(open == 0, "{open} of 12");
}

#[test]
fn intervals_cover_the_truth_and_say_what_they_are_of() {
    let (mut covered, mut by_at_once) = (0, 0);
    for seed in 0..100 {
        let mut machine = noisy(seed);
        machine.effects = vec![("b", 0.97f64.ln())];
        let experiment = run(&mut machine, &at_once(&["b"], seed));
        let effect = of(&experiment, "b").effect.as_ref().unwrap();
        assert_eq!(effect.at_once, experiment.is_at_once("b"));
        by_at_once += usize::from(effect.at_once);
        covered += usize::from(effect.ratio_low <= 0.97 && 0.97 <= effect.ratio_high);
    }
    // In a few experiments, runs one at a time contradict them by chance.
    assert!(covered >= 93 && by_at_once >= 95, "{covered} {by_at_once} of 100");
}

#[test]
fn a_keep_has_runs_one_at_a_time_that_do_not_contradict_it() {
    let (mut held, mut found) = (0, 0);
    for seed in 0..40 {
        let mut machine = noisy(seed);
        machine.effects = vec![("b", -0.2)];
        let experiment = run(&mut machine, &at_once(&["b"], seed));
        found += usize::from(word(&experiment, "b") == VerdictWord::Keep);
        assert_eq!(experiment.points_in("b", false).count(), 3);
        let alone = of(&experiment, "b").effect.as_ref().unwrap().alone.clone().unwrap();
        let truth = (-0.2f64).exp();
        held += usize::from(alone.ratio_low < truth && truth < alone.ratio_high);
    }
    assert!(found >= 36 && held >= 35, "{found} {held}");
    let (mut contradicted, mut kept) = (0, 0);
    for seed in 0..20 {
        let mut machine = Machine { sd: 0.02, ..noisy(seed) };
        machine.only_at_once = vec![("b", -0.2)];
        let experiment = run(&mut machine, &at_once(&["b"], seed));
        let why = experiment.in_turn_because.as_deref().unwrap_or_default();
        contradicted += usize::from(why.contains("contradict each other"));
        kept += usize::from(word(&experiment, "b") == VerdictWord::Keep);
    }
    assert!(contradicted >= 18 && kept == 0, "{contradicted} {kept}");
}

#[test]
fn a_program_that_cannot_run_beside_itself_runs_one_at_a_time() {
    let mut machine = noisy(3);
    machine.sd = 0.02;
    machine.effects = vec![("b", -0.2)];
    machine.never_at_once = Some("it ended with exit status 1");
    let experiment = run(&mut machine, &at_once(&["b"], 3));
    assert_eq!(word(&experiment, "b"), VerdictWord::Keep);
    assert!(!experiment.is_at_once("b") && experiment.blocks.iter().all(|block| !block.at_once));
    assert_eq!(experiment.in_turn_because.as_deref(), Some("it ended with exit status 1"));
}

#[test]
fn an_arm_that_reaches_the_others_runs_one_at_a_time_beside_them() {
    let pinned = ProgramArm {
        settings: ArmSettings { cpus: Some(vec![0]), ..ArmSettings::default() },
        ..arm("c")
    };
    let mut machine = Machine { sd: 0.03, ..noisy(5) };
    machine.effects = vec![("c", -0.2)];
    let plan = Plan { arms: vec![arm("b"), pinned], ..at_once(&[], 5) };
    let experiment = run(&mut machine, &plan);
    let way = |name| of(&experiment, name).effect.as_ref().unwrap().at_once;
    assert!(way("b") && !way("c"));
    assert_eq!(word(&experiment, "c"), VerdictWord::Keep);
    assert_ne!(word(&experiment, "b"), VerdictWord::Keep);
}

#[test]
fn the_question_of_a_limit_is_decided_soon() {
    let count = |effect: f64| {
        let mut machine = noisy(7);
        machine.effects = vec![("b", effect.ln_1p())];
        let limit = Plan { goal: RaceGoal::LossAtMost(0.05), ..at_once(&["b"], 7) };
        let experiment = run(&mut machine, &limit);
        let high = of(&experiment, "b").effect.as_ref().unwrap().ratio_high;
        assert!(runs(&experiment) <= 40, "{}", runs(&experiment));
        high <= 1.05
    };
    assert!(count(0.0) && !count(0.10));
}

#[test]
fn a_session_goes_on_from_its_runs_at_once() {
    let mut machine = noisy(9);
    machine.effects = vec![("b", 0.985f64.ln())];
    let short = Plan { left: Nanos::secs(2), ..at_once(&["b"], 9) };
    let first = run(&mut machine, &short);
    let earlier = first.blocks.clone();
    machine.compared.clear();
    let second = run(&mut machine, &Plan { earlier: earlier.clone(), ..at_once(&["b"], 10) });
    assert_eq!(second.blocks[..earlier.len()], earlier);
    let runs = |experiment, name| of(experiment, name).effect.as_ref().unwrap().runs;
    assert!(runs(&second, "b") > runs(&first, "b"));
}

#[test]
fn a_dear_program_is_answered_by_six_runs() {
    let words = |effect: f64| {
        let found = |seed| {
            let mut machine = Machine { own_sd: 0.007, ..Machine::new(seed, Nanos::secs(3), 0.10) };
            machine.effects = vec![("b", (-effect).ln_1p())];
            let (run_ns, left) = (Nanos::secs(3), Nanos::millis(12_500));
            let budget = Nanos::secs(20);
            let plan = Plan { run_ns, budget, left, compare_runs: 1, ..at_once(&["b"], seed) };
            let experiment = run(&mut machine, &plan);
            assert!(runs(&experiment) <= 8, "{}", runs(&experiment));
            word(&experiment, "b")
        };
        (0..40).map(found).collect::<Vec<_>>()
    };
    let count =
        |words: &[VerdictWord], wanted| words.iter().filter(|word| **word == wanted).count();
    let (none, much) = (words(0.0), words(0.15));
    println!("none: {none:?}, 15%: {much:?}");
    assert!(count(&none, VerdictWord::NoGain) >= 28 && count(&none, VerdictWord::Likely) <= 2);
    assert!(count(&much, VerdictWord::Likely) >= 34);
}
