//! `apply` on saved runs: which files it writes, what they do, and that `--undo` removes them all.

use crate::helper::{Place, said, tuned};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

/// A saved session that has proven these remedies on a program.
fn saved(place: &Place, list: &str, program: &str, is_proven: bool) -> PathBuf {
    let run = tuned(list, program, is_proven);
    let file = place.path().join("run.json");
    std::fs::write(&file, run.to_json()).unwrap();
    file
}

fn apply(place: &Place, words: &[&str]) -> Output {
    let mut command = place.pagewise(&["apply"]);
    command.args(words).env("XDG_CONFIG_HOME", place.path().join("config"));
    command.output().unwrap()
}

/// Every file below the directory of applied files.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn a_drop_in_is_written_and_taken_back() {
    let place = Place::new();
    let run = saved(&place, "malloc-keep=64M", "/bin/echo", true);
    let run = run.to_str().unwrap();
    let config = place.path().join("config");
    let words = [run, "--systemd", "pagewise-test", "--user"];
    let shown = apply(&place, &[&words[..], &["--dry-run"]].concat());
    assert!(said(&shown.stdout).contains("GLIBC_TUNABLES=glibc.malloc.mmap_threshold"));
    assert!(shown.status.success() && files(&config).is_empty());
    let unasked = apply(&place, &words);
    assert_eq!(unasked.status.code(), Some(2));
    assert!(said(&unasked.stderr).contains("--yes"), "{unasked:?}");
    assert!(files(&config).is_empty());
    let done = apply(&place, &[&words[..], &["--yes"]].concat());
    let file = config.join("systemd/user/pagewise-test.service.d/50-pagewise.conf");
    assert_eq!(files(&config), std::slice::from_ref(&file), "{done:?}");
    assert!(std::fs::read_to_string(&file).unwrap().contains("\n[Service]\nEnvironment="));
    assert!(said(&done.stdout).contains("systemctl --user daemon-reload"), "{done:?}");
    let again = apply(&place, &[&words[..], &["--yes"]].concat());
    assert!(said(&again.stdout).ends_with("holds this already\n"), "{again:?}");
    let list = said(&apply(&place, &["--list", "--json"]).stdout);
    assert!(list.contains("\"number\": 1") && list.contains("50-pagewise.conf"), "{list}");
    let undone = apply(&place, &["--undo"]);
    assert!(undone.status.success(), "{undone:?}");
    assert!(files(&config).is_empty() && !config.exists());
    assert_eq!(apply(&place, &["--undo"]).status.code(), Some(2));
}

