//! The races from the blocks of an experiment, and the correction of times.
//!
//! Arms race by the deciding quantity. Times of runs are corrected by the speed of core and memory during
//! each run, if earlier blocks show that it matters ([`SpeedSlopes`]). The race by plain time is kept as well. If
//! core or memory are faster or slower in an arm's runs than in the control's, the arm itself changes them.
//! Its times are then not corrected, including those of earlier blocks.

use super::observation::{ArmObservation, RaceBlock};
use super::{ArmRace, GainClaim, NoisePrior, SpeedSlopes};
use crate::guards::GuardRaces;
use pagewise_model::guard::ArmGuard;
use pagewise_model::trial::ComparedQuantity;
use std::collections::BTreeSet;

/// An arm counts as moving a speed at this evidence. Two speeds and two sides are watched.
const MOVES: f64 = 40.0;

/// All that counting blocks leaves.
#[derive(Debug, Clone, Default)]
pub(crate) struct RaceReadings {
    /// The race by the deciding quantity, with corrected times.
    pub(crate) decisive: ArmRace,
    /// The deciding race with uncorrected times.
    plain: ArmRace,
    /// The same with the host's share taken off.
    pub(crate) without_host: ArmRace,
    /// By the time of a round of arithmetic and by that of a load.
    speeds: [ArmRace; 2],
    /// The bounds that an arm must not exceed.
    pub(crate) guards: GuardRaces,
    quantity: ComparedQuantity,
    slopes: SpeedSlopes,
    is_corrected: bool,
    /// Arms that are not corrected.
    movers: BTreeSet<usize>,
    /// For each arm, whether its runs share a CPU with the control's. Its other runs do not count here.
    at_once: Vec<bool>,
}

impl RaceReadings {
    pub(crate) fn new(quantity: ComparedQuantity, guards: &[ArmGuard], breaking: f64) -> Self {
        let guards = GuardRaces::new(guards, 0).broken_at(breaking);
        Self { quantity, guards, ..Self::default() }
    }

    /// Adds an arm. `at_once` says whether its runs share a CPU with the control's.
    pub(crate) fn join(&mut self, at_once: bool) {
        let noise = if at_once { NoisePrior::AT_ONCE } else { NoisePrior::IN_TURN };
        let times = [&mut self.decisive, &mut self.plain, &mut self.without_host];
        for race in times.into_iter().chain(&mut self.speeds) {
            race.join(noise);
        }
        self.guards.join();
        self.at_once.push(at_once);
    }

    /// The race by plain time, if the arm's times are corrected in the deciding race.
    pub(crate) fn plain(&self, arm: usize) -> Option<&ArmRace> {
        let is_corrected = self.is_corrected && !self.at_once[arm] && !self.movers.contains(&arm);
        is_corrected.then_some(&self.plain)
    }

    /// Adds the last of `blocks`. Recounts all blocks if an arm turns out to move a speed.
    pub(crate) fn add(&mut self, blocks: &[RaceBlock], control: &str, arms: &[&str]) {
        let Some(last) = blocks.last() else { return };
        self.count(last, control, arms);
        let sides = [GainClaim::GainAtMost(0.0), GainClaim::GainAtLeast(0.0)];
        let moves = |arm: &usize| {
            let moved =
                |race: &ArmRace| sides.iter().any(|side| race.evidence(*arm, *side) >= MOVES);
            self.speeds.iter().any(moved)
        };
        let found: BTreeSet<usize> = (0..arms.len()).filter(moves).collect();
        if !found.is_subset(&self.movers) {
            let movers = &self.movers | &found;
            let (guards, at_once) = (self.guards.emptied(), std::mem::take(&mut self.at_once));
            *self = Self { movers, guards, quantity: self.quantity, ..Self::default() };
            at_once.into_iter().for_each(|at_once| self.join(at_once));
            blocks.iter().for_each(|block| self.count(block, control, arms));
        }
    }

    fn count(&mut self, block: &RaceBlock, control: &str, arms: &[&str]) {
        if !block.counts() {
            return;
        }
        let has_speeds = block.has_speeds();
        let quantity = self.quantity;
        // Memory does not go by the clock.
        let is_time = quantity != ComparedQuantity::Memory;
        let slopes = if has_speeds && is_time { self.slopes.value() } else { [0.0; 2] };
        self.is_corrected |= slopes != [0.0; 2];
        let is_of_block = |at: usize| self.at_once[at] == block.is_at_once();
        let numbered = arms.iter().copied().enumerate().filter(|(at, _)| is_of_block(*at));
        let (movers, others): (Vec<_>, Vec<_>) =
            numbered.partition(|(at, _)| self.movers.contains(at));
        for (arms, slopes) in [(&others, slopes), (&movers, [0.0; 2])] {
            let add = |race: &mut ArmRace, read: &dyn Fn(&ArmObservation<'_>) -> Option<f64>| {
                if let Some(times) = block.times(control, arms, read) {
                    race.add(&times);
                }
            };
            let less = |one: &ArmObservation<'_>| {
                let speeds = one.log_speeds();
                slopes[0] * speeds[0] + slopes[1] * speeds[1]
            };
            add(&mut self.decisive, &|one| Some(one.decisive_log(quantity)? - less(one)));
            add(&mut self.without_host, &|one| Some(one.log_without_host(quantity)? - less(one)));
            add(&mut self.plain, &|one| one.decisive_log(quantity));
            self.guards.add(|bounded| block.times(control, arms, &|one| one.log(bounded)));
            if has_speeds {
                for (at, race) in self.speeds.iter_mut().enumerate() {
                    add(race, &|one| Some(one.log_speeds()[at]));
                }
            }
        }
        if has_speeds {
            block.teach(&mut self.slopes, quantity);
        }
    }
}
