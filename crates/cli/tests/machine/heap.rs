//! What `pagewise text explain PID` says of memory that a process writes. The program maps, advises, touches
//! and waits, so the state of each slot is known.

use crate::helper::{as_nobody, compile, open_place, said, users};
use pagewise_kernel::{page_size, thp};
use pagewise_model::body::RunBody;
use pagewise_model::heap::HeapArea;
use pagewise_model::run::SavedRun;
use pagewise_model::text::HugeStanding;
use pagewise_model::text_report::TextReport;
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// Areas that the program makes.
const AREAS: usize = 4;

/// The program; it ends when the test does.
struct Subject {
    child: Child,
    /// First address of each area, by name.
    areas: HashMap<String, u64>,
}

impl Subject {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let areas = lines.take_while(|line| line != "ready").map(|line| {
            let (name, address) = line.split_once(" 0x").unwrap();
            (name.to_owned(), u64::from_str_radix(address, 16).unwrap())
        });
        Self { areas: areas.collect(), child }
    }

    /// The states of an area's slots in order, with the number of each.
    fn standings(&self, all: &[HeapArea], name: &str) -> Vec<(u64, HugeStanding)> {
        let first = self.areas[name];
        let area = all.iter().find(|area| area.stretches[0].address == first).unwrap();
        let huge = page_size::huge().bytes();
        assert_eq!(area.slot_bytes.bytes(), huge);
        let of =
            |s: &pagewise_model::heap::HeapStretch| (s.length_bytes.0 / huge, s.standing.clone());
        area.stretches.iter().map(of).collect()
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A command as this user, in a directory that every account can read.
fn command(place: &Path, user: Option<u32>, name: &str) -> Command {
    let program = place.join(name);
    if user.is_some() { as_nobody(&program) } else { Command::new(program) }
}

fn explain(place: &Path, user: Option<u32>, pid: u32, more: &[&str]) -> Output {
    let mut asked = command(place, user, "pagewise");
    asked.args(["text", "explain"]).args(more).arg(pid.to_string());
    asked.env("LC_ALL", "C").env("NO_COLOR", "1").output().unwrap()
}

/// The memory of a process. `None`, after a `SKIP` line, if this kernel does not report it.
fn heap(done: &Output, test: &str) -> Option<Vec<HeapArea>> {
    if done.status.code() == Some(3) {
        println!("SKIP {test}: {}", said(&done.stderr));
        return None;
    }
    assert_eq!(done.status.code(), Some(0), "{}", said(&done.stderr));
    match SavedRun::from_json(&done.stdout).unwrap().body.unwrap() {
        RunBody::Text(TextReport::ExplainProcess { process, .. }) => Some(process.heap),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_slot_of_a_process_is_huge_or_has_its_reason() {
    use HugeStanding::{Disabled, Huge, NotAsked, NotOffered, NotTouched, Refused};
    const TEST: &str = "each_slot_of_a_process_is_huge_or_has_its_reason";
    let dir = open_place("pagewise-heap-");
    let place = dir.path();
    if !compile("heap.c", &["-O1", "-Wall", "-Werror"], &place.join("heap")) {
        return println!("SKIP {TEST}: no C compiler");
    }
    let silent = match thp::enabled_largest().as_deref() {
        Ok("madvise") => NotAsked,
        Ok("never") => NotOffered,
        word => return println!("SKIP {TEST}: huge pages are given unasked: {word:?}"),
    };
    for user in users() {
        for word in ["", "disabled"] {
            let mut program = command(place, user, "heap");
            program.arg(word);
            let subject = Subject::start(program);
            if subject.areas.len() < AREAS {
                return println!("SKIP {TEST}: this machine gives no room for half a terabyte");
            }
            let pid = subject.child.id();
            let Some(all) = heap(&explain(place, user, pid, &["--json"]), TEST) else { return };
            let small = |otherwise| if word.is_empty() { otherwise } else { Disabled };
            let absent = |slots| (slots, NotTouched);
            let found = |name| subject.standings(&all, name);
            assert_eq!(
                found("silent"),
                [absent(1), (1, small(silent.clone())), absent(2)],
                "{user:?} {word}"
            );
            assert_eq!(found("refused"), [absent(3), (1, small(Refused))]);
            let vast = found("vast");
            assert_eq!((&vast[1], vast.len()), (&(1, small(Refused)), 3), "{vast:?}");
            let wanted = found("wanted");
            let given = small(if silent == NotOffered { NotOffered } else { Huge });
            if given == Huge && wanted != [(1, Huge), absent(1), (1, Huge), absent(1)] {
                println!("SKIP huge pages of {TEST}: not both were given: {wanted:?}");
            } else {
                assert_eq!(wanted, [(1, given.clone()), absent(1), (1, given), absent(1)]);
            }
            let shown = said(&explain(place, user, pid, &[]).stdout);
            assert!(shown.contains("private memory without a file"), "{shown}");
            assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        }
    }
}
