//! A service that runs already, tuned by switching remedies on and off while it serves.
//!
//! A block is the unit of the race: windows with the remedy off and on in the order off on on off or on off off on,
//! drawn at random, so that what drifts meets both. After each switch one run of the load does not count. There
//! are no two starts that could differ, so a block costs little; what it shows holds for this process in
//! this state, and not for another start.
//!
//! Guards are looked at after each run of the load ([`Watch`]); the remedy of a broken one is undone at once
//! and not tried again.

use super::answer::{self, Named};
use super::subject::{Helpers, Subject, cpus_used};
use super::{Terms, watched};
use crate::choose;
use crate::live::Listener;
use crate::race::{self, BlockRun, Time};
use crate::request::Request as Base;
use crate::stop::Stop;
use crate::world::Event;
use pagewise_judge::race::{Block as RaceBlock, Counter, Policy, Unit};
use pagewise_judge::service::Watch;
use pagewise_kernel::clock;
use pagewise_model::Nanos;
use pagewise_model::plan::{Dose, Receipt};
use pagewise_model::run::{Outcome, Run, RunKind};
use pagewise_model::service::{Holding, Mode, Pair, Service, Side, Window};
use pagewise_remedy::Target as Program;
use pagewise_remedy::live::{Change, Offer, Running, offers};
use pagewise_tracee::target::Target;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Runs of the load in a part of a block last at least this long together.
const PART: Nanos = Nanos::millis(800);
/// And are at most so many.
const MOST: u32 = 4;

/// A running service and its load.
#[derive(Debug)]
pub struct Live {
    /// What it shares with programs that end; its command is the service's.
    pub base: Base,
    pub target: Target,
    pub terms: Terms,
}

/// Runs a session to its end. What is known is in the run whatever happens.
pub fn run(
    request: &Live,
    helpers: &Helpers,
    stop: Arc<AtomicBool>,
    listener: Listener<'_>,
) -> (Run, Option<Stop>) {
    let since = clock::now();
    let mut run = request.base.empty_run(RunKind::Tune, &request.base.command);
    run.stdout = None;
    let end = Subject::new(request, helpers, stop).and_then(|subject| {
        let notes = Vec::new();
        Session { request, since, subject, listener, notes, failed: 0.0 }.go(&mut run)
    });
    let end = end.err();
    if matches!(end, Some(Stop::Interrupted)) {
        run.outcome = Some(Outcome::Interrupted);
    }
    run.took_ns = Nanos(clock::now().0.saturating_sub(since.0));
    (run, end)
}

struct Session<'a> {
    request: &'a Live,
    since: Nanos,
    subject: Subject<'a>,
    listener: Listener<'a>,
    notes: Vec<String>,
    /// Requests that failed while nothing was changed.
    failed: f64,
}

/// A remedy that is switched.
struct Arm {
    dose: Dose,
    name: String,
    change: Change,
}

impl Named for Arm {
    fn name(&self) -> &str {
        &self.name
    }
    fn doses(&self) -> &[Dose] {
        std::slice::from_ref(&self.dose)
    }
    fn counter(&self) -> Counter {
        match self.change {
            Change::HeapHuge => Counter::AnonHuge,
            Change::Cpus { .. } => Counter::None,
        }
    }
}

/// Windows of one block.
struct Block {
    off: Side,
    on: Side,
}

