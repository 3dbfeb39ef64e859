//! What a preloaded allocator reaches and what it misses, on programs with a known answer
//! (`tests/programs/deep_binding.c`).

use crate::helper::{Place, compile, experiment, said};
use pagewise_kernel::linker_cache;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = "deep_binding.c";

/// The first allocator that the linker knows. `None`, after a `SKIP` line, if it knows none.
fn library(test: &str) -> Option<String> {
    let found = linker_cache::allocators().into_iter().next();
    if found.is_none() {
        println!("SKIP {test}: no other allocator is installed");
    }
    found.map(|library| library.path)
}

/// `name`, built with these options. `None`, after a `SKIP` line, if it cannot be built.
fn built(place: &Place, test: &str, name: &str, options: &[&str]) -> Option<PathBuf> {
    let to = place.path().join(name);
    let is_built = compile(SOURCE, options, &to);
    if !is_built {
        println!("SKIP {test}: {name} cannot be built");
    }
    is_built.then_some(to)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_program_that_binds_deep_is_refused_before_it_dies() {
    const TEST: &str = "a_program_that_binds_deep_is_refused_before_it_dies";
    let place = Place::new();
    let Some(preload) = library(TEST) else { return };
    let Some(program) = built(&place, TEST, "opener", &["-O2", "-ldl"]) else { return };
    let shared = ["-O2", "-shared", "-fPIC", "-DLIBRARY"];
    let Some(opened) = built(&place, TEST, "opened.so", &shared) else { return };
    let command = [text(&program), text(&opened)];
    let start = |preload: &str| {
        Command::new(command[0]).arg(command[1]).env("LD_PRELOAD", preload).status().unwrap()
    };
    // The reason for the refusal is true.
    assert!(start("").success());
    assert_eq!(start(&preload).code(), None, "it lives under {preload}");

    let with = place.pagewise(&["run", "--with", "allocator", "--"]).args(command).output();
    let with = with.unwrap();
    assert_eq!(with.status.code(), Some(125));
    assert!(said(&with.stderr).contains("RTLD_DEEPBIND"), "{}", said(&with.stderr));
    let other = ["-O2", "-ldl", "-DMODE=RTLD_NOW"];
    let Some(harmless) = built(&place, TEST, "harmless", &other) else { return };
    let with = place
        .pagewise(&["run", "--with", "allocator", "--", text(&harmless), text(&opened)])
        .output()
        .unwrap();
    assert!(with.status.success(), "{}", said(&with.stderr));

    let advised = experiment(|| {
        let mut tune = place.pagewise(&["tune", "--advise", "--verbose", "--"]);
        tune.args(command);
        tune
    });
    let Some(advised) = advised else { return };
    assert!(said(&advised.stdout).contains("RTLD_DEEPBIND"), "{}", said(&advised.stdout));
}

#[test]
fn an_arm_that_dies_is_dropped_in_one_line() {
    const TEST: &str = "an_arm_that_dies_is_dropped_in_one_line";
    let place = Place::new();
    if library(TEST).is_none() {
        return;
    }
    let Some(program) = built(&place, TEST, "opener", &["-O2", "-ldl"]) else { return };
    let shared = ["-O2", "-shared", "-fPIC", "-DLIBRARY"];
    let Some(opened) = built(&place, TEST, "opened.so", &shared) else { return };
    let done = experiment(|| {
        let options = ["tune", "--json", "--quiet", "--budget", "20s", "--only", "allocator", "--"];
        let mut tune = place.pagewise(&options);
        tune.args([text(&program), text(&opened)]);
        tune
    });
    let Some(done) = done else { return };
    let run: serde_json::Value = serde_json::from_str(&said(&done.stdout)).unwrap();
    let verdicts = run["experiment"]["verdicts"].as_array().unwrap();
    assert_eq!(verdicts.len(), 1, "{run:#}");
    assert_eq!(verdicts[0]["word"], "reject", "{run:#}");
    let why = verdicts[0]["why"].as_str().unwrap();
    assert!(why.contains("killed by signal") && !why.contains('\n'), "{why}");
}

#[test]
fn static_and_set_uid_children_load_nothing_and_print_nothing() {
    const TEST: &str = "static_and_set_uid_children_load_nothing";
    let place = Place::new();
    let Some(preload) = library(TEST) else { return };
    let name = preload.rsplit('/').next().unwrap();
    let started = |child: &Path| {
        let script = format!("'{}'", text(child));
        place.pagewise(&["run", "--with", "allocator", "--", "sh", "-c", &script]).output().unwrap()
    };
    let Some(ordinary) = built(&place, TEST, "ordinary", &["-O2", "-DREPORT"]) else { return };
    let seen = started(&ordinary);
    assert!(said(&seen.stdout).contains(name), "{}", said(&seen.stdout));

    let fixed = built(&place, TEST, "static", &["-O2", "-DREPORT", "-static"]);
    for (child, is_secure) in
        fixed.map(|child| (child, false)).into_iter().chain(set_uid(&ordinary))
    {
        let seen = started(&child);
        let shown = said(&seen.stdout);
        if is_secure && !shown.contains("secure=1") {
            println!("SKIP {TEST}: set-uid programs have no rights of their own here");
            continue;
        }
        assert!(shown.contains("LD_PRELOAD="), "{shown}");
        let mut objects = shown.lines().filter(|line| line.starts_with("object "));
        assert!(objects.all(|line| !line.contains(name)), "{shown}");
        assert_eq!(said(&seen.stderr), "", "{}", child.display());
    }
}

/// A set-uid copy of a program that belongs to `nobody`, if this account can make one.
fn set_uid(program: &Path) -> Option<(PathBuf, bool)> {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP set-uid: only root can make a program set-uid of another");
        return None;
    }
    let owned = program.with_file_name("set-uid");
    std::fs::copy(program, &owned).unwrap();
    chown(&owned, Some(65534), None).unwrap();
    std::fs::set_permissions(&owned, PermissionsExt::from_mode(0o4755)).unwrap();
    Some((owned, true))
}

