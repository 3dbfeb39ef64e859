//! A service under its own load: start, diagnose, race the remedies, receipt.
//!
//! The unit of the race is a pair of fresh starts ([`pagewise_judge::service`]). Which of the two starts
//! first and which half of the CPUs each begins on is random; so is the order of arms. Two servers of
//! one pair run at once where they can (`duet`), else one after the other (`restart`).
//!
//! Not covered: remedies that need a tracer beside the server for each start (`place` moves processes
//! between CPUs, which the race does itself), and machines of their own for the generator.

mod answer;
mod earlier;
mod live;
mod load;
mod place;
mod reach;
mod ready;
mod server;
mod shell;
mod stage;
mod subject;
mod tree;
mod watched;

pub use live::{Live, run as run_live};
pub use ready::Ready;
pub use server::Ways;
pub(crate) use shell::{AROUND, run_shell};
pub use subject::Helpers;

use crate::choose;
use crate::conditions;
use crate::live::Listener;
use crate::request::Request as Base;
use crate::stop::Stop;
use crate::world::{Arm, Event};
use answer::Named;
use pagewise_judge::service::load::Metric;
use pagewise_judge::service::{Shows, Standings};
use pagewise_judge::stats::Rng;
use pagewise_kernel::clock;
use pagewise_model::Nanos;
use pagewise_model::guard::Guard;
use pagewise_model::plan::{Dose, FileKind, Receipt};
use pagewise_model::run::{Outcome, Run, RunKind};
use pagewise_model::service::{Mode, Service, Side};
use pagewise_model::trial::{Experiment, Quantity};
use pagewise_remedy::Mechanism;
use stage::{Failure, Seen, Stage};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Windows of a server in a pair at least and at most; even, because halves are swapped.
const WINDOWS: (u32, u32) = (2, 16);
/// Pairs of each arm that the budget shall have room for.
const PAIRS: u64 = 8;
/// Remedies that change how a server starts and nothing else.
const FIT: [&str; 7] =
    ["malloc-keep", "allocator", "heap-huge", "heap-small", "arenas", "trim", "text-huge"];

/// A service and its load.
#[derive(Debug, Clone)]
pub struct Request {
    /// What it shares with programs that end; its command is the server's.
    pub base: Base,
    /// The command that starts the server, as typed.
    pub serve: String,
    /// How the server starts and ends.
    pub ways: Ways,
    /// How servers are compared; none: what fits.
    pub mode: Option<Mode>,
    pub terms: Terms,
}

impl Request {
    /// All commands that may name a placeholder, a line each.
    fn commands(&self) -> String {
        let (base, ways) = (&self.base, &self.ways);
        let optional = [&ways.stop, &base.prepare, &base.cleanup];
        let mut all = vec![self.serve.clone(), ways.ready.to_string(), self.terms.load.clone()];
        all.extend(optional.into_iter().flatten().cloned());
        let words = base.own_arms.iter().flat_map(|arm| &arm.command);
        all.extend(words.map(|word| word.to_string_lossy().into_owned()));
        all.join("\n")
    }
}

/// The load on a service, and what decides.
#[derive(Debug, Clone)]
pub struct Terms {
    /// Shell command that loads it and ends.
    pub load: String,
    /// How long that may take.
    pub load_within: Nanos,
    /// What reads its output.
    pub metric: Metric,
    /// How long a server is warmed up at most.
    pub warm_up: Nanos,
    /// What decides.
    pub goal: Quantity,
    /// What an arm may not pass.
    pub guards: Vec<Guard>,
}

/// Windows of each server in a pair, and the half of the CPUs it begins on.
#[derive(Debug, Clone, Copy)]
struct Shape {
    windows: u32,
    slot: u32,
}

/// How a pair is made.
#[derive(Debug, Clone, Copy)]
struct Pairing {
    mode: Mode,
    shape: Shape,
    arm_first: bool,
}

