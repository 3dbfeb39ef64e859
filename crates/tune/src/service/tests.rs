//! Whole sessions on simulated services. The race, its end and the saved data run through the product's own
//! loop. Nothing here waits: the clock is a number.

use super::failure::ServiceFailure;
use super::live::{ProcessWorld, SwitchedService};
use super::servers::{ServerSubject, ServerWorld};
use super::stage::PlainObservation;
use super::{LoadTerms, ReadinessCheck, ServerLifecycle, ServerPairing, ServiceRequest};
use crate::race::SessionClock;
use crate::request::SessionRequest as Base;
use crate::session;
use crate::stop::SessionStop;
use crate::world::{ProgramArm, SessionEvent, SessionSurroundings};
use pagewise_judge::service::USUAL_GUARDS;
use pagewise_judge::stats::Rng;
use pagewise_model::constructed;
use pagewise_model::guard::ArmGuard;
use pagewise_model::machine::Machine;
use pagewise_model::plan::{ArmSettings, RemedyCandidate, RemedyDose};
use pagewise_model::price::SessionPrices;
use pagewise_model::run::{RunKind, SavedRun, SessionOutcome};
use pagewise_model::service::{
    LoadReport, RequestLatency, ServerMeasurement, ServerMemory, ServerPair, ServiceMode,
    ServiceWindow, TunedService,
};
use pagewise_model::spec::{OwnArm, SessionSpec};
use pagewise_model::trial::{ArmVerdict, ComparedQuantity, VerdictWord};
use pagewise_model::{Bytes, Nanos};
use pagewise_remedy::live::{LiveChange, LiveOffer, LiveResult};
use pagewise_remedy::receipt::ReceiptConditions;
use std::path::PathBuf;

/// Time of a pair, and of a window. Two windows are a part of a block.
const PAIR: Nanos = Nanos::secs(10);
const WINDOW: Nanos = Nanos::millis(400);

/// Noise of a service: deviations of the logarithm.
#[derive(Clone, Copy, PartialEq)]
struct Noise {
    /// Of a start, or of the level from window to window.
    start: f64,
    window: f64,
    p99: f64,
    /// Share of windows with one and a half times the CPU time.
    spikes: f64,
}

/// A service with these true effects on CPU time per request and on p99, and its clock.
struct Simulated {
    rng: Rng,
    clock: Nanos,
    cpu: f64,
    p99: f64,
    noise: Noise,
    windows: u32,
    is_on: bool,
    is_washed: bool,
    level: f64,
    /// Servers that share CPUs answer nothing.
    fails_at_once: bool,
    notes: Vec<String>,
}

impl Simulated {
    fn new(seed: u64, (cpu, p99): (f64, f64), noise: Noise, windows: u32) -> Self {
        Self {
            rng: Rng::new(seed ^ 0x5eed),
            clock: Nanos::secs(1000),
            cpu,
            p99,
            noise,
            windows,
            is_on: false,
            is_washed: true,
            level: 0.0,
            fails_at_once: false,
            notes: Vec::new(),
        }
    }

    fn window_of(&mut self, is_arm: bool, draw: fn(&mut Rng) -> f64) -> ServiceWindow {
        let (cpu, p99) = if is_arm { (self.cpu, self.p99) } else { (1.0, 1.0) };
        let spike = if self.rng.uniform() < self.noise.spikes { 1.5 } else { 1.0 };
        let cost = (self.level + self.noise.window * draw(&mut self.rng)).exp() * spike;
        let tail = p99 * (self.noise.p99 * draw(&mut self.rng)).exp();
        let requests = 100_000.0;
        ServiceWindow {
            cpu_ns: Nanos::from_f64(10_000.0 * cpu * cost * requests),
            wall_ns: WINDOW,
            generator_cpu_ns: Nanos::millis(500),
            load: LoadReport {
                requests,
                errors: Some(0.0),
                latency: RequestLatency { p99: Some(tail / 1e3), ..RequestLatency::default() },
                ..LoadReport::default()
            },
            at_once: false,
        }
    }

