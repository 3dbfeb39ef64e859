//! Servers that are started for each pair.
//!
//! The unit of the race is a pair of fresh starts ([`pagewise_judge::service`]). Which of the two starts
//! first and which half of the CPUs each begins on is random; so is the order of arms. Two servers of
//! one pair run at once where they can (`duet`), else one after the other (`restart`).

use super::answer;
use super::look::{self, UnderLoad};
use super::stage::{Failure, Seen};
use super::{FIT, Pairing, Request, Shape, Terms, place};
use crate::choose;
use crate::conditions;
use crate::race::{self, BlockRun, Clock, Time};
use crate::request::Request as Base;
use crate::session::{self, Tunable};
use crate::stop::Stop;
use crate::world::{Arm, Event, Surroundings};
use pagewise_judge::race::{Block, Counter, Entrant, Order, Policy, Unit};
use pagewise_judge::stats::Rng;
use pagewise_model::Nanos;
use pagewise_model::machine::Machine;
use pagewise_model::plan::{Candidate, Dose, Receipt};
use pagewise_model::price::Prices;
use pagewise_model::run::{Outcome, Run};
use pagewise_model::service::{Mode, Pair, Service, Side};
use pagewise_remedy::{Evidence, Mechanism};
use std::collections::BTreeMap;

/// Windows of a server in a pair at least and at most; even, because halves are swapped.
const WINDOWS: (u32, u32) = (2, 16);
/// Pairs of each arm that the budget shall have room for.
const PAIRS: u64 = 8;

/// What starts servers and loads them.
pub(super) trait ServerWorld: Surroundings {
    /// There are CPUs for two servers at once.
    fn has_halves(&self) -> bool;
    /// One start of the plain server, looked at under load.
    ///
    /// # Errors
    /// When it cannot be started or loaded.
    fn look(&mut self, plain: &Arm) -> Result<Seen, Stop>;
    /// A pair of fresh starts.
    ///
    /// # Errors
    /// When the session or the arm failed.
    fn pair(&mut self, plain: &Arm, arm: &Arm, pairing: &Pairing) -> Result<Pair, Failure>;
    /// What the user must know, each once.
    fn note(&mut self, note: String);
    fn take_notes(&mut self) -> Vec<String>;
}

/// An arm with what shows that it acts and how it is paired.
struct Entry {
    arm: Arm,
    counter: Counter,
    mode: Mode,
}

/// Servers under load.
pub(super) struct Servers<'a, W> {
    request: &'a Request,
    world: W,
    entries: Vec<Entry>,
    plain: Arm,
    /// Of each server in a pair.
    windows: u32,
    /// What a pair took last, by mode.
    cost: BTreeMap<&'static str, Nanos>,
    rng: Rng,
    stop: Option<Stop>,
}

impl<'a, W: ServerWorld> Servers<'a, W> {
    pub(super) fn new(request: &'a Request, world: W) -> Self {
        Self {
            world,
            entries: Vec::new(),
            plain: Arm::plain(&request.base),
            windows: WINDOWS.0,
            cost: BTreeMap::new(),
            rng: Rng::new(request.base.spec.seed),
            stop: None,
            request,
        }
    }

    /// How servers are compared, and why so.
    fn mode(&self) -> Result<(Mode, String), Stop> {
        let reason = if !self.world.has_halves() {
            Some("there is one CPU")
        } else if !place::has_placeholder(&self.request.serve) {
            Some("the server's command names no {port}, so two cannot run at once")
        } else {
            None
        };
        match (self.request.mode, reason) {
            (Some(Mode::Duet), Some(why)) => Err(Stop::Service(format!("--mode duet: {why}"))),
            (Some(mode), _) => Ok((mode, "as asked".to_owned())),
            (None, None) => Ok((Mode::Duet, "two servers can run at once".to_owned())),
            (None, Some(why)) => Ok((Mode::Restart, why.to_owned())),
        }
    }

