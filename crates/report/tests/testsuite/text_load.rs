//! Throughput under load as terminal text, CSV, curves and page: constructed figures against a reviewed text in
//! `tests/golden`, and hostile ones. `UPDATE_GOLDEN` writes the text again.

use crate::support::{
    HOSTILE, PLAIN, assert_harmless, assert_needs_nothing_from_outside, assert_rows_are_whole,
    bench_of, check, without_own_script,
};
use pagewise_model::bench::text_load::{
    TextLoadFinding, TextLoadJudgement, TextLoadKind, TextLoadPair, TextLoadPoint, TextLoadRatio,
    TextLoadReport, TextLoadWindow,
};
use pagewise_model::body::{BenchReport, RunBody};
use pagewise_model::run::SavedRun;
use pagewise_model::{Bytes, Fact, Nanos};
use pagewise_report::{csv, headline, html, markdown, render, render_whole, svg};

fn ratio(ratio: f64, half: f64) -> TextLoadRatio {
    TextLoadRatio { ratio, interval: Fact::Known((ratio - half, ratio + half)) }
}

fn finding(point: &TextLoadPoint) -> TextLoadFinding {
    TextLoadFinding {
        size: point.size,
        disturbed: point.disturbed,
        off_per_second: f64::from(point.size) * 1000.0,
        on_per_second: f64::from(point.size) * 1060.0,
        rate: ratio(1.06, if point.disturbed { 0.08 } else { 0.02 }),
        cpu: Some(ratio(0.95, 0.01)),
        off_spread: Some(0.04),
        on_spread: Some(0.02),
        spread: Some(ratio(0.5, if point.disturbed { 0.2 } else { 0.6 })),
    }
}

/// Two pairs in each of eight rounds at two sizes, each also disturbed.
pub(crate) fn loaded() -> TextLoadReport {
    let window = |rate: f64| TextLoadWindow { rate_per_second: rate, cpu_ns: 2e9 / rate };
    let pair = |size: u32, at: u32| {
        let (base, turn) = (f64::from(size) * 1000.0, f64::from(at % 2) - 0.5);
        let (off, on) = (base * (1.0 + 0.06 * turn), base * 1.06 * (1.0 + 0.03 * turn));
        TextLoadPair { round: at / 2, off: window(off), on: window(on) }
    };
    let point = |(size, disturbed)| TextLoadPoint {
        size,
        disturbed,
        pairs: (0..16).map(|at| pair(size, at)).collect(),
    };
    let points = [(1, false), (2, false), (1, true), (2, true)].map(point).to_vec();
    let judgement = TextLoadJudgement {
        findings: points.iter().map(finding).collect(),
        overall: Some(ratio(1.06, 0.02)),
        rounds: 8,
        advice: vec!["Do this.".into(), "Do that: --budget 9m.".into()],
    };
    TextLoadReport {
        seed: 1,
        kind: TextLoadKind::Clients,
        program: "/usr/sbin/db".into(),
        cpus: 2,
        at_once: false,
        text_bytes: Bytes::mib(9),
        off_huge_bytes: Bytes(0),
        on_huge_bytes: Bytes::mib(8),
        rounds_ns: Nanos::secs(240),
        points,
        ended_early: None,
        judgement: Some(judgement),
    }
}

pub(crate) fn bench(load: TextLoadReport) -> SavedRun {
    let mut run = bench_of("text", "x-0003");
    run.body = Some(RunBody::Bench(BenchReport::TextLoad(load)));
    run
}

#[test]
fn throughput_as_text() {
    let run = bench(loaded());
    check("text_load.txt", &render_whole(&run, &PLAIN));
    check("text_load_short.txt", &render(&run, &PLAIN));
    assert!(markdown(&run).contains("| 2, disturbed |"), "{}", markdown(&run));
}

#[test]
fn every_pair_as_csv_and_curves() {
    let run = bench(loaded());
    let text = csv(&run);
    assert_rows_are_whole(&text);
    assert_eq!(text.lines().count(), 1 + 4 * 16);
    assert!(text.contains("\n2,true,0,1940.000,2088.200,1030928,957763\n"), "{text}");
    let picture = svg(&run).unwrap();
    assert_eq!(picture.matches("<polyline").count(), 4 + 2, "{picture}");
    assert_needs_nothing_from_outside(&html(&run));
}

#[test]
fn a_word_needs_an_interval() {
    let mut few = loaded();
    let judgement = few.judgement.as_mut().unwrap();
    let open = |ratio: &mut TextLoadRatio| ratio.interval = Fact::missing("fewer than 6 rounds");
    judgement.overall.iter_mut().for_each(open);
    for one in &mut judgement.findings {
        open(&mut one.rate);
        one.spread.iter_mut().for_each(open);
    }
    let run = bench(few);
    let text = render_whole(&run, &PLAIN);
    assert!(!text.contains("faster") && !text.contains("steadier"), "{text}");
    let said = headline(&run);
    assert!(said.starts_with("code on huge pages: no change of throughput is shown"), "{said}");
    let mut none = loaded();
    none.points.iter_mut().for_each(|point| point.pairs.clear());
    none.judgement = None;
    assert_eq!(headline(&bench(none)), "code on huge pages: no pair of loads was measured");
}

#[test]
fn text_of_others_is_text() {
    let mut hostile = TextLoadReport { program: HOSTILE.into(), ..loaded() };
    hostile.judgement.as_mut().unwrap().advice[0] = HOSTILE.into();
    let run = bench(hostile);
    for text in [render_whole(&run, &PLAIN), csv(&run), svg(&run).unwrap(), html(&run)] {
        assert_harmless(&text);
    }
    for text in [svg(&run).unwrap(), html(&run)] {
        assert!(!without_own_script(&text).contains("<script"), "{text}");
    }
}
