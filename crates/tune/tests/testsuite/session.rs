//! Whole sessions in a world made of numbers, without program, clock or kernel.

use crate::support::{Fake, request, spec};
use pagewise_model::look::SideEffect;
use pagewise_model::memory_account::{
    AccountMoment, KernelMemory, MallocAccount, MemoryAccount, ProcessAccount, UnderusedHugePages,
};
use pagewise_model::run::SessionOutcome;
use pagewise_model::spec::{OwnArm, SessionSpec, StdinSource, StdoutTarget};
use pagewise_model::trial::{ComparedQuantity, ExperimentBlock, VerdictWord};
use pagewise_model::usage::ProgramEnd;
use pagewise_model::{Bytes, Fact, Nanos};
use pagewise_tune::session;
use pagewise_tune::{SessionRequest, SessionStop};

fn run(
    request: &SessionRequest,
    world: &mut Fake,
) -> (pagewise_model::run::SavedRun, Option<SessionStop>) {
    session::run(request, None, world)
}

#[test]
fn a_heap_that_gains_is_proven_and_gets_a_receipt() {
    let mut world = Fake { huge_factor: 0.6, ..Fake::default() };
    let request = request(SessionSpec { input: StdinSource::File("data set".into()), ..spec() });
    let (run, stop) = run(&request, &mut world);
    assert!(stop.is_none(), "{stop:?}");
    let Some(SessionOutcome::Proven { keep }) = &run.outcome else { panic!("{:?}", run.outcome) };
    assert_eq!(keep[0], "heap-huge=glibc");
    assert_eq!(run.stdout(), Some(StdoutTarget::Pipe));
    let receipt = run.receipt.expect("a receipt");
    assert_eq!(
        receipt.command,
        "pagewise run --with heap-huge=glibc -- prog 'an arg' < 'data set'"
    );
    assert_eq!(run.input.as_deref(), Some("data set"));
    assert_eq!(world.recorded, 1, "its faults cost enough to be timed");
    assert!(world.captured == 0 && world.kept_at_once >= 3, "runs at once kept their output");
    assert!(run.output_checks.iter().all(|check| check.equal) && !run.output_checks.is_empty());
    assert_eq!(run.look.unwrap().faults.reason(), Some("no recorder here"));
    let verdict = &run.experiment.unwrap().verdicts[0];
    let effect = verdict.effect.as_ref().unwrap();
    // All of its CPU time at once, of which faults are a part; 40% of its wall time alone.
    assert!(effect.at_once && effect.ratio < 0.5, "{effect:?}");
    let alone = effect.alone.as_ref().unwrap();
    assert!(alone.ratio_low < 0.6 && 0.6 < alone.ratio_high, "{alone:?}");
}

#[test]
fn a_gain_beyond_the_ceiling_is_told() {
    let told = |huge_factor| {
        let (run, _) = run(&request(spec()), &mut Fake { huge_factor, ..Fake::default() });
        assert!(matches!(run.outcome, Some(SessionOutcome::Proven { .. })), "{:?}", run.outcome);
        let ceiling = run.diagnosis.unwrap().ceiling_share;
        assert!(ceiling > 0.1 && ceiling < 0.9, "{ceiling}");
        run.warnings.iter().any(|warning| warning.contains("that counts and prices explain"))
    };
    assert!(told(0.05) && !told(0.92));
}

#[test]
fn files_that_were_not_compared_are_named_beside_a_gain() {
    let warned = |request: &SessionRequest, huge_factor| {
        let written = ["/r/a", "/r/b", "/r/c", "/r/d"].map(str::to_owned).to_vec();
        let (run, _) = run(request, &mut Fake { huge_factor, written, ..Fake::default() });
        run.warnings.into_iter().find(|warning| warning.contains("not compared: "))
    };
    let said = warned(&request(spec()), 0.6).unwrap();
    assert!(
        said.contains("`/r/a`, `/r/b`, `/r/c` and 1 more; ") && said.contains("--output"),
        "{said}"
    );
    assert_eq!(warned(&request(spec()), 1.3), None, "without a gain there is nothing to doubt");
}

