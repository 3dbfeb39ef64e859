//! Readings as terminal text, CSV, picture and page: constructed ones against reviewed texts in `tests/golden`,
//! and hostile ones. `UPDATE_GOLDEN` writes the texts again.

use crate::support::file::{bench, point, readings};
use crate::support::forms::{Forms, assert_whole};
use crate::support::{HOSTILE, PLAIN, check};
use pagewise_model::bench::file::{BlockStore, CacheResidency, FileBenchReport, FileCell, ReadWay};
use pagewise_model::bench::tlb::AccessOrder;
use pagewise_model::constructed::cell;
use pagewise_report::SvgPicture;
use pagewise_report::TerminalStyle;
use pagewise_report::bench::file::{csv, section, svg};
use proptest::prelude::*;

fn forms(readings: FileBenchReport, caption: &str) -> Forms {
    let (section, csv, svg) =
        (section(&readings, &PLAIN), csv(&readings), svg(&readings, caption).wide);
    Forms { run: bench(readings), section, csv, svg }
}

fn usual() -> Forms {
    forms(readings(), "an example machine")
}

#[test]
fn readings_as_text() {
    usual().check_text("file.txt");
}

#[test]
fn every_process_as_csv() {
    usual().check_csv("file.csv");
}

#[test]
fn the_picture_and_the_page() {
    check("file.svg", &usual().svg);
    usual().check_page("file.html");
}

#[test]
fn what_was_refused_shows_no_rate() {
    let text = usual().section;
    let row = text.lines().find(|line| line.trim_start().starts_with("mmap-populate")).unwrap();
    assert!(row.ends_with("refused"), "{row}");
    usual().assert_tells(&[
        "64.0 MiB were mapped before",
        "place: 3 of 16384 pages stay",
        "unclocked-populate",
    ]);
    usual().assert_ends_with_advice();
}

#[test]
fn what_was_written_is_named_so() {
    let mut written = readings();
    let ways = [
        (ReadWay::Read, BlockStore::Cached, 10.0),
        (ReadWay::Map, BlockStore::Cached, 20.0),
        (ReadWay::Read, BlockStore::Synced, 90.0),
        (ReadWay::Map, BlockStore::Synced, 80.0),
    ];
    let cells =
        ways.map(|(arm, store, ms)| point(FileCell { store: Some(store), ..cell(arm) }, ms));
    written.points = cells.to_vec();
    written.judgement = None;
    let forms = forms(written, "");
    for way in ["write", "write-fsync", "mmap-write", "mmap-write-msync"] {
        assert!(forms.section.contains(&format!("  {way} ")), "{}", forms.section);
        assert!(forms.csv.contains(&format!("blocks,{way},16384")), "{}", forms.csv);
    }
    assert!(forms.svg.contains("Which way to write a file is fastest?"));
    let brief = pagewise_report::render(&forms.run, &PLAIN);
    let brief = brief.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        brief.starts_with("a cached file, once, in order, in blocks of 16 KiB: write() gives"),
        "{brief}"
    );
}

#[test]
fn a_run_that_knows_nothing_says_so() {
    let mut empty = readings();
    empty.points.clear();
    empty.judgement = None;
    forms(empty, "").assert_says_only("no way to read the file has a figure");
}

#[test]
fn what_is_incomplete_is_said_first_and_the_headline_names_its_cell() {
    let mut busy = readings();
    // The time was up before any cached cell was read in order.
    let is_usual = |cell: &FileCell| {
        (cell.residency, cell.order) == (CacheResidency::Warm, AccessOrder::Sequential)
    };
    for point in busy.points.iter_mut().filter(|point| is_usual(&point.cell)) {
        point.samples.clear();
        point.refused = Some("the time for all cells was up".into());
    }
    busy.judgement = None;
    let text = pagewise_report::render(&bench(busy), &PLAIN);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.starts_with("incomplete ("), "{text}");
    assert!(text.contains("cells have no figure"), "{text}");
    assert!(text.contains("): a cached file, once, at random, in blocks of 16 KiB: "), "{text}");
    assert_eq!(text.matches("have no figure").count(), 1, "{text}");
}

fn hostile() -> FileBenchReport {
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
    forms(hostile(), HOSTILE).assert_text_of_others_is_text();
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
        let more = times.iter().zip(ReadWay::ALL.iter().copied()).map(|(ms, arm)| point(FileCell { block_bytes, ..cell(arm) }, *ms));
        any.points.extend(more);
        let text = section(&any, &TerminalStyle { width, ..PLAIN });
        let SvgPicture { wide, narrow } = svg(&any, "x");
        for drawn in [wide, narrow] {
            assert_whole(&drawn, &text, width);
        }
    }
}
