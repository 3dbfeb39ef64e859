//! `pagewise tune`

mod live;
pub(super) mod serve;

use super::experiment;
use super::helper;
use super::progress::ProgressDisplay;
use super::signals;
use crate::args::{ExperimentArgs, HelperRole, TuneArgs};
use crate::failure::CommandFailure;
use crate::store;
use pagewise_judge::guards;
use pagewise_model::guard::ArmGuard;
use pagewise_model::run::{RunKind, SavedRun};
use pagewise_model::spec::{OwnArm, SessionSpec};
use pagewise_model::trial::ComparedQuantity;
use pagewise_remedy::derived;
use pagewise_remedy::reservation::PoolPermit;
use pagewise_tracee::launch::{ProgramLaunch, StdinSource};
use pagewise_tune::live::RealWorld;
use pagewise_tune::session;
use pagewise_tune::{SessionRequest, SessionStop, conditions};
use std::process::ExitCode;

/// Help text: how to give an arm.
const ARM_HELP: &str = "--arm 'name=env GLIBC_TUNABLES=... ./program'";

/// Diagnoses, tries, proves and prints the receipt.
pub(crate) fn run(args: &TuneArgs) -> Result<ExitCode, CommandFailure> {
    if let Some(command) = &args.service.serve {
        return serve::run(args, command);
    }
    if let Some(pid) = args.service.pid {
        return live::run(args, pid);
    }
    let (mut request, earlier) = match &args.earlier {
        Some(which) => {
            let (request, saved) = continued(which, &args.experiment)?;
            if request.spec.service.is_some() {
                return serve::go_on(&args.experiment, request, saved);
            }
            (request, Some(saved))
        }
        None => (fresh(args)?, None),
    };
    let _lock = experiment::lock(args.experiment.patience)?;
    if args.system {
        let refused =
            |why| CommandFailure::unfit(why).with_help("leave out --system to change no settings");
        request.system = Some(PoolPermit::obtain().map_err(refused)?);
    }
    let (run, end) = race(&request, earlier, args.experiment.quiet)?;
    experiment::conclude(run, end, &args.experiment)
}

/// Runs a session on this machine, or continues a saved one. Returns the run, and why it ended early.
pub(super) fn race(
    request: &SessionRequest,
    saved: Option<SavedRun>,
    quiet: bool,
) -> Result<(SavedRun, Option<SessionStop>), CommandFailure> {
    let stop = signals::stop_flag()?;
    let mut display = ProgressDisplay::new(quiet);
    let mut listener = |event: &pagewise_tune::world::SessionEvent<'_>| display.tell(event);
    let exe = helper::own_exe()?;
    let recording = helper::timing(&exe);
    let words = helper::words(HelperRole::Supervise);
    let world = RealWorld::start(request, &exe, &words, recording, stop, &mut listener);
    let raced = match world {
        Ok(mut world) => session::run(request, saved, &mut world),
        Err(stop) => return Err(experiment::failure(&stop)),
    };
    display.finish();
    Ok(raced)
}

/// The quantities that may decide, the default first, and what guards may bound.
struct TuneGoals {
    quantities: &'static [ComparedQuantity],
    has_errors: bool,
    usual_guards: fn(ComparedQuantity) -> Vec<ArmGuard>,
}

/// Goals of a program that ends.
const PROGRAM: TuneGoals = TuneGoals {
    quantities: &[ComparedQuantity::Time, ComparedQuantity::Cpu, ComparedQuantity::Memory],
    has_errors: false,
    usual_guards: guards::usual,
};

/// The deciding quantity, and the guards that limit an arm.
fn goal(
    args: &TuneArgs,
    goals: &TuneGoals,
) -> Result<(ComparedQuantity, Vec<ArmGuard>), CommandFailure> {
    let quantity = args.goal.unwrap_or(goals.quantities[0]);
    if !goals.quantities.contains(&quantity) {
        let names: Vec<&str> = goals.quantities.iter().map(|one| one.into_str()).collect();
        let why = format!("--goal {} does not fit: use {}", quantity.into_str(), names.join(", "));
        return Err(CommandFailure::usage(why));
    }
    let typed =
        args.guards.iter().map(|text| guards::parse(text, goals.quantities, goals.has_errors));
    let typed: Vec<ArmGuard> = typed
        .collect::<Result<_, _>>()
        .map_err(|why| CommandFailure::usage(format!("--guard {why}")))?;
    let guards = if typed.is_empty() { (goals.usual_guards)(quantity) } else { typed };
    Ok((quantity, guards))
}

