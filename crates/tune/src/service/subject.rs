//! A service that runs already, under its load, with a change on or off.

use super::LiveServiceRequest;
use super::live::ProcessWorld;
use super::load::{LoadCommand, LoadGenerator, LoadedServer};
use super::reach::LoadReach;
use super::stage::PlainObservation;
use super::tree::ServerTree;
use super::watched::RunningObservation;
use crate::live::{self, Listener};
use crate::race::SessionClock;
use crate::scratch::ScratchDir;
use crate::stop::SessionStop;
use crate::world::{SessionEvent, SessionSurroundings};
use pagewise_judge::service::is_settled;
use pagewise_kernel::clock;
use pagewise_model::Nanos;
use pagewise_model::machine::Machine;
use pagewise_model::price::SessionPrices;
use pagewise_model::service::{ServerMeasurement, ServerMemory, ServiceWindow};
use pagewise_model::usage::ProgramEnd;
use pagewise_remedy::live::{LiveChange, LiveResult, LiveSwitch, SwitchError};
use pagewise_tracee::supervise::RunSupervisor;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Windows of the look. Windows with a remedy on are first compared with these.
const LOOKED: u32 = 4;
/// How long the service is watched without our load.
const IDLE: Duration = Duration::from_millis(300);
/// Share of its CPU time under load that it may use without load before that is reported.
const BUSY: f64 = 0.1;
/// How long what cannot be undone is waited for: a child of the service shares its memory.
const UNDONE_WITHIN: Nanos = Nanos::secs(60);

/// This program as a helper.
#[derive(Debug, Clone)]
pub struct HelperCommands {
    pub exe: PathBuf,
    /// The words of a supervisor, and of what switches.
    pub supervise: Vec<String>,
    pub switch: Vec<String>,
}

/// A process as the load sees it.
struct LoadedProcess<'a>(&'a LiveServiceRequest);

impl LoadedServer for LoadedProcess<'_> {
    fn tree(&self) -> ServerTree {
        ServerTree::From(self.0.target.pid())
    }
    fn reach(&self) -> Result<Option<String>, SessionStop> {
        LoadReach::of_running(&self.0.terms.load).check(self.tree())
    }
    fn has_ended(&self) -> bool {
        self.0.target.has_ended()
    }
    fn ended_early(&mut self, when: &str) -> SessionStop {
        SessionStop::Service(format!("process {} ended {when}", self.0.target.pid()))
    }
}

pub(super) struct LiveProcess<'a> {
    request: &'a LiveServiceRequest,
    helpers: &'a HelperCommands,
    generator: RunSupervisor,
    switch: Option<LiveSwitch>,
    is_on: bool,
    /// The load ran since the last switch.
    is_washed: bool,
    scratch: ScratchDir,
    stop: Arc<AtomicBool>,
    listener: Listener<'a>,
}

impl<'a> LiveProcess<'a> {
    pub(super) fn new(
        request: &'a LiveServiceRequest,
        helpers: &'a HelperCommands,
        stop: Arc<AtomicBool>,
        listener: Listener<'a>,
    ) -> Result<Self, SessionStop> {
        let scratch = ScratchDir::create(&std::env::temp_dir())
            .map_err(|e| SessionStop::Broken(format!("cannot make a scratch directory: {e}")))?;
        let words: Vec<&str> = helpers.supervise.iter().map(String::as_str).collect();
        let generator = RunSupervisor::start(&helpers.exe, &words)
            .map_err(|error| SessionStop::Broken(error.to_string()))?;
        Ok(Self {
            request,
            helpers,
            generator,
            switch: None,
            is_on: false,
            is_washed: true,
            scratch,
            stop,
            listener,
        })
    }

    fn tree(&self) -> ServerTree {
        LoadedProcess(self.request).tree()
    }

    /// CPU time over wall time without any load from us.
    fn idle_share(&self) -> f64 {
        let (cpu, begun) = (self.tree().cpu(), clock::now());
        std::thread::sleep(IDLE);
        let wall = clock::now().0.saturating_sub(begun.0).max(1);
        self.tree().cpu().0.saturating_sub(cpu.0) as f64 / wall as f64
    }
}

impl SessionClock for LiveProcess<'_> {
    fn now(&self) -> Nanos {
        clock::now()
    }

    fn interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl SessionSurroundings for LiveProcess<'_> {
    fn machine(&mut self) -> Machine {
        pagewise_kernel::machine::machine()
    }

    fn prices(&mut self) -> Result<SessionPrices, SessionStop> {
        live::prices(&self.stop)
    }

    fn tell(&mut self, event: &SessionEvent<'_>) {
        (self.listener)(event);
    }
}

