//! Ladders as terminal text, CSV, chart and page: constructed ones against reviewed texts in `tests/golden`,
//! and hostile ones. `UPDATE_GOLDEN` writes the texts again.

use crate::support::forms::Forms;
use crate::support::ladder::{bench, ladder, mechanism, point, rung, sweep};
use crate::support::{HOSTILE, PLAIN, check};
use pagewise_model::Fact;
use pagewise_model::bench::pipe::{
    PipeBenchReport, PipeConsumption, PipePoint, PipeRatio, PipeRung, PointSpeed, RungReader,
    RungSwitch, RungWriter,
};
use pagewise_report::bench::pipe::{csv, section, svg};
use pagewise_report::escape::cells;
use pagewise_report::{TerminalStyle, render, render_whole};
use proptest::prelude::*;

fn forms(ladder: PipeBenchReport, caption: &str) -> Forms {
    let (section, csv, svg) = (section(&ladder, &PLAIN), csv(&ladder), svg(&ladder, caption).wide);
    Forms { run: bench(ladder), section, csv, svg }
}

fn usual() -> Forms {
    forms(ladder(), "an example machine")
}

#[test]
fn the_ladder_as_text() {
    check("ladder.txt", &section(&ladder(), &PLAIN));
    assert!(render_whole(&bench(ladder()), &PLAIN).contains(&section(&ladder(), &PLAIN)));
}

#[test]
fn a_sweep_as_text() {
    let text = section(&sweep(), &PLAIN);
    assert!(text.contains("pipe 256 KiB is as good") && text.contains("the sweep: "), "{text}");
}

#[test]
fn how_a_pipe_works_as_text() {
    check("brief-mechanism.txt", &render(&bench(mechanism()), &PLAIN));
    let whole = render_whole(&bench(mechanism()), &PLAIN);
    assert!(whole.contains("##.............#"), "{whole}");
    let mut odd = mechanism();
    let shown = odd.mechanism.as_mut().unwrap();
    (shown.slots, shown.fill[0].tail) = (0, u64::MAX);
    assert!(section(&odd, &PLAIN).contains("Batches"));
}

#[test]
fn every_repeat_as_csv() {
    usual().check_csv("ladder.csv");
}

#[test]
fn a_comparison_shows_every_switch_and_the_ratio_with_its_interval() {
    let mut pair = ladder();
    pair.compared = Some(RungSwitch::Untouched);
    let mut busy = pair.points.swap_remove(3);
    let mut switched = pair.points.swap_remove(0);
    (busy.rung.check_huge, busy.rung.lock, busy.rung.gift) = (true, true, true);
    switched.rung = PipeRung { untouched: true, ..busy.rung.clone() };
    pair.points = vec![busy, switched];
    let judgement = pair.judgement.as_mut().unwrap();
    judgement.steps[0].to = 1;
    judgement.steps[0].comparison =
        PipeRatio { ratio: 0.83, interval: Fact::Known((0.80, 0.86)), pace: PointSpeed::Slower };
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (whole, brief) =
        (words(section(&pair, &PLAIN)), words(render(&bench(pair.clone()), &PLAIN)));
    let switches = "gift, locked, not touched before, one buffer, huge pages checked";
    assert!(whole.contains(switches), "{whole}");
    assert!(
        brief.contains("pipes with --untouched: faster in 0, slower in 1 of 1 pair"),
        "{brief}"
    );
    for text in [&whole, &brief] {
        assert!(text.contains("with --untouched and without, GiB/s; ratio"), "{text}");
        assert!(text.contains("by reference 60.0 1.00 0.83 (0.80-0.86) slower"), "{text}");
    }
    let csv = csv(&pair);
    let ratios = |line: usize| -> Vec<&str> {
        csv.lines().nth(line).unwrap().split(',').skip(17).take(3).collect()
    };
    assert_eq!(ratios(0), ["rate_ratio", "rate_ratio_low", "rate_ratio_high"]);
    assert_eq!((ratios(1), ratios(4)), (vec![""; 3], vec!["0.8300", "0.8000", "0.8600"]));
    assert!(csv.lines().nth(4).unwrap().contains(",true,true,true,true,true,"), "{csv}");
}

