//! `order record` on programs that breakpoints could disturb. They print and end as they do without it, and the
//! list has the functions by first call.

use super::{lines, objects, order};
use crate::helper::{NOBODY, Place, await_gone, compile, install, is_root, said};
use pagewise_model::first_calls::CallRecord;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The program `calls` built with these options, and its library. `None`, after a message, if it cannot be
/// built.
fn built(place: &Place, options: &[&str]) -> Option<(PathBuf, PathBuf)> {
    let (program, library) = (place.path().join("calls"), place.path().join("libcalls.so"));
    let shared = ["-O1", "-shared", "-fPIC", "-DLIBRARY"];
    let options = [&["-O1", "-pthread"], options].concat();
    if !compile("calls.c", &options, &program) || !compile("calls.c", &shared, &library) {
        println!("SKIP order record: no C compiler with {options:?}");
        return None;
    }
    Some((program, library))
}

/// Runs the program `how` alone and recorded. Returns its functions and its library's that begin with `mark_`,
/// by first call.
fn marks(place: &Place, (program, library): &(PathBuf, PathBuf), how: &str) -> Vec<String> {
    let list = place.path().join("list");
    let words: [&str; 3] = [program.to_str().unwrap(), how, library.to_str().unwrap()];
    let plain = Command::new(words[0]).args(&words[1..]).output().unwrap();
    let only = ["--only", words[0], "--only", "libcalls.so", "-o", list.to_str().unwrap()];
    let seen = order(place, &[&["record"], &only[..], &["--"], &words].concat());
    let what = |done: &Output| (done.status, said(&done.stdout));
    assert_eq!(what(&seen), what(&plain), "{}", said(&seen.stderr));
    let text = std::fs::read_to_string(list).unwrap();
    text.lines().filter(|line| line.starts_with("mark_")).map(str::to_owned).collect()
}

#[test]
fn functions_come_by_their_first_calls() {
    let place = Place::new();
    for options in [&["-fPIE", "-pie"][..], &["-fno-pie", "-no-pie"], &["-static"]] {
        let Some(built) = built(&place, options) else { continue };
        assert_eq!(marks(&place, &built, "plain"), ["mark_one", "mark_three", "mark_two"]);
        assert_eq!(marks(&place, &built, "threads"), ["mark_one", "mark_two", "mark_three"]);
        assert_eq!(marks(&place, &built, "forks"), ["mark_one", "mark_two", "mark_three"]);
        assert_eq!(marks(&place, &built, "vforks"), ["mark_two", "mark_one", "mark_three"]);
    }
}

#[test]
fn libraries_that_come_later_are_seen() {
    let place = Place::new();
    let Some(built) = built(&place, &["-ldl"]) else { return };
    assert_eq!(marks(&place, &built, "loads"), ["mark_one", "mark_two", "mark_library"]);
}

#[test]
fn pages_hold_what_is_called_and_more() {
    let place = Place::new();
    let Some((program, library)) = built(&place, &[]) else { return };
    let program = program.to_str().unwrap();
    let command = ["--", program, "plain", library.to_str().unwrap()];
    let names = |options: &[&str]| {
        let done = order(&place, &[&["record", "-o", "/dev/stdout"], options, &command].concat());
        match done.status.code() {
            Some(3) => Err(said(&done.stderr)),
            // The program's own status is not 0.
            _ => Ok(said(&done.stdout).lines().map(str::to_owned).collect::<Vec<_>>()),
        }
    };
    match (names(&[]).unwrap(), names(&["--pages"])) {
        (_, Err(why)) => println!("SKIP pages_hold_what_is_called_and_more: {why}"),
        (calls, Ok(pages)) => {
            assert!(pages.iter().any(|line| line.ends_with("by first touch of their pages")));
            let marks = calls.iter().filter(|line| line.starts_with("mark_"));
            let missing: Vec<_> = marks.filter(|name| !pages.contains(name)).collect();
            assert!(missing.is_empty() && calls.len() <= pages.len(), "{missing:?} {pages:?}");
        }
    }
}

#[test]
fn a_stripped_program_has_addresses_that_predict_knows() {
    let place = Place::new();
    let Some((program, _)) = built(&place, &["-s"]) else { return };
    let at = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let (list, program) = (at("list"), program.to_str().unwrap());
    let done = order(&place, &["record", "-o", &list, "--", program, "plain"]);
    assert_eq!(done.status.code(), Some(5), "{}", said(&done.stderr));
    assert!(said(&done.stderr).contains("1 file is stripped"), "{}", said(&done.stderr));
    let names = std::fs::read_to_string(&list).unwrap();
    assert!(names.lines().filter(|line| line.starts_with("0x")).count() > 4, "{names}");
    let predicted = order(&place, &["predict", &list, "--program", program]);
    assert!(said(&predicted.stderr).contains("(100%)"), "{}", said(&predicted.stderr));
}