/// The request that the command line describes.
fn fresh(args: &TuneArgs) -> Result<SessionRequest, CommandFailure> {
    let mut request = experiment::request(&args.experiment, args.command.clone(), true)?;
    (request.spec.quantity, request.spec.guards) = goal(args, &PROGRAM)?;
    request.spec.advise = args.advise;
    request.spec.own_arms = args.arms.iter().map(|arm| own_arm(arm)).collect::<Result<_, _>>()?;
    refuse_arms(&request)?;
    if let Some(list) = &args.only {
        request.spec.only = Some(super::run::doses(list, &request.spec.command)?);
    }
    Ok(request)
}

/// The request of a saved session, and the session. Refuses to continue if new runs cannot be compared with
/// the saved ones.
fn continued(
    which: &str,
    args: &ExperimentArgs,
) -> Result<(SessionRequest, SavedRun), CommandFailure> {
    let mut saved = store::load(Some(which))?;
    let refused = |why: &str| {
        CommandFailure::usage(format!("cannot continue `{which}`: {why}"))
            .with_help("start a new session: pagewise tune -- CMD")
    };
    let is_halted = saved.experiment.as_ref().is_none_or(|e| e.halted.is_some());
    if saved.kind != RunKind::Tune || is_halted || saved.look.is_none() {
        return Err(refused("it is not a `tune` session with an arm"));
    }
    let Some(spec) = saved.spec.clone().filter(|_| saved.can_continue()) else {
        return Err(refused("its command or its input cannot be repeated exactly"));
    };
    if saved.environment != experiment::environment() {
        return Err(refused("variables such as GLIBC_TUNABLES have changed"));
    }
    let mut request = repeated(spec, args).map_err(|e| refused(&e.message))?;
    let machine = pagewise_kernel::machine::machine();
    for (_, doses) in &mut saved.doses {
        *doses = derived(doses, &machine).map_err(|error| refused(&error.to_string()))?;
    }
    request.spec.only = Some(saved.doses.iter().flat_map(|(_, doses)| doses.clone()).collect());
    if let Some(why) = conditions::changed(&saved, &machine, &request.here.program) {
        return Err(refused(&why));
    }
    Ok((request, saved))
}

/// The request of a saved session with new options. This process changes to the session's directory.
pub(super) fn repeated(
    spec: SessionSpec,
    args: &ExperimentArgs,
) -> Result<SessionRequest, CommandFailure> {
    std::env::set_current_dir(&spec.directory).map_err(|e| {
        CommandFailure::usage(format!("its directory `{}`: {e}", spec.directory.display()))
    })?;
    let input = spec.input.elsewhere().unwrap_or(StdinSource::Null);
    let new = experiment::request_of(args, spec.command.clone(), input)?;
    let spec = SessionSpec {
        input: new.spec.input,
        rerun_safe: spec.rerun_safe || new.spec.rerun_safe,
        in_turn: spec.in_turn || new.spec.in_turn,
        advise: false,
        only: None,
        budget_ns: new.spec.budget_ns,
        seed: new.spec.seed,
        ..spec
    };
    Ok(SessionRequest { spec, ..new })
}

/// Refuses arms with the same name or without a program, before seconds are spent on prices.
fn refuse_arms(request: &SessionRequest) -> Result<(), CommandFailure> {
    if let Some(why) = request.unfit_arm() {
        return Err(CommandFailure::usage(format!("--arm: {why}")).with_help(ARM_HELP));
    }
    for arm in &request.spec.own_arms {
        ProgramLaunch::experiment(arm.command.clone()).check()?;
    }
    Ok(())
}

/// Parses `NAME=COMMAND`; the command is split into words like a shell does.
fn own_arm(text: &str) -> Result<OwnArm, CommandFailure> {
    let bad =
        |why: &str| CommandFailure::usage(format!("--arm `{text}`: {why}")).with_help(ARM_HELP);
    let (name, command) = text.split_once('=').ok_or_else(|| bad("use NAME=COMMAND"))?;
    let words = shlex::split(command).ok_or_else(|| bad("a quote is missing"))?;
    Ok(OwnArm { name: name.to_owned(), command: words.into_iter().map(Into::into).collect() })
}
