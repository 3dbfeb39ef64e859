//! Which arms are tried: the doses of the remedies that fit and could pay.

use crate::request::SessionRequest;
use crate::world::ProgramArm;
use pagewise_judge::memory_account::at_most;
use pagewise_model::memory_account::MemoryAccount;
use pagewise_model::plan::{ArmSettings, RemedyCandidate, RemedyDose};
use pagewise_model::trial::ComparedQuantity;
use pagewise_remedy::{RemedyEvidence, RemedyMechanism, all, clash, find};

/// Below this ceiling no remedy is tried that was not requested.
pub const LEAST_CEILING: f64 = 0.02;
/// An ordinary budget cannot prove a remedy whose own ceiling is below this.
const LEAST_REMEDY_CEILING: f64 = 0.01;

/// The allocators' remedy. Its ceiling contains the whole cost of allocation, but it seldom saves much of that
/// (docs/decisions/060).
const ALLOCATOR: &str = "allocator";
/// It is ranked as if its ceiling were this fraction of the real one.
const SELDOM: f64 = 0.25;

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

/// The doses to try, each as a separate arm: the requested ones, otherwise those that fit. The remedy with
/// the largest possible gain for each of its doses comes first.
#[must_use]
pub fn doses(request: &SessionRequest, candidates: &[RemedyCandidate]) -> Vec<RemedyDose> {
    match &request.spec.only {
        Some(only) => only.clone(),
        None => {
            let mut by_ceiling: Vec<&RemedyCandidate> = candidates.iter().collect();
            let usual = |of: &RemedyCandidate| if of.remedy == ALLOCATOR { SELDOM } else { 1.0 };
            let each =
                |of: &RemedyCandidate| usual(of) * of.ceiling_share / of.doses.len().max(1) as f64;
            by_ceiling.sort_by(|a, b| each(b).total_cmp(&each(a)));
            by_ceiling.into_iter().flat_map(|c| c.doses.iter().cloned()).collect()
        }
    }
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
    use pagewise_model::spec::SessionSpec;

    fn dose(remedy: &str) -> Vec<RemedyDose> {
        let (remedy, parameter) = (remedy.to_owned(), String::new());
        vec![RemedyDose { remedy, parameter, settings: ArmSettings::default() }]
    }

    #[test]
    fn what_usually_gains_more_comes_first() {
        let candidate = |remedy: &str, ceiling_share| RemedyCandidate {
            remedy: remedy.to_owned(),
            sentence: String::new(),
            why: String::new(),
            ceiling_share,
            doses: dose(remedy),
        };
        let request = asked(SessionSpec::new(vec!["prog".into()], "/".into(), 1));
        let names = |candidates: &[RemedyCandidate]| {
            let doses = doses(&request, candidates).into_iter();
            doses.map(|dose| dose.remedy).collect::<Vec<_>>()
        };
        let near = [candidate("allocator", 0.24), candidate("heap-huge", 0.16)];
        assert_eq!(names(&near), ["heap-huge", "allocator"]);
        let far = [candidate("heap-huge", 0.02), candidate("allocator", 0.24)];
        assert_eq!(names(&far), ["allocator", "heap-huge"]);
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