#[test]
fn functions_that_can_be_patched_are_found_without_symbols_and_tables() {
    let place = Place::new();
    let addresses = |options: &[&str]| {
        let options = [options, &["-fno-asynchronous-unwind-tables"]].concat();
        let (program, _) = built(&place, &options)?;
        let words = ["record", "--json", "--", program.to_str().unwrap(), "plain"];
        let done = order(&place, &words);
        let record: CallRecord = serde_json::from_slice(&done.stdout).unwrap();
        let calls = record.objects.into_iter().flat_map(|object| object.calls);
        Some(calls.map(|call| (call.name, call.address)).collect::<Vec<_>>())
    };
    let patched = "-fpatchable-function-entry=5";
    for more in [&["-fcf-protection=none"][..], &["-fcf-protection=full"], &["-no-pie", "-fno-pie"]]
    {
        let Some(named) = addresses(&[&[patched], more].concat()) else { continue };
        let marks = named.iter().filter(|(name, _)| name.starts_with("mark_") || name == "main");
        let marks: Vec<u64> = marks.map(|(_, address)| *address).collect();
        assert_eq!(marks.len(), 4, "{named:?}");
        let missing = |options: &[&str]| {
            let seen = addresses(&[options, more].concat()).unwrap();
            marks.iter().filter(|at| !seen.iter().any(|(_, address)| address == *at)).count()
        };
        assert_eq!(missing(&["-s", patched]), 0);
        assert_eq!(missing(&["-s"]), 4, "other tables have them");
    }
}

#[test]
fn a_recording_becomes_a_link_order() {
    let place = Place::new();
    let Some([main, part]) = objects(&place, &["-ffunction-sections"]) else { return };
    let at = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let (program, list) = (at("program"), at("list"));
    assert!(
        Command::new("cc").args([&main, &part]).args(["-o", &program]).status().unwrap().success()
    );
    let done = order(&place, &["record", "-o", &list, "--", &program]);
    assert_eq!((done.status.code(), said(&done.stdout).as_str()), (Some(0), "244\n"));
    let text = std::fs::read_to_string(&list).unwrap();
    let own = ["construct", "main", "first", "second", "third", "helper"];
    let seen: Vec<&str> = text.lines().filter(|line| own.contains(line)).collect();
    assert_eq!(seen, own);
    let emitted = lines(&order(&place, &["emit", &list, "--linker", "lld", "--for", &program]));
    assert!(emitted.iter().any(|line| line == "helper"), "{emitted:?}");
    // Without -o, standard output has the list and nothing else.
    let shown = order(&place, &["record", "--", &program]);
    assert_eq!(said(&shown.stdout), text);
    assert!(said(&shown.stderr).starts_with("244\n"));
    let page = at("page.html");
    let drawn = order(&place, &["record", "--map", "--html", &page, "--", &program]);
    assert_eq!(said(&drawn.stdout), text);
    assert!(said(&drawn.stderr).contains("page touched"), "{}", said(&drawn.stderr));
    assert!(std::fs::read_to_string(&page).unwrap().contains("by the first call"));
    let json = lines(&order(&place, &["record", "--json", "--", &program])).join("\n");
    assert!(json.contains("\"name\": \"helper\"") && json.contains("\"functions\""), "{json}");
}

