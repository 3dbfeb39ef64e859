//! Jumps through code as terminal text, CSV, curves and page: constructed ones against a reviewed text in
//! `tests/golden`, and hostile ones. `UPDATE_GOLDEN` writes the text again.

use crate::support::forms::{Forms, assert_whole};
use crate::support::jump::{bench, jumps, point};
use crate::support::{HOSTILE, PLAIN, assert_needs_nothing_from_outside};
use pagewise_model::bench::text::{JumpOrder, TextBenchReport};
use pagewise_model::bench::tlb::PageKind;
use pagewise_model::{Bytes, Fact};
use pagewise_report::SvgPicture;
use pagewise_report::bench::text::{csv, section, svg};
use pagewise_report::{TerminalStyle, headline};
use proptest::prelude::*;

fn forms(jumps: TextBenchReport, caption: &str) -> Forms {
    let (section, csv, svg) = (section(&jumps, &PLAIN), csv(&jumps), svg(&jumps, caption).wide);
    Forms { run: bench(jumps), section, csv, svg }
}

fn usual() -> Forms {
    forms(jumps(), "an example machine")
}

#[test]
fn jumps_as_text() {
    usual().check_text("jump.txt");
    assert_eq!(
        headline(&usual().run),
        "an unpredictable jump takes 7.00 ns in 64 KiB of code and 69.0 ns in 16 MiB of code; \
         huge pages at most 40% less (in 16 MiB)"
    );
}

#[test]
fn every_mapping_as_csv() {
    usual().assert_csv();
    let text = usual().csv;
    assert_eq!(text.lines().count(), 1 + 12 * 3 + 1);
    assert!(text.contains("changing,base,4096,16,65536,4096,,0,0,6.6500,0.0100,3.5000"), "{text}");
}

#[test]
fn the_curves_and_the_page() {
    let picture = usual().svg;
    assert_eq!(picture.matches("<polyline").count(), 5, "{picture}");
    let page = usual().page();
    assert_needs_nothing_from_outside(&page);
    for part in [
        "next step: as root",
        "0.60 (0.58-0.62)",
        "in a thousand instructions",
        "Do that in 5.0 ns.",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn what_decides_and_what_is_missing_is_reported() {
    usual().assert_tells(&["placement decides", "next step: as root", "1 not run", "cannot tell"]);
    usual().assert_ends_with_advice();
    let uncounted =
        TextBenchReport { counter: Fact::missing("no hardware counters here"), ..jumps() };
    forms(uncounted, "").assert_tells(&["are not counted: no hardware counters here"]);
}

#[test]
fn a_run_that_knows_nothing_says_so() {
    let mut empty = jumps();
    empty.points.clear();
    empty.judgement = None;
    forms(empty, "").assert_says_only("jumps: nothing could be measured on base pages");
}

fn hostile() -> TextBenchReport {
    let mut jumps = jumps();
    jumps.bound_by = HOSTILE.into();
    jumps.unavailable[0].why = HOSTILE.into();
    jumps.unavailable[0].next = HOSTILE.into();
    jumps.points[0].refused = Some(HOSTILE.into());
    jumps.points[0].samples.clear();
    jumps.counter = Fact::missing(HOSTILE);
    let judgement = jumps.judgement.as_mut().unwrap();
    judgement.claims[0].claim = HOSTILE.into();
    judgement.claims[0].why = HOSTILE.into();
    judgement.advice[0] = HOSTILE.into();
    jumps
}

#[test]
fn text_of_others_is_text_everywhere() {
    forms(hostile(), HOSTILE).assert_text_of_others_is_text();
}

proptest! {
    #[test]
    fn any_times_give_a_whole_picture_and_lines_within_the_width(
        times in prop::collection::vec(prop_oneof![1e-9..1e9f64, Just(0.0), Just(f64::NAN)], 0..6),
        width in 40usize..90,
    ) {
        let mut any = jumps();
        any.points = (5..).zip(&times).map(|(bits, ns)| {
            point(JumpOrder::Repeated, PageKind::Thp, Bytes::kib(4), 1 << bits, *ns)
        }).chain(any.points).collect();
        let text = section(&any, &TerminalStyle { width, ..PLAIN });
        let SvgPicture { wide, narrow } = svg(&any, "x");
        for drawn in [wide, narrow] {
            assert_whole(&drawn, &text, width);
        }
    }
}
