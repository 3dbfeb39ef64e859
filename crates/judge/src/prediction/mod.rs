//! What each arm will probably gain, from one look.
//!
//! A gain is predicted as a sum of facts times coefficients. `model.tsv` holds the coefficients of each remedy,
//! fitted on races of ordinary programs by `bench/accept/tune/predictions/fit`. The interval holds the gain of
//! 8 in 10 programs that the fit had not seen. Facts far from those of the fit widen it: its width grows with
//! the parts of the sum, also where they cancel each other.
//!
//! A prediction orders the arms of a race and answers where nothing is proven. It never becomes a verdict.
//!
//! Not seen: what a program does with the memory that it touched. The translation bound includes loads that
//! overlap, and other allocators change the locality of data.

mod facts;
mod outcomes;

use crate::stats::NORMAL_80;
pub use facts::{LookFacts, PredictionEvidence};
pub use outcomes::{PredictionPair, offsets, outcomes, pairs};
use pagewise_model::plan::{RemedyCandidate, RemedyDose};
use pagewise_model::prediction::{GainPrediction, PredictionOffsets};

/// The committed table: model, name, value.
const MODEL: &str = include_str!("model.tsv");
/// Standard deviations above the gain, beyond which 1 in 20 lies.
const ONE_IN_TWENTY: f64 = 1.645;
/// An arm that certainly gains less than this share is not worth a run.
const WORTH_A_RUN: f64 = 0.005;
/// No arm saves more than this share of the time.
const MOST_GAIN: f64 = 0.95;
/// Model of huge pages on the heap.
const HEAP_HUGE: &str = "heap-huge";
/// Model of all other remedies.
const OTHER: &str = "other";

/// The model of one remedy: the names and values of its rows.
struct PredictionModel(Vec<(&'static str, f64)>);

impl PredictionModel {
    /// The rows with this name; those of [`OTHER`] if there are none.
    fn named(name: &str) -> Self {
        let rows = |name: &str| -> Vec<(&'static str, f64)> {
            let lines = MODEL.lines().filter(|line| !line.starts_with('#'));
            lines
                .filter_map(|line| {
                    let mut cells = line.split('\t');
                    let is_its = cells.next()? == name;
                    is_its.then_some((cells.next()?, cells.next()?.parse().ok()?))
                })
                .collect()
        };
        let own = rows(name);
        Self(if own.is_empty() { rows(OTHER) } else { own })
    }

    fn value(&self, name: &str) -> f64 {
        self.0.iter().find(|(own, _)| *own == name).map_or(0.0, |(_, value)| *value)
    }

    /// The gain, and its standard deviation among programs.
    fn gain(&self, facts: &LookFacts) -> (f64, f64) {
        let parts = facts.iter().map(|(name, value)| self.value(name) * value);
        let (gain, size) =
            parts.fold((0.0, 0.0), |(gain, size), part| (gain + part, size + part.abs()));
        let own = self.value("deviation");
        (gain, own.hypot(self.value("deviation_share") * size))
    }
}

/// Name of the model for a dose: allocators have one each.
#[must_use]
pub fn model_name(dose: &RemedyDose) -> String {
    match dose.remedy.as_str() {
        "allocator" => dose.spec(),
        other => other.to_owned(),
    }
}

/// The predicted gain of each of these doses, largest first. Empty without a look of some CPU time.
#[must_use]
pub fn predict<'a>(
    doses: impl IntoIterator<Item = (&'a RemedyCandidate, &'a RemedyDose)>,
    evidence: &PredictionEvidence<'_>,
    offsets: &PredictionOffsets,
) -> Vec<GainPrediction> {
    let mut all: Vec<GainPrediction> = doses
        .into_iter()
        .filter_map(|(candidate, dose)| {
            let facts = evidence.facts(candidate, dose);
            let name = model_name(dose);
            (!facts.is_empty()).then(|| {
                let found = predicted(dose.spec(), &name, &facts, offsets);
                let programs = if evidence.is_service { 0 } else { found.programs };
                GainPrediction { programs, ..found }
            })
        })
        .collect();
    all.sort_by(|a, b| b.gain_share.total_cmp(&a.gain_share));
    all
}

fn predicted(
    arm: String,
    name: &str,
    facts: &LookFacts,
    offsets: &PredictionOffsets,
) -> GainPrediction {
    let model = PredictionModel::named(name);
    let (gain, deviation) = model.gain(facts);
    let offset_share = offsets.get(name).map_or(0.0, |offset| offset.gain_share);
    let gain = (gain + offset_share).min(MOST_GAIN);
    GainPrediction {
        arm,
        gain_share: gain,
        offset_share,
        low_share: gain - NORMAL_80 * deviation,
        high_share: (gain + NORMAL_80 * deviation).min(MOST_GAIN),
        programs: model.value("programs") as u32,
    }
}

/// What huge pages on the heap will probably gain a process of which only the cost of its page faults is known, as
/// a share (0..1) of its CPU time. A guess: all faults count as the heap's, and translation as free.
#[must_use]
pub fn of_faulting(fault_share: f64, offsets: &PredictionOffsets) -> GainPrediction {
    let facts = vec![("constant", 1.0), ("heap_faults", fault_share.min(1.0))];
    let found = predicted(HEAP_HUGE.to_owned(), HEAP_HUGE, &facts, offsets);
    GainPrediction { programs: 0, ..found }
}

/// True if the arm certainly (19 in 20) gains too little for a race. A guess from few programs never says so.
#[must_use]
pub fn is_hopeless(prediction: &GainPrediction) -> bool {
    let deviation = (prediction.gain_share - prediction.low_share) / NORMAL_80;
    !prediction.is_guess() && prediction.gain_share + ONE_IN_TWENTY * deviation < WORTH_A_RUN
}

/// `part` of `whole` within 0..=1. 0 if `whole` is 0.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests;
