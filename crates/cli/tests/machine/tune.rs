//! `tune --continue`: a saved session continues. It is refused once its files have changed.

use crate::helper::{Place, experiment, only_turn, said};
use pagewise_model::run::SavedRun;
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