    /// A fresh start.
    fn side(&mut self, is_arm: bool) -> ServerMeasurement {
        self.level = self.noise.start * self.rng.normal();
        let mut windows: Vec<ServiceWindow> =
            (0..self.windows).map(|_| self.window_of(is_arm, Rng::normal)).collect();
        if self.noise == SHARED {
            windows.iter_mut().for_each(|window| window.at_once = true);
            windows.extend((0..2).map(|_| self.window_of(is_arm, Rng::normal)));
        }
        let held = holding();
        ServerMeasurement { ready_ns: WINDOW, warm_ups: 2, windows, at_first: held, at_last: held }
    }
}

fn holding() -> ServerMemory {
    ServerMemory { pss_bytes: Bytes::mib(100), ..ServerMemory::default() }
}

impl SessionClock for Simulated {
    fn now(&self) -> Nanos {
        self.clock
    }
    fn interrupted(&self) -> bool {
        false
    }
}

impl SessionSurroundings for Simulated {
    fn machine(&mut self) -> Machine {
        constructed::machine()
    }
    fn prices(&mut self) -> Result<SessionPrices, SessionStop> {
        Err(SessionStop::Broken("not priced".to_owned()))
    }
    fn tell(&mut self, _: &SessionEvent<'_>) {}
}

impl ServerWorld for Simulated {
    fn has_halves(&self) -> bool {
        true
    }
    fn look(&mut self, _: &ProgramArm) -> Result<PlainObservation, SessionStop> {
        Err(SessionStop::Broken("not looked at".to_owned()))
    }
    fn pairs(
        &mut self,
        _: &ProgramArm,
        arms: &[&ProgramArm],
        pairing: &ServerPairing,
    ) -> Result<Vec<ServerPair>, ServiceFailure> {
        self.clock += PAIR;
        if self.fails_at_once && pairing.shape.mode == ServiceMode::AtOnce {
            return Err(ServiceFailure::Arm(0, "no answer".to_owned()));
        }
        let plain = self.side(false);
        let pair = |arm: &&ProgramArm| ServerPair {
            arm: arm.name.clone(),
            mode: pairing.shape.mode,
            plain: plain.clone(),
            other: self.side(true),
        };
        Ok(arms.iter().map(pair).collect())
    }
    fn memory(&self) -> Bytes {
        Bytes::gib(8)
    }
    fn note(&mut self, note: String) {
        self.notes.push(note);
    }
    fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }
}

impl ProcessWorld for Simulated {
    fn pid(&self) -> i32 {
        1
    }
    fn pids(&self) -> Vec<i32> {
        vec![1]
    }
    fn holding(&self) -> ServerMemory {
        // A switch that acts shows.
        let anon_huge_bytes = Bytes::mib(if self.is_on { 80 } else { 0 });
        ServerMemory { anon_huge_bytes, ..holding() }
    }
    fn has_ended(&self) -> bool {
        false
    }
    fn is_on(&self) -> bool {
        self.is_on
    }
    fn is_washed(&self) -> bool {
        self.is_washed
    }
    fn look(&mut self, _: &mut Vec<String>) -> Result<PlainObservation, SessionStop> {
        Err(SessionStop::Broken("not looked at".to_owned()))
    }
    fn window(&mut self) -> Result<ServiceWindow, SessionStop> {
        self.clock += WINDOW;
        self.is_washed = true;
        self.level += self.noise.start * self.rng.normal();
        Ok(self.window_of(self.is_on, Rng::heavy_tailed))
    }
    fn on(&mut self, _: &LiveChange) -> Result<Result<LiveResult, String>, SessionStop> {
        (self.is_on, self.is_washed) = (true, false);
        Ok(Ok(LiveResult { changed: 1, ..LiveResult::default() }))
    }
    fn off(&mut self) -> Result<(), SessionStop> {
        (self.is_on, self.is_washed) = (false, false);
        Ok(())
    }
}

