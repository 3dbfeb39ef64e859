//! Which side is to blame for a failure of a server or its load.

use crate::race::RunFailure;
use crate::stop::Stop;

/// The side to blame for a failure.
#[derive(Debug)]
pub(super) enum Failure {
    /// The plain server's, the load's, or ours: the session ends.
    Session(Stop),
    /// That of the arm of this number: it is rejected.
    Arm(usize, String),
}

impl Failure {
    /// The user asked to stop.
    pub(super) const fn is_by_user(&self) -> bool {
        matches!(self, Self::Session(Stop::Interrupted))
    }
}

/// The side to blame for a failure with this arm or the plain server. An arm is blamed only for its own
/// actions and requests.
pub(super) fn whose(arm: Option<usize>, stop: Stop) -> Failure {
    let Some(arm) = arm else { return Failure::Session(stop) };
    match stop.into_failure() {
        RunFailure::Failed(why) | RunFailure::NotAtOnce(why) => Failure::Arm(arm, why),
        RunFailure::Interrupted => Failure::Session(Stop::Interrupted),
        RunFailure::Broken(why) => Failure::Session(Stop::Broken(why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arm_is_blamed_for_its_own_failures_only() {
        let own = || Stop::Service("the server ended under load".to_owned());
        assert!(matches!(whose(Some(1), own()), Failure::Arm(1, _)));
        assert!(matches!(whose(Some(0), Stop::NotHuge("x".to_owned())), Failure::Arm(0, _)));
        assert!(matches!(whose(None, own()), Failure::Session(Stop::Service(_))));
        let broken = whose(Some(0), Stop::Broken("--prepare failed".to_owned()));
        assert!(matches!(broken, Failure::Session(Stop::Broken(why)) if why == "--prepare failed"));
        let stopped = whose(Some(0), Stop::Interrupted);
        assert!(matches!(stopped, Failure::Session(Stop::Interrupted)));
    }
}
