//! Text from other sources never reaches a terminal raw, and no line exceeds its width, whatever a saved run
//! contains.

use crate::support::{
    assert_harmless, candidate, compare_two, cost, doctor, effect, experiment, proven, run, verdict,
};
use pagewise_model::diagnosis::{CostBasis, CostKind};
use pagewise_model::run::{RunKind, SavedRun, SessionOutcome};
use pagewise_model::trial::VerdictWord;
use pagewise_model::{Bytes, Fact, Nanos};
use pagewise_report::escape::{cells, is_hostile};
use pagewise_report::{TerminalStyle, html, markdown, render, render_whole};
use proptest::prelude::*;

const HOSTILE: &str = "x\x1b]0;owned\x07\u{9b}2J\u{202e}cod\u{2066}\r\n\t\u{200b}| `<b>` @all";

fn hostile_run() -> SavedRun {
    let mut run = proven();
    run.command = vec![HOSTILE.into(), "\x1b[1m".into()];
    run.id = HOSTILE.into();
    run.warnings = vec![HOSTILE.into()];
    run.environment = vec![("GLIBC_TUNABLES".into(), HOSTILE.into())];
    run.candidates.push(candidate(HOSTILE, HOSTILE, false));
    if let Some(receipt) = &mut run.receipt {
        receipt.command = HOSTILE.replace('\n', "");
        receipt.systemd = vec![HOSTILE.replace('\n', "")];
        receipt.undo = HOSTILE.into();
    }
    if let Some(machine) = &mut run.machine {
        machine.cpu_model = HOSTILE.into();
    }
    if let Some(diagnosis) = &mut run.diagnosis {
        diagnosis.costs.push(cost(CostKind::Wakeups, 0.1, CostBasis::UpperBound, HOSTILE));
        diagnosis.disagreements.push(HOSTILE.into());
        if let Fact::Known(time) = &mut diagnosis.kernel_time {
            time.symbol_share.insert(0, (HOSTILE.into(), 0.5));
        }
    }
    run.experiment.as_mut().unwrap().verdicts.push(verdict(
        HOSTILE,
        VerdictWord::Reject,
        HOSTILE,
        None,
    ));
    run
}

#[test]
fn nothing_raw_in_any_report() {
    for unicode in [true, false] {
        let style = TerminalStyle { colour: false, width: 80, unicode };
        let text = render(&hostile_run(), &style) + &render_whole(&hostile_run(), &style);
        assert_harmless(&text);
        assert!(text.contains("do not copy it"), "{text}");
        assert_harmless(&compare_two(&hostile_run(), &proven(), None).text(&style));
    }
    let page = html(&hostile_run());
    assert_harmless(&page);
    assert!(page.contains("&lt;b&gt;") && !page.contains("`<b>`"), "{page}");
    assert!(page.contains("heap-huge") && page.contains("</html>"), "{page}");
    let text = markdown(&hostile_run());
    assert_harmless(&text);
    assert!(text.contains("&#64;all") && text.contains("&lt;b&gt;"), "{text}");
    assert!(!text.lines().any(|l| l.starts_with('|') && l.contains("@all")), "{text}");
}

#[test]
fn no_cell_of_a_table_for_spreadsheets_is_a_formula() {
    for text in ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", " =1", "a;=1", "\"=1"] {
        let mut run = proven();
        let experiment = run.experiment.as_mut().unwrap();
        for block in &mut experiment.blocks {
            block.dropped = Some(text.into());
            block.points.iter_mut().for_each(|point| point.arm = text.into());
        }
        let table = pagewise_report::csv(&run);
        assert!(table.lines().count() > 2, "{table}");
        let begins = table.split([',', ';', '\n']).map(|cell| cell.trim_start_matches([' ', '"']));
        for cell in begins {
            let is_formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']);
            assert!(!is_formula, "{text:?}: {cell:?}");
        }
    }
}