#[test]
fn the_users_own_preload_stays_first() {
    const TEST: &str = "the_users_own_preload_stays_first";
    let place = Place::new();
    let Some(preload) = library(TEST) else { return };
    let shared = ["-O2", "-shared", "-fPIC", "-DLIBRARY"];
    let Some(own) = built(&place, TEST, "own.so", &shared) else { return };
    let Some(program) = built(&place, TEST, "report", &["-O2", "-DREPORT"]) else { return };
    let mut run = place.pagewise(&["run", "--with", "allocator", "--", text(&program)]);
    let done = run.env("LD_PRELOAD", &own).output().unwrap();
    let shown = said(&done.stdout);
    let expected = format!("LD_PRELOAD={}:{preload}", text(&own));
    assert!(shown.lines().any(|line| line == expected), "{expected}\n{shown}");
    for name in [text(&own), &preload] {
        let file = Path::new(name).file_name().unwrap().to_str().unwrap();
        let mut objects = shown.lines().filter(|line| line.starts_with("object "));
        assert!(objects.any(|line| line.ends_with(file)), "{file}\n{shown}");
    }
}

#[test]
fn the_objects_of_python_come_from_the_allocator() {
    const TEST: &str = "the_objects_of_python_come_from_the_allocator";
    let place = Place::new();
    let Some(preload) = library(TEST) else { return };
    // A `python3` that is a script starts a different file.
    let own = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let Some(own) = own.ok().filter(|own| own.status.success()) else {
        println!("SKIP {TEST}: no python3");
        return;
    };
    let python = said(&own.stdout).trim().to_owned();
    // If Python's own pools are on, it reports their arenas to standard error.
    let report = "import os, sys; sys._debugmallocstats(); print(os.environ.get('LD_PRELOAD', ''))";
    let pools = |with: &str| {
        let mut run = place.pagewise(&["run", "--with", with, "--", &python, "-c", report]);
        let done = run.env_remove("PYTHONMALLOC").output().unwrap();
        assert!(done.status.success(), "{with}: {}", said(&done.stderr));
        assert_eq!(said(&done.stdout).contains(&preload), with.starts_with("allocator"));
        said(&done.stderr).contains("arenas allocated total")
    };
    assert!(pools("arenas"), "this python has no pools to switch off");
    assert!(!pools("allocator"));
    let name = linker_cache::ALLOCATORS.iter().find(|known| preload.contains(known.name)).unwrap();
    let typed = format!("allocator={}", name.name);
    assert!(pools(&typed), "a parameter that was typed stays as it is");
}
