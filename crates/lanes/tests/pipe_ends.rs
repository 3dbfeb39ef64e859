//! The pipe ends against the kernel. The same bytes come out as went in, for all sizes, ways to wait and states
//! of a descriptor.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test fails by panicking")]

use pagewise_lanes::DescriptorKind;
use pagewise_lanes::buffer::{BufferPages, Dropped, Frozen, SendWay};
use pagewise_lanes::pipe::{self, PipeOptions, Reader, WaitMode, Writer};
use proptest::prelude::*;
use rustix::fs::OFlags;
use std::fs::File;
use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

const WAITS: [WaitMode; 3] = [WaitMode::Block, WaitMode::Adaptive, WaitMode::Busy];

/// Pseudo-random bytes by position, so that a displaced byte shows.
fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// A pipe of `capacity` bytes, or of the smallest size that the kernel allows.
fn sized(capacity: usize) -> (PipeReader, PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&writer, capacity).unwrap();
    (reader, writer)
}

/// Writes in pieces in a thread, and reads in pieces here.
fn exchange(
    mut reader: Reader,
    mut writer: Writer,
    bytes: &[u8],
    (write, read): (usize, usize),
) -> Vec<u8> {
    thread::scope(|scope| {
        scope.spawn(move || bytes.chunks(write).for_each(|piece| writer.write_all(piece).unwrap()));
        let (mut got, mut buffer) = (Vec::new(), vec![0; read]);
        loop {
            match reader.read(&mut buffer).unwrap() {
                0 => return got,
                n => got.extend_from_slice(&buffer[..n]),
            }
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn all_sizes_are_exact(
        len in 0usize..1_500_000,
        write in 1usize..400_000,
        read in 1usize..400_000,
        capacity in 0u32..9,
        writes in 0usize..3,
        reads in 0usize..3,
    ) {
        // A million calls of one byte each would show no more than a few thousand do.
        let len = len.min(write * 5_000).min(read * 5_000);
        let (reader, writer) = sized(4_096 << capacity);
        let reader = PipeOptions::new().wait(WAITS[reads]).capacity(0).reader(reader).unwrap();
        let writer = PipeOptions::new().wait(WAITS[writes]).capacity(0).writer(writer).unwrap();
        let bytes = pattern(len);
        prop_assert!(exchange(reader, writer, &bytes, (write, read)) == bytes);
    }

    #[test]
    fn skipping_is_exact(
        pieces in proptest::collection::vec((0u64..200_000, 0usize..50_000), 1..8),
        wait in 0usize..3,
    ) {
        let total: usize = pieces.iter().map(|(skip, read)| *skip as usize + read).sum();
        let bytes = pattern(total);
        let (mut reader, mut writer) = PipeOptions::new().wait(WAITS[wait]).pair().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| { writer.write_all(&bytes).unwrap(); drop(writer) });
            let mut at = 0;
            for (skip, read) in pieces {
                assert_eq!(reader.skip(skip).unwrap(), skip);
                at += skip as usize;
                let mut got = vec![0; read];
                reader.read_exact(&mut got).unwrap();
                assert!(got == bytes[at..at + read]);
                at += read;
            }
            assert_eq!(reader.skip(1).unwrap(), 0);
        });
    }
}

/// What a reader gets from what `produce` writes.
fn received(wait: WaitMode, capacity: usize, produce: impl FnOnce(&mut Writer) + Send) -> Vec<u8> {
    let (reader, writer) = sized(capacity);
    let options = PipeOptions::new().wait(wait).capacity(0);
    let mut writer = options.writer(writer).unwrap();
    let mut reader = options.reader(reader).unwrap();
    thread::scope(|scope| {
        scope.spawn(move || produce(&mut writer));
        let mut got = Vec::new();
        reader.read_to_end(&mut got).unwrap();
        got
    })
}

#[test]
fn frozen_bytes_arrive_as_often_as_they_are_sent() {
    let bytes = pattern(1_300_000);
    for frozen in [
        Frozen::new(&bytes).unwrap(),
        Frozen::build_private(bytes.len(), |space| space.copy_from_slice(&bytes)).unwrap(),
    ] {
        for (wait, capacity) in WAITS.into_iter().flat_map(|w| [(w, 8_192), (w, 1 << 20)]) {
            let got = received(wait, capacity, |writer| {
                writer.send(&frozen, 0..frozen.len()).unwrap();
                writer.write_all(b"between").unwrap();
                writer.send(&frozen, 999..700_001).unwrap();
                assert_eq!(writer.send(&frozen, 0..1_300_001).unwrap_err().taken, 0);
            });
            let expected = [&bytes, &b"between"[..], &bytes[999..700_001]].concat();
            assert!(got == expected, "{wait:?} {capacity}");
        }
    }
}

