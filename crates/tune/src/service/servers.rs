//! Servers that are started for each pair.
//!
//! The unit of the race is a pair of fresh starts ([`pagewise_judge::service`]). Which of the two starts
//! first, which half of the CPUs each begins on, and the order of arms are random. The two servers of a pair
//! run at once if possible (`duet`), otherwise one after the other (`restart`).

use super::answer;
use super::durations::{pair_took, took, took_by};
use super::failure::ServiceFailure;
use super::look::{self, ObservedService};
use super::stage::PlainObservation;
use super::{FIT, LoadShape, LoadTerms, ServerPairing, ServiceRequest, place};
use crate::choose;
use crate::conditions;
use crate::race::{self, BlockRun, RaceTime, SessionClock};
use crate::request::SessionRequest as Base;
use crate::session::{self, TunableSubject};
use crate::stop::SessionStop;
use crate::world::{ProgramArm, SessionEvent, SessionSurroundings};
use pagewise_judge::race::{BlockUnit, PlannedBlock, RaceEntrant, RacePolicy, RemedyCounter};
use pagewise_judge::stats::Rng;
use pagewise_model::machine::Machine;
use pagewise_model::plan::{RemedyCandidate, RemedyDose, RemedyReceipt};
use pagewise_model::price::SessionPrices;
use pagewise_model::run::{SavedRun, SessionOutcome};
use pagewise_model::service::{
    ServerMeasurement, ServerPair, ServiceMode, ServiceWindow, TunedService,
};
use pagewise_model::trial::ComparedQuantity;
use pagewise_model::{Bytes, Nanos};
use pagewise_remedy::{RemedyEvidence, RemedyMechanism};
use std::collections::BTreeMap;

/// Windows of a server in a pair at least and at most; even, because halves are swapped.
const WINDOWS: (u32, u32) = (2, 16);
/// Pairs of each arm that the budget shall have room for.
const PAIRS: u64 = 8;
/// Least requests in a run of the load for servers to share CPUs.
const LEAST_REQUESTS: f64 = 1000.0;
/// Most arms that run at once beside one plain server.
const MOST_BESIDE: u64 = 3;
/// Each server may take this much more memory than the plain one.
const MORE_MEMORY: f64 = 1.5;
/// Assumed deviation of a start, and of the difference between two windows at once before any was observed.
/// Shares of CPU time.
const START_DEVIATION: f64 = 0.01;
const WINDOW_DEVIATION: f64 = 0.02;
/// The windows that the latter counts for.
const USUAL_WINDOWS: f64 = 2.0;

/// What starts servers and loads them.
pub(super) trait ServerWorld: SessionSurroundings {
    /// Whether each of two servers can have separate CPUs.
    fn has_halves(&self) -> bool;
    /// One start of the plain server, looked at under load.
    ///
    /// # Errors
    /// When it cannot be started or loaded.
    fn look(&mut self, plain: &ProgramArm) -> Result<PlainObservation, SessionStop>;
    /// Pairs of fresh starts of these arms with one plain server, in their order.
    ///
    /// # Errors
    /// When the session or an arm failed.
    fn pairs(
        &mut self,
        plain: &ProgramArm,
        arms: &[&ProgramArm],
        pairing: &ServerPairing,
    ) -> Result<Vec<ServerPair>, ServiceFailure>;
    /// Memory for all servers.
    fn memory(&self) -> Bytes;
    /// Adds a note for the user, each text once.
    fn note(&mut self, note: String);
    fn take_notes(&mut self) -> Vec<String>;
}

/// An arm with what shows that it acts and how it is paired.
struct ServerArm {
    arm: ProgramArm,
    counter: RemedyCounter,
    mode: ServiceMode,
}

/// Servers under load.
pub(super) struct ServerSubject<'a, W> {
    request: &'a ServiceRequest,
    world: W,
    entries: Vec<ServerArm>,
    plain: ProgramArm,
    /// Of the start with its warm-up and of a window, by the look.
    first: [f64; 2],
    /// Most time of a pair.
    room: Nanos,
    /// Sums of squared differences between windows at once within their pairs, and the degrees of freedom.
    spread: [f64; 2],
    /// Arms at once beside one plain server.
    most_beside: usize,
    /// Time of the last pair, by mode.
    cost: BTreeMap<&'static str, Nanos>,
    rng: Rng,
    stop: Option<SessionStop>,
}

impl<'a, W: ServerWorld> ServerSubject<'a, W> {
    pub(super) fn new(request: &'a ServiceRequest, world: W) -> Self {
        Self {
            world,
            entries: Vec::new(),
            plain: ProgramArm::plain(&request.base),
            first: [0.0, 1.0],
            room: Nanos(0),
            spread: [0.0; 2],
            most_beside: 1,
            cost: BTreeMap::new(),
            rng: Rng::new(request.base.spec.seed),
            stop: None,
            request,
        }
    }

