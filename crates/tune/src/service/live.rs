//! A service that already runs, tuned by switching remedies on and off while it serves.
//!
//! A block is the unit of the race: windows with the remedy off and on in the order off on on off or on off
//! off on, chosen at random, so that drift affects both equally. After each switch one run of the load does
//! not count. There are no two starts that could differ, so a block is cheap. Its result holds for this
//! process in this state, and not for another start.
//!
//! Guards are checked after each run of the load ([`Watch`]). If one is broken, its remedy is undone
//! immediately and not tried again.

use super::Terms;
use super::answer;
use super::look::{self, UnderLoad};
use super::stage::Seen;
use super::subject::{Helpers, Subject, cpus_used};
use crate::choose;
use crate::live::Listener;
use crate::race::{self, BlockRun, Clock, Time};
use crate::request::Request as Base;
use crate::session::{self, Tunable};
use crate::stop::Stop;
use crate::world::{Event, Surroundings};
use pagewise_judge::race::{Block, Counter, Entrant, Order, Policy, Unit};
use pagewise_judge::service::Watch;
use pagewise_kernel::clock;
use pagewise_model::Nanos;
use pagewise_model::machine::Machine;
use pagewise_model::plan::{Candidate, Dose, Receipt};
use pagewise_model::price::Prices;
use pagewise_model::run::{Outcome, Run, RunKind};
use pagewise_model::service::{Holding, Mode, Pair, Service, Side, Window};
use pagewise_remedy::live::{Applied, Change, Offer, Running, offers};
use pagewise_remedy::{Evidence, Target as Program};
use pagewise_tracee::target::Target;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Runs of the load in a part of a block last at least this long together.
const PART: Nanos = Nanos::millis(800);
/// Most runs of the load in a part of a block.
const MOST: u32 = 4;

/// A running service and its load.
#[derive(Debug)]
pub struct Live {
    /// The part common with programs that end. Its command is the service's.
    pub base: Base,
    pub target: Target,
    pub terms: Terms,
}

/// Runs a session to its end. The run contains everything found so far, even after an early stop.
pub fn run(
    request: &Live,
    helpers: &Helpers,
    stop: Arc<AtomicBool>,
    listener: Listener<'_>,
) -> (Run, Option<Stop>) {
    let since = clock::now();
    let run = request.base.empty_run(RunKind::Tune, &request.base.spec.command);
    let subject = Subject::new(request, helpers, stop, listener);
    let switched = subject.map(|world| Switched::new(&request.base, &request.terms, world));
    session::tune(run, since, switched)
}

/// A process that runs already, its load, and what switches it.
pub(super) trait ProcessWorld: Surroundings {
    fn pid(&self) -> i32;
    fn pids(&self) -> Vec<i32>;
    /// What its memory holds now.
    fn holding(&self) -> Holding;
    fn has_ended(&self) -> bool;
    /// A remedy is on.
    fn is_on(&self) -> bool;
    /// The load ran since the last switch.
    fn is_washed(&self) -> bool;
    /// Observes the unchanged process under its load, and adds notes for the user.
    ///
    /// # Errors
    /// If the process ends or the load fails.
    fn look(&mut self, notes: &mut Vec<String>) -> Result<Seen, Stop>;
    /// Runs the load once.
    ///
    /// # Errors
    /// When the process ends or the load fails.
    fn window(&mut self) -> Result<Window, Stop>;
    /// Makes a change; the inner error says why it cannot be made.
    ///
    /// # Errors
    /// When the user interrupts or our process dies.
    fn on(&mut self, change: &Change) -> Result<Result<Applied, String>, Stop>;
    /// Undoes it.
    ///
    /// # Errors
    /// When it cannot be undone.
    fn off(&mut self) -> Result<(), Stop>;
}

/// A remedy that is switched.
struct Arm {
    dose: Dose,
    name: String,
    change: Change,
}

/// Windows of one block.
struct Sides {
    off: Side,
    on: Side,
}

impl Sides {
    /// The state before any window, with the current memory of the service.
    fn new(now: Holding) -> Self {
        let side = || Side {
            ready_ns: Nanos(0),
            warm_ups: 0,
            windows: Vec::new(),
            at_first: now,
            at_last: now,
        };
        Self { off: side(), on: side() }
    }

    const fn side(&mut self, is_on: bool) -> &mut Side {
        if is_on { &mut self.on } else { &mut self.off }
    }
}

