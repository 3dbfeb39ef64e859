//! The buffers alone: what they send, what they refuse, the pages they use, and the references that the kernel
//! still reports.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking and says what it skipped"
)]

use pagewise_lanes::buffer::{BufferPages, Draft, Dropped, Frozen, FrozenStore, SendWay};
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;
use rustix::pipe::SpliceFlags;
use std::io::{PipeReader, PipeWriter, Read, Seek, Write};
use std::os::fd::OwnedFd;

const HUGE: usize = 2 << 20;

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(31) >> 3) as u8).collect()
}

/// A pipe, with room for `bytes` if the limits allow.
fn pipe(bytes: usize) -> (PipeReader, PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    let _size = rustix::pipe::fcntl_setpipe_size(&writer, bytes);
    (reader, writer)
}

fn read(reader: &mut PipeReader, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    reader.read_exact(&mut bytes).unwrap();
    bytes
}

fn both_stores(len: usize) -> [Frozen; 2] {
    let content = pattern(len);
    let fill = |space: &mut [u8]| space.copy_from_slice(&content);
    [Frozen::build(len, fill).unwrap(), Frozen::build_private(len, fill).unwrap()]
}

#[test]
fn frozen_bytes_are_what_was_put_in() {
    for len in [0, 1, 4095, 4096, 100_000, HUGE, HUGE + 1, 3 * HUGE] {
        for frozen in both_stores(len) {
            assert_eq!((frozen.len(), frozen.is_empty()), (len, len == 0));
            assert!(frozen.as_bytes() == pattern(len), "{len} bytes, {:?}", frozen.store());
        }
    }
}

#[test]
fn a_draft_is_zero_until_it_is_written() {
    for len in [0, 1, 100_000, HUGE + 1] {
        for mut draft in [Draft::new(len).unwrap(), Draft::private(len).unwrap()] {
            assert!(
                draft.as_mut_slice().len() == len && draft.as_mut_slice().iter().all(|b| *b == 0)
            );
            draft.as_mut_slice().copy_from_slice(&pattern(len));
            assert!(draft.freeze().unwrap().as_bytes() == pattern(len), "{len}");
        }
    }
}

#[test]
fn only_files_that_nobody_can_change_are_taken() {
    let frozen = Frozen::new(&pattern(3 * HUGE)).unwrap();
    let Some(file) = frozen.memfd() else {
        eprintln!("SKIP only_files_that_nobody_can_change_are_taken: no sealed memfd here");
        return;
    };
    let again = |len| Frozen::from_memfd(file.try_clone_to_owned().unwrap(), len);
    for len in [0, 1, HUGE, 3 * HUGE] {
        assert!(again(len).unwrap().as_bytes() == &pattern(3 * HUGE)[..len], "{len}");
    }
    assert_eq!(again(3 * HUGE + 1).unwrap_err(), Errno::INVAL);
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let all = [SealFlags::WRITE, SealFlags::GROW, SealFlags::SHRINK];
    for missing in all {
        let file = rustix::fs::memfd_create("loose", flags).unwrap();
        rustix::fs::ftruncate(&file, 1000).unwrap();
        for seal in all.into_iter().filter(|seal| *seal != missing) {
            rustix::fs::fcntl_add_seals(&file, seal).unwrap();
        }
        let sealed = file.try_clone().unwrap();
        assert_eq!(Frozen::from_memfd(file, 1000).unwrap_err(), Errno::PERM, "{missing:?}");
        rustix::fs::fcntl_add_seals(&sealed, missing).unwrap();
        assert_eq!(Frozen::from_memfd(sealed, 1000).unwrap().as_bytes(), [0; 1000]);
    }
    assert_eq!(Frozen::from_memfd(pipe(1).0, 1).unwrap_err(), Errno::INVAL);
}

#[test]
fn ranges_are_sent_exactly_and_by_reference() {
    for frozen in both_stores(300_000) {
        let content = pattern(300_000);
        for range in [0..0, 0..1, 4095..4097, 5..60_000, 299_999..300_000, 250_000..300_000] {
            let (mut reader, writer) = pipe(1 << 20);
            let sent = frozen.send(&writer, range.clone()).unwrap();
            assert_eq!(sent, SendWay::ByReference, "{range:?}");
            assert!(read(&mut reader, range.len()) == content[range]);
        }
        let (_reader, writer) = pipe(1 << 20);
        #[allow(clippy::reversed_empty_ranges, reason = "what must be refused")]
        for range in [0..300_001, 300_001..300_001, 2..1] {
            assert_eq!(frozen.send(&writer, range).unwrap_err().errno, Errno::INVAL);
        }
    }
}

