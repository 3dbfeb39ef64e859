//! The helper program of the live tests, and running them again as an ordinary user.

#![allow(
    unsafe_code,
    clippy::unwrap_used,
    clippy::print_stdout,
    unreachable_pub,
    reason = "a test fails by panicking, and says when it skips; shared by several test programs; signals"
)]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The helper program, or a copy that any account can read when the tests run as another user.
pub fn agent() -> PathBuf {
    heed_signals();
    std::env::var_os("TRACEE_AGENT")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_tracee-agent")), PathBuf::from)
}

/// Restores the default effect of signals, for this test program and for what it starts. A script that starts
/// the tests in the background has some of them ignored.
pub fn heed_signals() {
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the default action runs no code of the test program.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Copies a program to the place where it will be executed. A separate process copies it: while this one writes
/// a file, another of its threads may start a child. That child holds the file open for a moment, and execve
/// refuses a file that is open for writing (ETXTBSY).
pub fn install(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg(from).arg(to).status().unwrap().success());
}

/// Runs this test program again as uid 65534 without capabilities. All of it must pass.
pub fn run_again_as_an_ordinary_user() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP as_an_ordinary_user_the_same_holds: only root can become another user");
        return;
    }
    let open = |mode| std::fs::Permissions::from_mode(mode);
    let dir = tempfile::Builder::new().permissions(open(0o755)).tempdir().unwrap();
    let (test, helper) = (dir.path().join("test"), dir.path().join("agent"));
    install(&std::env::current_exe().unwrap(), &test);
    install(&agent(), &helper);
    let scratch = dir.path().join("scratch");
    std::fs::create_dir(&scratch).unwrap();
    std::fs::set_permissions(&scratch, open(0o777)).unwrap();
    let out = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&test)
        .env("TRACEE_AGENT", &helper)
        .env("TMPDIR", &scratch)
        .env("HOME", &scratch)
        .current_dir(&scratch)
        .output();
    match out {
        Ok(out) => assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout)),
        Err(error) => println!("SKIP as_an_ordinary_user_the_same_holds: setpriv: {error}"),
    }
}