/// A memory account of a program whose malloc holds `freed`, plus an equal amount that is live.
fn holding(freed: Bytes) -> MemoryAccount {
    let malloc = MallocAccount {
        arenas: 1,
        live_bytes: freed,
        freed_bytes: freed,
        whole_pages_bytes: freed,
        ..MallocAccount::default()
    };
    let process = ProcessAccount {
        pid: 10,
        name: "prog".into(),
        threads: 1,
        pss_bytes: Bytes::mib(100),
        rss_bytes: Bytes::mib(100),
        swapped_bytes: Bytes(0),
        parts: Vec::new(),
        beside: KernelMemory::default(),
        map: Vec::new(),
        malloc: Some(malloc),
        half_used: Fact::missing("it has none"),
        copied_bytes: None,
        unread: None,
    };
    MemoryAccount {
        moment: AccountMoment::Running,
        watched: None,
        used_within_ns: None,
        processes: vec![process],
        unseen_processes: 0,
        give_backs: Vec::new(),
        sites: None,
    }
}

#[test]
fn what_could_not_give_back_one_percent_is_no_arm() {
    let request = request(SessionSpec { quantity: ComparedQuantity::Memory, ..spec() });
    let trim = |memory| {
        let mut world = Fake { memory, ..Fake::default() };
        let (run, stop) = run(&request, &mut world);
        assert!(stop.is_none() && world.accounted == 1, "{stop:?}");
        let trim = run.candidates.into_iter().find(|c| c.remedy == "trim").unwrap();
        (trim.why, world.timed_runs("trim=128K"), run.warnings.join("; "))
    };
    let (why, runs, _) = trim(Fact::Known(holding(Bytes::kib(900))));
    assert_eq!(runs, 0, "{why}");
    assert!(why.ends_with(
        "of 100 MiB at the peak it could give back 900 KiB at most (whole freed pages), but it could gain at most 0.9%"
    ), "{why}");
    let (why, runs, _) = trim(Fact::Known(holding(Bytes::mib(30))));
    assert!(runs > 0 && why.contains("30.0 MiB at most"), "{why}");
    let (_, runs, warnings) = trim(Fact::missing("it cannot be traced"));
    assert!(runs > 0 && warnings.contains("no account of its memory: it cannot"), "{warnings}");
}

#[test]
fn huge_pages_that_are_gone_at_the_end_count_at_the_peak() {
    let request =
        request(SessionSpec { quantity: ComparedQuantity::Memory, advise: true, ..spec() });
    let fits = |zeros: Bytes| {
        let mut account = holding(Bytes(0));
        let huge_bytes = Bytes::mib(64);
        let half = UnderusedHugePages { huge_bytes, read_bytes: huge_bytes, zero_bytes: zeros };
        account.processes[0].half_used = Fact::Known(half);
        let mut world = Fake { memory: Fact::Known(account), ..Fake::default() };
        let (run, _) = run(&request, &mut world);
        let small = run.candidates.into_iter().find(|c| c.remedy == "heap-small").unwrap();
        (small.fits(), small.why)
    };
    let (does, why) = fits(Bytes::mib(60));
    assert!(does && why.contains("64.0 MiB on huge pages") && why.contains("60.0 MiB"), "{why}");
    assert!(!fits(Bytes::kib(8)).0, "they are used whole");
}

#[test]
fn a_heap_that_loses_is_not_kept() {
    let losing = || Fake { huge_factor: 1.1, ..Fake::default() };
    let mut world = losing();
    let (in_turn, _) = run(&request(SessionSpec { in_turn: true, ..spec() }), &mut world);
    assert_eq!(in_turn.outcome, Some(SessionOutcome::NothingKept));
    assert!(in_turn.receipt.is_none() && world.captured == 0, "no output had to be compared");
    // It uses less CPU time. Runs one at a time deny that this is a gain.
    let (at_once, _) = run(&request(spec()), &mut losing());
    assert!(at_once.receipt.is_none(), "{:?}", at_once.outcome);
    let experiment = at_once.experiment.unwrap();
    assert_eq!(experiment.verdicts[0].word, VerdictWord::Slower);
    let why = experiment.in_turn_because.unwrap();
    assert!(why.contains("contradict each other"), "{why}");
}

#[test]
fn a_gain_whose_mechanism_did_not_move_is_not_kept() {
    let mut world = Fake { huge_factor: 0.6, huge_faults: 0, ..Fake::default() };
    let (run, _) = run(&request(spec()), &mut world);
    assert!(!matches!(run.outcome, Some(SessionOutcome::Proven { .. })), "{:?}", run.outcome);
}