    /// How servers are compared, and why so.
    fn mode(&self) -> Result<(ServiceMode, String), SessionStop> {
        let has_port = place::has_placeholder(&self.request.serve);
        let port = (!has_port)
            .then_some("the server's command names no {port}, so two cannot run at the same time");
        let duet = port.or_else(|| (!self.world.has_halves()).then_some("there is one CPU"));
        let by_clock = match self.request.base.spec.quantity {
            ComparedQuantity::Throughput | ComparedQuantity::Time => Some("throughput decides"),
            ComparedQuantity::P99 => Some("latency decides"),
            _ => None,
        };
        let refuse = |mode: ServiceMode, why: &str| {
            Err(SessionStop::Service(format!("--mode {}: {why}", mode.into_str())))
        };
        match (self.request.mode, by_clock, port, duet) {
            (Some(mode @ ServiceMode::AtOnce), _, Some(why), _)
            | (Some(mode @ ServiceMode::AtOnce), Some(why), ..)
            | (Some(mode @ ServiceMode::Duet), .., Some(why)) => refuse(mode, why),
            (Some(mode), ..) => Ok((mode, "as asked".to_owned())),
            (None, None, None, _) => Ok((ServiceMode::AtOnce, "CPU time is compared".to_owned())),
            (None, Some(why), _, None) => Ok((ServiceMode::Duet, why.to_owned())),
            (None, .., Some(why)) | (None, None, Some(why), None) => {
                Ok((ServiceMode::Restart, why.to_owned()))
            }
        }
    }

