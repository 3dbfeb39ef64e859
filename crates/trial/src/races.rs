//! The races that the blocks of an experiment make, and the correction of times.
//!
//! Arms race by wall time, corrected by what a load from memory cost during each run as far as earlier
//! blocks show that to matter ([`Slope`]). The race by plain time is kept beside it. An arm in whose runs
//! loads take more or less time than in the control's moves memory itself: its times are not corrected,
//! those of earlier blocks included.

use crate::bench::ArmId;
use crate::evidence::{self, Reading};
use crate::plan::Arm;
use pagewise_judge::race::{Claim, Race, Slope};
use pagewise_model::trial::{Block, Point};
use std::collections::BTreeSet;

/// Evidence from which an arm counts as moving memory: little, since only its correction is lost by it.
const MOVES: f64 = 4.0;

/// All that counting blocks leaves.
#[derive(Debug, Default)]
pub(crate) struct Races {
    /// By corrected time; it decides.
    pub(crate) time: Race,
    /// By plain time.
    plain: Race,
    /// By corrected time with the host's share taken off.
    pub(crate) without_host: Race,
    /// By the time of a load.
    load: Race,
    slope: Slope,
    is_corrected: bool,
    /// Arms that are not corrected.
    movers: BTreeSet<usize>,
}

impl Races {
    pub(crate) fn new(arms: usize) -> Self {
        let mut races = Self::default();
        (0..arms).for_each(|_| races.join());
        races
    }

    pub(crate) fn join(&mut self) {
        for race in [&mut self.time, &mut self.plain, &mut self.without_host, &mut self.load] {
            race.join();
        }
    }

    /// The race by plain time, where that of an arm differs from what decides.
    pub(crate) fn plain(&self, arm: usize) -> Option<&Race> {
        (self.is_corrected && !self.movers.contains(&arm)).then_some(&self.plain)
    }

    /// Takes in the last of `blocks`. All of them are counted again when an arm turns out to move memory.
    pub(crate) fn add(&mut self, blocks: &[Block], control: &ArmId, arms: &[Arm]) {
        let Some(last) = blocks.last() else { return };
        self.count(last, control, arms);
        let sides = [Claim::GainAtMost(0.0), Claim::GainAtLeast(0.0)];
        let moves =
            |arm: &usize| sides.iter().any(|claim| self.load.evidence(*arm, *claim) >= MOVES);
        let found: BTreeSet<usize> = (0..arms.len()).filter(moves).collect();
        if !found.is_subset(&self.movers) {
            let movers = &self.movers | &found;
            *self = Self { movers, ..Self::new(arms.len()) };
            blocks.iter().for_each(|block| self.count(block, control, arms));
        }
    }

    fn count(&mut self, block: &Block, control: &ArmId, arms: &[Arm]) {
        if block.dropped.is_some() {
            return;
        }
        let has_loads = evidence::has_loads(block);
        let slope = if has_loads { self.slope.value() } else { 0.0 };
        self.is_corrected |= slope > 0.0;
        let (movers, others): (Vec<_>, Vec<_>) =
            arms.iter().enumerate().partition(|(at, _)| self.movers.contains(at));
        for (arms, slope) in [(&others, slope), (&movers, 0.0)] {
            let heat = |read: Reading<'_>| evidence::heat(block, control, arms, read);
            let less = |point: &Point| slope * evidence::log_load(point);
            self.time.add(&heat(&|run| evidence::log_wall(run.0) - less(run.0)));
            self.without_host.add(&heat(&|run| evidence::log_without_host(run) - less(run.0)));
            self.plain.add(&heat(&|run| evidence::log_wall(run.0)));
            if has_loads {
                self.load.add(&heat(&|run| evidence::log_load(run.0)));
            }
        }
        if has_loads {
            evidence::learn(&mut self.slope, block);
        }
    }
}
