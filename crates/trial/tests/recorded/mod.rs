//! Sessions on recorded noise: the run times of programs that nothing changed (bench/accept/10-null).
//! A session begins anywhere in a recording and takes one time after the other, so that drift, two
//! speeds and disturbances come as they came. The figures take minutes:
//! `cargo test --release -p pagewise-trial --test recorded -- --ignored --nocapture`.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a simulation shows its figures, and a missing recording is a failure"
)]

use pagewise_judge::stats::Rng;
use pagewise_model::constructed;
use pagewise_model::trial::{Experiment, Point, Word};
use pagewise_model::usage::Usage;
use pagewise_model::{Bytes, Nanos};
use pagewise_trial::{Arm, ArmId, Bench, Goal, Plan, Progress, RunFailure, WeatherMark, run};
use std::path::Path;

const KINDS: [&str; 5] = ["count", "objects", "compiler", "pipes", "neighbour"];
const SEVEN: [&str; 7] = ["b", "c", "d", "e", "f", "g", "h"];
/// Time between two runs.
const BETWEEN: u64 = 50_000_000;

/// Run times in nanoseconds, as they were recorded.
fn recording(kind: &str) -> Vec<f64> {
    let noise = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/accept/10-null/noise");
    let text = std::fs::read_to_string(noise.join(kind).with_extension("txt")).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.parse().unwrap()).collect()
}

/// A machine that plays a recording. Its end is joined to its beginning.
struct Player<'a> {
    times: &'a [f64],
    at: usize,
    clock: u64,
    /// Time ratio of the first arm; the others change nothing.
    ratio: f64,
}

impl Bench for Player<'_> {
    fn run(&mut self, arm: &ArmId) -> Result<Point, RunFailure> {
        let ratio = if arm.0 == SEVEN[0] { self.ratio } else { 1.0 };
        let wall = Nanos::from_f64(self.times[self.at % self.times.len()] * ratio);
        self.at += 1;
        self.clock += wall.0 + BETWEEN;
        let usage = Usage {
            wall_ns: wall,
            user_ns: wall,
            peak_rss_bytes: Bytes::mib(10),
            ..constructed::usage()
        };
        Ok(Point {
            arm: String::new(),
            usage,
            mechanism: None,
            idle_mechanisms: vec![],
            huge_faults: 0,
            supervisor_ns: Nanos(0),
        })
    }
    fn weather(&mut self) -> WeatherMark {
        WeatherMark::default()
    }
    fn now(&self) -> Nanos {
        Nanos(self.clock)
    }
    fn interrupted(&self) -> bool {
        false
    }
    fn progress(&mut self, _: &Progress<'_>) {}
    fn host_ns(&mut self, _: &Point) -> Nanos {
        Nanos(0)
    }
    fn combine(&mut self, _: &[&ArmId]) -> Result<Option<Arm>, RunFailure> {
        Ok(None)
    }
    fn vouch(&mut self, _: &ArmId) -> Result<Option<String>, RunFailure> {
        Ok(None)
    }
}

fn plan(budget: Nanos, seed: u64) -> Plan {
    let arm = |name: &&str| Arm { id: ArmId((*name).to_owned()), counted: false, barred: None };
    Plan {
        goal: Goal::Gain,
        control: ArmId("A".to_owned()),
        arms: SEVEN.iter().map(arm).collect(),
        budget,
        left: budget,
        run_ns: Nanos::millis(200),
        vouch_runs: 0,
        seed,
        earlier: vec![],
    }
}

/// A session of `budget`, continued `more` times or until an arm is told to gain.
fn session(times: &[f64], ratio: f64, budget: Nanos, more: u32, seed: u64) -> Experiment {
    let at = Rng::new(!seed).below(times.len() as u64) as usize;
    let mut player = Player { times, at, clock: 1, ratio };
    let mut plan = plan(budget, seed);
    let mut experiment = run(&mut player, &plan);
    for _ in 0..more {
        if told(&experiment, Word::Keep) {
            break;
        }
        plan.earlier = std::mem::take(&mut experiment.blocks);
        experiment = run(&mut player, &plan);
    }
    experiment
}