#[test]
fn the_charts() {
    check("ladder.svg", &usual().svg);
    check("sweep.svg", &svg(&sweep(), "an example machine").wide);
}

#[test]
fn the_page() {
    usual().check_page("ladder.html");
}

#[test]
fn what_nobody_looked_at_is_headed_by_reference() {
    let text = section(&ladder(), &PLAIN);
    assert_eq!(text.matches("    by reference").count(), 2, "{text}");
    assert!(svg(&ladder(), "").wide.contains(">by reference</text>"));
    assert!(csv(&ladder()).contains(",by reference,"));
}

#[test]
fn figures_that_cannot_be_and_wrong_bytes_are_reported() {
    let mut wrong = ladder();
    assert!(section(&wrong, &PLAIN).contains("implausible"), "25 touched against 20 of memory");
    wrong.points[1].verified = Fact::Known(false);
    assert!(section(&wrong, &PLAIN).contains("did not receive the bytes that were sent"));
    let page = forms(wrong, "").page();
    assert!(page.contains("implausible") && page.contains("wrong bytes"));
}

fn hostile() -> PipeBenchReport {
    let mut ladder = ladder();
    ladder.points[0].rung.name = HOSTILE.into();
    ladder.points[1].rung.name = HOSTILE.into();
    ladder.points[2].refused = Some(HOSTILE.into());
    ladder.points[3].page_bytes = Fact::missing(HOSTILE);
    ladder.yardsticks.memcpy_gib_per_s = Fact::missing(HOSTILE);
    ladder.claims[0].claim = HOSTILE.into();
    ladder.claims[0].why = HOSTILE.into();
    let judgement = ladder.judgement.as_mut().unwrap();
    judgement.accounts[1].disagreements = vec![HOSTILE.into()];
    judgement.accounts[1].parts[0].evidence = HOSTILE.into();
    judgement.accounts[1].published[0].function = HOSTILE.into();
    if let Fact::Known(samples) = &mut judgement.accounts[1].samples {
        samples.stacks[0].symbols = vec![HOSTILE.into(); 1000];
    }
    judgement.accounts[0].samples = Fact::missing(HOSTILE);
    ladder
}

#[test]
fn text_of_others_is_text_everywhere() {
    let mut forms = forms(hostile(), HOSTILE);
    forms.run.warnings = vec![HOSTILE.into()];
    forms.run.pagewise = HOSTILE.into();
    forms.assert_text_of_others_is_text();
    for text in [&forms.svg, &forms.page()] {
        assert!(text.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    }
}

#[test]
fn points_that_are_not_there_are_no_panic() {
    let mut cut = ladder();
    cut.points.truncate(1);
    assert!(section(&cut, &PLAIN).contains("by reference"));
    assert!(forms(cut, "").page().contains("not known"));
}

/// Every opened element is closed in order.
fn assert_well_formed(svg: &str) {
    let mut open: Vec<&str> = Vec::new();
    for tag in svg.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').unwrap();
        let name = tag.split([' ', '\n']).next().unwrap();
        if let Some(closed) = name.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed), "{svg}");
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

proptest! {
    #[test]
    fn any_rates_give_a_whole_picture_and_lines_within_the_width(
        rates in prop::collection::vec(prop_oneof![1e-9..1e9f64, Just(0.0), Just(f64::NAN)], 0..6),
        name in "\\PC{0,30}",
        width in 40usize..90,
    ) {
        let rungs = rates.iter().map(|rate| {
            let rung = rung(&name, RungWriter::Write, RungReader::Read);
            point(&rung, PipeConsumption::Untouched, *rate)
        });
        let mut any = ladder();
        any.points = rungs.collect::<Vec<PipePoint>>();
        any.judgement = None;
        let picture = svg(&any, &name).wide;
        prop_assert!(!picture.contains("NaN") && !picture.contains("inf"));
        assert_well_formed(&picture);
        any.sweep = true;
        assert_well_formed(&svg(&any, &name).narrow);
        let style = TerminalStyle { width, ..PLAIN };
        let text = section(&any, &style);
        prop_assert!(text.lines().all(|l| cells(l) <= width.min(160)), "{text}");
    }
}