/// Why an arm cannot run on a stage for servers, if so.
#[must_use]
pub fn unfit_dose(dose: &Dose) -> Option<String> {
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

/// Runs a session to its end, or goes on with a saved one. What is known is in the run whatever happens.
pub fn run(
    request: &Request,
    saved: Option<Run>,
    exe: PathBuf,
    words: &[&str],
    stop: Arc<AtomicBool>,
    listener: Listener<'_>,
) -> (Run, Option<Stop>) {
    let since = clock::now();
    let mut run = request.base.empty_run(RunKind::Tune, &request.base.command);
    run.stdout = None;
    let (mut run, earlier) = match saved {
        Some(saved) => earlier::resumed(run, saved),
        None => (run, None),
    };
    let cost = BTreeMap::new();
    let end = Stage::new(request, exe, words, stop, listener)
        .and_then(|stage| Session { request, since, stage, cost, earlier }.go(&mut run));
    let end = end.err();
    if matches!(end, Some(Stop::Interrupted)) {
        run.outcome = Some(Outcome::Interrupted);
    }
    if run.experiment.is_some() {
        run.conditions = conditions::of(&request.base, &run);
    }
    run.took_ns = Nanos(clock::now().0.saturating_sub(since.0));
    (run, end)
}

struct Session<'a> {
    request: &'a Request,
    since: Nanos,
    stage: Stage<'a>,
    /// What a pair took last, by mode.
    cost: BTreeMap<&'static str, Nanos>,
    /// The experiment that this session continues.
    earlier: Option<Experiment>,
}

/// An arm with what shows that it acts and how it is paired.
struct Entry {
    arm: Arm,
    shows: Shows,
    mode: Mode,
}

