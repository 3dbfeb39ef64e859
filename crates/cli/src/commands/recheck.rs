//! `pagewise recheck`

use super::helper::own_exe;
use super::signals::INTERRUPTED;
use super::{apply, experiment, tune};
use crate::args::{self, ExperimentArgs};
use crate::failure::{Failure, UNFIT, USAGE};
use crate::{store, terminal};
use pagewise_judge::recheck::{gain, standing, verdict};
use pagewise_kernel::clock;
use pagewise_kernel::machine::machine;
use pagewise_model::recheck::{Recheck, Standing};
use pagewise_model::run::{Outcome, Run, RunKind};
use pagewise_remedy::apply::record;
use pagewise_remedy::unit;
use pagewise_tune::conditions;
use pagewise_tune::session::Session;
use std::process::ExitCode;

/// A gain has vanished.
const VANISHED: u8 = 1;

/// Measures again what was proven.
pub(super) fn run(args: &args::Recheck) -> Result<ExitCode, Failure> {
    if args.unit {
        return print_unit();
    }
    let runs = wanted(args)?;
    let _lock = experiment::lock(None)?;
    let mut done = Vec::new();
    for run in &runs {
        let one = again(run, args)?;
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

/// The runs that were named, or those whose receipts were applied.
fn wanted(args: &args::Recheck) -> Result<Vec<Run>, Failure> {
    if !args.runs.is_empty() {
        return args.runs.iter().map(|which| store::load(Some(which))).collect();
    }
    let mut names: Vec<String> =
        record::all().map_err(apply::failure)?.into_iter().map(|one| one.change.run).collect();
    names.dedup();
    if names.is_empty() {
        return Err(Failure::usage("no receipt was applied")
            .with_help("name the runs: pagewise recheck last"));
    }
    names.iter().map(|name| store::load(Some(name))).collect()
}

/// One gain, measured again. What stands against it is part of the answer, unless nothing can be measured now.
fn again(saved: &Run, args: &args::Recheck) -> Result<Recheck, Failure> {
    let arm = match &saved.outcome {
        Some(Outcome::Proven { keep }) if saved.kind == RunKind::Tune => keep.first(),
        _ => None,
    };
    let arm = arm.ok_or_else(|| {
        Failure::usage(format!("run `{}` has no proven gain", saved.id))
            .with_help("pagewise history lists the runs with their outcome")
    })?;
    let mut one = Recheck {
        at_unix_ns: clock::unix_now().0,
        run: saved.id.clone(),
        command: saved.command.clone(),
        arm: arm.clone(),
        then: gain(verdict(saved, arm)),
        now: None,
        standing: Standing::CannotTell,
        change: None,
        new_run: None,
        problem: None,
    };
    match session(saved, arm, args, &mut one) {
        Ok(run) => {
            let now = verdict(&run, arm);
            (one.now, one.standing) = (gain(now), standing(now));
            one.new_run = Some(run.id.clone()).filter(|id| !id.is_empty());
        }
        Err(failure) if [UNFIT, INTERRUPTED].contains(&failure.code) => return Err(failure),
        Err(failure) => one.problem = Some(failure.message),
    }
    Ok(one)
}

/// A new session with only this arm, under the conditions of the saved one.
fn session(
    saved: &Run,
    arm: &str,
    args: &args::Recheck,
    one: &mut Recheck,
) -> Result<Run, Failure> {
    let refused = |why: &str| Failure::usage(why.to_owned());
    if saved.service.is_some() {
        return Err(refused("a session of a service is not repeated: run tune --serve again"));
    }
    let conditions = saved.conditions.clone();
    let conditions = conditions.ok_or_else(|| refused("its command cannot be repeated exactly"))?;
    let options = ExperimentArgs {
        budget: args.budget,
        rerun_safe: true,
        quiet: args.quiet,
        ..ExperimentArgs::default()
    };
    let mut request = tune::saved_request(saved, &conditions, &options)?;
    one.change = conditions::changed(saved, &conditions, &machine(), &request.here.program);
    match saved.doses_of(arm) {
        Some(doses) => {
            request.only = Some(doses.to_vec());
            request.own_arms = Vec::new();
        }
        None => {
            request.only = Some(Vec::new());
            request.own_arms.retain(|own| own.name == arm);
        }
    }
    let (mut run, end) = tune::race(&request, Session::new(&request), args.quiet)?;
    if let Some(stop) = end {
        return Err(experiment::failure(&stop));
    }
    run.environment = experiment::environment();
    experiment::keep(&mut run);
    match run.outcome {
        Some(Outcome::Interrupted) => Err(Failure::usage("interrupted").with_code(INTERRUPTED)),
        _ => Ok(run),
    }
}

/// A gain that vanished comes before a run that failed, and that before what is not settled.
fn code(done: &[Recheck]) -> u8 {
    let any = |standing| done.iter().any(|one| one.standing == standing);
    if any(Standing::Vanished) {
        VANISHED
    } else if done.iter().any(|one| one.problem.is_some()) {
        USAGE
    } else if any(Standing::CannotTell) {
        UNFIT
    } else {
        0
    }
}

fn print_unit() -> Result<ExitCode, Failure> {
    let lines = unit::rechecking(&own_exe()?).map_err(|why| {
        Failure::usage(format!("cannot make a systemd unit: {why}"))
            .with_help("move pagewise to a plain path, such as /usr/local/bin")
    })?;
    terminal::print(&(lines.join("\n") + "\n"))?;
    Ok(ExitCode::SUCCESS)
}
