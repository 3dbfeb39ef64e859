//! The report on one screen. Reports of constructed sessions are compared with reviewed texts. Those of saved
//! and random sessions are checked for what a reader may rely on.

use crate::support::read_report;
use crate::support::reading::defects;
use crate::support::{PLAIN, candidate, effect, experiment, proven, slower_ab, verdict};
use pagewise_model::bench::ClaimEvidence;
use pagewise_model::body::RunBody;
use pagewise_model::profile::ProfileReport;
use pagewise_model::run::{SavedRun, SessionOutcome};
use pagewise_model::spec::SessionSpec;
use pagewise_model::trial::{ArmEffect, VerdictWord};
use pagewise_model::{Fact, Nanos};
use pagewise_report::{TerminalStyle, budget_line, render, render_whole};
use proptest::prelude::*;

#[test]
fn a_session_fits_a_screen() {
    crate::support::check("brief-proven.txt", &read_report(&proven(), &PLAIN));
    crate::support::check("brief-ab.txt", &read_report(&slower_ab(), &PLAIN));
    crate::support::check("brief-service.txt", &read_report(&crate::support::served(), &PLAIN));
    read_report(&proven(), &TerminalStyle { width: 40, unicode: false, ..PLAIN });
}

/// A profile of a program that was started, with its costs.
fn profiled() -> SavedRun {
    let mut run = crate::support::profile::run(crate::support::profile::profile());
    (run.id, run.diagnosis) = ("p-0001".into(), Some(crate::support::diagnosis()));
    run
}

#[test]
fn a_profile_fits_a_screen() {
    crate::support::check("brief-profile.txt", &read_report(&profiled(), &PLAIN));
    let mut unseen = profiled();
    let Some(RunBody::Profile(profile)) = &mut unseen.body else { panic!() };
    profile.sorted = Fact::missing("kernel samples are refused to this account");
    let text = read_report(&unseen, &PLAIN);
    assert!(text.contains("costs  anonymous faults"), "{text}");
    assert!(text.contains("refused to this account"), "{text}");
    let mut attached = crate::support::profile::run(ProfileReport {
        course: Some(crate::support::profile::course()),
        ..crate::support::profile::profile()
    });
    attached.warnings = (0..40).map(|at| format!("note {at}")).collect();
    let text = read_report(&attached, &PLAIN);
    assert!(text.contains("process 4711 with 9") && !text.contains("  next "), "{text}");
}

#[test]
fn faults_fit_a_screen() {
    crate::support::check("brief-faults.txt", &read_report(&crate::support::faults::run(), &PLAIN));
}

#[test]
fn a_checkup_fits_a_screen() {
    let mut run = crate::support::doctor();
    run.id.clear();
    crate::support::check("brief-doctor.txt", &read_report(&run, &PLAIN));
    let Some(RunBody::Checkup(checkup)) = &mut run.body else { panic!() };
    let many = checkup.capabilities.iter().cycle().take(60).cloned().collect();
    checkup.capabilities = many;
    checkup.spoilers = checkup.spoilers.iter().cycle().take(60).cloned().collect();
    for (at, spoiler) in checkup.spoilers.iter_mut().enumerate() {
        spoiler.what = format!("spoiler {at}");
    }
    for (at, lacking) in checkup.capabilities.iter_mut().enumerate() {
        lacking.name = format!("capability {at}");
    }
    read_report(&run, &PLAIN);
}

