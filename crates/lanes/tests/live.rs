//! A file changes while its bytes are in a pipe. What `copy` put there stays as it was. With `live` the reader
//! gets the change. Each change stays within a page or cuts one, because the pipe keeps whole pages that leave
//! the file.

#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used, reason = "a test program")]

use pagewise_lanes::{CopyJob, CopyRoute};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use std::fs::File;
use std::io::{PipeReader, Read, Seek};
use std::os::unix::fs::FileExt;

/// Bytes in the file. The pipe takes the first of them, up to its capacity.
const SIZE: usize = 1 << 20;

/// Offset where each change begins, within a page.
const AT: u64 = 200_100;

const BEFORE: u8 = b'a';

/// A file of `SIZE` equal bytes, at its beginning.
fn file() -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all_at(&vec![BEFORE; SIZE], 0).unwrap();
    file.rewind().unwrap();
    file
}

/// Fills a pipe from the file. Returns the pipe and the number of bytes in it.
fn fill(file: &File, is_live: bool) -> (PipeReader, usize) {
    let (reader, writer) = std::io::pipe().unwrap();
    let room = rustix::pipe::fcntl_setpipe_size(&writer, SIZE).unwrap_or(65_536);
    let copy = CopyJob::new(file, &writer).limit(room.min(SIZE) as u64);
    let copied = if is_live { copy.live().run() } else { copy.run() }.unwrap();
    assert_eq!(copied.bytes, room.min(SIZE) as u64);
    assert_eq!(copied.way, if is_live { CopyRoute::Broker } else { CopyRoute::ReadWrite });
    (reader, room.min(SIZE))
}

/// Changes a file while its bytes are in a pipe. Returns whether the reader sees the change.
fn is_seen(is_live: bool, change: impl FnOnce(&File)) -> bool {
    let file = file();
    let (mut reader, held) = fill(&file, is_live);
    change(&file);
    let mut bytes = vec![0; held];
    reader.read_exact(&mut bytes).unwrap();
    bytes.iter().any(|byte| *byte != BEFORE)
}

fn check(name: &str, change: impl Fn(&File)) {
    assert!(!is_seen(false, &change), "{name}: a copy changed with the file");
    assert!(is_seen(true, &change), "{name}: by reference the change must be seen");
}

#[test]
fn a_file_that_is_written_over() {
    check("write", |file| file.write_all_at(b"changed", AT).unwrap());
}

#[test]
fn a_file_that_is_cut() {
    check("truncate", |file| file.set_len(AT).unwrap());
}

#[test]
fn a_file_that_gets_a_hole() {
    let punch = |file: &File| {
        fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, AT, 700)
    };
    if matches!(punch(&file()), Err(Errno::OPNOTSUPP | Errno::NOSYS)) {
        println!(
            "SKIP a_file_that_gets_a_hole: no holes on the file system of {:?}",
            std::env::temp_dir()
        );
        return;
    }
    check("punch", |file| punch(file).unwrap());
}