#[test]
fn more_than_a_pipe_holds_waits_for_the_reader() {
    for frozen in both_stores(HUGE + 5) {
        let (mut reader, writer) = pipe(8192);
        rustix::io::ioctl_fionbio(&writer, frozen.store() == FrozenStore::Sealed).unwrap();
        let handle = frozen.clone();
        let sender = std::thread::spawn(move || {
            handle.send(&writer, 0..HUGE + 5).unwrap();
            handle.send(&writer, 7..20).unwrap()
        });
        let mut got = Vec::new();
        reader.read_to_end(&mut got).unwrap();
        assert_eq!(sender.join().unwrap(), SendWay::ByReference);
        assert!(got[..HUGE + 5] == *frozen.as_bytes());
        assert!(got[HUGE + 5..] == frozen.as_bytes()[7..20]);
    }
}

#[test]
fn what_is_no_pipe_gets_a_copy() {
    for frozen in both_stores(10_000) {
        let mut file = tempfile::tempfile().unwrap();
        assert_eq!(frozen.send(&file, 1..9_000).unwrap(), SendWay::Copied);
        let mut region = Dropped::new(10_000, BufferPages::Base).unwrap();
        region.as_mut_slice()[..5].copy_from_slice(b"after");
        assert_eq!(region.give(&file, 5).unwrap(), SendWay::Copied);
        file.rewind().unwrap();
        let mut got = Vec::new();
        file.read_to_end(&mut got).unwrap();
        assert!(got[..8_999] == pattern(9_000)[1..] && got[8_999..] == *b"after");
    }
}

#[test]
fn a_reading_end_is_refused_and_fills_nothing() {
    let (reader, mut writer) = pipe(1 << 16);
    writer.write_all(&[0xee; 4096]).unwrap();
    for frozen in both_stores(4096) {
        let error = frozen.send(&reader, 0..4096).unwrap_err();
        assert_eq!((error.call, error.errno, error.taken), ("write", Errno::BADF, 0));
        assert!(frozen.as_bytes() == pattern(4096));
    }
    let mut region = Dropped::new(4096, BufferPages::Base).unwrap();
    region.as_mut_slice().fill(7);
    assert_eq!(region.give(&reader, 4096).unwrap_err().errno, Errno::BADF);
    assert!(region.as_mut_slice().iter().all(|byte| *byte == 7));
}

#[test]
fn nobody_can_change_a_sealed_file() {
    let frozen = Frozen::new(&pattern(HUGE)).unwrap();
    let Some(file) = frozen.memfd() else {
        eprintln!("SKIP nobody_can_change_a_sealed_file: no sealed memfd here");
        return;
    };
    assert_eq!(rustix::io::pwrite(file, b"x", 0), Err(Errno::PERM));
    assert_eq!(rustix::fs::ftruncate(file, 0), Err(Errno::PERM));
    assert_eq!(rustix::fs::ftruncate(file, 2 * HUGE as u64), Err(Errno::PERM));
    let punch = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    assert_eq!(rustix::fs::fallocate(file, punch, 0, 4096), Err(Errno::PERM));
    assert_eq!(rustix::fs::fcntl_add_seals(file, SealFlags::FUTURE_WRITE), Err(Errno::PERM));
    assert!(frozen.as_bytes() == pattern(HUGE));
}

#[test]
fn huge_pages_are_proven() {
    for frozen in both_stores(HUGE) {
        let page = frozen.page_size().unwrap();
        if page != HUGE {
            eprintln!("SKIP huge_pages_are_proven: {:?} lies on {page} bytes", frozen.store());
            continue;
        }
        let (mut reader, writer) = pipe(1 << 16);
        frozen.send(&writer, HUGE - 100..HUGE).unwrap();
        assert!(read(&mut reader, 100) == pattern(HUGE)[HUGE - 100..]);
        assert_eq!(frozen.page_size().unwrap(), HUGE);
    }
    assert!(Frozen::new(b"small").unwrap().page_size().unwrap() < HUGE);
    assert!(Dropped::new(HUGE, BufferPages::Base).unwrap().page_size().unwrap() < HUGE);
}

