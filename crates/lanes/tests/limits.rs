//! The capacity of the pipes at both ends, and copies when the user's limits leave no room for it.

#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used, reason = "a test program")]

use pagewise_lanes::copy::PIPE;
use pagewise_lanes::{CopyJob, CopyRoute};
use rustix::io::Errno;
use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::os::unix::net::UnixStream;
use std::process::Command;

/// Set when the test program runs again as another user.
const INNER: &str = "LANES_TEST_LIMITED";

const SIZE: usize = 700_001;

/// Which of the pipes at both ends a copy of `size` bytes has enlarged. The sink's pipe has `capacity` bytes at
/// first.
fn grown(size: usize, capacity: usize, with: impl FnOnce(CopyJob<'_>) -> CopyJob<'_>) -> [bool; 2] {
    let (from, mut feed) = pipe().unwrap();
    let (mut drain, to) = pipe().unwrap();
    fcntl_setpipe_size(&to, capacity).unwrap();
    let now = || [&from as &dyn std::os::fd::AsFd, &to].map(|fd| fcntl_getpipe_size(fd).unwrap());
    let before = now();
    let feeder = std::thread::spawn(move || feed.write_all(&vec![0; size]).unwrap());
    let drainer = std::thread::spawn(move || std::io::copy(&mut drain, &mut std::io::sink()));
    with(CopyJob::new(&from, &to)).run().unwrap();
    let after = now();
    drop(to);
    feeder.join().unwrap();
    drainer.join().unwrap().unwrap();
    [0, 1].map(|end| after[end] > before[end])
}

#[test]
fn only_the_sinks_pipe_is_grown_and_only_by_a_large_copy() {
    const USUAL: usize = 65_536;
    const LARGE: usize = 300_000;
    // Not possible if the user has many pipes or the administrator sets a lower limit.
    let may = pipe().is_ok_and(|pipe| fcntl_setpipe_size(&pipe.1, PIPE).is_ok());
    assert_eq!(grown(LARGE, USUAL, |copy| copy), [false, may]);
    assert_eq!(grown(LARGE, USUAL, |copy| copy.live()), [false, may]);
    assert_eq!(grown(LARGE, USUAL, |copy| copy.grow_source()), [may, may]);
    assert_eq!(grown(LARGE, USUAL, |copy| copy.keep_capacity()), [false, false]);
    assert_eq!(grown(USUAL, USUAL, |copy| copy), [false, false]);
    // The caller has chosen this capacity.
    assert_eq!(grown(LARGE, 2 * USUAL, |copy| copy), [false, false]);
}

/// Opens pipes of 1 MiB until the user's limit is reached.
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
fn passes(is_socket: bool, sides: bool) -> CopyRoute {
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
    let copy = CopyJob::new(&from, &to).live();
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
    assert_eq!(passes(false, false), CopyRoute::Splice);
    assert_eq!(passes(true, false), CopyRoute::ReadWrite);
    // A pipe that the engine makes would have two slots as well.
    assert_eq!(passes(false, true), CopyRoute::ReadWrite);
}

/// Runs one test of this program again as uid 65534, which has no privilege and no pipes.
fn run_again_as_another_user(name: &str) {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP {name}: only root can become a user who has no pipes yet");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let open = || std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(place.path(), open()).unwrap();
    let test = place.path().join("test");
    // A separate process copies it: a child that another thread starts would hold it open for writing.
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
