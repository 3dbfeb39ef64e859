//! What pairs of servers under load show: the race by the goal, and a guard for everything else.
//!
//! A pair is two fresh starts, the plain server's and an arm's. Each side is one value, the mean of
//! the logarithm over its windows, so a pair is one observation however many windows it has: two
//! starts of the same server differ by up to 3% for as long as they live. Evidence, verdicts and
//! intervals are those of [`crate::race`]. CPU time per request is that of typical windows ([`typical`]), and
//! a gain in them is kept only where all windows together do not deny it.
//!
//! Guards are those of [`crate::guards`]. One failed request breaks `errors=0`. A gain is kept only once each
//! guard's bound lies a standard error above what was found; until then it is likely.
//!
//! Of a server that runs already a pair is one block of windows with the remedy off and on in random order:
//! there are no two starts that could differ, and nothing is learned of another start. [`Watch`] guards
//! it window by window.
//!
//! Not seen: what happens between windows, and requests that the generator does not count.

pub mod load;
mod watch;

pub use watch::Watch;

use crate::guards::{self, Beside, Guards};
use crate::mechanism::Mechanism;
use crate::race::{BlockTimes, Costs, Findings, PROVEN, RULED_OUT, Race, between_logs};
use pagewise_model::Nanos;
use pagewise_model::guard::{Guard, Guarded};
use pagewise_model::measured::median;
use pagewise_model::service::{Holding, Pair, Service, Side, Window};
use pagewise_model::trial::{Quantity, Ratio, Verdict, Word};
use std::collections::BTreeMap;

/// Warming up makes requests cheaper: two runs of the load that are cheaper by no more than this than the two
/// before have settled. A runtime that compiles has plateaus of two equal runs on its way.
const SETTLED: f64 = 0.05;

/// A window is not typical if it is farther from the median than so many deviations, by the median of all
/// distances.
const TYPICAL: f64 = 3.0;
/// Deviations of a normal distribution in its median distance.
const DEVIATION: f64 = 1.4826;
/// With fewer windows all are typical: their median distance says little.
const FEWEST: usize = 6;

/// Pairs of each arm before it may fall behind: one pair of starts shows a noisy arm far ahead.
const LEAST_PAIRS: usize = 2;

/// What a guard of a service may bound.
pub const GUARDED: [Quantity; 4] =
    [Quantity::CpuPerRequest, Quantity::Throughput, Quantity::P99, Quantity::Memory];

/// The bounds of every session that names none.
pub const USUAL_GUARDS: [Guard; 2] = [
    Guard { quantity: Some(Quantity::P99), limit_share: 0.20 },
    Guard { quantity: None, limit_share: 0.0 },
];

/// The bounds of a session that names none, where this decides.
#[must_use]
pub fn usual_guards(decides: Quantity) -> Vec<Guard> {
    let cpu = Guard { quantity: Some(Quantity::CpuPerRequest), limit_share: 0.03 };
    let of_memory = (decides == Quantity::Memory).then_some(cpu);
    USUAL_GUARDS.into_iter().chain(of_memory).collect()
}

/// The logarithm of one side's value; less is better. None where a window does not report it.
#[must_use]
pub fn value(quantity: Quantity, side: &Side) -> Option<f64> {
    match quantity {
        Quantity::Memory => log(side.at_last.pss_bytes.0 as f64),
        _ => Some(mean(&windows(quantity, side)?)),
    }
}

/// The same as it decides. Of CPU time per request, a window that is not typical counts as the last that is:
/// where a runtime compiles or collects in one of ten windows, that hides all else.
fn decisive(quantity: Quantity, side: &Side) -> Option<f64> {
    match quantity {
        Quantity::CpuPerRequest => Some(mean(&typical(windows(quantity, side)?))),
        _ => value(quantity, side),
    }
}

