//! A service that already runs, tuned by switching remedies on and off while it serves.
//!
//! A block is the unit of the race: windows with the remedy off and on in the order off on on off or on off
//! off on, chosen at random, so that drift affects both equally. After each switch one run of the load does
//! not count. There are no two starts that could differ, so a block is cheap. Its result holds for this
//! process in this state, and not for another start.
//!
//! Guards are checked after each run of the load ([`ServiceWatch`]). If one is broken, its remedy is undone
//! immediately and not tried again.

use super::LoadTerms;
use super::answer;
use super::look::{self, ObservedService};
use super::stage::PlainObservation;
use super::subject::{HelperCommands, LiveProcess, cpus_used};
use super::switched_arm::{SwitchedArm, arms};
use crate::live::Listener;
use crate::race::{self, BlockRun, RaceTime, SessionClock};
use crate::request::SessionRequest as Base;
use crate::session::{self, TunableSubject};
use crate::stop::SessionStop;
use crate::world::{SessionEvent, SessionSurroundings};
use pagewise_judge::race::{
    BlockUnit, PlannedBlock, RaceBlock, RaceEntrant, RacePolicy, RemedyCounter,
};
use pagewise_judge::service::ServiceWatch;
use pagewise_kernel::clock;
use pagewise_model::Nanos;
use pagewise_model::machine::Machine;
use pagewise_model::plan::{RemedyCandidate, RemedyDose, RemedyReceipt};
use pagewise_model::price::SessionPrices;
use pagewise_model::run::{RunKind, SavedRun, SessionOutcome};
use pagewise_model::service::{
    ServerMeasurement, ServerMemory, ServerPair, ServiceMode, ServiceWindow, TunedService,
};
use pagewise_remedy::live::{LiveChange, LiveOffer, LiveResult, RunningService, offers};
use pagewise_remedy::{RemedyEvidence, TargetProgram as Program};
use pagewise_tracee::target::TargetProcess;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Runs of the load in a part of a block last at least this long together.
const PART: Nanos = Nanos::millis(800);
/// Most runs of the load in a part of a block.
const MOST: u32 = 4;

/// A running service and its load.
#[derive(Debug)]
pub struct LiveServiceRequest {
    /// The part common with programs that end. Its command is the service's.
    pub base: Base,
    pub target: TargetProcess,
    pub terms: LoadTerms,
}

/// Runs a session to its end. The run contains everything found so far, even after an early stop.
pub fn run(
    request: &LiveServiceRequest,
    helpers: &HelperCommands,
    stop: Arc<AtomicBool>,
    listener: Listener<'_>,
) -> (SavedRun, Option<SessionStop>) {
    let since = clock::now();
    let run = request.base.empty_run(RunKind::Tune, &request.base.spec.command);
    let subject = LiveProcess::new(request, helpers, stop, listener);
    let switched = subject.map(|world| SwitchedService::new(&request.base, &request.terms, world));
    session::tune(run, since, switched)
}

/// A process that runs already, its load, and what switches it.
pub(super) trait ProcessWorld: SessionSurroundings {
    fn pid(&self) -> i32;
    fn pids(&self) -> Vec<i32>;
    /// What its memory holds now.
    fn holding(&self) -> ServerMemory;
    fn has_ended(&self) -> bool;
    /// A remedy is on.
    fn is_on(&self) -> bool;
    /// The load ran since the last switch.
    fn is_washed(&self) -> bool;
    /// Observes the unchanged process under its load, and adds notes for the user.
    ///
    /// # Errors
    /// If the process ends or the load fails.
    fn look(&mut self, notes: &mut Vec<String>) -> Result<PlainObservation, SessionStop>;
    /// Runs the load once.
    ///
    /// # Errors
    /// When the process ends or the load fails.
    fn window(&mut self) -> Result<ServiceWindow, SessionStop>;
    /// Makes a change; the inner error says why it cannot be made.
    ///
    /// # Errors
    /// When the user interrupts or our process dies.
    fn on(&mut self, change: &LiveChange) -> Result<Result<LiveResult, String>, SessionStop>;
    /// Undoes it.
    ///
    /// # Errors
    /// When it cannot be undone.
    fn off(&mut self) -> Result<(), SessionStop>;
}

