//! Standard input of a program that is run many times.
//!
//! Input that can be opened again is opened again for each run, at the caller's file position. That covers
//! regular files (also deleted ones, through `/proc/self/fd/0`), block devices, and memory devices such as
//! /dev/zero. Each run has its own open file description; the caller's position never moves.
//!
//! Input that can be read only once (a pipe, a socket) is never given to a run, so no run can consume a byte
//! of it. Each run gets a stand-in instead: an object of the same kind that has ended. On it, `fstat`,
//! `isatty` and `lseek` answer as on the original, and a read finds end of file. The traced look ends a
//! program that touches the stand-in (docs/decisions/033).
//!
//! The stand-in differs from the original in inode, owner and mode, in the size of a pipe that was resized,
//! and in the addresses of a socket. Input that is opened again differs in flags (`O_APPEND`, `O_NONBLOCK`):
//! it is read-only.

use crate::launch_error::LaunchError;
use pagewise_model::spec::{OWN_INPUT, OneTimeInput, StdinSource};
use rustix::fs::{FileType, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Kind of standard input that this process has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StandardInput {
    /// Nothing that a program in an experiment reads: /dev/null, a terminal, or a closed descriptor.
    Nothing,
    /// Can be opened again.
    Repeatable(StdinSource),
    /// Can be read only once.
    Once(OneTimeInput),
    /// Anything else; says what it is.
    Other(&'static str),
}

/// Major number of the memory devices, and the minor numbers of those that read the same at each open.
const MEMORY: u32 = 1;
const NULL: u32 = 3;
const ENDLESS: [u32; 4] = [5, 7, 8, 9];

fn once_of_socket(kind: SocketType) -> Option<OneTimeInput> {
    match kind {
        SocketType::STREAM => Some(OneTimeInput::Stream),
        SocketType::DGRAM => Some(OneTimeInput::Datagrams),
        SocketType::SEQPACKET => Some(OneTimeInput::Packets),
        _ => None,
    }
}

/// An object of this kind from which nothing can be read.
fn stand_in(once: OneTimeInput) -> Result<OwnedFd, LaunchError> {
    let kind = match once {
        OneTimeInput::Pipe => {
            let ends = pagewise_kernel::pipe::pipe().map_err(|e| LaunchError::sys(&e))?;
            return Ok(ends.0);
        }
        OneTimeInput::Stream => SocketType::STREAM,
        OneTimeInput::Datagrams => SocketType::DGRAM,
        OneTimeInput::Packets => SocketType::SEQPACKET,
    };
    let failed = |call| move |e| LaunchError::errno(call, "an ended standard input", e);
    let (end, _peer) =
        rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
            .map_err(failed("socketpair"))?;
    // A datagram socket does not notice that its peer is gone.
    rustix::net::shutdown(&end, Shutdown::Read).map_err(failed("shutdown"))?;
    Ok(end)
}

/// The descriptor for one start; `None` if it is inherited.
pub(crate) fn open_input(input: &StdinSource) -> Result<Option<OwnedFd>, LaunchError> {
    match input {
        StdinSource::Inherit => Ok(None),
        StdinSource::Null => open(Path::new("/dev/null")).map(Some),
        StdinSource::File(path) => open(path).map(Some),
        StdinSource::Ended(once) => stand_in(*once).map(Some),
        StdinSource::Again { at, .. } => {
            let file = open(Path::new(OWN_INPUT))?;
            match rustix::fs::seek(&file, SeekFrom::Start(*at)) {
                // A device without file positions.
                Ok(_) | Err(Errno::SPIPE) => Ok(Some(file)),
                Err(e) => Err(LaunchError::errno("lseek", "standard input, opened again", e)),
            }
        }
    }
}

fn open(path: &Path) -> Result<OwnedFd, LaunchError> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    rustix::fs::open(path, flags, Mode::empty())
        .map_err(|e| LaunchError::errno("open", path.to_string_lossy(), e))
}

impl StandardInput {
    /// Examines the standard input of this process.
    #[must_use]
    pub fn own() -> Self {
        Self::of(std::io::stdin().as_fd())
    }

    fn of(stdin: BorrowedFd<'_>) -> Self {
        let Ok(stat) = rustix::fs::fstat(stdin) else { return Self::Nothing };
        let (major, minor) = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Fifo => Self::Once(OneTimeInput::Pipe),
            FileType::Socket => rustix::net::sockopt::socket_type(stdin)
                .ok()
                .and_then(once_of_socket)
                .map_or(Self::Other("a socket of a rare kind"), Self::Once),
            FileType::CharacterDevice if (major, minor) == (MEMORY, NULL) => Self::Nothing,
            FileType::CharacterDevice if rustix::termios::isatty(stdin) => Self::Nothing,
            FileType::CharacterDevice if major == MEMORY && ENDLESS.contains(&minor) => {
                Self::again(stdin)
            }
            FileType::RegularFile | FileType::BlockDevice => Self::again(stdin),
            FileType::Directory => Self::Other("a directory"),
            _ => Self::Other("a device that may not give the same data twice"),
        }
    }

    fn again(stdin: BorrowedFd<'_>) -> Self {
        let writes_only = |flags: OFlags| flags & OFlags::RWMODE == OFlags::WRONLY;
        if rustix::fs::fcntl_getfl(stdin).is_ok_and(writes_only) {
            return Self::Other("open for writing only");
        }
        let at = rustix::fs::seek(stdin, SeekFrom::Current(0)).unwrap_or(0);
        let input = StdinSource::Again { at, path: if at == 0 { own_path(stdin) } else { None } };
        match open_input(&input) {
            Ok(_) => Self::Repeatable(input),
            Err(_) => Self::Other("a file that this account cannot open again"),
        }
    }
}

