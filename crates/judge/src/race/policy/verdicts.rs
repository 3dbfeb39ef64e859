//! The verdict on each arm, and the experiment as a whole, when a race ends.

use super::{RaceBlock, RaceGoal, RaceHalt, RacePolicy, RaceTerms};
use crate::guards;
use crate::race::observation::{PairedObservations, mode_warnings};
use crate::race::{LEAST_GAIN, VerdictFindings};
use crate::tradeoff;
use pagewise_model::Nanos;
use pagewise_model::service::ServerPair;
use pagewise_model::trial::{
    ArmEffect, ArmVerdict, ComparedQuantity, Experiment, ExperimentDesign, TimeRatio, VerdictWord,
};

/// Why an arm was not run.
const NO_ROOM: &str = "the budget was too short for it";
/// Why a gain found in runs at once is not kept.
const RUNS_DENY: &str = "runs at once on one CPU and runs one at a time contradict each other";
const SERVERS_DENY: &str = "servers that share CPUs show a gain, servers apart do not";
/// Pairs of an arm that a longer budget should allow.
const USEFUL_PAIRS: u64 = 3;
/// Runs of an arm that a longer budget should allow.
const USEFUL_RUNS: u64 = 8;

impl RacePolicy {
    /// The verdict by values, counters and guards only. A run, or half a pair, takes `run_ns`.
    pub(super) fn found(&self, arm: usize, run_ns: f64) -> ArmVerdict {
        let verdict = self.found_by_race(arm, run_ns);
        if let Some(beside) = self.alone(arm) {
            let is_difference = self.terms.goal == RaceGoal::Difference;
            return beside_alone(verdict, beside.ratio(), RUNS_DENY, is_difference);
        }
        let is_cpu = self.terms.quantity == ComparedQuantity::CpuPerRequest && self.is_at_once(arm);
        // With one CPU no window is apart.
        match self.beside(arm).ratio_apart().filter(|_| is_cpu) {
            Some(apart) => beside_alone(verdict, Some(apart), SERVERS_DENY, false),
            None => verdict,
        }
    }

    /// Runs at once prove this arm's gain, whatever runs one at a time show. If the goal is any difference, a
    /// proven loss counts too.
    pub(super) fn is_proven_at_once(&self, arm: usize) -> bool {
        let (race, is_difference) = (self.race(), self.terms.goal == RaceGoal::Difference);
        let word = || self.found_by_race(arm, 0.0).word;
        let is_gain = || race.is_proven(arm) && word() == VerdictWord::Keep;
        let is_loss = || is_difference && race.is_slower(arm) && word() == VerdictWord::Slower;
        self.alone(arm).is_some() && (is_gain() || is_loss())
    }

