//! Runs servers: started fresh, loaded window by window, ended again.
//!
//! At once, both servers share one half of the CPUs, and their generators the other half. A disturbance
//! affects both equally, and their CPU times are compared. In a duet each server runs with its generator on
//! one half of the CPUs, and they swap halves from window to window. In a restart a server runs alone on its
//! half, with its generator on the other.

mod loaded;

pub(crate) use loaded::LoadedServers;

use super::failure::{ServiceFailure, whose};
use super::halves;
use super::load::{LoadCommand, LoadGenerator, LoadedServer};
use super::place::{ServerPlace, refuse_odd};
use super::played::ServerObservations;
use super::reach::LoadReach;
use super::server::{ServerProcess, await_ready};
use super::servers::ServerWorld;
use super::shell::{AROUND, run_shell};
use super::tree::{ServerCounts, ServerTree};
use super::watched::WatchedWindows;
use super::{LoadShape, LoadTerms, ServerPairing, ServiceRequest};
use crate::folios::NaturalFolios;
use crate::live::{self, Listener};
use crate::race::SessionClock;
use crate::scratch::ScratchDir;
use crate::stop::SessionStop;
use crate::world::{ProgramArm, SessionEvent, SessionSurroundings};
use pagewise_judge::service::is_settled;
use pagewise_kernel::keep::CacheKeeper;
use pagewise_kernel::{clock, limits};
use pagewise_model::look::TracedLook;
use pagewise_model::machine::Machine;
use pagewise_model::price::SessionPrices;
use pagewise_model::service::{
    ServerMeasurement, ServerMemory, ServerPair, ServiceMode, ServiceWindow,
};
use pagewise_model::usage::{ProgramEnd, ProgramUsage};
use pagewise_model::{Bytes, Nanos};
use pagewise_observe::trace::RunningLook;
use pagewise_tracee::launch::ProgramLaunch;
use pagewise_tracee::supervise::RunSupervisor;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// This many runs of the load may fail on a server that has just started.
const COLD: u32 = 2;

/// Runs of the load on the two servers of a pair that share no CPUs; even, because halves are swapped.
const APART: u32 = 2;

/// The observations of the plain server under load.
pub(super) struct PlainObservation {
    pub(super) side: ServerMeasurement,
    pub(super) usage: ProgramUsage,
    pub(super) traced: TracedLook,
}

/// The stage.
pub(super) struct RealServerWorld<'a> {
    request: &'a ServiceRequest,
    terms: LoadTerms,
    exe: PathBuf,
    words: Vec<String>,
    supervisors: Vec<RunSupervisor>,
    scratch: ScratchDir,
    keeper: CacheKeeper,
    folios: NaturalFolios,
    halves: Option<[Vec<u32>; 2]>,
    stop: Arc<AtomicBool>,
    listener: Listener<'a>,
    starts: u32,
    /// Notes for the user, each once.
    notes: Vec<String>,
}

/// A server and its observations.
struct RunningServer {
    server: ServerProcess,
    generator: RunSupervisor,
    warm_ups: Vec<ServiceWindow>,
    windows: Vec<ServiceWindow>,
    /// Windows beside another server on separate CPUs, with the position of the pair's arm.
    apart: Vec<(usize, ServiceWindow)>,
}

impl<'a> RealServerWorld<'a> {
    pub(super) fn new(
        request: &'a ServiceRequest,
        exe: PathBuf,
        words: &[&str],
        stop: Arc<AtomicBool>,
        listener: Listener<'a>,
    ) -> Result<Self, SessionStop> {
        let scratch = std::path::absolute(std::env::temp_dir())
            .and_then(|parent| ScratchDir::create(&parent))
            .map_err(|e| SessionStop::Broken(format!("cannot make a scratch directory: {e}")))?;
        refuse_odd(scratch.path(), &request.commands())?;
        Ok(Self {
            request,
            terms: request.terms.clone(),
            exe,
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            supervisors: Vec::new(),
            scratch,
            keeper: CacheKeeper::new(room()),
            folios: NaturalFolios::default(),
            halves: halves::halves(),
            stop,
            listener,
            starts: 0,
            notes: Vec::new(),
        })
    }

    /// Starts `arms` at once, loads and ends them. The one at `plain` is the plain server. An error contains
    /// the position of the failed server.
    fn play(
        &mut self,
        arms: &[&ProgramArm],
        plain: usize,
        shape: &LoadShape,
        watched: Option<&mut WatchedWindows>,
    ) -> Result<Vec<ServerObservations>, (usize, SessionStop)> {
        let mut acts = Vec::new();
        let done = self.perform(arms, plain, shape, watched, &mut acts);
        for act in acts {
            self.end(act);
        }
        done
    }

