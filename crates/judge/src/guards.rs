//! Bounds that an arm must not exceed, whatever it gains. Each bound has its own race.
//!
//! A guard is broken if the estimate exceeds the bound and a loss is proven as well. An arm whose estimate
//! exceeds a bound without that proof is not kept either. Memory counts from [`LEAST_MEMORY`] on: a small
//! program that takes one more huge page has not become a large one.

use crate::race::{ArmRace, BlockTimes, GainClaim, NoisePrior, PROVEN};
use pagewise_model::Bytes;
use pagewise_model::guard::{ArmGuard, GuardFinding};
use pagewise_model::trial::{ArmVerdict, ComparedQuantity, VerdictWord};

/// Less memory than this on top is within every bound.
pub const LEAST_MEMORY: Bytes = Bytes::mib(16);

/// A guard as a user types it, of one of these quantities: `memory<+10%`; `errors=0` where requests are counted.
///
/// # Errors
/// A sentence that says what a guard may be.
pub fn parse(
    text: &str,
    quantities: &[ComparedQuantity],
    has_errors: bool,
) -> Result<ArmGuard, String> {
    let refused = || {
        let names: Vec<&str> = quantities.iter().map(|one| one.into_str()).collect();
        let errors = if has_errors { ", or errors=0" } else { "" };
        format!("`{text}`: use NAME<+N% with {}{errors}", names.join(", "))
    };
    if has_errors && text == "errors=0" {
        return Ok(ArmGuard { quantity: None, limit_share: 0.0 });
    }
    let (name, share) = text.split_once("<+").ok_or_else(refused)?;
    let quantity = quantities.iter().find(|one| one.into_str() == name).ok_or_else(refused)?;
    let percent: f64 = share.strip_suffix('%').and_then(|n| n.parse().ok()).ok_or_else(refused)?;
    if !(0.0..=1000.0).contains(&percent) {
        return Err(refused());
    }
    Ok(ArmGuard { quantity: Some(*quantity), limit_share: percent / 100.0 })
}

/// A guard as it is typed.
#[must_use]
pub fn spell(guard: ArmGuard) -> String {
    let name = guard.quantity.map(<&str>::from);
    // 0.07 times 100 is not 7.
    let percent = (guard.limit_share * 1e8).round() / 1e6;
    name.map_or("errors=0".to_owned(), |name| format!("{name}<+{percent}%"))
}

/// The default guards of a program, if this quantity decides.
#[must_use]
pub fn usual(quantity: ComparedQuantity) -> Vec<ArmGuard> {
    let guard = |quantity, limit_share| ArmGuard { quantity: Some(quantity), limit_share };
    match quantity {
        ComparedQuantity::Memory => vec![guard(ComparedQuantity::Time, 0.03)],
        _ => vec![guard(ComparedQuantity::Memory, 0.10)],
    }
}

/// What an arm shows in addition to its races.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GuardFigures {
    /// Requests that failed.
    pub errors: f64,
    /// Memory on top of the control's.
    pub memory_change_bytes: Option<i64>,
}

impl GuardFigures {
    /// Little memory is within every bound.
    pub(crate) fn counts(&self, guard: &ArmGuard) -> bool {
        guard.quantity != Some(ComparedQuantity::Memory)
            || self.memory_change_bytes.is_none_or(|more| more > LEAST_MEMORY.0.cast_signed())
    }
}

/// The guards of an experiment, each with its race.
#[derive(Debug, Clone, Default)]
pub struct GuardRaces {
    all: Vec<(ArmGuard, ArmRace)>,
    /// Evidence of a loss that breaks one.
    breaking: f64,
}

impl GuardRaces {
    /// The state before any run, for this number of arms.
    #[must_use]
    pub fn new(guards: &[ArmGuard], arms: usize) -> Self {
        let all = guards.iter().map(|guard| (*guard, ArmRace::new(arms))).collect();
        Self { all, breaking: PROVEN }
    }

    /// The same guards, which break at `evidence` instead of [`PROVEN`].
    #[must_use]
    pub fn broken_at(self, evidence: f64) -> Self {
        Self { breaking: evidence, ..self }
    }

    /// The same bounds, before any arm.
    pub(crate) fn emptied(&self) -> Self {
        let all = self.all.iter().map(|(guard, _)| (*guard, ArmRace::default())).collect();
        Self { all, ..*self }
    }

    /// One more arm.
    pub fn join(&mut self) {
        for (_, race) in &mut self.all {
            race.join(NoisePrior::IN_TURN);
        }
    }

    /// Adds a block. `times` returns what the block shows of a quantity.
    pub fn add(&mut self, times: impl Fn(ComparedQuantity) -> Option<BlockTimes>) {
        for (guard, race) in &mut self.all {
            if let Some(times) = guard.quantity.and_then(&times) {
                race.add(&times);
            }
        }
    }

    /// Whether the races alone show a broken guard of an arm. Skips the intervals, which are slow to compute.
    #[must_use]
    pub fn may_be_broken(&self, arm: usize) -> bool {
        self.all.iter().any(|(guard, race)| is_passed(*guard, race, arm) && self.is_loss(race, arm))
    }

    fn is_loss(&self, race: &ArmRace, arm: usize) -> bool {
        race.evidence(arm, GainClaim::GainAtLeast(0.0)) >= self.breaking
    }

