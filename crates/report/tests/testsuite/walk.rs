//! Walks as terminal text, CSV, curves and page: constructed ones against reviewed texts in `tests/golden`, and
//! hostile ones. `UPDATE_GOLDEN` writes the texts again.

use crate::support::forms::{Forms, assert_whole};
use crate::support::walk::{bench, point, walks};
use crate::support::{HOSTILE, PLAIN, check};
use pagewise_model::Fact;
use pagewise_model::bench::tlb::{PageKind, TlbBenchReport, TlbPath};
use pagewise_report::SvgPicture;
use pagewise_report::TerminalStyle;
use pagewise_report::bench::tlb::{csv, section, svg};
use proptest::prelude::*;

fn forms(walks: TlbBenchReport, caption: &str) -> Forms {
    let (section, csv, svg) = (section(&walks, &PLAIN), csv(&walks), svg(&walks, caption).wide);
    Forms { run: bench(walks), section, csv, svg }
}

fn usual() -> Forms {
    forms(walks(), "an example machine")
}

#[test]
fn walks_as_text() {
    usual().check_text("walk.txt");
}

#[test]
fn every_mapping_as_csv() {
    usual().check_csv("walk.csv");
}

#[test]
fn the_curves_and_the_page() {
    check("walk.svg", &usual().svg);
    usual().check_page("walk.html");
}

#[test]
fn what_decides_and_what_is_missing_is_reported() {
    usual().assert_tells(&[
        "placement decides",
        "next step: as root",
        "gave huge pages for",
        "refuted",
    ]);
    usual().assert_ends_with_advice();
}

#[test]
fn a_run_that_knows_nothing_says_so() {
    let mut empty = walks();
    empty.points.clear();
    empty.judgement = None;
    forms(empty, "").assert_says_only("loads: no list was walked in random order");
}

fn hostile() -> TlbBenchReport {
    let mut walks = walks();
    walks.bound_by = HOSTILE.into();
    walks.unavailable[0].why = HOSTILE.into();
    walks.unavailable[0].next = HOSTILE.into();
    walks.points[0].refused = Some(HOSTILE.into());
    walks.points[0].samples.clear();
    walks.bandwidth.all.read_gib_per_s = Fact::missing(HOSTILE);
    let judgement = walks.judgement.as_mut().unwrap();
    judgement.claims[0].claim = HOSTILE.into();
    judgement.claims[0].why = HOSTILE.into();
    judgement.advice[0] = HOSTILE.into();
    judgement.huge_translation_share = Fact::missing(HOSTILE);
    walks
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
        let mut any = walks();
        any.points = (10..).zip(&times).map(|(bits, ns)| {
            point(TlbPath::PACKED, PageKind::Base, pagewise_model::Bytes(1 << bits), *ns)
        }).chain(any.points).collect();
        let text = section(&any, &TerminalStyle { width, ..PLAIN });
        let SvgPicture { wide, narrow } = svg(&any, "x");
        for drawn in [wide, narrow] {
            assert_whole(&drawn, &text, width);
        }
    }
}