/// A bench of each kind, with the name of its golden text.
fn benches() -> [(&'static str, SavedRun); 6] {
    [
        ("pin", crate::support::pin::bench(crate::support::pin::pins())),
        ("walk", crate::support::walk::bench(crate::support::walk::walks())),
        ("jump", crate::support::jump::bench(crate::support::jump::jumps())),
        ("ladder", crate::support::ladder::bench(crate::support::ladder::ladder())),
        ("first_touch", crate::support::first_touch::bench(crate::support::first_touch::touches())),
        ("file", crate::support::file::bench(crate::support::file::readings())),
    ]
}

#[test]
fn a_bench_fits_a_screen() {
    for (name, run) in benches() {
        crate::support::check(&format!("brief-{name}.txt"), &read_report(&run, &PLAIN));
        read_report(&run, &TerminalStyle { width: 160, ..PLAIN });
    }
    let [(_, pins), ..] = benches();
    let text = render(&pins, &PLAIN);
    assert!(!text.contains("median of 3") && !text.contains("machine: "), "{text}");
    assert!(render_whole(&pins, &PLAIN).contains("median of 3"));
}

#[test]
fn bad_reports_of_benches_are_found() {
    let [_, (_, walks), ..] = benches();
    let good = render(&walks, &PLAIN);
    let found = |run: &SavedRun, text: &str, what: &str| {
        let found = defects(text, run, 80);
        assert!(found.iter().any(|one| one.contains(what)), "{what}: {found:#?} in\n{text}");
    };
    let refuted = good.replacen("  claims confirmed  ", "  claims refuted    ", 1);
    found(&walks, &refuted, "Refuted, saved as Confirmed: level 1");
    found(&walks, &good.replacen("10% less", "30% less", 1), "30% less is in no row");
    let changed = |change: &dyn Fn(&mut pagewise_model::bench::tlb::TlbBenchReport)| {
        let mut walked = crate::support::walk::walks();
        change(&mut walked);
        crate::support::walk::bench(walked)
    };
    let once = changed(&|walks| walks.points.iter_mut().for_each(|one| one.samples.truncate(1)));
    found(&once, &good, "10% less from one repeat");
    let bare = changed(&|walks| {
        walks.judgement.as_mut().unwrap().advice = vec!["Use larger pages.".to_owned()];
    });
    found(&bare, &good, "advice without a figure: Use larger pages.");
    let wrong = changed(&|walks| {
        let claim = &mut walks.judgement.as_mut().unwrap().claims[0];
        claim.evidence = ClaimEvidence::counted([false]);
    });
    found(&wrong, &good, "against its evidence");
}

#[test]
fn saved_runs_fit_a_screen() {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");
    let mut seen = 0;
    for place in ["runs", "cookbook"] {
        for file in std::fs::read_dir(format!("{fixtures}/{place}")).unwrap() {
            let file = file.unwrap().path();
            if file.extension().is_none_or(|end| end != "json") {
                continue;
            }
            read_report(&SavedRun::from_json(&std::fs::read(file).unwrap()).unwrap(), &PLAIN);
            seen += 1;
        }
    }
    assert!(seen >= 20, "{seen}");
}

/// The checks find each defect, one at a time.
#[test]
fn bad_reports_are_found() {
    let good = render(&proven(), &PLAIN);
    let found = |from: &str, to: &str, what: &str| {
        assert!(good.contains(from), "{from} in\n{good}");
        let bad = good.replacen(from, to, 1);
        let found = defects(&bad, &proven(), 80);
        assert!(found.iter().any(|one| one.contains(what)), "{what}: {found:#?} in\n{bad}");
    };
    let row = "heap-huge    48% less  46..50%";
    found("keep heap-huge: 48% less", "keep heap-huge: 44% less", "48% less elsewhere");
    found(row, "heap-huge    41% less  46..50%", "48% less elsewhere");
    found(row, "heap-huge    48% less  -1.0..9.0%", "keep although -1.0..9.0%");
    found("+12.0 MiB  keep", "+12.0 MiB  cannot tell", "cannot tell although 46..50%");
    found("malloc-keep  no runs         ", "malloc-keep  98% more  open   ", "without a measured");
    found("up to 6.0%", "up to 140%", "a bound of 140%");
    let perhaps = "probably 1.0% less time (-2.0..4.0%, a guess)";
    found("up to 6.0%", perhaps, "probable although -2..4%");
    found("up to 6.0%", "up to 6.0%  address translation 9.0%", "address translation: {");
    found("(46..50%), 1.94 times as fast", "", "without 46..50%");
    found("keep heap-huge: 48% less time (46..50%), 1.94 times as fast", "keep it", "no figure");
    found("1.0 GiB jumped in", &"long ".repeat(12), "too wide");
    found("  costs  ", &"\n".repeat(12), "lines");
    found("262,144 faults", "-0.0% faults", "-0.0% is no figure");
    let note = "the two plain runs differ in a time stamp, which was left out";
    found("  more ", &format!("         {note}\n  more "), "said twice: the two plain runs");
    found(
        "  tried  arm",
        "  fits   heap-huge    up to 3.0%: why\n  tried  arm",
        "yet 45.9% are proven",
    );
    found(
        "  tried  arm",
        "  fits   place        it helps: try it\n  tried  arm",
        "without a figure",
    );
}

#[test]
fn many_arms_and_many_notes_fit_as_well() {
    let mut run = proven();
    let arm = |at: usize| {
        verdict(&format!("arm-{at}"), VerdictWord::NoGain, "why", Some(effect(0.99, 0.97, 1.01)))
    };
    run.experiment = Some(experiment((0..40).map(arm).collect()));
    (run.outcome, run.receipt) = (Some(SessionOutcome::NoGain { above_share: 0.02 }), None);
    run.warnings =
        (0..40).map(|at| (0..24).map(|word| format!("note{at}.{word} ")).collect()).collect();
    let text = read_report(&run, &PLAIN);
    assert!(text.contains("34 more: arm-") && text.contains("notes are left out here"), "{text}");
}

#[test]
fn where_nothing_was_tried_the_remedies_stand() {
    let mut run = proven();
    (run.experiment, run.receipt, run.outcome) = (None, None, Some(SessionOutcome::AdviceOnly));
    let many = (0..40).map(|at| candidate(&format!("other-{at}"), "it does not fit", false));
    run.candidates.extend(many);
    let text = read_report(&run, &PLAIN);
    assert!(text.contains("\n  fits   heap-huge    up to "), "{text}");
    let reasons = text.lines().skip_while(|line| !line.starts_with("  not "));
    let reasons = reasons.take_while(|line| !line.starts_with("  noise"));
    assert_eq!(reasons.count(), 4, "three and the names of the others: {text}");
    assert!(text.contains("39 more: other-1, other-2"), "{text}");
}

#[test]
fn what_one_arm_shows_is_not_proven_among_several() {
    let mut run = proven();
    let arm = |at: usize, low| {
        let found = effect(0.9, low, 0.98);
        verdict(&format!("arm-{at}"), VerdictWord::CannotTell, "why", Some(found))
    };
    run.experiment = Some(experiment((0..7).map(|at| arm(at, 0.8)).collect()));
    (run.outcome, run.receipt) =
        (Some(SessionOutcome::CannotTell { why: "no arm is clear".into() }), None);
    let text = read_report(&run, &PLAIN);
    assert!(text.starts_with("not proven among 7 arms: arm-0 has 10% less time"), "{text}");
    assert!(text.contains("  not proven\n") && !text.contains("cannot tell"), "{text}");
}

#[test]
fn one_run_is_no_figure() {
    let mut run = proven();
    let once = ArmEffect { runs: 1, ..effect(0.5, 0.1, 9.0) };
    run.experiment =
        Some(experiment(vec![verdict("place", VerdictWord::CannotTell, "why", Some(once))]));
    (run.outcome, run.receipt) =
        (Some(SessionOutcome::CannotTell { why: "no arm is clear".into() }), None);
    let text = read_report(&run, &PLAIN);
    assert!(text.contains("place  open    too few runs") && !text.contains("50%"), "{text}");
    // The same when the interval is open, however many runs there were.
    let open = ArmEffect { runs: 9, ..effect(1.042, 0.01, 90.0) };
    run.experiment =
        Some(experiment(vec![verdict("place", VerdictWord::CannotTell, "why", Some(open))]));
    let text = read_report(&run, &PLAIN);
    assert!(text.contains("place  open ") && !text.contains("4.2% more"), "{text}");
}

proptest! {
    #[test]
    fn whatever_was_found_is_shown_as_found(
        arms in proptest::collection::vec((0.01f64..20.0, 0.0f64..3.0, 0u32..40, 0usize..8), 0..12),
        width in 40usize..160,
    ) {
        const WORDS: [VerdictWord; 8] = [
            VerdictWord::Keep, VerdictWord::Likely, VerdictWord::NoGain, VerdictWord::Slower,
            VerdictWord::Reject, VerdictWord::CannotTell, VerdictWord::NotTried, VerdictWord::CannotTell,
        ];
        let arms = arms.iter().enumerate().map(|(at, (ratio, spread, runs, word))| {
            let found = effect(*ratio, ratio * (-spread).exp(), ratio * spread.exp());
            let word = match WORDS[*word] {
                // A verdict's word needs an interval that shows it, with figures of 0.1%.
                VerdictWord::Keep if found.ratio_high > 0.999 => VerdictWord::CannotTell,
                VerdictWord::Slower if found.ratio_low < 1.001 => VerdictWord::CannotTell,
                word => word,
            };
            let found = (*runs > 0).then_some(ArmEffect { runs: *runs, ..found });
            verdict(&format!("arm-{at}"), word, "why", found)
        });
        let mut run = proven();
        run.experiment = Some(experiment(arms.collect()));
        (run.outcome, run.receipt) = (Some(SessionOutcome::NothingKept), None);
        read_report(&run, &TerminalStyle { width, ..PLAIN });
    }
}

#[test]
fn what_a_budget_lacks_is_told_before_the_first_run_of_an_arm() {
    let mut run = proven();
    let slowest =
        run.look.as_ref().unwrap().runs.iter().map(|usage| usage.wall_ns.0).max().unwrap();
    let mut line = |budget_ns: Option<Nanos>| {
        run.spec =
            Some(SessionSpec { budget_ns, ..SessionSpec::new(vec!["app".into()], "/".into(), 1) });
        budget_line(&run, |runs| (runs > 1).then_some(0.4 / f64::from(runs)))
    };
    assert_eq!((line(None), line(Some(Nanos(30 * slowest)))), (None, None));
    let short = line(Some(Nanos(3 * slowest))).unwrap();
    let useful = format!("8 runs of an arm take about {}", Nanos(16 * slowest));
    assert!(short.contains("nothing can be proven") && short.contains(&useful), "{short}");
    let longer = line(Some(Nanos(12 * slowest))).unwrap();
    assert!(longer.contains("hold 4 runs of an arm: gains above 10%"), "{longer}");
}
