//! `tune --continue`: a saved session continues. It is refused once its files have changed. `tune --budget` of
//! programs that take longer.

use crate::helper::{Place, compile, experiment, only_turn, said};
use pagewise_kernel::thp;
use pagewise_model::Bytes;
use pagewise_model::run::{SavedRun, SessionOutcome};
use pagewise_model::usage::ProgramEnd;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

#[test]
fn a_session_goes_on_until_its_input_changes() {
    let _turn = only_turn();
    let place = Place::new();
    fs::write(place.path().join("data"), "one\n").unwrap();
    let first = || {
        let arm = "same=sh -c 'sleep 0.01; cat data'";
        let mut command = place.pagewise(&["tune", "--json", "--budget", "10s", "--seed", "7"]);
        command.args(["--arm", arm, "--only", "place=one"]);
        command.args(["--", "sh", "-c", "sleep 0.01; cat data", "data"]);
        command.arg(OsStr::from_bytes(b"caf\xe9"));
        command.current_dir(place.path());
        command
    };
    let Some(done) = experiment(first) else { return };
    let saved =
        SavedRun::from_json(&done.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(&done.stderr)));
    let blocks = saved.experiment.unwrap().blocks;
    assert!(!blocks.is_empty());

    // Relative paths start at the session's directory, not at this process's.
    fs::create_dir(place.path().join("kept")).unwrap();
    let again = ["tune", "--json", "--continue", &saved.id, "--budget", "1s", "--seed", "7"];
    let again = [&again[..], &["--save", "kept/more.json"]].concat();
    let Some(done) = experiment(|| place.pagewise(&again)) else { return };
    let more =
        SavedRun::from_json(&done.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(&done.stderr)));
    assert!(more.id != saved.id && more.command == saved.command);
    assert!(place.path().join("kept/more.json").exists());
    let asked = more.spec.unwrap();
    assert_eq!(asked.command.last().unwrap().as_bytes(), b"caf\xe9");
    assert_eq!((asked.command, asked.seed), (saved.spec.unwrap().command, 7));
    let all = more.experiment.unwrap();
    assert_eq!(all.blocks[..blocks.len()], blocks[..]);
    let arms: Vec<&str> = all.design.arms.iter().map(String::as_str).collect();
    assert_eq!(arms, ["place=one", "same"]);

    fs::write(place.path().join("data"), "two\n").unwrap();
    let Some(refused) = experiment(|| place.pagewise(&again)) else { return };
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused.stderr).contains("data` has changed"), "{}", said(&refused.stderr));
}

#[test]
fn an_endless_program_is_compared_up_to_a_checkpoint() {
    const TEST: &str = "an_endless_program_is_compared_up_to_a_checkpoint";
    let place = Place::new();
    if !compile("mallocs.c", &["-O1", "-pthread"], &place.path().join("mallocs")) {
        return println!("SKIP {TEST}: no C compiler");
    }
    if thp::enabled().ok().as_deref() != Some("madvise") {
        return println!("SKIP {TEST}: huge pages are not given on advice here");
    }
    let rounds = "while :; do ./mallocs grow 16; head -c 300000 /dev/zero; done";
    let tune = || {
        let mut command = place.pagewise(&["tune", "--json", "--budget", "20s"]);
        command.args(["--only", "heap-huge", "--arm", "other=true", "--", "sh", "-c", rounds]);
        command.current_dir(place.path());
        command
    };
    let Some(done) = experiment(tune) else { return };
    let saved =
        SavedRun::from_json(&done.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(&done.stderr)));
    let at = saved.checkpoint_bytes().unwrap();
    assert!(at >= Bytes::mib(4), "{at}");
    let experiment = saved.experiment.unwrap();
    let runs = experiment.blocks.iter().flat_map(|block| &block.points).map(|point| &point.usage);
    for usage in runs {
        assert_eq!(usage.ended, ProgramEnd::Checkpoint);
        assert!(usage.read_bytes.unwrap() + usage.written_bytes.unwrap() >= at, "{usage:?}");
    }
    let [huge, other] = &experiment.verdicts[..] else { panic!("{:?}", experiment.verdicts) };
    assert!(huge.effect.as_ref().is_some_and(|effect| effect.ratio < 1.0), "{huge:?}");
    assert!(other.effect.is_none() && other.why.contains("checkpoint"), "{other:?}");
    assert!(!matches!(saved.outcome, Some(SessionOutcome::Proven { .. })), "{:?}", saved.outcome);
    assert!(
        saved.warnings.iter().any(|warning| warning.contains("checkpoint")),
        "{:?}",
        saved.warnings
    );
}