    fn perform(
        &mut self,
        arms: &[&ProgramArm],
        plain: usize,
        shape: &LoadShape,
        watched: Option<&mut WatchedWindows>,
        acts: &mut Vec<RunningServer>,
    ) -> Result<Vec<ServerObservations>, (usize, SessionStop)> {
        self.start_all(arms, acts)?;
        let all: Vec<usize> = (0..acts.len()).collect();
        self.warm_up(acts, &all, shape)?;
        let before: Vec<ServerCounts> = acts.iter().map(|act| act.server.tree().counts()).collect();
        let at_first: Vec<ServerMemory> =
            acts.iter().map(|act| act.server.tree().holding()).collect();
        let mut running = watched.as_ref().map(|_| {
            RunningLook::begin(
                &acts.first().map(|act| act.server.tree().pids()).unwrap_or_default(),
            )
        });
        let mut at_last = Vec::new();
        for window in 0..shape.windows {
            let looks = window + 1 == shape.windows;
            let look =
                looks.then_some(WindowLook { held: &mut at_last, running: running.as_mut() });
            let seen = self.window(acts, &all, shape, window, look)?;
            acts.iter_mut().zip(seen).for_each(|(act, window)| act.windows.push(window));
        }
        if let (Some(watched), Some(act), Some(running)) = (watched, acts.first(), running) {
            *watched =
                WatchedWindows { running, before: before[0], after: act.server.tree().counts() };
        }
        if shape.mode == ServiceMode::AtOnce && self.halves.is_some() {
            self.load_apart(acts, plain, shape)?;
        }
        let played =
            |((act, at_first), at_last): ((&mut RunningServer, ServerMemory), ServerMemory)| {
                ServerObservations {
                    side: ServerMeasurement {
                        ready_ns: act.server.ready_ns(),
                        warm_ups: u32::try_from(act.warm_ups.len()).unwrap_or(u32::MAX),
                        windows: std::mem::take(&mut act.windows),
                        at_first,
                        at_last,
                    },
                    apart: std::mem::take(&mut act.apart),
                }
            };
        Ok(acts.iter_mut().zip(at_first).zip(at_last).map(played).collect())
    }

    /// Starts a server for each arm and waits until all are ready.
    fn start_all(
        &mut self,
        arms: &[&ProgramArm],
        acts: &mut Vec<RunningServer>,
    ) -> Result<(), (usize, SessionStop)> {
        for (at, arm) in arms.iter().enumerate() {
            let act = self.set_up(arm).map_err(|stop| (at, stop))?;
            acts.push(act);
            self.prepare(&acts[at].server.place).map_err(|stop| (at, stop))?;
        }
        for (at, (act, arm)) in acts.iter_mut().zip(arms).enumerate() {
            act.server.start(launch(arm), &self.request.ways).map_err(|stop| (at, stop))?;
        }
        let mut servers: Vec<&mut ServerProcess> =
            acts.iter_mut().map(|act| &mut act.server).collect();
        await_ready(&mut servers, &self.request.ways, &self.stop)?;
        for (at, act) in acts.iter().enumerate() {
            let doubt = act.server.reach().map_err(|stop| (at, stop))?;
            doubt.into_iter().for_each(|doubt| self.note(doubt));
        }
        for (at, arm) in arms.iter().enumerate() {
            let settled = self.folios.settle(&arm.natural_files, &mut self.keeper);
            settled.map_err(|why| (at, SessionStop::Broken(why)))?;
        }
        Ok(())
    }

    /// Loads the plain server and each arm beside it, on separate CPUs. This shows effects that sharing
    /// hides.
    fn load_apart(
        &self,
        acts: &mut [RunningServer],
        plain: usize,
        shape: &LoadShape,
    ) -> Result<(), (usize, SessionStop)> {
        let shape = LoadShape { mode: ServiceMode::Duet, ..*shape };
        for arm in (0..acts.len()).filter(|at| *at != plain) {
            for number in 0..APART {
                let both = [plain, arm];
                let seen = self.window(acts, &both, &shape, number, None)?;
                for (at, window) in both.into_iter().zip(seen) {
                    acts[at].apart.push((arm, window));
                }
            }
        }
        Ok(())
    }