/// The path of standard input, if it still leads there.
fn own_path(stdin: BorrowedFd<'_>) -> Option<PathBuf> {
    let path = std::fs::read_link(OWN_INPUT).ok()?;
    let (there, here) = (std::fs::metadata(&path).ok()?, rustix::fs::fstat(stdin).ok()?);
    ((there.dev(), there.ino()) == (here.st_dev, here.st_ino)).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn kinds_are_told_apart() {
        let of = |path: &str| StandardInput::of(File::open(path).unwrap().as_fd());
        assert_eq!(of("/dev/null"), StandardInput::Nothing);
        assert!(matches!(of("/"), StandardInput::Other("a directory")));
        let (pipe, _end) = pagewise_kernel::pipe::pipe().unwrap();
        assert_eq!(StandardInput::of(pipe.as_fd()), StandardInput::Once(OneTimeInput::Pipe));
        for (kind, once) in [
            (SocketType::STREAM, OneTimeInput::Stream),
            (SocketType::DGRAM, OneTimeInput::Datagrams),
            (SocketType::SEQPACKET, OneTimeInput::Packets),
        ] {
            let flags = SocketFlags::CLOEXEC;
            let (one, _other) =
                rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None).unwrap();
            assert_eq!(StandardInput::of(one.as_fd()), StandardInput::Once(once));
        }
        let written = tempfile::NamedTempFile::new().unwrap();
        let written = File::options().write(true).open(written.path()).unwrap();
        assert_eq!(
            StandardInput::of(written.as_fd()),
            StandardInput::Other("open for writing only")
        );
    }

    #[test]
    fn a_stand_in_has_ended_and_is_of_its_kind() {
        for once in [
            OneTimeInput::Pipe,
            OneTimeInput::Stream,
            OneTimeInput::Datagrams,
            OneTimeInput::Packets,
        ] {
            let stand_in = open_input(&StdinSource::Ended(once)).unwrap().unwrap();
            assert_eq!(rustix::io::read(&stand_in, &mut [0_u8; 8]), Ok(0), "{once:?}");
            assert_eq!(StandardInput::of(stand_in.as_fd()), StandardInput::Once(once));
        }
    }
}
