//! For tests: a child that waits for input that never comes.

use crate::ptrace::request;
use pagewise_kernel::proc::stat;
use std::process::{Child, Command, Stdio};

/// A `cat` and its id. It is already waiting for input, so its libraries are mapped. Its input ends when the
/// child is dropped or killed.
pub(crate) fn cat() -> (Child, i32) {
    let child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat is everywhere");
    let pid = i32::try_from(child.id()).expect("process ids are small");
    while stat::read(pid).expect("it lives").state != 'S' {
        std::thread::yield_now();
    }
    (child, pid)
}

/// Like [`cat`], seized by this thread. If that is not permitted, prints a line that names `test` and returns
/// `None`.
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
pub(crate) fn seized_cat(test: &str) -> Option<(Child, i32)> {
    let (mut child, pid) = cat();
    let Err(error) = request::seize(pid, 0) else { return Some((child, pid)) };
    println!("SKIP {test}: {error}");
    // It has not ended, which would be the only reason for the kill to fail.
    let _gone = child.kill();
    let _reaped = child.wait();
    None
}
