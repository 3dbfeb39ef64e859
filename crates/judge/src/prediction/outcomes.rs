//! Predictions beside what races then found, and the offset of a machine that follows from them.

use super::{LookFacts, PredictionEvidence, model_name};
use crate::recheck::verdict;
use crate::stats::{NORMAL_80, NORMAL_95};
use pagewise_model::prediction::{
    GainPrediction, PredictionOffset, PredictionOffsets, PredictionOutcome,
};
use pagewise_model::run::SavedRun;
use pagewise_model::trial::{ArmEffect, ArmVerdict};
use std::collections::BTreeMap;

/// Usual deviation of a machine from the table, as a share of the time. Offsets are drawn towards 0 by it.
const USUAL_OFFSET: f64 = 0.02;
/// Fewer programs say nothing about a machine.
const LEAST_PROGRAMS: usize = 3;

/// Predictions of these runs whose arms were measured, in the order of the runs.
#[must_use]
pub fn outcomes(runs: &[SavedRun]) -> Vec<PredictionOutcome> {
    runs.iter().flat_map(outcomes_of).collect()
}

fn outcomes_of(run: &SavedRun) -> impl Iterator<Item = PredictionOutcome> {
    run.predictions.iter().filter_map(|prediction| {
        let effect = measured(verdict(run, &prediction.arm)?)?;
        Some(outcome(run, prediction, effect))
    })
}

fn measured(verdict: &ArmVerdict) -> Option<&ArmEffect> {
    verdict.effect.as_ref().filter(|effect| effect.is_measured())
}

/// The standard deviation behind a 95% interval from `low` to `high`.
fn deviation(low: f64, high: f64) -> f64 {
    (high - low) / (2.0 * NORMAL_95)
}

fn outcome(run: &SavedRun, prediction: &GainPrediction, effect: &ArmEffect) -> PredictionOutcome {
    let (low, high) = (1.0 - effect.ratio_high, 1.0 - effect.ratio_low);
    // Both intervals are uncertain. The measured one counts as far as it blurs the edge of the other.
    let middle = prediction.gain_share;
    let reach = prediction.high_share - middle;
    let blurred = reach.hypot(NORMAL_80 * deviation(low, high));
    let found = 1.0 - effect.ratio;
    PredictionOutcome {
        run: run.id.clone(),
        command: run.command.clone(),
        prediction: prediction.clone(),
        found_share: found,
        found_low_share: low,
        found_high_share: high,
        is_hit: (found - middle).abs() <= blurred,
    }
}

/// The offsets of a machine by its own races of programs. Each program counts once, with its newest run. A model
/// with few programs has none.
#[must_use]
pub fn offsets(runs: &[SavedRun]) -> PredictionOffsets {
    let mut errors: BTreeMap<String, BTreeMap<Vec<String>, (f64, f64)>> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.service.is_none()) {
        for one in outcomes_of(run) {
            let Some([dose, ..]) = run.doses_of(&one.prediction.arm) else { continue };
            let GainPrediction { gain_share, high_share, offset_share, .. } = one.prediction;
            let spread = (high_share - gain_share) / NORMAL_80;
            let noise = deviation(one.found_low_share, one.found_high_share);
            let error = one.found_share - (gain_share - offset_share);
            let of_model = errors.entry(model_name(dose)).or_default();
            of_model.insert(one.command, (error, spread.hypot(noise).powi(2)));
        }
    }
    let known = errors.into_iter().filter(|(_, programs)| programs.len() >= LEAST_PROGRAMS);
    known.map(|(name, programs)| (name, offset(&programs))).collect()
}

/// The mean error, each by its certainty, drawn towards no offset.
fn offset(programs: &BTreeMap<Vec<String>, (f64, f64)>) -> PredictionOffset {
    let weight = |variance: f64| 1.0 / variance.max(1e-6);
    let sum: f64 = programs.values().map(|(error, variance)| error * weight(*variance)).sum();
    let all: f64 = programs.values().map(|(_, variance)| weight(*variance)).sum();
    PredictionOffset {
        gain_share: sum / (all + weight(USUAL_OFFSET * USUAL_OFFSET)),
        programs: u32::try_from(programs.len()).unwrap_or(u32::MAX),
    }
}

/// The facts of a look beside the gain of one arm: a row for the fit of the model.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictionPair {
    /// Name of the model.
    pub model: String,
    pub arm: String,
    pub facts: LookFacts,
    /// The gain as a share of the time, and the deviation of this figure.
    pub found_share: f64,
    pub found_deviation: f64,
    /// True if the choice of remedies had proposed the arm.
    pub fits: bool,
}

/// The measured arms of a run that have one dose each.
#[must_use]
pub fn pairs(run: &SavedRun) -> Vec<PredictionPair> {
    let (Some(look), Some(diagnosis), Some(prices), Some(machine)) =
        (&run.look, &run.diagnosis, &run.prices, &run.machine)
    else {
        return Vec::new();
    };
    let is_service = run.service.is_some();
    let evidence = PredictionEvidence { look, diagnosis, prices, machine, is_service };
    let verdicts = run.experiment.iter().flat_map(|experiment| &experiment.verdicts);
    let pair = |verdict: &ArmVerdict| {
        let [dose] = run.doses_of(&verdict.arm)? else { return None };
        let effect = measured(verdict)?;
        let candidate = run.candidates.iter().find(|one| one.remedy == dose.remedy)?;
        Some(PredictionPair {
            model: model_name(dose),
            arm: verdict.arm.clone(),
            facts: evidence.facts(candidate, dose),
            found_share: 1.0 - effect.ratio,
            found_deviation: deviation(effect.ratio_low, effect.ratio_high),
            fits: candidate.doses.contains(dose),
        })
    };
    verdicts.filter_map(pair).collect()
}
