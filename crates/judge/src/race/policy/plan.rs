//! The next block: which arms run in it, how often, and in which way.

use super::{ALONE, BlockRoom, FEW, RaceGoal, RacePolicy};
use crate::race::{GainClaim, LEAST_GAIN};

/// Runs of each in a block with one arm: more runs in a block show more.
const MANY: u32 = 4;
/// An arm is admitted if the time suffices for this many runs of it and as many of the control.
const LEAST_RUNS: u64 = 4;
/// Runs at once that each arm gets before others run one at a time.
const FIRST_RUNS: u32 = 8;
/// Most arms that share a CPU with the control.
const MOST_BESIDE: usize = 3;
/// Evidence of a worthwhile gain from which time is reserved for comparing outputs.
const NEAR: f64 = 2.0;

/// A block to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedBlock {
    /// The arms by number, in run order. `None` is the control.
    pub runs: Vec<Option<usize>>,
    /// All of them start together and share CPUs.
    pub at_once: bool,
}

/// Which arms run together, each this often, and the control.
struct ArmSelection {
    arms: Vec<usize>,
    each: u32,
    control: u32,
}

impl ArmSelection {
    fn new(arms: Vec<usize>, each: u32) -> Self {
        // The control stands in every comparison: the square root of the number of arms is best.
        let control = (f64::from(each) * (arms.len() as f64).sqrt()).round() as u32;
        Self { arms, each, control }
    }
}

impl RacePolicy {
    /// The next block, as far as the time holds it.
    pub fn next_block(&mut self, room: &BlockRoom<'_>) -> Option<PlannedBlock> {
        let mut at_once = false;
        let next = if self.terms.unit.is_pair() {
            let next = self.next_pair(room)?;
            at_once = next.arms.iter().all(|arm| self.is_at_once(*arm));
            next
        } else if let Some(alone) = self.next_alone(room) {
            alone
        } else {
            at_once = self.are_next_at_once();
            match self.next_of(at_once, room) {
                Some(next) => next,
                // There may be time for the others.
                None => {
                    at_once = !at_once;
                    self.next_of(at_once, room)?
                }
            }
        };
        Some(self.order(next, at_once))
    }

    /// One more block at once, to run beside a block at once that was planned before.
    pub fn next_beside(&mut self, room: &BlockRoom<'_>) -> Option<PlannedBlock> {
        let next = if self.terms.unit.is_pair() {
            // Each arm once: two pairs of it with one plain server would count it twice.
            let fits =
                |arm: &usize| self.is_at_once(*arm) && (room.cost_ns)(Some(*arm)) <= room.block_ns;
            let at = self.turn.iter().position(fits)?;
            ArmSelection::new(vec![self.turn.remove(at)], 1)
        } else {
            let is_at_once = self.next_alone(room).is_none() && self.are_next_at_once();
            is_at_once.then(|| self.next_at_once(room)).flatten()?
        };
        Some(self.order(next, true))
    }

    fn order(&mut self, next: ArmSelection, at_once: bool) -> PlannedBlock {
        let control = (0..next.control).map(|_| None);
        let arms = next.arms.iter().flat_map(|arm| (0..next.each).map(|_| Some(*arm)));
        let mut runs: Vec<Option<usize>> = control.chain(arms).collect();
        self.rng.shuffle(&mut runs);
        PlannedBlock { runs, at_once }
    }

    fn next_of(&mut self, at_once: bool, room: &BlockRoom<'_>) -> Option<ArmSelection> {
        if at_once { self.next_at_once(room) } else { self.next_runs(room) }
    }

    /// The arms whose runs are made in this way.
    fn of_way(&self, at_once: bool, arms: Vec<usize>) -> Vec<usize> {
        arms.into_iter().filter(|arm| self.is_at_once(*arm) == at_once).collect()
    }

    /// Arms that the goal asks more runs of.
    fn wanted(&self) -> Vec<usize> {
        if self.terms.goal == RaceGoal::Gain { self.racing() } else { self.open() }
    }

