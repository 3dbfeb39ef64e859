//! The model as a table, what moves a prediction, and what a machine learns from its own races.

use super::*;
use crate::diagnosis::diagnose;
use crate::diagnosis::tests::prices;
use pagewise_model::constructed;
use pagewise_model::diagnosis::CostKind;
use pagewise_model::look::{LookFindings, MapChurn, TracedLook, TracedProcess, WalkCounts};
use pagewise_model::plan::ArmSettings;
use pagewise_model::run::{RunKind, SavedRun};
use pagewise_model::trial::{ArmEffect, ArmVerdict, Experiment, VerdictWord};
use pagewise_model::usage::ProgramUsage;
use pagewise_model::{Bytes, Fact, Nanos};
use std::collections::BTreeSet;

fn dose(remedy: &str, parameter: &str) -> RemedyDose {
    RemedyDose {
        remedy: remedy.into(),
        parameter: parameter.into(),
        settings: ArmSettings::default(),
    }
}

fn candidate(dose: RemedyDose) -> RemedyCandidate {
    RemedyCandidate {
        remedy: dose.remedy.clone(),
        sentence: String::new(),
        why: String::new(),
        ceiling_share: 0.3,
        doses: vec![dose],
    }
}

/// A second of CPU time with 256 MiB of fresh memory, from the heap or from mappings of 1 MiB.
fn look(from_heap: bool) -> LookFindings {
    let filled = Bytes::mib(256);
    let churn = match from_heap {
        true => MapChurn { brk_grow_bytes: filled, brk_grow_calls: 1, ..MapChurn::default() },
        false => MapChurn { mmap_bytes: filled, mmap_calls: 256, ..MapChurn::default() },
    };
    let process = TracedProcess {
        peak_rss_bytes: filled,
        anon_bytes: filled,
        minor_faults: 65_536,
        churn,
        ..constructed::process()
    };
    let run = ProgramUsage {
        wall_ns: Nanos::secs(1),
        user_ns: Nanos::millis(900),
        sys_ns: Nanos::millis(100),
        peak_rss_bytes: filled,
        minor_faults: 65_536,
        read_bytes: Some(Bytes(0)),
        written_bytes: Some(Bytes(0)),
        ..constructed::usage()
    };
    LookFindings {
        runs: vec![run.clone(), run],
        traced: Fact::Known(TracedLook { processes: vec![process], ..constructed::traced() }),
        ..LookFindings::missing("none")
    }
}

