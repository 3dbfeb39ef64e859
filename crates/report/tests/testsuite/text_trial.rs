//! The two arms of a program with its code on base pages and on huge ones, as report text.

use crate::support::{HOSTILE, PLAIN, assert_harmless, bench_of, check, proven, read_report};
use pagewise_model::body::RunBody;
use pagewise_model::code_tlb::{CodeMissCounts, CodeMissEstimate, CodeTlb, CountedEvent, MissRate};
use pagewise_model::look::WalkCounts;
use pagewise_model::run::{SavedRun, SessionOutcome};
use pagewise_model::text_trial::{FileInArms, LeftFile, ON, TextTrial};
use pagewise_model::{Bytes, Fact};
use pagewise_report::{headline, render_whole, text_trial_section};

fn trial() -> TextTrial {
    TextTrial {
        pairs: 24,
        files: vec![FileInArms {
            path: "/usr/bin/node".into(),
            text_bytes: Bytes::mib(30),
            off_huge_bytes: Bytes(0),
            on_huge_bytes: Bytes::mib(24),
        }],
        left: vec![LeftFile { path: "/lib/libm.so".into(), why: "its text is small".into() }],
        off_walks: Fact::missing("no counters here"),
        on_walks: Fact::missing("no counters here"),
        off_misses: Fact::missing("no counters here"),
        on_misses: Fact::missing("no counters here"),
        estimate: Fact::Known(CodeMissEstimate {
            tlb: CodeTlb { base_entries: 64, huge_entries: 64, is_assumed: false },
            bursts: 40,
            instructions: 400_000,
            base: MissRate { per_1000: 0.87, low: 0.61, high: 1.24 },
            huge_bytes: Bytes::mib(2),
            huge: MissRate { per_1000: 0.0, low: 0.0, high: 0.01 },
        }),
    }
}

/// A run whose first arm has the name of a trial's arm.
fn run() -> SavedRun {
    let mut run = bench_of("text", "x-0002");
    let mut experiment = proven().experiment.unwrap();
    experiment.verdicts.truncate(1);
    experiment.verdicts[0].arm = ON.into();
    for point in experiment.blocks.iter_mut().flat_map(|block| &mut block.points) {
        point.idle_mechanisms = vec![(ON.into(), 0)];
    }
    run.experiment = Some(experiment);
    run.body = Some(RunBody::TextTrial(trial()));
    run.outcome = Some(SessionOutcome::Proven { keep: vec![ON.into()] });
    run
}

#[test]
fn each_file_is_shown_in_both_arms() {
    check("brief-text.txt", &read_report(&run(), &PLAIN));
    let text = render_whole(&run(), &PLAIN);
    for part in ["30.0 MiB", "0 B", "24.0 MiB", "80%", "unchanged: /lib/libm.so", "not counted"] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert!(headline(&run()).starts_with("on: "), "{}", headline(&run()));
    assert!(headline(&run()).ends_with(", faster"), "{}", headline(&run()));
}

#[test]
fn walks_for_code_are_reported_where_they_are_counted() {
    let counts = |code_walk_cycles| {
        Fact::Known(WalkCounts { cycles: 1000, data_walk_cycles: 0, code_walk_cycles })
    };
    let counted = TextTrial { off_walks: counts(52), on_walks: counts(4), ..trial() };
    let text = text_trial_section(&counted, None).text(&PLAIN);
    assert!(text.contains("5.2% off, 0.4% on"), "{text}");
}

#[test]
fn misses_stand_before_and_after() {
    let counts = |count| {
        let events = vec![CountedEvent { name: "iTLB-load-misses".into(), count }];
        Fact::Known(CodeMissCounts { instructions: 1_000_000, events })
    };
    let counted = TextTrial { off_misses: counts(870), on_misses: counts(10), ..trial() };
    let text = text_trial_section(&counted, None).text(&PLAIN).replace("\n  ", " ");
    for part in [
        "0.87 (0.61..1.24) misses in 1000 instructions on base pages",
        "0.00 (0.00..0.01) with all code on 2.0 MiB pages",
        "0.87 iTLB-load-misses in 1000 instructions off, 0.01 iTLB-load-misses",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let missing = TextTrial { estimate: Fact::missing("too short"), ..trial() };
    let text =
        pagewise_report::markdown(&SavedRun { body: Some(RunBody::TextTrial(missing)), ..run() });
    assert!(text.contains("not estimated from single steps: too short"), "{text}");
}

#[test]
fn a_run_with_nothing_to_try_says_why() {
    let mut run = bench_of("text", "x-0003");
    run.outcome = Some(SessionOutcome::NothingToGain { why: "no file is large".into() });
    assert_eq!(headline(&run), "nothing to gain here: no file is large");
}

#[test]
fn text_of_others_is_text() {
    let mut trial = trial();
    trial.files[0].path = HOSTILE.into();
    trial.left[0].why = HOSTILE.into();
    trial.off_walks = Fact::missing(HOSTILE);
    trial.off_misses = Fact::missing(HOSTILE);
    trial.estimate = Fact::missing(HOSTILE);
    assert_harmless(&text_trial_section(&trial, None).text(&PLAIN));
}
