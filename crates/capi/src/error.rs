//! Errors for C: a negative errno, and a message that is kept for the thread.
//!
//! A panic must not unwind into C: it becomes ENOTRECOVERABLE.

use pagewise_lanes::CopyError;
use pagewise_lanes::buffer::SendError;
use rustix::io::Errno;
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// Message of the last failed call in this thread.
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// The reason why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    errno: Errno,
    message: String,
}

impl Failure {
    /// A failure with its message.
    pub(crate) fn new(errno: Errno, message: impl Into<String>) -> Self {
        Self { errno, message: message.into() }
    }

    /// An invalid argument.
    pub(crate) fn argument(message: &str) -> Self {
        Self::new(Errno::INVAL, message)
    }

    /// A failed function of the operating system.
    pub(crate) fn of_io(call: &str, error: &std::io::Error) -> Self {
        let errno = Errno::from_io_error(error).unwrap_or(Errno::IO);
        Self::new(errno, format!("`{call}` failed: {error}"))
    }

    /// A failed system call of the library.
    pub(crate) fn of_call(call: &str, errno: Errno) -> Self {
        Self::new(errno, format!("`{call}` failed: {errno}"))
    }

    /// True if a signal was the cause.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.errno == Errno::INTR
    }

    /// Keeps the message for this thread, and returns the negative errno.
    fn keep(self) -> i64 {
        let Self { errno, message } = self;
        let text = CString::new(message.replace('\0', " ")).unwrap_or_default();
        // A thread that is ending may have no storage left: the errno must do.
        let _kept = MESSAGE.try_with(|kept| *kept.borrow_mut() = text);
        -i64::from(errno.raw_os_error())
    }
}

impl From<CopyError> for Failure {
    fn from(error: CopyError) -> Self {
        Self::new(error.errno, error.to_string())
    }
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Self {
        Self::new(error.errno, error.to_string())
    }
}

/// Runs the body of a function. Returns its number, or the negative errno of its failure.
pub(crate) fn count(body: impl FnOnce() -> Result<i64, Failure>) -> i64 {
    let ended = catch_unwind(AssertUnwindSafe(body));
    let failed = |_| Err(Failure::new(Errno::NOTRECOVERABLE, "pagewise has a fault: it panicked"));
    ended.unwrap_or_else(failed).unwrap_or_else(Failure::keep)
}

/// As [`count`], for a function without a number: returns 0 on success.
pub(crate) fn answer(body: impl FnOnce() -> Result<(), Failure>) -> c_int {
    // An errno fits in an int.
    count(|| body().map(|()| 0)) as c_int
}

/// The message of the last failed call in this thread: one line without a line feed. The text is valid until
/// the next call of this thread fails. It is empty before the first failure.
#[unsafe(no_mangle)]
pub extern "C" fn pagewise_error_message() -> *const c_char {
    MESSAGE.try_with(|kept| kept.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn message() -> String {
        // SAFETY: the text belongs to this thread, and no call of this thread fails before it is copied.
        unsafe { CStr::from_ptr(pagewise_error_message()) }.to_string_lossy().into_owned()
    }

    #[test]
    fn a_panic_is_an_error() {
        let answered = answer(|| panic!("found by the test"));
        assert_eq!(answered, -libc::ENOTRECOVERABLE);
        assert!(message().contains("panicked"));
    }

    #[test]
    fn each_thread_has_its_own_message() {
        assert_eq!(answer(|| Err(Failure::argument("here"))), -libc::EINVAL);
        let other = std::thread::spawn(|| {
            let before = message();
            let _failed = answer(|| Err(Failure::argument("there\0")));
            (before, message())
        });
        assert_eq!(other.join().unwrap(), (String::new(), "there ".to_owned()));
        assert_eq!(message(), "here");
    }

    #[test]
    fn a_number_is_passed_on() {
        assert_eq!(count(|| Ok(1 << 40)), 1 << 40);
        assert_eq!(answer(|| Ok(())), 0);
    }
}