#[test]
fn a_gain_that_changes_the_output_is_rejected() {
    let mut world = Fake { huge_factor: 0.6, huge_output: "other\n", ..Fake::default() };
    let (run, _) = run(&request(spec()), &mut world);
    let verdict = &run.experiment.as_ref().unwrap().verdicts[0];
    assert!(verdict.word == VerdictWord::Reject && verdict.why.contains("output"), "{verdict:?}");
    assert!(run.output_checks.iter().any(|c| !c.equal && c.arm == "heap-huge=glibc"));
    assert!(run.receipt.is_none());
}

#[test]
fn a_program_that_is_not_safe_to_rerun_runs_once() {
    let effect =
        SideEffect { action: "opened for writing".into(), subject: "/data/ledger".into(), pid: 1 };
    let mut world = Fake { effects: vec![effect], ..Fake::default() };
    let (_, stop) = run(&request(spec()), &mut world);
    let stop = stop.expect("a stop");
    assert!(matches!(stop, SessionStop::NotSafe(_)));
    assert!(stop.to_string().contains("/data/ledger") && stop.help().is_some());
    assert_eq!(world.all_runs(), 1);
    let allowed = request(SessionSpec { rerun_safe: true, ..spec() });
    let (run, stop) = run_again(&allowed, world);
    assert!(stop.is_none() && run.outcome.is_some());
}

fn run_again(
    request: &SessionRequest,
    mut world: Fake,
) -> (pagewise_model::run::SavedRun, Option<SessionStop>) {
    run(request, &mut world)
}

#[test]
fn a_program_without_page_costs_is_left_alone() {
    let mut world = Fake { faults: 40, anon: Bytes::kib(64), ..Fake::default() };
    let (run, stop) = run(&request(spec()), &mut world);
    assert!(stop.is_none());
    assert!(matches!(run.outcome, Some(SessionOutcome::NothingToGain { .. })), "{:?}", run.outcome);
    assert_eq!((world.captured, world.recorded), (0, 0), "nothing was tried");
}

#[test]
fn what_could_not_be_seen_is_raced() {
    let anon = Bytes::mib(64);
    let mut world = Fake { faults: 40, anon, priced_chase: false, ..Fake::default() };
    let (run, stop) = run(&request(spec()), &mut world);
    assert!(stop.is_none());
    assert!(run.experiment.is_some(), "{:?}", run.outcome);
}

#[test]
fn advice_tries_nothing() {
    let mut world = Fake::default();
    let (run, _) = run(&request(SessionSpec { advise: true, ..spec() }), &mut world);
    assert_eq!(run.outcome, Some(SessionOutcome::AdviceOnly));
    assert!(run.candidates.iter().any(|c| c.remedy == "heap-huge" && c.fits()));
    assert_eq!(world.captured, 0);
}

#[test]
fn a_program_that_fails_is_named_with_what_it_said() {
    let mut world = Fake { ended: ProgramEnd::Exited(3), ..Fake::default() };
    let (_, stop) = run(&request(spec()), &mut world);
    let text = stop.expect("a stop").to_string();
    assert!(text.contains("exit status 3") && text.contains("no such table"), "{text}");
    let mut world = Fake { ended: ProgramEnd::Exited(3), ..Fake::default() };
    let (run, stop) = run(&request(SessionSpec { ignore_failure: true, ..spec() }), &mut world);
    assert!(stop.is_none() && run.outcome.is_some());
}

#[test]
fn no_budget_is_too_small_for_an_answer() {
    for seconds in [1, 2, 3, 5, 60] {
        let mut world = Fake { huge_factor: 0.6, ..Fake::default() };
        let budget = Nanos::secs(seconds);
        let (run, stop) =
            run(&request(SessionSpec { budget_ns: Some(budget), ..spec() }), &mut world);
        assert!(stop.is_none() && run.outcome.is_some(), "{seconds}: {stop:?}");
        assert!(run.diagnosis.is_some(), "{seconds}");
        let longest = Nanos::millis(600);
        assert!(
            run.took_ns <= budget + Nanos(budget.0 / 10) + longest,
            "{seconds}: {}",
            run.took_ns
        );
    }
}

#[test]
fn an_interruption_keeps_what_is_known_and_proves_nothing() {
    let mut world = Fake { huge_factor: 0.6, interrupt_after: 6, ..Fake::default() };
    let (run, _) = run(&request(spec()), &mut world);
    assert_eq!(run.outcome, Some(SessionOutcome::Interrupted));
    assert!(run.diagnosis.is_some() && run.receipt.is_none());
    let experiment = run.experiment.expect("what was measured");
    assert!(experiment.verdicts.iter().all(|v| v.word != VerdictWord::Keep));
}