    /// Why runs at once are not trusted. `None` unless runs one at a time contradict them.
    #[must_use]
    pub fn denied_at_once(&self) -> Option<&'static str> {
        let is_denied = |arm: &usize| {
            let alone = self.alone(*arm).and_then(|beside| beside.ratio());
            let found = self.found_by_race(*arm, 0.0);
            let both = alone.zip(found.effect);
            both.is_some_and(|(alone, effect)| contradicts(found.word, &alone, &effect))
        };
        let is_pair = self.terms.unit.is_pair();
        (!is_pair && self.sound().iter().any(is_denied)).then_some(RUNS_DENY)
    }

    fn found_by_race(&self, arm: usize, run_ns: f64) -> ArmVerdict {
        let beside = self.beside(arm);
        let (host_share_arm, host_share_control) = beside.host_shares();
        let name = self.name(Some(arm));
        let findings = VerdictFindings {
            race: self.race(),
            plain: self.readings.plain(arm),
            without_host: &self.readings.without_host,
            arm,
            mechanism: beside.mechanism(self.arms[arm].entrant.counter, name),
            host_share_arm,
            host_share_control,
            run_ns,
        };
        let judged = findings.judge(name, beside.costs(self.middle()));
        let verdict = guards::apply(judged, &self.guarded(arm));
        if self.terms.unit.is_pair() { self.of_pairs(arm, &beside, verdict) } else { verdict }
    }

    /// A gain of a service is kept only if all windows together do not contradict it and no guard is open.
    fn of_pairs(
        &self,
        arm: usize,
        beside: &PairedObservations<'_>,
        verdict: ArmVerdict,
    ) -> ArmVerdict {
        let is_gain = matches!(verdict.word, VerdictWord::Keep | VerdictWord::Likely);
        if is_gain && beside.change(self.terms.quantity) >= 0.0 {
            let why = "typical runs of the load need less, all of them together do not";
            return ArmVerdict { word: VerdictWord::CannotTell, why: why.to_owned(), ..verdict };
        }
        match self.open_guard(arm).filter(|_| verdict.word == VerdictWord::Keep) {
            Some(guard) => {
                let why = guards::doubt(&verdict.why, guard);
                ArmVerdict { word: VerdictWord::Likely, why, ..verdict }
            }
            None => verdict,
        }
    }

    /// The verdict on an arm as the experiment ends; a run of it, or half a pair, takes `run_ns`.
    #[must_use]
    pub fn verdict(&self, arm: usize, halt: Option<&RaceHalt>, run_ns: f64) -> ArmVerdict {
        let verdict = self.found(arm, run_ns);
        let refused = |word, why: &str| ArmVerdict {
            word,
            why: why.to_owned(),
            settled_by_ns: None,
            ..verdict.clone()
        };
        let own = &self.arms[arm];
        if let Some(why) = &own.entrant.barred {
            return refused(VerdictWord::Reject, why);
        }
        // If the control or the harness failed, an arm's failure may have the same cause.
        if let Some(RaceHalt::Control(why)) = halt {
            return refused(VerdictWord::CannotTell, why);
        }
        if let Some(why) = &own.failed {
            return refused(VerdictWord::Reject, why);
        }
        match verdict.word {
            VerdictWord::NotTried => {
                let (count, unit) = if self.terms.unit.is_pair() {
                    (USEFUL_PAIRS, "pairs")
                } else {
                    (USEFUL_RUNS, "runs")
                };
                let more = Nanos::from_f64(2.0 * count as f64 * run_ns);
                let why = format!("{NO_ROOM}; {more} more would allow {count} {unit}");
                ArmVerdict { settled_by_ns: Some(more), ..refused(VerdictWord::NotTried, &why) }
            }
            VerdictWord::Keep | VerdictWord::Likely if !own.is_compared => {
                let why = format!("{}; its output is not compared yet", verdict.why);
                refused(VerdictWord::CannotTell, &why)
            }
            _ => verdict,
        }
    }

    /// The experiment with a verdict on each arm, and its blocks that are pairs. What a run takes is as for
    /// [`super::BlockRoom`].
    #[must_use]
    pub fn conclude(
        self,
        halt: Option<&RaceHalt>,
        cost_ns: &dyn Fn(Option<usize>) -> u64,
    ) -> (Experiment, Vec<ServerPair>) {
        let numbers = 0..self.arms.len();
        let run_ns = |arm| f64::midpoint(cost_ns(Some(arm)) as f64, cost_ns(None) as f64);
        let verdicts = numbers.clone().map(|arm| self.verdict(arm, halt, run_ns(arm))).collect();
        let guarded = numbers.flat_map(|arm| self.guarded(arm)).collect();
        let names: Vec<String> = self.arms.iter().map(|arm| arm.entrant.name.clone()).collect();
        let all = std::iter::once(&self.terms.control).chain(&names).map(String::as_str);
        let mut warnings = mode_warnings(&self.blocks, all);
        let halted = match halt {
            Some(RaceHalt::Interrupted) if !self.terms.unit.is_pair() => {
                warnings.push("stopped by the user".to_owned());
                None
            }
            Some(RaceHalt::Control(why)) => {
                warnings.push(why.clone());
                Some(why.clone())
            }
            _ => None,
        };
        let (mut blocks, mut pairs) = (Vec::new(), Vec::new());
        for block in self.blocks {
            match block {
                RaceBlock::Runs(block) => blocks.push(block),
                RaceBlock::Pair(pair) => pairs.push(pair),
            }
        }
        let RaceTerms { quantity, guards, seed, budget, control, most_at_once, .. } = self.terms;
        let mut experiment = Experiment {
            design: ExperimentDesign {
                quantity,
                guards,
                seed,
                budget_ns: budget,
                control,
                arms: names,
            },
            blocks,
            verdicts,
            guarded,
            time_and_memory: Vec::new(),
            warnings,
            interrupted: halt == Some(&RaceHalt::Interrupted),
            in_turn_because: most_at_once.and_then(Result::err),
            halted,
        };
        experiment.time_and_memory = tradeoff::side_by_side(&experiment);
        (experiment, pairs)
    }
}

/// Whether runs apart contradict what was found at once.
fn contradicts(word: VerdictWord, alone: &TimeRatio, at_once: &ArmEffect) -> bool {
    match word {
        VerdictWord::Keep => {
            alone.ratio_low > at_once.ratio_high && alone.ratio_high > 1.0 - LEAST_GAIN
        }
        VerdictWord::Slower => {
            alone.ratio_high < at_once.ratio_low && alone.ratio_low < 1.0 + LEAST_GAIN
        }
        _ => false,
    }
}

/// Keeps a gain found at once only if runs apart do not contradict it. The same holds for a loss if
/// `is_difference` was the question. `denied` is the text for a contradiction.
fn beside_alone(
    verdict: ArmVerdict,
    alone: Option<TimeRatio>,
    denied: &str,
    is_difference: bool,
) -> ArmVerdict {
    let Some(effect) = verdict.effect.clone() else { return verdict };
    let missing = || format!("{}; runs one at a time are still missing", verdict.why);
    let (word, why) = match (&alone, verdict.word) {
        (None, VerdictWord::Keep) => (VerdictWord::Likely, missing()),
        (None, VerdictWord::Slower) if is_difference => (VerdictWord::CannotTell, missing()),
        (Some(alone), word) if contradicts(word, alone, &effect) => {
            (VerdictWord::CannotTell, denied.to_owned())
        }
        (_, word) => (word, verdict.why),
    };
    let effect = Some(ArmEffect { at_once: true, alone, ..effect });
    ArmVerdict { word, why, effect, ..verdict }
}
