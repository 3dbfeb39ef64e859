//! The remedy `heap-mthp` against the kernel's own count of folios. They are handed out while the program runs.
//! Afterwards the machine's switches are as they were.

use crate::helper::{Place, compile, said};
use pagewise_kernel::{page_size, thp};
use pagewise_model::machine::SmallFolios;

/// The setting in use for small folios and for the largest ones.
fn words() -> Option<[String; 2]> {
    let word = |size| thp::word(thp::root(), size).ok();
    Some([word(SmallFolios::SIZE)?, word(page_size::huge())?])
}

#[test]
fn a_heap_has_small_folios_for_the_time_of_the_run() {
    const TEST: &str = "a_heap_has_small_folios_for_the_time_of_the_run";
    let place = Place::new();
    let program = place.path().join("mallocs");
    let Some(before) = words() else {
        return println!("SKIP {TEST}: this kernel has no small folios");
    };
    if !rustix::process::geteuid().is_root() || thp::enabled().ok().as_deref() != Some("madvise") {
        return println!(
            "SKIP {TEST}: only root can set the switches, where heaps are asked for by advice"
        );
    }
    if !compile("mallocs.c", &["-O1", "-pthread"], &program) {
        return println!("SKIP {TEST}: no C compiler");
    }
    let shown = "cat /sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled; exec \"$@\"";
    let words_of = |with: &[&str]| {
        let mut run = place.pagewise(&["run"]);
        run.args(with).args(["--", "sh", "-c", shown, "sh"]).arg(&program).args(["grow", "64"]);
        let faults = || thp::folio_faults(SmallFolios::SIZE).unwrap();
        let counted = faults();
        let done = run.output().unwrap();
        assert_eq!(done.status.code(), Some(0), "{}", said(&done.stderr));
        (said(&done.stdout), said(&done.stderr), faults() - counted)
    };
    let with = ["--system", "--with", "heap-mthp"];
    let (shown, reported, first) = words_of(&with);
    if reported.contains("started without it") {
        return println!("SKIP {TEST}: {reported}");
    }
    assert!(shown.contains("[madvise]"), "{shown}{reported}");
    // 64 MiB of small blocks are 1024 folios; glibc 2.36 applies its tunable in most starts, not in all.
    let enough = |folios: &u64| *folios >= 512;
    let found = std::iter::once(first).chain((0..5).map(|_| words_of(&with).2)).find(enough);
    assert!(found.is_some(), "no start has had the folios");
    assert_eq!(words(), Some(before), "the switches are as they were");
}

#[test]
fn without_the_right_to_set_them_the_words_that_are_there_are_named() {
    const TEST: &str = "without_the_right_to_set_them_the_words_that_are_there_are_named";
    let place = Place::new();
    let Some([small, largest]) = words() else {
        return println!("SKIP {TEST}: this kernel has no small folios");
    };
    if [small.as_str(), &largest] == ["madvise", "never"] {
        return println!("SKIP {TEST}: the switches are set already");
    }
    let done = place
        .pagewise(&["run", "--with", "heap-mthp", "--", "sh", "-c", "exit 7"])
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(7));
    let reported = said(&done.stderr);
    assert!(
        reported.contains(&format!("to `{small}`")) && reported.contains("--system"),
        "{reported}"
    );
    assert_eq!(reported.lines().count(), 1, "{reported}");
}
