//! The single policy of every race, of programs, services and running processes: which arms run next, what is
//! decided, what breaks a guard, and the verdict on each arm.
//!
//! The policy runs nothing and reads no clock. It plans a block, the caller runs it and returns it
//! ([`RacePolicy::add`]), and this repeats until [`RacePolicy::is_decided`]. Its random orders come from one seed.
//!
//! What a block is depends on the [`BlockUnit`]. Runs of a program are cheap: all racing arms share the control's
//! runs. A pair of servers, or a block of switches, is expensive. It has one arm, each side counts as one
//! value, and a gain is kept only once each guard's bound lies a standard error above the estimate.

mod plan;
mod verdicts;

pub use plan::PlannedBlock;

use super::observation::{PairedObservations, RaceBlock, RemedyCounter};
use super::readings::RaceReadings;
use super::{ArmRace, ENOUGH, ENOUGH_AT_ONCE, LEAST_GAIN, PROVEN};
use crate::guards;
use crate::stats::Rng;
use pagewise_model::Nanos;
use pagewise_model::guard::{ArmGuard, GuardFinding};
use pagewise_model::measured::median;
use pagewise_model::trial::{self, ComparedQuantity, TimeRatio, VerdictWord};

/// Runs of each arm in a block while several race.
const FEW: u32 = 2;
/// Pairs of each arm before it may fall behind: one pair of starts shows a noisy arm far ahead.
const LEAST_PAIRS: u32 = 2;
/// Runs of every arm that still races before those that fell behind get some more.
const MANY_RUNS: u32 = 8;
/// That many runs they get: as few rule out an arm that is clearly slower.
const SETTLING_RUNS: u32 = 4;
/// The standard error to which the size of a difference is found at once, as a share of time and of the difference.
const PRECISE: f64 = 0.004;
const PRECISE_SHARE: f64 = 0.05;
/// Runs of an arm that are made for that at most.
const MOST_FOR_SIZE: u32 = 40;
/// Combine only the best arms, this many.
const COMBINED: usize = 3;
/// Runs one at a time that an arm proven at once needs, and the control too, before it is kept.
const ALONE: u32 = 3;

/// When an experiment has its answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RaceGoal {
    /// Ends when the best arm is proven, or no arm can gain enough. The best arms are also combined into
    /// further arms.
    Gain,
    /// Each arm is proven faster or slower, or differs by little at most.
    Difference,
    /// Whether each arm takes at most this share of time more than the control.
    LossAtMost(f64),
    /// The control and every arm have run this often, whatever is known by then.
    Pairs(u32),
}

/// What a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockUnit {
    /// Runs of the control and of every arm that races.
    Runs,
    /// One arm and the control, side by side.
    Pair,
    /// The same in a service that runs already. Each of its windows is guarded too ([`crate::service::ServiceWatch`]):
    /// two thirds of the errors allowed are for that.
    WatchedPair,
}

impl BlockUnit {
    const fn is_pair(self) -> bool {
        matches!(self, Self::Pair | Self::WatchedPair)
    }
}

/// What an experiment sets out with.
#[derive(Debug, Clone)]
pub struct RaceTerms {
    /// What decides.
    pub quantity: ComparedQuantity,
    /// The bounds that an arm must not exceed, whatever it gains.
    pub guards: Vec<ArmGuard>,
    pub goal: RaceGoal,
    pub unit: BlockUnit,
    /// Name of what the arms are measured against.
    pub control: String,
    /// Seed of all random orders.
    pub seed: u64,
    /// Time for the whole session, as the report gives it.
    pub budget: Nanos,
    /// How many runs may share a CPU at once, or why they run one at a time. `None` for services: each arm
    /// says it.
    pub most_at_once: Option<Result<u32, String>>,
}

impl RaceTerms {
    /// Whether the compared runs may share CPUs, if the arm may.
    const fn may_share(&self) -> bool {
        match &self.most_at_once {
            Some(most) => most.is_ok(),
            None => self.unit.is_pair(),
        }
    }
}

/// An arm as the policy knows it.
#[derive(Debug, Clone)]
pub struct RaceEntrant {
    pub name: String,
    /// What shows that it acts.
    pub counter: RemedyCounter,
    /// Why it is rejected without being measured: its output differs from the control's.
    pub barred: Option<String>,
    /// Its runs may share a CPU with others, or its servers do.
    pub at_once: bool,
}

#[derive(Debug, Clone)]
struct Racer {
    entrant: RaceEntrant,
    /// Why it must not run again: it could not be run, or did not behave as the control did.
    failed: Option<String>,
    /// Its output was compared with the control's.
    is_compared: bool,
}

