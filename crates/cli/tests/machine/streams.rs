//! Standard streams and signals: readers that go away, a full disk, a second run.

use crate::helper::{PROGRAM, Place, go, only_turn, said};
use rustix::process::{Pid, Signal, kill_process_group};
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::Duration;

/// Commands that print more than a pipe's reader may want, and measure nothing.
const PRINTERS: [&[&str]; 6] = [
    &["--help"],
    &["tune", "--help"],
    &["man"],
    &["completions", "bash"],
    &["run", "--list"],
    &["doctor"],
];

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = Place::new();
    for words in PRINTERS {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let done = place.pagewise(words).stdout(writer).output().unwrap();
        assert!(done.stderr.is_empty(), "{words:?}: {}", said(&done.stderr));
        assert_eq!(done.status.code(), Some(0), "{words:?}");
    }
}

#[test]
fn a_full_disk_is_one_line_and_a_failure() {
    let place = Place::new();
    for words in PRINTERS {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let done = place.pagewise(words).stdout(full).output().unwrap();
        let text = said(&done.stderr);
        assert_eq!(text.lines().count(), 1, "{words:?}: {text}");
        assert!(text.contains("cannot write standard output"), "{words:?}: {text}");
        assert_eq!(done.status.code(), Some(2), "{words:?}");
    }
}

#[test]
fn a_second_run_is_asked_for() {
    let place = Place::new();
    let mark = place.path().join("ran");
    let script = format!("cat; : > {}", mark.display());
    let mut refused = place.pagewise(&["profile", "--traced", "--", "sh", "-c", &script]);
    let done = refused.output().unwrap();
    assert_eq!(done.status.code(), Some(2), "{}", said(&done.stderr));
    assert!(said(&done.stderr).contains("--rerun-safe"), "{}", said(&done.stderr));
    assert!(!mark.exists());
}

#[test]
fn an_interrupt_in_the_second_run_leaves_the_report_of_the_first() {
    let _turn = only_turn();
    let place = Place::new();
    let first = place.path().join("first");
    // The first run ends at once, the second waits.
    let script = format!("[ -e {0} ] && exec sleep 60; : > {0}; exit 4", first.display());
    let child = place
        .pagewise(&["profile", "--traced", "--rerun-safe", "--json", "--", "sh", "-c", &script])
        .env("GLIBC_TUNABLES", "glibc.malloc.arena_max=1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let is_second = |process: &std::path::Path| {
        let name = std::fs::read(process.join("comm")).unwrap_or_default();
        let environment = std::fs::read(process.join("environ")).unwrap_or_default();
        name == b"sleep\n" && said(&environment).contains(&place.mark())
    };
    let second_runs =
        || std::fs::read_dir("/proc").unwrap().flatten().any(|entry| is_second(&entry.path()));
    let seen = (0..3000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        second_runs()
    });
    assert!(seen, "the second run did not start");
    kill_process_group(Pid::from_child(&child), Signal::INT).unwrap();
    let done = child.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(4), "{}", said(&done.stderr));
    let document: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(document["look"]["runs"].as_array().unwrap().len(), 1);
    assert!(document["look"]["traced"]["missing"].is_string(), "{}", document["look"]["traced"]);
    assert_eq!(document["environment"][0][1], "glibc.malloc.arena_max=1");
}

#[test]
fn heap_huge_goes_by_the_allocator() {
    let place = Place::new();
    let shell = place
        .pagewise(&["run", "--with", "heap-huge", "--", "sh", "-c", "echo $GLIBC_TUNABLES"])
        .output()
        .unwrap();
    let old = pagewise_tracee::glibc::has_huge_tunable("/bin/sh".as_ref()) != Some(true);
    assert!(
        old || said(&shell.stdout).contains("glibc.malloc.hugetlb=1"),
        "{}",
        said(&shell.stdout)
    );
    let (source, program) = (place.path().join("p.go"), place.path().join("p"));
    let code = "package main\nimport \"time\"\nfunc main() {\n b := make([]byte, 64<<20)\n\
        time.Sleep(100 * time.Millisecond)\n for i := 0; i < len(b); i += 4096 { b[i] = 1 }\n}\n";
    std::fs::write(&source, code).unwrap();
    let built = go()
        .args(["build", "-o"])
        .args([&program, &source])
        .env("HOME", place.path())
        .stderr(Stdio::null())
        .status();
    if !built.is_ok_and(|status| status.success()) {
        println!("SKIP heap_huge_goes_by_the_allocator: no Go compiler");
        return;
    }
    let done = place
        .pagewise(&["run", "--verbose", "--with", "heap-huge", "--"])
        .arg(&program)
        .output()
        .unwrap();
    assert!(done.status.success(), "{PROGRAM}: {}", said(&done.stderr));
    assert!(said(&done.stderr).contains("advise-huge"), "{}", said(&done.stderr));
}
