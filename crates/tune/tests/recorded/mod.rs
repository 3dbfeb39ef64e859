//! Sessions on recorded noise: run times of programs without any change (bench/accept/tune/null-recorded). A
//! session begins anywhere in a recording and takes the times in order. So drift, two speeds and disturbances
//! come as they were recorded. The figures take minutes: `cargo test --release -p pagewise-tune --test
//! simulation recorded -- --ignored --nocapture`.

use crate::machine::Machine;
use crate::machine::plan::{Plan, plan, run};
use crate::{SEVEN, has};
use pagewise_judge::race::RULED_OUT;
use pagewise_judge::stats::Rng;
use pagewise_model::Nanos;
use pagewise_model::trial::{ArmVerdict, Experiment, VerdictWord};
use pagewise_model::usage::MachineSpeed;
use pagewise_tune::race::{RaceGoal, RunFailure};
use std::path::{Path, PathBuf};

const KINDS: [&str; 5] = ["count", "objects", "compiler", "pipes", "neighbour"];

/// Recorded run times in nanoseconds, with the speeds during each run if they were sampled.
type Times = Vec<(f64, Option<MachineSpeed>)>;

/// The directory with the recordings of an acceptance script.
fn noise(of: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/accept").join(of).join("noise")
}

fn read(file: &Path) -> Times {
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let figures = |line: &str| {
        let mut figures = line.split_whitespace().map(|figure| figure.parse().unwrap());
        let wall = figures.next().unwrap();
        let speed = figures.next().zip(figures.next());
        (wall, speed.map(|(round_ns, load_ns)| MachineSpeed { round_ns, load_ns }))
    };
    lines.map(figures).collect()
}

fn recording(kind: &str) -> Times {
    read(&noise("tune/null-recorded").join(kind).with_extension("txt"))
}

/// A session of `budget`, continued up to `more` times until it keeps an arm. `ratio` is the time ratio of the
/// first arm. The others change nothing.
fn session(
    times: &[(f64, Option<MachineSpeed>)],
    ratio: f64,
    budget: Nanos,
    more: u32,
    seed: u64,
) -> Experiment {
    let at = Rng::new(!seed).below(times.len() as u64) as usize;
    let mut recording = times.to_vec();
    recording.rotate_left(at);
    let mut machine = Machine {
        recording,
        is_watched: false,
        drift: 0.0,
        between_ns: Nanos::millis(50).0,
        effects: vec![(SEVEN[0], ratio.ln())],
        together: Err(RunFailure::Failed("left out".to_owned())),
        ..Machine::new(seed, Nanos(0), 0.0)
    };
    let mut plan = Plan { budget, left: budget, compare_runs: 0, ..plan(&SEVEN, seed) };
    let mut experiment = run(&mut machine, &plan);
    for _ in 0..more {
        if has(&experiment, VerdictWord::Keep) {
            break;
        }
        plan.earlier = std::mem::take(&mut experiment.blocks);
        machine.compared.clear();
        experiment = run(&mut machine, &plan);
    }
    experiment
}

/// Sessions that report a gain although no arm has one: proven, and likely.
fn false_answers(kind: &str, budget: Nanos, more: u32, sessions: u64) -> (u32, u32) {
    let times = recording(kind);
    let (mut keeps, mut likely) = (0, 0);
    for seed in 0..sessions {
        let experiment = session(&times, 1.0, budget, more, seed);
        let is_kept = has(&experiment, VerdictWord::Keep);
        keeps += u32::from(is_kept);
        likely += u32::from(!is_kept && has(&experiment, VerdictWord::Likely));
    }
    println!(
        "{kind}, {budget}, continued {more} times: kept {keeps}, likely {likely} of {sessions}"
    );
    (keeps, likely)
}

