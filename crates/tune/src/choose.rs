//! Which arms are tried: the doses of the remedies that fit and could pay.

use crate::request::SessionRequest;
use crate::world::ProgramArm;
use pagewise_judge::memory_account::at_most;
use pagewise_judge::prediction::{self, PredictionEvidence};
use pagewise_model::memory_account::MemoryAccount;
use pagewise_model::plan::{ArmSettings, RemedyCandidate, RemedyDose};
use pagewise_model::prediction::{GainPrediction, PredictionOffsets};
use pagewise_model::run::SavedRun;
use pagewise_model::trial::ComparedQuantity;
use pagewise_remedy::{RemedyEvidence, RemedyMechanism, all, clash, find};

/// Below this ceiling no remedy is tried that was not requested.
pub const LEAST_CEILING: f64 = 0.02;
/// An ordinary budget cannot prove a remedy whose own ceiling is below this.
const LEAST_REMEDY_CEILING: f64 = 0.01;

/// Asks every remedy whether it fits; a fit that cannot pay is turned into a refusal with figures.
#[must_use]
pub fn candidates(
    evidence: &RemedyEvidence<'_>,
    quantity: ComparedQuantity,
) -> Vec<RemedyCandidate> {
    all()
        .iter()
        .map(|remedy| {
            let mut candidate = match quantity {
                ComparedQuantity::Memory => {
                    bounded(remedy.fit_for_memory(evidence), evidence.memory)
                }
                _ => remedy.fit(evidence),
            };
            if candidate.fits() && candidate.ceiling_share < LEAST_REMEDY_CEILING {
                candidate.why = format!(
                    "{}, but it could gain at most {:.1}%",
                    candidate.why,
                    candidate.ceiling_share * 100.0
                );
                candidate.doses.clear();
            }
            candidate
        })
        .collect()
}

/// A candidate whose ceiling is limited by the account of the memory.
fn bounded(candidate: RemedyCandidate, account: Option<&MemoryAccount>) -> RemedyCandidate {
    let bound = account.and_then(|account| Some((account, at_most(account, &candidate.remedy)?)));
    let Some((account, most)) = bound.filter(|_| candidate.fits()) else { return candidate };
    let share = most.bytes.0 as f64 / account.pss().0.max(1) as f64;
    RemedyCandidate {
        why: format!(
            "{}; of {} at the peak it could give back {} at most ({})",
            candidate.why,
            account.pss(),
            most.bytes,
            most.why
        ),
        ceiling_share: candidate.ceiling_share.min(share),
        ..candidate
    }
}

/// The candidates that may be tried, and what their doses will probably gain.
#[must_use]
pub fn promising(
    mut candidates: Vec<RemedyCandidate>,
    evidence: &RemedyEvidence<'_>,
    request: &SessionRequest,
) -> (Vec<RemedyCandidate>, Vec<GainPrediction>) {
    let predictions = predicted(&candidates, evidence, request);
    leave_out_hopeless(&mut candidates, &predictions);
    (candidates, predictions)
}

/// What the requested doses will probably gain, otherwise those that fit. Nothing is predicted of memory.
fn predicted(
    candidates: &[RemedyCandidate],
    evidence: &RemedyEvidence<'_>,
    request: &SessionRequest,
) -> Vec<GainPrediction> {
    if request.spec.quantity == ComparedQuantity::Memory {
        return Vec::new();
    }
    let of = |dose: &RemedyDose| candidates.iter().find(|one| one.remedy == dose.remedy);
    let doses: Vec<(&RemedyCandidate, &RemedyDose)> = match &request.spec.only {
        Some(only) => only.iter().filter_map(|dose| Some((of(dose)?, dose))).collect(),
        None => fitting(candidates).collect(),
    };
    gains(doses, evidence, request.spec.service.is_some(), &request.offsets)
}

fn gains(
    doses: Vec<(&RemedyCandidate, &RemedyDose)>,
    evidence: &RemedyEvidence<'_>,
    is_service: bool,
    offsets: &PredictionOffsets,
) -> Vec<GainPrediction> {
    let RemedyEvidence { look, diagnosis, machine, prices, .. } = *evidence;
    let evidence = PredictionEvidence { look, diagnosis, prices, machine, is_service };
    prediction::predict(doses, &evidence, offsets)
}

/// What each remedy that fits a process which runs will probably gain.
pub(crate) fn gains_of_service(
    candidates: &[RemedyCandidate],
    evidence: &RemedyEvidence<'_>,
    offsets: &PredictionOffsets,
) -> Vec<GainPrediction> {
    gains(fitting(candidates).collect(), evidence, true, offsets)
}

/// Each dose of the candidates, with its candidate.
fn fitting(
    candidates: &[RemedyCandidate],
) -> impl Iterator<Item = (&RemedyCandidate, &RemedyDose)> {
    candidates.iter().flat_map(|one| one.doses.iter().map(move |dose| (one, dose)))
}

/// Drops the doses that certainly gain too little. A candidate without a dose says why.
fn leave_out_hopeless(candidates: &mut [RemedyCandidate], predictions: &[GainPrediction]) {
    for candidate in candidates.iter_mut().filter(|one| one.fits()) {
        let of = |dose: &RemedyDose| predictions.iter().find(|one| one.arm == dose.spec());
        let most = candidate.doses.iter().filter_map(of).map(|one| one.high_share);
        let most = most.fold(f64::NEG_INFINITY, f64::max);
        candidate.doses.retain(|dose| !of(dose).is_some_and(prediction::is_hopeless));
        if !candidate.fits() {
            candidate.why = format!(
                "{}, but it would probably cost time (predicted gain at most {:.1}%)",
                candidate.why,
                most * 100.0
            );
        }
    }
}

