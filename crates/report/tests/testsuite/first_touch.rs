//! First touches as terminal text, CSV, chart and page: constructed ones against reviewed texts in
//! `tests/golden`, and hostile ones. `UPDATE_GOLDEN` writes the texts again.

use crate::support::first_touch::{bench, point, touches};
use crate::support::forms::{Forms, assert_whole};
use crate::support::{HOSTILE, PLAIN, check};
use pagewise_model::Fact;
use pagewise_model::bench::memory::{MemoryBenchReport, MemoryBenchWay};
use pagewise_report::SvgPicture;
use pagewise_report::TerminalStyle;
use pagewise_report::bench::memory::{csv, section, svg};
use proptest::prelude::*;

fn forms(touches: MemoryBenchReport, caption: &str) -> Forms {
    let (section, csv, svg) =
        (section(&touches, &PLAIN), csv(&touches), svg(&touches, caption).wide);
    Forms { run: bench(touches), section, csv, svg }
}

fn usual() -> Forms {
    forms(touches(), "an example machine")
}

#[test]
fn touches_as_text() {
    usual().check_text("first_touch.txt");
}

#[test]
fn every_mapping_as_csv() {
    usual().check_csv("first_touch.csv");
}

#[test]
fn the_chart_and_the_page() {
    check("first_touch.svg", &usual().svg);
    usual().check_page("first_touch.html");
}

#[test]
fn what_is_not_as_it_must_be_and_what_is_missing_is_reported() {
    usual().assert_tells(&[
        "not as expected",
        "not measured: `madvise`",
        "1 way has fewer mappings than requested",
        "pool-map, pool-memfd",
        "next step: as root",
        "mapped in vain",
        "refuted",
    ]);
    usual().assert_ends_with_advice();
}

#[test]
fn a_run_that_knows_nothing_says_so() {
    let mut empty = touches();
    empty.points.clear();
    empty.judgement = None;
    forms(empty, "").assert_says_only("first touches: nothing was measured on demand");
}

fn hostile() -> MemoryBenchReport {
    let mut touches = touches();
    touches.bound_by = HOSTILE.into();
    touches.unavailable[0].why = HOSTILE.into();
    touches.unavailable[0].next = HOSTILE.into();
    touches.points[0].refused = Some(HOSTILE.into());
    touches.points[0].samples.clear();
    touches.host[0].extra_page_ns = Fact::missing(HOSTILE);
    touches.split = Fact::missing(HOSTILE);
    touches.shared_pool = Fact::missing(HOSTILE);
    touches.pressure = Fact::missing(HOSTILE);
    let judgement = touches.judgement.as_mut().unwrap();
    judgement.claims[0].claim = HOSTILE.into();
    judgement.claims[0].why = HOSTILE.into();
    judgement.advice[0] = HOSTILE.into();
    touches
}

#[test]
fn text_of_others_is_text_everywhere() {
    forms(hostile(), HOSTILE).assert_text_of_others_is_text();
}

proptest! {
    #[test]
    fn any_times_give_a_whole_picture_and_lines_within_the_width(
        times in prop::collection::vec(prop_oneof![1e-9..1e12f64, Just(0.0), Just(f64::NAN)], 0..6),
        width in 40usize..90,
    ) {
        let mut any = touches();
        any.points.extend(times.iter().map(|ns| point(MemoryBenchWay::PopulateWrite, *ns, *ns, 0)));
        let text = section(&any, &TerminalStyle { width, ..PLAIN });
        let SvgPicture { wide, narrow } = svg(&any, "x");
        for drawn in [wide, narrow] {
            assert_whole(&drawn, &text, width);
        }
    }
}
