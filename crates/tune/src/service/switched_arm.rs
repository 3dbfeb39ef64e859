//! The remedies that can be switched in a running service.

use crate::choose;
use crate::stop::SessionStop;
use pagewise_model::plan::RemedyDose;
use pagewise_remedy::live::{LiveChange, LiveOffer};

/// A remedy that is switched.
pub(super) struct SwitchedArm {
    pub(super) dose: RemedyDose,
    pub(super) name: String,
    pub(super) change: LiveChange,
}

/// What fits and can be switched, or was asked for.
pub(super) fn arms(
    offers: Vec<LiveOffer>,
    only: Option<&[RemedyDose]>,
) -> Result<Vec<SwitchedArm>, SessionStop> {
    let arm = |offer: LiveOffer| {
        let dose = offer.candidate.doses.into_iter().next()?;
        let name = choose::name(std::slice::from_ref(&dose));
        Some(SwitchedArm { dose, name, change: offer.change? })
    };
    let Some(only) = only else {
        return Ok(offers.into_iter().filter_map(arm).collect());
    };
    let wanted = |dose: &RemedyDose| {
        let offer = offers.iter().find(|offer| offer.candidate.remedy == dose.remedy);
        let why = match offer {
            None => "cannot be switched: use --serve".to_owned(),
            Some(offer) if !offer.candidate.fits() => offer.candidate.why.clone(),
            Some(_) => format!("cannot be switched: use --only {}", dose.remedy),
        };
        let refused = || SessionStop::Service(format!("--only {}: {why}", dose.spec()));
        let found = offer.cloned().and_then(arm).filter(|arm| arm.dose.spec() == dose.spec());
        found.ok_or_else(refused)
    };
    only.iter().map(wanted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::plan::{ArmSettings, RemedyCandidate};

    fn dose(remedy: &str, parameter: &str) -> RemedyDose {
        let (remedy, parameter) = (remedy.to_owned(), parameter.to_owned());
        RemedyDose { remedy, parameter, settings: ArmSettings::default() }
    }

    fn offer(remedy: &str, doses: Vec<RemedyDose>) -> LiveOffer {
        let candidate = RemedyCandidate {
            remedy: remedy.to_owned(),
            sentence: String::new(),
            why: "it is too small".to_owned(),
            ceiling_share: 0.1,
            doses,
        };
        LiveOffer { candidate, change: Some(LiveChange::HeapHuge) }
    }

    #[test]
    fn only_the_dose_that_is_asked_for_is_switched() {
        let of = |only: Option<RemedyDose>| {
            let offers =
                vec![offer("place", vec![dose("place", "one")]), offer("heap-huge", Vec::new())];
            let found = arms(offers, only.as_ref().map(std::slice::from_ref));
            found.map(|arms| arms.into_iter().map(|arm| arm.name).collect::<Vec<_>>())
        };
        let refused = |only: RemedyDose| of(Some(only)).unwrap_err().to_string();
        assert_eq!(of(None).unwrap(), ["place=one"]);
        assert_eq!(of(Some(dose("place", "one"))).unwrap(), ["place=one"]);
        let other = refused(dose("place", "apart"));
        assert_eq!(other, "--only place=apart: cannot be switched: use --only place");
        assert_eq!(refused(dose("heap-huge", "")), "--only heap-huge: it is too small");
        assert_eq!(refused(dose("arenas", "")), "--only arenas: cannot be switched: use --serve");
    }
}
