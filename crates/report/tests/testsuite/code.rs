//! Page cache and code on huge pages as terminal text: constructed ones against reviewed texts in
//! `tests/golden`, and hostile ones. `UPDATE_GOLDEN` writes the texts again.

use crate::support::code::{
    cache_run, cached, explained, file, fold_run, folded, process, status, text_run,
};
use crate::support::{HOSTILE, PLAIN, assert_harmless, check};
use pagewise_model::Bytes;
use pagewise_model::cache::{CacheAction, CacheOutcome, CacheReport, CacheSlot};
use pagewise_model::fold::FoldChanges;
use pagewise_model::run::SavedRun;
use pagewise_model::text::TextCoverage;
use pagewise_model::text_report::TextReport;
use pagewise_report::escape::cells;
use pagewise_report::{TerminalStyle, headline, link_script, render};

#[test]
fn the_cache_of_files_and_what_became_of_them() {
    let run = cache_run(cached());
    check("cache.txt", &render(&run, &PLAIN));
    assert_eq!(headline(&run), "2 of 6 files all in huge folios now");
    let saved = SavedRun::from_json(run.to_json().as_bytes()).unwrap();
    assert_eq!(saved, run);
}

#[test]
fn a_file_explained() {
    check("text-file.txt", &render(&text_run(explained()), &PLAIN));
}

#[test]
fn files_warmed_with_libraries() {
    let TextReport::ExplainFile { slot_bytes, file } = explained() else { panic!("a file") };
    let mut without = (*file).clone();
    without.areas.clear();
    let files = vec![*file, without];
    let missing_libraries = vec!["libgone.so.1".to_owned()];
    let run = text_run(TextReport::Warm { slot_bytes, files, missing_libraries });
    check("text-warm.txt", &render(&run, &PLAIN));
}

#[test]
fn a_copy_laid_out_for_huge_pages() {
    let run = fold_run(folded());
    check("text-fold.txt", &render(&run, &PLAIN));
    assert_eq!(SavedRun::from_json(run.to_json().as_bytes()).unwrap(), run);
    let script = link_script(&folded().link);
    assert!(script.starts_with("/* ") && script.ends_with("*/\nSECTIONS {}\n"), "{script}");
    let mut unchanged = folded();
    unchanged.changes = FoldChanges::default();
    let run = fold_run(unchanged);
    assert!(headline(&run).starts_with("nothing to change"), "{}", headline(&run));
    assert!(render(&run, &PLAIN).contains("no byte changed"));
}

#[test]
fn a_process_explained() {
    check("text-process.txt", &render(&text_run(process()), &PLAIN));
}

#[test]
fn sums_over_processes_and_over_files() {
    check("text-status.txt", &render(&text_run(status(None)), &PLAIN));
    let one = text_run(status(Some(100)));
    assert_eq!(headline(&one), "38.0 MiB of the text of process 100 on huge pages");
    assert!(!render(&one, &PLAIN).contains("pid"));
}

#[test]
fn saved_forms_come_back() {
    for report in [explained(), process(), status(None)] {
        let run = text_run(report);
        assert_eq!(SavedRun::from_json(run.to_json().as_bytes()).unwrap(), run);
    }
}

#[test]
fn a_narrow_terminal_without_unicode_and_nothing_at_all() {
    let narrow = TerminalStyle { width: 60, unicode: false, ..PLAIN };
    for run in [cache_run(cached()), text_run(explained()), text_run(process())] {
        let text = render(&run, &narrow);
        assert!(text.is_ascii() && text.lines().all(|line| cells(line) <= 60), "{text}");
    }
    let mut nothing = cache_run(cached());
    nothing.body = None;
    assert_eq!(headline(&nothing), "nothing was examined");
    let TextReport::ExplainFile { slot_bytes, mut file } = explained() else { panic!("a file") };
    file.areas.clear();
    file.size = TextCoverage::default();
    let empty = text_run(TextReport::ExplainFile { slot_bytes, file });
    assert!(
        headline(&empty).starts_with("new starts have nothing of text"),
        "{}",
        headline(&empty)
    );
}

#[test]
fn text_of_others_is_text_everywhere() {
    let mut hostile = file(HOSTILE, &[CacheSlot::Part]);
    hostile.file_system = HOSTILE.into();
    hostile.outcome = Some(CacheOutcome::Refused { why: HOSTILE.into(), help: HOSTILE.into() });
    let report = CacheReport { verb: CacheAction::Evict, files: vec![hostile], ..cached() };
    let TextReport::ExplainProcess { slot_bytes, mut process } = process() else {
        panic!("a process")
    };
    process.name = HOSTILE.into();
    process.files.iter_mut().for_each(|file| file.path = HOSTILE.into());
    let explained = text_run(TextReport::ExplainProcess { slot_bytes, process });
    let mut copied = folded();
    copied.notes = vec![HOSTILE.into()];
    copied.attributes = vec![HOSTILE.into()];
    for run in [cache_run(report), explained, fold_run(copied)] {
        let text = render(&run, &PLAIN);
        assert_harmless(&text);
        assert!(text.lines().all(|line| cells(line) <= 80), "{text}");
    }
}

#[test]
fn files_of_any_size_have_one_line_of_map() {
    for count in [1, 79, 80, 1000, 100_000] {
        let slots = vec![CacheSlot::Huge; count];
        let report = CacheReport { files: vec![file("x", &slots)], ..cached() };
        let text = render(&cache_run(report), &PLAIN);
        let is_map = |line: &&str| line.trim_start().chars().all(|c| c == 'H') && !line.is_empty();
        assert_eq!(text.lines().filter(is_map).count(), 1, "{text}");
        assert_eq!(file("x", &slots).size_bytes, Bytes::mib(2 * count as u64));
    }
}
