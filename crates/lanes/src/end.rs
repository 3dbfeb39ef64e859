//! What is behind a descriptor: its kind and the flags that determine the ways of moving bytes (`fstat(2)`,
//! `fcntl(2)` F_GETFL, `isatty(3)`).
//!
//! Two cheap calls, none of which touches data or sets the `poll_usage` mark of a pipe. The other side of a
//! pipe or socket is not seen.

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd};

/// The kind of file behind a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DescriptorKind {
    /// A pipe or fifo.
    Pipe,
    /// A regular file; memfd and the files of /proc and /sys are regular files as well.
    Regular,
    /// A socket of any family.
    Socket,
    /// A terminal: a character device on which another read after the end prompts the user again.
    Terminal,
    /// /dev/null, which discards writes and has nothing to read.
    Null,
    /// Another character device, such as /dev/zero or /dev/urandom.
    Device,
    /// Anything else: block devices, directories, eventfd and so on.
    Other,
}

/// One end of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyEnd {
    /// The kind of the descriptor.
    pub kind: DescriptorKind,
    /// Writes go to the end of the file (O_APPEND), which splice and copy_file_range refuse.
    pub append: bool,
}

impl CopyEnd {
    /// Looks at a descriptor.
    ///
    /// # Errors
    ///
    /// EBADF, and what `fstat(2)` gives for a file whose server is gone (ESTALE, EIO).
    ///
    /// # Examples
    ///
    /// ```
    /// let null = std::fs::File::open("/dev/null")?;
    /// assert_eq!(pagewise_lanes::CopyEnd::of(&null)?.kind, pagewise_lanes::DescriptorKind::Null);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn of(fd: impl AsFd) -> Result<Self, Errno> {
        let fd = fd.as_fd();
        let stat = rustix::fs::fstat(fd)?;
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Fifo => DescriptorKind::Pipe,
            FileType::RegularFile => DescriptorKind::Regular,
            FileType::Socket => DescriptorKind::Socket,
            FileType::CharacterDevice if stat.st_rdev == rustix::fs::makedev(1, 3) => {
                DescriptorKind::Null
            }
            FileType::CharacterDevice if rustix::termios::isatty(fd) => DescriptorKind::Terminal,
            FileType::CharacterDevice => DescriptorKind::Device,
            _ => DescriptorKind::Other,
        };
        let append = rustix::fs::fcntl_getfl(fd)?.contains(OFlags::APPEND);
        Ok(Self { kind, append })
    }

    /// Whether `poll(2)` can wait for a descriptor that returned EAGAIN: only if O_NONBLOCK is set. Otherwise
    /// EAGAIN is an error, such as that of a socket with a timeout. For a regular file EAGAIN is an error too
    /// (those of sysfs and cgroups use it), and poll always reports such a file as ready.
    ///
    /// # Examples
    ///
    /// ```
    /// let (reader, _writer) = std::io::pipe()?;
    /// assert!(!pagewise_lanes::CopyEnd::can_wait(&reader));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn can_wait(fd: impl AsFd) -> bool {
        let fd = fd.as_fd();
        rustix::fs::fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK))
            && rustix::fs::fstat(fd)
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile)
    }
}

/// Waits until a descriptor that answered EAGAIN is ready (`poll(2)`); EINTR after a signal.
pub(crate) fn wait(fd: BorrowedFd<'_>, ready: PollFlags) -> Result<(), Errno> {
    rustix::event::poll(&mut [PollFd::from_borrowed_fd(fd, ready)], None).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_kinds_apart() {
        let (reader, writer) = std::io::pipe().unwrap();
        let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
        let file = tempfile::tempfile().unwrap();
        let kind = |fd: &dyn AsFd| CopyEnd::of(fd.as_fd()).unwrap().kind;
        assert_eq!(kind(&reader), DescriptorKind::Pipe);
        assert_eq!(kind(&writer), DescriptorKind::Pipe);
        assert_eq!(kind(&socket), DescriptorKind::Socket);
        assert_eq!(kind(&file), DescriptorKind::Regular);
        assert_eq!(kind(&std::fs::File::open("/dev/zero").unwrap()), DescriptorKind::Device);
        assert_eq!(kind(&std::fs::File::open("/dev/null").unwrap()), DescriptorKind::Null);
        assert_eq!(kind(&std::fs::File::open("/proc/self/stat").unwrap()), DescriptorKind::Regular);
        assert_eq!(kind(&std::fs::File::open("/").unwrap()), DescriptorKind::Other);
    }

    #[test]
    fn sees_append() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("log");
        let log = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        assert!(CopyEnd::of(&log).unwrap().append);
    }

    #[test]
    fn only_what_does_not_block_and_is_no_file_can_be_waited_for() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let file = tempfile::tempfile().unwrap();
        assert!(!CopyEnd::can_wait(&reader) && !CopyEnd::can_wait(&file));
        for fd in [reader.as_fd(), file.as_fd()] {
            rustix::io::ioctl_fionbio(fd, true).unwrap();
        }
        assert!(CopyEnd::can_wait(&reader) && !CopyEnd::can_wait(&file));
    }
}