/// The logarithms of all windows. None where one does not report it, or there is none.
fn windows(quantity: Quantity, side: &Side) -> Option<Vec<f64>> {
    let values = side.windows.iter().map(|window| window_value(quantity, window));
    values.collect::<Option<Vec<f64>>>().filter(|values| !values.is_empty())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Values with those that are not typical moved to the bound of those that are.
fn typical(values: Vec<f64>) -> Vec<f64> {
    let Some(middle) = median(&values).filter(|_| values.len() >= FEWEST) else { return values };
    let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    let most = TYPICAL * DEVIATION * median(&distances).unwrap_or_default();
    values.into_iter().map(|value| value.clamp(middle - most, middle + most)).collect()
}

fn log(value: f64) -> Option<f64> {
    (value > 0.0 && value.is_finite()).then(|| value.ln())
}

fn window_value(quantity: Quantity, window: &Window) -> Option<f64> {
    let load = &window.load;
    match quantity {
        Quantity::CpuPerRequest | Quantity::Cpu => log(window.cpu_ns.0 as f64 / load.requests),
        Quantity::Throughput | Quantity::Time => Some(-log(window.rate()?)?),
        Quantity::P99 => log(load.latency.p99?),
        Quantity::Memory => None,
    }
}

/// The change of CPU time per request of plain servers from one session to another, as between programs
/// ([`crate::race::between_sessions`]). None without two starts in each.
#[must_use]
pub fn between(first: &Service, second: &Service) -> Option<Ratio> {
    let costs = |service: &Service| -> Vec<f64> {
        let sides = service.plain_sides().into_iter();
        sides.filter_map(|side| value(Quantity::CpuPerRequest, side)).collect()
    };
    between_logs(&costs(first), &costs(second))
}

/// Requests to a server that failed.
#[must_use]
pub fn failed(side: &Side) -> f64 {
    // The empty sum of floats is -0.
    side.windows.iter().filter_map(|window| window.load.errors).fold(0.0, |sum, one| sum + one)
}

/// The cost of a request has settled after these runs of the load.
#[must_use]
pub fn is_settled(warm_ups: &[Window]) -> bool {
    let costs = warm_ups.iter().map(|window| window_value(Quantity::CpuPerRequest, window));
    match costs.collect::<Option<Vec<f64>>>().as_deref() {
        Some([.., a, b, c, d]) => (a + b - c - d) / 2.0 <= SETTLED,
        _ => false,
    }
}

/// What of a server's memory shows that a remedy acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shows {
    /// Nothing does.
    Nothing,
    /// Anonymous memory on huge pages.
    AnonHuge,
    /// Code or other file pages on huge pages.
    FileHuge,
}

impl Shows {
    /// Pages of 4 KiB would be below the noise of small mappings: whole mebibytes.
    const fn of(self, holding: &Holding) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::AnonHuge => holding.anon_huge_bytes.0 >> 20,
            Self::FileHuge => holding.file_huge_bytes.0 >> 20,
        }
    }
}

/// The standings of all arms.
#[derive(Debug, Clone)]
pub struct Standings {
    quantity: Quantity,
    names: Vec<String>,
    shows: Vec<Shows>,
    race: Race,
    guards: Guards,
    pairs: Vec<Pair>,
    /// Arms that failed, and how.
    rejected: BTreeMap<usize, String>,
}

impl Standings {
    /// Before any pair; an arm is its name and what shows that it acts.
    #[must_use]
    pub fn new(quantity: Quantity, guards: &[Guard], arms: &[(String, Shows)]) -> Self {
        Self {
            quantity,
            names: arms.iter().map(|arm| arm.0.clone()).collect(),
            shows: arms.iter().map(|arm| arm.1).collect(),
            guards: Guards::new(guards, arms.len()),
            race: Race::new(arms.len()),
            pairs: Vec::new(),
            rejected: BTreeMap::new(),
        }
    }

    /// The same where each window is guarded too ([`Watch`]): two thirds of the errors allowed are for that.
    #[must_use]
    pub fn watched(self) -> Self {
        Self { guards: self.guards.broken_at(3.0 * PROVEN), ..self }
    }

    /// Takes a pair in.
    pub fn add(&mut self, pair: Pair) {
        let Some(arm) = self.names.iter().position(|name| *name == pair.arm) else { return };
        let block = |of: fn(Quantity, &Side) -> Option<f64>, quantity| {
            let (control, other) = (of(quantity, &pair.plain)?, of(quantity, &pair.other)?);
            Some(BlockTimes { control: vec![control], arms: vec![(arm, vec![other])] })
        };
        if let Some(times) = block(decisive, self.quantity) {
            self.race.add(&times);
        }
        self.guards.add(|quantity| block(value, quantity));
        self.pairs.push(pair);
    }

    /// An arm that failed is out of the race, whatever its pairs show.
    pub fn reject(&mut self, arm: usize, why: String) {
        self.rejected.insert(arm, why);
    }

    /// All pairs so far.
    #[must_use]
    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    fn of_arm(&self, arm: usize) -> impl Iterator<Item = &Pair> {
        self.pairs.iter().filter(move |pair| Some(&pair.arm) == self.names.get(arm))
    }

    /// What each guard shows of an arm.
    #[must_use]
    pub fn guarded(&self, arm: usize) -> Vec<Guarded> {
        let name = self.names.get(arm).map_or("", String::as_str);
        self.guards.guarded(arm, name, self.beside(arm))
    }

    fn beside(&self, arm: usize) -> Beside {
        let errors = self.of_arm(arm).map(|pair| failed(&pair.other));
        let errors = errors.fold(0.0, |sum, one| sum + one);
        Beside { errors, memory_change_bytes: self.costs(arm).peak_rss_change_bytes }
    }