/// Why an experiment ends early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RaceHalt {
    /// The user asked.
    Interrupted,
    /// The time is over.
    Budget,
    /// The control cannot be measured, or nothing can, and why.
    Control(String),
    /// The session ends for a reason that it reports itself. The results so far remain valid.
    Session,
}

/// The time there is for the next block.
#[allow(missing_debug_implementations, reason = "it holds a function")]
pub struct BlockRoom<'a> {
    /// Left of the session.
    pub left_ns: u64,
    /// What the next block may take.
    pub block_ns: u64,
    /// The time of one run of an arm, or of the control (`None`). For a pair, the time of both sides.
    pub cost_ns: &'a dyn Fn(Option<usize>) -> u64,
    /// Blocks at once that run side by side.
    pub side_by_side: u64,
    /// Runs that it takes to compare a first output.
    pub compare_runs: u32,
}

/// A race in progress.
#[derive(Debug, Clone)]
pub struct RacePolicy {
    terms: RaceTerms,
    arms: Vec<Racer>,
    readings: RaceReadings,
    blocks: Vec<RaceBlock>,
    rng: Rng,
    /// Arms that set out; those above are combinations.
    first: usize,
    /// Arms that have yet to run in this round of pairs, or of runs at once.
    turn: Vec<usize>,
    has_combined: bool,
}

impl RacePolicy {
    /// Before any block, or after those of the session that this one continues.
    #[must_use]
    pub fn new(terms: RaceTerms, arms: Vec<RaceEntrant>, earlier: Vec<RaceBlock>) -> Self {
        let mut policy = Self {
            readings: RaceReadings::new(terms.quantity, &terms.guards, breaking(terms.unit)),
            // A session that is continued gets other orders than it had, with the same seed too.
            rng: Rng::new(terms.seed.wrapping_add(earlier.len() as u64)),
            has_combined: terms.unit.is_pair() || !earlier.is_empty(),
            first: arms.len(),
            arms: Vec::new(),
            blocks: Vec::new(),
            turn: Vec::new(),
            terms,
        };
        arms.into_iter().for_each(|arm| policy.join(arm));
        earlier.into_iter().for_each(|block| policy.add(block));
        policy
    }

    /// One more arm, such as a combination.
    pub fn join(&mut self, entrant: RaceEntrant) {
        // Nothing compares what servers put out.
        let is_compared = self.terms.unit.is_pair();
        self.readings.join(self.terms.may_share() && entrant.at_once);
        self.arms.push(Racer { entrant, failed: None, is_compared });
    }

    /// Runs at once do not work with this program. Their results are dropped, and later runs go one at a
    /// time.
    pub fn run_in_turn(&mut self, why: String) {
        self.terms.most_at_once = Some(Err(why.clone()));
        let readings = RaceReadings::new(self.terms.quantity, &self.terms.guards, self.breaking());
        self.readings = readings;
        self.arms.iter().for_each(|_| self.readings.join(false));
        for block in std::mem::take(&mut self.blocks) {
            self.add(match block {
                RaceBlock::Runs(block) if block.at_once => {
                    let dropped = block.dropped.or_else(|| Some(why.clone()));
                    RaceBlock::Runs(trial::ExperimentBlock { dropped, ..block })
                }
                other => other,
            });
        }
    }

    const fn breaking(&self) -> f64 {
        breaking(self.terms.unit)
    }

    /// The runs of this arm share a CPU with the control's, or its servers the plain server's.
    fn is_at_once(&self, arm: usize) -> bool {
        self.terms.may_share() && self.arms[arm].entrant.at_once
    }

    /// Takes a block in.
    pub fn add(&mut self, block: RaceBlock) {
        self.blocks.push(block);
        let names: Vec<&str> = self.arms.iter().map(|arm| &arm.entrant.name[..]).collect();
        self.readings.add(&self.blocks, &self.terms.control, &names);
    }

    /// An arm that failed is out of the race, whatever it showed. The first reason counts.
    pub fn fail(&mut self, arm: usize, why: String) {
        self.arms[arm].failed.get_or_insert(why);
    }

    /// What comparing the output of an arm found: why it is rejected, if it differs.
    pub fn compared(&mut self, arm: usize, differs: Option<String>) {
        self.arms[arm].is_compared = true;
        if differs.is_some() {
            self.arms[arm].entrant.barred = differs;
        }
    }

    /// All blocks so far.
    #[must_use]
    pub fn blocks(&self) -> &[RaceBlock] {
        &self.blocks
    }

