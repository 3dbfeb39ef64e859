//! What pairs of servers under load show: the race by the goal, and a guard for everything else.
//!
//! A pair is two fresh starts, the plain server's and an arm's. Each side is one value, the mean of
//! the logarithm over its windows, so a pair is one observation however many windows it has: two
//! starts of the same server differ by up to 3% for as long as they live. Evidence, verdicts and
//! intervals are those of [`crate::race`].
//!
//! A guard is broken where the estimate has passed the bound and a loss is proven besides; an arm
//! whose estimate has passed it is not kept, proven or not. One failed request breaks `errors=0`.
//!
//! Of a server that runs already a pair is one block of windows with the remedy off and on in random order:
//! there are no two starts that could differ, and nothing is learned of another start. [`Watch`] guards
//! it window by window.
//!
//! Not seen: what happens between windows, and requests that the generator does not count.

pub mod load;
mod watch;

pub use watch::Watch;

use crate::mechanism::Mechanism;
use crate::race::{BlockTimes, Claim, Costs, Findings, PROVEN, RULED_OUT, Race, between_logs};
use pagewise_model::Nanos;
use pagewise_model::service::{Guard, Guarded, Holding, Pair, Service, Side, Window};
use pagewise_model::trial::{Quantity, Ratio, Verdict, Word};

/// Warming up makes requests cheaper: two runs of the load that are cheaper by no more than this than the two
/// before have settled. A runtime that compiles has plateaus of two equal runs on its way.
const SETTLED: f64 = 0.05;

/// The bounds of a session that names none.
pub const USUAL_GUARDS: [Guard; 2] = [
    Guard { quantity: Some(Quantity::P99), limit_share: 0.20 },
    Guard { quantity: None, limit_share: 0.0 },
];

/// A guard as a user types it: `p99<+20%`, `memory<+10%`, `errors=0`.
///
/// # Errors
/// A sentence that says what a guard may be.
pub fn parse_guard(text: &str) -> Result<Guard, String> {
    const FORMS: &str = "use NAME<+N% with cpu-per-request, throughput, p99 or memory, or errors=0";
    let refused = || format!("`{text}`: {FORMS}");
    if text == "errors=0" {
        return Ok(USUAL_GUARDS[1]);
    }
    let (name, share) = text.split_once("<+").ok_or_else(refused)?;
    let quantities =
        [Quantity::CpuPerRequest, Quantity::Throughput, Quantity::P99, Quantity::Memory];
    let quantity = quantities.into_iter().find(|q| q.name() == name).ok_or_else(refused)?;
    let percent: f64 = share.strip_suffix('%').and_then(|n| n.parse().ok()).ok_or_else(refused)?;
    if !(0.0..=1000.0).contains(&percent) {
        return Err(refused());
    }
    Ok(Guard { quantity: Some(quantity), limit_share: percent / 100.0 })
}

/// A guard as it is typed.
#[must_use]
pub fn spell_guard(guard: Guard) -> String {
    let name = guard.quantity.map(Quantity::name);
    name.map_or("errors=0".to_owned(), |name| format!("{name}<+{}%", guard.limit_share * 100.0))
}

/// The logarithm of one side's value; less is better. None where a window does not report it.
#[must_use]
pub fn value(quantity: Quantity, side: &Side) -> Option<f64> {
    if quantity == Quantity::Memory {
        return log(side.at_last.pss_bytes.0 as f64);
    }
    let values: Option<Vec<f64>> =
        side.windows.iter().map(|window| window_value(quantity, window)).collect();
    let values = values.filter(|values| !values.is_empty())?;
    Some(values.iter().sum::<f64>() / values.len() as f64)
}

fn log(value: f64) -> Option<f64> {
    (value > 0.0 && value.is_finite()).then(|| value.ln())
}