#[test]
fn dropped_bytes_arrive_though_the_region_is_written_again() {
    let bytes = pattern(1_000_000);
    for (wait, capacity) in WAITS.into_iter().flat_map(|w| [(w, 8_192), (w, 1 << 20)]) {
        let got = received(wait, capacity, |writer| {
            let mut region = Dropped::new(100_000, BufferPages::Base).unwrap();
            for piece in bytes.chunks(33_333) {
                region.space(piece.len()).unwrap()[..piece.len()].copy_from_slice(piece);
                writer.give(&mut region, piece.len()).unwrap();
            }
            assert_eq!(writer.give(&mut region, 1 << 30).unwrap_err().taken, 0);
        });
        assert!(got == bytes, "{wait:?} {capacity}");
    }
}

#[test]
fn what_is_no_pipe_gets_frozen_and_dropped_bytes_too() {
    let bytes = pattern(300_000);
    let mut file = tempfile::tempfile().unwrap();
    let mut writer = Writer::new(file.try_clone().unwrap()).unwrap();
    let frozen = Frozen::new(&bytes).unwrap();
    let mut region = Dropped::new(bytes.len(), BufferPages::Base).unwrap();
    region.as_mut_slice()[..bytes.len()].copy_from_slice(&bytes);
    assert_eq!(writer.send(&frozen, 0..bytes.len()).unwrap(), SendWay::Copied);
    assert_eq!(writer.give(&mut region, bytes.len()).unwrap(), SendWay::Copied);
    file.rewind().unwrap();
    let mut got = Vec::new();
    file.read_to_end(&mut got).unwrap();
    assert!(got == [&bytes[..], &bytes[..]].concat());
}

#[test]
fn a_reader_that_is_gone_is_told_by_references_too() {
    let frozen = Frozen::new(&pattern(3_000_000)).unwrap();
    for wait in WAITS {
        let (mut reader, mut writer) = PipeOptions::new().wait(wait).pair().unwrap();
        let sending = thread::spawn({
            let frozen = frozen.clone();
            move || writer.send(&frozen, 0..frozen.len()).unwrap_err()
        });
        reader.read_exact(&mut vec![0; 1_000_000]).unwrap();
        drop(reader);
        let error = std::io::Error::from(sending.join().unwrap());
        assert_eq!(error.kind(), ErrorKind::BrokenPipe, "{wait:?}");
    }
}

#[test]
fn an_end_at_once_is_seen() {
    for wait in WAITS {
        let (mut reader, writer) = PipeOptions::new().wait(wait).pair().unwrap();
        drop(writer);
        assert_eq!(reader.read(&mut [0; 16]).unwrap(), 0);
        assert_eq!(reader.skip(u64::MAX).unwrap(), 0);
    }
}

#[test]
fn a_reader_that_is_gone_is_a_broken_pipe() {
    for wait in WAITS {
        let (mut reader, mut writer) = PipeOptions::new().wait(wait).pair().unwrap();
        let writing = thread::spawn(move || {
            loop {
                if let Err(error) = writer.write_all(&[1; 300_000]) {
                    return error.kind();
                }
            }
        });
        reader.read_exact(&mut vec![0; 1_000_000]).unwrap();
        drop(reader);
        assert_eq!(writing.join().unwrap(), ErrorKind::BrokenPipe, "{wait:?}");
    }
}

#[test]
fn nonblocking_descriptors_are_waited_for_and_left_so() {
    for wait in WAITS {
        let (reader, writer) = sized(65_536);
        let (kept_reader, kept_writer) = (reader.try_clone().unwrap(), writer.try_clone().unwrap());
        for end in [reader.as_fd(), writer.as_fd()] {
            rustix::fs::fcntl_setfl(end, OFlags::NONBLOCK).unwrap();
        }
        let options = PipeOptions::new().wait(wait).capacity(0);
        let (reader, writer) = (options.reader(reader).unwrap(), options.writer(writer).unwrap());
        drop(kept_writer);
        let bytes = pattern(2_000_000);
        assert!(exchange(reader, writer, &bytes, (300_000, 7_000)) == bytes, "{wait:?}");
        assert!(rustix::fs::fcntl_getfl(&kept_reader).unwrap().contains(OFlags::NONBLOCK));
    }
}

