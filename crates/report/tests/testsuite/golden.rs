//! Reports of constructed runs against reviewed texts in `tests/golden`. With `UPDATE_GOLDEN` set
//! the texts are written again: review the difference.

use crate::support::{
    PLAIN, candidate, compare_two, doctor, effect, experiment, proven, run, slower_ab, traced_look,
    verdict,
};
use pagewise_model::constructed;
use pagewise_model::plan::{ContainerLines, RemedyReceipt};
use pagewise_model::run::{RunKind, SessionOutcome};
use pagewise_model::service::ServiceMode;
use pagewise_model::spec::ServerSpec;
use pagewise_model::trial::ComparedQuantity;
use pagewise_model::trial::{TimeRatio, VerdictWord};
use pagewise_report::{
    RunHead, TerminalStyle, compare, csv, headline, history_table, look_section, markdown,
    receipt_section, render_whole as render,
};

fn check(name: &str, got: &str) {
    crate::support::check(&format!("{name}.txt"), got);
    assert!(got.lines().count() < 60, "{name} is too long to review");
}

#[test]
fn a_proven_gain() {
    let mut run = proven();
    run.look = None;
    check("proven", &render(&run, &PLAIN));
    run.experiment.as_mut().unwrap().verdicts.truncate(1);
    (run.receipt, run.machine) = (None, None);
    check("proven-60", &render(&run, &TerminalStyle { width: 60, unicode: false, ..PLAIN }));
}

#[test]
fn a_proven_gain_for_a_pull_request() {
    check("markdown", &markdown(&proven()));
    check("csv", &csv(&proven()));
}

#[test]
fn a_slower_second_command() {
    check("ab-slower", &render(&slower_ab(), &PLAIN));
}

#[test]
fn a_slower_second_command_for_a_pull_request() {
    let text = markdown(&slower_ab());
    assert!(text.contains("| slower: a loss over 1% is proven |"), "{text}");
    let mut faster = slower_ab();
    faster.experiment.as_mut().unwrap().verdicts[0].word = VerdictWord::Keep;
    assert!(markdown(&faster).contains("| faster: "));
}

#[test]
fn a_remedy_that_fits_and_has_no_verdict_says_why() {
    let mut run = proven();
    run.candidates.push(candidate("malloc-keep", "churn", true));
    run.experiment.as_mut().unwrap().verdicts.truncate(1);
    let said = |run: &pagewise_model::run::SavedRun| {
        render(run, &PLAIN).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(said(&run).contains("but no run of this arm counted"), "{}", said(&run));
    let design = &mut run.experiment.as_mut().unwrap().design;
    design.arms = vec!["heap-huge".into()];
    assert!(said(&run).contains("but excluded by --only"), "{}", said(&run));
    run.experiment = None;
    assert!(said(&run).contains("but nothing was tried"), "{}", said(&run));
}

#[test]
fn a_service_under_load() {
    let mut run = crate::support::served();
    (run.look, run.receipt) = (None, None);
    check("service", &render(&run, &PLAIN));
    check("service-csv", &csv(&run));
    let text = markdown(&run);
    assert!(text.contains("| arm | CPU per request | 95% | p99 | memory |"), "{text}");
    assert!(text.contains("of its CPU time"), "{text}");
}

#[test]
fn where_memory_decides_a_service_shows_cpu_per_request_beside() {
    let mut run = crate::support::served();
    run.experiment.as_mut().unwrap().design.quantity = ComparedQuantity::Memory;
    let text = render(&run, &PLAIN);
    assert!(text.contains("(memory, p99 and CPU per request against the first row)"), "{text}");
}

#[test]
fn two_sessions_of_a_service() {
    let (a, mut b) = (crate::support::served(), crate::support::served());
    b.id = "t-0002".into();
    let asked = b.spec.as_mut().unwrap().service.as_mut().unwrap();
    asked.load = "shoot {port} 50000".into();
    let service = b.service.as_mut().unwrap();
    service.pairs.truncate(1);
    service.pairs[0].plain.windows.iter_mut().for_each(|window| window.cpu_ns.0 *= 2);
    let cost = TimeRatio { ratio: 2.0, ratio_low: 1.8, ratio_high: 2.2 };
    check("compare-service", &compare_two(&a, &b, Some(&cost)).text(&PLAIN));
}

#[test]
fn a_receipt_for_a_service() {
    let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    let containers = ContainerLines {
        docker_run: "docker run --env A=1 IMAGE".to_owned(),
        compose: lines(&["services:", "  NAME:", "    environment:", "      A: \"1\""]),
        kubernetes: lines(&["env:", "- name: A", "  value: \"1\""]),
    };
    let receipt = RemedyReceipt { containers: Some(containers), ..crate::support::receipt() };
    check("receipt-service", &receipt_section(&receipt, true).text(&PLAIN));
}

#[test]
fn a_headline_names_the_guard_that_rejected_the_best_arm() {
    let mut run = crate::support::served();
    run.outcome = Some(SessionOutcome::NothingKept);
    let verdicts = &mut run.experiment.as_mut().unwrap().verdicts;
    verdicts.retain(|verdict| verdict.word == VerdictWord::Reject);
    assert_eq!(
        headline(&run),
        "nothing worth keeping; 1 arm tried, all refused; malloc-keep is rejected: 40% more p99 latency: guard p99<+20%"
    );
}

#[test]
fn a_service_that_ran_already() {
    let mut run = crate::support::served();
    (run.look, run.receipt, run.diagnosis) = (None, None, None);
    let server = ServerSpec::Running { pid: 4711 };
    run.spec = Some(crate::support::service::asked("served 6379", server, "shoot {port} 100000"));
    let service = run.service.as_mut().unwrap();
    service.mode = ServiceMode::Toggle;
    service.mode_why = "the process runs already".into();
    service.pairs.iter_mut().for_each(|pair| pair.mode = ServiceMode::Toggle);
    drop(service.pairs.remove(1));
    check("service-toggle", &render(&run, &PLAIN));
    run.service.as_mut().unwrap().pairs.clear();
    let text = render(&run, &PLAIN).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("0 blocks of 0 runs") && text.contains(" 0 requests"), "{text}");
}

