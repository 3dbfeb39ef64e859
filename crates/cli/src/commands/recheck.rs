//! `pagewise recheck`

use super::signals::{INTERRUPTED, interrupted};
use super::{apply, experiment, tune};
use crate::args::{self, ExperimentArgs};
use crate::failure::{CommandFailure, UNFIT, USAGE};
use crate::{store, terminal};
use pagewise_judge::recheck::{gain, standing, verdict};
use pagewise_kernel::clock;
use pagewise_kernel::machine::machine;
use pagewise_model::recheck::{GainRecheck, GainStanding};
use pagewise_model::run::{RunKind, SavedRun, SessionOutcome};
use pagewise_model::spec::SessionSpec;
use pagewise_remedy::apply::record;
use pagewise_remedy::derived;
use pagewise_remedy::receipt::ReceiptConditions;
use pagewise_remedy::unit;
use pagewise_tracee::launch::ProgramLaunch;
use pagewise_tune::conditions;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit code: a gain has vanished.
const VANISHED: u8 = 1;

/// Measures proven gains again.
pub(super) fn run(args: &args::RecheckArgs) -> Result<ExitCode, CommandFailure> {
    if args.unit {
        return print_unit();
    }
    let gains = wanted(args)?;
    let _lock = experiment::lock(args.patience)?;
    let mut done = Vec::new();
    for gain in gains {
        let one = again(gain, args)?;
        if !args.json {
            terminal::print(&pagewise_report::recheck_page(&one).text(&terminal::style()))?;
        }
        store::save_recheck(&one)?;
        done.push(one);
    }
    if args.json {
        terminal::print_json(&done)?;
    }
    Ok(ExitCode::from(code(&done)))
}

/// A gain to measure again, and the run that proved it.
struct ProvenGain {
    run: String,
    arm: String,
    saved: Result<SavedRun, CommandFailure>,
}

/// The gains of the named runs, or of all applied receipts. A named run must have a gain. For a receipt
/// without one, the answer says so.
fn wanted(args: &args::RecheckArgs) -> Result<Vec<ProvenGain>, CommandFailure> {
    if !args.runs.is_empty() {
        let named = |which: &String| {
            let saved = store::load(Some(which))?;
            Ok(ProvenGain {
                run: saved.id.clone(),
                arm: proven(&saved)?.to_owned(),
                saved: Ok(saved),
            })
        };
        return args.runs.iter().map(named).collect();
    }
    let applied = record::all().map_err(apply::failure)?;
    if applied.is_empty() {
        return Err(CommandFailure::usage("no receipt was applied")
            .with_help("name the runs: pagewise recheck last"));
    }
    let mut seen = BTreeSet::new();
    let changes = applied.into_iter().map(|one| one.change);
    let once = changes.filter(|change| seen.insert(change.run.clone()));
    let wanted = once.map(|change| {
        let saved = store::load(Some(&change.run)).and_then(|run| {
            proven(&run)?;
            Ok(run)
        });
        ProvenGain { run: change.run, arm: change.arm, saved }
    });
    Ok(wanted.collect())
}

/// The arm whose gain a run has proven.
fn proven(saved: &SavedRun) -> Result<&str, CommandFailure> {
    let arm = match &saved.outcome {
        Some(SessionOutcome::Proven { keep }) if saved.kind == RunKind::Tune => keep.first(),
        _ => None,
    };
    arm.map(String::as_str).ok_or_else(|| {
        CommandFailure::usage(format!("run `{}` has no proven gain", saved.id))
            .with_help("pagewise history lists the runs with their outcome")
    })
}