impl ProcessWorld for LiveProcess<'_> {
    fn pid(&self) -> i32 {
        self.request.target.pid()
    }

    fn pids(&self) -> Vec<i32> {
        self.tree().pids()
    }

    fn holding(&self) -> ServerMemory {
        self.tree().holding()
    }

    fn has_ended(&self) -> bool {
        self.request.target.has_ended()
    }

    fn is_on(&self) -> bool {
        self.is_on
    }

    fn is_washed(&self) -> bool {
        self.is_washed
    }

    fn window(&mut self) -> Result<ServiceWindow, SessionStop> {
        let (terms, dir) = (&self.request.terms, self.scratch.path());
        let generator = LoadGenerator { terms, dir, stop: &self.stop };
        let load = LoadCommand { command: terms.load.clone(), cpus: None, at: 0 };
        let seen = generator.run_load(&load, &mut self.generator, &mut LoadedProcess(self.request));
        if self.interrupted() {
            return Err(SessionStop::Interrupted);
        }
        self.is_washed = true;
        seen
    }

    fn look(&mut self, notes: &mut Vec<String>) -> Result<PlainObservation, SessionStop> {
        let deadline = clock::now() + self.request.terms.warm_up;
        let mut warm_ups = Vec::new();
        notes.extend(LoadedProcess(self.request).reach()?);
        while !is_settled(&warm_ups) && clock::now() < deadline || warm_ups.is_empty() {
            warm_ups.push(self.window()?);
        }
        let idle = self.idle_share();
        let tree = self.tree();
        let at_first = tree.holding();
        let observation = RunningObservation::of(tree);
        let windows = (0..LOOKED).map(|_| self.window()).collect::<Result<Vec<_>, _>>()?;
        let watched = observation.watched();
        let side = ServerMeasurement {
            ready_ns: Nanos(0),
            warm_ups: u32::try_from(warm_ups.len()).unwrap_or(u32::MAX),
            windows,
            at_first,
            at_last: tree.holding(),
        };
        let used = cpus_used(&side);
        if idle > BUSY * used {
            notes.push(format!(
                "without this load the process uses {:.0}% of a CPU, with it {:.0}%: \
                 the figures include other clients' work",
                idle * 100.0,
                used * 100.0
            ));
        }
        let usage = watched.usage(&side);
        Ok(PlainObservation { side, usage, traced: watched.running.finish(ProgramEnd::Exited(0)) })
    }

    fn on(&mut self, change: &LiveChange) -> Result<Result<LiveResult, String>, SessionStop> {
        (self.is_on, self.is_washed) = (true, false);
        let switch = match &mut self.switch {
            Some(switch) => switch,
            none => {
                let started = LiveSwitch::start(&self.helpers.exe, &self.helpers.switch);
                let failed = |e| {
                    SessionStop::Broken(format!(
                        "cannot start the process that switches remedies: {e}"
                    ))
                };
                none.insert(started.map_err(failed)?)
            }
        };
        let stop = &self.stop;
        let root = self.request.target.birth();
        let root = root.map_err(|_| LoadedProcess(self.request).ended_early("meanwhile"))?;
        match switch.on(root, change, &|| stop.load(Ordering::Relaxed)) {
            Ok(applied) => Ok(Ok(applied)),
            Err(SwitchError::Refused(why)) => Ok(Err(why)),
            Err(SwitchError::Interrupted) => Err(SessionStop::Interrupted),
            Err(died) => Err(SessionStop::Broken(died.to_string())),
        }
    }

    fn off(&mut self) -> Result<(), SessionStop> {
        let Some(switch) = self.switch.as_mut().filter(|_| self.is_on) else { return Ok(()) };
        let deadline = clock::now() + UNDONE_WITHIN;
        loop {
            let left = switch.off().map_err(|error| SessionStop::Broken(error.to_string()))?;
            if left.is_nothing() || self.request.target.has_ended() {
                (self.is_on, self.is_washed) = (false, false);
                return Ok(());
            }
            if self.stop.load(Ordering::Relaxed) || clock::now() > deadline {
                return Err(SessionStop::Service(format!(
                    "cannot undo {left} yet because another process shares it; \
                     the process live-undo keeps trying for 10 minutes"
                )));
            }
        }
    }
}

/// CPU time over wall time in these windows.
pub(super) fn cpus_used(side: &ServerMeasurement) -> f64 {
    let sum = |of: fn(&ServiceWindow) -> Nanos| {
        side.windows.iter().map(|one| of(one).0 as f64).sum::<f64>()
    };
    sum(|window| window.cpu_ns) / sum(|window| window.wall_ns).max(1.0)
}