    /// All that a start needs but `--prepare`.
    fn set_up(&mut self, arm: &ProgramArm) -> Result<RunningServer, SessionStop> {
        self.folios
            .drop_changed(&arm.natural_files, &mut self.keeper)
            .map_err(SessionStop::Broken)?;
        NaturalFolios::warm(&arm.settings.huge_files, &mut self.keeper)
            .map_err(SessionStop::NotHuge)?;
        let (generator, supervisor) = (self.supervisor()?, self.supervisor()?);
        self.starts += 1;
        let place = ServerPlace::new(self.scratch.path(), &format!("server-{}", self.starts))?;
        let reach = LoadReach::of(&self.request.ways.ready, &self.terms.load, &place);
        let server = ServerProcess::new(place, reach, supervisor);
        Ok(RunningServer {
            server,
            generator,
            warm_ups: Vec::new(),
            windows: Vec::new(),
            apart: Vec::new(),
        })
    }

    fn prepare(&self, place: &ServerPlace) -> Result<(), SessionStop> {
        let Some(command) = &self.request.base.spec.prepare else { return Ok(()) };
        let done = run_shell(&place.fill(command), AROUND, Some(&self.stop));
        done.map_err(|error| error.into_stop("--prepare"))
    }

    fn supervisor(&mut self) -> Result<RunSupervisor, SessionStop> {
        if let Some(idle) = self.supervisors.pop() {
            return Ok(idle);
        }
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        RunSupervisor::start(&self.exe, &words)
            .map_err(|error| SessionStop::Broken(error.to_string()))
    }

    /// Ends a server, `--cleanup` after it. Its place is there until then.
    fn end(&mut self, mut act: RunningServer) {
        let (supervisor, notes) = act.server.stop(&self.request.ways);
        self.supervisors.extend(supervisor);
        self.supervisors.push(act.generator);
        let place = &act.server.place;
        let command = self.request.base.spec.cleanup.as_ref();
        let cleaned = command.map(|command| run_shell(&place.fill(command), AROUND, None));
        let failed = cleaned.and_then(Result::err);
        let failed = failed.map(|error| format!("--cleanup failed: {error}"));
        for note in notes.into_iter().chain(failed).chain(place.remove()) {
            self.note(note);
        }
    }

    /// Runs the load until its cost has settled. The first runs may fail: a server that has just started
    /// may answer nothing in their time.
    fn warm_up(
        &mut self,
        acts: &mut [RunningServer],
        all: &[usize],
        shape: &LoadShape,
    ) -> Result<(), (usize, SessionStop)> {
        let deadline = clock::now() + self.terms.warm_up;
        for round in 0.. {
            match self.window(acts, all, shape, round, None) {
                Ok(seen) => {
                    acts.iter_mut().zip(seen).for_each(|(act, window)| act.warm_ups.push(window));
                }
                Err((_, SessionStop::Service(_)))
                    if round < COLD && acts.iter().all(|act| !act.server.has_ended()) => {}
                Err(failed) => return Err(failed),
            }
            let settled = acts.iter().all(|act| is_settled(&act.warm_ups));
            if settled || clock::now() > deadline {
                break;
            }
        }
        Ok(())
    }

    /// Runs the load once against each of the servers at these positions, at the same time, with a look in the middle
    /// where wanted.
    fn window(
        &self,
        acts: &mut [RunningServer],
        whom: &[usize],
        shape: &LoadShape,
        number: u32,
        look: Option<WindowLook<'_>>,
    ) -> Result<Vec<ServiceWindow>, (usize, SessionStop)> {
        let generator =
            LoadGenerator { terms: &self.terms, dir: self.scratch.path(), stop: &self.stop };
        let loader = ServerLoader { generator, halves: self.halves.as_ref() };
        let trees: Vec<ServerTree> = acts.iter().map(|act| act.server.tree()).collect();
        let usual =
            acts.iter().filter_map(|act| act.warm_ups.last()).map(|last| last.wall_ns).min();
        let runs: Vec<Result<ServiceWindow, SessionStop>> = std::thread::scope(|scope| {
            let loader = &loader;
            let own = acts
                .iter_mut()
                .enumerate()
                .map(|(at, act)| (whom.iter().position(|one| *one == at), act));
            let mut threads: Vec<_> = own
                .filter_map(|(turn, act)| {
                    let turn = turn?;
                    let halves = shape.halves(turn, number);
                    Some((turn, scope.spawn(move || loader.load(act, turn, halves))))
                })
                .collect();
            threads.sort_by_key(|(turn, _)| *turn);
            if let Some(look) = look {
                std::thread::sleep(Duration::from_nanos(usual.unwrap_or_default().0 / 2));
                look.take(&trees);
            }
            let lost = || Err(SessionStop::Broken("the thread of a generator is gone".to_owned()));
            threads
                .into_iter()
                .map(|(_, thread)| thread.join().unwrap_or_else(|_| lost()))
                .collect()
        });
        if self.interrupted() {
            return Err((0, SessionStop::Interrupted));
        }
        let is_shared = shape.mode == ServiceMode::AtOnce && self.halves.is_some();
        let shown = |window| ServiceWindow { at_once: is_shared, ..window };
        let own = whom.iter().zip(runs);
        own.map(|(at, run)| run.map(shown).map_err(|stop| (*at, stop))).collect()
    }
}

