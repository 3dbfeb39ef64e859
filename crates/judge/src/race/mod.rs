//! The race: the evidence from the runs of several arms beside one control, at every moment.
//!
//! Runs come in *blocks*. A block holds each arm that still races, equally often, and the control, in random
//! order. Values are logarithms of run times. The strength of evidence is an *e-value*: if a claim is true,
//! its evidence is 1 on average however often it is checked, so it exceeds 50 in at most one of 50
//! experiments (Ville 1939; Ramdas et al., "Game-theoretic statistics and safe anytime-valid inference",
//! 2023). A race may therefore be watched, stopped at the best moment and continued later.
//!
//! The evidence on an arm is the weighted mean of two e-values. [`randomised`] relies only on the random
//! order within blocks: drift, heavy tails and two speeds do not harm it. [`normal`] assumes normal noise. It
//! is stronger in few runs, and capped at what few runs can show with two speeds.
//!
//! Picking the best of several arms is corrected by closed testing: the arm's evidence is the smallest mean
//! over all sets of arms that contain it ([`ArmRace::selected`]).
//!
//! Not seen: an error that favours one arm equally in every block.

pub use observation::{RaceBlock, RemedyCounter};
pub use policy::{
    BlockRoom, BlockUnit, PlannedBlock, RaceEntrant, RaceGoal, RaceHalt, RacePolicy, RaceTerms,
};
pub use power::provable_gain;
pub(crate) use slope::{SpeedSlopes, Speeds};
pub(crate) use verdict::between_logs;
pub use verdict::between_sessions;
use verdict::{ArmCosts, VerdictFindings};

mod normal;
mod observation;
mod policy;
mod power;
mod randomised;
mod readings;
mod slope;
mod verdict;

/// Least gain that is worth keeping, as a share of the control's time.
pub const LEAST_GAIN: f64 = 0.01;
/// Gains that a race can rule out.
pub const RULED_OUT: [f64; 5] = [0.01, 0.02, 0.03, 0.04, 0.05];
/// The gain that has to be ruled out before an arm leaves the race.
const ENOUGH: f64 = RULED_OUT[1];
/// The same for a difference between commands whose runs share a CPU.
const ENOUGH_AT_ONCE: f64 = RULED_OUT[0];
/// A gain is proven at this evidence against no gain.
pub const PROVEN: f64 = 50.0;
/// Evidence against [`LEAST_GAIN`] that proof needs besides.
pub const WORTH: f64 = 20.0;
/// Evidence against [`LEAST_GAIN`] from which a gain is likely: 9 to 1 for normal noise.
pub const LIKELY: f64 = 9.0 * NORMAL_SHARE;
/// Evidence against a ratio that rules it out.
pub const OUT: f64 = 20.0;
/// An arm stays in the race while it is within this many standard errors of the leader.
const REACH: f64 = 1.1;
/// Share of the evidence that takes noise for normal.
const NORMAL_SHARE: f64 = 0.75;
/// The runs that the usual noise counts for.
const USUAL_RUNS: f64 = 2.0;

/// What is assumed about the noise before the first run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NoisePrior {
    /// Usual variance of the logarithm of a run's time.
    variance: f64,
    /// Deviation of an error that favours an arm equally in every block.
    bias: f64,
    /// Effects beyond a limit that are tested against it, as shares of time, with equal weights.
    effects: &'static [f64],
}

impl NoisePrior {
    /// Runs one after the other. What favours an arm in every block is less than their noise.
    pub const IN_TURN: Self =
        Self { variance: 0.02 * 0.02, bias: 0.0, effects: &[0.02, 0.05, 0.10, 0.20, 0.40] };
    /// Runs that share one CPU (docs/decisions/055).
    pub const AT_ONCE: Self = Self {
        variance: 0.01 * 0.01,
        bias: 0.0025,
        effects: &[0.01, 0.02, 0.05, 0.10, 0.20, 0.40],
    };
}

impl Default for NoisePrior {
    fn default() -> Self {
        Self::IN_TURN
    }
}

/// What is held against an arm: its gain as a share of the control's time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GainClaim {
    /// It gains no more than this.
    GainAtMost(f64),
    /// It gains no less than this.
    GainAtLeast(f64),
}

impl GainClaim {
    /// The claims that decide a race; evidence against them is kept up with every block.
    const WATCHED: [Self; 9] = [
        Self::GainAtMost(0.0),
        Self::GainAtMost(LEAST_GAIN),
        Self::GainAtLeast(0.0),
        Self::GainAtLeast(-LEAST_GAIN),
        Self::GainAtLeast(RULED_OUT[0]),
        Self::GainAtLeast(RULED_OUT[1]),
        Self::GainAtLeast(RULED_OUT[2]),
        Self::GainAtLeast(RULED_OUT[3]),
        Self::GainAtLeast(RULED_OUT[4]),
    ];