#[test]
fn given_bytes_are_never_lent_again() {
    let mut region = Dropped::new(16_384, BufferPages::Base).unwrap();
    let size = region.capacity();
    let (mut reader, writer) = pipe(1 << 20);
    let start = region.as_mut_slice().as_ptr() as usize;
    region.as_mut_slice().fill(1);
    region.give(&writer, 5_000).unwrap();
    let rest = region.as_mut_slice();
    assert_eq!((rest.as_ptr() as usize, rest.len()), (start + 5_000, size - 5_000));
    rest.fill(2);
    assert_eq!(region.space(size + 1).unwrap_err(), Errno::INVAL);
    assert_eq!(region.give(&writer, size).unwrap_err().errno, Errno::INVAL);
    assert_eq!(region.space(size).unwrap().len(), size);
    region.as_mut_slice().fill(3);
    region.give(&writer, size).unwrap();
    region.as_mut_slice().fill(4);
    assert_eq!(region.as_mut_slice().len(), size);
    drop(region);
    assert!(read(&mut reader, 5_000).iter().all(|byte| *byte == 1));
    assert!(read(&mut reader, size).iter().all(|byte| *byte == 3));
}

#[test]
fn a_returning_region_keeps_its_content_and_the_reader_what_it_got() {
    for pages in [BufferPages::Base, BufferPages::Huge] {
        let mut region = Dropped::returning(256 * 1024, pages).unwrap();
        let size = region.capacity();
        let (mut reader, writer) = pipe(1 << 20);
        region.as_mut_slice().fill(1);
        for round in 1..6_u8 {
            let len = 5_000 * usize::from(round);
            region.space(size).unwrap()[100] = round;
            region.give(&writer, len).unwrap();
            // The next round is written while this round is in the pipe.
            let rest = region.space(size).unwrap();
            assert!(rest[..100].iter().chain(&rest[101..]).all(|byte| *byte == 1));
            assert_eq!(rest[100], round);
            rest[100] = 0xee;
            let got = read(&mut reader, len);
            assert!((got[99], got[100], got[101]) == (1, round, 1), "round {round}");
        }
        region.give(&writer, 200).unwrap();
        drop(region);
        assert_eq!(read(&mut reader, 200)[100], 0xee);
    }
}

#[test]
fn many_references_to_a_returning_page_are_not_taken_for_pins() {
    const REFERENCES: usize = 1_100;
    let page = rustix::param::page_size();
    let mut region = Dropped::returning(page, BufferPages::Base).unwrap();
    // Once a process has pinned memory, fork checks for pinned pages.
    pin(&region.as_mut_slice()[..page]);
    region.as_mut_slice().fill(1);
    let (mut left, mut held) = (REFERENCES, Vec::new());
    while left > 0 {
        let (reader, writer) = pipe(1 << 20);
        let slots = rustix::pipe::fcntl_getpipe_size(&writer).unwrap() / page;
        for _ in 0..slots.min(left) {
            assert_eq!(region.give(&writer, 1).unwrap(), SendWay::ByReference);
        }
        held.push((reader, slots.min(left)));
        left -= slots.min(left);
    }
    region.renew().unwrap();
    region.as_mut_slice().fill(2);
    for (mut reader, len) in held {
        assert!(read(&mut reader, len).iter().all(|byte| *byte == 1));
    }
}

/// Makes the kernel pin some memory for a moment, if a file exists that allows it (O_DIRECT).
fn pin(bytes: &[u8]) {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("pinned");
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::DIRECT;
    match rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => assert_eq!(rustix::io::write(&file, bytes), Ok(bytes.len())),
        Err(errno) => eprintln!("SKIP pinning: open {}: {errno}", path.display()),
    }
    let _gone = std::fs::remove_file(&path);
}

