//! Fault times by kind of cost. `profile --faults` takes them from the run it shows, `tune` from a separate
//! run.

use super::{Programs, ranges, said, users};
use crate::helper::{Place, experiment, give_prices, only_turn};
use rustix::process::Signal;
use serde_json::Value;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const WRITES: u64 = 5000;
/// At most this many faults at the start of a program.
const START: u64 = 1000;

/// `pagewise NAME` on the program with these words, with prices from a cache that the user may write.
fn command(
    programs: &Programs,
    name: &str,
    user: Option<u32>,
    options: &[&str],
    words: &[&str],
) -> Command {
    let cache = match user {
        None => PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
        Some(id) => {
            let own = programs.path(&format!("cache-{id}"));
            give_prices(&own);
            own
        }
    };
    let mut command = programs.pagewise(name, user, options, words);
    command.env("XDG_CACHE_HOME", cache);
    command
}

/// The timed faults of a saved run. `None` if they could not be recorded.
fn timed(test: &str, run: &Value) -> Option<Value> {
    let faults = &run["look"]["faults"];
    if let Some(why) = faults["missing"].as_str() {
        println!("SKIP {test}: {why}");
        return None;
    }
    Some(faults["known"].clone())
}

/// The number of faults of a kind, all of which must be timed.
fn of_kind(faults: &Value, kind: &str) -> u64 {
    let all = faults["by_cost"].as_array().unwrap();
    let Some(group) = all.iter().find(|group| group["kind"] == kind) else { return 0 };
    assert!(group["tally"]["time_ns"].as_u64().unwrap() > 0, "{faults}");
    group["tally"]["faults"].as_u64().unwrap()
}

/// The diagnosis uses the timed faults, or says why not.
fn is_used(run: &Value) -> bool {
    let has = |list: &str, is: &dyn Fn(&Value) -> bool| {
        run["diagnosis"][list].as_array().unwrap().iter().any(is)
    };
    let waited = |said: &Value| said.as_str().unwrap().contains("far more than the system time");
    has("costs", &|cost| cost["basis"] == "timed") || has("disagreements", &waited)
}

#[test]
fn profile_times_the_faults_of_its_run() {
    let _turn = only_turn();
    let Some(programs) = Programs::get() else { return };
    let pages = WRITES.to_string();
    for user in users() {
        // Each page is touched, then copied by parent or child.
        let options = ["--faults", "--json"];
        let done =
            command(programs, "profile", user, &options, &["fork", &pages]).output().unwrap();
        assert_eq!(done.status.code(), Some(0), "{}", said(&done.stderr));
        let run: Value = serde_json::from_slice(&done.stdout).unwrap();
        let Some(faults) = timed("profile_times_the_faults_of_its_run", &run) else { return };
        let fresh = of_kind(&faults, "anon_faults");
        let copied = of_kind(&faults, "cow_faults");
        assert!((2 * WRITES..2 * WRITES + START).contains(&(fresh + copied)), "{faults}");
        // The kernel distinguishes a copy from a first touch since Linux 5.11.
        assert!(copied >= WRITES || fresh >= 2 * WRITES, "{faults}");
        assert_eq!(faults["in_shown_run"], true);
        assert!(faults["probe_ns"].as_u64().is_some_and(|ns| ns > 0), "{faults}");
        assert!(is_used(&run), "{}", run["diagnosis"]);
    }
}

#[test]
fn profile_leaves_streams_and_status_to_the_program() {
    let _turn = only_turn();
    let Some(programs) = Programs::get() else { return };
    let mut killed = command(programs, "profile", None, &["--faults", "-v"], &["killed", "300"]);
    let done = killed.output().unwrap();
    assert_eq!(done.status.signal(), Some(Signal::KILL.as_raw()));
    assert_eq!((ranges(&said(&done.stdout)).len(), said(&done.stdout).lines().count()), (1, 1));
    let text = said(&done.stderr);
    assert!(text.contains("recording takes about") || text.contains("none: "), "{text}");
    let place = Place::new();
    let script = "cat; echo err >&2; exit 7";
    let mut child = place
        .pagewise(&["profile", "--faults", "--", "sh", "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"through\n").unwrap();
    let done = child.wait_with_output().unwrap();
    assert_eq!((done.status.code(), &done.stdout[..]), (Some(7), &b"through\n"[..]));
    assert!(said(&done.stderr).starts_with("err\n"), "{}", said(&done.stderr));
}

#[test]
fn tune_times_faults_in_a_run_of_their_own() {
    let _turn = only_turn();
    let Some(programs) = Programs::get() else { return };
    let user = users().pop().flatten();
    let saved = programs.path("tuned.json");
    let options = ["--advise", "--rerun-safe", "--save", saved.to_str().unwrap()];
    let pages = (4 * WRITES).to_string();
    let tune = || command(programs, "tune", user, &options, &["write", &pages]);
    let Some(done) = experiment(tune) else { return };
    assert_eq!(done.status.code(), Some(0), "{}", said(&done.stderr));
    let run: Value = serde_json::from_slice(&std::fs::read(saved).unwrap()).unwrap();
    let Some(faults) = timed("tune_times_faults_in_a_run_of_their_own", &run) else { return };
    assert_eq!(faults["in_shown_run"], false);
    let fresh = of_kind(&faults, "anon_faults");
    assert!((4 * WRITES..4 * WRITES + START).contains(&fresh), "{faults}");
    assert!(is_used(&run), "{}", run["diagnosis"]);
}