/// Sessions that rule out a gain of `share` although the gain is slightly larger.
fn false_limits(kind: &str, share: f64, sessions: u64) -> u64 {
    let times = recording(kind);
    let is_wrong = |seed: &u64| {
        let verdicts = session(&times, 0.999 - share, Nanos::secs(60), 0, *seed).verdicts;
        let limit = |v: &ArmVerdict| v.no_gain_above_share.is_some_and(|above| above <= share);
        verdicts.iter().any(|v| v.arm == SEVEN[0] && limit(v))
    };
    let wrong = (0..sessions).filter(is_wrong).count() as u64;
    println!("{kind}: a gain of {:.1}% ruled out in {wrong} of {sessions}", 100.0 * share + 0.1);
    wrong
}

#[test]
fn few_sessions_report_a_gain_where_there_is_none() {
    for kind in KINDS {
        let (keeps, likely) = false_answers(kind, Nanos::secs(20), 0, 60);
        assert!(keeps <= 4 && likely <= 10, "{kind}: {keeps} {likely}");
    }
}

#[test]
#[ignore = "takes minutes in a release build: bench/accept/tune/null-recorded/run"]
fn null_sessions() {
    let sessions = std::env::var("SESSIONS").map_or(10_000, |count| count.parse().unwrap());
    let is_sound = |kind: &str| {
        let continued = [(60, 0), (12, 5)].map(|(budget, more)| {
            let (keeps, likely) = false_answers(kind, Nanos::secs(budget), more, sessions);
            u64::from(keeps) * 50 <= sessions && u64::from(likely) * 10 <= sessions
        });
        continued.into_iter().all(|sound| sound)
            && RULED_OUT
                .into_iter()
                .all(|share| false_limits(kind, share, sessions / 5) * 250 <= sessions)
    };
    let sound: Vec<bool> = std::thread::scope(|scope| {
        let kinds = KINDS.map(|kind| scope.spawn(move || is_sound(kind)));
        kinds.into_iter().map(|kind| kind.join().unwrap()).collect()
    });
    assert!(sound.into_iter().all(|sound| sound));
}

#[test]
#[ignore = "takes minutes in a release build: bench/accept/tune/null-recorded/run"]
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

/// Deviations between comparisons of equal runs, corrected by the speeds and plain: eight runs of each from
/// every place in a recording.
fn deviations(times: &[(f64, Option<MachineSpeed>)]) -> (f64, f64) {
    let gains = (0..times.len()).map(|at| {
        let mut recording = times.to_vec();
        recording.rotate_left(at);
        let seed = at as u64;
        let mut machine = Machine {
            recording,
            is_watched: false,
            drift: 0.0,
            ..Machine::new(seed, Nanos(0), 0.0)
        };
        let experiment =
            run(&mut machine, &Plan { goal: RaceGoal::Pairs(8), ..plan(&["b"], seed) });
        let effect = experiment.verdicts[0].effect.clone().unwrap();
        let plain = effect.uncorrected.map_or(effect.ratio, |plain| plain.ratio);
        (effect.ratio.ln(), plain.ln())
    });
    let squares =
        gains.fold((0.0, 0.0), |sum, (own, plain)| (sum.0 + own * own, sum.1 + plain * plain));
    let count = times.len() as f64;
    ((squares.0 / count).sqrt(), (squares.1 / count).sqrt())
}

#[test]
#[ignore = "shows the figures of bench/accept/tune/speed-probe"]
fn probe() {
    let files =
        std::fs::read_dir(noise("tune/speed-probe")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files.collect();
    files.sort();
    for file in files {
        let times = read(&file);
        let (corrected, plain) = deviations(&times);
        println!(
            "{}: {} runs, deviation of 8 against 8 {:.2}% plain, {:.2}% corrected: variance {:+.0}%",
            file.file_stem().unwrap().to_string_lossy(),
            times.len(),
            100.0 * plain,
            100.0 * corrected,
            100.0 * ((corrected / plain).powi(2) - 1.0)
        );
    }
}
