//! The files that the tools read and write. `-` and an empty list stand for standard input.
//!
//! The standard descriptors are duplicated (`dup(2)`, so position and flags stay shared) and used without the
//! standard library's buffers. A descriptor that was closed at the start is an error here, as in C, although
//! the Rust runtime has opened /dev/null in its place. A descriptor may be non-blocking. Then `poll(2)` waits
//! after EAGAIN, never before, and the flags stay unchanged.
//!
//! Outputs are closed here, and errors of `close(2)` are checked: some file systems report only then that
//! data could not be stored. Both the duplicate of standard output and descriptor 1 are closed.

use pagewise_kernel::closing;
use pagewise_kernel::start::was_closed;
use pagewise_lanes::{CopyEnd, Uncached};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;

/// Smallest number for private descriptors.
const LEAST_PRIVATE: i32 = 64;

/// The name of standard input.
pub(super) const STANDARD: &str = "-";

/// The requested files, or standard input if the list is empty.
pub(super) fn or_standard_input(files: Vec<OsString>) -> Vec<OsString> {
    if files.is_empty() { vec![STANDARD.into()] } else { files }
}

fn standard_input() -> io::Result<File> {
    if was_closed(0) {
        return Err(Errno::BADF.into());
    }
    private(io::stdin().as_fd())
}

/// A substitute for a closed standard output. It is not open for writing, so the first write fails with the
/// same EBADF, and nothing fails before it.
pub(super) fn closed_output() -> io::Result<File> {
    private(File::open("/dev/null")?.as_fd())
}

/// Standard output as a private file.
pub(super) fn standard_output() -> io::Result<File> {
    if was_closed(1) {
        return Err(Errno::BADF.into());
    }
    private(io::stdout().as_fd())
}

/// A duplicate with a high number: users refer to low numbers (`/dev/fd/3`). The limit on descriptors may
/// force a low one.
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

/// Closes standard output and the duplicate that was written to. As in C, a descriptor that is already closed
/// is no error.
pub(super) fn close_standard_output(duplicate: Option<File>) -> io::Result<()> {
    let first = duplicate.map_or(Ok(()), close);
    match closing::close_standard_output() {
        Ok(()) | Err(Errno::BADF) => first,
        Err(errno) => first.and(Err(errno.into())),
    }
}

/// Metadata of a file, read without opening it.
pub(super) fn metadata(name: &OsStr) -> io::Result<Metadata> {
    if name == STANDARD { standard_input()?.metadata() } else { std::fs::metadata(name) }
}

/// Whether `input` is the regular file `output`: copying would then feed on itself.
pub(super) fn is_output(input: &Metadata, output: &File) -> bool {
    output.metadata().is_ok_and(|output| {
        output.is_file() && (input.dev(), input.ino()) == (output.dev(), output.ino())
    })
}

/// A file whose bytes pass through this process, bypassing the page cache on request.
#[derive(Debug)]
pub(super) struct PassThroughFile<'a> {
    file: &'a File,
    past_cache: Option<Uncached<'a>>,
}

impl<'a> PassThroughFile<'a> {
    pub(super) fn new(file: &'a File, past_cache: bool) -> Self {
        Self { file, past_cache: past_cache.then(|| Uncached::of(file)) }
    }

    /// Reads up to the length of `buffer`; 0 at the end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Errno> {
        loop {
            let read = match &mut self.past_cache {
                Some(past_cache) => past_cache.read(&mut *buffer),
                None => rustix::io::read(self.file, &mut *buffer),
            };
            match read {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if CopyEnd::can_wait(self.file) => {
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
                Err(Errno::AGAIN) if CopyEnd::can_wait(self.file) => {
                    await_ready(self.file.as_fd(), PollFlags::OUT);
                }
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Drops the remaining pages from the cache.
    pub(super) fn finish(&mut self) -> Result<(), Errno> {
        self.past_cache.as_mut().map_or(Ok(()), Uncached::finish)
    }
}

/// Waits for a descriptor that returned EAGAIN. The next call reports any error.
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
                PassThroughFile::new(&writer, false).write_all(&bytes).unwrap();
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