fn base(budget: Nanos, seed: u64, guards: &[ArmGuard]) -> Base {
    Base {
        spec: SessionSpec {
            own_arms: vec![OwnArm { name: "arm".to_owned(), command: vec!["server".into()] }],
            quantity: ComparedQuantity::CpuPerRequest,
            guards: guards.to_vec(),
            budget_ns: Some(budget),
            ..SessionSpec::new(vec!["server".into()], PathBuf::new(), seed)
        },
        system: None,
        quote: |word| String::from_utf8_lossy(word).into_owned(),
        here: ReceiptConditions::default(),
        offsets: Default::default(),
        id: "test".to_owned(),
    }
}

fn terms() -> LoadTerms {
    LoadTerms {
        load: "wrk".to_owned(),
        load_within: Nanos::secs(60),
        metric: "wrk".parse().unwrap(),
        warm_up: Nanos::secs(60),
    }
}

/// A run whose look is done.
fn looked(mode: ServiceMode, first: ServerMeasurement) -> SavedRun {
    let mut run = SavedRun::new(RunKind::Tune, "test".to_owned(), 0, vec!["server".to_owned()]);
    run.service =
        Some(TunedService { mode, mode_why: String::new(), first: Some(first), pairs: Vec::new() });
    run
}

fn verdict(run: &SavedRun) -> ArmVerdict {
    run.experiment.as_ref().unwrap().verdicts[0].clone()
}

/// The verdict and the number of pairs.
fn judged((run, end): (SavedRun, Option<SessionStop>)) -> (ArmVerdict, usize) {
    assert!(end.is_none(), "{end:?}");
    (verdict(&run), run.service.unwrap().pairs.len())
}

fn request(pairs: u64, seed: u64, guards: &[ArmGuard]) -> ServiceRequest {
    ServiceRequest {
        base: base(Nanos(PAIR.0 * pairs), seed, guards),
        serve: "server {port}".to_owned(),
        ways: ServerLifecycle {
            ready: ReadinessCheck::parse("tcp:{port}").unwrap(),
            ready_within: PAIR,
            stop: None,
            stop_within: PAIR,
        },
        mode: None,
        terms: terms(),
    }
}

/// A session on servers that are started for each pair, with time for this many pairs.
fn started(
    seed: u64,
    effect: (f64, f64),
    noise: Noise,
    pairs: u64,
    guards: &[ArmGuard],
) -> ArmVerdict {
    let windows = if noise.spikes > 0.0 { 8 } else { 2 };
    let mut world = Simulated::new(seed, effect, noise, windows);
    let request = request(pairs, seed, guards);
    let mode = if noise == SHARED { ServiceMode::AtOnce } else { ServiceMode::Duet };
    let run = looked(mode, world.side(false));
    let since = world.clock;
    judged(session::tune(run, since, Ok(ServerSubject::new(&request, world)))).0
}

/// A session on a process that is switched, with time for this many blocks.
fn switched(seed: u64, effect: (f64, f64), blocks: u64) -> (ArmVerdict, usize) {
    let noise = Noise { start: 0.03, window: 0.1, p99: 0.4, spikes: 0.0 };
    let mut world = Simulated::new(seed, effect, noise, 4);
    // Four parts of two windows, and three that do not count.
    let (base, terms) = (base(Nanos(WINDOW.0 * 11 * blocks), seed, &USUAL_GUARDS), terms());
    let mut first = world.side(false);
    first.windows = (0..4).map(|_| world.window().unwrap()).collect();
    let since = world.clock;
    let dose = RemedyDose {
        remedy: "heap-huge".to_owned(),
        parameter: String::new(),
        settings: ArmSettings::default(),
    };
    let candidate = RemedyCandidate {
        remedy: dose.remedy.clone(),
        sentence: String::new(),
        why: String::new(),
        ceiling_share: 0.1,
        doses: vec![dose],
    };
    let mut kind = SwitchedService::new(&base, &terms, world);
    kind.offers.push(LiveOffer { candidate, change: Some(LiveChange::HeapHuge) });
    judged(session::tune(looked(ServiceMode::Toggle, first), since, Ok(kind)))
}