    /// The guard of an arm whose bound lies within the standard error of the estimate. More runs may still
    /// break it.
    #[must_use]
    pub fn open(&self, arm: usize, beside: GuardFigures) -> Option<ArmGuard> {
        let is_open = |(guard, race): &&(ArmGuard, ArmRace)| {
            let most = race.standing(arm).map(|at| at.ratio * at.error.exp());
            beside.counts(guard) && most.is_some_and(|most| most > 1.0 + guard.limit_share)
        };
        self.all.iter().find(is_open).map(|(guard, _)| *guard)
    }

    /// What each guard shows of an arm.
    #[must_use]
    pub fn guarded(&self, arm: usize, name: &str, beside: GuardFigures) -> Vec<GuardFinding> {
        let of = |(guard, race): &(ArmGuard, ArmRace)| {
            let is_passed = is_passed(*guard, race, arm) && beside.counts(guard);
            GuardFinding {
                arm: name.to_owned(),
                guard: *guard,
                ratio: race
                    .standing(arm)
                    .zip(race.interval(arm))
                    .map(|(at, (low, high))| (at.ratio, low, high)),
                errors: beside.errors,
                is_passed,
                is_broken: match guard.quantity {
                    Some(_) => is_passed && self.is_loss(race, arm),
                    None => beside.errors > 0.0,
                },
            }
        };
        self.all.iter().map(of).collect()
    }
}

/// The estimate has passed the bound.
fn is_passed(guard: ArmGuard, race: &ArmRace, arm: usize) -> bool {
    race.standing(arm).is_some_and(|at| at.ratio > 1.0 + guard.limit_share)
}

/// Why an arm must not run again: one of its guards is broken. `None` otherwise.
#[must_use]
pub fn broken(guarded: &[GuardFinding]) -> Option<String> {
    let broken = guarded.iter().find(|one| one.is_broken)?;
    let ratio = broken.ratio.map_or(1.0, |(ratio, ..)| ratio);
    Some(broken_text(broken.guard, ratio, broken.errors))
}

/// What broke a guard.
pub(crate) fn broken_text(guard: ArmGuard, ratio: f64, errors: f64) -> String {
    match guard.quantity {
        Some(quantity) => {
            let more = (ratio - 1.0) * 100.0;
            format!("{more:.0}% more {}: guard {}", quantity.noun(), spell(guard))
        }
        None => format!("{errors:.0} requests failed: guard errors=0"),
    }
}

/// The verdict under these guards.
#[must_use]
pub fn apply(verdict: ArmVerdict, guarded: &[GuardFinding]) -> ArmVerdict {
    if let Some(why) = broken(guarded) {
        return ArmVerdict { word: VerdictWord::Reject, why, settled_by_ns: None, ..verdict };
    }
    let is_gain = matches!(verdict.word, VerdictWord::Keep | VerdictWord::Likely);
    match guarded.iter().find(|one| one.is_passed).filter(|_| is_gain) {
        Some(passed) => {
            let why = doubt(&verdict.why, passed.guard);
            ArmVerdict { word: VerdictWord::CannotTell, why, ..verdict }
        }
        None => verdict,
    }
}

/// The finding, with the guard that contradicts it.
#[must_use]
pub fn doubt(found: &str, guard: ArmGuard) -> String {
    format!("{found}, but guard {} may be broken: there are too few runs to tell", spell(guard))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVICE: [ComparedQuantity; 2] = [ComparedQuantity::P99, ComparedQuantity::Memory];

    #[test]
    fn guards_are_read_as_they_are_spelled() {
        for text in ["p99<+20%", "memory<+7%", "memory<+0.1%", "errors=0"] {
            assert_eq!(spell(parse(text, &SERVICE, true).unwrap()), text);
        }
        for text in [
            "p99",
            "p98<+3%",
            "p99<+-1%",
            "memory<+x%",
            "memory<+1001%",
            "time<+3%",
            "",
            "p99<20%",
            "p99<+20",
            "errors=1",
        ] {
            let why = parse(text, &SERVICE, true).unwrap_err();
            assert!(why.contains("p99, memory, or errors=0"), "{why}");
        }
        assert!(parse("errors=0", &[ComparedQuantity::Time], false).is_err());
    }

    #[test]
    fn a_bound_is_broken_by_proof_and_memory_only_by_much_of_it() {
        let guard = ArmGuard { quantity: Some(ComparedQuantity::Memory), limit_share: 0.10 };
        let mut guards = GuardRaces::new(&[guard], 1);
        let times = |arm: f64| BlockTimes { control: vec![0.0; 4], arms: vec![(0, vec![arm; 4])] };
        let shown = |guards: &GuardRaces, more: Bytes| {
            let memory_change_bytes = Some(more.0.cast_signed());
            guards.guarded(0, "a", GuardFigures { errors: 0.0, memory_change_bytes })
        };
        assert!(broken(&shown(&guards, Bytes::gib(1))).is_none(), "nothing has run");
        (0..5).for_each(|_| guards.add(|_| Some(times(0.3))));
        let why = broken(&shown(&guards, Bytes::gib(1))).unwrap();
        assert_eq!(why, "35% more memory: guard memory<+10%");
        assert!(broken(&shown(&guards, Bytes::mib(8))).is_none());
        guards.join();
        assert!(
            guards.guarded(1, "b", GuardFigures { errors: 0.0, memory_change_bytes: None })[0]
                .ratio
                .is_none()
        );
    }
}
