//! The two halves of a ring: in one process, in two processes, with a reader that is killed, and with a peer
//! that sends its own acknowledgements.

#![allow(
    unsafe_code,
    clippy::unwrap_used,
    reason = "contracts that the tests keep; a test fails by panicking"
)]

mod child;

use child::{alone, fork, wait};
use pagewise_lanes::buffer::acked::{self, RingReader, RingWriter};
use pagewise_lanes::buffer::{BufferPages, SendWay};
use rustix::io::Errno;
use std::io::Read;

const SIZE: usize = 8_192;
const ROUNDS: usize = 2_000;

fn is_right(round: usize, bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == round as u8)
}

fn read_all(mut reader: RingReader) -> bool {
    let mut bytes = [0; SIZE];
    let all =
        (0..ROUNDS).all(|round| reader.read_exact(&mut bytes).is_ok() && is_right(round, &bytes));
    all && matches!(reader.read(&mut bytes), Ok(0))
}

fn write_all(writer: &mut RingWriter) {
    for round in 0..ROUNDS {
        let mut space = writer.space().unwrap();
        space.fill(round as u8);
        space.send(SIZE).unwrap();
    }
}

#[test]
fn halves_work_in_two_processes() {
    let _alone = alone();
    let (mut writer, reader) = acked::ring(3, SIZE, BufferPages::Base).unwrap();
    // SAFETY: the child makes a reader of the files, and the parent closes them.
    let files = unsafe { reader.into_files() }.unwrap();
    let mut parts = Some((writer, files));
    let pid = fork(|| {
        let (writer, files) = parts.take().unwrap();
        drop(writer);
        read_all(RingReader::from_files(files).unwrap())
    });
    let (back, files) = parts.take().unwrap();
    writer = back;
    drop(files);
    write_all(&mut writer);
    drop(writer);
    assert_eq!(wait(pid), 0);
}

#[test]
fn a_reader_that_is_killed_is_found_gone() {
    let _alone = alone();
    let (mut writer, reader) = acked::ring(2, SIZE, BufferPages::Base).unwrap();
    let mut reader = Some(reader);
    let pid = fork(|| {
        let mut reader = reader.take().unwrap();
        reader.read_exact(&mut [0; 100]).unwrap();
        // SAFETY: takes no pointer; the child ends itself without a chance to tell.
        unsafe { libc::raise(libc::SIGKILL) };
        false
    });
    // This process closes its end. The child's is the last.
    drop(reader.take());
    let errno = loop {
        match writer.space().map(|space| space.send(SIZE)) {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => break error.errno,
            Err(errno) => break errno,
        }
    };
    assert_eq!(errno, Errno::PIPE);
    assert_eq!(libc::WTERMSIG(wait(pid)), libc::SIGKILL);
}

#[test]
fn a_region_waits_for_its_acknowledgement() {
    let _alone = alone();
    let (mut exit, entry) = std::io::pipe().unwrap();
    // SAFETY: this test reads from the pipe itself, by copying, and acknowledges what it has.
    let (mut writer, peer) =
        unsafe { RingWriter::over(entry.into(), 2, SIZE, BufferPages::Base) }.unwrap();
    for round in 0..2 {
        let mut space = writer.space().unwrap();
        space.fill(round);
        let sent = space.send(SIZE).unwrap();
        if sent == SendWay::Copied {
            // When bytes are copied, a region is free at once.
            assert!(writer.space().is_ok());
            return;
        }
    }
    let mut bytes = [0; SIZE];
    exit.read_exact(&mut bytes).unwrap();
    peer.acknowledge(SIZE - 1);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            writer.space().unwrap().fill(9);
        });
        exit.read_exact(&mut bytes).unwrap();
        assert!(is_right(1, &bytes) && !waiting.is_finished());
        peer.acknowledge(1);
        waiting.join().unwrap();
    });
}

#[test]
fn what_cannot_be_a_ring_is_refused() {
    assert_eq!(acked::ring(0, SIZE, BufferPages::Base).unwrap_err(), Errno::INVAL);
    assert_eq!(acked::ring(usize::MAX, SIZE, BufferPages::Base).unwrap_err(), Errno::NOMEM);
    let (exit, _entry) = std::io::pipe().unwrap();
    let file = tempfile::tempfile().unwrap();
    assert_eq!(RingReader::from_files([exit.into(), file.into()]).unwrap_err(), Errno::INVAL);
    let (mut writer, _reader) = acked::ring(1, SIZE, BufferPages::Base).unwrap();
    assert_eq!(writer.space().unwrap().send(SIZE + 1).unwrap_err().errno, Errno::INVAL);
    assert_eq!(writer.size(), SIZE);
}