    /// The name of an arm, or of the control.
    #[must_use]
    pub fn name(&self, arm: Option<usize>) -> &str {
        arm.map_or(&self.terms.control, |arm| &self.arms[arm].entrant.name)
    }

    /// The number of the arm of this name.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<usize> {
        self.arms.iter().position(|arm| arm.entrant.name == name)
    }

    const fn race(&self) -> &ArmRace {
        &self.readings.decisive
    }

    fn runs(&self, arm: usize) -> u32 {
        self.race().standing(arm).map_or(0, |standing| standing.runs)
    }

    /// The results of an arm, with those of the control beside it.
    fn beside(&self, arm: usize) -> PairedObservations<'_> {
        let name = self.name(Some(arm));
        PairedObservations::new(&self.blocks, name, &self.terms.control, self.is_at_once(arm))
    }

    /// The same for runs one at a time, of an arm that races at once. `None` for services: each of their
    /// pairs has windows apart.
    fn alone(&self, arm: usize) -> Option<PairedObservations<'_>> {
        let name = self.name(Some(arm));
        let alone = || PairedObservations::new(&self.blocks, name, &self.terms.control, false);
        (self.is_at_once(arm) && !self.terms.unit.is_pair()).then(alone)
    }

    /// Runs of it one at a time.
    fn runs_alone(&self, arm: usize) -> u32 {
        self.alone(arm).map_or(0, |alone| u32::try_from(alone.arm.len()).unwrap_or(u32::MAX))
    }

    fn middle(&self) -> fn(&[f64]) -> Option<f64> {
        // Each pair is one value; of runs a stray one must not count.
        if self.terms.unit.is_pair() { mean } else { median }
    }

    fn shown(&self, arm: usize) -> guards::GuardFigures {
        let memory_change_bytes = self.beside(arm).costs(self.middle()).peak_rss_change_bytes;
        let failed = self.blocks.iter().map(|block| block.errors(self.name(Some(arm))));
        // The empty sum of floats is -0.
        let errors = failed.fold(0.0, |sum, one| sum + one);
        guards::GuardFigures { errors, memory_change_bytes }
    }

    /// What each guard shows of an arm.
    #[must_use]
    pub fn guarded(&self, arm: usize) -> Vec<GuardFinding> {
        self.readings.guards.guarded(arm, self.name(Some(arm)), self.shown(arm))
    }

    /// Why an arm is not to be run again, if a guard of it is broken.
    #[must_use]
    pub fn broken(&self, arm: usize) -> Option<String> {
        // Without intervals, which take time.
        let has_errors = |block: &RaceBlock| block.errors(self.name(Some(arm))) > 0.0;
        let may_be = self.readings.guards.may_be_broken(arm) || self.blocks.iter().any(has_errors);
        may_be.then(|| guards::broken(&self.guarded(arm))).flatten()
    }

    /// Arms that run and may be run again.
    #[must_use]
    pub fn sound(&self) -> Vec<usize> {
        let may_run = |at: &usize| {
            let arm = &self.arms[*at];
            arm.entrant.barred.is_none() && arm.failed.is_none() && self.broken(*at).is_none()
        };
        (0..self.arms.len()).filter(may_run).collect()
    }

    /// Those of them about which the question is open.
    fn open(&self) -> Vec<usize> {
        let race = self.race();
        let is_open = |arm: &usize| {
            let is_difference = self.terms.goal == RaceGoal::Difference;
            let enough =
                if is_difference && self.is_at_once(*arm) { ENOUGH_AT_ONCE } else { ENOUGH };
            let least = |ruled_out: Option<f64>| ruled_out.is_some_and(|share| share <= enough);
            let no_gain = least(race.no_gain_above(*arm));
            match self.terms.goal {
                RaceGoal::Gain => !no_gain && !race.is_slower(*arm),
                RaceGoal::Difference => {
                    let no_difference = no_gain && least(race.no_loss_above(*arm));
                    let differs = self.is_kept(*arm) || self.is_lost(*arm);
                    !(no_difference || differs && self.is_precise(*arm))
                }
                RaceGoal::LossAtMost(share) => !race.is_loss_bounded(*arm, share),
                RaceGoal::Pairs(pairs) => self.runs(*arm) < pairs,
            }
        };
        self.sound().into_iter().filter(is_open).collect()
    }

    /// Whether the difference of an arm is known precisely enough. A few runs prove a difference but measure
    /// its size badly, and runs at once are cheap.
    fn is_precise(&self, arm: usize) -> bool {
        let Some(standing) = self.race().standing(arm) else { return false };
        let enough = PRECISE.max(PRECISE_SHARE * standing.ratio.ln().abs());
        !self.is_at_once(arm) || standing.error <= enough || standing.runs >= MOST_FOR_SIZE
    }

    /// Open arms that may still be the best, and those that fell behind early once there is time to rule them out.
    #[must_use]
    pub fn racing(&self) -> Vec<usize> {
        let mut open = self.open();
        if !self.terms.unit.is_pair() {
            let near = self.race().contenders(&open, &open);
            // Arms that fell behind early leave the session open, and a few runs more rule them out.
            let has_time = near.iter().all(|arm| self.runs(*arm) >= MANY_RUNS);
            let is_unsure = |arm: &usize| has_time && self.runs(*arm) < SETTLING_RUNS;
            open.retain(|arm| near.contains(arm) || is_unsure(arm));
            return open;
        }
        // An arm that may break a guard leaves none behind.
        let is_sure = |arm: &usize| self.open_guard(*arm).is_none();
        let sure: Vec<usize> = open.iter().copied().filter(is_sure).collect();
        let near = self.race().contenders(&open, &sure);
        open.retain(|arm| near.contains(arm) || self.runs(*arm) < LEAST_PAIRS);
        open
    }

    /// The guard that more runs may yet break.
    fn open_guard(&self, arm: usize) -> Option<ArmGuard> {
        self.readings.guards.open(arm, self.shown(arm))
    }

    fn is_kept(&self, arm: usize) -> bool {
        self.race().is_proven(arm) && self.found(arm, 0.0).word == VerdictWord::Keep
    }

    fn is_lost(&self, arm: usize) -> bool {
        self.race().is_slower(arm) && self.found(arm, 0.0).word == VerdictWord::Slower
    }

    /// The best arm is to be kept, or no question is open.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        let open = self.open();
        // Combinations join late and have to run, too.
        let waits = |arm: &usize| *arm >= self.first && self.race().standing(*arm).is_none();
        let leader = self.race().leader(&self.sound());
        open.is_empty()
            || self.terms.goal == RaceGoal::Gain
                && !open.iter().any(waits)
                && leader.is_some_and(|arm| self.is_kept(arm))
    }

    /// Arms that are likely to gain and whose output was not yet compared.
    #[must_use]
    pub fn to_compare(&self) -> Vec<usize> {
        let waits = |arm: &usize| !self.arms[*arm].is_compared && self.race().is_likely(*arm);
        self.sound().into_iter().filter(waits).collect()
    }

    /// The arms that gain most, to be combined; once, after the best has run [`FEW`] times.
    pub fn to_combine(&mut self) -> Vec<Vec<usize>> {
        let leader = self.race().leader(&self.sound());
        let ran = leader.map_or(0, |arm| self.runs(arm));
        if self.has_combined || self.terms.goal != RaceGoal::Gain || ran < FEW {
            return Vec::new();
        }
        self.has_combined = true;
        let gain = |arm: usize| {
            let standing = self.race().standing(arm)?;
            let gain = -standing.ratio.ln();
            (gain > LEAST_GAIN.max(standing.error)).then_some((gain, arm))
        };
        let mut gaining: Vec<(f64, usize)> = self.sound().into_iter().filter_map(gain).collect();
        gaining.sort_by(|a, b| b.0.total_cmp(&a.0));
        let best: Vec<usize> = gaining.into_iter().take(COMBINED).map(|(_, arm)| arm).collect();
        subsets(&best)
    }

    /// The current ratios of the arms that may run again, best first.
    #[must_use]
    pub fn standings(&self) -> Vec<(String, TimeRatio)> {
        let of = |arm: usize| {
            let ratio = self.race().standing(arm)?.ratio;
            let (ratio_low, ratio_high) = self.race().interval(arm)?;
            Some((self.name(Some(arm)).to_owned(), TimeRatio { ratio, ratio_low, ratio_high }))
        };
        let mut all: Vec<(String, TimeRatio)> = self.sound().into_iter().filter_map(of).collect();
        all.sort_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio));
        all
    }
}

/// Evidence of a loss that breaks a guard.
const fn breaking(unit: BlockUnit) -> f64 {
    if matches!(unit, BlockUnit::WatchedPair) { 3.0 * PROVEN } else { PROVEN }
}

/// All sets of two and more of up to three arms.
fn subsets(arms: &[usize]) -> Vec<Vec<usize>> {
    let pairs = arms
        .iter()
        .enumerate()
        .flat_map(|(at, first)| arms[at + 1..].iter().map(move |second| vec![*first, *second]));
    pairs.chain((arms.len() == COMBINED).then(|| arms.to_vec())).collect()
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
