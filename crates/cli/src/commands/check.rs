//! `pagewise check`

use super::experiment;
use super::signals::{INTERRUPTED, interrupted, stop_flag};
use super::{ab, faults};
use crate::args::{self, ExperimentArgs};
use crate::budget_file::{self, BudgetBaseline, NamedBudget};
use crate::failure::{CommandFailure, UNFIT, USAGE};
use crate::{store, terminal};
use pagewise_judge::check;
use pagewise_kernel::clock;
use pagewise_model::Nanos;
use pagewise_model::check::{BudgetVerdict, CheckItem, ProgramCheck};
use pagewise_model::fault::{FaultRecordingOptions, FaultReport, StackRecording};
use pagewise_model::run::SessionOutcome;
use pagewise_model::spec::OwnArm;
use pagewise_model::usage::ProgramEnd;
use pagewise_tracee::launch::{OutputSink, ProgramLaunch, StdinSource};
use pagewise_tracee::passthrough;
use pagewise_tune::SessionStop;
use pagewise_tune::race::RaceGoal;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit code: a budget is broken.
const BROKEN: u8 = 1;

/// Runs the programs of the file and judges their budgets.
pub(super) fn run(args: &args::CheckArgs) -> Result<ExitCode, CommandFailure> {
    let named = wanted(args)?;
    let stop = stop_flag()?;
    let mut done = Vec::new();
    for one in &named {
        let checked = one_check(one, args, &stop)?;
        if !args.json {
            let page = pagewise_report::check_page(&checked);
            terminal::print(&page.text(&terminal::style()))?;
        }
        done.push(checked);
    }
    conclude(&done, args)
}

/// The tables of these names, or all tables of the file.
fn wanted(args: &args::CheckArgs) -> Result<Vec<NamedBudget>, CommandFailure> {
    let all = budget_file::read_all(&args.file)?;
    let shown = args.file.display();
    if all.is_empty() {
        return Err(CommandFailure::usage(format!("`{shown}` holds no budgets"))
            .with_help("pagewise check --help shows a table"));
    }
    if let Some(name) = args.names.iter().find(|name| all.iter().all(|one| one.name != **name)) {
        let known: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
        return Err(CommandFailure::usage(format!("`{shown}` has no budgets [check.{name}]"))
            .with_help(format!("it has: {}", known.join(", "))));
    }
    let is_wanted = |one: &NamedBudget| args.names.is_empty() || args.names.contains(&one.name);
    let wanted: Vec<NamedBudget> = all.into_iter().filter(is_wanted).collect();
    let lacks = |one: &NamedBudget, what| format!("`{shown}`: [check.{}] has no {what}", one.name);
    if let Some(bare) = wanted.iter().find(|one| one.command.is_empty()) {
        let failure = CommandFailure::usage(lacks(bare, "command"));
        return Err(failure.with_help("command = [\"./app\", \"--version\"]"));
    }
    if let Some(empty) = wanted.iter().find(|one| one.is_empty()) {
        let why = lacks(empty, "budget, so it would always pass");
        return Err(CommandFailure::usage(why).with_help(budget_file::KEYS));
    }
    Ok(wanted)
}

/// Checks one table. Only an interrupt ends the other checks too.
fn one_check(
    named: &NamedBudget,
    args: &args::CheckArgs,
    stop: &AtomicBool,
) -> Result<ProgramCheck, CommandFailure> {
    let start = clock::now();
    if !args.quiet && terminal::reaches_a_person() {
        terminal::complain(&format!("checking {} ...", named.name));
    }
    let words = named.command.iter().map(|word| word.to_string_lossy().into_owned());
    let mut checked = ProgramCheck {
        name: named.name.clone(),
        command: words.collect(),
        items: Vec::new(),
        took_ns: Nanos(0),
        problem: None,
        is_unfit: false,
    };
    match judge(named, args, stop, &mut checked.items) {
        Err(failure) if failure.code == INTERRUPTED => return Err(failure),
        Err(failure) => {
            checked.is_unfit = failure.code == UNFIT;
            if checked.is_unfit {
                // The help text is about this machine and not part of the report.
                terminal::report(&failure);
            }
            checked.problem = Some(failure.message);
        }
        Ok(()) => {}
    }
    checked.took_ns = Nanos(clock::now().0.saturating_sub(start.0));
    Ok(checked)
}