    fn limit(self) -> RatioClaim {
        match self {
            Self::GainAtMost(share) => RatioClaim { sign: -1.0, log_ratio: (-share).ln_1p() },
            Self::GainAtLeast(share) => RatioClaim { sign: 1.0, log_ratio: (-share).ln_1p() },
        }
    }
}

/// A claim about the logarithm of an arm's time ratio: at least this (`sign` -1) or at most this (1).
#[derive(Debug, Clone, Copy, PartialEq)]
struct RatioClaim {
    sign: f64,
    log_ratio: f64,
}

/// The runs of one arm in one block with the control's.
#[derive(Debug, Clone, PartialEq)]
struct ArmBlockRuns {
    control: Vec<f64>,
    arm: Vec<f64>,
}

/// One block of a race.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BlockTimes {
    /// Logarithms of the control's times.
    pub control: Vec<f64>,
    /// The logarithms of each arm that ran, by its number.
    pub arms: Vec<(usize, Vec<f64>)>,
}

/// Sums over the blocks of one arm.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct ArmTotals {
    blocks: u32,
    arm_runs: u32,
    control_runs: u32,
    /// Sum of block weights, n1 n2 / (n1 + n2), and of weight times difference, difference squared.
    weight: f64,
    first: f64,
    second: f64,
    /// Squares within arm and control, block by block.
    within: f64,
    noise: NoisePrior,
}

impl ArmTotals {
    fn new(noise: NoisePrior) -> Self {
        Self { noise, ..Self::default() }
    }

    fn add(&mut self, runs: &ArmBlockRuns) {
        let (arm, control) = (runs.arm.len() as f64, runs.control.len() as f64);
        let weight = arm * control / (arm + control);
        let (arm_mean, arm_squares) = mean_and_squares(&runs.arm);
        let (control_mean, control_squares) = mean_and_squares(&runs.control);
        let difference = arm_mean - control_mean;
        self.blocks += 1;
        self.arm_runs += u32::try_from(runs.arm.len()).unwrap_or(u32::MAX);
        self.control_runs += u32::try_from(runs.control.len()).unwrap_or(u32::MAX);
        self.weight += weight;
        self.first += weight * difference;
        self.second += weight * difference * difference;
        self.within += arm_squares + control_squares;
    }

    /// Mean difference of the logarithms, arm minus control.
    fn difference(&self) -> f64 {
        self.first / self.weight
    }

    /// Squares that the difference leaves.
    fn residual(&self) -> f64 {
        (self.second - self.first * self.first / self.weight).max(0.0) + self.within
    }

    /// Runs less one mean for each block and the difference.
    fn freedom(&self) -> f64 {
        f64::from(self.arm_runs + self.control_runs) - f64::from(self.blocks) - 1.0
    }

    /// Variance of a run, drawn towards the usual one.
    fn variance(&self) -> f64 {
        shrunk(self.residual(), self.freedom(), self.noise)
    }

    fn standard_error(&self) -> f64 {
        (self.variance() / self.weight).sqrt()
    }

    /// The weight that the difference has with what favours an arm in every block.
    fn unbiased_weight(&self) -> f64 {
        let bias = self.noise.bias * self.noise.bias / self.variance();
        if bias > 0.0 { 1.0 / (1.0 / self.weight + bias) } else { self.weight }
    }
}

/// Variance of a run from squares with this many degrees of freedom, shrunk towards the usual variance.
fn shrunk(squares: f64, freedom: f64, noise: NoisePrior) -> f64 {
    (USUAL_RUNS * noise.variance + squares) / (USUAL_RUNS + freedom)
}

fn mean_and_squares(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (mean, values.iter().map(|value| (value - mean).powi(2)).sum())
}

/// All runs of one arm.
#[derive(Debug, Clone, Default)]
struct ArmRuns {
    runs: Vec<ArmBlockRuns>,
    totals: ArmTotals,
    /// Logarithms of the randomised e-values, in the order of [`GainClaim::WATCHED`].
    randomised: [f64; GainClaim::WATCHED.len()],
}

impl ArmRuns {
    fn new(noise: NoisePrior) -> Self {
        Self { totals: ArmTotals::new(noise), ..Self::default() }
    }