/// As probed: the two starts of a pair differ by 3%, their p99 by 20%.
const PROBED: Noise = Noise { start: 0.021, window: 0.02, p99: 0.14, spikes: 0.0 };
/// As probed of servers that share CPUs: pairs of starts differ by 1%, windows by 2%.
const SHARED: Noise = Noise { start: 0.007, window: 0.014, p99: 0.1, spikes: 0.0 };
/// Noise of a runtime: one window of ten takes one and a half times as long.
const SPIKED: Noise = Noise { start: 0.015, window: 0.03, p99: 0.0, spikes: 0.1 };

/// How many of these sessions end in one of these words.
fn count(
    sessions: u64,
    words: &[VerdictWord],
    mut session: impl FnMut(u64) -> ArmVerdict,
) -> usize {
    (0..sessions).filter(|seed| words.contains(&session(*seed).word)).count()
}

#[test]
fn servers_without_a_gain_are_seldom_kept() {
    let kept = count(400, &[VerdictWord::Keep], |seed| {
        started(seed, (1.0, 1.0), PROBED, 25, &USUAL_GUARDS)
    });
    assert!(kept <= 8, "{kept} of 400");
    let kept = count(400, &[VerdictWord::Keep], |seed| started(seed, (1.0, 1.0), SPIKED, 24, &[]));
    assert!(kept <= 8, "{kept} of 400 with windows that are not typical");
    // With what favours one of them in every pair.
    for bias in [1.0, 0.9975] {
        let session = |seed| started(seed, (bias, 1.0), SHARED, 25, &USUAL_GUARDS);
        let kept = count(400, &[VerdictWord::Keep], session);
        assert!(kept <= 8, "{kept} of 400 at once, with a bias of {bias}");
    }
}

#[test]
fn servers_that_save_5_and_10_percent_are_found() {
    let found = |cpu, noise, pairs| {
        count(100, &[VerdictWord::Keep], |seed| {
            started(seed, (cpu, 1.0), noise, pairs, &USUAL_GUARDS)
        })
    };
    let (ten, five) = (found(0.9, PROBED, 10), found(0.95, PROBED, 40));
    assert!(ten >= 90, "10%: {ten} of 100 in 10 pairs");
    assert!(five >= 90, "5%: {five} of 100 in 40 pairs");
    let spiked =
        count(100, &[VerdictWord::Keep], |seed| started(seed, (0.95, 1.0), SPIKED, 24, &[]));
    assert!(spiked >= 90, "{spiked} of 100 in 24 pairs");
    let (five, three) = (found(0.95, SHARED, 8), found(0.97, SHARED, 25));
    assert!(five >= 90 && three >= 90, "at once: {five} of 100 at 5%, {three} at 3%");
}

#[test]
fn a_loss_in_p99_breaks_the_guard_of_a_server() {
    let rejected = |p99| {
        count(200, &[VerdictWord::Reject], |seed| {
            started(seed, (0.9, p99), PROBED, 25, &USUAL_GUARDS)
        })
    };
    let (without, with) = (rejected(1.0), rejected(1.6));
    assert!(without <= 4, "{without} of 200 without a loss");
    assert!(with >= 180, "{with} of 200 at +60%");
}

#[test]
fn a_switch_without_a_gain_is_seldom_kept_and_seldom_breaks_a_guard() {
    let (mut kept, mut broken) = (0, 0);
    for seed in 0..400 {
        let (verdict, _) = switched(seed, (1.0, 1.0), 25);
        kept += u32::from(verdict.word == VerdictWord::Keep);
        broken += u32::from(verdict.word == VerdictWord::Reject);
    }
    assert!(kept <= 8, "{kept} of 400 kept");
    assert!(broken <= 8, "{broken} of 400 broke a guard");
}

#[test]
fn a_switch_that_saves_10_percent_is_found() {
    let found = count(100, &[VerdictWord::Keep], |seed| switched(seed, (0.9, 1.0), 25).0);
    assert!(found >= 90, "{found} of 100 in 25 blocks");
}