    /// The arms: what fits or was asked for, and the user's own.
    fn entries(&self, run: &Run, mode: Mode) -> Vec<Entry> {
        let doses = choose::doses(&self.request.base, &run.candidates);
        let of_dose = |dose: Dose| {
            let arm = choose::arm(&self.request.base, std::slice::from_ref(&dose));
            let counter = match arm.mechanism.first() {
                Some(Mechanism::HugeFaults) => Counter::AnonHuge,
                Some(Mechanism::TextHuge) => Counter::FileHuge,
                _ => Counter::None,
            };
            // Two servers of one machine share the page cache.
            let mode = if arm.settings.huge_files.is_empty() { mode } else { Mode::Restart };
            Entry { arm, counter, mode }
        };
        let own = self.request.base.spec.own_arms.iter().map(|own| Entry {
            arm: Arm::own(own),
            counter: Counter::None,
            mode,
        });
        let mut all: Vec<Entry> = doses.into_iter().map(of_dose).chain(own).collect();
        let files: Vec<String> = all
            .iter()
            .flat_map(|entry| entry.arm.settings.huge_files.iter().map(|file| file.path.clone()))
            .collect();
        for entry in &mut all {
            let own = &entry.arm.settings.huge_files;
            let is_own = |path: &&String| own.iter().any(|file| file.path == **path);
            entry.arm.natural_files = files.iter().filter(|path| !is_own(path)).cloned().collect();
        }
        all
    }

    /// What pairs take, by the look and by the last pairs.
    fn expect(&mut self, service: &Service) {
        if let Some(first) = &service.first {
            self.cost.insert(Mode::Duet.into_str(), took(first));
            self.cost.insert(Mode::Restart.into_str(), Nanos(2 * took(first).0));
        }
        for pair in &service.pairs {
            self.cost.insert(pair.mode.into_str(), pair_took(pair));
        }
    }
}

impl<W: ServerWorld> UnderLoad for Servers<'_, W> {
    const LOOK: &'static str = "the plain server under its load";

    fn terms(&self) -> &Terms {
        &self.request.terms
    }

    fn service(&self) -> Result<Service, Stop> {
        let (mode, mode_why) = self.mode()?;
        Ok(Service { mode, mode_why, first: None, pairs: Vec::new() })
    }

    fn see(&mut self) -> Result<Seen, Stop> {
        self.world.look(&self.plain)
    }

    fn candidates(&mut self, evidence: &Evidence<'_>, _: &Side) -> Vec<Candidate> {
        let mut candidates = choose::candidates(evidence, self.request.base.spec.quantity);
        candidates.retain(|candidate| FIT.contains(&candidate.remedy.as_str()));
        candidates
    }

    fn note(&mut self, note: String) {
        self.world.note(note);
    }
}

impl<W: ServerWorld> Tunable for Servers<'_, W> {
    const UNIT: Unit = Unit::Pair;

    fn base(&self) -> &Base {
        &self.request.base
    }

    fn budget(&self) -> Nanos {
        answer::budget(self.base())
    }

    fn look(&mut self, run: &mut Run, _: Nanos) -> Result<(), Stop> {
        look::look(self, run)
    }

    fn resume(&mut self, run: &Run) -> bool {
        run.service.is_some()
    }

    fn enter(&mut self, run: &mut Run, left: Nanos) -> Result<Vec<Entrant>, Stop> {
        let Some(service) = &run.service else { return Ok(Vec::new()) };
        self.expect(service);
        self.entries = self.entries(run, service.mode);
        let files = self.entries.iter().flat_map(|entry| &entry.arm.settings.huge_files);
        self.plain.natural_files = files.map(|file| file.path.clone()).collect();
        let room = Nanos(left.0 / (PAIRS * self.entries.len().max(1) as u64));
        self.windows = service.first.as_ref().map_or(WINDOWS.0, |side| windows_for(side, room));
        let entrant = |entry: &Entry| Entrant {
            name: entry.arm.name.clone(),
            counter: entry.counter,
            barred: None,
            at_once: false,
        };
        Ok(self.entries.iter().map(entrant).collect())
    }

    fn nothing_to_try(&self, run: &Run) -> Outcome {
        answer::nothing_fits(run)
    }

    fn doses(&self) -> Vec<(String, Vec<Dose>)> {
        let dosed = self.entries.iter().filter(|entry| !entry.arm.doses.is_empty());
        dosed.map(|entry| (entry.arm.name.clone(), entry.arm.doses.clone())).collect()
    }

    fn receipt(&self, run: &Run, arm: &str) -> Option<Receipt> {
        let (_, doses) = run.doses.iter().find(|(name, _)| name == arm)?;
        let mut receipt = answer::receipt(doses, &self.request.base.start());
        if self.request.serve.contains('{') {
            receipt.notes.push("write your own port and directory for {port} and {dir}".to_owned());
        }
        Some(receipt)
    }

    fn take_stop(&mut self) -> Option<Stop> {
        self.stop.take()
    }

    fn finish(&mut self, run: &mut Run, done: Result<(), Stop>) -> Result<(), Stop> {
        run.warnings.append(&mut self.world.take_notes());
        if run.experiment.is_some() {
            run.files = conditions::files(&self.request.base, run);
        }
        done
    }
}