    /// The limit for evidence that ignores bias: moved by as much as the bias may reach.
    fn beyond_bias(&self, limit: RatioClaim) -> RatioClaim {
        const REACH: f64 = 2.0;
        let log_ratio = limit.log_ratio + limit.sign * REACH * self.totals.noise.bias;
        RatioClaim { log_ratio, ..limit }
    }

    fn add(&mut self, runs: ArmBlockRuns) {
        for (at, claim) in GainClaim::WATCHED.into_iter().enumerate() {
            let limit = self.beyond_bias(claim.limit());
            self.randomised[at] += randomised::of_block(&runs, limit, &self.totals).ln();
        }
        self.totals.add(&runs);
        self.runs.push(runs);
    }

    fn evidence(&self, claim: GainClaim) -> f64 {
        match GainClaim::WATCHED.iter().position(|watched| *watched == claim) {
            Some(at) => self.evidence_with(claim.limit(), self.randomised[at]),
            None => self.against(claim.limit()),
        }
    }

    /// Evidence against any limit, from the first block on.
    fn against(&self, limit: RatioClaim) -> f64 {
        let mut before = ArmTotals::new(self.totals.noise);
        let mut log = 0.0;
        let beyond = self.beyond_bias(limit);
        for runs in &self.runs {
            log += randomised::of_block(runs, beyond, &before).ln();
            before.add(runs);
        }
        self.evidence_with(limit, log)
    }

    fn evidence_with(&self, limit: RatioClaim, log_randomised: f64) -> f64 {
        NORMAL_SHARE * normal::evidence(&self.totals, limit)
            + (1.0 - NORMAL_SHARE) * log_randomised.exp()
    }
}

/// Where an arm stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArmStanding {
    /// Time ratio, arm / control.
    pub ratio: f64,
    /// Standard error of its logarithm.
    pub error: f64,
    /// Deviation of the logarithm of one run's time.
    pub deviation: f64,
    /// Runs of the arm.
    pub runs: u32,
    /// Runs of the control in the same blocks.
    pub control_runs: u32,
}

/// A race of numbered arms.
#[derive(Debug, Clone, Default)]
pub struct ArmRace {
    arms: Vec<ArmRuns>,
}

impl ArmRace {
    /// A race of this many arms, before any run.
    #[must_use]
    pub fn new(arms: usize) -> Self {
        Self { arms: vec![ArmRuns::default(); arms] }
    }

    /// Adds an arm whose runs have this noise. Returns its number.
    pub fn join(&mut self, noise: NoisePrior) -> usize {
        self.arms.push(ArmRuns::new(noise));
        self.arms.len() - 1
    }

    /// Takes a block in. Without a run of the control it shows nothing.
    pub fn add(&mut self, block: &BlockTimes) {
        for (arm, times) in &block.arms {
            if let (Some(ran), false) =
                (self.arms.get_mut(*arm), times.is_empty() || block.control.is_empty())
            {
                ran.add(ArmBlockRuns { control: block.control.clone(), arm: times.clone() });
            }
        }
    }

    fn ran(&self, arm: usize) -> Option<&ArmRuns> {
        self.arms.get(arm).filter(|own| !own.runs.is_empty())
    }

    /// Where an arm stands; nowhere before its first block.
    #[must_use]
    pub fn standing(&self, arm: usize) -> Option<ArmStanding> {
        let totals = self.ran(arm)?.totals;
        Some(ArmStanding {
            ratio: totals.difference().exp(),
            error: totals.standard_error(),
            deviation: totals.variance().sqrt(),
            runs: totals.arm_runs,
            control_runs: totals.control_runs,
        })
    }

    /// Evidence against a claim about one arm that was named before the race; 1 before any run.
    #[must_use]
    pub fn evidence(&self, arm: usize, claim: GainClaim) -> f64 {
        self.ran(arm).map_or(1.0, |own| own.evidence(claim))
    }

    /// Evidence against a claim about an arm that was picked because of what the race showed.
    #[must_use]
    pub fn selected(&self, arm: usize, claim: GainClaim) -> f64 {
        let own = self.evidence(arm, claim);
        let raced = (0..self.arms.len()).filter(|other| *other != arm);
        let mut others: Vec<f64> =
            raced.filter_map(|other| Some(self.ran(other)?.evidence(claim))).collect();
        others.sort_by(f64::total_cmp);
        let (mut sum, mut least) = (own, own);
        for (other, size) in others.iter().zip(2..) {
            sum += other;
            least = least.min(sum / f64::from(size));
        }
        least
    }

