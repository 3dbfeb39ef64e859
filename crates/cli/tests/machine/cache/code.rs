//! A program with 7 MiB of code, in small folios and then warmed. It is explained as a file and while it runs.

use super::{is_skipped, small, why};
use crate::helper::{Place, compile, said};
use pagewise_kernel::page_size;
use pagewise_kernel::proc::smaps;
use pagewise_model::Bytes;
use pagewise_model::body::RunBody;
use pagewise_model::cache::{CacheOutcome, FileCacheReport};
use pagewise_model::run::SavedRun;
use pagewise_model::text::{
    HugeStanding, ImagePlacement, MappedFile, TextAreaKind, TextCoverage, TextFile, TextMethod,
};
use pagewise_model::text_report::TextReport;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The program at fixed addresses, in small folios. `None`, after a `SKIP` line, if it cannot be built.
pub(super) fn built(place: &Place, test: &str) -> Option<PathBuf> {
    let (made, program) = (place.path().join("made"), place.path().join("wide"));
    if !compile("wide_text.c", &["-no-pie", "-Wl,-z,norelro"], &made) {
        println!("SKIP {test}: no C compiler that links at fixed addresses");
        return None;
    }
    small(&program, &std::fs::read(&made).unwrap());
    let rights = std::fs::metadata(&made).unwrap().permissions();
    std::fs::set_permissions(&program, rights).unwrap();
    Some(program)
}

/// Starts the program and waits until every page of its code is read.
pub(super) fn started(program: &Path) -> Child {
    started_with(program, &[])
}

/// Starts the program with words that change what it does, up to the point where it waits.
fn started_with(program: &Path, words: &[&str]) -> Child {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    child
}

pub(super) fn ended(mut child: Child) {
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success(), "its code was read as it was built");
}

fn text(place: &Place, verb: &str, subject: &str) -> (TextReport, Option<i32>) {
    let done = place.pagewise(&["text", verb, "--json", subject]).output().unwrap();
    let run = SavedRun::from_json(&done.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}{}", said(&done.stdout), said(&done.stderr)));
    let Some(RunBody::Text(report)) = run.body else { panic!("no report") };
    (report, done.status.code())
}

pub(super) fn explained_file(place: &Place, program: &Path) -> TextFile {
    match text(place, "explain", program.to_str().unwrap()).0 {
        TextReport::ExplainFile { file, .. } => *file,
        other => panic!("{other:?}"),
    }
}

pub(super) fn warmed(place: &Place, program: &Path) -> (FileCacheReport, Option<i32>) {
    match text(place, "warm", program.to_str().unwrap()) {
        (TextReport::Warm { mut files, .. }, code) => (files.remove(0).cache, code),
        other => panic!("{other:?}"),
    }
}

/// The explanation of the program's own file in one of its processes.
fn explained_process(place: &Place, child: &Child, program: &Path) -> MappedFile {
    let found = match text(place, "explain", &child.id().to_string()).0 {
        TextReport::ExplainProcess { process, .. } => process,
        other => panic!("{other:?}"),
    };
    let own = found.files.into_iter().find(|file| Path::new(&file.path) == program);
    own.unwrap()
}

/// How much of the program's text is on huge pages, according to `smaps`.
pub(super) fn text_in_smaps(child: &Child, program: &Path) -> Bytes {
    let entries = smaps::read(child.id() as i32).unwrap();
    let text =
        entries.iter().filter(|e| e.mapping.perms.exec && Path::new(&e.mapping.path) == program);
    text.fold(Bytes(0), |sum, entry| sum + entry.residency.file_pmd)
}

#[test]
fn what_is_predicted_of_a_warmed_program_is_what_it_has() {
    const TEST: &str = "what_is_predicted_of_a_warmed_program_is_what_it_has";
    let place = Place::new();
    let Some(program) = built(&place, TEST) else { return };
    let before = std::fs::read(&program).unwrap();
    let file = explained_file(&place, &program);
    assert_eq!(
        (file.layout.placement, file.huge()),
        (ImagePlacement::Fixed, TextCoverage::default())
    );
    let warm = file.reach.iter().find(|reach| reach.method == TextMethod::Warm).unwrap().huge;
    assert!(warm.text_bytes >= Bytes(2 * page_size::huge().bytes()), "{warm:?}");

    // Running in small folios: each whole slot says so, and nothing can be done.
    let child = started(&program);
    let running = explained_process(&place, &child, &program);
    assert_eq!((running.huge(), running.after_warm), (TextCoverage::default(), warm));
    let small_slots = running.areas.iter().filter(|area| area.kind == TextAreaKind::Text);
    let small_slots = small_slots.flat_map(|area| &area.pieces);
    let small_slots =
        small_slots.filter(|piece| piece.standing == HugeStanding::SmallFolio).count();
    assert_eq!(small_slots as u64 * page_size::huge().bytes(), warm.text_bytes.0);
    let (refused, code) = warmed(&place, &program);
    assert_eq!((code, refused.after), (Some(3), None));
    let holders = refused.holders.clone().unwrap();
    assert!(holders.seen.iter().any(|holder| holder.pid == child.id() as i32), "{holders:?}");
    ended(child);

    let (cache, code) = warmed(&place, &program);
    if is_skipped(TEST, &cache) {
        return;
    }
    assert_eq!(
        (code, cache.outcome.clone()),
        (Some(0), Some(CacheOutcome::Done)),
        "{}",
        why(&cache)
    );
    let child = started(&program);
    assert_eq!(text_in_smaps(&child, &program), warm.text_bytes);
    let running = explained_process(&place, &child, &program);
    assert_eq!(running.huge().text_bytes, warm.text_bytes, "{running:?}");
    let file = explained_file(&place, &program);
    assert_eq!(file.huge().text_bytes, warm.text_bytes);
    match text(&place, "status", &child.id().to_string()).0 {
        TextReport::Status(status) => {
            let own = status.counts.iter().find(|count| Path::new(&count.name) == program).unwrap();
            assert_eq!(own.file_pmd_bytes, warm.text_bytes);
        }
        other => panic!("{other:?}"),
    }
    ended(child);
    assert_eq!(std::fs::read(&program).unwrap(), before, "not a byte has changed");
}