fn told(experiment: &Experiment, word: Word) -> bool {
    experiment.verdicts.iter().any(|verdict| verdict.word == word)
}

/// Sessions that tell a gain where there is none, proven and likely, and how many were made.
fn false_answers(kind: &str, budget: Nanos, more: u32, sessions: u64) -> (u32, u32) {
    let times = recording(kind);
    let (mut keeps, mut likely) = (0, 0);
    for seed in 0..sessions {
        let experiment = session(&times, 1.0, budget, more, seed);
        let is_kept = told(&experiment, Word::Keep);
        keeps += u32::from(is_kept);
        likely += u32::from(!is_kept && told(&experiment, Word::Likely));
    }
    println!(
        "{kind}, {budget}, continued {more} times: kept {keeps}, likely {likely} of {sessions}"
    );
    (keeps, likely)
}

#[test]
fn few_sessions_tell_a_gain_where_there_is_none() {
    for kind in KINDS {
        let (keeps, likely) = false_answers(kind, Nanos::secs(20), 0, 60);
        assert!(keeps <= 4 && likely <= 10, "{kind}: {keeps} {likely}");
    }
}

#[test]
#[ignore = "takes minutes in a release build: bench/accept/10-null/run"]
fn null_sessions() {
    let mut is_sound = true;
    for kind in KINDS {
        for (budget, more) in [(60, 0), (12, 5)] {
            let (keeps, likely) = false_answers(kind, Nanos::secs(budget), more, 10_000);
            is_sound &= keeps <= 200 && likely <= 1000;
        }
        let times = recording(kind);
        let is_wrong = |seed: &u64| {
            // A gain of 5% and a little, which a session must not rule out.
            let verdicts = session(&times, 0.949, Nanos::secs(60), 0, *seed).verdicts;
            verdicts.iter().any(|v| v.arm == SEVEN[0] && v.no_gain_above_share.is_some())
        };
        let wrong = (0..2000).filter(is_wrong).count();
        println!("{kind}: a gain of 5.1% ruled out in {wrong} of 2000");
        is_sound &= wrong <= 40;
    }
    assert!(is_sound);
}

#[test]
#[ignore = "takes minutes in a release build: bench/accept/10-null/run"]
fn intervals() {
    let (mut held, mut held_later, mut sessions) = (0, 0, 0);
    let mut widths = Vec::new();
    for kind in KINDS {
        let times = recording(kind);
        for seed in 0..60 {
            let gain = [0.0, 0.02, 0.05, 0.1, 0.2, -0.1][seed as usize % 6];
            let truth: f64 = 1.0 - gain;
            let experiment = session(&times, truth, Nanos::secs(60), 0, seed);
            let effect = experiment.verdicts[0].effect.as_ref().unwrap();
            held += u32::from(effect.ratio_low <= truth && truth <= effect.ratio_high);
            held_later += u32::from(effect.repeat_low <= truth && truth <= effect.repeat_high);
            sessions += 1;
            let logs = |name: &str| -> Vec<f64> {
                experiment.points_of(name).map(|p| (p.usage.wall_ns.0 as f64).ln()).collect()
            };
            let (arm, control) = (logs(SEVEN[0]), logs("A"));
            let variance = |values: &[f64]| {
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
                squares / (values.len() as f64 - 1.0) / values.len() as f64
            };
            // 2.05: the quantile of a t distribution of some thirty runs.
            let half = 2.05 * (variance(&arm) + variance(&control)).sqrt();
            let own = (effect.ratio_high / effect.ratio_low).ln() / 2.0;
            widths.push(own / half);
        }
    }
    widths.sort_by(f64::total_cmp);
    let median = widths[widths.len() / 2];
    println!("intervals: {held} of {sessions} hold the truth, for a later repeat {held_later}");
    println!("half-width: {median:.2} times that of a t interval on the same runs");
    assert!(f64::from(held_later) >= 0.93 * f64::from(sessions));
}
