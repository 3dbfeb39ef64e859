//! A service that runs already, under its load, with a change on or off.

use super::Live;
use super::live::ProcessWorld;
use super::load::{Generator, Loaded, Volley};
use super::reach::Reach;
use super::stage::Seen;
use super::tree::ServerTree;
use super::watched::Watched;
use crate::live::{self, Listener};
use crate::race::Clock;
use crate::scratch::Scratch;
use crate::stop::Stop;
use crate::world::{Event, Surroundings};
use pagewise_judge::service::is_settled;
use pagewise_kernel::clock;
use pagewise_model::Nanos;
use pagewise_model::machine::Machine;
use pagewise_model::price::Prices;
use pagewise_model::service::{Holding, Side, Window};
use pagewise_model::usage::Ended;
use pagewise_observe::trace::Running;
use pagewise_remedy::live::{Applied, Change, Switch, SwitchError};
use pagewise_tracee::supervise::Supervisor;
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
pub struct Helpers {
    pub exe: PathBuf,
    /// The words of a supervisor, and of what switches.
    pub supervise: Vec<String>,
    pub switch: Vec<String>,
}

/// A process as the load sees it.
struct Process<'a>(&'a Live);

impl Loaded for Process<'_> {
    fn tree(&self) -> ServerTree {
        ServerTree::From(self.0.target.pid())
    }
    fn reach(&self) -> Result<Option<String>, Stop> {
        Reach::of_running(&self.0.terms.load).check(self.tree())
    }
    fn has_ended(&self) -> bool {
        self.0.target.has_ended()
    }
    fn ended_early(&mut self, when: &str) -> Stop {
        Stop::Service(format!("process {} ended {when}", self.0.target.pid()))
    }
}

pub(super) struct Subject<'a> {
    request: &'a Live,
    helpers: &'a Helpers,
    generator: Supervisor,
    switch: Option<Switch>,
    is_on: bool,
    /// The load ran since the last switch.
    is_washed: bool,
    scratch: Scratch,
    stop: Arc<AtomicBool>,
    listener: Listener<'a>,
}

impl<'a> Subject<'a> {
    pub(super) fn new(
        request: &'a Live,
        helpers: &'a Helpers,
        stop: Arc<AtomicBool>,
        listener: Listener<'a>,
    ) -> Result<Self, Stop> {
        let scratch = Scratch::create(&std::env::temp_dir())
            .map_err(|e| Stop::Broken(format!("cannot make a scratch directory: {e}")))?;
        let words: Vec<&str> = helpers.supervise.iter().map(String::as_str).collect();
        let generator = Supervisor::start(&helpers.exe, &words)
            .map_err(|error| Stop::Broken(error.to_string()))?;
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
        Process(self.request).tree()
    }

    /// CPU time over wall time without any load from us.
    fn idle_share(&self) -> f64 {
        let (cpu, begun) = (self.tree().cpu(), clock::now());
        std::thread::sleep(IDLE);
        let wall = clock::now().0.saturating_sub(begun.0).max(1);
        self.tree().cpu().0.saturating_sub(cpu.0) as f64 / wall as f64
    }
}

impl Clock for Subject<'_> {
    fn now(&self) -> Nanos {
        clock::now()
    }

    fn interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Surroundings for Subject<'_> {
    fn machine(&mut self) -> Machine {
        pagewise_kernel::machine::machine()
    }

    fn prices(&mut self) -> Result<Prices, Stop> {
        live::prices(&self.stop)
    }

    fn tell(&mut self, event: &Event<'_>) {
        (self.listener)(event);
    }
}

impl ProcessWorld for Subject<'_> {
    fn pid(&self) -> i32 {
        self.request.target.pid()
    }

    fn pids(&self) -> Vec<i32> {
        self.tree().pids()
    }

    fn holding(&self) -> Holding {
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

    fn window(&mut self) -> Result<Window, Stop> {
        let (terms, dir) = (&self.request.terms, self.scratch.path());
        let generator = Generator { terms, dir, stop: &self.stop };
        let volley = Volley { command: terms.load.clone(), cpus: None, at: 0 };
        let seen = generator.fire(&volley, &mut self.generator, &mut Process(self.request));
        if self.interrupted() {
            return Err(Stop::Interrupted);
        }
        self.is_washed = true;
        seen
    }

    fn look(&mut self, notes: &mut Vec<String>) -> Result<Seen, Stop> {
        let deadline = clock::now() + self.request.terms.warm_up;
        let mut warm_ups = Vec::new();
        notes.extend(Process(self.request).reach()?);
        while !is_settled(&warm_ups) && clock::now() < deadline || warm_ups.is_empty() {
            warm_ups.push(self.window()?);
        }
        let idle = self.idle_share();
        let tree = self.tree();
        let (before, at_first) = (tree.counts(), tree.holding());
        let mut running = Running::begin(&tree.pids());
        let windows = (0..LOOKED).map(|_| self.window()).collect::<Result<Vec<_>, _>>()?;
        running.end(&tree.pids());
        let after = tree.counts();
        let side = Side {
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
        let watched = Watched { running, before, after };
        let usage = watched.usage(&side);
        Ok(Seen { side, usage, traced: watched.running.finish(Ended::Exited(0)) })
    }

    fn on(&mut self, change: &Change) -> Result<Result<Applied, String>, Stop> {
        (self.is_on, self.is_washed) = (true, false);
        let switch = match &mut self.switch {
            Some(switch) => switch,
            none => {
                let started = Switch::start(&self.helpers.exe, &self.helpers.switch);
                let failed = |e| {
                    Stop::Broken(format!("cannot start the process that switches remedies: {e}"))
                };
                none.insert(started.map_err(failed)?)
            }
        };
        let stop = &self.stop;
        let root = self.request.target.birth();
        let root = root.map_err(|_| Process(self.request).ended_early("meanwhile"))?;
        match switch.on(root, change, &|| stop.load(Ordering::Relaxed)) {
            Ok(applied) => Ok(Ok(applied)),
            Err(SwitchError::Refused(why)) => Ok(Err(why)),
            Err(SwitchError::Interrupted) => Err(Stop::Interrupted),
            Err(died) => Err(Stop::Broken(died.to_string())),
        }
    }

    fn off(&mut self) -> Result<(), Stop> {
        let Some(switch) = self.switch.as_mut().filter(|_| self.is_on) else { return Ok(()) };
        let deadline = clock::now() + UNDONE_WITHIN;
        loop {
            let left = switch.off().map_err(|error| Stop::Broken(error.to_string()))?;
            if left.is_nothing() || self.request.target.has_ended() {
                (self.is_on, self.is_washed) = (false, false);
                return Ok(());
            }
            if self.stop.load(Ordering::Relaxed) || clock::now() > deadline {
                return Err(Stop::Service(format!(
                    "cannot undo {left} yet because another process shares it; \
                     the process live-undo keeps trying for 10 minutes"
                )));
            }
        }
    }
}

/// CPU time over wall time in these windows.
pub(super) fn cpus_used(side: &Side) -> f64 {
    let sum =
        |of: fn(&Window) -> Nanos| side.windows.iter().map(|one| of(one).0 as f64).sum::<f64>();
    sum(|window| window.cpu_ns) / sum(|window| window.wall_ns).max(1.0)
}