/// What `work` makes of the evidence of a look.
fn with_evidence<T>(look: &LookFindings, work: impl FnOnce(&PredictionEvidence<'_>) -> T) -> T {
    let (prices, machine) = (prices(), constructed::machine());
    let diagnosis = diagnose(look, &prices, &machine);
    work(&PredictionEvidence {
        look,
        diagnosis: &diagnosis,
        prices: &prices,
        machine: &machine,
        is_service: false,
    })
}

/// The predictions for the heap of glibc on huge pages.
fn predictions_for(look: &LookFindings, offsets: &PredictionOffsets) -> Vec<GainPrediction> {
    let dose = dose("heap-huge", "glibc");
    let candidate = candidate(dose.clone());
    with_evidence(look, |evidence| predict([(&candidate, &dose)], evidence, offsets))
}

fn predicted_for(look: &LookFindings, offsets: &PredictionOffsets) -> GainPrediction {
    predictions_for(look, offsets).remove(0)
}

#[test]
fn every_row_of_the_model_names_a_fact_once() {
    let dose = dose("heap-huge", "glibc");
    let candidate = candidate(dose.clone());
    let facts = with_evidence(&look(true), |evidence| evidence.facts(&candidate, &dose));
    let mut known: BTreeSet<&str> = facts.iter().map(|(name, _)| *name).collect();
    assert_eq!(known.len(), facts.len());
    known.extend(["deviation", "deviation_share", "programs"]);
    let mut seen = BTreeSet::new();
    for line in MODEL.lines().filter(|line| !line.starts_with('#')) {
        let cells: Vec<&str> = line.split('\t').collect();
        let [model, name, value] = cells[..] else { panic!("`{line}`") };
        let value: f64 = value.parse().unwrap();
        assert!(known.contains(name), "`{line}`");
        assert!(seen.insert((model, name)), "twice: `{line}`");
        assert!(name != "deviation" || value > 0.0, "`{line}`");
    }
    assert!(seen.contains(&(OTHER, "deviation")));
    let used = |fact: &str| seen.iter().any(|(_, name)| *name == fact);
    assert!(facts.iter().all(|(name, _)| used(name)), "{facts:?}");
}

#[test]
fn memory_that_the_remedy_cannot_reach_promises_less() {
    let reached = predicted_for(&look(true), &PredictionOffsets::new());
    let beyond = predicted_for(&look(false), &PredictionOffsets::new());
    assert!(reached.gain_share > beyond.gain_share, "{reached:?} {beyond:?}");
    assert!(reached.low_share < reached.gain_share && reached.gain_share < reached.high_share);
    assert!(reached.high_share < 1.0 && reached.gain_share > 0.0, "{reached:?}");
}

#[test]
fn translation_of_pages_that_were_not_seen_promises_nothing() {
    let dose = dose("heap-huge", "glibc");
    let candidate = candidate(dose.clone());
    let fact = |look: &LookFindings| {
        let facts = with_evidence(look, |evidence| evidence.facts(&candidate, &dose));
        facts.into_iter().find(|(name, _)| *name == "translation").unwrap().1
    };
    let unseen = look(true);
    let bound = with_evidence(&unseen, |evidence| {
        evidence.diagnosis.share(&[CostKind::AddressTranslation])
    });
    assert!(bound > 0.0, "the bound of a program of this size");
    assert_eq!(fact(&unseen), 0.0);
    let walks = WalkCounts { cycles: 100, data_walk_cycles: 20, code_walk_cycles: 0 };
    let counted = LookFindings { walks: Fact::Known(walks), ..unseen };
    assert!(fact(&counted) > 0.1, "{}", fact(&counted));
}

#[test]
fn without_cpu_time_nothing_is_predicted() {
    let idle = LookFindings { runs: vec![constructed::usage()], ..look(true) };
    let none = predictions_for(&idle, &PredictionOffsets::new());
    assert_eq!(none, []);
}

#[test]
fn allocators_have_a_model_each() {
    assert_eq!(model_name(&dose("allocator", "jemalloc+huge")), "allocator=jemalloc+huge");
    assert_eq!(model_name(&dose("heap-huge", "glibc+jemalloc")), "heap-huge");
    assert_eq!(model_name(&dose("allocator", "")), "allocator");
}

fn prediction(gain_share: f64, half: f64, programs: u32) -> GainPrediction {
    GainPrediction {
        arm: "heap-huge=glibc".into(),
        gain_share,
        low_share: gain_share - half,
        high_share: gain_share + half,
        offset_share: 0.0,
        programs,
    }
}

#[test]
fn only_a_certain_loss_is_hopeless() {
    assert!(is_hopeless(&prediction(-0.05, 0.02, 30)));
    assert!(!is_hopeless(&prediction(-0.05, 0.02, GainPrediction::FEW_PROGRAMS - 1)));
    assert!(!is_hopeless(&prediction(-0.01, 0.02, 30)));
    assert!(!is_hopeless(&prediction(0.01, 0.02, 30)));
}

/// A verdict with this ratio, known to 1%.
fn verdict(arm: &str, ratio: f64) -> ArmVerdict {
    let (ratio_low, ratio_high) = (ratio - 0.01, ratio + 0.01);
    ArmVerdict {
        arm: arm.into(),
        word: VerdictWord::Keep,
        why: String::new(),
        effect: Some(ArmEffect {
            ratio,
            ratio_low,
            ratio_high,
            repeat_low: ratio_low,
            repeat_high: ratio_high,
            evidence_of_gain: 100.0,
            evidence_of_worth: 100.0,
            sure_share: 0.99,
            runs: 8,
            control_runs: 8,
            without_host: None,
            uncorrected: None,
            at_once: false,
            alone: None,
        }),
        no_gain_above_share: None,
        no_loss_above_share: None,
        settled_by_ns: None,
        cpu_ratio: None,
        peak_rss_change_bytes: None,
        control_peak_rss_bytes: None,
        supervisor_ns: Nanos(0),
    }
}

/// A run of this program that predicted one gain and found another, both for `heap-huge`.
fn raced(program: &str, predicted: GainPrediction, found: f64) -> SavedRun {
    let mut run = SavedRun::new(RunKind::Tune, program.into(), 1, vec![program.into()]);
    run.doses = vec![(predicted.arm.clone(), vec![dose("heap-huge", "glibc")])];
    run.experiment = Some(Experiment {
        verdicts: vec![verdict(&predicted.arm, 1.0 - found)],
        ..constructed::experiment("plain", &[&predicted.arm])
    });
    run.predictions = vec![predicted];
    run
}

#[test]
fn a_gain_in_the_interval_is_a_hit() {
    let runs = [("a", 0.11), ("b", 0.14), ("c", 0.2)];
    let runs = runs.map(|(name, found)| raced(name, prediction(0.1, 0.03, 30), found));
    let hits: Vec<bool> = outcomes(&runs).iter().map(|one| one.is_hit).collect();
    assert_eq!(hits, [true, false, false]);
    let found = outcomes(&runs).remove(1);
    assert!((found.found_low_share - 0.13).abs() < 1e-9 && found.run == "b", "{found:?}");
}

#[test]
fn a_machine_learns_its_offset_once() {
    let name = "heap-huge";
    let two: Vec<SavedRun> =
        ["a", "b"].map(|one| raced(one, prediction(0.1, 0.02, 30), 0.14)).into();
    assert_eq!(offsets(&two), PredictionOffsets::new());
    let three = [two, vec![raced("c", prediction(0.1, 0.02, 30), 0.14)]].concat();
    let learned = offsets(&three)[name].clone();
    assert_eq!(learned.programs, 3);
    assert!(learned.gain_share > 0.01 && learned.gain_share < 0.04, "{learned:?}");
    // Races whose predictions had the offset already teach the same.
    let corrected = GainPrediction {
        offset_share: learned.gain_share,
        ..prediction(0.1 + learned.gain_share, 0.02, 30)
    };
    let again = ["a", "b", "c"].map(|one| raced(one, corrected.clone(), 0.14));
    assert!((offsets(&again)[name].gain_share - learned.gain_share).abs() < 1e-9);
}

#[test]
fn an_offset_moves_the_whole_interval() {
    let offset = pagewise_model::prediction::PredictionOffset { gain_share: -0.02, programs: 3 };
    let offsets = PredictionOffsets::from([("heap-huge".to_owned(), offset)]);
    let plain = predicted_for(&look(true), &PredictionOffsets::new());
    let moved = predicted_for(&look(true), &offsets);
    assert!((plain.gain_share - moved.gain_share - 0.02).abs() < 1e-9);
    assert!((plain.low_share - moved.low_share - 0.02).abs() < 1e-9);
    assert_eq!(moved.offset_share, -0.02);
}
