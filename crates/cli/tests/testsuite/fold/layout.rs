//! A program with 7 MiB of code, linked in several ways. The prediction for its copy must match `smaps` of the
//! running copy.

use super::{assert_same_bytes, folded, ran};
use crate::helper::{Place, compile, said};
use pagewise_kernel::page_size;
use pagewise_kernel::proc::smaps;
use pagewise_model::Bytes;
use pagewise_model::body::RunBody;
use pagewise_model::fold::{FoldReport, TailOutcome};
use pagewise_model::run::SavedRun;
use pagewise_model::text::TextCoverage;
use pagewise_model::text_report::TextReport;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program, linked with these options. `None`, after a `SKIP` line, if it cannot be built.
fn built(place: &Place, test: &str, options: &[&str]) -> Option<PathBuf> {
    let program = place.path().join("wide");
    if compile("wide_text.c", options, &program) {
        return Some(program);
    }
    println!("SKIP {test}: no C compiler that takes {options:?}");
    None
}

/// The report of `text VERB --json` on a file.
fn text(place: &Place, verb: &str, file: &Path) -> TextReport {
    let done = place.pagewise(&["text", verb, "--json"]).arg(file).output().unwrap();
    let run = SavedRun::from_json(&done.stdout);
    let run = run.unwrap_or_else(|e| panic!("{e}: {}", said(&done.stderr)));
    let Some(RunBody::Text(report)) = run.body else { panic!("no report") };
    report
}

/// Starts a program that reads all of its code, and ends it. Returns how much of its own file it had on huge
/// pages.
fn mapped_huge(program: &Path) -> Bytes {
    let mut command = Command::new(program);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let entries = smaps::read(child.id() as i32).unwrap();
    let own = entries.iter().filter(|entry| Path::new(&entry.mapping.path) == program);
    let huge = own.fold(Bytes(0), |sum, entry| sum + entry.residency.file_pmd);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success(), "its code was read as it was built");
    huge
}

/// Warms a copy. False, after a `SKIP` line, if no huge folio is available.
fn is_warm(place: &Place, test: &str, copy: &Path) -> bool {
    let TextReport::Warm { files, .. } = text(place, "warm", copy) else { panic!("no warmed") };
    let is_huge = files[0].huge() == files[0].warmed();
    if !is_huge {
        println!("SKIP {test}: {:?}", files[0].cache.outcome);
    }
    is_huge
}

fn slots(count: u64) -> Bytes {
    Bytes(count * page_size::huge().bytes())
}

#[test]
fn a_folded_and_warmed_program_has_what_was_predicted() {
    const TEST: &str = "a_folded_and_warmed_program_has_what_was_predicted";
    let place = Place::new();
    let Some(program) = built(&place, TEST, &["-pie", "-fPIE", "-g"]) else { return };
    if page_size::huge().bytes() != Bytes::mib(2).0 {
        return println!("SKIP {TEST}: the program is made for huge pages of 2 MiB");
    }
    let (aligned, merged) = (place.path().join("aligned"), place.path().join("merged"));
    let apart = folded(&place, &[], &program, &aligned);
    let one = folded(&place, &["--merge"], &program, &merged);
    assert_eq!(apart.original.warmed(), TextCoverage::default(), "its base is at random");
    assert_eq!((apart.copy.warmed().sum(), one.copy.warmed().sum()), (slots(2), slots(3)));
    assert_eq!((apart.changes.base_bits_lost, one.changes.base_bits_lost), (9, 9));
    assert_eq!(apart.changes.made_executable_bytes, Bytes(0));
    assert!(one.changes.made_executable_bytes > Bytes(0));
    for (copy, folded) in [(&aligned, &apart), (&merged, &one)] {
        assert_same_bytes(&program, copy, &folded.changes);
        let names = |file: &Path| ran(Path::new("nm"), &[file.to_str().unwrap()]);
        assert!(names(copy).0.contains("wide_start") && names(copy) == names(&program));
        if is_warm(&place, TEST, copy) {
            assert_eq!(mapped_huge(copy), folded.copy.warmed().sum(), "{}", copy.display());
        }
    }
    // A fold of the copy finds nothing left to change.
    let again = folded(&place, &["--merge"], &merged, &place.path().join("again"));
    assert!(again.changes.are_none(), "{:?}", again.changes);
}

