//! Readings as terminal text, CSV, picture and page: constructed ones against reviewed texts in
//! `tests/golden`, written anew with `UPDATE_GOLDEN`; and hostile ones.
#![allow(clippy::unwrap_used, reason = "constructed facts hold what is unwrapped")]

mod support;

use pagewise_model::constructed::cell;
use pagewise_model::file::{Arm, Cell, Readings};
use pagewise_report::file::{csv, html, section, svg};
use pagewise_report::text::cells;
use pagewise_report::{Style, headline, render};
use proptest::prelude::*;
use support::file::{bench, point, readings};
use support::{
    HOSTILE, PLAIN, assert_harmless, assert_needs_nothing_from_outside, assert_rows_are_whole,
    check,
};

#[test]
fn readings_as_text() {
    let run = bench(readings());
    check("file.txt", &render(&run, &PLAIN));
    assert!(render(&run, &PLAIN).contains(&section(&readings(), &PLAIN)));
}

#[test]
fn every_process_as_csv() {
    let text = csv(&readings());
    check("file.csv", &text);
    assert_rows_are_whole(&text);
    assert_eq!(pagewise_report::csv(&bench(readings())), text);
}

#[test]
fn the_picture_and_the_page() {
    check("file.svg", &svg(&readings(), "an example machine"));
    let page = html(&bench(readings()));
    check("file.html", &page);
    assert_needs_nothing_from_outside(&page);
}

#[test]
fn what_was_refused_shows_no_rate() {
    let text = section(&readings(), &PLAIN);
    let row = text.lines().find(|line| line.trim_start().starts_with("mmap-populate")).unwrap();
    assert!(row.ends_with("refused"), "{row}");
    for part in
        ["64.0 MiB were mapped before", "place: 3 of 16384 pages stay", "unclocked-populate"]
    {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let end: Vec<&str> = text.lines().rev().take(3).collect();
    assert_eq!(end, ["  - Leave the rest.", "  - Do that.", "  - Do this."]);
}

#[test]
fn a_run_that_knows_nothing_says_so() {
    let mut empty = readings();
    empty.points.clear();
    empty.judgement = None;
    assert_eq!(headline(&bench(empty.clone())), "files: no cached file was read in order");
    assert!(svg(&empty, "").contains("</svg>") && html(&bench(empty)).contains("</html>"));
}

fn hostile() -> Readings {
    let mut readings = readings();
    readings.source.path = Some(HOSTILE.into());
    readings.points[0].refused = Some(HOSTILE.into());
    readings.points[0].samples.clear();
    let judgement = readings.judgement.as_mut().unwrap();
    judgement.refusals[0].why = HOSTILE.into();
    judgement.advice[0] = HOSTILE.into();
    readings
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
        times in prop::collection::vec(prop_oneof![1e-9..1e9f64, Just(0.0)], 0..6),
        block in 1_u64..1 << 30,
        width in 40usize..90,
    ) {
        let mut any = readings();
        let block_bytes = pagewise_model::Bytes(block);
        let more = times.iter().zip(Arm::ALL).map(|(ms, arm)| point(Cell { block_bytes, ..cell(arm) }, *ms));
        any.points.extend(more);
        let picture = svg(&any, "x");
        prop_assert!(!picture.contains("NaN") && !picture.contains("inf\""));
        let style = Style { width, ..PLAIN };
        let text = section(&any, &style);
        prop_assert!(text.lines().all(|l| cells(l) <= width.min(80)), "{text}");
    }
}