#[test]
fn colour_changes_nothing_but_colour() {
    for run in [proven(), doctor(), hostile_run()] {
        let plain = render(&run, &TerminalStyle { colour: false, ..TerminalStyle::default() });
        let colour = render(&run, &TerminalStyle { colour: true, ..TerminalStyle::default() });
        assert_ne!(plain, colour);
        let mut stripped = String::new();
        let mut parts = colour.split('\x1b');
        stripped.push_str(parts.next().unwrap());
        for part in parts {
            stripped.push_str(part.split_once('m').unwrap().1);
        }
        assert_eq!(stripped, plain);
    }
}

#[test]
fn missing_is_never_zero() {
    let mut empty = run(RunKind::Tune, None);
    empty.look = Some(crate::support::look());
    empty.look.as_mut().unwrap().runs.clear();
    empty.experiment = Some(experiment(vec![]));
    empty.experiment.as_mut().unwrap().blocks.clear();
    let text = render_whole(&empty, &TerminalStyle::default());
    for want in [
        "unfinished",
        "no plain run",
        "not traced: ptrace is not permitted",
        "none: perf_event_paranoid is 2",
        "no arm has a verdict",
    ] {
        assert!(text.contains(want), "no {want:?} in\n{text}");
    }
}

fn any_share() -> impl Strategy<Value = f64> {
    prop_oneof![any::<f64>(), 0.0..3.0f64, Just(0.0)]
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "[a-z ]{0,200}", "[a-z]{90,120}", Just(HOSTILE.to_owned())]
}

prop_compose! {
    fn any_run()(
        texts in prop::collection::vec(any_text(), 8),
        shares in prop::collection::vec(any_share(), 8),
        n in any::<u64>(),
        change in any::<i64>(),
        kind in prop_oneof![Just(RunKind::Tune), Just(RunKind::Ab), Just(RunKind::Profile)],
        outcome in prop_oneof![
            Just(None),
            Just(Some(SessionOutcome::NothingKept)),
            Just(Some(SessionOutcome::AdviceOnly)),
            Just(Some(SessionOutcome::Interrupted)),
            any_text().prop_map(|why| Some(SessionOutcome::CannotTell { why })),
            any_text().prop_map(|arm| Some(SessionOutcome::Proven { keep: vec![arm] })),
            any_text().prop_map(|arm| Some(SessionOutcome::Likely { arms: vec![arm] })),
            any_share().prop_map(|above_share| Some(SessionOutcome::NoGain { above_share })),
        ],
    ) -> SavedRun {
        let mut run = proven();
        run.kind = kind;
        run.outcome = outcome;
        run.receipt = None;
        run.command = texts[..2].to_vec();
        run.id.clone_from(&texts[2]);
        run.candidates.push(candidate(&texts[3], &texts[4], n % 2 == 0));
        let mut cost = cost(CostKind::AddressTranslation, shares[0], CostBasis::UpperBound, &texts[5]);
        cost.cost_ns = Nanos(n);
        cost.sampled_ns = Fact::Known(Nanos(n / 3));
        let diagnosis = run.diagnosis.as_mut().unwrap();
        diagnosis.costs.push(cost);
        diagnosis.ceiling_share = shares[1];
        diagnosis.host_share = Fact::Known(shares[2]);
        let usage = &mut run.look.as_mut().unwrap().runs[0];
        (usage.wall_ns, usage.minor_faults, usage.peak_rss_bytes) = (Nanos(0), n, Bytes(n));
        let effect = effect(shares[3], shares[4], shares[5]);
        let mut verdict = verdict(&texts[6], VerdictWord::CannotTell, &texts[7], Some(effect));
        verdict.cpu_ratio = Some(shares[6]);
        verdict.peak_rss_change_bytes = Some(change);
        run.experiment.as_mut().unwrap().verdicts.push(verdict);
        run
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn no_line_is_too_wide(run in any_run(), width in 0usize..120, unicode in any::<bool>()) {
        let style = TerminalStyle { colour: false, width, unicode };
        let text = render(&run, &style)
            + &render_whole(&run, &style)
            + &compare_two(&run, &proven(), None).text(&style);
        let limit = width.clamp(40, 160);
        for line in text.lines() {
            prop_assert!(cells(line) <= limit, "{} cells: {line}", cells(line));
            prop_assert!(!line.chars().any(is_hostile), "{line:?}");
            prop_assert!(!line.contains("NaN"), "{line}");
        }
    }
}
