//! `pagewise tune`

mod live;
mod serve;

use super::experiment;
use super::helper;
use super::progress::Display;
use super::signals;
use crate::args::{ExperimentArgs, Part, Tune};
use crate::failure::Failure;
use crate::store;
use pagewise_judge::guards;
use pagewise_model::guard::Guard;
use pagewise_model::run::{Run, RunKind};
use pagewise_model::spec::{OwnArm, Spec};
use pagewise_model::trial::Quantity;
use pagewise_remedy::derived;
use pagewise_remedy::reservation::Permit;
use pagewise_tracee::launch::{Input, Launch};
use pagewise_tune::live::Live;
use pagewise_tune::session;
use pagewise_tune::{Request, Stop, conditions};
use std::process::ExitCode;

/// Help text: how to give an arm.
const ARM_HELP: &str = "--arm 'name=env GLIBC_TUNABLES=... ./program'";

/// Diagnoses, tries, proves and prints the receipt.
pub(crate) fn run(args: &Tune) -> Result<ExitCode, Failure> {
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
            |why| Failure::unfit(why).with_help("leave out --system to change no settings");
        request.system = Some(Permit::obtain().map_err(refused)?);
    }
    let (run, end) = race(&request, earlier, args.experiment.quiet)?;
    experiment::conclude(run, end, &args.experiment)
}

/// Runs a session on this machine, or continues a saved one. Returns the run, and why it ended early.
pub(super) fn race(
    request: &Request,
    saved: Option<Run>,
    quiet: bool,
) -> Result<(Run, Option<Stop>), Failure> {
    let stop = signals::stop_flag()?;
    let mut display = Display::new(quiet);
    let mut listener = |event: &pagewise_tune::world::Event<'_>| display.tell(event);
    let exe = helper::own_exe()?;
    let recording = helper::timing(&exe);
    let words = helper::words(Part::Supervise);
    let world = Live::start(request, &exe, &words, recording, stop, &mut listener);
    let raced = match world {
        Ok(mut world) => session::run(request, saved, &mut world),
        Err(stop) => return Err(experiment::failure(&stop)),
    };
    display.finish();
    Ok(raced)
}

/// The quantities that may decide, the default first, and what guards may bound.
struct Goals {
    quantities: &'static [Quantity],
    has_errors: bool,
    usual_guards: fn(Quantity) -> Vec<Guard>,
}

/// Goals of a program that ends.
const PROGRAM: Goals = Goals {
    quantities: &[Quantity::Time, Quantity::Cpu, Quantity::Memory],
    has_errors: false,
    usual_guards: guards::usual,
};

/// The deciding quantity, and the guards that limit an arm.
fn goal(args: &Tune, goals: &Goals) -> Result<(Quantity, Vec<Guard>), Failure> {
    let quantity = args.goal.unwrap_or(goals.quantities[0]);
    if !goals.quantities.contains(&quantity) {
        let names: Vec<&str> = goals.quantities.iter().map(|one| one.into_str()).collect();
        let why = format!("--goal {} does not fit: use {}", quantity.into_str(), names.join(", "));
        return Err(Failure::usage(why));
    }
    let typed =
        args.guards.iter().map(|text| guards::parse(text, goals.quantities, goals.has_errors));
    let typed: Vec<Guard> =
        typed.collect::<Result<_, _>>().map_err(|why| Failure::usage(format!("--guard {why}")))?;
    let guards = if typed.is_empty() { (goals.usual_guards)(quantity) } else { typed };
    Ok((quantity, guards))
}

/// The request that the command line describes.
fn fresh(args: &Tune) -> Result<Request, Failure> {
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
fn continued(which: &str, args: &ExperimentArgs) -> Result<(Request, Run), Failure> {
    let mut saved = store::load(Some(which))?;
    let refused = |why: &str| {
        Failure::usage(format!("cannot continue `{which}`: {why}"))
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
pub(super) fn repeated(spec: Spec, args: &ExperimentArgs) -> Result<Request, Failure> {
    std::env::set_current_dir(&spec.directory).map_err(|e| {
        Failure::usage(format!("its directory `{}`: {e}", spec.directory.display()))
    })?;
    let input = spec.input.elsewhere().unwrap_or(Input::Null);
    let new = experiment::request_of(args, spec.command.clone(), input)?;
    let spec = Spec {
        input: new.spec.input,
        rerun_safe: spec.rerun_safe || new.spec.rerun_safe,
        in_turn: spec.in_turn || new.spec.in_turn,
        advise: false,
        only: None,
        budget_ns: new.spec.budget_ns,
        seed: new.spec.seed,
        ..spec
    };
    Ok(Request { spec, ..new })
}

/// Refuses arms with the same name or without a program, before seconds are spent on prices.
fn refuse_arms(request: &Request) -> Result<(), Failure> {
    if let Some(why) = request.unfit_arm() {
        return Err(Failure::usage(format!("--arm: {why}")).with_help(ARM_HELP));
    }
    for arm in &request.spec.own_arms {
        Launch::experiment(arm.command.clone()).check()?;
    }
    Ok(())
}

/// Parses `NAME=COMMAND`; the command is split into words like a shell does.
fn own_arm(text: &str) -> Result<OwnArm, Failure> {
    let bad = |why: &str| Failure::usage(format!("--arm `{text}`: {why}")).with_help(ARM_HELP);
    let (name, command) = text.split_once('=').ok_or_else(|| bad("use NAME=COMMAND"))?;
    let words = shlex::split(command).ok_or_else(|| bad("a quote is missing"))?;
    Ok(OwnArm { name: name.to_owned(), command: words.into_iter().map(Into::into).collect() })
}