#[test]
fn harm_is_seen_within_the_block_or_the_session() {
    let at_once = (0..100).map(|seed| switched(seed, (0.9, 6.0), 10));
    let at_once =
        at_once.filter(|(verdict, blocks)| verdict.word == VerdictWord::Reject && *blocks == 1);
    let at_once = at_once.count();
    assert!(at_once >= 80, "{at_once} of 100 at 6 times the p99");
    let rejected = count(100, &[VerdictWord::Reject], |seed| switched(seed, (0.9, 1.8), 25).0);
    assert!(rejected >= 90, "{rejected} of 100 at +80%");
}

#[test]
fn nobody_is_blamed_for_what_fails_beside_others() {
    let mut world = Simulated::new(1, (0.9, 1.0), PROBED, 2);
    world.fails_at_once = true;
    let (run, request) =
        (looked(ServiceMode::AtOnce, world.side(false)), request(25, 1, &USUAL_GUARDS));
    let since = world.clock;
    let (run, end) = session::tune(run, since, Ok(ServerSubject::new(&request, world)));
    assert!(end.is_none(), "{end:?}");
    assert_eq!(verdict(&run).word, VerdictWord::Keep);
    let experiment = run.experiment.unwrap();
    assert!(experiment.in_turn_because.unwrap().contains("no answer"));
    assert!(run.service.unwrap().pairs.iter().all(|pair| pair.mode == ServiceMode::Duet));
}

#[test]
fn a_session_goes_on_from_its_pairs_and_keeps_its_budget() {
    let noise = Noise { start: 0.03, window: 0.02, p99: 0.1, spikes: 0.0 };
    let mut world = Simulated::new(3, (0.97, 1.0), noise, 2);
    let run = looked(ServiceMode::Duet, world.side(false));
    let (short, long) = (request(3, 3, &USUAL_GUARDS), request(60, 4, &USUAL_GUARDS));
    let since = world.clock;
    let (run, end) = session::tune(run, since, Ok(ServerSubject::new(&short, world)));
    assert!(end.is_none() && run.took_ns <= Nanos(PAIR.0 * 4), "{}", run.took_ns);
    let pairs = run.service.as_ref().unwrap().pairs.clone();
    assert!((2..=4).contains(&pairs.len()), "{}", pairs.len());
    assert!(matches!(run.outcome, Some(SessionOutcome::CannotTell { .. })), "{:?}", run.outcome);
    let world = Simulated::new(4, (0.97, 1.0), noise, 2);
    let since = world.clock;
    let fresh = SavedRun::new(RunKind::Tune, "later".to_owned(), 0, vec!["server".to_owned()]);
    let later = session::resumed(fresh, run);
    let (later, end) = session::tune(later, since, Ok(ServerSubject::new(&long, world)));
    assert!(end.is_none());
    let all = later.service.as_ref().unwrap().pairs.clone();
    assert!(all.len() > pairs.len() && all[..pairs.len()] == pairs[..]);
    assert_eq!(verdict(&later).effect.unwrap().runs as usize, all.len());
}

#[test]
fn a_session_that_has_its_answer_takes_more_pairs() {
    let request = request(60, 3, &USUAL_GUARDS);
    let session = |run: SavedRun| {
        let world = Simulated::new(3, (0.8, 1.0), PROBED, 2);
        let since = world.clock;
        let (run, end) = session::tune(run, since, Ok(ServerSubject::new(&request, world)));
        assert!(end.is_none() && verdict(&run).word == VerdictWord::Keep, "{:?}", verdict(&run));
        run
    };
    let first = Simulated::new(3, (0.8, 1.0), PROBED, 2).side(false);
    let done = session(looked(ServiceMode::Duet, first));
    let pairs = done.service.as_ref().unwrap().pairs.len();
    let fresh = SavedRun::new(RunKind::Tune, "later".to_owned(), 0, vec!["server".to_owned()]);
    let later = session(session::resumed(fresh, done));
    assert!(later.service.unwrap().pairs.len() > pairs);
}