#[test]
fn the_last_slot_is_filled_where_data_begin_in_the_next_one() {
    const TEST: &str = "the_last_slot_is_filled_where_data_begin_in_the_next_one";
    let place = Place::new();
    let options = ["-pie", "-fPIE", "-Wl,-z,noseparate-code", "-Wl,-z,max-page-size=0x200000"];
    let Some(program) = built(&place, TEST, &options) else { return };
    let copy = place.path().join("copy");
    let filled = folded(&place, &[], &program, &copy);
    let is_filled = |folded: &FoldReport| {
        folded.changes.tails.iter().any(|tail| tail.outcome == TailOutcome::Filled)
    };
    if !is_filled(&filled) {
        return println!("SKIP {TEST}: this linker begins data elsewhere: {:?}", filled.changes);
    }
    assert_same_bytes(&program, &copy, &filled.changes);
    assert_eq!(filled.copy.warmed().sum(), filled.copy.size.sum(), "all of it");
    if is_warm(&place, TEST, &copy) {
        assert_eq!(mapped_huge(&copy), filled.copy.warmed().sum());
    }
    let off = folded(&place, &["--force", "--pad-tail", "0"], &program, &copy);
    assert!(off.changes.appended.is_none() && off.changes.tails.is_empty());
}

#[test]
fn a_linker_that_is_told_so_leaves_nothing_to_fold() {
    const TEST: &str = "a_linker_that_is_told_so_leaves_nothing_to_fold";
    let place = Place::new();
    for merge in [&[][..], &["--merge"][..]] {
        let words = [&["text", "fold", "--linker"], merge].concat();
        let printed = said(&place.pagewise(&words).output().unwrap().stdout);
        let script = place.path().join("huge.ld");
        std::fs::write(&script, &printed).unwrap();
        let line = printed.lines().find(|line| line.ends_with("-Wl,-T,huge.ld")).unwrap();
        let from = format!("-Wl,-T,{}", script.display());
        let options = line.split_whitespace().map(|word| match word {
            "-Wl,-T,huge.ld" => from.as_str(),
            word => word,
        });
        let options: Vec<&str> =
            ["-pie", "-fPIE", "-fuse-ld=bfd"].into_iter().chain(options).collect();
        let Some(program) = built(&place, TEST, &options) else { return };
        let TextReport::ExplainFile { file, .. } = text(&place, "explain", &program) else {
            panic!("no file")
        };
        assert_eq!(file.warmed().text_bytes, file.size.text_bytes, "all of the text: {printed}");
        assert!(
            merge.is_empty() || file.size.read_only_bytes == Bytes(0),
            "all is text: {printed}"
        );
        mapped_huge(&program);
        let copy = place.path().join("copy");
        let folded = folded(&place, &["--force"], &program, &copy);
        assert!(folded.changes.are_none(), "{:?}", folded.changes);
    }
}

#[test]
fn a_copy_elsewhere_that_looks_for_libraries_beside_itself_is_reported() {
    const TEST: &str = "a_copy_elsewhere_that_looks_for_libraries_beside_itself_is_reported";
    let place = Place::new();
    let Some(program) = built(&place, TEST, &["-Wl,-rpath,$ORIGIN/../lib"]) else { return };
    let elsewhere = place.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let is_reported = |copy: &Path| {
        let notes = folded(&place, &[], &program, copy).notes;
        notes.iter().any(|note| note.contains("$ORIGIN/../lib"))
    };
    assert!(is_reported(&elsewhere.join("copy")));
    assert!(!is_reported(&place.path().join("beside")));
}