impl SessionClock for RealServerWorld<'_> {
    fn now(&self) -> Nanos {
        clock::now()
    }

    fn interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl SessionSurroundings for RealServerWorld<'_> {
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

impl ServerWorld for RealServerWorld<'_> {
    fn has_halves(&self) -> bool {
        self.halves.is_some()
    }

    fn look(&mut self, plain: &ProgramArm) -> Result<PlainObservation, SessionStop> {
        let shape = LoadShape { mode: ServiceMode::Restart, windows: 2, slot: 0 };
        let mut watched = WatchedWindows::default();
        let mut played =
            self.play(&[plain], 0, &shape, Some(&mut watched)).map_err(|(_, stop)| stop)?;
        let none = || SessionStop::Broken("no server was started".to_owned());
        let side = played.pop().ok_or_else(none)?.side;
        let usage = watched.usage(&side);
        let traced = watched.running.finish(ProgramEnd::Exited(0));
        Ok(PlainObservation { side, usage, traced })
    }

    fn pairs(
        &mut self,
        plain: &ProgramArm,
        arms: &[&ProgramArm],
        ServerPairing { shape, order }: &ServerPairing,
    ) -> Result<Vec<ServerPair>, ServiceFailure> {
        let servers: Vec<&ProgramArm> =
            order.iter().map(|at| at.map_or(plain, |at| arms[at])).collect();
        let is_plain = |at: &Option<usize>| at.is_none();
        let first = order.iter().position(is_plain).unwrap_or_default();
        let mut played = Vec::new();
        match shape.mode {
            ServiceMode::AtOnce | ServiceMode::Duet => {
                let done = self.play(&servers, first, shape, None);
                played = done.map_err(|(at, stop)| whose(order[at], stop))?;
            }
            ServiceMode::Restart | ServiceMode::Toggle => {
                for (at, one) in servers.into_iter().enumerate() {
                    let done = self.play(&[one], 0, shape, None);
                    played.extend(done.map_err(|(_, stop)| whose(order[at], stop))?);
                }
            }
        }
        let pair = |(at, arm): (usize, &Option<usize>)| {
            let (arm, plain, other) = (arms[(*arm)?], played.get(first)?, played.get(at)?);
            let (plain, other) = (plain.in_pair(at), other.in_pair(at));
            Some(ServerPair { arm: arm.name.clone(), mode: shape.mode, plain, other })
        };
        Ok(order.iter().enumerate().filter_map(pair).collect())
    }

    fn memory(&self) -> Bytes {
        room()
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }
}

/// A look in the middle of a window: what processes that end with it hold is not there afterwards.
struct WindowLook<'a> {
    held: &'a mut Vec<ServerMemory>,
    running: Option<&'a mut RunningLook>,
}

impl WindowLook<'_> {
    fn take(self, trees: &[ServerTree]) {
        self.held.extend(trees.iter().map(|tree| tree.holding()));
        if let (Some(running), Some(first)) = (self.running, trees.first()) {
            running.end(&first.pids());
        }
    }
}

/// The resources to load servers, each from a separate thread.
struct ServerLoader<'a> {
    generator: LoadGenerator<'a>,
    halves: Option<&'a [Vec<u32>; 2]>,
}

impl ServerLoader<'_> {
    /// One run of the load against one server. Both stay on their halves of the CPUs meanwhile.
    fn load(
        &self,
        act: &mut RunningServer,
        at: usize,
        [server, load]: [usize; 2],
    ) -> Result<ServiceWindow, SessionStop> {
        if let Some(halves) = self.halves {
            act.server.pin(&halves[server]);
        }
        let cpus = self.halves.map(|halves| halves[load].clone());
        let command = act.server.place.fill(&self.generator.terms.load);
        let load = LoadCommand { command, cpus, at };
        self.generator.run_load(&load, &mut act.generator, &mut act.server)
    }
}

/// How an arm's server is launched.
fn launch(arm: &ProgramArm) -> ProgramLaunch {
    ProgramLaunch {
        settings: arm.settings.clone(),
        memory_limit_bytes: limits::experiment_memory().ok().map(|room| room.bytes),
        ..ProgramLaunch::experiment(arm.command.clone())
    }
}

fn room() -> Bytes {
    limits::experiment_memory().map_or(Bytes(0), |room| room.bytes)
}