    /// The gain is proven.
    #[must_use]
    pub fn is_proven(&self, arm: usize) -> bool {
        self.selected(arm, GainClaim::GainAtMost(0.0)) >= PROVEN
            && self.selected(arm, GainClaim::GainAtMost(LEAST_GAIN)) >= WORTH
    }

    /// The gain is likely.
    #[must_use]
    pub fn is_likely(&self, arm: usize) -> bool {
        self.selected(arm, GainClaim::GainAtMost(LEAST_GAIN)) >= LIKELY
    }

    /// The loss is proven.
    #[must_use]
    pub fn is_slower(&self, arm: usize) -> bool {
        self.evidence(arm, GainClaim::GainAtLeast(0.0)) >= PROVEN
            && self.evidence(arm, GainClaim::GainAtLeast(-LEAST_GAIN)) >= WORTH
    }

    /// The least of [`RULED_OUT`] that the arm does not gain.
    #[must_use]
    pub fn no_gain_above(&self, arm: usize) -> Option<f64> {
        let out = |share: &f64| self.evidence(arm, GainClaim::GainAtLeast(*share)) >= OUT;
        RULED_OUT.into_iter().find(out)
    }

    /// The least of [`RULED_OUT`] that the arm does not lose.
    #[must_use]
    pub fn no_loss_above(&self, arm: usize) -> Option<f64> {
        let out = |share: &f64| self.evidence(arm, GainClaim::GainAtMost(-share)) >= OUT;
        RULED_OUT.into_iter().find(out)
    }

    /// The interval of the arm's time lies on one side of a loss of this share.
    #[must_use]
    pub fn is_loss_bounded(&self, arm: usize, share: f64) -> bool {
        let sides = [GainClaim::GainAtMost(-share), GainClaim::GainAtLeast(-share)];
        sides.into_iter().any(|claim| self.evidence(arm, claim) >= OUT)
    }

    /// Of `arms`, those that may still be the best: not yet run, or near the first of those that `may_lead`.
    #[must_use]
    pub fn contenders(&self, arms: &[usize], may_lead: &[usize]) -> Vec<usize> {
        let total = |arm: usize| self.ran(arm).map(|own| own.totals);
        let leader = may_lead
            .iter()
            .filter_map(|arm| total(*arm))
            .min_by(|a, b| a.difference().total_cmp(&b.difference()));
        let is_near = |arm: &usize| match (total(*arm), leader) {
            (Some(own), Some(leader)) => {
                let error = own.standard_error().hypot(leader.standard_error());
                own.difference() - leader.difference() <= REACH * error
            }
            _ => true,
        };
        arms.iter().copied().filter(is_near).collect()
    }

    /// The arm with the least time, of those that ran.
    #[must_use]
    pub fn leader(&self, arms: &[usize]) -> Option<usize> {
        let time = |arm: &usize| self.ran(*arm).map(|own| own.totals.difference());
        let ran = arms.iter().filter_map(|arm| Some((*arm, time(arm)?)));
        ran.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(arm, _)| arm)
    }
}

// The interval of an arm's time ratio: the ratios that its evidence does not rule out. It holds at
// whatever moment the race is stopped.

/// Steps outwards are this many standard errors at first, and grow.
const FIRST_STEP: f64 = 2.0;
/// The end of the interval is found by bisection in this many steps.
const HALVINGS: u32 = 12;
/// Beyond this logarithm of the ratio an interval is open.
const WIDEST: f64 = 5.0;

impl ArmRace {
    /// The ends of the 95% interval of the time ratio.
    #[must_use]
    pub fn interval(&self, arm: usize) -> Option<(f64, f64)> {
        let ran = self.ran(arm)?;
        Some((end(ran, -1.0).exp(), end(ran, 1.0).exp()))
    }
}

/// The end on the side of smaller (`side` -1) or larger ratios (1).
fn end(ran: &ArmRuns, side: f64) -> f64 {
    // A ratio on one side is ruled out by runs on the other side of it.
    let is_out = |log_ratio: f64| ran.against(RatioClaim { sign: -side, log_ratio }) >= OUT;
    let from = ran.totals.difference();
    let (mut inside, mut step) = (from, FIRST_STEP * ran.totals.standard_error());
    let mut outside = from + side * step;
    while !is_out(outside) {
        if (outside - from).abs() > WIDEST {
            return from + side * WIDEST;
        }
        inside = outside;
        step *= 1.5;
        outside += side * step;
    }
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(inside, outside);
        if is_out(middle) {
            outside = middle;
        } else {
            inside = middle;
        }
    }
    outside
}
