//! Code that a running process has generated, put on huge pages from outside. The program's memory is known
//! slot by slot, and `smaps` is read before and after. The program's functions check that they still do the
//! same.

use crate::helper::{Place, as_nobody, compile, is_root, open_place, said};
use pagewise_kernel::page_size;
use pagewise_kernel::proc::{smaps, stat};
use pagewise_model::body::RunBody;
use pagewise_model::collapse::{CollapsedPart, CollapsedProcess};
use pagewise_model::run::SavedRun;
use pagewise_model::text::HugeStanding;
use pagewise_model::text_report::{ExplainedProcess, TextReport};
use pagewise_model::{Bytes, PageSize};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

/// Slots touched by the program, of those that lie whole in its memory.
const TOUCHED: u64 = 3;

/// The program and the pipes to talk to it.
struct Generated {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Generated {
    /// Started by `command`. `None`, after a `SKIP` line, if this machine does not support it.
    fn start(mut command: Command, test: &str) -> Option<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut started = Self { child, to, from: BufReader::new(from) };
        if started.hear() != "ready\n" {
            println!("SKIP {test}: {:?}", started.child.wait());
            return None;
        }
        if started.huge() > Bytes(0) {
            println!("SKIP {test}: the machine gives huge pages unasked");
            return None;
        }
        Some(started)
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        line
    }

