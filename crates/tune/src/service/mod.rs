//! A service under its own load: start, diagnose, race the remedies, receipt.
//!
//! A server is started for each pair of the race ([`servers`]), or a process already runs and is switched
//! ([`live`]). The session is the same ([`crate::session`]).
//!
//! Not covered: remedies that need a tracer beside the server for each start (`place` moves processes between
//! CPUs, which the race does itself), and separate machines for the generator.

mod answer;
mod durations;
mod failure;
mod halves;
mod live;
mod load;
mod look;
mod place;
mod played;
mod reach;
mod ready;
mod server;
mod servers;
mod shell;
mod stage;
mod subject;
mod switched_arm;
mod tree;
mod watched;

pub use live::{LiveServiceRequest, run as run_live};
pub use ready::ReadinessCheck;
pub use server::ServerLifecycle;
pub(crate) use shell::{AROUND, run_shell};
pub use shell::{ShellError, run_words};
pub(crate) use stage::LoadedServers;
pub use subject::HelperCommands;
pub use watched::{RunningObservation, advise};

use crate::live::Listener;
use crate::request::SessionRequest as Base;
use crate::session;
use crate::stop::SessionStop;
use pagewise_judge::service::load::LoadMetric;
use pagewise_kernel::clock;
use pagewise_model::Nanos;
use pagewise_model::plan::{FileKind, RemedyDose};
use pagewise_model::run::{RunKind, SavedRun};
use pagewise_model::service::ServiceMode;
use pagewise_model::spec::{ServerSpec, SessionSpec};
use servers::ServerSubject;
use stage::RealServerWorld;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Remedies that only change how a server starts.
const FIT: [&str; 7] =
    ["malloc-keep", "allocator", "heap-huge", "heap-small", "arenas", "trim", "text-huge"];

/// A service and its load.
#[derive(Debug, Clone)]
pub struct ServiceRequest {
    /// The part common with programs that end. Its command is the server's.
    pub base: Base,
    /// The command that starts the server, as typed.
    pub serve: String,
    /// How the server starts and ends.
    pub ways: ServerLifecycle,
    /// How servers are compared. `None` selects the mode that fits.
    pub mode: Option<ServiceMode>,
    pub terms: LoadTerms,
}

impl ServiceRequest {
    /// The session that `base` asks for.
    ///
    /// # Errors
    /// Its service cannot be started here, or its words are not understood.
    pub fn new(base: Base) -> Result<Self, String> {
        let asked = base.spec.service.as_ref().ok_or("it is no service")?;
        let ServerSpec::Started { ready, ready_within_ns, stop, stop_within_ns, mode } =
            &asked.server
        else {
            return Err("how its servers are started was not saved".to_owned());
        };
        let ways = ServerLifecycle {
            ready: ReadinessCheck::parse(ready).map_err(|why| format!("--ready {why}"))?,
            ready_within: *ready_within_ns,
            stop: stop.clone(),
            stop_within: *stop_within_ns,
        };
        let (serve, mode) = (asked.serve.clone(), *mode);
        Ok(Self { serve, ways, mode, terms: LoadTerms::new(&base.spec)?, base })
    }

    /// All commands that may name a placeholder, a line each.
    fn commands(&self) -> String {
        let (base, ways) = (&self.base, &self.ways);
        let optional = [&ways.stop, &base.spec.prepare, &base.spec.cleanup];
        let mut all = vec![self.serve.clone(), ways.ready.to_string(), self.terms.load.clone()];
        all.extend(optional.into_iter().flatten().cloned());
        let words = base.spec.own_arms.iter().flat_map(|arm| &arm.command);
        all.extend(words.map(|word| word.to_string_lossy().into_owned()));
        all.join("\n")
    }
}

/// The load on a service.
#[derive(Debug, Clone)]
pub struct LoadTerms {
    /// Shell command that loads it and ends.
    pub load: String,
    /// How long that may take.
    pub load_within: Nanos,
    /// What reads its output.
    pub metric: LoadMetric,
    /// How long a server is warmed up at most.
    pub warm_up: Nanos,
}

impl LoadTerms {
    /// The terms that a session of a service requests.
    ///
    /// # Errors
    /// If it is not a service, or its metric is not understood.
    pub fn new(spec: &SessionSpec) -> Result<Self, String> {
        let asked = spec.service.as_ref().ok_or("it is no service")?;
        Ok(Self {
            load: asked.load.clone(),
            load_within: asked.load_within_ns,
            metric: asked.metric.parse().map_err(|why| format!("--metric: {why}"))?,
            warm_up: asked.warm_up_ns,
        })
    }
}

/// How servers are loaded: on which CPUs, for how many windows, and on which half of the CPUs the first one
/// begins.
#[derive(Debug, Clone, Copy)]
struct LoadShape {
    mode: ServiceMode,
    windows: u32,
    slot: u32,
}

/// How pairs with one plain server are made.
#[derive(Debug, Clone)]
struct ServerPairing {
    shape: LoadShape,
    /// The order of starts: arms by number, `None` for the plain server.
    order: Vec<Option<usize>>,
}

/// Why an arm cannot run on a stage for servers, if so.
#[must_use]
pub fn unfit_dose(dose: &RemedyDose) -> Option<String> {
    let settings = &dose.settings;
    let input = settings.huge_files.iter().any(|file| file.kind == FileKind::Input);
    let needs_more = settings.cpus.is_some()
        || settings.needs_machine()
        || settings.working_set.is_some()
        || !settings.tools.is_empty()
        || input;
    needs_more.then(|| {
        let fit = FIT.join(", ");
        format!("`{}` cannot be tried on a service; these can: {fit}", dose.spec())
    })
}

/// Runs a session to its end, or continues a saved one with its look, its arms and all its pairs. The run
/// contains everything found so far, even after an early stop.
pub fn run(
    request: &ServiceRequest,
    saved: Option<SavedRun>,
    exe: PathBuf,
    words: &[&str],
    stop: Arc<AtomicBool>,
    listener: Listener<'_>,
) -> (SavedRun, Option<SessionStop>) {
    let since = clock::now();
    let mut run = request.base.empty_run(RunKind::Tune, &request.base.spec.command);
    if let Some(saved) = saved {
        run = session::resumed(run, saved);
    }
    let stage = RealServerWorld::new(request, exe, words, stop, listener);
    session::tune(run, since, stage.map(|stage| ServerSubject::new(request, stage)))
}

#[cfg(test)]
mod tests;