/// Windows of one block.
struct BlockSides {
    off: ServerMeasurement,
    on: ServerMeasurement,
}

impl BlockSides {
    /// The state before any window, with the current memory of the service.
    fn new(now: ServerMemory) -> Self {
        let side = || ServerMeasurement {
            ready_ns: Nanos(0),
            warm_ups: 0,
            windows: Vec::new(),
            at_first: now,
            at_last: now,
        };
        Self { off: side(), on: side() }
    }

    const fn side(&mut self, is_on: bool) -> &mut ServerMeasurement {
        if is_on { &mut self.on } else { &mut self.off }
    }
}

/// A service that is switched.
pub(super) struct SwitchedService<'a, W> {
    base: &'a Base,
    terms: &'a LoadTerms,
    world: W,
    /// What fits and can be switched.
    pub(super) offers: Vec<LiveOffer>,
    arms: Vec<SwitchedArm>,
    /// Of the load in a part of a block.
    runs: u32,
    watch: ServiceWatch<'a>,
    /// Time of the last block.
    cost: Nanos,
    stop: Option<SessionStop>,
    notes: Vec<String>,
    /// Requests that failed while nothing was changed.
    failed: f64,
}

impl<'a, W: ProcessWorld> SwitchedService<'a, W> {
    pub(super) fn new(base: &'a Base, terms: &'a LoadTerms, world: W) -> Self {
        Self {
            base,
            terms,
            world,
            offers: Vec::new(),
            arms: Vec::new(),
            runs: 1,
            watch: ServiceWatch::new(&base.spec.guards, Vec::new()),
            cost: Nanos(0),
            stop: None,
            notes: Vec::new(),
            failed: 0.0,
        }
    }

    /// Runs one block of an arm. Also returns why the arm must not be tried again, if so. No remedy is on
    /// afterwards.
    fn block(
        &mut self,
        at: usize,
        is_on_first: bool,
    ) -> Result<(BlockSides, Option<String>), SessionStop> {
        let mut block = BlockSides::new(self.world.holding());
        let mut broken = None;
        for is_on in [is_on_first, !is_on_first, !is_on_first, is_on_first] {
            broken = self.part(&mut block, at, is_on)?;
            block.side(is_on).at_last = self.world.holding();
            if broken.is_some() {
                break;
            }
        }
        self.world.off()?;
        Ok((block, broken))
    }

    /// Runs of the load with the remedy on, or off. Why it is to be undone, if so.
    fn part(
        &mut self,
        block: &mut BlockSides,
        at: usize,
        is_on: bool,
    ) -> Result<Option<String>, SessionStop> {
        if is_on != self.world.is_on() {
            let begun = self.world.now();
            if let Some(why) = self.switch(at, is_on)? {
                return Ok(Some(why));
            }
            block.side(is_on).ready_ns = Nanos(self.world.now().0.saturating_sub(begun.0));
        }
        if !self.world.is_washed() {
            block.side(is_on).warm_ups += 1;
            let seen = self.window(is_on)?;
            if let Some(why) =
                seen.map_or_else(Some, |window| self.watch.failed(&window)).filter(|_| is_on)
            {
                return Ok(Some(undone(&why)));
            }
        }
        if block.side(is_on).windows.is_empty() {
            block.side(is_on).at_first = self.world.holding();
        }
        for _ in 0..self.runs {
            let window = match self.window(is_on)? {
                Ok(window) => window,
                Err(why) => return Ok(Some(undone(&why))),
            };
            block.side(is_on).windows.push(window.clone());
            if !is_on {
                self.watch.add_off(&window);
                self.failed += window.load.errors.unwrap_or(0.0);
            } else if let Some(why) = self.watch.add_on(at, &window) {
                return Ok(Some(undone(&why)));
            }
        }
        Ok(None)
    }

