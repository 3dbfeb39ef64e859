//! `profile --memory` of a program with known parts, started by it and already running. Also of a fork, and of
//! processes that cannot be looked at.

use crate::helper::{as_nobody, compile, open_place, said, users};
use pagewise_model::fault::{MemorySite, MemorySites};
use pagewise_model::memory_account::{AccountMoment, MemoryAccount, MemoryKind, MemoryPart};
use pagewise_model::run::SavedRun;
use pagewise_model::{Bytes, Fact};
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A command as this user, in a directory that every account can read.
fn command(place: &Path, user: Option<u32>, name: &str) -> Command {
    let program = place.join(name);
    let mut command = if user.is_some() { as_nobody(&program) } else { Command::new(program) };
    command.env("NO_COLOR", "1").env("HOME", place).env_remove("XDG_STATE_HOME");
    command
}

/// The program; it ends when the test does.
struct Subject {
    child: Child,
    /// Bytes by name.
    known: HashMap<String, u64>,
}

impl Subject {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let known = known(lines);
        Self { child, known }
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn known(lines: impl Iterator<Item = String>) -> HashMap<String, u64> {
    // On a busy machine pagewise says what its figures lack.
    let is_own = |line: &String| line.starts_with("pagewise: ") || line.starts_with("help: ");
    let lines = lines.take_while(|line| line != "ready").filter(|line| !is_own(line));
    let parts = lines.map(|line| {
        let (name, bytes) = line.split_once(' ').unwrap();
        (name.to_owned(), bytes.parse().unwrap_or_else(|_| panic!("{line}")))
    });
    parts.collect()
}

fn account(json: &[u8]) -> MemoryAccount {
    SavedRun::from_json(json).unwrap().memory.unwrap()
}

fn near(what: &str, found: Bytes, expected: u64) {
    let (low, high) = (expected / 100 * 97, expected / 100 * 103 + Bytes::kib(256).0);
    assert!((low..=high).contains(&found.0), "{what}: {found}, not {}", Bytes(expected));
}

/// The account closes, and its parts are those that the program made.
fn check(account: &MemoryAccount, known: &HashMap<String, u64>, file: &str) {
    assert_eq!(account.pss_of(|_| true), account.pss(), "the account does not close");
    let of = |wanted: &dyn Fn(&MemoryPart) -> bool| account.pss_of(wanted);
    let of_file = |kind| of(&|part: &MemoryPart| part.kind == kind && part.name.ends_with(file));
    near("live", of(&|part| part.kind == MemoryKind::Live), known["live"] + known["large"]);
    near("freed", of(&|part| part.kind == MemoryKind::Freed), known["freed"] + known["elsewhere"]);
    near("stack", of(&|part| part.kind == MemoryKind::Stack), known["stack"]);
    near("file", of_file(MemoryKind::File), known["file"]);
    near("written", of_file(MemoryKind::Data), known["written"]);
    let process = &account.processes[0];
    let malloc = process.malloc.as_ref().unwrap();
    assert_eq!((malloc.arenas, process.threads), (4, 5));
    near("elsewhere", malloc.freed_elsewhere_bytes, known["elsewhere"]);
    let back = |name: &str| {
        account.give_backs.iter().find(|one| one.remedy == name).map_or(Bytes(0), |one| one.bytes)
    };
    near("arenas", back("arenas"), known["freed"] + known["elsewhere"]);
    let saved = 24 * malloc.live_blocks;
    near("allocator", back("allocator"), known["freed"] + known["elsewhere"] + saved);
    let half = process.half_used.known().unwrap();
    if half.huge_bytes.0 < known["huge"] {
        return println!("SKIP huge pages of memory: not all were given: {half:?}");
    }
    near("heap-small", back("heap-small"), known["huge"] / 512 * 511);
}

fn prepared(test: &str) -> Option<tempfile::TempDir> {
    let dir = open_place("pagewise-memory-");
    let program = dir.path().join("parts");
    if !compile("memory_parts.c", &["-O1", "-Wall", "-Werror", "-pthread"], &program) {
        println!("SKIP {test}: no C compiler");
        return None;
    }
    std::fs::write(dir.path().join("mapped"), vec![1; Bytes::mib(8).0 as usize]).unwrap();
    Some(dir)
}

#[test]
fn the_parts_of_a_running_process_are_those_that_it_made() {
    let Some(dir) = prepared("the_parts_of_a_running_process") else { return };
    let place = dir.path();
    for user in users() {
        let mut program = command(place, user, "parts");
        program.arg(place.join("mapped"));
        let subject = Subject::start(program);
        let pid = subject.child.id().to_string();
        let words = ["profile", "--memory", "--json", "-p", &pid];
        let done = command(place, user, "pagewise").args(words).output().unwrap();
        assert!(done.status.success(), "{}", said(&done.stderr));
        let account = account(&done.stdout);
        assert_eq!(account.moment, AccountMoment::Running);
        if let Some(why) = &account.processes[0].unread {
            return println!("SKIP the_parts_of_a_running_process: {why}");
        }
        check(&account, &subject.known, "/mapped");
        // Mappings that the program makes itself have no mark.
        let not_named = account.pss_of(|part| part.kind == MemoryKind::NotNamed);
        assert!(not_named.0 <= subject.known["huge"] + Bytes::kib(512).0, "{account:#?}");
    }
}

#[test]
fn the_parts_of_a_program_are_named_and_the_code_that_mapped_them() {
    let Some(dir) = prepared("the_parts_of_a_program") else { return };
    let place = dir.path();
    for user in users() {
        let mut asked = command(place, user, "pagewise");
        asked.args(["profile", "--memory", "--json", "--"]).arg(place.join("parts"));
        let done = asked.arg(place.join("mapped")).stdin(Stdio::null()).output().unwrap();
        assert!(done.status.success(), "{}", said(&done.stderr));
        let account = account(&done.stdout);
        assert!(matches!(account.moment, AccountMoment::End { .. }), "{:?}", account.moment);
        let said = said(&done.stderr);
        let known = known(said.lines().map(str::to_owned));
        check(&account, &known, "/mapped");
        let mapped =
            account.pss_of(|part| part.kind == MemoryKind::Mapped && part.name.ends_with("parts"));
        assert!(mapped.0 >= Bytes::kib(32).0, "{account:#?}");
        assert!(account.named_share() >= 0.99, "{account:#?}");
    }
}

/// Bytes touched at the sites of a function of the program.
fn touched(sites: &MemorySites, function: &str) -> Bytes {
    let of = |one: &&MemorySite| one.site.function.as_deref() == Some(function);
    sites.sites.iter().filter(of).fold(Bytes(0), |sum, one| sum + one.bytes)
}

/// The sites of a program and its output, from a run that lost no record; or why they are not available.
fn sites_of(
    place: &Path,
    user: Option<u32>,
    program: &Path,
) -> Result<(MemorySites, String), String> {
    const TRIES: usize = 5;
    for _attempt in 0..TRIES {
        let mut asked = command(place, user, "pagewise");
        let done =
            asked.args(["profile", "--memory", "--json", "--"]).arg(program).output().unwrap();
        assert!(done.status.success(), "{}", said(&done.stderr));
        match account(&done.stdout).sites.unwrap() {
            Fact::Known(sites) if sites.lost_records + sites.lost_stacks > 0 => {}
            Fact::Known(sites) => return Ok((sites, said(&done.stderr))),
            Fact::Missing(why) => return Err(why),
        }
    }
    Err("the recorder lost records in each run: the machine is busy".to_owned())
}

#[test]
fn each_page_of_the_peak_belongs_to_who_touched_it_first() {
    const TEST: &str = "each_page_of_the_peak_belongs_to_who_touched_it_first";
    let dir = open_place("pagewise-memory-");
    let place = dir.path();
    if !compile("first_touches.c", &["-O1", "-g"], &place.join("first_touches")) {
        return println!("SKIP {TEST}: no C compiler");
    }
    for user in users() {
        let program = place.join("first_touches");
        let (sites, said) = match sites_of(place, user, &program) {
            Ok(found) => found,
            Err(why) => return println!("SKIP {TEST}: {why}"),
        };
        let known = known(said.lines().map(str::to_owned));
        for (function, bytes) in &known {
            let found = touched(&sites, function);
            if function == "touches_huge" && found < Bytes(*bytes) {
                println!("SKIP {TEST}: huge pages: {found} only");
                continue;
            }
            // Some faults of the C library have its stacks. Pages that the kernel filled unseen are assigned to
            // neighbours.
            let margin = Bytes::kib(256).0;
            assert!(found.0.abs_diff(*bytes) <= margin, "{function}: {found} of {sites:#?}");
        }
        let first = &sites.sites[0].site;
        let line = line_of("first_touches.c", "TOUCHES keeps") + 2;
        assert_eq!(first.source.as_ref().map(|source| source.line), Some(line), "{first:?}");
        // The rest belongs to the loader and the kernel.
        assert!(sites.seen_bytes.0 >= known.values().sum(), "{sites:#?}");
        assert!(sites.unseen_bytes < Bytes::mib(1), "{sites:#?}");
        let stack = &sites.stacks[0];
        assert!(stack.frames.ends_with(&["main".into(), "keeps".into()]), "{stack:?}");
    }
}

/// The line number, from 1, of `text` in a test program.
fn line_of(program: &str, text: &str) -> u32 {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs").join(program);
    let source = std::fs::read_to_string(path).unwrap();
    (1..).zip(source.lines()).find(|(_, line)| line.contains(text)).unwrap().0
}

#[test]
fn a_peak_before_a_release_is_found() {
    const SCRIPT: &str =
        "my $x = 'a' x (64 << 20); undef $x; my $y = 'b' x (1 << 20); print length $y";
    let dir = open_place("pagewise-memory-");
    if Command::new("perl").args(["-e", ""]).status().is_err() {
        return println!("SKIP a_peak_before_a_release_is_found: no perl");
    }
    let mut asked = command(dir.path(), None, "pagewise");
    let done =
        asked.args(["profile", "--memory", "--json", "--", "perl", "-e", SCRIPT]).output().unwrap();
    assert!(done.status.success(), "{}", said(&done.stderr));
    let account = account(&done.stdout);
    assert!(matches!(account.moment, AccountMoment::Release { .. }), "{:?}", account.moment);
    assert!(account.pss() > Bytes::mib(64) && account.named_share() >= 0.95, "{account:#?}");
}

#[test]
fn children_of_a_fork_show_what_they_copied() {
    const SCRIPT: &str = "$x = 'a' x (32 << 20); if (!fork) { substr($x, $_ << 12, 1, 'b') for 0 .. 2047; exit } wait";
    let dir = open_place("pagewise-memory-");
    if Command::new("perl").args(["-e", ""]).status().is_err() {
        return println!("SKIP children_of_a_fork_show_what_they_copied: no perl");
    }
    let mut asked = command(dir.path(), None, "pagewise");
    let done =
        asked.args(["profile", "--memory", "--json", "--", "perl", "-e", SCRIPT]).output().unwrap();
    assert!(done.status.success(), "{}", said(&done.stderr));
    let account = account(&done.stdout);
    let copied = account.processes.iter().find_map(|process| process.copied_bytes).unwrap();
    assert!(copied >= Bytes::mib(8), "{account:#?}");
    // perl holds the text twice, and so does the child, which shares most of it.
    assert!(account.pss() < Bytes::mib(96), "shared pages count once: {account:#?}");
}

#[test]
fn the_report_is_text_and_the_status_is_the_programs() {
    let dir = open_place("pagewise-memory-");
    let mut asked = command(dir.path(), None, "pagewise");
    let done = asked.args(["profile", "--memory", "--", "sh", "-c", "exit 3"]).output().unwrap();
    assert_eq!(done.status.code(), Some(3));
    let shown = said(&done.stderr);
    assert!(shown.contains("\n  what   ") && shown.contains("code"), "{shown}");
    let none = asked_of(dir.path(), i32::MAX);
    assert_eq!(none.status.code(), Some(2));
}

fn asked_of(place: &Path, pid: i32) -> std::process::Output {
    let pid = pid.to_string();
    command(place, None, "pagewise").args(["profile", "--memory", "-p", &pid]).output().unwrap()
}
