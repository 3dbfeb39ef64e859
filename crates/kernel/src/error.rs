//! The error of a system call: which call, on what, and the errno.

use std::io;

/// A call to the kernel that failed.
#[derive(Debug, thiserror::Error)]
#[error("`{call}` on {subject} failed: {source}")]
pub struct SysError {
    /// Name of the call, as in its man page.
    pub call: &'static str,
    /// What it was applied to: a path, a pid, an address range.
    pub subject: String,
    /// Error of the kernel.
    pub source: io::Error,
}

impl SysError {
    /// An error of `call` on `subject`.
    pub fn new(
        call: &'static str,
        subject: impl Into<String>,
        source: impl Into<io::Error>,
    ) -> Self {
        Self { call, subject: subject.into(), source: source.into() }
    }

    /// The error that the last C call of this thread left in `errno`.
    pub fn last(call: &'static str, subject: impl Into<String>) -> Self {
        Self::new(call, subject, io::Error::last_os_error())
    }

    /// Text from the kernel that does not have its documented form.
    pub fn malformed(call: &'static str, subject: impl Into<String>) -> Self {
        let source = io::Error::new(io::ErrorKind::InvalidData, "unexpected text format");
        Self::new(call, subject, source)
    }

    /// Adds the kernel version that introduced the call, if the error shows that this kernel does not know
    /// it: EINVAL for an advice, ENOTTY for an ioctl.
    #[must_use]
    pub fn lacking_before(mut self, since: &str) -> Self {
        if matches!(self.errno(), Some(libc::EINVAL | libc::ENOTTY)) {
            self.subject.push_str(&format!(" (in {since} and later)"));
        }
        self
    }

    /// The errno; `None` if the kernel gave none.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        self.source.raw_os_error()
    }

    /// True if this account lacks permission.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        matches!(self.errno(), Some(libc::EACCES | libc::EPERM | libc::EROFS))
    }

    /// True if the subject (usually a process) no longer exists.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self.errno(), Some(libc::ENOENT | libc::ESRCH))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_call_subject_and_errno() {
        let error =
            SysError::new("pidfd_open", "process 7", io::Error::from_raw_os_error(libc::ESRCH));
        let text = error.to_string();
        assert!(text.starts_with("`pidfd_open` on process 7 failed: "), "{text}");
        assert!(text.contains("os error 3"), "{text}");
        assert!(error.is_gone());
        assert_eq!(SysError::malformed("read", "/x").errno(), None);
    }

    #[test]
    fn an_older_kernel_is_named_so() {
        let error = |errno| SysError::new("madvise", "x", io::Error::from_raw_os_error(errno));
        let text = error(libc::EINVAL).lacking_before("Linux 5.14").to_string();
        assert!(text.starts_with("`madvise` on x (in Linux 5.14 and later) failed: "), "{text}");
        assert_eq!(error(libc::ENOTTY).lacking_before("Linux 6.7").errno(), Some(libc::ENOTTY));
        assert_eq!(error(libc::EFAULT).lacking_before("Linux 6.7").subject, "x");
    }
}
