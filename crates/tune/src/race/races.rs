//! The races that the blocks of an experiment make, and the correction of times.
//!
//! Arms race by what decides (wall time, CPU time or memory). Times are corrected by how fast core and memory were during each run as far as earlier
//! blocks show that to matter ([`Slopes`]). The race by plain time is kept beside it. An arm in whose runs
//! core or memory are faster or slower than in the control's moves them itself: its times are not
//! corrected, those of earlier blocks included.

use super::evidence::{self, Reading};
use crate::world::Arm;
use pagewise_judge::guards::Guards;
use pagewise_judge::race::{Claim, Race, Slopes};
use pagewise_model::guard::Guard;
use pagewise_model::trial::{Block, Point, Quantity};
use std::collections::BTreeSet;

/// Evidence from which an arm counts as moving a speed: two speeds and two sides are watched.
const MOVES: f64 = 40.0;

/// All that counting blocks leaves.
#[derive(Debug, Default)]
pub(crate) struct Races {
    /// By what decides, times corrected.
    pub(crate) time: Race,
    /// The same without correction.
    plain: Race,
    /// The same with the host's share taken off.
    pub(crate) without_host: Race,
    /// By the time of a round of arithmetic and by that of a load.
    speeds: [Race; 2],
    /// What an arm may not pass.
    pub(crate) guards: Guards,
    quantity: Quantity,
    slopes: Slopes,
    is_corrected: bool,
    /// Arms that are not corrected.
    movers: BTreeSet<usize>,
}

impl Races {
    pub(crate) fn new(quantity: Quantity, guards: &[Guard], arms: usize) -> Self {
        let guards = Guards::new(guards, 0);
        let mut races = Self { quantity, guards, ..Self::default() };
        (0..arms).for_each(|_| races.join());
        races
    }

    pub(crate) fn join(&mut self) {
        let times = [&mut self.time, &mut self.plain, &mut self.without_host];
        for race in times.into_iter().chain(&mut self.speeds) {
            race.join();
        }
        self.guards.join();
    }

    /// The race by plain time, where that of an arm differs from what decides.
    pub(crate) fn plain(&self, arm: usize) -> Option<&Race> {
        (self.is_corrected && !self.movers.contains(&arm)).then_some(&self.plain)
    }

    /// Takes in the last of `blocks`. All of them are counted again when an arm turns out to move a speed.
    pub(crate) fn add(&mut self, blocks: &[Block], control: &str, arms: &[Arm]) {
        let Some(last) = blocks.last() else { return };
        self.count(last, control, arms);
        let sides = [Claim::GainAtMost(0.0), Claim::GainAtLeast(0.0)];
        let moves = |arm: &usize| {
            let moved = |race: &Race| sides.iter().any(|side| race.evidence(*arm, *side) >= MOVES);
            self.speeds.iter().any(moved)
        };
        let found: BTreeSet<usize> = (0..arms.len()).filter(moves).collect();
        if !found.is_subset(&self.movers) {
            let movers = &self.movers | &found;
            *self = Self { movers, ..Self::new(self.quantity, &self.guards.all(), arms.len()) };
            blocks.iter().for_each(|block| self.count(block, control, arms));
        }
    }

    fn count(&mut self, block: &Block, control: &str, arms: &[Arm]) {
        if block.dropped.is_some() {
            return;
        }
        let has_speeds = evidence::has_speeds(block);
        let quantity = self.quantity;
        // Memory does not go by the clock.
        let is_time = quantity != Quantity::Memory;
        let slopes = if has_speeds && is_time { self.slopes.value() } else { [0.0; 2] };
        self.is_corrected |= slopes != [0.0; 2];
        let (movers, others): (Vec<_>, Vec<_>) =
            arms.iter().enumerate().partition(|(at, _)| self.movers.contains(at));
        for (arms, slopes) in [(&others, slopes), (&movers, [0.0; 2])] {
            let times = |read: Reading<'_>| evidence::block_times(block, control, arms, read);
            let less = |point: &Point| {
                let speeds = evidence::log_speeds(point);
                slopes[0] * speeds[0] + slopes[1] * speeds[1]
            };
            let log = |point: &Point| evidence::log_of(quantity, point);
            self.time.add(&times(&|run| log(run.0) - less(run.0)));
            self.without_host
                .add(&times(&|run| evidence::log_without_host(quantity, run) - less(run.0)));
            self.plain.add(&times(&|run| log(run.0)));
            self.guards.add(|bounded| Some(times(&|run| evidence::log_of(bounded, run.0))));
            if has_speeds {
                for (at, race) in self.speeds.iter_mut().enumerate() {
                    race.add(&times(&|run| evidence::log_speeds(run.0)[at]));
                }
            }
        }
        if has_speeds {
            evidence::learn(&mut self.slopes, quantity, block);
        }
    }
}