#[test]
fn a_wrapper_starts_the_program_with_its_remedy_and_its_arguments() {
    let place = Place::new();
    let run = saved(&place, "malloc-keep=64M", "printenv", true);
    let directory = place.path().join("own bin");
    let (run, wrappers) = (run.to_str().unwrap(), directory.to_str().unwrap());
    let done = apply(&place, &[run, "--wrapper", wrappers, "--yes"]);
    let file = directory.join("printenv");
    assert!(said(&done.stdout).contains("accepted by sh -n"), "{done:?}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o755);
    let ran = std::process::Command::new(&file).arg("GLIBC_TUNABLES").output().unwrap();
    assert!(said(&ran.stdout).contains("glibc.malloc.mmap_threshold=67108864"), "{ran:?}");
    // A wrapper found first in PATH is not taken for the program.
    let path = format!("{wrappers}:{}", std::env::var("PATH").unwrap());
    let apply_again = |to: &str| {
        let mut command = place.pagewise(&["apply", run, "--wrapper", to, "--replace", "--yes"]);
        command.env("PATH", &path).current_dir(place.path()).output().unwrap()
    };
    let same = apply_again(wrappers);
    assert!(said(&same.stdout).ends_with("holds this already\n"), "{same:?}");
    let other = apply_again("other");
    let second = place.path().join("other");
    let text = std::fs::read_to_string(second.join("printenv")).unwrap();
    assert!(!text.contains(wrappers), "{text}");
    let line = format!("export PATH={}:", second.canonicalize().unwrap().display());
    assert!(said(&other.stdout).contains(&line), "{other:?}");
    apply(&place, &["--undo", "1"]);
    assert!(!directory.exists());
    let ran = std::process::Command::new(second.join("printenv")).arg("HOME").output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
}

#[test]
fn a_wrapper_does_not_take_the_place_of_its_program() {
    let place = Place::new();
    let program = place.path().join("app");
    std::fs::write(&program, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let run = saved(&place, "malloc-keep=64M", program.to_str().unwrap(), true);
    let words = [run.to_str().unwrap(), "--wrapper", place.path().to_str().unwrap()];
    let itself = apply(&place, &[&words[..], &["--replace", "--yes"]].concat());
    assert!(said(&itself.stderr).contains("is the program itself"), "{itself:?}");
}

#[test]
fn containers_and_environment_files_are_written_and_a_file_in_the_way_comes_back() {
    let place = Place::new();
    let run = saved(&place, "arenas=1", "/bin/echo", true);
    let run = run.to_str().unwrap();
    let at = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let (compose, patch, env) = (at("c.yaml"), at("k.yaml"), at("e.env"));
    std::fs::write(&env, "own").unwrap();
    let name = ["--name", "db", "--yes"];
    apply(&place, &[&[run, "--compose", &compose], &name[..]].concat());
    apply(&place, &[&[run, "--kubernetes", &patch], &name[..]].concat());
    let refused = apply(&place, &[run, "--env-file", &env, "--yes"]);
    assert!(said(&refused.stderr).contains("--replace"), "{refused:?}");
    apply(&place, &[run, "--env-file", &env, "--yes", "--replace"]);
    let read = |file: &str| std::fs::read_to_string(file).unwrap();
    assert!(
        read(&compose).contains("services:\n  \"db\":\n    environment:\n      GLIBC_TUNABLES: \"")
    );
    let pod =
        "      - name: \"db\"\n        env:\n        - name: GLIBC_TUNABLES\n          value: \"";
    assert!(read(&patch).contains(pod), "{}", read(&patch));
    assert!(read(&env).ends_with("\nGLIBC_TUNABLES=glibc.malloc.arena_max=1\n"), "{}", read(&env));
    for _ in 0..3 {
        assert!(apply(&place, &["--undo"]).status.success());
    }
    assert_eq!(read(&env), "own");
    assert!(!Path::new(&compose).exists() && !Path::new(&patch).exists());
}

#[test]
fn what_cannot_be_applied_is_one_line() {
    let place = Place::new();
    let refused = |run: &Path, words: &[&str]| {
        let words = [&[run.to_str().unwrap()], words].concat();
        let done = apply(&place, &words);
        assert_eq!(done.status.code(), Some(2), "{done:?}");
        said(&done.stderr)
    };
    let likely = saved(&place, "arenas=1", "/bin/echo", false);
    assert!(refused(&likely, &["--wrapper", "/tmp", "--yes"]).contains("--likely"));
    let shell = saved(&place, "arenas=1", "/bin/sh", true);
    assert!(refused(&shell, &["--wrapper", "/tmp", "--yes"]).contains("every script"));
    let fixed = saved(&place, "heap-small", "/bin/echo", true);
    let env = place.path().join("env");
    let why = refused(&fixed, &["--env-file", env.to_str().unwrap(), "--yes"]);
    assert!(why.contains("environment variables are not enough for heap-small"), "{why}");
    assert!(
        refused(&fixed, &["--systemd", "a/b", "--user", "--yes"])
            .contains("not the name of a unit")
    );
    assert!(refused(&fixed, &["--systemd", "a.timer", "--user"]).contains("not a service"));
    assert!(refused(&fixed, &[]).contains("--systemd"), "a place is needed");
}
