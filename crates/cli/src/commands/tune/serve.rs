//! `pagewise tune --serve`

use super::Goals;
use crate::args::{ExperimentArgs, Part, ServiceArgs, Tune};
use crate::commands::experiment;
use crate::commands::progress::Display;
use crate::commands::signals;
use crate::commands::{helper, run::doses};
use crate::failure::Failure;
use pagewise_judge::service::load::Metric;
use pagewise_judge::service::{GUARDED, usual_guards};
use pagewise_model::run::Run;
use pagewise_model::spec::{ServerSpec, ServiceSpec};
use pagewise_tracee::launch::Input;
use pagewise_tune::Request as Base;
use pagewise_tune::service::{self, Request};
use std::process::ExitCode;

/// Goals for a service.
const SERVICE: Goals = Goals { quantities: &GUARDED, has_errors: true, usual_guards };

/// Tunes a server under its load.
pub(super) fn run(args: &Tune, serve: &str) -> Result<ExitCode, Failure> {
    session(&request(args, serve)?, None, &args.experiment)
}

/// Continues a saved session.
pub(super) fn go_on(args: &ExperimentArgs, base: Base, saved: Run) -> Result<ExitCode, Failure> {
    let request = Request::new(base)
        .map_err(|why| Failure::usage(format!("cannot continue `{}`: {why}", saved.id)))?;
    session(&request, Some(saved), args)
}

fn session(
    request: &Request,
    saved: Option<Run>,
    args: &ExperimentArgs,
) -> Result<ExitCode, Failure> {
    let _lock = experiment::lock(args.patience)?;
    let stop = signals::stop_flag()?;
    let mut display = Display::new(args.quiet);
    let mut listener = |event: &pagewise_tune::world::Event<'_>| display.tell(event);
    let exe = helper::own_exe()?;
    let words = helper::words(Part::Supervise);
    let (run, end) = service::run(request, saved, exe, &words, stop, &mut listener);
    display.finish();
    experiment::conclude(run, end, args)
}

fn request(args: &Tune, serve: &str) -> Result<Request, Failure> {
    let asked = &args.service;
    let command = shlex::split(serve).filter(|words| !words.is_empty());
    let command = command.ok_or_else(|| {
        Failure::usage(format!("--serve `{serve}`: a quote is missing, or there is no command"))
    })?;
    let command = command.into_iter().map(Into::into).collect();
    let mut base = experiment::request_of(&args.experiment, command, Input::Null)?;
    base.spec.advise = args.advise;
    base.spec.own_arms =
        args.arms.iter().map(|arm| super::own_arm(arm)).collect::<Result<_, _>>()?;
    super::refuse_arms(&base)?;
    if let Some(list) = &args.only {
        let only = doses(list, &base.spec.command)?;
        if let Some(why) = only.iter().find_map(service::unfit_dose) {
            return Err(Failure::usage(format!("--only: {why}")));
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
    Request::new(base).map_err(Failure::usage)
}

/// The load.
pub(super) fn service(
    args: &Tune,
    serve: String,
    server: ServerSpec,
) -> Result<ServiceSpec, Failure> {
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
fn metric(asked: &ServiceArgs, load: &str) -> Result<Metric, Failure> {
    if let Some(name) = &asked.metric {
        return name.parse().map_err(|why| Failure::usage(format!("--metric: {why}")));
    }
    Metric::guess(load).ok_or_else(|| {
        Failure::usage("cannot tell how the load reports its requests")
            .with_help("name it, for example: --metric wrk, or --metric 'regex:([0-9]+) requests'")
    })
}
