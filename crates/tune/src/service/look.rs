//! The look at a service under its load: its costs, and the remedies that fit.

use super::stage::PlainObservation;
use super::{LoadTerms, answer, watched};
use crate::choose;
use crate::session::TunableSubject;
use crate::stop::SessionStop;
use crate::world::SessionEvent;
use pagewise_model::plan::RemedyCandidate;
use pagewise_model::run::SavedRun;
use pagewise_model::service::{ServerMeasurement, TunedService};
use pagewise_remedy::RemedyEvidence;

/// A service as the look sees it.
pub(super) trait ObservedService: TunableSubject {
    /// Description of the look, for the user.
    const LOOK: &'static str;
    fn terms(&self) -> &LoadTerms;
    /// How it is started, loaded and compared.
    ///
    /// # Errors
    /// When it cannot be compared as the user asks.
    fn service(&self) -> Result<TunedService, SessionStop>;
    /// Observes the unchanged service under its load.
    ///
    /// # Errors
    /// If it cannot be started or loaded.
    fn see(&mut self) -> Result<PlainObservation, SessionStop>;
    /// The remedies, and why they do not fit. `side` is the observation of the look.
    fn candidates(
        &mut self,
        evidence: &RemedyEvidence<'_>,
        side: &ServerMeasurement,
    ) -> Vec<RemedyCandidate>;
    /// Adds a note for the user.
    fn note(&mut self, note: String);
}

/// Looks at a service and notes down what that shows.
pub(super) fn look<S: ObservedService>(
    service: &mut S,
    run: &mut SavedRun,
) -> Result<(), SessionStop> {
    run.machine = Some(service.machine());
    run.service = Some(service.service()?);
    service.tell(&SessionEvent::Stage(S::LOOK));
    let PlainObservation { side, usage, traced } = service.see()?;
    let quantity = service.base().spec.quantity;
    if let Some(note) = answer::check(service.terms(), quantity, &side)? {
        service.note(note);
    }
    // After the look: a command that does not work is reported before seconds are spent here.
    service.tell(&SessionEvent::Stage("measuring this machine's unit prices"));
    run.prices = Some(service.prices()?);
    watched::diagnosed(run, watched::unsampled(usage, traced), |evidence| {
        let candidates = service.candidates(evidence, &side);
        choose::promising(candidates, evidence, service.base())
    });
    if let Some(service) = &mut run.service {
        service.first = Some(side);
    }
    Ok(())
}
