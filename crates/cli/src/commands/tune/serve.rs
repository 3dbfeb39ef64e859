//! `pagewise tune --serve`

use super::TuneGoals;
use crate::args::{ExperimentArgs, HelperRole, ServiceArgs, TuneArgs};
use crate::commands::experiment;
use crate::commands::progress::ProgressDisplay;
use crate::commands::signals;
use crate::commands::{helper, run::doses};
use crate::failure::CommandFailure;
use pagewise_judge::service::load::LoadMetric;
use pagewise_judge::service::{GUARDED, usual_guards};
use pagewise_model::run::SavedRun;
use pagewise_model::spec::{ServerSpec, ServiceSpec};
use pagewise_tracee::launch::StdinSource;
use pagewise_tune::SessionRequest as Base;
use pagewise_tune::service::{self, ServiceRequest};
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
    let command = shlex::split(serve).filter(|words| !words.is_empty());
    let command = command.ok_or_else(|| {
        CommandFailure::usage(format!(
            "--serve `{serve}`: a quote is missing, or there is no command"
        ))
    })?;
    let command = command.into_iter().map(Into::into).collect();
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
    base.spec.service = Some(service(
        args,
        serve.to_owned(),
        ServerSpec::Started {
            ready: asked.ready.clone().unwrap_or_default(),
            ready_within_ns: asked.ready_time,
            stop: asked.stop.clone(),
            stop_within_ns: asked.stop_time,
            mode: asked.mode.mode(),
        },
    )?);
    (base.spec.quantity, base.spec.guards) = super::goal(args, &SERVICE)?;
    ServiceRequest::new(base).map_err(CommandFailure::usage)
}

/// The load.
pub(super) fn service(
    args: &TuneArgs,
    serve: String,
    server: ServerSpec,
) -> Result<ServiceSpec, CommandFailure> {
    let asked = &args.service;
    let load = asked.load.clone().unwrap_or_default();
    Ok(ServiceSpec {
        serve,
        server,
        metric: metric(asked, &load)?.to_string(),
        load,
        load_within_ns: asked.load_time,
        warm_up_ns: asked.warmup,
    })
}

/// The parser of the load generator's output.
fn metric(asked: &ServiceArgs, load: &str) -> Result<LoadMetric, CommandFailure> {
    if let Some(name) = &asked.metric {
        return name.parse().map_err(|why| CommandFailure::usage(format!("--metric: {why}")));
    }
    LoadMetric::guess(load).ok_or_else(|| {
        CommandFailure::usage("cannot tell how the load reports its requests")
            .with_help("name it, for example: --metric wrk, or --metric 'regex:([0-9]+) requests'")
    })
}
