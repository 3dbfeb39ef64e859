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
use pagewise_tracee::launch::Input;
use pagewise_tune::Request as Base;
use pagewise_tune::service::{self, Ready, Request, Terms, Ways};
use std::process::ExitCode;

/// What may decide about a service.
const SERVICE: Goals = Goals { quantities: &GUARDED, has_errors: true, usual_guards };

/// Tunes a server under its load.
pub(super) fn run(args: &Tune, serve: &str) -> Result<ExitCode, Failure> {
    session(&request(args, serve)?, None, &args.experiment)
}

/// Goes on with a saved session.
pub(super) fn go_on(args: &ExperimentArgs, base: Base, saved: Run) -> Result<ExitCode, Failure> {
    let request = again(base, &saved)
        .map_err(|why| Failure::usage(format!("cannot continue `{}`: {why}", saved.id)))?;
    session(&request, Some(saved), args)
}

fn session(
    request: &Request,
    saved: Option<Run>,
    args: &ExperimentArgs,
) -> Result<ExitCode, Failure> {
    let _lock = experiment::lock(args.wait)?;
    let stop = signals::stop_flag()?;
    let mut display = Display::new(args.quiet);
    let mut listener = |event: &pagewise_tune::world::Event<'_>| display.tell(event);
    let exe = helper::own_exe()?;
    let words = helper::words(Part::Supervise);
    let (run, end) = service::run(request, saved, exe, &words, stop, &mut listener);
    display.finish();
    experiment::conclude(run, end, args)
}

/// The request of a saved session.
fn again(mut base: Base, saved: &Run) -> Result<Request, String> {
    let service = saved.service.as_ref();
    let (service, asked) = service
        .and_then(|service| Some((service, service.asked.as_ref()?)))
        .ok_or("how its servers are started was not saved")?;
    base.only = Some(saved.doses.iter().flat_map(|(_, doses)| doses.clone()).collect());
    Ok(Request {
        serve: service.serve.clone(),
        ways: Ways {
            ready: Ready::parse(&asked.ready)?,
            ready_within: asked.ready_within_ns,
            stop: asked.stop.clone(),
            stop_within: asked.stop_within_ns,
        },
        mode: asked.mode,
        terms: Terms {
            load: service.load.clone(),
            load_within: asked.load_within_ns,
            metric: service.metric.parse()?,
            warm_up: asked.warm_up_ns,
            goal: base.quantity,
            guards: base.guards.clone(),
        },
        base,
    })
}

fn request(args: &Tune, serve: &str) -> Result<Request, Failure> {
    let asked = &args.service;
    let command = shlex::split(serve).filter(|words| !words.is_empty());
    let command = command.ok_or_else(|| {
        Failure::usage(format!("--serve `{serve}`: a quote is missing, or there is no command"))
    })?;
    let command = command.into_iter().map(Into::into).collect();
    let mut base = experiment::request_of(&args.experiment, command, Input::Null)?;
    base.advise = args.advise;
    base.own_arms = args.arms.iter().map(|arm| super::own_arm(arm)).collect::<Result<_, _>>()?;
    super::refuse_arms(&base)?;
    if let Some(list) = &args.only {
        let only = doses(list, &base.command)?;
        if let Some(why) = only.iter().find_map(service::unfit_dose) {
            return Err(Failure::usage(format!("--only: {why}")));
        }
        base.only = Some(only);
    }
    Ok(Request {
        base,
        serve: serve.to_owned(),
        terms: terms(args, &SERVICE)?,
        ways: Ways {
            ready: Ready::parse(asked.ready.as_deref().unwrap_or_default())
                .map_err(|why| Failure::usage(format!("--ready {why}")))?,
            ready_within: asked.ready_time,
            stop: asked.stop.clone(),
            stop_within: asked.stop_time,
        },
        mode: asked.mode.mode(),
    })
}

/// The load, and what decides.
pub(super) fn terms(args: &Tune, goals: &Goals) -> Result<Terms, Failure> {
    let asked = &args.service;
    let load = asked.load.clone().unwrap_or_default();
    let (goal, guards) = super::goal(args, goals)?;
    Ok(Terms {
        metric: metric(asked, &load)?,
        load,
        load_within: asked.load_time,
        warm_up: asked.warmup,
        goal,
        guards,
    })
}

/// What reads the generator's output.
fn metric(asked: &ServiceArgs, load: &str) -> Result<Metric, Failure> {
    if let Some(name) = &asked.metric {
        return name.parse().map_err(|why| Failure::usage(format!("--metric: {why}")));
    }
    Metric::guess(load).ok_or_else(|| {
        Failure::usage("cannot tell how the load reports its requests")
            .with_help("name it, for example: --metric wrk, or --metric 'regex:([0-9]+) requests'")
    })
}