    /// Switches; why the arm cannot be on, if so.
    fn switch(&mut self, at: usize, is_on: bool) -> Result<Option<String>, SessionStop> {
        if !is_on {
            self.world.off()?;
            return Ok(None);
        }
        let before = self.world.holding();
        match self.world.on(&self.arms[at].change)? {
            Err(why) => Ok(Some(why)),
            Ok(applied) if applied.changed < applied.refused => {
                let why = applied.why.unwrap_or_default();
                let all = applied.changed + applied.refused;
                Ok(Some(format!("only {} of {all} could be changed: {why}", applied.changed)))
            }
            Ok(_) => {
                let broken = self.watch.memory(&before, &self.world.holding());
                Ok(broken.map(|why| undone(&why)))
            }
        }
    }

    /// One run of the load. The inner error occurs only with the remedy on.
    fn window(&mut self, is_on: bool) -> Result<Result<ServiceWindow, String>, SessionStop> {
        let failure = match self.world.window() {
            Ok(window) => return Ok(Ok(window)),
            Err(SessionStop::Service(why)) if is_on && !self.world.has_ended() => why,
            Err(stop) => return Err(stop),
        };
        self.world.off()?;
        match self.world.window() {
            Ok(_) => Ok(Err(failure)),
            Err(stop) => Err(stop),
        }
    }
}

impl<W: ProcessWorld> ObservedService for SwitchedService<'_, W> {
    const LOOK: &'static str = "the process as it is under its load";

    fn terms(&self) -> &LoadTerms {
        self.terms
    }

    fn service(&self) -> Result<TunedService, SessionStop> {
        Ok(TunedService {
            mode: ServiceMode::Toggle,
            mode_why: "the process runs already".to_owned(),
            first: None,
            pairs: Vec::new(),
        })
    }

    fn see(&mut self) -> Result<PlainObservation, SessionStop> {
        self.world.look(&mut self.notes)
    }

    fn candidates(
        &mut self,
        evidence: &RemedyEvidence<'_>,
        side: &ServerMeasurement,
    ) -> Vec<RemedyCandidate> {
        let program = Program::from_command(&self.base.spec.command);
        let (root, pids) = (self.world.pid(), self.world.pids());
        let cpus_used = cpus_used(side);
        let running = RunningService { root, pids: &pids, cpus_used, program: &program };
        self.offers = offers(evidence, &running);
        self.offers.iter().map(|offer| offer.candidate.clone()).collect()
    }

    fn note(&mut self, note: String) {
        self.notes.push(note);
    }
}

