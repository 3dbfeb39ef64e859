//! Files of other accounts: results that root saves over them, receipts beside them, and runs that they saved.

use super::give;
use crate::helper::{NOBODY, is_root, only_turn, open_place, said};
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const RUN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/runs/walk-tune.json");

fn pagewise(place: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(place.join("pagewise"));
    command.args(words).env("HOME", place.join("root")).env("LC_ALL", "C").current_dir(place);
    command.env_remove("XDG_STATE_HOME").env_remove("XDG_CACHE_HOME").env_remove("XDG_CONFIG_HOME");
    command.stdin(std::process::Stdio::null()).output().unwrap()
}

/// A place with root's home and a directory of the other account.
fn with_neighbour(test: &str) -> Option<(tempfile::TempDir, PathBuf)> {
    if !is_root() {
        println!("SKIP {test}: only root makes files of others");
        return None;
    }
    let place = open_place("pagewise-owners-");
    std::fs::create_dir(place.path().join("root")).unwrap();
    let theirs = place.path().join("theirs");
    std::fs::create_dir(&theirs).unwrap();
    give(&theirs);
    Some((place, theirs))
}

fn plant(path: &Path) {
    std::fs::write(path, "#!/bin/sh\n").unwrap();
    give(path);
    set_permissions(path, Permissions::from_mode(0o6777)).unwrap();
}

fn refusal(done: &Output) -> String {
    assert_eq!(done.status.code(), Some(2), "{done:?}");
    said(&done.stderr)
}

#[test]
fn a_result_over_a_file_of_another_gives_that_account_nothing() {
    let _turn = only_turn();
    let Some((place, theirs)) = with_neighbour("a_result_over_a_file_of_another") else { return };
    let ab = RUN.replace("walk-tune", "walk-ab");
    let writers: [&[&str]; 5] = [
        &["show", RUN, "--html"],
        &["merge", &ab, "--ndjson"],
        &["cache", "save", "/bin/true", "--output"],
        &["faults", "--save"],
        &["meter", "--pidfile"],
    ];
    for words in writers {
        let of = |file: &Path| {
            let mut all = words.to_vec();
            all.push(file.to_str().unwrap());
            if words[0] == "faults" {
                all.extend(["--", "/bin/true"]);
            }
            pagewise(place.path(), &all)
        };
        let file = theirs.join("report");
        plant(&file);
        let done = of(&file);
        if words[0] != "meter" {
            let now = file.metadata().unwrap();
            assert!(now.len() > 20, "{done:?}");
            assert_eq!((now.uid(), now.gid(), now.mode() & 0o7777), (NOBODY, NOBODY, 0o666));
        }
        // In a directory for all accounts, their files are not written to and their links are not followed.
        let (planted, link) = (place.path().join("planted"), place.path().join("link"));
        plant(&planted);
        let victim = place.path().join("root/victim");
        std::fs::write(&victim, "root's").unwrap();
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(NOBODY), Some(NOBODY)).unwrap();
        for (path, why) in [(&planted, "belongs to another user"), (&link, "link is not followed")]
        {
            let done = of(path);
            assert!(said(&done.stderr).contains(why), "{words:?}: {done:?}");
        }
        assert_eq!(std::fs::read(&planted).unwrap(), b"#!/bin/sh\n");
        assert_eq!(std::fs::read(&victim).unwrap(), b"root's");
        std::fs::remove_file(link).unwrap();
    }
}

#[test]
fn a_receipt_is_not_written_where_another_could_replace_it() {
    let _turn = only_turn();
    let Some((place, theirs)) = with_neighbour("a_receipt_is_not_written") else { return };
    let at = place.path();
    let file = at.join("theirs.env");
    plant(&file);
    let refused = refusal(&pagewise(
        at,
        &["apply", RUN, "--env-file", file.to_str().unwrap(), "--replace", "--yes"],
    ));
    assert!(refused.contains("belongs to another user"), "{refused}");
    assert!(pagewise(at, &["apply", "--undo"]).status.code() == Some(2));
    assert_eq!(file.metadata().unwrap().uid(), NOBODY);
    // Root with that account's home.
    let mut command = Command::new(at.join("pagewise"));
    command.args(["apply", RUN, "--systemd", "x", "--user", "--yes"]).env("HOME", &theirs);
    command.env("XDG_STATE_HOME", at.join("root")).env_remove("XDG_CONFIG_HOME");
    let refused = refusal(&command.output().unwrap());
    assert!(refused.contains("belongs to another user"), "{refused}");
    assert!(refused.contains("help: run this as that user"), "{refused}");
    assert_eq!(std::fs::read_dir(&theirs).unwrap().count(), 0);
}

