//! State of this process at its start, before the Rust runtime changed it. The runtime ignores SIGPIPE, and
//! opens /dev/null in place of closed standard descriptors (library/std/src/sys/pal/unix). Neither can be
//! detected afterwards. Programs started from here get the original state: a program whose output is closed
//! must see its writes fail.
//!
//! A function in `.init_array` records it, which the C library runs before `main`: 64 `sigaction(2)` and 3
//! `fcntl(2)` calls, some 5 us.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bit `n - 1` stands for signal `n`.
static IGNORED: AtomicU64 = AtomicU64::new(0);

/// Bit `n` stands for descriptor `n` of 0, 1 and 2.
static CLOSED: AtomicU32 = AtomicU32::new(0);

// SAFETY: the section holds pointers to functions with the C calling convention, as this is. The function
// needs nothing of the runtime: it makes system calls and stores numbers.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = record;

extern "C" fn record() {
    IGNORED.store(ignored_now(), Ordering::Relaxed);
    CLOSED.store(closed_now(), Ordering::Relaxed);
}

fn ignored_now() -> u64 {
    let mut ignored = 0;
    for signal in 1..=64 {
        // SAFETY: a sigaction is plain integers and nullable pointers.
        let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: reads the action of `signal` into a live local sigaction.
        let known = unsafe { libc::sigaction(signal, ptr::null(), &raw mut now) } == 0;
        if known && now.sa_sigaction == libc::SIG_IGN {
            ignored |= 1 << (signal - 1);
        }
    }
    ignored
}

fn closed_now() -> u32 {
    let mut closed = 0;
    for descriptor in 0..3 {
        // SAFETY: F_GETFD only reads the flags of a descriptor, or fails.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } < 0 {
            closed |= 1 << descriptor;
        }
    }
    closed
}

/// The signals that were ignored; bit `n - 1` stands for signal `n`.
#[must_use]
pub fn ignored() -> u64 {
    IGNORED.load(Ordering::Relaxed)
}

/// Whether standard descriptor 0, 1 or 2 was closed.
#[must_use]
pub fn was_closed(descriptor: u32) -> bool {
    descriptor < 3 && CLOSED.load(Ordering::Relaxed) & (1 << descriptor) != 0
}

/// Runs in a forked child that is about to execute a program. Closes standard descriptor 0, 1 or 2 if it was
/// closed when this process started. Async-signal-safe.
pub fn close_again(descriptor: u32) {
    if was_closed(descriptor) {
        // SAFETY: no object owns what the runtime opened there; `exec` follows.
        unsafe { libc::close(descriptor.cast_signed()) };
    }
}

/// The path that was passed to `execve(2)`, which the argument list need not contain. Empty if the kernel did
/// not provide it (`AT_EXECFN`, getauxval(3)).
#[must_use]
pub fn file() -> &'static OsStr {
    // SAFETY: reads the auxiliary vector, which the kernel put above the stack; 0 for an unknown entry.
    let text = unsafe { libc::getauxval(libc::AT_EXECFN) } as *const libc::c_char;
    if text.is_null() {
        return OsStr::new("");
    }
    // SAFETY: the kernel ends the text with a NUL, and it stays above the stack for the life of this process.
    OsStr::from_bytes(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// Resets SIGPIPE to its default, which the runtime changed, unless it was ignored at the start. A tool in a
/// pipeline then ends when its reader does.
pub fn restore_pipe_signal() {
    if ignored() & (1 << (libc::SIGPIPE - 1)) == 0 {
        // SAFETY: SIG_DFL runs no code of this program.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_the_one_that_runs() {
        let runs = std::env::current_exe().unwrap();
        assert_eq!(std::path::Path::new(file()).canonicalize().unwrap(), runs);
    }

    #[test]
    fn the_runtime_is_seen_through() {
        // The test harness is started with SIGPIPE at its default, and the runtime ignores it.
        assert_ne!(ignored_now() & (1 << (libc::SIGPIPE - 1)), 0);
        assert_eq!(ignored() & (1 << (libc::SIGKILL - 1)), 0);
        assert!(!was_closed(1) && !was_closed(7));
    }
}
