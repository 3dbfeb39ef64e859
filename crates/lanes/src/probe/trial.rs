//! One question: move a page of A, overwrite its source with B, and read the sink.
//!
//! All descriptors are private and non-blocking, so that nothing hangs if a call takes less than it reports.

#![allow(unsafe_code, reason = "vmsplice of memory that is meant to be overwritten")]

use super::{ProbeSink, ProbeSource};
use crate::buffer::region::{BufferPages, BufferRegion};
use rustix::fs::{MemfdFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::pipe::{PipeFlags, SpliceFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

const A: u8 = 0xa5;
const B: u8 = 0x5a;

/// Whether a page of `source` that was moved to `sink` shows what is later written to the source.
pub(super) fn shares(source: ProbeSource, sink: ProbeSink, page: usize) -> Result<bool, Errno> {
    let mut origin = ProbeOrigin::new(source, page)?;
    origin.write(A)?;
    let outlet = ProbeOutlet::new(sink)?;
    let moved = origin.move_to(&outlet, page)?;
    origin.write(B)?;
    let mut found = vec![0; moved];
    outlet.read(&mut found)?;
    match found.iter().all(|byte| [A, B].contains(byte)) {
        true if moved > 0 => Ok(found.contains(&B)),
        _ => Err(Errno::IO),
    }
}

/// The page that is moved, and how.
struct ProbeOrigin {
    source: ProbeSource,
    place: ProbePlace,
}

enum ProbePlace {
    Memory(BufferRegion),
    File(OwnedFd, Vec<u8>),
}

impl ProbeOrigin {
    fn new(source: ProbeSource, page: usize) -> Result<Self, Errno> {
        let place = match source {
            ProbeSource::Private => {
                ProbePlace::Memory(BufferRegion::anonymous(page, BufferPages::Base)?)
            }
            ProbeSource::Shared => {
                let file = memfd()?;
                rustix::fs::ftruncate(&file, page as u64)?;
                // SAFETY: the file was just made, is as long as the region, and nobody else knows
                // it.
                ProbePlace::Memory(unsafe {
                    BufferRegion::of_file(file.as_fd(), page, BufferPages::Base)
                }?)
            }
            ProbeSource::Memfd | ProbeSource::Tee | ProbeSource::Pipe => {
                ProbePlace::File(memfd()?, vec![0; page])
            }
            ProbeSource::File | ProbeSource::Sendfile => {
                ProbePlace::File(regular()?, vec![0; page])
            }
        };
        Ok(Self { source, place })
    }

    fn write(&mut self, value: u8) -> Result<(), Errno> {
        match &mut self.place {
            ProbePlace::Memory(region) => region.as_mut_bytes().fill(value),
            ProbePlace::File(file, bytes) => {
                bytes.fill(value);
                if rustix::io::pwrite(&*file, bytes, 0)? != bytes.len() {
                    return Err(Errno::IO);
                }
            }
        }
        Ok(())
    }

    /// Moves at most `page` bytes; how many.
    fn move_to(&self, outlet: &ProbeOutlet, page: usize) -> Result<usize, Errno> {
        let flags = SpliceFlags::NONBLOCK;
        match &self.place {
            ProbePlace::Memory(region) => outlet.through_pipe(|pipe| {
                // SAFETY: `pipe` is a writing end of our own, and what is read from it is expected
                // to change.
                unsafe { region.vmsplice(pipe, 0..page, flags) }
            }),
            ProbePlace::File(file, _) => {
                let from_file = |pipe: BorrowedFd<'_>| {
                    rustix::pipe::splice(file, Some(&mut 0), pipe, None, page, flags)
                };
                match self.source {
                    ProbeSource::Sendfile => {
                        rustix::fs::sendfile(outlet.entry(), file, Some(&mut 0), page)
                    }
                    ProbeSource::Tee | ProbeSource::Pipe => {
                        let (reading, writing) = pipe()?;
                        let n = from_file(writing.as_fd())?;
                        outlet.through_pipe(|pipe| match self.source {
                            ProbeSource::Tee => rustix::pipe::tee(&reading, pipe, n, flags),
                            _ => rustix::pipe::splice(&reading, None, pipe, None, n, flags),
                        })
                    }
                    _ => outlet.through_pipe(from_file),
                }
            }
        }
    }
}

/// A sink: bytes go into `entry` and come out of `exit`.
enum ProbeOutlet {
    Pipe { exit: OwnedFd, entry: OwnedFd },
    Socket { exit: OwnedFd, entry: OwnedFd },
    File(OwnedFd),
}

impl ProbeOutlet {
    fn new(sink: ProbeSink) -> Result<Self, Errno> {
        Ok(match sink {
            ProbeSink::Pipe => {
                let (exit, entry) = pipe()?;
                Self::Pipe { exit, entry }
            }
            ProbeSink::Socket => {
                let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
                let (exit, entry) =
                    rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
                Self::Socket { exit, entry }
            }
            ProbeSink::File => Self::File(regular()?),
        })
    }

    fn entry(&self) -> BorrowedFd<'_> {
        match self {
            Self::Pipe { entry, .. } | Self::Socket { entry, .. } => entry.as_fd(),
            Self::File(file) => file.as_fd(),
        }
    }

    /// Lets `put` fill a pipe: the sink itself, or one that is then spliced into the sink.
    fn through_pipe(
        &self,
        put: impl FnOnce(BorrowedFd<'_>) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        if let Self::Pipe { entry, .. } = self {
            return put(entry.as_fd());
        }
        let (reading, writing) = pipe()?;
        let n = put(writing.as_fd())?;
        rustix::pipe::splice(&reading, None, self.entry(), None, n, SpliceFlags::NONBLOCK)
    }

    /// Reads as many bytes as were moved.
    fn read(&self, into: &mut [u8]) -> Result<(), Errno> {
        let mut at = 0;
        while at < into.len() {
            let n = match self {
                Self::Pipe { exit, .. } | Self::Socket { exit, .. } => {
                    rustix::io::read(exit, &mut into[at..])
                }
                Self::File(file) => rustix::io::pread(file, &mut into[at..], at as u64),
            };
            match n {
                Ok(0) => return Err(Errno::IO),
                Ok(n) => at += n,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}

fn pipe() -> Result<(OwnedFd, OwnedFd), Errno> {
    rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
}

fn memfd() -> Result<OwnedFd, Errno> {
    rustix::fs::memfd_create(c"probe", MemfdFlags::CLOEXEC)
}

/// A file without a name, where temporary files are.
fn regular() -> Result<OwnedFd, Errno> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open(std::env::temp_dir(), flags, Mode::RUSR | Mode::WUSR)
}