#[test]
fn a_unit_of_the_machine_starts_no_program_of_another() {
    let _turn = only_turn();
    let Some((place, _)) = with_neighbour("a_unit_of_the_machine_starts_no_program") else {
        return;
    };
    let at = place.path();
    let run = at.join("run.json");
    let text = std::fs::read_to_string(RUN).unwrap();
    let text = text
        .replace("heap-huge=tunable", "heap-huge=inject")
        .replace("\"parameter\": \"tunable\"", "\"parameter\": \"inject\"");
    let mut changed: serde_json::Value = serde_json::from_str(&text).unwrap();
    changed["command"] = serde_json::json!(["/bin/true"]);
    std::fs::write(&run, changed.to_string()).unwrap();
    let run = run.to_str().unwrap();
    let words = ["apply", run, "--systemd", "pagewise-test", "--dry-run"];
    let own = pagewise(at, &words);
    assert!(own.status.success() && said(&own.stdout).contains("ExecStart=/"), "{own:?}");
    give(&at.join("pagewise"));
    let refused = refusal(&pagewise(at, &words));
    assert!(refused.contains("another account could replace pagewise"), "{refused}");
    let refused = refusal(&pagewise(at, &["recheck", "--unit"]));
    assert!(refused.contains("another account could replace pagewise"), "{refused}");
}

#[test]
fn a_saved_run_names_no_other_file_and_writes_no_line_of_its_own() {
    let _turn = only_turn();
    let place = open_place("pagewise-owners-");
    let at = place.path();
    std::fs::create_dir(at.join("root")).unwrap();
    let text = std::fs::read_to_string(RUN).unwrap();
    let file = at.join("run.json");
    let load = |from: &str, to: &str| {
        let changed = text.replace(from, to);
        assert_ne!(changed, text, "{from}");
        std::fs::write(&file, changed).unwrap();
        pagewise(at, &["apply", "run.json", "--env-file", "x.env", "--dry-run"])
    };
    for id in ["../../../outside", "a\\nExecStart=/bin/sh", ".x", "a b"] {
        let refused = refusal(&load("\"walk-tune\"", &format!("\"{id}\"")));
        assert!(refused.contains("is not the identifier of a run"), "{refused}");
    }
    let refused = refusal(&load("\"heap-huge=tunable\"", "\"heap-huge=tunable\\nA=b\""));
    assert!(refused.contains("the name of an arm holds a control character"), "{refused}");
    // Pagewise knows what a dose does. It ignores what the file says.
    let mut run: serde_json::Value = serde_json::from_str(&text).unwrap();
    for dose in run["doses"].as_array_mut().unwrap() {
        dose[1][0]["settings"]["env"] = serde_json::json!([{"name": "LD_PRELOAD", "separator": ":", "entries": ["/tmp/evil.so"]}]);
    }
    std::fs::write(&file, run.to_string()).unwrap();
    let shown = pagewise(at, &["apply", "run.json", "--env-file", "x.env", "--dry-run"]);
    let shown = said(&shown.stdout) + &said(&shown.stderr);
    assert!(!shown.contains("evil") && shown.contains("GLIBC_TUNABLES"), "{shown}");
}

#[test]
fn a_fifo_among_files_keeps_nobody_waiting() {
    let place = open_place("pagewise-owners-");
    let at = place.path();
    std::fs::create_dir_all(at.join("runs")).unwrap();
    std::fs::create_dir(at.join("root")).unwrap();
    let fifo = at.join("runs/1.2.0.b.json");
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, 0o600.into(), 0).unwrap();
    let fifo = fifo.to_str().unwrap();
    let commands: [&[&str]; 10] = [
        &["merge", "runs"],
        &["show", fifo],
        &["compare", fifo, RUN],
        &["profile", "--import", fifo],
        &["cache", "restore", fifo],
        &["apply", fifo, "--env-file", "x", "--dry-run"],
        &["recheck", fifo],
        &["check", "--file", fifo],
        &["order", "close", fifo],
        &["run", "--with", &format!("working-set={fifo}"), "--", "/bin/true"],
    ];
    for words in commands {
        let mut limited = Command::new("timeout");
        limited.arg("20").arg(at.join("pagewise")).args(words).env("HOME", at.join("root"));
        let done = limited.env_remove("XDG_STATE_HOME").current_dir(at).output().unwrap();
        assert_eq!(done.status.code(), Some(2), "{words:?}: {done:?}");
        // An import is read from a pipe too: this one has no writer, and so is empty.
        let why = if words[0] == "profile" { "it is empty" } else { "not a regular file" };
        assert!(said(&done.stderr).contains(why), "{words:?}: {done:?}");
    }
}
