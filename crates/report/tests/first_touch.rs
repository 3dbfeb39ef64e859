//! First touches as terminal text, CSV, chart and page: constructed ones against reviewed texts in
//! `tests/golden`, written anew with `UPDATE_GOLDEN`; and hostile ones.
#![allow(clippy::unwrap_used, reason = "constructed facts hold what is unwrapped")]

mod support;

use pagewise_model::Fact;
use pagewise_model::first_touch::{FirstTouch, Way};
use pagewise_report::first_touch::{csv, html, section, svg};
use pagewise_report::text::cells;
use pagewise_report::{Style, headline, render};
use proptest::prelude::*;
use support::first_touch::{bench, point, touches};
use support::{
    HOSTILE, PLAIN, assert_harmless, assert_needs_nothing_from_outside, assert_rows_are_whole,
    check,
};

#[test]
fn touches_as_text() {
    let run = bench(touches());
    check("first_touch.txt", &render(&run, &PLAIN));
    assert!(render(&run, &PLAIN).contains(&section(&touches(), &PLAIN)));
}

#[test]
fn every_mapping_as_csv() {
    let text = csv(&touches());
    check("first_touch.csv", &text);
    assert_rows_are_whole(&text);
    assert_eq!(pagewise_report::csv(&bench(touches())), text);
}

#[test]
fn the_chart_and_the_page() {
    check("first_touch.svg", &svg(&touches(), "an example machine"));
    let page = html(&bench(touches()));
    check("first_touch.html", &page);
    assert_needs_nothing_from_outside(&page);
}

#[test]
fn what_is_not_as_it_must_be_and_what_is_missing_is_told() {
    let text = section(&touches(), &PLAIN);
    let parts = [
        "not as expected",
        "not measured: `madvise`",
        "1 way has fewer mappings than asked for",
        "pool-map, pool-memfd",
        "next step: as root",
        "mapped for nothing",
        "refuted",
    ];
    for part in parts {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let end: Vec<&str> = text.lines().rev().take(3).collect();
    assert_eq!(end, ["  - Leave the rest.", "  - Do that.", "  - Do this."]);
}

#[test]
fn a_run_that_knows_nothing_says_so() {
    let mut empty = touches();
    empty.points.clear();
    empty.judgement = None;
    assert_eq!(headline(&bench(empty.clone())), "first touches: nothing was measured on demand");
    assert!(svg(&empty, "").contains("</svg>") && html(&bench(empty)).contains("</html>"));
}

fn hostile() -> FirstTouch {
    let mut touches = touches();
    touches.bound_by = HOSTILE.into();
    touches.unavailable[0].why = HOSTILE.into();
    touches.unavailable[0].next = HOSTILE.into();
    touches.points[0].refused = Some(HOSTILE.into());
    touches.points[0].samples.clear();
    touches.host[0].extra_page_ns = Fact::missing(HOSTILE);
    touches.split = Fact::missing(HOSTILE);
    touches.shared_pool = Fact::missing(HOSTILE);
    let judgement = touches.judgement.as_mut().unwrap();
    judgement.claims[0].claim = HOSTILE.into();
    judgement.claims[0].why = HOSTILE.into();
    judgement.advice[0] = HOSTILE.into();
    touches
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
        times in prop::collection::vec(prop_oneof![1e-9..1e12f64, Just(0.0), Just(f64::NAN)], 0..6),
        width in 40usize..90,
    ) {
        let mut any = touches();
        any.points.extend(times.iter().map(|ns| point(Way::PopulateWrite, *ns, *ns, 0)));
        let picture = svg(&any, "x");
        prop_assert!(!picture.contains("NaN") && !picture.contains("inf\""));
        let style = Style { width, ..PLAIN };
        let text = section(&any, &style);
        prop_assert!(text.lines().all(|l| cells(l) <= width.min(80)), "{text}");
    }
}
