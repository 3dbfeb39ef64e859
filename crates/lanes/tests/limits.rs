//! The capacity of the pipes at both ends, and copies where the user's limits leave no room for it.

#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used, reason = "a test program")]

use pagewise_lanes::copy::PIPE;
use pagewise_lanes::{Copy, Way};
use rustix::io::Errno;
use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::os::unix::net::UnixStream;
use std::process::Command;

/// Set in the program that runs as another user.
const INNER: &str = "LANES_TEST_LIMITED";

const SIZE: usize = 700_001;

/// Capacities of the pipes at both ends of a copy, before and after.
fn capacities(keep: bool) -> [(usize, usize); 2] {
    let (from, feed) = pipe().unwrap();
    let (_drain, to) = pipe().unwrap();
    let now = || [&from as &dyn std::os::fd::AsFd, &to].map(|fd| fcntl_getpipe_size(fd).unwrap());
    let before = now();
    drop(feed);
    let copy = Copy::new(&from, &to);
    if keep { copy.keep_capacity().run() } else { copy.run() }.unwrap();
    let after = now();
    [(before[0], after[0]), (before[1], after[1])]
}

#[test]
fn both_pipes_are_grown_unless_they_are_to_be_kept() {
    for (before, after) in capacities(true) {
        assert_eq!(before, after);
    }
    for (before, after) in capacities(false) {
        assert!(after >= before);
        // Less where the user has many pipes or the administrator allows no more.
        let may = pipe().ok().and_then(|pipe| fcntl_setpipe_size(&pipe.1, PIPE).ok());
        assert!(after == PIPE || may.is_none(), "{after} bytes");
    }
}

/// Pipes of 1 MiB until the user gets no more.
fn take_all() -> Vec<(PipeReader, PipeWriter)> {
    let mut pipes = Vec::new();
    while pipes.len() < 4_096 {
        let next = pipe().unwrap();
        let grown = fcntl_setpipe_size(&next.1, PIPE);
        pipes.push(next);
        match grown {
            Ok(_) => {}
            Err(Errno::PERM) => return pipes,
            Err(other) => panic!("F_SETPIPE_SZ: {other}"),
        }
    }
    pipes
}

fn content() -> Vec<u8> {
    (0..SIZE).map(|at| (at % 251) as u8).collect()
}

/// Copies between two ends that other threads feed and drain.
fn passes(is_socket: bool, sides: bool) -> Way {
    let ((mut drain, to), feeder) = (pipe().unwrap(), |mut feed: Box<dyn Write + Send>| {
        std::thread::spawn(move || feed.write_all(&content()).unwrap())
    });
    let drainer = std::thread::spawn(move || {
        let mut all = Vec::new();
        drain.read_to_end(&mut all).unwrap();
        all
    });
    let (from, feeder): (std::os::fd::OwnedFd, _) = if is_socket {
        let (near, far) = UnixStream::pair().unwrap();
        (near.into(), feeder(Box::new(far)))
    } else {
        let (near, far) = pipe().unwrap();
        assert!(fcntl_getpipe_size(&near).unwrap() <= 2 * rustix::param::page_size());
        (near.into(), feeder(Box::new(far)))
    };
    let copy = Copy::new(&from, &to);
    let copied = if sides { copy.tell_sides().run() } else { copy.run() }.unwrap();
    drop(to);
    feeder.join().unwrap();
    assert!(drainer.join().unwrap() == content(), "the bytes differ");
    assert_eq!(copied.bytes, SIZE as u64);
    copied.way
}

#[test]
fn at_the_soft_limit_pipes_of_two_slots_serve() {
    const NAME: &str = "at_the_soft_limit_pipes_of_two_slots_serve";
    if std::env::var_os(INNER).is_none() {
        return run_again_as_another_user(NAME);
    }
    let pipes = take_all();
    if fcntl_getpipe_size(&pipe().unwrap().1).unwrap() > 2 * rustix::param::page_size() {
        println!("SKIP {NAME}: {} pipes of 1 MiB did not reach the soft limit", pipes.len());
        return;
    }
    for is_socket in [false, true] {
        assert_eq!(passes(is_socket, false), Way::Splice);
        // A pipe of our own would have two slots as well.
        assert_eq!(passes(is_socket, true), Way::ReadWrite);
    }
}

/// Runs one test of this program as uid 65534, which has no privilege and no pipes.
fn run_again_as_another_user(name: &str) {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP {name}: only root can become a user who has no pipes yet");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let open = || std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(place.path(), open()).unwrap();
    let test = place.path().join("test");
    // Not by this process: a child that another thread starts would hold it open for writing.
    let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&test).status();
    assert!(copied.unwrap().success());
    let ran = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&test)
        .args(["--exact", name, "--nocapture"])
        .env(INNER, "1")
        .current_dir("/")
        .output();
    match ran {
        Ok(out) => {
            let said = String::from_utf8_lossy(&out.stdout);
            assert!(out.status.success(), "{said}{}", String::from_utf8_lossy(&out.stderr));
            said.lines()
                .filter(|line| line.starts_with("SKIP"))
                .for_each(|line| println!("{line}"));
        }
        Err(error) => println!("SKIP {name}: setpriv: {error}"),
    }
}