/// The states of the whole slots in the text of a program that runs with this word.
fn standings(place: &Place, program: &Path, word: &str) -> Vec<HugeStanding> {
    let child = started_with(program, &[word]);
    let running = explained_process(place, &child, program);
    ended(child);
    let text = running.areas.into_iter().filter(|area| area.kind == TextAreaKind::Text);
    let whole = text.flat_map(|area| area.pieces);
    let whole = whole.filter(|piece| piece.length_bytes.0 == page_size::huge().bytes());
    whole.map(|piece| piece.standing).collect()
}

#[test]
fn what_a_program_does_to_its_own_code_is_the_reason_given() {
    const TEST: &str = "what_a_program_does_to_its_own_code_is_the_reason_given";
    let place = Place::new();
    let Some(program) = built(&place, TEST) else { return };
    let (cache, _) = warmed(&place, &program);
    if is_skipped(TEST, &cache) {
        return;
    }
    let all = standings(&place, &program, "");
    assert!(all.len() >= 2 && all.iter().all(|s| *s == HugeStanding::Huge), "{all:?}");
    let disabled = standings(&place, &program, "disabled");
    assert!(disabled.iter().all(|s| *s == HugeStanding::Disabled), "{disabled:?}");
    let idle = standings(&place, &program, "idle");
    assert!(idle.contains(&HugeStanding::NotTouched), "{idle:?}");
    let page = Bytes(page_size::base().bytes());
    let copied = HugeStanding::PrivateCopy { copied_bytes: page };
    let written = standings(&place, &program, "written");
    // The page in the middle may now have its own mapping, which cuts its slot in two.
    let small = written.iter().filter(|s| **s != HugeStanding::Huge).count();
    assert!(written.iter().all(|s| *s == HugeStanding::Huge || *s == copied), "{written:?}");
    assert!(small <= 1 && written.len() + 1 >= all.len(), "{written:?}");
}

#[test]
fn pieces_tile_the_mappings_of_a_running_program() {
    let place = Place::new();
    let test = "pieces_tile_the_mappings_of_a_running_program";
    let Some(program) = built(&place, test) else { return };
    let child = started(&program);
    let running = explained_process(&place, &child, &program);
    let is_boundary = |standing: &HugeStanding| *standing == HugeStanding::Boundary;
    let text = running.areas.iter().find(|area| area.kind == TextAreaKind::Text).unwrap();
    assert!(text.pieces.iter().any(|piece| is_boundary(&piece.standing)), "{text:?}");
    let sum = text.pieces.iter().fold(Bytes(0), |sum, piece| sum + piece.length_bytes);
    let mapped = smaps::read(child.id() as i32).unwrap();
    let own =
        mapped.iter().filter(|e| e.mapping.perms.exec && Path::new(&e.mapping.path) == program);
    assert_eq!(own.fold(Bytes(0), |sum, entry| sum + entry.mapping.size()), sum);
    ended(child);
}

#[test]
fn libraries_come_along_when_asked_for() {
    let place = Place::new();
    let Some(program) = built(&place, "libraries_come_along_when_asked_for") else { return };
    let words = ["text", "warm", "--with-libraries", "--json", program.to_str().unwrap()];
    let done = place.pagewise(&words).output().unwrap();
    let Some(RunBody::Text(TextReport::Warm { files, missing_libraries, .. })) =
        SavedRun::from_json(&done.stdout).unwrap().body
    else {
        panic!("{}", said(&done.stderr))
    };
    assert_eq!(missing_libraries, [""; 0]);
    assert!(files.iter().skip(1).any(|file| file.cache.path.contains("libc.")), "{files:?}");
}