    /// The arms: those that fit or were requested, and the user's own.
    fn entries(&self, run: &SavedRun, mode: ServiceMode) -> Vec<ServerArm> {
        let doses = choose::doses(&self.request.base, run);
        let of_dose = |dose: RemedyDose| {
            let arm = choose::arm(&self.request.base, std::slice::from_ref(&dose));
            let counter = match arm.mechanism.first() {
                Some(RemedyMechanism::HugeFaults) => RemedyCounter::AnonHuge,
                Some(RemedyMechanism::TextHuge) => RemedyCounter::FileHuge,
                _ => RemedyCounter::None,
            };
            // Two servers of one machine share the page cache.
            let mode = if arm.settings.huge_files.is_empty() { mode } else { ServiceMode::Restart };
            ServerArm { arm, counter, mode }
        };
        let own = self.request.base.spec.own_arms.iter().map(|own| ServerArm {
            arm: ProgramArm::own(own),
            counter: RemedyCounter::None,
            mode,
        });
        let mut all: Vec<ServerArm> = doses.into_iter().map(of_dose).chain(own).collect();
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

    /// Why the servers of a session without a requested mode do not share CPUs, though they could. Requests
    /// in flight at the end of a run of the load cost CPU time but are not counted.
    fn too_few_requests(&self, service: &TunedService) -> Option<String> {
        let is_open = service.mode == ServiceMode::AtOnce && self.request.mode.is_none();
        let windows = service.first.iter().flat_map(|first| &first.windows);
        let fewest = windows.map(|window| window.load.requests).fold(f64::INFINITY, f64::min);
        (is_open && self.world.has_halves() && fewest < LEAST_REQUESTS)
            .then(|| format!("a run of the load makes {fewest:.0} requests"))
    }

    /// What pairs take, by the look and by the last pairs.
    fn expect(&mut self, service: &TunedService) {
        if let Some(first) = &service.first {
            for mode in [ServiceMode::AtOnce, ServiceMode::Duet] {
                self.cost.insert(mode.into_str(), took(first));
            }
            self.cost.insert(ServiceMode::Restart.into_str(), Nanos(2 * took(first).0));
        }
        for pair in &service.pairs {
            self.cost.insert(pair.mode.into_str(), pair_took(pair));
            self.learn(pair);
        }
    }

    /// Learns how far windows at once differ.
    fn learn(&mut self, pair: &ServerPair) {
        let cost = |window: &ServiceWindow| (window.cpu_ns.0 as f64 / window.load.requests).ln();
        let both = pair.plain.windows.iter().zip(&pair.other.windows);
        let shared = both.filter(|(plain, _)| plain.at_once);
        let differences: Vec<f64> =
            shared.map(|(plain, other)| cost(other) - cost(plain)).collect();
        let mean = differences.iter().sum::<f64>() / differences.len().max(1) as f64;
        let squares = differences.iter().map(|one| (one - mean).powi(2)).sum::<f64>();
        if squares.is_finite() {
            self.spread[0] += squares;
            self.spread[1] += differences.len().saturating_sub(1) as f64;
        }
    }

    /// Number of windows of a server in a pair. A start precedes the windows of each server. At once, it is
    /// the number that shows most in a given time. Otherwise the windows take as much time as the start took.
    /// Whether windows or starts vary more, the interval then takes at most twice the time of the best
    /// number.
    fn windows(&self, mode: ServiceMode) -> u32 {
        let [start, window] = self.first;
        let wanted = if mode == ServiceMode::AtOnce {
            let [squares, freedom] = self.spread;
            let usual = USUAL_WINDOWS * WINDOW_DEVIATION * WINDOW_DEVIATION;
            let variance = (usual + squares) / (USUAL_WINDOWS + freedom);
            (start / window * variance).sqrt() / START_DEVIATION
        } else {
            start / window
        };
        let most = (self.room.0 as f64 - start) / window;
        let even = 2 * (wanted.min(most) / 2.0).round() as u32;
        even.clamp(WINDOWS.0, WINDOWS.1)
    }

    /// Pairs of these arms with one plain server.
    fn pairs(
        &mut self,
        arms: &[usize],
        mode: ServiceMode,
    ) -> Result<Vec<ServerPair>, ServiceFailure> {
        let slot = self.rng.below(2) as u32;
        let shape = LoadShape { mode, windows: self.windows(mode), slot };
        let mut order: Vec<Option<usize>> =
            std::iter::once(None).chain((0..arms.len()).map(Some)).collect();
        self.rng.shuffle(&mut order);
        let entries: Vec<&ProgramArm> = arms.iter().map(|arm| &self.entries[*arm].arm).collect();
        let begun = self.world.now();
        let pairs = self.world.pairs(&self.plain, &entries, &ServerPairing { shape, order })?;
        let took = Nanos(self.world.now().0.saturating_sub(begun.0));
        self.cost.insert(mode.into_str(), took);
        pairs.iter().for_each(|pair| self.learn(pair));
        Ok(pairs)
    }

    /// Servers that failed at once may work apart, so the session continues that way. No arm is blamed for a
    /// failure beside others.
    fn apart_instead(&mut self, arms: &[usize], failure: ServiceFailure) -> BlockRun {
        let (at, why) = match failure {
            ServiceFailure::Arm(at, why) => (at, why),
            ServiceFailure::Session(stop) => (0, stop.to_string()),
        };
        let mode = if self.world.has_halves() { ServiceMode::Duet } else { ServiceMode::Restart };
        let arms = [arms[at]];
        let done = match self.pairs(&arms, mode) {
            Ok(pairs) => pairs.into_iter().next().map(BlockRun::of_pair).unwrap_or_default(),
            Err(failure) => return self.failed(&arms, failure),
        };
        for entry in &mut self.entries {
            entry.mode = if entry.mode == ServiceMode::AtOnce { mode } else { entry.mode };
        }
        BlockRun { refused: Some(format!("servers that share CPUs fail: {why}")), ..done }
    }

    fn failed(&mut self, arms: &[usize], failure: ServiceFailure) -> BlockRun {
        match failure {
            ServiceFailure::Session(stop) => {
                let end = Err(race::halt(&stop));
                self.stop = Some(stop);
                BlockRun { end, ..BlockRun::default() }
            }
            ServiceFailure::Arm(at, why) => {
                BlockRun { failed: vec![(arms[at], why)], ..BlockRun::default() }
            }
        }
    }
}

impl<W: ServerWorld> ObservedService for ServerSubject<'_, W> {
    const LOOK: &'static str = "the plain server under its load";

    fn terms(&self) -> &LoadTerms {
        &self.request.terms
    }

    fn service(&self) -> Result<TunedService, SessionStop> {
        let (mode, mode_why) = self.mode()?;
        Ok(TunedService { mode, mode_why, first: None, pairs: Vec::new() })
    }

    fn see(&mut self) -> Result<PlainObservation, SessionStop> {
        self.world.look(&self.plain)
    }

    fn candidates(
        &mut self,
        evidence: &RemedyEvidence<'_>,
        _: &ServerMeasurement,
    ) -> Vec<RemedyCandidate> {
        let mut candidates = choose::candidates(evidence, self.request.base.spec.quantity);
        candidates.retain(|candidate| FIT.contains(&candidate.remedy.as_str()));
        candidates
    }

    fn note(&mut self, note: String) {
        self.world.note(note);
    }
}