#[test]
fn a_region_half_given_stays_as_it_was_for_the_reader() {
    let mut region = Dropped::new(256 * 1024, BufferPages::Huge).unwrap();
    let size = region.capacity();
    let (mut reader, writer) = pipe(65_536);
    let room = rustix::pipe::fcntl_getpipe_size(&writer).unwrap();
    region.as_mut_slice().fill(1);
    let sender = std::thread::spawn(move || {
        let error = region.give(&writer, size).unwrap_err();
        assert_eq!((error.errno, region.as_mut_slice().len()), (Errno::PIPE, size - error.taken));
        region.as_mut_slice().fill(9);
        (region, error.taken)
    });
    let (onward, into) = pipe(65_536);
    let held =
        rustix::pipe::splice(&reader, None, &into, None, room, SpliceFlags::empty()).unwrap();
    let mut first = [0; 1];
    reader.read_exact(&mut first).unwrap();
    drop(reader);
    let (mut region, taken) = sender.join().unwrap();
    assert!(taken > held && taken < size);
    region.renew().unwrap();
    region.as_mut_slice().fill(8);
    drop(region);
    let mut onward = onward;
    assert!(read(&mut onward, held).iter().all(|byte| *byte == 1));
}

#[test]
fn locked_memory_is_replaced_as_well() {
    // MADV_DONTNEED refuses locked memory, so the region maps new pages.
    let mut region = Dropped::new(8_192, BufferPages::Base).unwrap();
    let address = region.as_mut_slice().as_mut_ptr();
    if !lock(address.cast(), region.capacity()) {
        eprintln!("SKIP locked_memory_is_replaced_as_well: mlock is not allowed");
        return;
    }
    let (mut reader, writer) = pipe(65_536);
    for round in 1..4 {
        region.as_mut_slice().fill(round);
        region.give(&writer, 8_192).unwrap();
    }
    region.as_mut_slice().fill(9);
    let got = read(&mut reader, 3 * 8_192);
    for (round, part) in got.chunks(8_192).enumerate() {
        assert!(part.iter().all(|byte| usize::from(*byte) == round + 1));
    }
}

#[allow(unsafe_code, reason = "mlock of memory of the test")]
fn lock(address: *mut std::ffi::c_void, len: usize) -> bool {
    // SAFETY: locking changes no byte and no mapping of the region, which is still in use.
    unsafe { rustix::mm::mlock(address, len) }.is_ok()
}

/// A memfd of one page that can be sealed.
fn loose() -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("oracle", flags).unwrap();
    assert_eq!(rustix::io::pwrite(&file, &[1; 4096], 0), Ok(4096));
    file
}

#[test]
fn the_seal_tells_whether_references_remain() {
    let file = loose();
    let (mut reader, writer) = pipe(65_536);
    let (mut onward, into) = pipe(65_536);
    let flags = SpliceFlags::empty();
    let n = rustix::pipe::splice(&file, Some(&mut 0), &writer, None, 4096, flags).unwrap();
    if pagewise_lanes::probe::ask(
        pagewise_lanes::probe::ProbeSource::Memfd,
        pagewise_lanes::probe::ProbeSink::Pipe,
    ) != pagewise_lanes::probe::ProbeAnswer::Shared
    {
        eprintln!("SKIP the_seal_tells_whether_references_remain: splice of a memfd copies here");
        return;
    }
    // The bytes are held in the pipe, and also after the pipe was spliced into another one.
    assert_eq!(rustix::fs::fcntl_add_seals(&file, SealFlags::WRITE), Err(Errno::BUSY));
    rustix::pipe::tee(&reader, &into, n, flags).unwrap();
    read(&mut reader, n);
    assert_eq!(rustix::fs::fcntl_add_seals(&file, SealFlags::WRITE), Err(Errno::BUSY));
    read(&mut onward, n);
    assert_eq!(rustix::fs::fcntl_add_seals(&file, SealFlags::WRITE), Ok(()));
}

#[test]
fn what_cannot_be_had_is_an_error() {
    for len in [usize::MAX, usize::MAX - 4095, 1 << 62] {
        assert_eq!(Frozen::build(len, |_| ()).unwrap_err(), Errno::NOMEM);
        assert_eq!(Frozen::build_private(len, |_| ()).unwrap_err(), Errno::NOMEM);
        assert_eq!(Dropped::new(len, BufferPages::Huge).unwrap_err(), Errno::NOMEM);
    }
}