#[test]
fn blocking_descriptors_stay_so() {
    let (reader, writer) = pipe::pair().unwrap();
    let kept = reader.as_fd().try_clone_to_owned().unwrap();
    let bytes = pattern(1_000_000);
    assert!(exchange(reader, writer, &bytes, (10_000, 10_000)) == bytes);
    assert!(!rustix::fs::fcntl_getfl(&kept).unwrap().contains(OFlags::NONBLOCK));
}

#[test]
fn fifos_opened_by_name_serve_as_well() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("fifo");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
    for wait in WAITS {
        let opening = thread::spawn({
            let path = path.clone();
            move || File::options().write(true).open(path).unwrap()
        });
        let reader = File::open(&path).unwrap();
        let options = PipeOptions::new().wait(wait);
        let writer = options.writer(opening.join().unwrap()).unwrap();
        let bytes = pattern(3_000_000);
        let got = exchange(options.reader(reader).unwrap(), writer, &bytes, (100_000, 100_000));
        assert!(got == bytes, "{wait:?}");
    }
}

#[test]
fn both_ends_on_one_processor_finish() {
    let bytes = pattern(20_000_000);
    let pinned = thread::spawn(move || {
        let before = rustix::thread::sched_getaffinity(None).unwrap();
        let first = (0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| before.is_set(*cpu)).unwrap();
        let mut one = rustix::thread::CpuSet::new();
        one.set(first);
        // Threads started after this inherit it.
        rustix::thread::sched_setaffinity(None, &one).unwrap();
        let (reader, writer) = pipe::pair().unwrap();
        exchange(reader, writer, &bytes, (64_000, 64_000)) == bytes
    });
    assert!(pinned.join().unwrap());
}

#[test]
fn a_slow_peer_is_slept_for() {
    let (mut reader, mut writer) = pipe::pair().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..40 {
                thread::sleep(Duration::from_millis(5));
                writer.write_all(b"tick").unwrap();
            }
        });
        while reader.skip(4).unwrap() == 4 {}
    });
    let waits = reader.waits();
    assert!(waits.sleeps > waits.spins, "{waits:?}");
}

#[test]
fn what_is_no_pipe_is_written_and_read() {
    let bytes = pattern(700_000);
    let (left, right) = UnixStream::pair().unwrap();
    let (reader, writer) = (Reader::new(left).unwrap(), Writer::new(right).unwrap());
    assert_eq!(
        (reader.end().kind, writer.end().kind),
        (DescriptorKind::Socket, DescriptorKind::Socket)
    );
    assert_eq!((reader.capacity(), writer.capacity()), (0, 0));
    assert!(exchange(reader, writer, &bytes, (100_000, 30_000)) == bytes);

    let mut file = tempfile::tempfile().unwrap();
    let mut writer = Writer::new(file.try_clone().unwrap()).unwrap();
    writer.write_all(&bytes).unwrap();
    file.rewind().unwrap();
    let mut reader = Reader::new(file).unwrap();
    assert_eq!(reader.skip(100_000).unwrap(), 100_000);
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).unwrap();
    assert!(rest == bytes[100_000..]);
}

#[test]
fn the_rest_goes_to_the_copy_engine() {
    let (mut reader, mut writer) = pipe::pair().unwrap();
    let bytes = pattern(300_000);
    writer.write_all(&bytes).unwrap();
    drop(writer);
    reader.skip(1_000).unwrap();
    let mut file = tempfile::tempfile().unwrap();
    assert_eq!(reader.copy_to(&file).unwrap().bytes, 299_000);
    file.rewind().unwrap();
    let mut got = Vec::new();
    file.read_to_end(&mut got).unwrap();
    assert!(got == bytes[1_000..]);
}

#[test]
fn errors_are_the_kernels() {
    let mut writer = Writer::new(File::open("/dev/null").unwrap()).unwrap();
    assert_eq!(writer.write(b"?").unwrap_err().raw_os_error(), Some(9));
    let mut full = Writer::new(File::options().write(true).open("/dev/full").unwrap()).unwrap();
    assert_eq!(full.write(b"?").unwrap_err().kind(), ErrorKind::StorageFull);
    let (_reader, writer) = std::io::pipe().unwrap();
    let mut backwards = Reader::new(OwnedFd::from(writer)).unwrap();
    assert_eq!(backwards.read(&mut [0]).unwrap_err().raw_os_error(), Some(9));
    assert_eq!(backwards.skip(1).unwrap_err().raw_os_error(), Some(9));
}
