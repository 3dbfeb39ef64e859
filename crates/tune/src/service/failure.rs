//! Which side is to blame for a failure of a server or its load.

use crate::race::RunFailure;
use crate::stop::SessionStop;

/// The side to blame for a failure.
#[derive(Debug)]
pub(super) enum ServiceFailure {
    /// The plain server's, the load's, or ours: the session ends.
    Session(SessionStop),
    /// That of the arm of this number: it is rejected.
    Arm(usize, String),
}

impl ServiceFailure {
    /// The user asked to stop.
    pub(super) const fn is_by_user(&self) -> bool {
        matches!(self, Self::Session(SessionStop::Interrupted))
    }
}

/// The side to blame for a failure with this arm or the plain server. An arm is blamed only for its own
/// actions and requests.
pub(super) fn whose(arm: Option<usize>, stop: SessionStop) -> ServiceFailure {
    let Some(arm) = arm else { return ServiceFailure::Session(stop) };
    match stop.into_failure() {
        RunFailure::Failed(why) | RunFailure::NotAtOnce(why) => ServiceFailure::Arm(arm, why),
        RunFailure::Interrupted => ServiceFailure::Session(SessionStop::Interrupted),
        RunFailure::Broken(why) => ServiceFailure::Session(SessionStop::Broken(why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arm_is_blamed_for_its_own_failures_only() {
        let own = || SessionStop::Service("the server ended under load".to_owned());
        assert!(matches!(whose(Some(1), own()), ServiceFailure::Arm(1, _)));
        assert!(matches!(
            whose(Some(0), SessionStop::NotHuge("x".to_owned())),
            ServiceFailure::Arm(0, _)
        ));
        assert!(matches!(whose(None, own()), ServiceFailure::Session(SessionStop::Service(_))));
        let broken = whose(Some(0), SessionStop::Broken("--prepare failed".to_owned()));
        assert!(
            matches!(broken, ServiceFailure::Session(SessionStop::Broken(why)) if why == "--prepare failed")
        );
        let stopped = whose(Some(0), SessionStop::Interrupted);
        assert!(matches!(stopped, ServiceFailure::Session(SessionStop::Interrupted)));
    }
}
