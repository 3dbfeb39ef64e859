//! `pagewise check`

use super::experiment;
use super::signals::{INTERRUPTED, interrupted, stop_flag};
use super::{ab, faults};
use crate::args::{self, ExperimentArgs};
use crate::budget_file::{self, Baseline, Named};
use crate::failure::{Failure, UNFIT, USAGE};
use crate::{store, terminal};
use pagewise_judge::check;
use pagewise_kernel::clock;
use pagewise_model::Nanos;
use pagewise_model::check::{Check, CheckItem, Kept};
use pagewise_model::fault::{FaultReport, Stacks, Wanted};
use pagewise_model::run::Outcome;
use pagewise_model::spec::OwnArm;
use pagewise_model::usage::Ended;
use pagewise_tracee::launch::{Input, Launch, Sink};
use pagewise_tracee::passthrough;
use pagewise_tune::Stop;
use pagewise_tune::race::Goal;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit code: a budget is broken.
const BROKEN: u8 = 1;

/// Runs the programs of the file and judges their budgets.
pub(super) fn run(args: &args::Check) -> Result<ExitCode, Failure> {
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
fn wanted(args: &args::Check) -> Result<Vec<Named>, Failure> {
    let all = budget_file::read_all(&args.file)?;
    let shown = args.file.display();
    if all.is_empty() {
        return Err(Failure::usage(format!("`{shown}` holds no budgets"))
            .with_help("pagewise check --help shows a table"));
    }
    if let Some(name) = args.names.iter().find(|name| all.iter().all(|one| one.name != **name)) {
        let known: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
        return Err(Failure::usage(format!("`{shown}` has no budgets [check.{name}]"))
            .with_help(format!("it has: {}", known.join(", "))));
    }
    let is_wanted = |one: &Named| args.names.is_empty() || args.names.contains(&one.name);
    let wanted: Vec<Named> = all.into_iter().filter(is_wanted).collect();
    let lacks = |one: &Named, what| format!("`{shown}`: [check.{}] has no {what}", one.name);
    if let Some(bare) = wanted.iter().find(|one| one.command.is_empty()) {
        let failure = Failure::usage(lacks(bare, "command"));
        return Err(failure.with_help("command = [\"./app\", \"--version\"]"));
    }
    if let Some(empty) = wanted.iter().find(|one| one.is_empty()) {
        let why = lacks(empty, "budget, so it would always pass");
        return Err(Failure::usage(why).with_help(budget_file::KEYS));
    }
    Ok(wanted)
}

/// Checks one table. Only an interrupt ends the other checks too.
fn one_check(named: &Named, args: &args::Check, stop: &AtomicBool) -> Result<Check, Failure> {
    let start = clock::now();
    if !args.quiet && terminal::reaches_a_person() {
        terminal::complain(&format!("checking {} ...", named.name));
    }
    let words = named.command.iter().map(|word| word.to_string_lossy().into_owned());
    let mut checked = Check {
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
    named: &Named,
    args: &args::Check,
    stop: &AtomicBool,
    items: &mut Vec<CheckItem>,
) -> Result<(), Failure> {
    items.extend(check::judge(&named.limits, &recorded(named, stop)?));
    if let Some(baseline) = &named.baseline {
        items.push(compared(named, baseline, args)?);
    }
    Ok(())
}

/// Recorded runs of the program.
fn recorded(named: &Named, stop: &AtomicBool) -> Result<Vec<FaultReport>, Failure> {
    let launch = Launch {
        stdin: named.input.clone().map_or(Input::Null, Input::File),
        stdout: Sink::Null,
        stderr: Sink::Inherit,
        ..Launch::passthrough(named.command.clone())
    };
    launch.check()?;
    let limits = &named.limits.faults;
    let fixed_addresses = faults::invocation::settle_addresses(false, limits)?;
    let wanted = Wanted {
        list: false,
        latency: limits.most_time_ns.is_some(),
        calls: false,
        stacks: Stacks::None,
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
        if run.ended != Ended::Exited(named.exit_status) {
            let why = format!("ended with {}, not exit status {}", run.ended, named.exit_status);
            return Err(Failure::usage(why));
        }
        let report = run.report.map_err(faults::failure)?;
        reports.push(FaultReport { fixed_addresses, ..report });
    }
    Ok(reports)
}

/// Compares the program with its baseline, by the protocol of `ab`. The session is saved as one of `ab`.
fn compared(named: &Named, baseline: &Baseline, args: &args::Check) -> Result<CheckItem, Failure> {
    let options = ExperimentArgs {
        budget: Some(baseline.budget),
        input: named.input.clone(),
        rerun_safe: true,
        ignore_failure: named.exit_status != 0,
        quiet: args.quiet,
        ..ExperimentArgs::default()
    };
    let mut request = experiment::request_of(&options, baseline.command.clone(), Input::Null)?;
    if let Some(file) = &named.input {
        request.spec.input = Input::File(file.clone());
    }
    request.spec.own_arms =
        vec![OwnArm { name: named.name.clone(), command: named.command.clone() }];
    let goal = Goal::LossAtMost(baseline.limit);
    let _lock = experiment::lock(args.patience)?;
    let (mut run, end) = ab::race(&request, "baseline", goal, args.quiet)?;
    if let Some(stop @ Stop::Interrupted) = &end {
        return Err(experiment::failure(stop));
    }
    let verdict = run.experiment.as_ref().and_then(|done| done.verdicts.first());
    let item = check::time(verdict, baseline.limit);
    experiment::keep(&mut run);
    match (end, run.outcome) {
        (Some(stop), _) => Err(experiment::failure(&stop)),
        (None, Some(Outcome::Interrupted)) => Err(interrupted()),
        (None, _) => Ok(item),
    }
}

fn conclude(done: &[Check], args: &args::Check) -> Result<ExitCode, Failure> {
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
fn code(done: &[Check]) -> u8 {
    let any = |kept| done.iter().any(|check| check.kept() == kept);
    if any(Kept::Broken) {
        BROKEN
    } else if done.iter().any(|check| check.problem.is_some() && !check.is_unfit) {
        USAGE
    } else if any(Kept::CannotTell) {
        UNFIT
    } else {
        0
    }
}