#[test]
fn the_checkup() {
    check("doctor", &render(&doctor(), &PLAIN));
}

#[test]
fn the_program_as_it_is() {
    let look = traced_look();
    check("look", &look_section(&look, &look.runs).text(&PLAIN));
}

#[test]
fn advice_only() {
    let mut run = proven();
    run.outcome = Some(SessionOutcome::AdviceOnly);
    (run.experiment, run.look, run.receipt) = (None, None, None);
    check("advice", &render(&run, &PLAIN));
}

#[test]
fn nothing_to_gain() {
    let why = "page costs and wake-ups are at most 0.8% of its time".to_owned();
    let run = run(RunKind::Tune, Some(SessionOutcome::NothingToGain { why }));
    check("nothing-to-gain", &render(&run, &PLAIN));
}

#[test]
fn interrupted_before_the_first_block_was_finished() {
    let mut run = run(RunKind::Tune, Some(SessionOutcome::Interrupted));
    let mut all =
        experiment(vec![verdict("heap-huge", VerdictWord::NotTried, "no run counted", None)]);
    all.blocks.drain(..2);
    all.interrupted = true;
    run.experiment = Some(all);
    check("interrupted", &render(&run, &PLAIN));
}

#[test]
fn two_runs_of_different_machines() {
    let (a, mut b) = (proven(), proven());
    b.id = "t-0002".into();
    if let Some(machine) = &mut b.machine {
        machine.kernel = "6.1.0-test".into();
    }
    b.look.as_mut().unwrap().runs.truncate(1);
    let change = TimeRatio { ratio: 0.8, ratio_low: 0.75, ratio_high: 0.85 };
    check("compare", &compare_two(&a, &b, Some(&change)).text(&PLAIN));
    let open = TimeRatio { ratio_high: 1.02, ..change.clone() };
    let text = compare_two(&a, &b, Some(&open)).text(&PLAIN);
    assert!(text.contains("cannot tell whether the time changed: 20% less"), "{text}");
    assert!(compare_two(&a, &b, None).text(&PLAIN).contains("too few for a verdict"));
    assert!(compare_two(&a, &a, None).text(&PLAIN).starts_with("same machine: "));
    let runs = [a.clone(), b.clone(), a.clone()];
    let all = constructed::comparison(&runs, Some(&change));
    check("compare-three", &compare(&runs, &all).text(&PLAIN));
    b.environment = vec![("GLIBC_TUNABLES".into(), "x=1".into())];
    b.input = Some("in put".into());
    let text = compare_two(&a, &b, Some(&change)).text(&PLAIN);
    assert!(text.contains("environments differ in GLIBC_TUNABLES"), "{text}");
    assert!(!text.contains("x=1"), "others may read a page: {text}");
    assert!(
        text.contains("input differs") && text.contains("./walk --size 1G < 'in put'"),
        "{text}"
    );
    b.machine = None;
    assert!(compare_two(&a, &b, Some(&change)).text(&PLAIN).contains("cannot tell whether"));
}

#[test]
fn the_history() {
    let heads = [(7, proven()), (8, slower_ab()), (12, doctor())];
    let heads = heads.map(|(number, run)| RunHead::new(number, &run));
    check("history", &history_table(&heads, &PLAIN));
    assert_eq!(history_table(&[], &PLAIN), "no saved runs\n");
}