impl<W: ServerWorld> Clock for Servers<'_, W> {
    fn now(&self) -> Nanos {
        self.world.now()
    }

    fn interrupted(&self) -> bool {
        self.world.interrupted()
    }
}

impl<W: ServerWorld> Surroundings for Servers<'_, W> {
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

impl<W: ServerWorld> race::Subject for Servers<'_, W> {
    fn run(&mut self, order: &Order, policy: &Policy, time: &Time) -> BlockRun {
        let mut done = BlockRun::default();
        let Some(at) = order.runs.iter().find_map(|arm| *arm) else { return done };
        session::show(&mut self.world, policy, at, time);
        let entry = &self.entries[at];
        let shape = Shape { windows: self.windows, slot: self.rng.below(2) as u32 };
        let arm_first = order.runs.first().is_some_and(Option::is_some);
        let pairing = Pairing { mode: entry.mode, shape, arm_first };
        let begun = self.world.now();
        match self.world.pair(&self.plain, &entry.arm, &pairing) {
            Ok(pair) => {
                let took = Nanos(self.world.now().0.saturating_sub(begun.0));
                self.cost.insert(entry.mode.into_str(), took);
                done.block = Some(Block::Pair(pair));
            }
            Err(Failure::Session(stop)) => {
                done.end = Err(race::halt(&stop));
                self.stop = Some(stop);
            }
            Err(Failure::Arm(why)) => done.failed.push((at, why)),
        }
        done
    }

    fn cost_ns(&self, arm: Option<usize>) -> u64 {
        let mode = arm.map(|arm| self.entries[arm].mode.into_str());
        mode.and_then(|mode| self.cost.get(mode)).map_or(0, |took| took.0)
    }
}

/// Windows of a server in a pair: as much time as its start took. Whichever of windows and starts vary more,
/// the interval then takes at most twice the time that the best number of windows would need. `room` is what
/// a pair may take.
fn windows_for(side: &Side, room: Nanos) -> u32 {
    let windows = side.windows.len().max(1) as f64;
    let window = side.windows.iter().map(|one| one.wall_ns.0 as f64).sum::<f64>() / windows;
    let start = side.ready_ns.0 as f64 + f64::from(side.warm_ups) * window;
    let loaded = start.min(room.0 as f64 - start);
    let even = 2 * (loaded / window.max(1.0) / 2.0).round() as u32;
    even.clamp(WINDOWS.0, WINDOWS.1)
}

/// How long a server was there: until ready, warming up, and loaded.
fn took(side: &Side) -> Nanos {
    let loaded = side.windows.iter().fold(Nanos(0), |sum, window| sum + window.wall_ns);
    let windows = side.windows.len().max(1) as u64;
    side.ready_ns + loaded + Nanos(loaded.0 / windows * u64::from(side.warm_ups))
}

fn pair_took(pair: &Pair) -> Nanos {
    let (plain, other) = (took(&pair.plain), took(&pair.other));
    match pair.mode {
        Mode::Duet => plain.max(other),
        Mode::Restart | Mode::Toggle => plain + other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::service::{Holding, Load, Window};

    fn side(ready: u64, windows: usize) -> Side {
        let window = Window {
            cpu_ns: Nanos(1),
            wall_ns: Nanos::secs(2),
            generator_cpu_ns: Nanos(1),
            load: Load::default(),
        };
        Side {
            ready_ns: Nanos::secs(ready),
            warm_ups: 3,
            windows: vec![window; windows],
            at_first: Holding::default(),
            at_last: Holding::default(),
        }
    }

    #[test]
    fn a_pair_takes_what_its_servers_took_together_or_in_turn() {
        let pair = |mode| Pair { arm: "a".into(), mode, plain: side(1, 2), other: side(3, 2) };
        assert_eq!(pair_took(&pair(Mode::Duet)), Nanos::secs(3 + 10));
        assert_eq!(pair_took(&pair(Mode::Restart)), Nanos::secs(1 + 10 + 3 + 10));
        assert_eq!(took(&side(1, 0)), Nanos::secs(1), "without a window");
    }
}