#[test]
fn the_same_seed_gives_the_same_order() {
    let order = |seed| {
        let mut world = Fake::default();
        let (run, _) = run(&request(SessionSpec { seed, ..spec() }), &mut world);
        let blocks = run.experiment.expect("an experiment").blocks;
        blocks.iter().flat_map(|b| b.points.iter().map(|p| p.arm.clone())).collect::<Vec<_>>()
    };
    assert_eq!(order(7), order(7));
    assert_ne!(order(7), order(8));
}

fn own(name: &str, program: &str) -> OwnArm {
    OwnArm { name: name.into(), command: vec![program.into(), "an arg".into()] }
}

#[test]
fn our_own_failures_prove_nothing() {
    let mut world = Fake { huge_factor: 0.6, breaks_after: 6, ..Fake::default() };
    let request = request(SessionSpec { own_arms: vec![own("mine", "prog2")], ..spec() });
    let (run, stop) = run(&request, &mut world);
    assert!(stop.is_none(), "{stop:?}");
    let Some(SessionOutcome::CannotTell { why }) = &run.outcome else {
        panic!("{:?}", run.outcome)
    };
    assert!(why.contains("no more processes"), "{why}");
    let words: Vec<VerdictWord> = run.experiment.unwrap().verdicts.iter().map(|v| v.word).collect();
    assert_eq!(words, [VerdictWord::CannotTell; 2]);
}

#[test]
fn an_arm_that_cannot_run_is_told_and_the_others_go_on() {
    let mut world = Fake { huge_factor: 0.6, ..Fake::default() };
    let request = request(SessionSpec { own_arms: vec![own("mine", "./nosuch")], ..spec() });
    let (run, stop) = run(&request, &mut world);
    assert!(
        stop.is_none() && matches!(run.outcome, Some(SessionOutcome::Proven { .. })),
        "{stop:?}"
    );
    let verdicts = run.experiment.unwrap().verdicts;
    let mine = verdicts.iter().find(|v| v.arm == "mine").unwrap();
    assert!(mine.word == VerdictWord::Reject && mine.why.contains("./nosuch"), "{mine:?}");
    assert!(world.timed_runs("mine") <= 2, "once in each block that began before");
}

#[test]
fn an_arm_that_hangs_is_stopped_and_rejected() {
    let mut world = Fake { hangs: Some("heap-huge=glibc"), ..Fake::default() };
    let (run, stop) = run(&request(spec()), &mut world);
    assert!(stop.is_none(), "{stop:?}");
    let verdict = &run.experiment.as_ref().unwrap().verdicts[0];
    assert!(
        verdict.word == VerdictWord::Reject && verdict.why.contains("times the slowest"),
        "{verdict:?}"
    );
}

#[test]
fn an_arm_may_take_a_quarter_more_than_the_program() {
    let mut world = Fake { huge_factor: 0.6, ..Fake::default() };
    let (_, stop) =
        run(&request(SessionSpec { own_arms: vec![own("mine", "p2")], ..spec() }), &mut world);
    assert!(stop.is_none(), "{stop:?}");
    let peak = 100_000.0 * 4096.0;
    let limit = Bytes((peak * 1.25) as u64 + Bytes::mib(256).0);
    let limits = &world.memory_limits;
    assert!(!limits.is_empty());
    assert!(limits.iter().all(|l| *l == ("heap-huge=glibc".to_owned(), limit)), "{limits:?}");
}

#[test]
fn a_named_file_that_no_run_writes_is_an_error() {
    let mut world = Fake { file_missing: Some("is not there"), ..Fake::default() };
    let (run, stop) =
        run(&request(SessionSpec { outputs: vec!["x".into()], ..spec() }), &mut world);
    let stop = stop.expect("a stop");
    assert!(matches!(stop, SessionStop::Output(_)) && stop.help().is_some());
    assert!(stop.to_string().ends_with("file `x` is not there"), "{stop}");
    assert!(run.diagnosis.is_some(), "what is known is kept");
}