#[test]
fn what_cannot_be_recorded_is_said() {
    let place = Place::new();
    let missing = order(&place, &["record", "--", "/nowhere/at/all"]);
    assert_eq!(missing.status.code(), Some(127), "{}", said(&missing.stderr));
    let other = order(&place, &["record", "--only", "nothing_of_the_kind", "--", "true"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(said(&other.stderr).contains("ran none of the files to record"));
}

#[test]
fn signals_of_breakpoints_and_their_masks_stay_the_programs() {
    let place = Place::new();
    let Some(built) = built(&place, &["-ldl"]) else { return };
    assert_eq!(marks(&place, &built, "signals"), ["mark_two", "mark_one"]);
    for how in ["blocked", "pending"] {
        assert_eq!(marks(&place, &built, how), ["mark_one", "mark_two", "mark_three"], "{how}");
    }
    assert_eq!(marks(&place, &built, "masks"), ["mark_two", "mark_one", "mark_three"]);
}

#[test]
fn children_that_want_to_be_untraced_live_under_every_tracer() {
    let place = Place::new();
    let Some(built) = built(&place, &["-ldl"]) else { return };
    let plain = Command::new(&built.0).arg("untraced").output().unwrap();
    assert_eq!(said(&plain.stdout), "child 512\nchild 1024\nflags 1\nuntraced 7\n");
    assert_eq!(marks(&place, &built, "untraced"), ["mark_one", "mark_two", "mark_three"]);
    for words in [&["faults", "--exact", "--"][..], &["profile", "--memory", "--"]] {
        let words = [words, &[built.0.to_str().unwrap(), "untraced"]].concat();
        let done = place.pagewise(&words).output().unwrap();
        if done.status.code() == Some(3) {
            println!("SKIP children_that_want_to_be_untraced {words:?}: {}", said(&done.stderr));
            continue;
        }
        let seen = (done.status.code(), said(&done.stdout));
        assert_eq!(seen, (plain.status.code(), said(&plain.stdout)), "{words:?}");
    }
    let look = ["profile", "--traced", "--rerun-safe", "--json", "--"];
    let words = [&look[..], &[built.0.to_str().unwrap(), "untraced"]].concat();
    let run: serde_json::Value =
        serde_json::from_slice(&place.pagewise(&words).output().unwrap().stdout).unwrap();
    let traced = &run["look"]["traced"]["known"];
    match traced.is_null() {
        true => println!("SKIP children_that_want_to_be_untraced: {}", run["look"]["traced"]),
        false => assert_eq!(traced["ended"]["exited"], 7),
    }
}

#[test]
fn code_that_a_program_copies_or_makes_runs_as_it_is() {
    let place = Place::new();
    let Some(built) = built(&place, &["-ldl"]) else { return };
    assert_eq!(marks(&place, &built, "copies"), ["mark_two"]);
    assert_eq!(marks(&place, &built, "covers"), ["mark_one", "mark_library"]);
}

#[test]
fn a_program_is_told_the_processors_that_it_would_have() {
    let place = Place::new();
    let Some(built) = built(&place, &["-ldl"]) else { return };
    assert_eq!(marks(&place, &built, "processors"), ["mark_one"]);
}

#[test]
fn programs_with_extra_rights_are_refused() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let place = Place::new();
    let copy = place.path().join("true");
    let file = match is_root() {
        true => {
            install(Path::new("/bin/true"), &copy);
            std::os::unix::fs::chown(&copy, Some(NOBODY), None).unwrap();
            std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o4755)).unwrap();
            copy
        }
        false => PathBuf::from("/usr/bin/passwd"),
    };
    if !file.metadata().is_ok_and(|meta| meta.mode() & 0o4000 != 0) {
        println!("SKIP programs_with_extra_rights: there is none here");
        return;
    }
    let refused = order(&place, &["record", "--", file.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(125));
    assert!(said(&refused.stderr).contains("it is setuid"), "{}", said(&refused.stderr));
}

#[test]
fn a_killed_recorder_ends_the_program_and_leaves_no_breakpoint() {
    let place = Place::new();
    let Some((program, _)) = built(&place, &["-ldl"]) else { return };
    let before = std::fs::read(&program).unwrap();
    let mark = place.path().join("sleeper");
    let script = format!(": {}; {} plain; sleep 600", mark.display(), program.display());
    let words = ["order", "record", "--only", "calls", "--", "sh", "-c", &script];
    let mut recorder = place.pagewise(&words).stderr(Stdio::piped()).spawn().unwrap();
    let mut shown = BufReader::new(recorder.stderr.take().unwrap());
    let mut line = String::new();
    shown.read_line(&mut line).unwrap();
    assert_eq!(line, "plain 5\n");
    assert!(!place.alive().is_empty());
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    assert!(await_gone(&place), "the program lives on");
    assert_eq!(std::fs::read(&program).unwrap(), before);
    assert_eq!(Command::new(&program).arg("plain").status().unwrap().code(), Some(5));
}

#[test]
fn lists_become_one_by_weight() {
    let place = Place::new();
    let at = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(at("version"), "# a comment\nmain\nversion\n").unwrap();
    std::fs::write(at("help"), "main\nhelp\nusage\n").unwrap();
    let words = ["record", "--merge", &at("version"), &at("help")];
    let even = lines(&order(&place, &words));
    assert_eq!(even, ["main", "version", "help", "usage"]);
    let heavy = lines(&order(&place, &[&words[..], &["--weight", "1,9"]].concat()));
    assert_eq!(heavy, ["main", "help", "usage", "version"]);
    let both = order(&place, &[&words[..], &["--", "true"]].concat());
    assert_eq!(both.status.code(), Some(2), "{}", said(&both.stderr));
    let neither = order(&place, &["record"]);
    assert_eq!(neither.status.code(), Some(2));
}
