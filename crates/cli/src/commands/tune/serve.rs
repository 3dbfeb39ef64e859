//! `pagewise tune --serve`

use super::TuneGoals;
use crate::args::{ExperimentArgs, HelperRole, TuneArgs};
use crate::commands::experiment;
use crate::commands::progress::ProgressDisplay;
use crate::commands::signals;
use crate::commands::{helper, run::doses};
use crate::failure::CommandFailure;
use pagewise_judge::service::{GUARDED, usual_guards};
use pagewise_model::run::SavedRun;
use pagewise_tracee::launch::StdinSource;
use pagewise_tune::SessionRequest as Base;
use pagewise_tune::service::{self, ServiceRequest};
use std::ffi::OsString;
use std::process::ExitCode;

/// Goals for a service.
const SERVICE: TuneGoals = TuneGoals { quantities: &GUARDED, has_errors: true, usual_guards };

/// Tunes a server under its load.
pub(super) fn run(args: &TuneArgs, serve: &str) -> Result<ExitCode, CommandFailure> {
    session(&request(args, serve)?, None, &args.experiment)
}

/// Continues a saved session.
pub(super) fn go_on(
    args: &ExperimentArgs,
    base: Base,
    saved: SavedRun,
) -> Result<ExitCode, CommandFailure> {
    let request = ServiceRequest::new(base)
        .map_err(|why| CommandFailure::usage(format!("cannot continue `{}`: {why}", saved.id)))?;
    session(&request, Some(saved), args)
}

fn session(
    request: &ServiceRequest,
    saved: Option<SavedRun>,
    args: &ExperimentArgs,
) -> Result<ExitCode, CommandFailure> {
    let _lock = experiment::lock(args.patience)?;
    let stop = signals::stop_flag()?;
    let mut display = ProgressDisplay::new(args.quiet);
    let mut listener = |event: &pagewise_tune::world::SessionEvent<'_>| display.tell(event);
    let exe = helper::own_exe()?;
    let words = helper::words(HelperRole::Supervise);
    let (run, end) = service::run(request, saved, exe, &words, stop, &mut listener);
    display.finish();
    experiment::conclude(run, end, args)
}

fn request(args: &TuneArgs, serve: &str) -> Result<ServiceRequest, CommandFailure> {
    let asked = &args.service;
    let command = words(serve)?;
    let mut base = experiment::request_of(&args.experiment, command, StdinSource::Null)?;
    base.spec.advise = args.advise;
    base.spec.own_arms =
        args.arms.iter().map(|arm| super::own_arm(arm)).collect::<Result<_, _>>()?;
    super::refuse_arms(&base)?;
    if let Some(list) = &args.only {
        let only = doses(list, &base.spec.command)?;
        if let Some(why) = only.iter().find_map(service::unfit_dose) {
            return Err(CommandFailure::usage(format!("--only: {why}")));
        }
        base.spec.only = Some(only);
    }
    let server = asked.terms.started(asked.mode.mode());
    base.spec.service = Some(asked.terms.service(serve.to_owned(), server)?);
    (base.spec.quantity, base.spec.guards) = super::goal(args, &SERVICE)?;
    ServiceRequest::new(base).map_err(CommandFailure::usage)
}

/// The words of a server's command.
pub(in crate::commands) fn words(serve: &str) -> Result<Vec<OsString>, CommandFailure> {
    let words = shlex::split(serve).filter(|words| !words.is_empty());
    let words = words.ok_or_else(|| {
        CommandFailure::usage(format!(
            "--serve `{serve}`: a quote is missing, or there is no command"
        ))
    })?;
    Ok(words.into_iter().map(Into::into).collect())
}