#[test]
fn a_kept_output_that_changes_the_ending_tells_nothing() {
    let ended = Some(ProgramEnd::Exited(1));
    let mut world = Fake { captured_ended: ended, huge_factor: 0.6, ..Fake::default() };
    let (run, stop) = run(&request(spec()), &mut world);
    assert!(stop.is_none());
    let Some(SessionOutcome::CannotTell { why }) = &run.outcome else {
        panic!("{:?}", run.outcome)
    };
    assert!(why.contains("could not be kept") && why.contains("exit status 1"), "{why}");
    assert!(run.receipt.is_none());
}

#[test]
fn another_amount_of_work_is_no_gain() {
    let mut world = Fake { huge_factor: 0.6, huge_reads: Bytes::mib(40), ..Fake::default() };
    let (run, _) = run(&request(spec()), &mut world);
    let verdict = &run.experiment.as_ref().unwrap().verdicts[0];
    assert!(
        verdict.word == VerdictWord::Reject && verdict.why.contains("unequal work"),
        "{verdict:?}"
    );
}

#[test]
fn what_a_run_leaves_behind_is_told() {
    let mut world = Fake { leftovers: 2, ..Fake::default() };
    let (run, _) = run(&request(SessionSpec { advise: true, ..spec() }), &mut world);
    assert!(run.warnings.iter().any(|w| w.contains("2 process(es)")), "{:?}", run.warnings);
}

#[test]
fn own_arms_alone_are_tried_where_page_costs_are_small() {
    let mut world = Fake { faults: 40, anon: Bytes::kib(64), ..Fake::default() };
    let (run, _) =
        run(&request(SessionSpec { own_arms: vec![own("mine", "p2")], ..spec() }), &mut world);
    let arms: Vec<String> = run.experiment.unwrap().design.arms;
    assert_eq!(arms, ["mine"]);
}

#[test]
fn names_of_own_arms_are_told_apart() {
    let unfit = |arms: Vec<OwnArm>| request(SessionSpec { own_arms: arms, ..spec() }).unfit_arm();
    assert_eq!(unfit(vec![own("a", "x"), own("b", "x")]), None);
    assert!(unfit(vec![own("a", "x"), own("a", "y")]).unwrap().contains("two arms"));
    for name in ["plain", "heap-huge", "a+b", " ", ""] {
        assert!(unfit(vec![own(name, "x")]).is_some(), "{name}");
    }
    assert!(unfit(vec![own("a", "")]).is_some());
}

#[test]
fn the_receipt_of_an_own_arm_is_its_command() {
    let mut world = Fake { huge_factor: 0.9, ..Fake::default() };
    let (run, _) =
        run(&request(SessionSpec { own_arms: vec![own("mine", "fast")], ..spec() }), &mut world);
    let keep = vec!["mine".to_owned()];
    assert_eq!(run.outcome, Some(SessionOutcome::Proven { keep }), "it ends with the best");
    assert_eq!(run.receipt.unwrap().command, "fast 'an arg'");
    let names: Vec<String> = run.experiment.unwrap().verdicts.into_iter().map(|v| v.arm).collect();
    assert_eq!(names, ["heap-huge=glibc", "mine"], "nothing is combined with an own arm");
}

#[test]
fn a_session_goes_on_where_it_stopped() {
    let request = request(SessionSpec { budget_ns: Some(Nanos::secs(4)), ..spec() });
    let mut world = Fake { huge_factor: 0.96, ..Fake::default() };
    let (first, _) = run(&request, &mut world);
    let blocks = first.experiment.as_ref().unwrap().blocks.clone();
    assert!(!blocks.is_empty() && !matches!(first.outcome, Some(SessionOutcome::Proven { .. })));

    let mut more = request.clone();
    (more.spec.budget_ns, more.id) = (Some(Nanos::secs(120)), "second".into());
    let looks = |world: &Fake, blocks: &[ExperimentBlock]| {
        let points: u32 = blocks.iter().map(|b| b.points.len() as u32).sum();
        world.all_runs() - world.captured - points
    };
    let looked = looks(&world, &blocks);
    let (second, stop) = session::run(&more, Some(first), &mut world);
    assert!(stop.is_none() && second.id == "second", "{stop:?}");
    let experiment = second.experiment.as_ref().unwrap();
    assert_eq!(experiment.blocks[..blocks.len()], blocks[..]);
    assert_eq!(
        second.outcome,
        Some(SessionOutcome::Proven { keep: vec!["heap-huge=glibc".into()] })
    );
    assert!(second.receipt.is_some());
    assert_eq!(looks(&world, &experiment.blocks), looked, "no second look");
}