    /// Whether the next runs are at once. Those show more in less time, so they come first. Then arms of both
    /// ways get equally many runs.
    fn are_next_at_once(&self) -> bool {
        let wanted = self.wanted();
        let fewest = |at_once| {
            let arms = self.of_way(at_once, wanted.clone());
            arms.into_iter().map(|arm| self.runs(arm)).min()
        };
        match (fewest(true), fewest(false)) {
            (Some(at_once), Some(in_turn)) => at_once <= in_turn + FIRST_RUNS,
            (at_once, _) => at_once.is_some(),
        }
    }

    /// Runs one at a time, of an arm that runs at once say to keep.
    fn next_alone(&self, room: &BlockRoom<'_>) -> Option<ArmSelection> {
        let mut arms = self.sound();
        if self.terms.goal == RaceGoal::Gain {
            arms = self.race().leader(&arms).into_iter().collect();
        }
        let left = |arm: usize| ALONE.saturating_sub(self.runs_alone(arm));
        let arm = arms.into_iter().find(|arm| left(*arm) > 0 && self.is_proven_at_once(*arm))?;
        let left = left(arm);
        let ways =
            (1..=left).rev().map(|each| ArmSelection { arms: vec![arm], each, control: each });
        self.fitting(ways.collect(), room)
    }

    /// Runs of some arms and of the control: two of the control where they fit, which also shows how far equal runs
    /// differ, and two of a single arm. Each arm that races has its turn before one has the next.
    fn next_at_once(&mut self, room: &BlockRoom<'_>) -> Option<ArmSelection> {
        let racing = self.held(room, room.side_by_side, self.of_way(true, self.wanted()));
        self.turn.retain(|arm| racing.contains(arm));
        if self.turn.is_empty() {
            self.turn.clone_from(&racing);
            // At first the most promising.
            if racing.iter().any(|arm| self.runs(*arm) > 0) {
                self.rng.shuffle(&mut self.turn);
            }
        }
        let Some(Ok(most)) = self.terms.most_at_once else { return None };
        let most = most as usize;
        let beside = (1..=MOST_BESIDE.min(most.saturating_sub(1)).min(self.turn.len())).rev();
        let mut ways: Vec<ArmSelection> = beside
            .map(|arms| {
                let [each, control] = match (arms, most - arms) {
                    (1, 3..) => [2, 2],
                    (_, 2..) => [1, 2],
                    _ => [1, 1],
                };
                ArmSelection { arms: self.turn[..arms].to_vec(), each, control }
            })
            .collect();
        let one = |control| {
            self.turn.first().map(|arm| ArmSelection { arms: vec![*arm], each: 1, control })
        };
        ways.extend(one(2).filter(|_| most > 2));
        // A single pair decides nothing, so it is the last choice.
        let next = self.fitting(ways, room).or_else(|| self.fitting(vec![one(1)?], room))?;
        self.turn.drain(..next.arms.len());
        Some(next)
    }

    /// Each racing arm gets a turn, in random order, before any gets a second one. The first round begins with
    /// the most promising.
    fn next_pair(&mut self, room: &BlockRoom<'_>) -> Option<ArmSelection> {
        let racing = self.decidable(room, self.racing());
        self.turn.retain(|arm| racing.contains(arm));
        let fits = |arm: &usize| (room.cost_ns)(Some(*arm)) <= room.block_ns;
        if !self.turn.iter().any(fits) {
            let is_first = racing.iter().all(|arm| self.runs(*arm) == 0);
            self.turn = racing;
            if !is_first {
                self.rng.shuffle(&mut self.turn);
            }
        }
        let at = self.turn.iter().position(fits)?;
        Some(ArmSelection::new(vec![self.turn.remove(at)], 1))
    }

    /// The arms of `racing` that the remaining pairs can decide: those that have begun, then the most promising. A
    /// pair of each would leave all of them open.
    fn decidable(&self, room: &BlockRoom<'_>, mut racing: Vec<usize>) -> Vec<usize> {
        racing.sort_by_key(|arm| self.runs(*arm) == 0);
        let mut left = room.left_ns;
        let fitting = racing.iter().take_while(|arm| {
            let begun = u64::from(self.runs(**arm));
            let pairs = LEAST_RUNS.saturating_sub(begun).max(1);
            let needed = pairs.saturating_mul((room.cost_ns)(Some(**arm)));
            let has_time = begun > 0 || needed <= left;
            left = left.saturating_sub(needed);
            has_time
        });
        let held = fitting.count().max(1);
        racing.truncate(held);
        racing
    }