/// Measures one gain again. The answer includes obstacles, except if nothing can be measured now.
fn again(wanted: ProvenGain, args: &args::RecheckArgs) -> Result<GainRecheck, CommandFailure> {
    let mut one = GainRecheck {
        at_unix_ns: clock::unix_now().0,
        run: wanted.run,
        command: Vec::new(),
        arm: wanted.arm,
        then: None,
        now: None,
        standing: GainStanding::CannotTell,
        change: None,
        new_run: None,
        problem: None,
    };
    match wanted.saved.and_then(|saved| session(&saved, args, &mut one)) {
        Ok(run) => {
            let now = verdict(&run, &one.arm);
            (one.now, one.standing) = (gain(now), standing(now));
            one.new_run = Some(run.id).filter(|id| !id.is_empty());
        }
        Err(failure) if [UNFIT, INTERRUPTED].contains(&failure.code) => return Err(failure),
        Err(failure) => one.problem = Some(failure.message),
    }
    Ok(one)
}

/// A new session with only the arm of `one`, under the conditions of the saved one.
fn session(
    saved: &SavedRun,
    args: &args::RecheckArgs,
    one: &mut GainRecheck,
) -> Result<SavedRun, CommandFailure> {
    one.command.clone_from(&saved.command);
    one.then = gain(verdict(saved, &one.arm));
    let refused = |why: &str| CommandFailure::usage(why.to_owned());
    if saved.service.is_some() {
        return Err(refused("a session of a service is not repeated: run tune --serve again"));
    }
    let spec = saved.spec.clone().filter(SessionSpec::is_repeatable);
    let spec = spec.ok_or_else(|| refused("its command cannot be repeated exactly"))?;
    let options = ExperimentArgs {
        budget: args.budget,
        rerun_safe: true,
        quiet: args.quiet,
        ..ExperimentArgs::default()
    };
    let mut request = tune::repeated(spec, &options)?;
    let wrappers = record::wrappers().map_err(apply::failure)?;
    request.spec.command = beyond(request.spec.command, &wrappers)?;
    request.here = ReceiptConditions::now(&request.spec.command);
    one.change = conditions::changed(saved, &machine(), &request.here.program);
    match saved.doses_of(&one.arm) {
        Some(doses) => {
            let doses = derived(doses, &machine());
            request.spec.only =
                Some(doses.map_err(|error| CommandFailure::usage(error.to_string()))?);
            request.spec.own_arms = Vec::new();
        }
        None => {
            request.spec.only = Some(Vec::new());
            request.spec.own_arms.retain(|own| own.name == one.arm);
            for own in &mut request.spec.own_arms {
                own.command = beyond(std::mem::take(&mut own.command), &wrappers)?;
            }
        }
    }
    let (mut run, end) = tune::race(&request, None, args.quiet)?;
    if let Some(stop) = end {
        return Err(experiment::failure(&stop));
    }
    run.environment = experiment::environment();
    experiment::keep(&mut run);
    match run.outcome {
        Some(SessionOutcome::Interrupted) => Err(interrupted()),
        _ => Ok(run),
    }
}

/// The command. If PATH leads to a wrapper written by `apply`, which already holds the remedy, the program
/// becomes the file behind the wrapper.
fn beyond(
    mut command: Vec<OsString>,
    wrappers: &[PathBuf],
) -> Result<Vec<OsString>, CommandFailure> {
    let launch = ProgramLaunch::experiment(command.clone());
    let file = launch.file_beyond(wrappers)?;
    if let Some(program) = command.first_mut().filter(|_| launch.file() != Ok(file.clone())) {
        *program = file.into();
    }
    Ok(command)
}

/// The exit code. A vanished gain outranks a failed run, which outranks an undecided result.
fn code(done: &[GainRecheck]) -> u8 {
    let any = |standing| done.iter().any(|one| one.standing == standing);
    if any(GainStanding::Vanished) {
        VANISHED
    } else if done.iter().any(|one| one.problem.is_some()) {
        USAGE
    } else if any(GainStanding::CannotTell) {
        UNFIT
    } else {
        0
    }
}

fn print_unit() -> Result<ExitCode, CommandFailure> {
    let lines = unit::rechecking(&apply::unit_program()?).map_err(|why| {
        CommandFailure::usage(format!("cannot make a systemd unit: {why}"))
            .with_help("move pagewise to a plain path, such as /usr/local/bin")
    })?;
    terminal::print(&(lines.join("\n") + "\n"))?;
    Ok(ExitCode::SUCCESS)
}
