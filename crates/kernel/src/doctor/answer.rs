//! Interprets an errno as the answer to "can this be used here?".
//!
//! Pure, so that every newer call is tested with the refusals of kernels, security modules and containers.

use crate::error::SysError;
use pagewise_model::capability::{Capability, CapabilityAnswer};

/// The answer from the outcome of a call: 0 for success, else its errno.
#[must_use]
pub fn answer_from(errno: i32) -> CapabilityAnswer {
    let no = |why: &str| CapabilityAnswer::No(why.to_owned());
    match errno {
        0 => CapabilityAnswer::Yes,
        libc::ENOSYS => no("this kernel has no such call, or a seccomp filter hides it"),
        libc::EPERM => no("not permitted to this account, or forbidden by a seccomp filter"),
        libc::EACCES => no("access denied to this account"),
        libc::EINVAL => no("this kernel has the call, but not this form of it"),
        libc::ENOTTY => no("this kernel has no such control"),
        libc::EOPNOTSUPP => no("not supported here"),
        libc::ENOENT => no("not present on this machine"),
        libc::ENODEV => no("no such device on this machine"),
        libc::ENOMEM => no("no memory of that kind is free"),
        libc::EMFILE | libc::ENFILE => no("no descriptor is free"),
        other => CapabilityAnswer::Unknown(std::io::Error::from_raw_os_error(other).to_string()),
    }
}

/// Like [`answer_from`], for a result. A failure without errno is one that the probe does not understand.
#[must_use]
pub fn answer_of<T>(result: &Result<T, SysError>) -> CapabilityAnswer {
    match result {
        Ok(_) => CapabilityAnswer::Yes,
        Err(error) => match error.errno() {
            Some(errno) => answer_from(errno),
            None => CapabilityAnswer::Unknown(error.to_string()),
        },
    }
}

/// Yes when `found`, else no for this reason.
#[must_use]
pub(super) fn answer_if(found: bool, why_not: impl Into<String>) -> CapabilityAnswer {
    if found { CapabilityAnswer::Yes } else { CapabilityAnswer::No(why_not.into()) }
}

/// A capability. `unlock` is kept only if the capability is missing.
#[must_use]
pub(super) fn capability(
    group: &str,
    name: &str,
    gives: &str,
    answer: CapabilityAnswer,
    unlock: Option<&str>,
) -> Capability {
    let unlock = unlock.filter(|_| answer != CapabilityAnswer::Yes).map(str::to_owned);
    Capability { group: group.into(), name: name.into(), gives: gives.into(), answer, unlock }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_newer_calls() {
        assert_eq!(answer_from(0), CapabilityAnswer::Yes);
        for (errno, word) in [
            (libc::ENOSYS, "no such call"),
            (libc::EPERM, "not permitted"),
            (libc::EINVAL, "not this form"),
            (libc::EACCES, "denied"),
            (libc::ENOTTY, "no such control"),
        ] {
            match answer_from(errno) {
                CapabilityAnswer::No(why) => assert!(why.contains(word), "{errno}: {why}"),
                other => panic!("{errno}: {other:?}"),
            }
        }
        assert!(matches!(answer_from(libc::EIO), CapabilityAnswer::Unknown(_)));
    }

    #[test]
    fn malformed_text_is_unknown() {
        let failed: Result<(), _> = Err(SysError::malformed("read", "/x"));
        assert!(matches!(answer_of(&failed), CapabilityAnswer::Unknown(_)));
        let refused: Result<(), _> = Err(SysError::new("x", "y", rustix::io::Errno::NOSYS));
        assert_eq!(answer_of(&refused), answer_from(libc::ENOSYS));
    }

    #[test]
    fn what_works_needs_no_key() {
        assert_eq!(capability("g", "n", "x", CapabilityAnswer::Yes, Some("k")).unlock, None);
        let locked = capability("g", "n", "x", answer_if(false, "w"), Some("k"));
        assert_eq!(locked.unlock.as_deref(), Some("k"));
    }
}