#[test]
fn the_time_of_the_host_is_reported_where_it_differs() {
    let mut run = proven();
    let effect = run.experiment.as_mut().unwrap().verdicts[0].effect.as_mut().unwrap();
    effect.without_host = Some(TimeRatio { ratio: 0.53, ratio_low: 0.5, ratio_high: 0.6 });
    let line = "without the host's time: 47% less (40..50%)";
    let text = render(&run, &PLAIN).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(line), "{text}");
    assert!(markdown(&run).contains(line));
}

#[test]
fn headlines_of_every_outcome_fit_a_line() {
    let headline = |ratio: f64, low, high, word, outcome| {
        let mut run = run(RunKind::Tune, Some(outcome));
        let verdict = verdict("place", word, "why", Some(effect(ratio, low, high)));
        run.experiment = Some(experiment(vec![verdict]));
        let text = headline(&run);
        assert!(text.len() <= 80, "{text}");
        text
    };
    let arms = || vec!["place".to_owned()];
    assert_eq!(
        headline(
            0.996,
            0.982,
            1.01,
            VerdictWord::NoGain,
            SessionOutcome::NoGain { above_share: 0.02 }
        ),
        "no gain above 2%: place has 0.4% less time (-1.0..1.8%)"
    );
    assert_eq!(
        headline(
            1.1,
            0.9,
            1.3,
            VerdictWord::CannotTell,
            SessionOutcome::CannotTell { why: "x".into() }
        ),
        "cannot tell: place has 10% more time (-10..30%) so far"
    );
    assert_eq!(
        headline(0.95, 0.9, 0.99, VerdictWord::Likely, SessionOutcome::Likely { arms: arms() }),
        "likely place: 5.0% less time (1.0..10.0%), 95% sure"
    );
    assert_eq!(
        pagewise_report::headline(&proven()),
        "keep heap-huge: 48% less time (46..50%), 1.94 times as fast"
    );
    let halted = |why: &str| {
        let mut run = proven();
        run.outcome = Some(SessionOutcome::CannotTell { why: why.into() });
        run.experiment.as_mut().unwrap().halted = Some(why.into());
        pagewise_report::headline(&run)
    };
    assert_eq!(halted("the reference failed"), "cannot tell: the reference failed");
}

#[test]
fn what_cannot_be_told_is_an_open_arm() {
    let arm = |name: &str, word, ratio| verdict(name, word, "why", Some(effect(ratio, 0.9, 1.1)));
    let mut run = run(RunKind::Tune, Some(SessionOutcome::CannotTell { why: "place: why".into() }));
    let arms =
        vec![arm("pool", VerdictWord::NoGain, 0.98), arm("place", VerdictWord::CannotTell, 1.02)];
    run.experiment = Some(experiment(arms));
    let text = headline(&run);
    assert_eq!(text, "cannot tell: place has 2.0% more time (-10..10%) so far");
}

#[test]
fn arms_that_were_rejected_do_not_count_beside_the_best() {
    let arm = |name: &str, word, ratio| verdict(name, word, "why", Some(effect(ratio, 0.9, 1.1)));
    let mut run = run(RunKind::Tune, Some(SessionOutcome::NoGain { above_share: 0.01 }));
    let arms = vec![
        arm("pool", VerdictWord::Reject, 0.98),
        arm("place", VerdictWord::NoGain, 1.02),
        arm("arenas", VerdictWord::NoGain, 1.05),
    ];
    run.experiment = Some(experiment(arms));
    assert_eq!(
        headline(&run),
        "no gain above 1%: the best of 2 arms, place, has 2.0% more time (-10..10%); pool is rejected: why"
    );
    run.experiment.as_mut().unwrap().verdicts.pop();
    assert_eq!(
        headline(&run),
        "no gain above 1%: place has 2.0% more time (-10..10%); pool is rejected: why"
    );
}

#[test]
fn a_session_is_a_page_with_tables_and_its_race() {
    let page = pagewise_report::html(&proven());
    crate::support::check("proven.html", &page);
    assert_eq!(page.matches("<svg").count(), 2, "its costs and its race");
    assert!(
        page.contains("class=\"bar\"") && page.contains("<th class=\"text\">arm</th>"),
        "{page}"
    );
}

/// Other accounts may read a page, subject to the umask. They may not read a saved run.
#[test]
fn a_page_holds_no_value_of_the_environment() {
    let mut run = proven();
    run.environment = vec![("JAVA_TOOL_OPTIONS".into(), "-Dkey=secret".into())];
    assert!(!pagewise_report::html(&run).contains("secret"));
    assert!(pagewise_report::render_whole(&run, &PLAIN).contains("-Dkey=secret"));
}
