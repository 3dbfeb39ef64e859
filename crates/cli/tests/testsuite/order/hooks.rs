//! `order hooks`: lists written by programs compiled with the hooks, against what breakpoints see and against
//! the truth.

use super::order;
use crate::helper::{Place, compile, said};
use rustix::process::Signal;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The source of the hooks; the lines that show its use are there.
fn source(place: &Place) -> PathBuf {
    let done = order(place, &["hooks", place.path().to_str().unwrap()]);
    let text = said(&done.stdout);
    assert!(done.status.success() && text.contains("cc -finstrument-functions *.c"), "{text}");
    place.path().join("pagewise_hooks.c")
}

/// A program of `tests/programs` with the hooks. `None`, after a message, without a C compiler.
fn built(place: &Place, program: &str, options: &[&str]) -> Option<PathBuf> {
    let (hooks, made) = (source(place), place.path().join("app"));
    let object = place.path().join("hooks.o");
    let compiled = Command::new("cc")
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-finstrument-functions", "-c"])
        .args([&hooks, Path::new("-o"), &object])
        .status();
    let with = [&["-O1", "-finstrument-functions", "-pthread", object.to_str().unwrap()], options];
    if !compiled.is_ok_and(|status| status.success()) || !compile(program, &with.concat(), &made) {
        println!("SKIP order hooks: no C compiler with {options:?}");
        return None;
    }
    Some(made)
}

fn run(place: &Place, program: &Path, words: &[&str]) -> Output {
    let calls = place.path().join("calls");
    Command::new(program).args(words).env("PAGEWISE_CALLS", calls).output().unwrap()
}

/// The names that `order record` lists, without the files.
fn names(done: &Output) -> Vec<String> {
    assert!(done.status.success(), "{}", said(&done.stderr));
    let text = said(&done.stdout);
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

fn listed(place: &Place, options: &[&str]) -> Vec<String> {
    let calls = place.path().join("calls");
    names(&order(place, &[&["record", "--hooks", calls.to_str().unwrap()], options].concat()))
}

#[test]
fn hooks_list_what_breakpoints_list() {
    let place = Place::new();
    for options in [&[][..], &["-static"], &["-no-pie", "-fno-pie"]] {
        let Some(program) = built(&place, "calls.c", options) else { continue };
        let ran = run(&place, &program, &["plain"]);
        assert_eq!(said(&ran.stdout), "plain 5\n", "{}", said(&ran.stderr));
        let hooks = listed(&place, &[]);
        let script = format!("{} plain; true", program.display());
        let words = ["record", "--only", "app", "--", "sh", "-c", &script];
        let mut calls = names(&order(&place, &words));
        calls.retain(|name| hooks.contains(name));
        assert_eq!(hooks, calls);
        assert_eq!(hooks[0], "main");
        let marks: Vec<_> = hooks.iter().filter(|name| name.starts_with("mark_")).collect();
        assert_eq!(marks, ["mark_one", "mark_three", "mark_two"]);
    }
}

#[test]
fn threads_forks_and_executed_programs_have_their_calls() {
    let place = Place::new();
    let Some(program) = built(&place, "calls.c", &["-ldl"]) else { return };
    let marks = |how: &str| {
        let ran = run(&place, &program, &[how]);
        assert_eq!((ran.status.signal(), said(&ran.stderr).as_str()), (None, ""));
        let mut names = listed(&place, &[]);
        names.retain(|name| name.starts_with("mark_"));
        names
    };
    assert_eq!(marks("threads"), ["mark_one", "mark_two", "mark_three"]);
    assert_eq!(marks("forks"), ["mark_one", "mark_two", "mark_three"]);
    // A program executed by the child writes its own file, because its parent lives.
    assert_eq!(marks("vforks"), ["mark_two"]);
    let files = std::fs::read_dir(place.path()).unwrap().flatten().map(|entry| entry.path());
    let own: Vec<_> = files.filter(|p| p.to_string_lossy().contains("/calls.")).collect();
    let [own] = &own[..] else { panic!("{own:?}") };
    let mut both = listed(&place, &[own.to_str().unwrap()]);
    both.retain(|name| name.starts_with("mark_"));
    assert_eq!(both, ["mark_two", "mark_one", "mark_three"]);
}

#[test]
fn libraries_that_come_later_are_placed_and_can_be_chosen() {
    let place = Place::new();
    let library = place.path().join("libcalls.so");
    let shared = ["-O1", "-shared", "-fPIC", "-DLIBRARY", "-finstrument-functions"];
    let Some(program) = built(&place, "calls.c", &["-ldl"]) else { return };
    assert!(compile("calls.c", &shared, &library));
    run(&place, &program, &["loads", library.to_str().unwrap()]);
    assert_eq!(listed(&place, &["--only", "libcalls.so"]), ["mark_library"]);
    assert!(listed(&place, &[]).contains(&"mark_library".to_owned()));
    assert!(!listed(&place, &["--only", "app"]).contains(&"mark_library".to_owned()));
}

#[test]
fn a_program_that_is_killed_has_written_its_calls() {
    let place = Place::new();
    let Some(program) = built(&place, "hooked.c", &[]) else { return };
    for (how, signal) in
        [("abort", Some(Signal::ABORT)), ("kill", Some(Signal::KILL)), ("exit", None)]
    {
        let ran = run(&place, &program, &[how]);
        assert_eq!(ran.status.signal(), signal.map(Signal::as_raw), "{how}");
        assert_eq!(listed(&place, &[]), ["construct", "main", "last"]);
    }
}

#[test]
fn what_is_not_to_be_recorded_is_left_as_it_is() {
    let place = Place::new();
    let Some(program) = built(&place, "hooked.c", &[]) else { return };
    let calls = place.path().join("calls");
    std::fs::write(&calls, "something of somebody").unwrap();
    let ran = run(&place, &program, &["exit"]);
    assert!(said(&ran.stderr).contains("it holds something else"), "{}", said(&ran.stderr));
    assert_eq!(std::fs::read_to_string(&calls).unwrap(), "something of somebody");
    let refused = order(&place, &["record", "--hooks", calls.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused.stderr));
    assert!(said(&refused.stderr).contains("is not a list written by a program with hooks"));
    std::fs::remove_file(&calls).unwrap();
    assert!(Command::new(&program).arg("exit").status().unwrap().success());
    assert!(!calls.exists());
    // The program is built again, so the addresses belong to another file.
    run(&place, &program, &["exit"]);
    assert!(compile("order.c", &["-O1", "-DPART", "-shared", "-fPIC"], &program));
    let changed = order(&place, &["record", "--hooks", calls.to_str().unwrap()]);
    assert!(said(&changed.stderr).contains("has changed since"), "{}", said(&changed.stderr));
}
