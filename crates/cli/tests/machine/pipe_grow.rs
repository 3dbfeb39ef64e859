//! The remedy `pipe-grow` against programs that a larger pipe would harm, and programs that it helps.
//!
//! The writers of `tests/programs/page_lender.*` lend their pages to a pipe and reuse them after as many bytes
//! as it holds. Alone they write the words 0, 1, 2, ... If a pipe is enlarged behind their back, nine of ten
//! words are wrong.

use crate::helper::{Place, compile, experiment, go, only_turn, said};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Ways to build the C writer.
const WAYS: [(&str, &[&str]); 6] = [
    ("library", &["-O2"]),
    ("static", &["-O2", "-static"]),
    ("raw", &["-O2", "-static", "-nostdlib", "-DRAW"]),
    ("number", &["-O2", "-DBY_SYSCALL"]),
    ("static-number", &["-O2", "-static", "-DBY_SYSCALL"]),
    ("assumed", &["-O2", "-DASSUMED"]),
];

/// The checker. `None` without a compiler.
fn checker(place: &Place) -> Option<PathBuf> {
    let to = place.path().join("check");
    compile("word_check.c", &["-O2"], &to).then_some(to)
}

/// The writer in Go. `None` if it cannot be built.
fn go_writer(place: &Place) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/page_lender.go");
    let to = place.path().join("go-writer");
    let mut command = go();
    command.args(["build", "-o"]).arg(&to).arg(source);
    let done = command.stderr(Stdio::null()).status();
    done.is_ok_and(|status| status.success()).then_some(to)
}

/// What a script prints with the remedies of this list, and what pagewise reports.
fn through(place: &Place, with: &str, script: &str) -> (String, String) {
    let done =
        place.pagewise(&["run", "-v", "--with", with, "--", "sh", "-c", script]).output().unwrap();
    assert!(done.status.success(), "{script}: {}", said(&done.stderr));
    (said(&done.stdout), said(&done.stderr))
}

/// All words arrive as written, whatever stands between writer and checker.
fn is_exact(place: &Place, name: &str, writer: &Path, check: &Path) {
    for between in ["", "| cat "] {
        for with in ["pipe-grow", "pipe-grow=256K"] {
            let script = format!("{} {between}| {}", writer.display(), check.display());
            let (out, reported) = through(place, with, &script);
            assert_eq!(out, "8388608 words, 0 wrong\n", "{name} {between}with {with}: {reported}");
        }
    }
}

#[test]
fn writers_that_lend_pages_by_the_size_of_a_pipe_stay_exact() {
    let place = Place::new();
    let Some(check) = checker(&place) else {
        println!("SKIP writers_that_lend_pages: no C compiler");
        return;
    };
    for (name, args) in WAYS {
        let writer = place.path().join(name);
        if compile("page_lender.c", args, &writer) {
            is_exact(&place, name, &writer, &check);
        } else {
            println!("SKIP writers_that_lend_pages {name}: it cannot be built");
        }
    }
    match go_writer(&place) {
        Some(writer) => is_exact(&place, "go", &writer, &check),
        None => println!("SKIP writers_that_lend_pages go: it cannot be built"),
    }
}

#[test]
fn a_writer_that_a_shell_or_a_tool_starts_stays_exact() {
    let place = Place::new();
    let (Some(check), writer) = (checker(&place), place.path().join("assumed")) else {
        println!("SKIP a_writer_that_a_shell_or_a_tool_starts: no C compiler");
        return;
    };
    assert!(compile("page_lender.c", &["-O2", "-DASSUMED"], &writer));
    let script = place.path().join("script");
    std::fs::write(&script, format!("sleep 0.05\n{}\n:\n", writer.display())).unwrap();
    let (writer, check, script) = (writer.display(), check.display(), script.display());
    for words in [
        format!("(sleep 0.05; {writer}) | {check}"),
        format!("{{ {writer}; :; }} | {check}"),
        format!("nice {writer} | {check}"),
        format!("timeout 60 {writer} | {check}"),
        format!("env A=1 nice timeout 60 {writer} | {check}"),
        format!("echo {writer} | xargs -n1 sh -c '$0' | {check}"),
        format!("sh {script} | {check}"),
        format!("{{ {writer} & wait; }} | {check}"),
    ] {
        let (out, reported) = through(&place, "pipe-grow", &words);
        assert_eq!(out, "8388608 words, 0 wrong\n", "{words}: {reported}");
    }
}

#[test]
fn pipes_of_ordinary_programs_are_grown() {
    let place = Place::new();
    for script in [
        "head -c 1G /dev/zero | cat | wc -c",
        "seq 2000000 | tr 0 1 | sort | uniq -c | wc -l",
        "head -c 300M /dev/zero | gzip -1 | wc -c",
    ] {
        let (_, reported) = through(&place, "pipe-grow", script);
        let first = reported.lines().find(|line| line.contains("took effect")).unwrap();
        assert!(!first.contains(" 0 time"), "{script}: {reported}");
        assert!(!reported.contains("pipe(s) unchanged"), "{script}: {reported}");
    }
}

#[test]
fn what_was_left_alone_is_reported_with_the_reason() {
    let place = Place::new();
    let (Some(check), writer) = (checker(&place), place.path().join("writer")) else {
        println!("SKIP what_was_left_alone: no C compiler");
        return;
    };
    assert!(compile("page_lender.c", &["-O2"], &writer));
    let script = format!("{} | {}", writer.display(), check.display());
    let (_, reported) = through(&place, "pipe-grow", &script);
    let wanted = format!("1 pipe(s) unchanged: {} names vmsplice", writer.display());
    assert!(reported.contains(&wanted), "{reported}");
    let first = reported.lines().next().unwrap();
    assert!(first.starts_with("pagewise: pipe-grow: do not use pipe-grow"), "{reported}");
    let quiet = place.pagewise(&["run", "--with", "pipe-grow", "--", "true"]).output().unwrap();
    assert!(quiet.stderr.is_empty(), "a program's standard error that is no terminal is its own");
}

#[test]
fn advice_says_why_such_a_program_does_not_fit() {
    let _turn = only_turn();
    let place = Place::new();
    let (Some(check), writer) = (checker(&place), place.path().join("writer")) else {
        println!("SKIP advice_says_why: no C compiler");
        return;
    };
    assert!(compile("page_lender.c", &["-O2"], &writer));
    let asks = "python3 -c 'import fcntl; fcntl.fcntl(1, 1032)' | cat";
    let lends = format!("{} | {}", writer.display(), check.display());
    for (script, reason) in [(lends.as_str(), "vmsplice"), (asks, "sets the size")] {
        let made = || place.pagewise(&["tune", "--advise", "--json", "--", "sh", "-c", script]);
        let Some(done) = experiment(made) else { return };
        let document: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
        let all = document["candidates"].as_array().unwrap();
        let Some(one) = all.iter().find(|c| c["remedy"] == "pipe-grow") else {
            // If page costs are too small to matter, pagewise considers no remedy.
            println!("SKIP advice_says_why: nothing was considered for {script}");
            continue;
        };
        assert!(one["doses"].as_array().unwrap().is_empty(), "{one}");
        assert!(one["why"].as_str().unwrap().contains(reason), "{one}");
    }
}