impl<W: ServerWorld> TunableSubject for ServerSubject<'_, W> {
    const UNIT: BlockUnit = BlockUnit::Pair;

    fn base(&self) -> &Base {
        &self.request.base
    }

    fn budget(&self) -> Nanos {
        answer::budget(self.base())
    }

    fn look(&mut self, run: &mut SavedRun, _: Nanos) -> Result<(), SessionStop> {
        look::look(self, run)
    }

    fn resume(&mut self, run: &SavedRun) -> bool {
        run.service.is_some()
    }

    fn enter(&mut self, run: &mut SavedRun, left: Nanos) -> Result<Vec<RaceEntrant>, SessionStop> {
        let Some(service) = &mut run.service else { return Ok(Vec::new()) };
        if let Some(why) = self.too_few_requests(service) {
            (service.mode, service.mode_why) = (ServiceMode::Duet, why);
        }
        let Some(service) = &run.service else { return Ok(Vec::new()) };
        self.expect(service);
        self.entries = self.entries(run, service.mode);
        let files = self.entries.iter().flat_map(|entry| &entry.arm.settings.huge_files);
        self.plain.natural_files = files.map(|file| file.path.clone()).collect();
        self.room = Nanos(left.0 / (PAIRS * self.entries.len().max(1) as u64));
        if let Some(first) = &service.first {
            let window = took_by(&first.windows).0 as f64 / first.windows.len().max(1) as f64;
            let start = took(first).0.saturating_sub(took_by(&first.windows).0) as f64;
            self.first = [start, window.max(1.0)];
            let each = first.at_last.pss_bytes.0.max(1) as f64 * MORE_MEMORY;
            let held = (self.world.memory().0 as f64 / each) as u64;
            self.most_beside = held.saturating_sub(1).clamp(1, MOST_BESIDE) as usize;
        }
        let entrant = |entry: &ServerArm| RaceEntrant {
            name: entry.arm.name.clone(),
            counter: entry.counter,
            barred: None,
            at_once: entry.mode == ServiceMode::AtOnce,
        };
        Ok(self.entries.iter().map(entrant).collect())
    }

    fn nothing_to_try(&self, run: &SavedRun) -> SessionOutcome {
        answer::nothing_fits(run)
    }

    fn doses(&self) -> Vec<(String, Vec<RemedyDose>)> {
        let dosed = self.entries.iter().filter(|entry| !entry.arm.doses.is_empty());
        dosed.map(|entry| (entry.arm.name.clone(), entry.arm.doses.clone())).collect()
    }

    fn receipt(&self, run: &SavedRun, arm: &str) -> Option<RemedyReceipt> {
        let (_, doses) = run.doses.iter().find(|(name, _)| name == arm)?;
        let mut receipt = answer::receipt(doses, &self.request.base.start());
        if self.request.serve.contains('{') {
            receipt.notes.push("write your own port and directory for {port} and {dir}".to_owned());
        }
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
        run.warnings.append(&mut self.world.take_notes());
        if run.experiment.is_some() {
            run.files = conditions::files(&self.request.base, run);
        }
        done
    }
}

impl<W: ServerWorld> SessionClock for ServerSubject<'_, W> {
    fn now(&self) -> Nanos {
        self.world.now()
    }

    fn interrupted(&self) -> bool {
        self.world.interrupted()
    }
}

impl<W: ServerWorld> SessionSurroundings for ServerSubject<'_, W> {
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

impl<W: ServerWorld> race::RaceSubject for ServerSubject<'_, W> {
    fn run(&mut self, order: &PlannedBlock, policy: &RacePolicy, time: &RaceTime) -> BlockRun {
        let orders = std::slice::from_ref(order);
        self.run_side_by_side(orders, policy, time).pop().unwrap_or_default()
    }

    fn most_side_by_side(&self) -> usize {
        self.most_beside
    }

    /// All with one plain server.
    fn run_side_by_side(
        &mut self,
        orders: &[PlannedBlock],
        policy: &RacePolicy,
        time: &RaceTime,
    ) -> Vec<BlockRun> {
        let arm_of = |order: &PlannedBlock| order.runs.iter().find_map(|arm| *arm);
        let arms: Vec<usize> = orders.iter().filter_map(arm_of).collect();
        let Some(first) = arms.first().copied() else { return Vec::new() };
        session::show(&mut self.world, policy, first, time);
        let mode = self.entries[first].mode;
        match self.pairs(&arms, mode) {
            Ok(pairs) => pairs.into_iter().map(BlockRun::of_pair).collect(),
            Err(failure) if mode == ServiceMode::AtOnce && !failure.is_by_user() => {
                vec![self.apart_instead(&arms, failure)]
            }
            Err(failure) => vec![self.failed(&arms, failure)],
        }
    }

    fn cost_ns(&self, arm: Option<usize>) -> u64 {
        let Some(arm) = arm else { return 0 };
        // A mode that did not run yet takes as long as another.
        let took = self.cost.get(self.entries[arm].mode.into_str());
        took.or_else(|| self.cost.values().max()).map_or(0, |took| took.0)
    }
}
