//! A writer lends its pages to a pipe or socket and overwrites them once they have left it
//! (`tests/programs/lender.c`). It stands before [`copy`] and [`FanOut`]. What arrives is what was written. With
//! `live` it is not, which shows that the test would catch the writer.

#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used, reason = "a test program")]

use pagewise_lanes::{CopyJob, FanOut};
use std::fs::File;
use std::io::{PipeWriter, Read, Seek, pipe};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread::JoinHandle;

/// Bytes that each writer writes.
const BYTES: usize = 32 << 20;

/// The writer's ways into a pipe.
const INTO_PIPE: [&str; 3] = ["capacity", "default", "drained"];

/// The writer, built once. `None` without a C compiler.
fn lender() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/lender.c");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lender");
        let done = Command::new("cc").args(["-O2", "-o"]).args([&program, &source]).status();
        done.is_ok_and(|status| status.success()).then_some(program)
    });
    if built.is_none() {
        println!("SKIP a writer that lends its pages: no C compiler (cc)");
    }
    built.as_deref()
}

/// A writer in one of its ways, and the end that its words are read from.
fn writer(lender: &Path, way: &str) -> (Child, OwnedFd) {
    let (from, to): (OwnedFd, OwnedFd) = match way {
        "socket" => {
            let (near, far) = UnixStream::pair().unwrap();
            (near.into(), far.into())
        }
        _ => {
            let (near, far) = pipe().unwrap();
            (near.into(), far.into())
        }
    };
    let mut command = Command::new(lender);
    command.args(["write", &BYTES.to_string(), way]).stdout(Stdio::from(to));
    (command.spawn().unwrap(), from)
}

/// The number of words that are missing or in the wrong place.
fn wrong(mut from: impl Read) -> usize {
    let (mut piece, mut held, mut next, mut wrong) = (vec![0; 1 << 16], 0, 0_usize, 0);
    loop {
        let n = from.read(&mut piece[held..]).unwrap();
        if n == 0 {
            return wrong + (BYTES / 8).saturating_sub(next);
        }
        held += n;
        let whole = held / 8 * 8;
        for word in piece[..whole].chunks_exact(8) {
            wrong += usize::from(u64::from_le_bytes(word.try_into().unwrap()) != next as u64);
            next += 1;
        }
        piece.copy_within(whole..held, 0);
        held -= whole;
    }
}

/// A pipe whose wrong words are counted.
fn checked() -> (PipeWriter, JoinHandle<usize>) {
    let (from, to) = pipe().unwrap();
    (to, std::thread::spawn(move || wrong(from)))
}

/// Wrong words after a copy into a pipe.
fn through_pipe(lender: &Path, way: &str, is_live: bool) -> usize {
    let (mut child, from) = writer(lender, way);
    let (to, found) = checked();
    let copy = CopyJob::new(&from, &to);
    let copied = if is_live { copy.live().run() } else { copy.run() }.unwrap();
    drop(to);
    assert!(child.wait().unwrap().success());
    assert_eq!(copied.bytes, BYTES as u64);
    found.join().unwrap()
}

#[test]
fn a_copy_into_a_pipe_is_exact() {
    let Some(lender) = lender() else { return };
    for way in INTO_PIPE.into_iter().chain(["socket"]) {
        assert_eq!(through_pipe(lender, way, false), 0, "{way}");
    }
}

#[test]
fn a_copy_into_a_file_is_exact() {
    let Some(lender) = lender() else { return };
    for way in INTO_PIPE.into_iter().chain(["socket"]) {
        let (mut child, from) = writer(lender, way);
        let mut file = tempfile::tempfile().unwrap();
        assert_eq!(pagewise_lanes::copy(&from, &file).unwrap().bytes, BYTES as u64);
        assert!(child.wait().unwrap().success());
        file.rewind().unwrap();
        assert_eq!(wrong(file), 0, "{way}");
    }
}

#[test]
fn a_copy_into_a_socket_is_exact() {
    let Some(lender) = lender() else { return };
    for way in INTO_PIPE.into_iter().chain(["socket"]) {
        let (mut child, from) = writer(lender, way);
        let (to, far) = UnixStream::pair().unwrap();
        let found = std::thread::spawn(move || wrong(far));
        assert_eq!(pagewise_lanes::copy(&from, &to).unwrap().bytes, BYTES as u64);
        drop(to);
        assert!(child.wait().unwrap().success());
        assert_eq!(found.join().unwrap(), 0, "{way}");
    }
}

/// Wrong words in each sink of a fan-out: two pipes and a file.
fn through_fan(lender: &Path, way: &str, is_live: bool) -> [usize; 3] {
    let (mut child, from) = writer(lender, way);
    let ((left, left_found), (right, right_found)) = (checked(), checked());
    let mut file = tempfile::tempfile().unwrap();
    let sinks: [OwnedFd; 3] = [left.into(), right.into(), file.try_clone().unwrap().into()];
    let fan = FanOut::new(&from, &sinks);
    let fan = if is_live { fan.live() } else { fan };
    let moved = fan.run(|sink, error| panic!("sink {sink}: {error}")).unwrap();
    drop(sinks);
    assert!(child.wait().unwrap().success());
    assert_eq!(moved, BYTES as u64);
    file.rewind().unwrap();
    [left_found.join().unwrap(), right_found.join().unwrap(), wrong(file)]
}

#[test]
fn a_fan_out_is_exact() {
    let Some(lender) = lender() else { return };
    for way in INTO_PIPE.into_iter().chain(["socket"]) {
        assert_eq!(through_fan(lender, way, false), [0; 3], "{way}");
    }
}

#[test]
fn live_passes_on_what_the_writer_writes_over() {
    let Some(lender) = lender() else { return };
    let some = |wrong: usize| wrong > BYTES / 8 / 100;
    assert!(some(through_pipe(lender, "capacity", true)), "the copy saw nothing");
    assert!(through_fan(lender, "capacity", true).into_iter().any(some), "the fan-out saw nothing");
}

#[test]
fn the_pipe_of_the_source_keeps_its_capacity() {
    let (from, feed) = pipe().unwrap();
    let (to, drained) = checked();
    let before = rustix::pipe::fcntl_getpipe_size(&feed).unwrap();
    let feeder = std::thread::spawn(move || {
        let mut feed = File::from(OwnedFd::from(feed));
        std::io::copy(&mut std::io::repeat(0).take(1 << 20), &mut feed).unwrap();
        rustix::pipe::fcntl_getpipe_size(&feed).unwrap()
    });
    pagewise_lanes::copy(&from, &to).unwrap();
    drop(to);
    drained.join().unwrap();
    assert_eq!(feeder.join().unwrap(), before);
}
