//! Pinning as terminal text, CSV, curves and page: constructed figures against reviewed texts in
//! `tests/golden`, and hostile ones. `UPDATE_GOLDEN` writes the texts again.

use crate::support::forms::Forms;
use crate::support::pin::{bench, pins};
use crate::support::{HOSTILE, PLAIN, assert_harmless, assert_needs_nothing_from_outside};
use pagewise_model::Fact;
use pagewise_model::bench::pin::{PinBenchReport, PinWay};
use pagewise_report::bench::pin::{csv, section, svg};
use pagewise_report::escape::cells;
use pagewise_report::{TerminalStyle, headline, html};
use proptest::prelude::*;

fn forms(pins: PinBenchReport, caption: &str) -> Forms {
    let (section, csv, svg) = (section(&pins, &PLAIN), csv(&pins), svg(&pins, caption).wide);
    Forms { run: bench(pins), section, csv, svg }
}

fn usual() -> Forms {
    forms(pins(), "an example machine")
}

#[test]
fn pinning_as_text() {
    usual().check_text("pin.txt");
    assert_eq!(
        headline(&usual().run),
        "pinning 4 KiB costs 46.0 ns on base pages by vmsplice, 7.50 ns on huge ones"
    );
}

#[test]
fn every_mapping_as_csv() {
    usual().assert_csv();
    let text = usual().csv;
    assert_eq!(text.lines().count(), 1 + 12 * 3 + 1);
    assert!(text.contains("vmsplice,thp,4096,2097152,,0,0,95.000,47.500,0.0100"), "{text}");
}

#[test]
fn the_curves_and_the_page() {
    let picture = usual().svg;
    assert_eq!(picture.matches("<polyline").count(), 4, "{picture}");
    let page = usual().page();
    assert_needs_nothing_from_outside(&page);
    for part in
        ["a third of vmsplice", "next step: run as root", "0.16 (0.15-0.17)", "Do that in 5.0 ns."]
    {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn a_run_that_knows_nothing_says_so() {
    let mut empty = pins();
    empty.points.clear();
    empty.judgement = None;
    forms(empty, "").assert_says_only("pinning: no price could be found on base pages");
}

proptest! {
    #[test]
    fn lines_fit_and_do_no_harm(width in 40usize..100, unicode: bool, ns: f64, way in 0usize..6) {
        let mut pins = pins();
        pins.missing_ways[0].why = HOSTILE.repeat(3);
        pins.unavailable[0].next = HOSTILE.into();
        for point in pins.points.iter_mut().filter(|p| p.way == PinWay::ALL[way]) {
            point.refused = Some(HOSTILE.into());
            point.samples.iter_mut().for_each(|sample| sample.call_ns = ns);
        }
        if let Some(judgement) = &mut pins.judgement {
            judgement.prices[0].page_ns = Fact::missing(HOSTILE);
            judgement.claims[0].why = HOSTILE.into();
        }
        let text = section(&pins, &TerminalStyle { colour: false, width, unicode });
        assert_harmless(&text);
        for line in text.lines() {
            prop_assert!(cells(line) <= width.clamp(40, 160), "{}", line);
        }
        prop_assert_eq!(html(&bench(pins)).matches("<script").count(), 1);
    }
}
