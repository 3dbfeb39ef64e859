//! Which arms are tried: the doses of the remedies that fit and could pay.

use crate::request::Request;
use crate::world::Arm;
use pagewise_model::plan::{Candidate, Dose, Settings};
use pagewise_remedy::{Evidence, Mechanism, all, find};

/// Below this ceiling nothing is tried at all.
pub const LEAST_CEILING: f64 = 0.02;
/// A remedy whose own ceiling is below this cannot be proven by any ordinary budget.
const LEAST_REMEDY_CEILING: f64 = 0.01;

/// Asks every remedy whether it fits; a fit that cannot pay is turned into a refusal with figures.
#[must_use]
pub fn candidates(evidence: &Evidence<'_>) -> Vec<Candidate> {
    all()
        .iter()
        .map(|remedy| {
            let mut candidate = remedy.fit(evidence);
            if candidate.fits() && candidate.ceiling_share < LEAST_REMEDY_CEILING {
                candidate.why = format!(
                    "{}, but it could give at most {:.1}%",
                    candidate.why,
                    candidate.ceiling_share * 100.0
                );
                candidate.doses.clear();
            }
            candidate
        })
        .collect()
}

/// The plain program.
#[must_use]
pub fn plain(request: &Request) -> Arm {
    Arm {
        name: "plain".to_owned(),
        command: request.command.clone(),
        settings: Settings::default(),
        mechanism: Vec::new(),
    }
}

/// An arm for a set of doses.
#[must_use]
pub fn arm(request: &Request, doses: &[Dose]) -> Arm {
    Arm {
        name: name(doses),
        command: request.command.clone(),
        settings: doses.iter().fold(Settings::default(), |all, d| all.merged(&d.settings)),
        mechanism: doses.iter().filter_map(mechanism).collect(),
    }
}

/// Name of a set of doses.
#[must_use]
pub fn name(doses: &[Dose]) -> String {
    doses.iter().map(Dose::spec).collect::<Vec<_>>().join("+")
}

fn mechanism(dose: &Dose) -> Option<Mechanism> {
    find(&dose.remedy).map(|remedy| remedy.mechanism(dose))
}

/// The doses to try, each as an arm of its own: those asked for, else those that fit.
#[must_use]
pub fn doses(request: &Request, candidates: &[Candidate]) -> Vec<Dose> {
    match &request.only {
        Some(only) => only.clone(),
        None => candidates.iter().flat_map(|c| c.doses.iter().cloned()).collect(),
    }
}

/// Two sets of doses together, unless both are doses of one remedy.
#[must_use]
pub fn combine(a: &[Dose], b: &[Dose]) -> Option<Vec<Dose>> {
    if a.iter().any(|x| b.iter().any(|y| x.remedy == y.remedy)) {
        return None;
    }
    Some(a.iter().chain(b).cloned().collect())
}
