//! `recheck` and `export-metrics` on receipts that were applied.

use crate::helper::{Place, experiment, only_turn, said, tuned};
use pagewise_model::run::SavedRun;
use pagewise_model::spec::SessionSpec;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Saves `run` as a file that is not in the history.
fn save(place: &Place, run: &SavedRun) -> String {
    let file = place.path().join(format!("{}.json", run.id));
    std::fs::write(&file, run.to_json()).unwrap();
    file.to_str().unwrap().to_owned()
}

fn succeed(command: &mut Command) {
    let done = command.output().unwrap();
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn a_receipt_that_cannot_be_measured_again_does_not_stop_the_others() {
    let _turn = only_turn();
    let place = Place::new();
    let likely = tuned("arenas=1", "/bin/echo", false);
    let gone = SavedRun { id: "gone".into(), ..tuned("arenas=1", "/bin/echo", true) };
    for (run, name) in [(&likely, "first"), (&gone, "second"), (&likely, "third")] {
        let env = place.path().join(name);
        let words = ["apply", &save(&place, run), "--likely", "--yes", "--env-file"];
        succeed(place.pagewise(&words).arg(env));
    }
    succeed(&mut place.pagewise(&["history"]));
    let runs = place.path().join(".local/state/pagewise/runs");
    std::fs::write(runs.join(format!("{}.json", likely.id)), likely.to_json()).unwrap();
    let Some(done) = experiment(|| place.pagewise(&["recheck", "--json", "--quiet"])) else {
        return;
    };
    assert_eq!(done.status.code(), Some(2), "{done:?}");
    let found: Value = serde_json::from_slice(&done.stdout).unwrap();
    let found: Vec<(&str, &str, &str)> = found.as_array().unwrap().iter().map(answer).collect();
    let expected = [
        ("20261126-1", "arm", "run `20261126-1` has no proven gain"),
        ("gone", "arm", "no saved run and no file `gone`"),
    ];
    assert_eq!(found, expected);
    // A named run without a proven gain is an error before anything is measured.
    let named = place.pagewise(&["recheck", "20261126-1"]).output().unwrap();
    assert!(said(&named.stderr).contains("has no proven gain"), "{named:?}");
    assert!(named.stdout.is_empty(), "{named:?}");
}

/// The run, the arm and the problem of one answer.
fn answer(one: &Value) -> (&str, &str, &str) {
    let text = |name: &str| one[name].as_str().unwrap_or_default();
    (text("run"), text("arm"), text("problem"))
}

#[test]
fn a_wrapper_in_the_path_is_not_measured_against_itself() {
    let _turn = only_turn();
    let place = Place::new();
    let [real, wrappers] = ["real", "wrappers"].map(|name| place.path().join(name));
    let log = place.path().join("log");
    std::fs::create_dir(&real).unwrap();
    // The program fails, so the session ends with its first run.
    let text = format!("#!/bin/sh\necho \"with $GLIBC_TUNABLES\" >>{}\nexit 1\n", log.display());
    std::fs::write(real.join("pagewise-app"), text).unwrap();
    let permissions = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(real.join("pagewise-app"), permissions).unwrap();
    let spec = SessionSpec::new(vec!["pagewise-app".into()], place.path().to_owned(), 1);
    let run = tuned("malloc-keep=64M", "pagewise-app", true);
    let file = save(&place, &SavedRun { spec: Some(spec), ..run });
    let path = |first: &Path| {
        let usual = std::env::var_os("PATH").unwrap();
        let usual = std::env::split_paths(&usual).collect::<Vec<_>>();
        std::env::join_paths([first.to_owned(), real.clone()].into_iter().chain(usual)).unwrap()
    };
    let words = ["apply", &file, "--yes", "--wrapper", wrappers.to_str().unwrap()];
    succeed(place.pagewise(&words).env("PATH", path(&real)));
    let again = || {
        let mut command = place.pagewise(&["recheck", &file, "--json", "--quiet"]);
        command.env("PATH", path(&wrappers)).env_remove("GLIBC_TUNABLES");
        command
    };
    let Some(done) = experiment(again) else { return };
    assert_eq!(done.status.code(), Some(2), "{done:?}");
    let log = std::fs::read_to_string(log).unwrap_or_default();
    assert!(!log.is_empty() && log.lines().all(|line| line == "with "), "{log}{done:?}");
}

#[test]
fn metrics_make_no_directory() {
    let place = Place::new();
    succeed(&mut place.pagewise(&["export-metrics"]));
    assert!(!place.path().join(".local").exists());
}

#[test]
fn the_timer_of_the_package_reads_the_records_of_root() {
    let file =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/debian/pagewise-metrics.service");
    let unit = std::fs::read_to_string(file).unwrap();
    let lines: Vec<&str> = unit.lines().collect();
    assert!(lines.contains(&"Environment=HOME=/root"), "{unit}");
    assert!(lines.contains(&"ProtectHome=read-only"), "{unit}");
    assert!(!unit.contains("XDG_STATE_HOME"), "{unit}");
}
