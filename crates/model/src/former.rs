//! Runs of schema 4 and before, which hold the user's request in four places.

use crate::bounded::BoundedDocument;
use crate::conditions::FileMark;
use crate::guard::ArmGuard;
use crate::service::ServiceMode;
use crate::spec::{OwnArm, ServerSpec, ServiceSpec, SessionSpec, StdinSource, StdoutTarget};
use crate::trial::ComparedQuantity;
use crate::units::Nanos;
use serde::Deserialize;
use std::path::PathBuf;

#[derive(Deserialize)]
struct FormerRun {
    command: Vec<String>,
    input: Option<PathBuf>,
    stdout: Option<StdoutTarget>,
    experiment: Option<FormerExperiment>,
    service: Option<FormerService>,
    conditions: Option<FormerConditions>,
}

#[derive(Deserialize)]
struct FormerExperiment {
    design: FormerDesign,
}

#[derive(Deserialize)]
struct FormerDesign {
    #[serde(default)]
    quantity: ComparedQuantity,
    #[serde(default)]
    guards: Vec<ArmGuard>,
    seed: u64,
    budget_ns: Nanos,
}

#[derive(Deserialize)]
struct FormerConditions {
    directory: PathBuf,
    outputs: Vec<PathBuf>,
    prepare: Option<String>,
    cleanup: Option<String>,
    ignore_failure: bool,
    #[serde(deserialize_with = "crate::name::by_arm")]
    own_arms: Vec<(String, Vec<String>)>,
    files: Vec<FileMark>,
}

#[derive(Deserialize)]
struct FormerService {
    serve: String,
    pid: Option<i32>,
    load: String,
    metric: String,
    asked: Option<FormerAsked>,
}

#[derive(Deserialize)]
struct FormerAsked {
    ready: String,
    ready_within_ns: Nanos,
    stop: Option<String>,
    stop_within_ns: Nanos,
    load_within_ns: Nanos,
    warm_up_ns: Nanos,
    mode: Option<ServiceMode>,
}

impl FormerService {
    /// The request for a service. Without the request for its servers a session could not be continued, and
    /// cannot be now.
    fn spec(self) -> ServiceSpec {
        let (load_within_ns, warm_up_ns) = self
            .asked
            .as_ref()
            .map_or((Nanos(0), Nanos(0)), |asked| (asked.load_within_ns, asked.warm_up_ns));
        let server = match (self.asked, self.pid) {
            (Some(asked), None) => ServerSpec::Started {
                ready: asked.ready,
                ready_within_ns: asked.ready_within_ns,
                stop: asked.stop,
                stop_within_ns: asked.stop_within_ns,
                mode: asked.mode,
            },
            (_, pid) => ServerSpec::Running { pid: pid.unwrap_or_default() },
        };
        let Self { serve, load, metric, .. } = self;
        ServiceSpec { serve, server, load, load_within_ns, metric, warm_up_ns }
    }
}

/// The request, if the session could be continued or was one of a service, and the files that its runs
/// depended on.
pub(crate) fn asked(
    run: &BoundedDocument<'_>,
) -> Result<(Option<SessionSpec>, Vec<FileMark>), serde_json::Error> {
    let run: FormerRun = run.read()?;
    if run.conditions.is_none() && run.service.is_none() && run.stdout.is_none() {
        return Ok((None, Vec::new()));
    }
    let design = run.experiment.map(|experiment| experiment.design);
    let words = |words: Vec<String>| words.into_iter().map(Into::into).collect();
    let seed = design.as_ref().map_or(0, |design| design.seed);
    let mut spec = SessionSpec {
        input: run.input.map_or(StdinSource::Null, StdinSource::File),
        stdout: run.stdout.unwrap_or(StdoutTarget::Null),
        service: run.service.map(FormerService::spec),
        ..SessionSpec::new(words(run.command), PathBuf::new(), seed)
    };
    if let Some(design) = design {
        (spec.quantity, spec.guards) = (design.quantity, design.guards);
        spec.budget_ns = Some(design.budget_ns);
    }
    let Some(then) = run.conditions else { return Ok((Some(spec), Vec::new())) };
    (spec.directory, spec.outputs) = (then.directory, then.outputs);
    (spec.prepare, spec.cleanup) = (then.prepare, then.cleanup);
    spec.ignore_failure = then.ignore_failure;
    let arm = |(name, command)| OwnArm { name, command: words(command) };
    spec.own_arms = then.own_arms.into_iter().map(arm).collect();
    Ok((Some(spec), then.files))
}
