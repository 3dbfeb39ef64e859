//! Decoding of wait statuses of a seized thread, as `ptrace(2)` under "Stopped states" lays them out.
//! Pure: works on the status word alone.

use libc::c_int;

/// Why `waitpid` reported a seized thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PtraceStop {
    /// The thread has ended with this exit status.
    Exited(i32),
    /// The thread was ended by this signal.
    Killed(i32),
    /// A signal is about to be delivered; resume with it.
    Signal(i32),
    /// Entry to or exit from a system call (`PTRACE_O_TRACESYSGOOD`).
    Syscall,
    /// `PTRACE_EVENT_STOP` after an interrupt, or the first stop of an auto-attached child.
    Interrupted,
    /// Stopped by job control, by this signal; resume with `PTRACE_LISTEN`.
    Group(i32),
    /// A new thread or process: `PTRACE_EVENT_FORK` or `CLONE`.
    Child,
    /// A new process that its maker waits for: `PTRACE_EVENT_VFORK`.
    Vfork,
    /// The end of a vfork wait.
    VforkDone,
    /// A new image has been loaded.
    Exec,
    /// The thread is about to exit; its memory still exists.
    Exit,
    /// A seccomp filter returned `SECCOMP_RET_TRACE`.
    Seccomp,
    /// An event that was not requested.
    Other(c_int),
}

impl PtraceStop {
    /// Decodes a wait status.
    #[must_use]
    pub fn decode(status: c_int) -> Self {
        if libc::WIFEXITED(status) {
            return Self::Exited(libc::WEXITSTATUS(status));
        }
        if libc::WIFSIGNALED(status) {
            return Self::Killed(libc::WTERMSIG(status));
        }
        let signal = libc::WSTOPSIG(status);
        match status >> 16 {
            0 if signal == libc::SIGTRAP | 0x80 => Self::Syscall,
            0 => Self::Signal(signal),
            libc::PTRACE_EVENT_STOP if signal == libc::SIGTRAP => Self::Interrupted,
            libc::PTRACE_EVENT_STOP => Self::Group(signal),
            libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_CLONE => Self::Child,
            libc::PTRACE_EVENT_VFORK => Self::Vfork,
            libc::PTRACE_EVENT_VFORK_DONE => Self::VforkDone,
            libc::PTRACE_EVENT_EXEC => Self::Exec,
            libc::PTRACE_EVENT_EXIT => Self::Exit,
            libc::PTRACE_EVENT_SECCOMP => Self::Seccomp,
            other => Self::Other(other),
        }
    }

    /// True if the thread no longer exists.
    #[must_use]
    pub const fn is_end(self) -> bool {
        matches!(self, Self::Exited(_) | Self::Killed(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(event: c_int, signal: c_int) -> c_int {
        event << 16 | signal << 8 | 0x7f
    }

    #[test]
    fn statuses_decode() {
        assert_eq!(PtraceStop::decode(3 << 8), PtraceStop::Exited(3));
        assert_eq!(PtraceStop::decode(libc::SIGKILL), PtraceStop::Killed(libc::SIGKILL));
        assert_eq!(PtraceStop::decode(event(0, libc::SIGUSR1)), PtraceStop::Signal(libc::SIGUSR1));
        assert_eq!(PtraceStop::decode(event(0, libc::SIGTRAP)), PtraceStop::Signal(libc::SIGTRAP));
        assert_eq!(PtraceStop::decode(event(0, libc::SIGTRAP | 0x80)), PtraceStop::Syscall);
        assert_eq!(
            PtraceStop::decode(event(libc::PTRACE_EVENT_STOP, libc::SIGTRAP)),
            PtraceStop::Interrupted
        );
        assert_eq!(
            PtraceStop::decode(event(libc::PTRACE_EVENT_STOP, libc::SIGTSTP)),
            PtraceStop::Group(libc::SIGTSTP)
        );
        for made in [libc::PTRACE_EVENT_FORK, libc::PTRACE_EVENT_CLONE] {
            assert_eq!(PtraceStop::decode(event(made, libc::SIGTRAP)), PtraceStop::Child);
        }
        assert_eq!(
            PtraceStop::decode(event(libc::PTRACE_EVENT_VFORK, libc::SIGTRAP)),
            PtraceStop::Vfork
        );
        assert_eq!(
            PtraceStop::decode(event(libc::PTRACE_EVENT_EXIT, libc::SIGTRAP)),
            PtraceStop::Exit
        );
        assert_eq!(
            PtraceStop::decode(event(libc::PTRACE_EVENT_EXEC, libc::SIGTRAP)),
            PtraceStop::Exec
        );
        assert_eq!(
            PtraceStop::decode(event(libc::PTRACE_EVENT_SECCOMP, libc::SIGTRAP)),
            PtraceStop::Seccomp
        );
        assert_eq!(PtraceStop::decode(event(99, libc::SIGTRAP)), PtraceStop::Other(99));
        assert!(PtraceStop::decode(0).is_end() && !PtraceStop::decode(event(0, 5)).is_end());
    }
}
