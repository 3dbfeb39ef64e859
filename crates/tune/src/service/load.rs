//! One run of the load against one server.

use super::LoadTerms;
use super::tree::ServerTree;
use crate::files::last_line_in;
use crate::stop::SessionStop;
use pagewise_kernel::clock;
use pagewise_kernel::file_view::read_at_most;
use pagewise_model::plan::ArmSettings;
use pagewise_model::service::ServiceWindow;
use pagewise_model::{Bytes, Nanos};
use pagewise_tracee::launch::{OutputSink, ProgramLaunch};
use pagewise_tracee::run::FinishedRun;
use pagewise_tracee::supervise::{RunSupervisor, SuperviseError};
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a server's end is waited for when its load has failed.
const GRACE: Nanos = Nanos::millis(300);
/// Pause between two looks at a server that is starting or ending.
pub(super) const PAUSE: Duration = Duration::from_millis(5);
/// Limit of a generator's output.
const MOST_PRINTED: Bytes = Bytes::mib(64);
/// How much of a failing generator's last line is shown.
const SHOWN: usize = 200;

/// A server as its load sees it.
pub(super) trait LoadedServer {
    fn tree(&self) -> ServerTree;
    /// Refuses a load that would reach another program. What could not be seen of that, if anything.
    fn reach(&self) -> Result<Option<String>, SessionStop>;
    /// It has ended, by itself or otherwise.
    fn has_ended(&self) -> bool;
    /// It has ended, or does so within this time.
    fn ends_within(&self, time: Nanos) -> bool {
        let deadline = clock::now() + time;
        while !self.has_ended() && clock::now() < deadline {
            std::thread::sleep(PAUSE);
        }
        self.has_ended()
    }
    /// Why it is no longer there.
    fn ended_early(&mut self, when: &str) -> SessionStop;
}

/// The resources to load servers.
#[derive(Clone, Copy)]
pub(super) struct LoadGenerator<'a> {
    pub(super) terms: &'a LoadTerms,
    /// For its output.
    pub(super) dir: &'a Path,
    pub(super) stop: &'a AtomicBool,
}

/// A run of it.
pub(super) struct LoadCommand {
    /// Shell command.
    pub(super) command: String,
    /// The CPUs it has. `None` for all.
    pub(super) cpus: Option<Vec<u32>>,
    /// Distinguishes it from others at the same time.
    pub(super) at: usize,
}

impl LoadGenerator<'_> {
    /// Runs it to its end below `supervisor`.
    pub(super) fn run_load(
        &self,
        load: &LoadCommand,
        supervisor: &mut RunSupervisor,
        server: &mut dyn LoadedServer,
    ) -> Result<ServiceWindow, SessionStop> {
        let file = |what: &str| self.dir.join(format!("load-{}-{what}", load.at));
        let launch = self.launch(load, &file("out"), &file("err"));
        if !server.has_ended() {
            server.reach()?;
        }
        let before = server.tree().cpu();
        let size = |what| std::fs::metadata(file(what)).map_or(0, |found| found.len());
        let is_flood = || ["out", "err"].into_iter().any(|what| Bytes(size(what)) > MOST_PRINTED);
        let stopping = || self.stop.load(Ordering::Relaxed) || server.has_ended() || is_flood();
        let done = supervisor.run(&launch, &stopping);
        let cpu_ns = Nanos(server.tree().cpu().0.saturating_sub(before.0));
        // A load that fails may have seen the server's end before we do.
        let is_sound = done.as_ref().is_ok_and(|done| self.complaint(done).is_none());
        let has_ended = if is_sound { server.has_ended() } else { server.ends_within(GRACE) };
        if has_ended && !self.stop.load(Ordering::Relaxed) {
            return Err(server.ended_early("under load"));
        }
        if is_flood() {
            return Err(SessionStop::Service(format!(
                "the load printed more than {MOST_PRINTED}: let it print its results only"
            )));
        }
        let done = done.map_err(|error| match error {
            SuperviseError::Interrupted => SessionStop::Interrupted,
            other => SessionStop::Broken(other.to_string()),
        })?;
        let read = |what| read_at_most(&file(what), MOST_PRINTED).unwrap_or_default();
        let (out, err) = (read("out"), read("err"));
        if let Some(what) = self.complaint(&done) {
            let said = last_line(&err).or_else(|| last_line(&out));
            return Err(SessionStop::Service(format!("{what}: {}", said.unwrap_or_default())));
        }
        let text = String::from_utf8_lossy(&out);
        let load = self.terms.metric.read(&self.terms.load, &text).map_err(SessionStop::Service)?;
        let generator_cpu_ns = done.usage.cpu_ns();
        let wall_ns = done.usage.wall_ns;
        Ok(ServiceWindow { cpu_ns, wall_ns, generator_cpu_ns, load, at_once: false })
    }

    fn launch(&self, load: &LoadCommand, out: &Path, err: &Path) -> ProgramLaunch {
        let (command, cpus) = (&load.command, load.cpus.clone());
        ProgramLaunch {
            settings: ArmSettings { cpus, ..ArmSettings::default() },
            stdout: OutputSink::File(out.to_owned()),
            stderr: OutputSink::File(err.to_owned()),
            timeout_ns: Some(self.terms.load_within),
            ..ProgramLaunch::experiment(["sh", "-c", command].map(OsString::from).to_vec())
        }
    }

    /// Why a run of the load shows nothing, if so.
    fn complaint(&self, done: &FinishedRun) -> Option<String> {
        if done.timed_out {
            let within = self.terms.load_within;
            return Some(format!("the load did not end within {within} (--load-time)"));
        }
        let ended = done.usage.ended;
        (!ended.success()).then(|| format!("the load failed ({ended})"))
    }
}

fn last_line(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let line = last_line_in(&text);
    (!line.is_empty()).then(|| line.chars().take(SHOWN).collect())
}
