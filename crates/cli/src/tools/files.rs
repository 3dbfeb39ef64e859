//! The files that the tools read and write. `-` and no name at all stand for standard input.
//!
//! The standard descriptors are duplicated (`dup(2)`, so position and flags stay shared) and used
//! without the standard library's buffers; one that was closed at the start is an error here, as
//! in C, although the Rust runtime has opened /dev/null in its place. A descriptor that somebody
//! made non-blocking is waited for by `poll(2)` when it says EAGAIN, never before, and keeps its
//! flags.
//!
//! Outputs are closed here, and the answer is heard: some file systems tell only then that what was
//! written could not be stored. Of standard output both the duplicate and descriptor 1 are closed.

use pagewise_kernel::closing;
use pagewise_kernel::start::was_closed;
use pagewise_lanes::{End, Uncached};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;

/// The least number of a descriptor of our own.
const LEAST_PRIVATE: i32 = 64;

/// The name of standard input.
pub(super) const STANDARD: &str = "-";

/// The files asked for, or standard input where none is named.
pub(super) fn or_standard_input(files: Vec<OsString>) -> Vec<OsString> {
    if files.is_empty() { vec![STANDARD.into()] } else { files }
}

fn standard_input() -> io::Result<File> {
    if was_closed(0) {
        return Err(Errno::BADF.into());
    }
    private(io::stdin().as_fd())
}

/// What stands for standard output where that was closed: not open for writing, so that the first byte, and none
/// before it, gets the same EBADF.
pub(super) fn closed_output() -> io::Result<File> {
    private(File::open("/dev/null")?.as_fd())
}

/// Standard output, as a file of our own.
pub(super) fn standard_output() -> io::Result<File> {
    if was_closed(1) {
        return Err(Errno::BADF.into());
    }
    private(io::stdout().as_fd())
}

/// A duplicate out of the way of low numbers, which users name (`/dev/fd/3`), unless the limit is below that.
pub(super) fn private(fd: BorrowedFd<'_>) -> io::Result<File> {
    let high = fcntl_dupfd_cloexec(fd, LEAST_PRIVATE);
    Ok(high.or_else(|_low| fcntl_dupfd_cloexec(fd, 3)).map(File::from)?)
}

/// Opens a file for reading.
pub(super) fn open(name: &OsStr) -> io::Result<File> {
    if name == STANDARD { standard_input() } else { File::open(name) }
}

pub(super) fn close(file: File) -> io::Result<()> {
    Ok(closing::close(file)?)
}

/// Closes standard output, and with it the duplicate that was written to; as in C, one that is
/// closed already is no error.
pub(super) fn close_standard_output(duplicate: Option<File>) -> io::Result<()> {
    let first = duplicate.map_or(Ok(()), close);
    match closing::close_standard_output() {
        Ok(()) | Err(Errno::BADF) => first,
        Err(errno) => first.and(Err(errno.into())),
    }
}

/// What is known of a file without opening it.
pub(super) fn metadata(name: &OsStr) -> io::Result<Metadata> {
    if name == STANDARD { standard_input()?.metadata() } else { std::fs::metadata(name) }
}

/// Whether `input` is the regular file `output`: copying would then feed on itself.
pub(super) fn is_output(input: &Metadata, output: &File) -> bool {
    output.metadata().is_ok_and(|output| {
        output.is_file() && (input.dev(), input.ino()) == (output.dev(), output.ino())
    })
}

/// A file whose bytes pass through our memory, past the page cache where that is wanted.
#[derive(Debug)]
pub(super) struct Passage<'a> {
    file: &'a File,
    past_cache: Option<Uncached<'a>>,
}

impl<'a> Passage<'a> {
    pub(super) fn new(file: &'a File, past_cache: bool) -> Self {
        Self { file, past_cache: past_cache.then(|| Uncached::of(file)) }
    }

    /// Reads some bytes; none at the end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Errno> {
        loop {
            let read = match &mut self.past_cache {
                Some(past_cache) => past_cache.read(&mut *buffer),
                None => rustix::io::read(self.file, &mut *buffer),
            };
            match read {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if End::can_wait(self.file) => {
                    await_ready(self.file.as_fd(), PollFlags::IN);
                }
                done => return done,
            }
        }
    }

    /// Writes all of `bytes`.
    pub(super) fn write_all(&mut self, mut bytes: &[u8]) -> Result<(), Errno> {
        while !bytes.is_empty() {
            let written = match &mut self.past_cache {
                Some(past_cache) => past_cache.write(bytes),
                None => rustix::io::write(self.file, bytes),
            };
            match written {
                Ok(0) => return Err(Errno::NOSPC),
                Ok(n) => bytes = &bytes[n..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if End::can_wait(self.file) => {
                    await_ready(self.file.as_fd(), PollFlags::OUT);
                }
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Has dropped from the cache what is left to drop.
    pub(super) fn finish(&mut self) -> Result<(), Errno> {
        self.past_cache.as_mut().map_or(Ok(()), Uncached::finish)
    }
}

/// Waits for a descriptor that answered EAGAIN; the call after it tells what is wrong.
fn await_ready(fd: BorrowedFd<'_>, ready: PollFlags) {
    let mut list = [PollFd::from_borrowed_fd(fd, ready)];
    let _sent = poll(&mut list, None);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_descriptor_that_does_not_block_is_waited_for() {
        let (mut reader, writer) = io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        let writer = File::from(std::os::fd::OwnedFd::from(writer));
        let bytes: Vec<u8> = (0..300_000_u32).map(|n| n as u8).collect();
        let mut got = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                Passage::new(&writer, false).write_all(&bytes).unwrap();
                drop(writer);
            });
            reader.read_to_end(&mut got).unwrap();
        });
        assert!(got == bytes);
    }

    #[test]
    fn only_a_regular_file_feeds_on_itself() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("f");
        let file = File::create(&path).unwrap();
        assert!(is_output(&metadata(path.as_os_str()).unwrap(), &file));
        let null = File::options().write(true).open("/dev/null").unwrap();
        assert!(!is_output(&metadata("/dev/null".as_ref()).unwrap(), &null));
    }
}
