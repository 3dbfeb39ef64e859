//! The look at a service under its load: its costs, and the remedies that fit.

use super::stage::Seen;
use super::{Terms, answer, watched};
use crate::session::Tunable;
use crate::stop::Stop;
use crate::world::Event;
use pagewise_model::plan::Candidate;
use pagewise_model::run::Run;
use pagewise_model::service::{Service, Side};
use pagewise_remedy::Evidence;

/// A service as the look sees it.
pub(super) trait UnderLoad: Tunable {
    /// Description of the look, for the user.
    const LOOK: &'static str;
    fn terms(&self) -> &Terms;
    /// How it is started, loaded and compared.
    ///
    /// # Errors
    /// When it cannot be compared as the user asks.
    fn service(&self) -> Result<Service, Stop>;
    /// Observes the unchanged service under its load.
    ///
    /// # Errors
    /// If it cannot be started or loaded.
    fn see(&mut self) -> Result<Seen, Stop>;
    /// The remedies, and why they do not fit. `side` is the observation of the look.
    fn candidates(&mut self, evidence: &Evidence<'_>, side: &Side) -> Vec<Candidate>;
    /// Adds a note for the user.
    fn note(&mut self, note: String);
}

/// Looks at a service and notes down what that shows.
pub(super) fn look<S: UnderLoad>(service: &mut S, run: &mut Run) -> Result<(), Stop> {
    run.machine = Some(service.machine());
    run.service = Some(service.service()?);
    service.tell(&Event::Stage(S::LOOK));
    let Seen { side, usage, traced } = service.see()?;
    let quantity = service.base().spec.quantity;
    if let Some(note) = answer::check(service.terms(), quantity, &side)? {
        service.note(note);
    }
    // After the look: a command that does not work is reported before seconds are spent here.
    service.tell(&Event::Stage("measuring this machine's unit prices"));
    run.prices = Some(service.prices()?);
    watched::diagnosed(run, usage, traced, |evidence| service.candidates(evidence, &side));
    if let Some(service) = &mut run.service {
        service.first = Some(side);
    }
    Ok(())
}