    /// The program's answer to a letter.
    fn ask(&mut self, letter: &str) -> String {
        self.to.write_all(letter.as_bytes()).unwrap();
        self.hear()
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// Huge pages in executable memory that has no file, according to `smaps`.
    fn huge(&self) -> Bytes {
        let entries = smaps::read(self.child.id() as i32).unwrap();
        let is_own = |e: &&smaps::SmapsEntry| {
            let path = e.mapping.path.to_string_lossy();
            e.mapping.perms.exec && (path.is_empty() || path.starts_with("/memfd:generated"))
        };
        entries.iter().filter(is_own).fold(Bytes(0), |sum, entry| sum + entry.residency.huge())
    }

    /// Ends the program, which first runs every function once more.
    fn end(mut self) {
        assert_eq!(self.ask("r"), "ok\n");
        drop(self.to);
        assert!(self.child.wait().unwrap().success());
    }
}

/// Builds the program. `None`, after a `SKIP` line, if that fails or huge pages have another size.
fn built(dir: &Path, test: &str) -> Option<PathBuf> {
    let program = dir.join("generated");
    if page_size::huge() != PageSize::PMD_2M || !compile("generated_code.c", &[], &program) {
        println!("SKIP {test}: no C compiler, or no huge pages of 2 MiB");
        return None;
    }
    Some(program)
}

pub(super) fn slots(count: u64) -> Bytes {
    Bytes(count * page_size::huge().bytes())
}

pub(super) fn report(done: &Output) -> TextReport {
    let run = SavedRun::from_json(&done.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}{}", said(&done.stdout), said(&done.stderr)));
    let Some(RunBody::Text(report)) = run.body else { panic!("no report") };
    report
}

/// The result for generated code. `None`, after a `SKIP` line, if this account may not collapse or no page was
/// free.
pub(super) fn collapsed(done: &Output, test: &str) -> Option<CollapsedProcess> {
    let error = said(&done.stderr);
    if error.contains("CAP_SYS_NICE") || error.contains("memory is short") {
        println!("SKIP {test}: {error}");
        return None;
    }
    let process = match report(done) {
        TextReport::Collapse { process, .. } => process,
        TextReport::System { mut system, .. } => system.processes.remove(0),
        other => panic!("{other:?}"),
    };
    let is_short = |part: &CollapsedPart| part.refused.iter().any(|r| r.why.contains("was free"));
    if process.parts.iter().any(is_short) {
        println!("SKIP {test}: {process:?}");
        return None;
    }
    Some(process)
}

fn explained(place: &Place, pid: &str) -> ExplainedProcess {
    match report(&place.pagewise(&["text", "explain", "--json", pid]).output().unwrap()) {
        TextReport::ExplainProcess { process, .. } => process,
        other => panic!("{other:?}"),
    }
}

/// The number of pieces of generated code with this standing.
fn count(process: &ExplainedProcess, standing: &HugeStanding) -> u64 {
    let pieces = process.generated.iter().flat_map(|area| &area.pieces);
    pieces.filter(|piece| piece.standing == *standing).count() as u64
}

#[test]
fn every_touched_slot_is_huge_afterwards_and_the_code_is_what_it_was() {
    const TEST: &str = "every_touched_slot_is_huge_afterwards";
    let place = Place::new();
    let Some(program) = built(place.path(), TEST) else { return };
    let Some(mut running) = Generated::start(Command::new(program), TEST) else { return };
    let pid = running.pid();
    let before = explained(&place, &pid);
    let counts = |process: &ExplainedProcess| {
        use HugeStanding::{Boundary, Huge, NotTouched, SmallPages, TooSmall};
        [SmallPages, Huge, NotTouched, Boundary, TooSmall].map(|s| count(process, &s))
    };
    assert_eq!(counts(&before), [TOUCHED, 0, 1, 1, 1], "{before:?}");

    let words = ["text", "collapse", "--json", "--later", "1ms", &pid];
    let done = place.pagewise(&words).output().unwrap();
    let Some(process) = collapsed(&done, TEST) else { return };
    assert_eq!(done.status.code(), Some(0), "{process:?}");
    let part = &process.parts[0];
    assert_eq!(part.path, None);
    assert_eq!((part.huge_before_bytes, part.tried_slots), (Bytes(0), TOUCHED));
    assert_eq!((part.huge(), running.huge()), (slots(TOUCHED), slots(TOUCHED)));
    assert_eq!((part.grown_bytes, part.later_huge_bytes), (Bytes(0), Some(slots(TOUCHED))));
    let after = explained(&place, &pid);
    assert_eq!(counts(&after), [0, TOUCHED, 1, 1, 1], "{after:?}");
    assert_eq!(running.ask("r"), "ok\n");

    // Code that is written again, page by page as compilers do, stays on small pages until it is collapsed
    // again.
    assert_eq!(running.ask("w"), "ok\n");
    assert_eq!((running.huge(), running.ask("r").as_str()), (Bytes(0), "ok\n"));
    let again = place.pagewise(&["text", "collapse", "--json", &pid]).output().unwrap();
    let Some(process) = collapsed(&again, TEST) else { return };
    assert_eq!((process.huge(), running.huge()), (slots(TOUCHED), slots(TOUCHED)));
    let already = place.pagewise(&["text", "collapse", &pid]).output().unwrap();
    let reported = said(&already.stdout);
    assert_eq!(
        (already.status.code(), reported.contains("0 slots tried")),
        (Some(0), true),
        "{reported}"
    );
    assert!(reported.lines().all(|line| line.chars().count() <= 80), "{reported}");

    // Split, it is as before, and the code still runs.
    let split = place.pagewise(&["text", "collapse", "--undo", "--json", &pid]).output().unwrap();
    let Some(process) = collapsed(&split, TEST) else { return };
    assert_eq!((split.status.code(), process.parts[0].tried_slots), (Some(0), TOUCHED));
    assert_eq!((process.huge(), running.huge()), (Bytes(0), Bytes(0)), "{process:?}");
    running.end();
}

#[test]
fn shared_memory_is_code_too_and_memory_that_is_advised_against_is_refused() {
    const TEST: &str = "shared_memory_is_code_too";
    let place = Place::new();
    let Some(program) = built(place.path(), TEST) else { return };
    let start = |word: &str| {
        let mut command = Command::new(&program);
        command.arg(word);
        Generated::start(command, TEST)
    };
    let collapse = |running: &Generated| {
        place.pagewise(&["text", "collapse", "--json", &running.pid()]).output().unwrap()
    };
    let Some(shared) = start("shared") else { return };
    let done = collapse(&shared);
    let Some(process) = collapsed(&done, TEST) else { return };
    assert_eq!((process.huge(), shared.huge()), (slots(TOUCHED), slots(TOUCHED)), "{process:?}");
    shared.end();

    let Some(against) = start("against") else { return };
    let done = collapse(&against);
    let Some(process) = collapsed(&done, TEST) else { return };
    let [refused] = &process.parts[0].refused[..] else { panic!("{process:?}") };
    assert_eq!((done.status.code(), refused.slots), (Some(3), TOUCHED));
    assert!(refused.why.contains("MADV_NOHUGEPAGE"), "{refused:?}");
    assert_eq!((process.huge(), against.huge()), (Bytes(0), Bytes(0)));
    against.end();
}

#[test]
fn without_the_right_nothing_is_changed_and_the_next_step_is_named() {
    const TEST: &str = "without_the_right_nothing_is_changed";
    if !is_root() {
        return println!("SKIP {TEST}: only root can become another account");
    }
    let place = open_place("pagewise-collapse-");
    let Some(program) = built(place.path(), TEST) else { return };
    let pagewise = place.path().join("pagewise");
    let tried = |mut command: Command, running: &Generated| {
        command.args(["text", "collapse", "--json", &running.pid()]).output().unwrap()
    };
    let Some(own) = Generated::start(as_nobody(&program), TEST) else { return };
    let done = tried(as_nobody(&pagewise), &own);
    let error = said(&done.stderr);
    assert_eq!((done.status.code(), own.huge()), (Some(3), Bytes(0)), "{error}");
    assert!(error.contains("process_madvise") && error.contains("CAP_SYS_NICE"), "{error}");

    // With that capability alone it works.
    let mut able = Command::new("setpriv");
    able.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    able.args(["--inh-caps=+sys_nice", "--ambient-caps=+sys_nice", "--"]).arg(&pagewise);
    let done = tried(able, &own);
    if let Some(process) = collapsed(&done, TEST) {
        assert_eq!((process.huge(), own.huge()), (slots(TOUCHED), slots(TOUCHED)));
    }
    own.end();

    let Some(foreign) = Generated::start(Command::new(&program), TEST) else { return };
    let done = tried(as_nobody(&pagewise), &foreign);
    let error = said(&done.stderr);
    assert_eq!((done.status.code(), foreign.huge()), (Some(2), Bytes(0)), "{error}");
    assert!(error.contains("belongs to another account") && error.contains("help: "), "{error}");
    foreign.end();
}

#[test]
fn what_is_no_process_with_code_of_its_own_is_reported() {
    let place = Place::new();
    let tried = |pid: &str| place.pagewise(&["text", "collapse", pid]).output().unwrap();
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let mut wrong = vec![ended.id().to_string(), i32::MAX.to_string()];
    // Process 2 is the parent of kernel threads, outside of containers.
    if stat::read(2).is_ok_and(|stat| stat.comm == "kthreadd") {
        wrong.push("2".to_owned());
    }
    for pid in wrong {
        let done = tried(&pid);
        let error = said(&done.stderr);
        assert_eq!((done.status.code(), done.stdout.len()), (Some(2), 0), "{pid}: {error}");
        assert!(error.contains("help: "), "{pid}: {error}");
    }
    // A program that generates nothing.
    let mut plain = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let done = tried(&plain.id().to_string());
    drop(plain.stdin.take());
    plain.wait().unwrap();
    assert_eq!(done.status.code(), Some(3), "{}", said(&done.stderr));
    assert!(said(&done.stdout).contains("on huge pages in cat"), "{}", said(&done.stdout));
}

#[test]
fn the_system_does_it_by_process_where_the_kernel_has_no_setting() {
    const TEST: &str = "the_system_does_it_by_process";
    if Path::new("/sys/kernel/mm/transparent_hugepage/hugetext_enabled").exists() {
        return println!(
            "SKIP {TEST}: this kernel has the setting, which is not changed by a test"
        );
    }
    let place = Place::new();
    let Some(program) = built(place.path(), TEST) else { return };
    let Some(running) = Generated::start(Command::new(program), TEST) else { return };
    let words = ["text", "system", "--mode", "2", "--json", &running.pid()];
    let done = place.pagewise(&words).output().unwrap();
    let Some(process) = collapsed(&done, TEST) else { return };
    assert_eq!(done.status.code(), Some(0), "{process:?}");
    assert_eq!((process.huge(), running.huge()), (slots(TOUCHED), slots(TOUCHED)));
    running.end();
}