impl Session<'_> {
    fn go(mut self, run: &mut Run) -> Result<(), Stop> {
        let done = self.advance(run);
        run.warnings.append(&mut self.stage.notes);
        done
    }

    fn advance(&mut self, run: &mut Run) -> Result<(), Stop> {
        if let Some(service) = run.service.clone() {
            return self.go_on(run, &service);
        }
        self.stage.tell(&Event::Stage("measuring this machine's unit prices"));
        run.machine = Some(pagewise_kernel::machine::machine());
        run.prices = Some(answer::prices(self.stage.stop())?);
        let (mode, mode_why) = self.mode()?;
        run.service = Some(Service {
            serve: self.request.serve.clone(),
            pid: None,
            load: self.request.terms.load.clone(),
            metric: self.request.terms.metric.to_string(),
            mode,
            mode_why,
            first: None,
            pairs: Vec::new(),
            asked: Some(self.request.asked()),
        });
        self.stage.tell(&Event::Stage("the plain server under its load"));
        let begun = clock::now();
        let plain = Arm::plain(&self.request.base);
        let Seen { side, usage, traced } = self.stage.look(&plain)?;
        self.stage.notes.extend(answer::check(&self.request.terms, &side)?);
        let took = clock::now().0.saturating_sub(begun.0);
        self.cost.insert(Mode::Duet.name(), Nanos(took));
        self.cost.insert(Mode::Restart.name(), Nanos(2 * took));
        let quantity = self.request.terms.goal;
        watched::diagnosed(run, usage, traced, |evidence| {
            let mut candidates = choose::candidates(evidence, quantity);
            candidates.retain(|candidate| FIT.contains(&candidate.remedy.as_str()));
            candidates
        });
        self.stage.tell(&Event::Chosen(run));
        if let Some(service) = &mut run.service {
            service.first = Some(side);
        }
        if self.request.base.advise {
            run.outcome = Some(Outcome::AdviceOnly);
            return Ok(());
        }
        self.race(run, &plain, mode)
    }

    /// How servers are compared, and why so.
    fn mode(&self) -> Result<(Mode, String), Stop> {
        let reason = if !self.stage.has_halves() {
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
            let shows = match arm.mechanism.first() {
                Some(Mechanism::HugeFaults) => Shows::AnonHuge,
                Some(Mechanism::TextHuge) => Shows::FileHuge,
                _ => Shows::Nothing,
            };
            // Two servers of one machine share the page cache.
            let mode = if arm.settings.huge_files.is_empty() { mode } else { Mode::Restart };
            Entry { arm, shows, mode }
        };
        let own = self.request.base.own_arms.iter().map(|own| Entry {
            arm: Arm::own(own),
            shows: Shows::Nothing,
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

    fn race(&mut self, run: &mut Run, plain: &Arm, mode: Mode) -> Result<(), Stop> {
        let entries = self.entries(run, mode);
        if entries.is_empty() {
            let why = answer::nothing_fits(run);
            run.outcome = Some(Outcome::NothingToGain { why });
            return Ok(());
        }
        let arms: Vec<(String, Shows)> =
            entries.iter().map(|entry| (entry.arm.name.clone(), entry.shows)).collect();
        let terms = &self.request.terms;
        let mut standings = Standings::new(terms.goal, &terms.guards, &arms);
        let so_far = run.service.iter().flat_map(|service| service.pairs.clone());
        so_far.for_each(|pair| standings.add(pair));
        for (at, why) in self.rejected_before(&entries, &standings) {
            standings.reject(at, why);
        }
        let mut plain = plain.clone();
        let files = entries.iter().flat_map(|entry| &entry.arm.settings.huge_files);
        plain.natural_files = files.map(|file| file.path.clone()).collect();
        let room = Nanos(self.left().0 / (PAIRS * entries.len() as u64));
        let first = run.service.as_ref().and_then(|service| service.first.as_ref());
        let windows = first.map_or(WINDOWS.0, |side| windows_for(side, room));
        let end = self.pairs(&plain, &entries, windows, &mut standings);
        self.conclude(run, &entries, &standings, end.is_err());
        end
    }

    /// Pairs in turn, until the answer is clear or the time is over.
    fn pairs(
        &mut self,
        plain: &Arm,
        entries: &[Entry],
        windows: u32,
        standings: &mut Standings,
    ) -> Result<(), Stop> {
        let mut rng = Rng::new(self.request.base.seed);
        loop {
            let mut turn = standings.racing();
            rng.shuffle(&mut turn);
            let mut any = false;
            for at in turn {
                let Some(entry) = entries.get(at) else { continue };
                let left = self.left();
                if self.cost(entry.mode) > left {
                    continue;
                }
                any = true;
                let names: Vec<&str> = entries.iter().map(|entry| &entry.arm.name[..]).collect();
                let mut tell = |event: &Event<'_>| self.stage.tell(event);
                answer::show(&mut tell, &names, at, left, standings);
                let shape = Shape { windows, slot: rng.below(2) as u32 };
                let pairing = Pairing { mode: entry.mode, shape, arm_first: rng.below(2) == 0 };
                let begun = clock::now();
                let done = self.stage.pair(plain, &entry.arm, &pairing);
                let took = Nanos(clock::now().0.saturating_sub(begun.0));
                match done {
                    Ok(pair) => {
                        self.cost.insert(entry.mode.name(), took);
                        standings.add(pair);
                    }
                    Err(Failure::Session(stop)) => return Err(stop),
                    Err(Failure::Arm(why)) => standings.reject(at, why),
                }
                if standings.is_decided(took) {
                    return Ok(());
                }
            }
            if !any {
                return Ok(());
            }
        }
    }

    /// What is left of the budget.
    fn left(&self) -> Nanos {
        let end = self.since + self.request.base.budget.unwrap_or(answer::BUDGET);
        Nanos(end.0.saturating_sub(clock::now().0))
    }

    fn cost(&self, mode: Mode) -> Nanos {
        self.cost.get(mode.name()).copied().unwrap_or_default()
    }

    fn conclude(&self, run: &mut Run, entries: &[Entry], standings: &Standings, is_cut: bool) {
        let arms = entries.iter().map(|entry| Named {
            name: &entry.arm.name,
            doses: &entry.arm.doses,
            cost: self.cost(entry.mode),
        });
        let arms: Vec<Named<'_>> = arms.collect();
        let (base, terms) = (&self.request.base, &self.request.terms);
        let interrupted = is_cut && self.stage.is_interrupted();
        let best = answer::conclude(run, base, terms, &arms, standings, interrupted);
        run.receipt = best.and_then(|arm| self.receipt(run, &arm));
    }

    fn receipt(&self, run: &Run, arm: &str) -> Option<Receipt> {
        let (_, doses) = run.doses.iter().find(|(name, _)| name == arm)?;
        let mut receipt = answer::receipt(doses, &self.request.base.start());
        if self.request.serve.contains('{') {
            receipt.notes.push("write your own port and directory for {port} and {dir}".to_owned());
        }
        Some(receipt)
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