impl Block {
    /// Before any window, with what the service holds now.
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

impl Session<'_> {
    fn go(mut self, run: &mut Run) -> Result<(), Stop> {
        let done = self.advance(run);
        let undone = self.subject.off();
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

    fn advance(&mut self, run: &mut Run) -> Result<(), Stop> {
        (self.listener)(&Event::Stage("measuring this machine's unit prices"));
        run.machine = Some(pagewise_kernel::machine::machine());
        run.prices = Some(answer::prices(self.subject.stop())?);
        let terms = &self.request.terms;
        run.service = Some(Service {
            serve: self.request.target.command().join(" "),
            pid: Some(self.request.target.pid()),
            load: terms.load.clone(),
            metric: terms.metric.to_string(),
            mode: Mode::Toggle,
            mode_why: "the process runs already".to_owned(),
            first: None,
            pairs: Vec::new(),
            // What was the process is no longer there, or no longer the same.
            asked: None,
        });
        (self.listener)(&Event::Stage("the process as it is under its load"));
        let (side, usage, traced) = self.subject.look(&mut self.notes)?;
        self.notes.extend(answer::check(terms, &side)?);
        let mut found = Vec::new();
        let pids = self.subject.tree().pids();
        let program = Program::from_command(&self.request.base.command);
        let (root, cpus_used) = (self.request.target.pid(), cpus_used(&side));
        let running = Running { root, pids: &pids, cpus_used, program: &program };
        watched::diagnosed(run, usage, traced, |evidence| {
            found = offers(evidence, &running);
            found.iter().map(|offer| offer.candidate.clone()).collect()
        });
        (self.listener)(&Event::Chosen(run));
        if let Some(service) = &mut run.service {
            service.first = Some(side.clone());
        }
        if self.request.base.advise {
            run.outcome = Some(Outcome::AdviceOnly);
            return Ok(());
        }
        let arms = arms(found, self.request.base.only.as_deref())?;
        self.race(run, &arms, &side.windows)
    }

    fn race(&mut self, run: &mut Run, arms: &[Arm], first: &[Window]) -> Result<(), Stop> {
        if arms.is_empty() {
            run.outcome = Some(Outcome::NothingToGain { why: answer::nothing_fits(run) });
            return Ok(());
        }
        let (base, terms) = (&self.request.base, &self.request.terms);
        let mut policy = answer::policy(base, terms, Unit::WatchedPair, arms, run);
        let usual =
            first.iter().map(|window| window.wall_ns.0).sum::<u64>() / first.len().max(1) as u64;
        let runs = (PART.0 / usual.max(1)).clamp(1, u64::from(MOST)) as u32;
        let time = answer::time(base, self.since);
        let mut switched = Switched {
            session: self,
            parts: Parts { arms, runs, watch: Watch::new(&terms.guards, first.to_vec()) },
            // Four parts, and three runs that do not count.
            cost: Nanos(usual * u64::from(4 * runs + 3)),
            stop: None,
        };
        let halt = race::drive(&mut switched, &mut policy, &time, 0).err();
        let (cost, stop) = (switched.cost, switched.stop.take());
        let best =
            answer::conclude(run, policy, halt.as_ref(), arms, &|arm| arm.map_or(0, |_| cost.0));
        run.receipt = best.and_then(|arm| self.receipt(arms, &arm));
        answer::end(halt.as_ref(), stop)
    }

    /// One block of an arm, and why it is not to be tried again, if so. Nothing is on afterwards.
    fn block(
        &mut self,
        race: &mut Parts<'_, '_>,
        at: usize,
        is_on_first: bool,
    ) -> Result<(Block, Option<String>), Stop> {
        let mut block = Block::new(self.subject.tree().holding());
        let mut broken = None;
        for is_on in [is_on_first, !is_on_first, !is_on_first, is_on_first] {
            broken = self.part(race, &mut block, at, is_on)?;
            block.side(is_on).at_last = self.subject.tree().holding();
            if broken.is_some() {
                break;
            }
        }
        self.subject.off()?;
        Ok((block, broken))
    }

    /// Runs of the load with the remedy on, or off. Why it is to be undone, if so.
    fn part(
        &mut self,
        race: &mut Parts<'_, '_>,
        block: &mut Block,
        at: usize,
        is_on: bool,
    ) -> Result<Option<String>, Stop> {
        if is_on != self.subject.is_on() {
            let begun = clock::now();
            if let Some(why) = self.switch(race, at, is_on)? {
                return Ok(Some(why));
            }
            block.side(is_on).ready_ns = Nanos(clock::now().0.saturating_sub(begun.0));
        }
        if !self.subject.is_washed() {
            block.side(is_on).warm_ups += 1;
            let seen = self.window(is_on)?;
            if let Some(why) =
                seen.map_or_else(Some, |window| race.watch.failed(&window)).filter(|_| is_on)
            {
                return Ok(Some(undone(&why)));
            }
        }
        if block.side(is_on).windows.is_empty() {
            block.side(is_on).at_first = self.subject.tree().holding();
        }
        for _ in 0..race.runs {
            let window = match self.window(is_on)? {
                Ok(window) => window,
                Err(why) => return Ok(Some(undone(&why))),
            };
            block.side(is_on).windows.push(window.clone());
            if !is_on {
                race.watch.add_off(&window);
                self.failed += window.load.errors.unwrap_or(0.0);
            } else if let Some(why) = race.watch.add_on(at, &window) {
                return Ok(Some(undone(&why)));
            }
        }
        Ok(None)
    }

    /// Switches; why the arm cannot be on, if so.
    fn switch(
        &mut self,
        race: &Parts<'_, '_>,
        at: usize,
        is_on: bool,
    ) -> Result<Option<String>, Stop> {
        if !is_on {
            self.subject.off()?;
            return Ok(None);
        }
        let before = self.subject.tree().holding();
        match self.subject.on(&race.arms[at].change)? {
            Err(why) => Ok(Some(why)),
            Ok(applied) if applied.changed < applied.refused => {
                let why = applied.why.unwrap_or_default();
                let all = applied.changed + applied.refused;
                Ok(Some(format!("only {} of {all} could be changed: {why}", applied.changed)))
            }
            Ok(_) => {
                let broken = race.watch.memory(&before, &self.subject.tree().holding());
                Ok(broken.map(|why| undone(&why)))
            }
        }
    }

    /// One run of the load. The inner error is one that comes with the remedy on and not with it off.
    fn window(&mut self, is_on: bool) -> Result<Result<Window, String>, Stop> {
        let failure = match self.subject.window() {
            Ok(window) => return Ok(Ok(window)),
            Err(Stop::Service(why)) if is_on && !self.subject.has_ended() => why,
            Err(stop) => return Err(stop),
        };
        self.subject.off()?;
        match self.subject.window() {
            Ok(_) => Ok(Err(failure)),
            Err(stop) => Err(stop),
        }
    }

    fn receipt(&self, arms: &[Arm], arm: &str) -> Option<Receipt> {
        let arm = arms.iter().find(|one| one.name == arm)?;
        let doses = std::slice::from_ref(&arm.dose);
        let mut receipt = answer::receipt(doses, &self.request.base.start());
        receipt.notes.push(format!(
            "process {} is as it was before: these lines act at its next start",
            self.request.target.pid()
        ));
        receipt.notes.push(
            "another start was not tested, and starts differ by up to 3%: to prove it for fresh starts, use pagewise tune --serve"
                .to_owned(),
        );
        Some(receipt)
    }
}

/// A service that is switched, as the subject of a race.
struct Switched<'a, 's> {
    session: &'a mut Session<'s>,
    parts: Parts<'a, 's>,
    /// What a block took last.
    cost: Nanos,
    /// Why the session ends.
    stop: Option<Stop>,
}

/// What the parts of a block are made of.
struct Parts<'a, 'w> {
    arms: &'a [Arm],
    /// Of the load in a part of a block.
    runs: u32,
    watch: Watch<'w>,
}

impl race::Subject for Switched<'_, '_> {
    fn run(&mut self, order: &[Option<usize>], policy: &Policy, time: &Time) -> BlockRun {
        let mut done = BlockRun { block: None, failed: Vec::new(), end: Ok(()) };
        let Some(at) = order.iter().find_map(|arm| *arm) else { return done };
        answer::show(self.session.listener, policy, at, time);
        let begun = clock::now();
        let is_on_first = order.first().is_some_and(Option::is_some);
        match self.session.block(&mut self.parts, at, is_on_first) {
            Ok((block, broken)) => {
                self.cost = Nanos(clock::now().0.saturating_sub(begun.0));
                done.failed.extend(broken.map(|why| (at, why)));
                let arm = self.parts.arms[at].name.clone();
                let (mode, plain, other) = (Mode::Toggle, block.off, block.on);
                done.block = Some(RaceBlock::Pair(Pair { arm, mode, plain, other }));
            }
            Err(stop) => {
                done.end = Err(answer::halt(&stop));
                self.stop = Some(stop);
            }
        }
        done
    }

    fn cost_ns(&self, arm: Option<usize>) -> u64 {
        arm.map_or(0, |_| self.cost.0)
    }

    fn now(&self) -> Nanos {
        clock::now()
    }

    fn is_interrupted(&self) -> bool {
        self.session.subject.is_interrupted()
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