/// An arm for a set of doses.
#[must_use]
pub fn arm(request: &SessionRequest, doses: &[RemedyDose]) -> ProgramArm {
    ProgramArm {
        settings: doses.iter().fold(ArmSettings::default(), |all, d| all.merged(&d.settings)),
        mechanism: doses.iter().filter_map(mechanism).collect(),
        doses: doses.to_vec(),
        ..ProgramArm::unchanged(&name(doses), &request.spec.command)
    }
}

/// Name of a set of doses.
#[must_use]
pub fn name(doses: &[RemedyDose]) -> String {
    doses.iter().map(RemedyDose::spec).collect::<Vec<_>>().join("+")
}

fn mechanism(dose: &RemedyDose) -> Option<RemedyMechanism> {
    find(&dose.remedy).map(|remedy| remedy.mechanism(dose))
}

/// The doses to try, each as a separate arm: the requested ones, otherwise those that fit. The largest
/// predicted gain comes first. Without predictions the largest possible gain for each dose does.
#[must_use]
pub fn doses(request: &SessionRequest, run: &SavedRun) -> Vec<RemedyDose> {
    if let Some(only) = &request.spec.only {
        return only.clone();
    }
    let promise = |candidate: &RemedyCandidate, dose: &RemedyDose| {
        let most = candidate.ceiling_share / candidate.doses.len().max(1) as f64;
        run.prediction(&dose.spec()).map_or(most, |one| one.gain_share)
    };
    let mut ranked: Vec<(f64, &RemedyDose)> = fitting(&run.candidates)
        .map(|(candidate, dose)| (promise(candidate, dose), dose))
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    ranked.into_iter().map(|(_, dose)| dose.clone()).collect()
}

/// Sets of doses together, unless two are doses of one remedy or of two that conflict.
/// Nothing is to be combined with an arm that has no doses.
#[must_use]
pub fn combine(sets: &[&[RemedyDose]]) -> Option<Vec<RemedyDose>> {
    let together: Vec<RemedyDose> = sets.concat();
    let fits = sets.iter().all(|set| !set.is_empty()) && clash(&together).is_none();
    fits.then_some(together)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::asked;
    use pagewise_model::run::RunKind;
    use pagewise_model::spec::SessionSpec;

    fn dose(remedy: &str) -> Vec<RemedyDose> {
        let (remedy, parameter) = (remedy.to_owned(), String::new());
        vec![RemedyDose { remedy, parameter, settings: ArmSettings::default() }]
    }

    fn candidate(remedy: &str, ceiling_share: f64) -> RemedyCandidate {
        RemedyCandidate {
            remedy: remedy.to_owned(),
            sentence: String::new(),
            why: "it fits".to_owned(),
            ceiling_share,
            doses: dose(remedy),
        }
    }

    fn prediction(arm: &str, gain_share: f64, programs: u32) -> GainPrediction {
        GainPrediction {
            arm: arm.to_owned(),
            gain_share,
            low_share: gain_share - 0.02,
            high_share: gain_share + 0.02,
            offset_share: 0.0,
            programs,
        }
    }

    #[test]
    fn what_promises_most_comes_first() {
        let request = asked(SessionSpec::new(vec!["prog".into()], "/".into(), 1));
        let mut run = request.empty_run(RunKind::Tune, &request.spec.command);
        run.candidates = vec![candidate("allocator", 0.24), candidate("heap-huge", 0.16)];
        let names = |run: &SavedRun| {
            let doses = doses(&request, run).into_iter();
            doses.map(|dose| dose.remedy).collect::<Vec<_>>()
        };
        assert_eq!(names(&run), ["allocator", "heap-huge"]);
        run.predictions = vec![prediction("allocator", 0.01, 30), prediction("heap-huge", 0.1, 30)];
        assert_eq!(names(&run), ["heap-huge", "allocator"]);
    }

    #[test]
    fn what_certainly_costs_time_is_left_out_with_the_reason() {
        let mut candidates = vec![candidate("allocator", 0.2), candidate("place", 0.2)];
        let losses = [prediction("allocator", -0.05, 30), prediction("place", -0.05, 3)];
        leave_out_hopeless(&mut candidates, &losses);
        let fit: Vec<bool> = candidates.iter().map(RemedyCandidate::fits).collect();
        assert_eq!(fit, [false, true], "a guess leaves nothing out");
        let why = &candidates[0].why;
        assert!(why.starts_with("it fits, but") && why.contains("at most -3.0%"), "{why}");
    }

    #[test]
    fn only_what_goes_together_is_combined() {
        let both = combine(&[&dose("heap-huge"), &dose("place")]).unwrap();
        assert_eq!(name(&both), "heap-huge+place");
        assert_eq!(combine(&[&dose("place"), &dose("place")]), None);
        assert_eq!(combine(&[&dose("heap-huge"), &dose("heap-small")]), None);
        assert_eq!(combine(&[&dose("heap-small"), &dose("heap-huge")]), None);
        assert_eq!(combine(&[&dose("place"), &[]]), None);
    }
}
