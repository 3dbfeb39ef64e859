//! `text system` on a kernel without the setting of hugetext. Each step acts on what is named, says how to, or
//! refuses. These tests change no setting of the machine.

use super::code::{built, ended, started, text_in_smaps};
use super::{is_skipped, mapped_huge};
use crate::helper::{Place, said};
use pagewise_model::Bytes;
use pagewise_model::body::RunBody;
use pagewise_model::cache::CacheOutcome;
use pagewise_model::run::SavedRun;
use pagewise_model::text_report::TextReport;
use pagewise_model::text_system::{HugePageCleaner, TextSystem};
use std::path::Path;
use std::process::Output;

/// Whether the command would change a setting of this machine. If so, prints that the test is skipped.
fn has_setting(test: &str) -> bool {
    let has = Path::new("/sys/kernel/mm/transparent_hugepage/hugetext_enabled").exists();
    if has {
        println!("SKIP {test}: this kernel has the setting, which is not changed by a test");
    }
    has
}

fn system(place: &Place, words: &[&str]) -> Output {
    place.pagewise(&[&["text", "system"], words].concat()).output().unwrap()
}

fn reported(done: &Output) -> TextSystem {
    let run = SavedRun::from_json(&done.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}{}", said(&done.stdout), said(&done.stderr)));
    match run.body.unwrap() {
        RunBody::Text(TextReport::System { system, .. }) => *system,
        other => panic!("{other:?}"),
    }
}

#[test]
fn mode_one_warms_a_program_and_mode_zero_drops_it() {
    const TEST: &str = "mode_one_warms_a_program_and_mode_zero_drops_it";
    let place = Place::new();
    if has_setting(TEST) {
        return;
    }
    let Some(program) = built(&place, TEST) else { return };
    assert_eq!(mapped_huge(&program), Bytes(0));
    let done = system(&place, &["--mode", "1", "--json", program.to_str().unwrap()]);
    let found = reported(&done);
    let cache = &found.files[0].cache;
    if is_skipped(TEST, cache) {
        return;
    }
    assert_eq!((done.status.code(), cache.outcome.clone()), (Some(0), Some(CacheOutcome::Done)));
    assert!(found.is_changed() && found.processes.is_empty() && found.changes.is_empty());
    let child = started(&program);
    assert_eq!(text_in_smaps(&child, &program), found.files[0].huge().text_bytes);
    ended(child);

    let done = system(&place, &["--mode", "0"]);
    assert_eq!(done.status.code(), Some(0), "{}", said(&done.stderr));
    assert_eq!(mapped_huge(&program), Bytes(0));
}

#[test]
fn what_is_not_named_or_named_wrongly_is_refused_with_the_step_to_take() {
    const TEST: &str = "what_is_not_named_or_named_wrongly_is_refused";
    let place = Place::new();
    if has_setting(TEST) {
        return;
    }
    let refused = [
        (&["--mode", "1"][..], 3, "--mode 1 FILE"),
        (&["--mode", "2"], 3, "--mode 2 PID"),
        (&["--mode", "3"], 3, "--mode 3 FILE"),
        (&["--mode", "1", "1"], 2, "mode 1 applies to files"),
        (&["--mode", "2", "/bin/true"], 2, "mode 2 applies to processes"),
        (&["--mode", "0", "/bin/true"], 2, "mode 0 takes no names"),
        (&["--mode", "4"], 2, "4 is not in 0..=3"),
        (&["--pad-threshold", "4K"], 3, "pagewise text fold --pad-tail"),
        (&["--clean", "everything"], 2, "caches or split"),
        (&["--yes"], 2, "--clean"),
        (&["--undo", "--mode", "1"], 2, "cannot be used with"),
        (&["/bin/true"], 2, "--mode"),
    ];
    for (words, code, expected) in refused {
        let done = system(&place, words);
        let error = said(&done.stderr);
        assert_eq!((done.status.code(), done.stdout.len()), (Some(code), 0), "{words:?}: {error}");
        assert!(error.contains(expected), "{words:?}: {error}");
    }
    let done = system(&place, &["--undo"]);
    assert_eq!(done.status.code(), Some(0), "{}", said(&done.stderr));
    assert!(said(&done.stdout).contains("no setting to restore"), "{}", said(&done.stdout));
}

#[test]
fn what_cannot_be_undone_is_not_done_unless_it_is_said_twice() {
    let place = Place::new();
    for cleaner in HugePageCleaner::ALL {
        let done = system(&place, &["--clean", cleaner.into_str()]);
        let error = said(&done.stderr);
        assert_eq!((done.status.code(), done.stdout.len()), (Some(2), 0), "{error}");
        assert!(error.contains("cannot be undone") && error.contains(cleaner.warning()), "{error}");
        assert!(error.contains("help: ") && error.contains("--yes"), "{error}");
    }
}

#[test]
fn every_step_of_the_feature_is_named() {
    let place = Place::new();
    let done = system(&place, &[]);
    let text = said(&done.stdout);
    assert_eq!((done.status.code(), done.stderr.len()), (Some(0), 0), "{}", said(&done.stderr));
    for step in
        ["hugetext", "at boot", "padding", "alignment", "--clean split", "cache show, evict"]
    {
        assert!(text.contains(step), "{step}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let found = reported(&system(&place, &["--json"]));
    assert!(!found.is_changed() && found.cleaners.len() == HugePageCleaner::ALL.len());
}
