//! Walks as terminal text, CSV, curves and page: constructed ones against reviewed texts in
//! `tests/golden`, written anew with `UPDATE_GOLDEN`; and hostile ones.
#![allow(clippy::unwrap_used, reason = "constructed facts hold what is unwrapped")]

mod support;

use pagewise_model::Fact;
use pagewise_model::walk::{PageKind, Path, Walks};
use pagewise_report::text::cells;
use pagewise_report::walk::{csv, html, section, svg};
use pagewise_report::{Style, headline, render};
use proptest::prelude::*;
use support::walk::{bench, point, walks};
use support::{
    HOSTILE, PLAIN, assert_harmless, assert_needs_nothing_from_outside, assert_rows_are_whole,
    check,
};

#[test]
fn walks_as_text() {
    let run = bench(walks());
    check("walk.txt", &render(&run, &PLAIN));
    assert!(render(&run, &PLAIN).contains(&section(&walks(), &PLAIN)));
}

#[test]
fn every_mapping_as_csv() {
    let text = csv(&walks());
    check("walk.csv", &text);
    assert_rows_are_whole(&text);
    assert_eq!(pagewise_report::csv(&bench(walks())), text);
}

#[test]
fn the_curves_and_the_page() {
    check("walk.svg", &svg(&walks(), "an example machine"));
    let page = html(&bench(walks()));
    check("walk.html", &page);
    assert_needs_nothing_from_outside(&page);
}

#[test]
fn what_decides_and_what_is_missing_is_told() {
    let text = section(&walks(), &PLAIN);
    for part in
        ["placement decides", "next step: as root", "gave huge pages for 2.0 MiB", "refuted"]
    {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let end: Vec<&str> = text.lines().rev().take(3).collect();
    assert_eq!(end, ["  - Leave the rest.", "  - Do that.", "  - Do this."]);
}

#[test]
fn a_run_that_knows_nothing_says_so() {
    let mut empty = walks();
    empty.points.clear();
    empty.judgement = None;
    assert_eq!(headline(&bench(empty.clone())), "loads: no list was walked in random order");
    assert!(svg(&empty, "").contains("</svg>") && html(&bench(empty)).contains("</html>"));
}

fn hostile() -> Walks {
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
    let mut run = bench(hostile());
    run.command = vec![HOSTILE.into()];
    for text in [section(&hostile(), &PLAIN), csv(&hostile()), svg(&hostile(), HOSTILE), html(&run)]
    {
        assert_harmless(&text);
    }
    for text in [svg(&hostile(), HOSTILE), html(&run)] {
        assert!(!text.contains("<script") && !text.contains("\" onload"), "{text}");
    }
}

proptest! {
    #[test]
    fn any_times_give_a_whole_picture_and_lines_within_the_width(
        times in prop::collection::vec(prop_oneof![1e-9..1e9f64, Just(0.0), Just(f64::NAN)], 0..6),
        width in 40usize..90,
    ) {
        let mut any = walks();
        any.points = (10..).zip(&times).map(|(bits, ns)| {
            point(Path::PACKED, PageKind::Base, pagewise_model::Bytes(1 << bits), *ns)
        }).chain(any.points).collect();
        let picture = svg(&any, "x");
        prop_assert!(!picture.contains("NaN") && !picture.contains("inf\""));
        let style = Style { width, ..PLAIN };
        let text = section(&any, &style);
        prop_assert!(text.lines().all(|l| cells(l) <= width.min(80)), "{text}");
    }
}