fn window_value(quantity: Quantity, window: &Window) -> Option<f64> {
    let load = &window.load;
    match quantity {
        Quantity::CpuPerRequest => log(window.cpu_ns.0 as f64 / load.requests),
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

/// An arm's race and what guards it.
#[derive(Debug, Clone)]
struct Bounded {
    guard: Guard,
    race: Race,
}

/// The standings of all arms.
#[derive(Debug, Clone)]
pub struct Standings {
    quantity: Quantity,
    names: Vec<String>,
    shows: Vec<Shows>,
    race: Race,
    guards: Vec<Bounded>,
    /// Evidence of a loss that breaks a guard.
    breaking: f64,
    pairs: Vec<Pair>,
}

impl Standings {
    /// Before any pair; an arm is its name and what shows that it acts.
    #[must_use]
    pub fn new(quantity: Quantity, guards: &[Guard], arms: &[(String, Shows)]) -> Self {
        let race = Race::new(arms.len());
        let bounded = |guard: &Guard| Bounded { guard: *guard, race: race.clone() };
        Self {
            quantity,
            names: arms.iter().map(|arm| arm.0.clone()).collect(),
            shows: arms.iter().map(|arm| arm.1).collect(),
            guards: guards.iter().map(bounded).collect(),
            breaking: PROVEN,
            race,
            pairs: Vec::new(),
        }
    }

    /// The same where each window is guarded too ([`Watch`]): two thirds of the errors allowed are for that.
    #[must_use]
    pub fn watched(self) -> Self {
        Self { breaking: 3.0 * PROVEN, ..self }
    }

    /// Takes a pair in.
    pub fn add(&mut self, pair: Pair) {
        let Some(arm) = self.names.iter().position(|name| *name == pair.arm) else { return };
        let block = |quantity| {
            let control = value(quantity, &pair.plain)?;
            let other = value(quantity, &pair.other)?;
            Some(BlockTimes { control: vec![control], arms: vec![(arm, vec![other])] })
        };
        let own = std::iter::once((Some(self.quantity), &mut self.race));
        let guards = self.guards.iter_mut().map(|one| (one.guard.quantity, &mut one.race));
        for (quantity, race) in own.chain(guards) {
            if let Some(times) = quantity.and_then(block) {
                race.add(&times);
            }
        }
        self.pairs.push(pair);
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
        let errors =
            self.of_arm(arm).map(|pair| failed(&pair.other)).fold(0.0, |sum, one| sum + one);
        let name = self.names.get(arm).cloned().unwrap_or_default();
        let of = |one: &Bounded| {
            let standing = one.race.standing(arm);
            let at = standing.zip(one.race.interval(arm));
            let passed = standing.is_some_and(|at| at.ratio > 1.0 + one.guard.limit_share);
            let is_loss = one.race.evidence(arm, Claim::GainAtLeast(0.0)) >= self.breaking;
            Guarded {
                arm: name.clone(),
                guard: one.guard,
                ratio: at.map(|(at, (low, high))| (at.ratio, low, high)),
                errors,
                is_broken: match one.guard.quantity {
                    Some(_) => passed && is_loss,
                    None => errors > 0.0,
                },
            }
        };
        self.guards.iter().map(of).collect()
    }

    /// Why an arm is not to be run again: a guard of it is broken.
    #[must_use]
    pub fn broken(&self, arm: usize) -> Option<String> {
        let broken = self.guarded(arm).into_iter().find(|one| one.is_broken)?;
        let ratio = broken.ratio.map_or(1.0, |(ratio, ..)| ratio);
        Some(broken_text(broken.guard, ratio, broken.errors))
    }

    /// Arms about which the question is open and that may still be the best.
    #[must_use]
    pub fn racing(&self) -> Vec<usize> {
        let is_open = |arm: &usize| {
            let is_out = self.race.no_gain_above(*arm).is_some_and(|share| share <= RULED_OUT[0]);
            !is_out && !self.race.is_slower(*arm) && self.broken(*arm).is_none()
        };
        let open: Vec<usize> = (0..self.names.len()).filter(is_open).collect();
        self.race.contenders(&open)
    }

    /// The best arm is to be kept, or nothing is left to race.
    #[must_use]
    pub fn is_decided(&self, pair_ns: Nanos) -> bool {
        let racing = self.racing();
        let best = self.race.leader(&racing);
        racing.is_empty() || best.is_some_and(|arm| self.verdict(arm, pair_ns).word == Word::Keep)
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
        let verdict = findings.judge(name, self.costs(arm));
        if let Some(why) = self.broken(arm) {
            return Verdict { word: Word::Reject, why, settled_by_ns: None, ..verdict };
        }
        let is_gain = matches!(verdict.word, Word::Keep | Word::Likely);
        match self.guarded(arm).into_iter().find(is_passed).filter(|_| is_gain) {
            Some(passed) => {
                let why = format!(
                    "{}, but guard {} may be broken: too few pairs to tell",
                    verdict.why,
                    spell_guard(passed.guard)
                );
                Verdict { word: Word::CannotTell, why, ..verdict }
            }
            None => verdict,
        }
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
        let mean = |of: &dyn Fn(&Pair) -> f64| {
            let values: Vec<f64> = self.of_arm(arm).map(of).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let pss = |side: &Side| side.at_last.pss_bytes.0 as f64;
        let change = mean(&|pair| pss(&pair.other) - pss(&pair.plain));
        Costs {
            cpu_ratio: None,
            peak_rss_change_bytes: change.map(|bytes| bytes.round() as i64),
            control_peak_rss_bytes: mean(&|pair| pss(&pair.plain))
                .map(|bytes| pagewise_model::Bytes(bytes as u64)),
            supervisor_ns: Nanos(0),
        }
    }
}

/// What broke a guard.
fn broken_text(guard: Guard, ratio: f64, errors: f64) -> String {
    match guard.quantity {
        Some(quantity) => format!(
            "{:.0}% more {}: guard {}",
            (ratio - 1.0) * 100.0,
            quantity.noun(),
            spell_guard(guard)
        ),
        None => format!("{errors:.0} requests failed: guard errors=0"),
    }
}

/// The estimate has passed the bound.
fn is_passed(one: &Guarded) -> bool {
    one.ratio.is_some_and(|(ratio, ..)| ratio > 1.0 + one.guard.limit_share)
}

#[cfg(test)]
mod tests;