    /// Why an arm is not to be run again: a guard of it is broken.
    #[must_use]
    pub fn broken(&self, arm: usize) -> Option<String> {
        guards::broken(&self.guarded(arm))
    }

    /// Arms about which the question is open and that may still be the best. An arm that may break a guard
    /// leaves none behind.
    #[must_use]
    pub fn racing(&self) -> Vec<usize> {
        let is_open = |arm: &usize| {
            let is_out = self.race.no_gain_above(*arm).is_some_and(|share| share <= RULED_OUT[0]);
            let is_rejected = self.rejected.contains_key(arm) || self.broken(*arm).is_some();
            !is_out && !self.race.is_slower(*arm) && !is_rejected
        };
        let mut open: Vec<usize> = (0..self.names.len()).filter(is_open).collect();
        let is_sure = |arm: &usize| self.guards.open(*arm, self.beside(*arm)).is_none();
        let sure: Vec<usize> = open.iter().copied().filter(is_sure).collect();
        let near = self.race.contenders(&open, &sure);
        open.retain(|arm| near.contains(arm) || self.of_arm(*arm).count() < LEAST_PAIRS);
        open
    }

    /// The best arm is to be kept, or nothing is left to race.
    #[must_use]
    pub fn is_decided(&self, pair_ns: Nanos) -> bool {
        let racing = self.racing();
        let is_kept = |arm: &usize| self.verdict(*arm, pair_ns).word == Word::Keep;
        racing.is_empty() || self.race.leader(&racing).as_ref().is_some_and(is_kept)
    }

    /// Where an arm stands, as a ratio with its interval.
    #[must_use]
    pub fn ratio(&self, arm: usize) -> Option<(f64, f64, f64)> {
        let (low, high) = self.race.interval(arm)?;
        Some((self.race.standing(arm)?.ratio, low, high))
    }

    /// The verdict on an arm; a pair takes `pair_ns`.
    #[must_use]
    pub fn verdict(&self, arm: usize, pair_ns: Nanos) -> Verdict {
        let name = self.names.get(arm).map_or("", String::as_str);
        let findings = Findings {
            race: &self.race,
            plain: None,
            without_host: &self.race,
            arm,
            mechanism: self.mechanism(arm),
            host_share_arm: 0.0,
            host_share_control: 0.0,
            run_ns: pair_ns.0 as f64 / 2.0,
        };
        let mut verdict = guards::apply(findings.judge(name, self.costs(arm)), &self.guarded(arm));
        if matches!(verdict.word, Word::Keep | Word::Likely) && self.is_denied(arm) {
            verdict.word = Word::CannotTell;
            verdict.why =
                "typical runs of the load need less, all of them together do not".to_owned();
        }
        if let Some(guard) = self.guards.open(arm, self.beside(arm))
            && verdict.word == Word::Keep
        {
            verdict.word = Word::Likely;
            verdict.why = guards::doubt(&verdict.why, guard);
        }
        match self.rejected.get(&arm) {
            Some(why) => Verdict { word: Word::Reject, why: why.clone(), ..verdict },
            None => verdict,
        }
    }

    /// All windows of an arm together show no gain.
    fn is_denied(&self, arm: usize) -> bool {
        let change = |pair: &Pair| {
            Some(value(self.quantity, &pair.other)? - value(self.quantity, &pair.plain)?)
        };
        self.of_arm(arm).filter_map(change).sum::<f64>() >= 0.0
    }

    /// Readings at the first window and at the last: what a server loses meanwhile does not count.
    fn mechanism(&self, arm: usize) -> Mechanism {
        let shows = self.shows.get(arm).copied().unwrap_or(Shows::Nothing);
        if shows == Shows::Nothing {
            return Mechanism::None;
        }
        let least = |side: &Side| shows.of(&side.at_first).min(shows.of(&side.at_last));
        Mechanism::Counter {
            arm: self.of_arm(arm).map(|pair| least(&pair.other)).collect(),
            control: self.of_arm(arm).map(|pair| least(&pair.plain)).collect(),
        }
    }

    fn costs(&self, arm: usize) -> Costs {
        let mean_of = |of: &dyn Fn(&Pair) -> f64| {
            let values: Vec<f64> = self.of_arm(arm).map(of).collect();
            (!values.is_empty()).then(|| mean(&values))
        };
        let pss = |side: &Side| side.at_last.pss_bytes.0 as f64;
        let change = mean_of(&|pair| pss(&pair.other) - pss(&pair.plain));
        Costs {
            cpu_ratio: None,
            peak_rss_change_bytes: change.map(|bytes| bytes.round() as i64),
            control_peak_rss_bytes: mean_of(&|pair| pss(&pair.plain))
                .map(|bytes| pagewise_model::Bytes(bytes as u64)),
            supervisor_ns: Nanos(0),
        }
    }
}

#[cfg(test)]
mod tests;