    fn next_runs(&self, room: &BlockRoom<'_>) -> Option<ArmSelection> {
        let open = self.of_way(false, self.open());
        let RaceGoal::Gain = self.terms.goal else {
            let sizes = match self.terms.goal {
                RaceGoal::Pairs(pairs) => {
                    let done = open.iter().map(|arm| self.runs(*arm)).min().unwrap_or(0);
                    vec![(pairs - done).min(FEW)]
                }
                _ => vec![MANY, FEW, 1],
            };
            let ways = sizes.into_iter().map(|each| {
                let arms = open.clone();
                ArmSelection { arms, each, control: each }
            });
            return self.fitting(ways.collect(), room);
        };
        let is_first = self.of_way(false, self.racing()).into_iter().all(|arm| self.runs(arm) == 0);
        let racing = self.held(room, 1, self.of_way(false, self.racing()));
        let leader = self.race().leader(&open).or(racing.first().copied());
        let sizes: &[u32] = match racing.len() {
            1 => &[MANY, FEW],
            3.. if is_first => &[1],
            _ => &[FEW],
        };
        let all = sizes.iter().map(|each| ArmSelection::new(racing.clone(), *each));
        let one = |each: u32| leader.map(|arm| ArmSelection::new(vec![arm], each));
        let ways = all.chain([FEW, 1].into_iter().filter_map(one)).collect();
        self.fitting(ways, room)
    }

    /// Those of `racing` that fit the remaining time beside the control, if this many runs go side by side. The most
    /// promising come first.
    fn held(&self, room: &BlockRoom<'_>, side_by_side: u64, mut racing: Vec<usize>) -> Vec<usize> {
        let runs = room.left_ns.saturating_mul(side_by_side) / (room.cost_ns)(None).max(1);
        let held = usize::try_from(runs / LEAST_RUNS).unwrap_or(usize::MAX);
        let held = held.saturating_sub(1).max(1);
        if racing.iter().all(|arm| self.runs(*arm) == 0) {
            racing.truncate(held);
        } else {
            racing.retain(|arm| self.runs(*arm) > 0 || held > 1);
        }
        racing
    }

    /// The first of these that has arms and fits the time, less the time reserved for comparing outputs.
    /// Nothing is reserved if no run would fit then: only a gain needs the comparison.
    fn fitting(&self, ways: Vec<ArmSelection>, room: &BlockRoom<'_>) -> Option<ArmSelection> {
        let control = (room.cost_ns)(None);
        let cost = |next: &ArmSelection| {
            let arms: u64 = next.arms.iter().map(|arm| (room.cost_ns)(Some(*arm))).sum();
            u64::from(next.control) * control + u64::from(next.each) * arms
        };
        let is_free = matches!(self.terms.goal, RaceGoal::Pairs(_));
        let fits = |next: &ArmSelection, reserve: u32| {
            let left = room.block_ns.saturating_sub(u64::from(reserve) * control);
            !next.arms.is_empty() && (is_free || cost(next) <= left)
        };
        let reserve = if self.is_gain_near() { room.compare_runs } else { 0 };
        let least = if self.blocks.is_empty() { 0 } else { reserve };
        let first = |reserve| ways.iter().position(|next| fits(next, reserve));
        let at = first(reserve).or_else(|| first(least))?;
        ways.into_iter().nth(at)
    }

    /// The next block may show a gain, and no output was compared yet.
    fn is_gain_near(&self) -> bool {
        let worth = |arm| self.race().selected(arm, GainClaim::GainAtMost(LEAST_GAIN)) >= NEAR;
        !self.arms.iter().any(|arm| arm.is_compared)
            && (self.blocks.is_empty() || self.race().leader(&self.sound()).is_some_and(worth))
    }
}
