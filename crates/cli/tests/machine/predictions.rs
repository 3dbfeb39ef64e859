//! Predicted gains: from the look to the history, on a program whose memory is all fresh
//! (`tests/programs/mallocs.c`).

use crate::helper::{Place, compile, experiment, said};
use pagewise_kernel::thp;
use serde_json::Value;
use std::process::Output;

#[test]
fn a_gain_is_predicted_then_found_then_learned_from() {
    const TEST: &str = "a_gain_is_predicted_then_found_then_learned_from";
    let place = Place::new();
    let program = place.path().join("mallocs");
    if !compile("mallocs.c", &["-O1", "-pthread"], &program) {
        return println!("SKIP {TEST}: no C compiler");
    }
    if thp::enabled().ok().as_deref() != Some("madvise") {
        return println!("SKIP {TEST}: huge pages are not given on advice here");
    }
    let command = [program.to_str().unwrap(), "grow", "128"];
    let saved = place.path().join("saved.json");
    let tune = |options: &[&str]| {
        experiment(|| {
            let mut tune = place.pagewise(&["tune", "--quiet", "--save", saved.to_str().unwrap()]);
            tune.args(options).arg("--").args(command);
            tune
        })
    };
    let read = || -> Value { serde_json::from_slice(&std::fs::read(&saved).unwrap()).unwrap() };
    let Some(advised) = tune(&["--advise"]) else { return };
    let shown = said(&advised.stdout);
    assert!(shown.contains("will probably take"), "{shown}");
    let predictions = read()["predictions"].clone();
    let first = &predictions[0];
    let share = |name: &str| first[name].as_f64().unwrap();
    // Nearly all of its time goes into faults on small pages.
    assert!(first["arm"].as_str().unwrap().starts_with("heap-huge"), "{predictions:#}");
    assert!(share("gain_share") > 0.1 && share("low_share") < share("gain_share"), "{first:#}");

    let Some(raced) = tune(&["--budget", "20s", "--only", "heap-huge"]) else { return };
    let effect = &read()["experiment"]["verdicts"][0]["effect"];
    assert!(effect["ratio"].as_f64().is_some_and(|ratio| ratio < 1.0), "{}", said(&raced.stdout));
    let run = |options: &[&str]| -> Output { place.pagewise(options).output().unwrap() };
    let history = run(&["history", "--predictions", "--json"]);
    let lines = said(&history.stdout);
    let found: Value = serde_json::from_str(lines.lines().next().unwrap_or_default()).unwrap();
    let gain = 1.0 - effect["ratio"].as_f64().unwrap();
    assert!((found["found_share"].as_f64().unwrap() - gain).abs() < 1e-9, "{found:#}");
    let table = said(&run(&["history", "--predictions"]).stdout);
    assert!(table.contains("of 1 gains lie in the predicted interval"), "{table}");

    let pairs = said(&run(&["calibrate", "--pairs", saved.to_str().unwrap()]).stdout);
    assert!(pairs.contains("\theap-huge\t") && pairs.contains("\theap_faults=0."), "{pairs}");
    let learned = said(&run(&["calibrate"]).stdout);
    assert!(learned.contains("an offset needs 3 programs"), "{learned}");
    assert!(run(&["calibrate", "--forget"]).status.success());
    let missing = run(&["calibrate", "--pairs", "/nonexistent"]);
    assert_eq!(missing.status.code(), Some(2), "{}", said(&missing.stderr));
}