/// Runs the program and adds the result of each budget to `items`.
fn judge(
    named: &NamedBudget,
    args: &args::CheckArgs,
    stop: &AtomicBool,
    items: &mut Vec<CheckItem>,
) -> Result<(), CommandFailure> {
    items.extend(check::judge(&named.limits, &recorded(named, stop)?));
    if let Some(baseline) = &named.baseline {
        items.push(compared(named, baseline, args)?);
    }
    Ok(())
}

/// Recorded runs of the program.
fn recorded(named: &NamedBudget, stop: &AtomicBool) -> Result<Vec<FaultReport>, CommandFailure> {
    let launch = ProgramLaunch {
        stdin: named.input.clone().map_or(StdinSource::Null, StdinSource::File),
        stdout: OutputSink::Null,
        stderr: OutputSink::Inherit,
        ..ProgramLaunch::passthrough(named.command.clone())
    };
    launch.check()?;
    let limits = &named.limits.faults;
    let fixed_addresses = faults::invocation::settle_addresses(false, limits)?;
    let wanted = FaultRecordingOptions {
        list: false,
        latency: limits.most_time_ns.is_some(),
        calls: false,
        stacks: StackRecording::None,
        names: false,
        debug_files: false,
        exact: false,
        made_maps: false,
        sites: false,
    };
    let mut reports = Vec::new();
    for _ in 0..named.runs {
        if stop.load(Ordering::Relaxed) {
            return Err(interrupted());
        }
        // A recorder records only one program.
        let recorder = faults::recorder()?;
        let run = passthrough::record_through(&launch, &recorder, wanted, false, &mut |_, _| {})
            .map_err(faults::failure)?;
        if run.interrupted {
            return Err(interrupted());
        }
        if run.ended != ProgramEnd::Exited(named.exit_status) {
            let why = format!("ended with {}, not exit status {}", run.ended, named.exit_status);
            return Err(CommandFailure::usage(why));
        }
        let report = run.report.map_err(faults::failure)?;
        reports.push(FaultReport { fixed_addresses, ..report });
    }
    Ok(reports)
}

/// Compares the program with its baseline, by the protocol of `ab`. The session is saved as one of `ab`.
fn compared(
    named: &NamedBudget,
    baseline: &BudgetBaseline,
    args: &args::CheckArgs,
) -> Result<CheckItem, CommandFailure> {
    let options = ExperimentArgs {
        budget: Some(baseline.budget),
        input: named.input.clone(),
        rerun_safe: true,
        ignore_failure: named.exit_status != 0,
        quiet: args.quiet,
        ..ExperimentArgs::default()
    };
    let mut request =
        experiment::request_of(&options, baseline.command.clone(), StdinSource::Null)?;
    if let Some(file) = &named.input {
        request.spec.input = StdinSource::File(file.clone());
    }
    request.spec.own_arms =
        vec![OwnArm { name: named.name.clone(), command: named.command.clone() }];
    let goal = RaceGoal::LossAtMost(baseline.limit);
    let _lock = experiment::lock(args.patience)?;
    let (mut run, end) = ab::race(&request, "baseline", goal, args.quiet)?;
    if let Some(stop @ SessionStop::Interrupted) = &end {
        return Err(experiment::failure(stop));
    }
    let verdict = run.experiment.as_ref().and_then(|done| done.verdicts.first());
    let item = check::time(verdict, baseline.limit);
    experiment::keep(&mut run);
    match (end, run.outcome) {
        (Some(stop), _) => Err(experiment::failure(&stop)),
        (None, Some(SessionOutcome::Interrupted)) => Err(interrupted()),
        (None, _) => Ok(item),
    }
}

fn conclude(done: &[ProgramCheck], args: &args::CheckArgs) -> Result<ExitCode, CommandFailure> {
    if args.json {
        terminal::print_json(done)?;
    } else {
        terminal::print(&pagewise_report::check_summary(done).text(&terminal::style()))?;
    }
    if let Some(file) = &args.junit {
        store::write_whole(file, &pagewise_report::check_junit(done))?;
    }
    if let Some(file) = &args.markdown {
        store::write_whole(file, &pagewise_report::check_markdown(done))?;
    }
    Ok(ExitCode::from(code(done)))
}

/// The exit code. A broken budget outranks a failed program, which outranks an undecided check.
fn code(done: &[ProgramCheck]) -> u8 {
    let any = |kept| done.iter().any(|check| check.kept() == kept);
    if any(BudgetVerdict::Broken) {
        BROKEN
    } else if done.iter().any(|check| check.problem.is_some() && !check.is_unfit) {
        USAGE
    } else if any(BudgetVerdict::CannotTell) {
        UNFIT
    } else {
        0
    }
}
