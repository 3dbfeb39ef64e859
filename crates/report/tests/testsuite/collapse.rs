//! Text put on huge pages from outside, and for the whole system, as terminal text: constructed reports against
//! reviewed texts in `tests/golden`, and hostile ones. `UPDATE_GOLDEN` writes the texts again.

use crate::support::code::{
    collapse_run, collapsed, explained, hugetext_system, plain_system, system_run,
};
use crate::support::{HOSTILE, PLAIN, assert_harmless, check};
use pagewise_model::Bytes;
use pagewise_model::run::SavedRun;
use pagewise_model::text_report::TextReport;
use pagewise_model::text_system::HugePageCleaner;
use pagewise_report::escape::cells;
use pagewise_report::{TerminalStyle, headline, render};

#[test]
fn a_process_collapsed() {
    check("text-collapse.txt", &render(&collapse_run(collapsed()), &PLAIN));
    let mut nothing = collapsed();
    nothing.parts.iter_mut().for_each(|part| part.areas.clear());
    assert_eq!(headline(&collapse_run(nothing)), "no code generated in example (1234)");
}

#[test]
fn a_kernel_without_hugetext_and_what_was_done_there() {
    check("text-system-plain.txt", &render(&system_run(plain_system()), &PLAIN));
    let TextReport::ExplainFile { file, .. } = explained() else { panic!("a file") };
    let mut acted = plain_system();
    acted.files = vec![*file];
    acted.processes = vec![collapsed()];
    acted.notes = vec!["library libgone.so.1 was not found".into()];
    acted.after = Some(acted.before);
    let run = system_run(acted);
    check("text-system-acted.txt", &render(&run, &PLAIN));
    assert!(headline(&run).contains("1 file ") && headline(&run).contains("1 process "));
}

#[test]
fn a_kernel_with_hugetext_as_it_is_and_changed() {
    check("text-system-hugetext.txt", &render(&system_run(hugetext_system(false)), &PLAIN));
    let run = system_run(hugetext_system(true));
    check("text-system-changed.txt", &render(&run, &PLAIN));
    assert!(headline(&run).starts_with("hugetext is in mode 3"), "{}", headline(&run));
    let cleaned = |cleaner| {
        let mut system = plain_system();
        (system.cleaned, system.after) = (Some(cleaner), Some(system.before));
        headline(&system_run(system))
    };
    assert_eq!(cleaned(HugePageCleaner::Caches), "the page cache was dropped");
    assert!(cleaned(HugePageCleaner::Split).contains("split"));
}

#[test]
fn saved_forms_come_back() {
    let all =
        [collapse_run(collapsed()), system_run(plain_system()), system_run(hugetext_system(true))];
    for run in all {
        assert_eq!(SavedRun::from_json(run.to_json().as_bytes()).unwrap(), run);
    }
}

#[test]
fn a_narrow_terminal_without_unicode_and_text_of_others() {
    let narrow = TerminalStyle { width: 60, unicode: false, ..PLAIN };
    let mut hostile = collapsed();
    hostile.name = HOSTILE.into();
    for part in &mut hostile.parts {
        part.path = Some(HOSTILE.into());
        part.refused.iter_mut().for_each(|refused| refused.why = HOSTILE.into());
        part.grown_bytes = Bytes(u64::MAX);
    }
    let mut system = hugetext_system(true);
    system.notes = vec![HOSTILE.into()];
    system.processes = vec![hostile.clone()];
    for run in [collapse_run(hostile), system_run(system), system_run(plain_system())] {
        let text = render(&run, &narrow);
        assert_harmless(&text);
        assert!(text.is_ascii() && text.lines().all(|line| cells(line) <= 60), "{text}");
    }
}