impl<W: ProcessWorld> TunableSubject for SwitchedService<'_, W> {
    const UNIT: BlockUnit = BlockUnit::WatchedPair;

    fn base(&self) -> &Base {
        self.base
    }

    fn budget(&self) -> Nanos {
        answer::budget(self.base)
    }

    fn look(&mut self, run: &mut SavedRun, _: Nanos) -> Result<(), SessionStop> {
        look::look(self, run)
    }

    fn resume(&mut self, run: &SavedRun) -> bool {
        run.service.is_some()
    }

    fn enter(&mut self, run: &mut SavedRun, _: Nanos) -> Result<Vec<RaceEntrant>, SessionStop> {
        self.arms = arms(std::mem::take(&mut self.offers), self.base.spec.only.as_deref())?;
        let first = run.service.as_ref().and_then(|service| service.first.as_ref());
        let first = first.map(|side| side.windows.clone()).unwrap_or_default();
        let usual =
            first.iter().map(|window| window.wall_ns.0).sum::<u64>() / first.len().max(1) as u64;
        self.runs = (PART.0 / usual.max(1)).clamp(1, u64::from(MOST)) as u32;
        self.watch = ServiceWatch::new(&self.base.spec.guards, first);
        // Four parts, and three runs that do not count.
        self.cost = Nanos(usual * u64::from(4 * self.runs + 3));
        let entrant = |arm: &SwitchedArm| RaceEntrant {
            name: arm.name.clone(),
            counter: match arm.change {
                LiveChange::HeapHuge => RemedyCounter::AnonHuge,
                LiveChange::Cpus { .. } => RemedyCounter::None,
            },
            barred: None,
            at_once: false,
        };
        Ok(self.arms.iter().map(entrant).collect())
    }

    fn nothing_to_try(&self, run: &SavedRun) -> SessionOutcome {
        answer::nothing_fits(run)
    }

    fn doses(&self) -> Vec<(String, Vec<RemedyDose>)> {
        self.arms.iter().map(|arm| (arm.name.clone(), vec![arm.dose.clone()])).collect()
    }

    fn receipt(&self, _: &SavedRun, arm: &str) -> Option<RemedyReceipt> {
        let arm = self.arms.iter().find(|one| one.name == arm)?;
        let doses = std::slice::from_ref(&arm.dose);
        let mut receipt = answer::receipt(doses, &self.base.start());
        receipt.notes.push(format!(
            "process {} is as it was before: these lines act at its next start",
            self.world.pid()
        ));
        receipt.notes.push(
            "another start was not tested, and starts differ by up to 3%: to prove it for fresh starts, use pagewise tune --serve"
                .to_owned(),
        );
        Some(receipt)
    }

    fn take_stop(&mut self) -> Option<SessionStop> {
        self.stop.take()
    }

    fn finish(
        &mut self,
        run: &mut SavedRun,
        done: Result<(), SessionStop>,
    ) -> Result<(), SessionStop> {
        let undone = self.world.off();
        if let (Err(_), Err(left)) = (&done, &undone) {
            self.notes.push(left.to_string());
        }
        if self.failed > 0.0 {
            self.notes
                .push(format!("{:.0} requests failed while nothing was changed", self.failed));
        }
        run.warnings.append(&mut self.notes);
        done.and(undone)
    }
}

impl<W: ProcessWorld> SessionClock for SwitchedService<'_, W> {
    fn now(&self) -> Nanos {
        self.world.now()
    }

    fn interrupted(&self) -> bool {
        self.world.interrupted()
    }
}

impl<W: ProcessWorld> SessionSurroundings for SwitchedService<'_, W> {
    fn machine(&mut self) -> Machine {
        self.world.machine()
    }

    fn prices(&mut self) -> Result<SessionPrices, SessionStop> {
        self.world.prices()
    }

    fn tell(&mut self, event: &SessionEvent<'_>) {
        self.world.tell(event);
    }
}

impl<W: ProcessWorld> race::RaceSubject for SwitchedService<'_, W> {
    fn run(&mut self, order: &PlannedBlock, policy: &RacePolicy, time: &RaceTime) -> BlockRun {
        let mut done = BlockRun::default();
        let Some(at) = order.runs.iter().find_map(|arm| *arm) else { return done };
        session::show(&mut self.world, policy, at, time);
        let begun = self.world.now();
        match self.block(at, order.runs.first().is_some_and(Option::is_some)) {
            Ok((BlockSides { off, on }, broken)) => {
                self.cost = Nanos(self.world.now().0.saturating_sub(begun.0));
                done.failed.extend(broken.map(|why| (at, why)));
                let arm = self.arms[at].name.clone();
                let pair = ServerPair { arm, mode: ServiceMode::Toggle, plain: off, other: on };
                done.block = Some(RaceBlock::Pair(pair));
            }
            Err(stop) => {
                done.end = Err(race::halt(&stop));
                self.stop = Some(stop);
            }
        }
        done
    }

    fn cost_ns(&self, arm: Option<usize>) -> u64 {
        arm.map_or(0, |_| self.cost.0)
    }
}

fn undone(why: &str) -> String {
    format!("{why}; switched off at once and not tried again")
}