/// A service that is switched.
pub(super) struct Switched<'a, W> {
    base: &'a Base,
    terms: &'a Terms,
    world: W,
    /// What fits and can be switched.
    pub(super) offers: Vec<Offer>,
    arms: Vec<Arm>,
    /// Of the load in a part of a block.
    runs: u32,
    watch: Watch<'a>,
    /// Time of the last block.
    cost: Nanos,
    stop: Option<Stop>,
    notes: Vec<String>,
    /// Requests that failed while nothing was changed.
    failed: f64,
}

impl<'a, W: ProcessWorld> Switched<'a, W> {
    pub(super) fn new(base: &'a Base, terms: &'a Terms, world: W) -> Self {
        Self {
            base,
            terms,
            world,
            offers: Vec::new(),
            arms: Vec::new(),
            runs: 1,
            watch: Watch::new(&base.spec.guards, Vec::new()),
            cost: Nanos(0),
            stop: None,
            notes: Vec::new(),
            failed: 0.0,
        }
    }

    /// Runs one block of an arm. Also returns why the arm must not be tried again, if so. No remedy is on
    /// afterwards.
    fn block(&mut self, at: usize, is_on_first: bool) -> Result<(Sides, Option<String>), Stop> {
        let mut block = Sides::new(self.world.holding());
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
    fn part(&mut self, block: &mut Sides, at: usize, is_on: bool) -> Result<Option<String>, Stop> {
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
    fn switch(&mut self, at: usize, is_on: bool) -> Result<Option<String>, Stop> {
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
    fn window(&mut self, is_on: bool) -> Result<Result<Window, String>, Stop> {
        let failure = match self.world.window() {
            Ok(window) => return Ok(Ok(window)),
            Err(Stop::Service(why)) if is_on && !self.world.has_ended() => why,
            Err(stop) => return Err(stop),
        };
        self.world.off()?;
        match self.world.window() {
            Ok(_) => Ok(Err(failure)),
            Err(stop) => Err(stop),
        }
    }
}

impl<W: ProcessWorld> UnderLoad for Switched<'_, W> {
    const LOOK: &'static str = "the process as it is under its load";

    fn terms(&self) -> &Terms {
        self.terms
    }

    fn service(&self) -> Result<Service, Stop> {
        Ok(Service {
            mode: Mode::Toggle,
            mode_why: "the process runs already".to_owned(),
            first: None,
            pairs: Vec::new(),
        })
    }

    fn see(&mut self) -> Result<Seen, Stop> {
        self.world.look(&mut self.notes)
    }

    fn candidates(&mut self, evidence: &Evidence<'_>, side: &Side) -> Vec<Candidate> {
        let program = Program::from_command(&self.base.spec.command);
        let (root, pids) = (self.world.pid(), self.world.pids());
        let cpus_used = cpus_used(side);
        let running = Running { root, pids: &pids, cpus_used, program: &program };
        self.offers = offers(evidence, &running);
        self.offers.iter().map(|offer| offer.candidate.clone()).collect()
    }

    fn note(&mut self, note: String) {
        self.notes.push(note);
    }
}

impl<W: ProcessWorld> Tunable for Switched<'_, W> {
    const UNIT: Unit = Unit::WatchedPair;

    fn base(&self) -> &Base {
        self.base
    }

    fn budget(&self) -> Nanos {
        answer::budget(self.base)
    }

    fn look(&mut self, run: &mut Run, _: Nanos) -> Result<(), Stop> {
        look::look(self, run)
    }

    fn resume(&mut self, run: &Run) -> bool {
        run.service.is_some()
    }

    fn enter(&mut self, run: &mut Run, _: Nanos) -> Result<Vec<Entrant>, Stop> {
        self.arms = arms(std::mem::take(&mut self.offers), self.base.spec.only.as_deref())?;
        let first = run.service.as_ref().and_then(|service| service.first.as_ref());
        let first = first.map(|side| side.windows.clone()).unwrap_or_default();
        let usual =
            first.iter().map(|window| window.wall_ns.0).sum::<u64>() / first.len().max(1) as u64;
        self.runs = (PART.0 / usual.max(1)).clamp(1, u64::from(MOST)) as u32;
        self.watch = Watch::new(&self.base.spec.guards, first);
        // Four parts, and three runs that do not count.
        self.cost = Nanos(usual * u64::from(4 * self.runs + 3));
        let entrant = |arm: &Arm| Entrant {
            name: arm.name.clone(),
            counter: match arm.change {
                Change::HeapHuge => Counter::AnonHuge,
                Change::Cpus { .. } => Counter::None,
            },
            barred: None,
            at_once: false,
        };
        Ok(self.arms.iter().map(entrant).collect())
    }

    fn nothing_to_try(&self, run: &Run) -> Outcome {
        answer::nothing_fits(run)
    }

    fn doses(&self) -> Vec<(String, Vec<Dose>)> {
        self.arms.iter().map(|arm| (arm.name.clone(), vec![arm.dose.clone()])).collect()
    }

    fn receipt(&self, _: &Run, arm: &str) -> Option<Receipt> {
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

    fn take_stop(&mut self) -> Option<Stop> {
        self.stop.take()
    }

    fn finish(&mut self, run: &mut Run, done: Result<(), Stop>) -> Result<(), Stop> {
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

impl<W: ProcessWorld> Clock for Switched<'_, W> {
    fn now(&self) -> Nanos {
        self.world.now()
    }

    fn interrupted(&self) -> bool {
        self.world.interrupted()
    }
}

impl<W: ProcessWorld> Surroundings for Switched<'_, W> {
    fn machine(&mut self) -> Machine {
        self.world.machine()
    }

    fn prices(&mut self) -> Result<Prices, Stop> {
        self.world.prices()
    }

    fn tell(&mut self, event: &Event<'_>) {
        self.world.tell(event);
    }
}

impl<W: ProcessWorld> race::Subject for Switched<'_, W> {
    fn run(&mut self, order: &Order, policy: &Policy, time: &Time) -> BlockRun {
        let mut done = BlockRun::default();
        let Some(at) = order.runs.iter().find_map(|arm| *arm) else { return done };
        session::show(&mut self.world, policy, at, time);
        let begun = self.world.now();
        match self.block(at, order.runs.first().is_some_and(Option::is_some)) {
            Ok((Sides { off, on }, broken)) => {
                self.cost = Nanos(self.world.now().0.saturating_sub(begun.0));
                done.failed.extend(broken.map(|why| (at, why)));
                let arm = self.arms[at].name.clone();
                let pair = Pair { arm, mode: Mode::Toggle, plain: off, other: on };
                done.block = Some(Block::Pair(pair));
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

/// What fits and can be switched, or was asked for.
fn arms(offers: Vec<Offer>, only: Option<&[Dose]>) -> Result<Vec<Arm>, Stop> {
    let arm = |offer: Offer| {
        let dose = offer.candidate.doses.into_iter().next()?;
        let name = choose::name(std::slice::from_ref(&dose));
        Some(Arm { dose, name, change: offer.change? })
    };
    let Some(only) = only else {
        return Ok(offers.into_iter().filter_map(arm).collect());
    };
    let wanted = |dose: &Dose| {
        let offer = offers.iter().find(|offer| offer.candidate.remedy == dose.remedy);
        let why = match offer {
            None => "cannot be switched: use --serve".to_owned(),
            Some(offer) if !offer.candidate.fits() => offer.candidate.why.clone(),
            Some(_) => format!("cannot be switched: use --only {}", dose.remedy),
        };
        let refused = || Stop::Service(format!("--only {}: {why}", dose.spec()));
        let found = offer.cloned().and_then(arm).filter(|arm| arm.dose.spec() == dose.spec());
        found.ok_or_else(refused)
    };
    only.iter().map(wanted).collect()
}

fn undone(why: &str) -> String {
    format!("{why}; switched off at once and not tried again")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::plan::{Candidate, Settings};

    fn dose(remedy: &str, parameter: &str) -> Dose {
        let (remedy, parameter) = (remedy.to_owned(), parameter.to_owned());
        Dose { remedy, parameter, settings: Settings::default() }
    }

    fn offer(remedy: &str, doses: Vec<Dose>) -> Offer {
        let candidate = Candidate {
            remedy: remedy.to_owned(),
            sentence: String::new(),
            why: "it is too small".to_owned(),
            ceiling_share: 0.1,
            doses,
        };
        Offer { candidate, change: Some(Change::HeapHuge) }
    }

    #[test]
    fn only_the_dose_that_is_asked_for_is_switched() {
        let of = |only: Option<Dose>| {
            let offers =
                vec![offer("place", vec![dose("place", "one")]), offer("heap-huge", Vec::new())];
            let found = arms(offers, only.as_ref().map(std::slice::from_ref));
            found.map(|arms| arms.into_iter().map(|arm| arm.name).collect::<Vec<_>>())
        };
        let refused = |only: Dose| of(Some(only)).unwrap_err().to_string();
        assert_eq!(of(None).unwrap(), ["place=one"]);
        assert_eq!(of(Some(dose("place", "one"))).unwrap(), ["place=one"]);
        let other = refused(dose("place", "apart"));
        assert_eq!(other, "--only place=apart: cannot be switched: use --only place");
        assert_eq!(refused(dose("heap-huge", "")), "--only heap-huge: it is too small");
        assert_eq!(refused(dose("arenas", "")), "--only arenas: cannot be switched: use --serve");
    }
}
