//! Why a call is not injected, or failed.

use pagewise_kernel::error::SysError;

/// Why a call cannot be injected into a process.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InjectRefusal {
    /// A kernel thread or a process that has ended.
    #[error("it has no memory")]
    NoMemory,
    /// Another tracer has it.
    #[error("process {0} traces it already")]
    Traced(i32),
    /// It has a seccomp filter, which might kill it.
    #[error("it runs under a seccomp filter of its own")]
    Seccomp,
    /// Its shadow stack forbids the return into the restorer.
    #[error("it runs with a shadow stack")]
    ShadowStack,
    /// Its code contains no `syscall; ret`.
    #[error("no system call instruction was found in its code")]
    NoCallSite,
    /// Its code contains no restorer, and pagewise did not start it.
    #[error("no signal return code was found in it")]
    NoRestorer,
    /// No thread has a stack with room for a frame.
    #[error("no room for a signal frame on its stack")]
    NoStack,
    /// It runs 32-bit code.
    #[error("it runs 32-bit code")]
    ThirtyTwoBit,
    /// It contains a leak checker. That stops its threads by ptrace, and would miss a thread that is held.
    #[error("it has a leak checker, which must be its only tracer")]
    LeakChecker,
    /// Its extended register state is not in the expected format.
    #[error("the format of its extended registers is not known")]
    ExtendedState,
    /// Every thread waited in a call that cannot be interrupted without being late or wrong.
    #[error("its threads wait in calls that must not be interrupted")]
    Waiting,
    /// The code at the call site has changed since it was found.
    #[error("its code changed meanwhile")]
    CodeChanged,
    /// In every attempt it was handling signals, stopping, or in a restartable sequence.
    #[error("signals interrupted every attempt")]
    Busy,
}

/// Why a call was not made, or failed.
#[derive(Debug, thiserror::Error)]
pub enum InjectError {
    /// It cannot be done safely.
    #[error("cannot run a call inside the process: {0}")]
    Refused(#[from] InjectRefusal),
    /// The process or the thread ended.
    #[error("the process ended")]
    Gone,
    /// The call was made and failed.
    #[error("{call} in process {pid}: {source}")]
    Call { call: &'static str, pid: i32, source: std::io::Error },
    /// The call was committed, but its result could not be read.
    #[error("the result of the injected call was lost")]
    Unseen,
    /// A system call of this process failed.
    #[error(transparent)]
    Sys(#[from] SysError),
}

impl InjectRefusal {
    /// True if another attempt a moment later may succeed.
    #[must_use]
    pub const fn passes(&self) -> bool {
        matches!(self, Self::Busy | Self::Waiting | Self::CodeChanged | Self::Traced(_))
    }
}

impl InjectError {
    /// True if another attempt a moment later may succeed: the process was busy, or the mapping had changed
    /// since it was read.
    #[must_use]
    pub fn passes(&self) -> bool {
        match self {
            Self::Refused(why) => why.passes(),
            Self::Gone | Self::Unseen => true,
            Self::Call { source, .. } => {
                matches!(source.raw_os_error(), Some(libc::ENOMEM | libc::EINVAL | libc::EAGAIN))
            }
            Self::Sys(error) => error.is_gone(),
        }
    }

    /// True if the thread ended or the mapping was removed meanwhile.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        match self {
            Self::Gone => true,
            Self::Call { source, .. } => source.raw_os_error() == Some(libc::ENOMEM),
            Self::Sys(error) => error.is_gone(),
            Self::Refused(_) | Self::Unseen => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lasting_reasons_are_told_from_those_that_pass() {
        assert!(InjectRefusal::Busy.passes() && InjectRefusal::Waiting.passes());
        assert!(!InjectRefusal::Seccomp.passes() && !InjectRefusal::NoRestorer.passes());
        assert!(InjectError::Gone.is_gone() && !InjectError::Unseen.is_gone());
        let failed = |errno| InjectError::Call {
            call: "madvise",
            pid: 1,
            source: std::io::Error::from_raw_os_error(errno),
        };
        assert!(failed(libc::ENOMEM).passes() && failed(libc::EINVAL).passes());
        assert!(!failed(libc::EPERM).passes());
        let sys = |errno| {
            let source = std::io::Error::from_raw_os_error(errno);
            InjectError::Sys(SysError::new("PTRACE_SEIZE", "thread 1", source))
        };
        assert!(sys(libc::ESRCH).passes() && !sys(libc::EPERM).passes());
    }
}
