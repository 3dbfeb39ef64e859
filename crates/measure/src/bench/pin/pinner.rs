//! The resources of each way, and one turn of it: every piece of the region pinned once, or a pipe filled and
//! emptied once.

use crate::bench::pipe::turns::{CAPACITY, PipeLoop};
use crate::error::PriceError;
use crate::kernels::lend::WriteEnd;
use crate::kernels::own_memory::{copy_by_pages, read_own};
use crate::kernels::ring::IoUringQueue;
use crate::sample::time_cpu;
use pagewise_kernel::gup_test::GupTest;
use pagewise_kernel::proc::own_pid;
use pagewise_kernel::region::MemoryRegion;
use pagewise_kernel::{SysError, page_size};
use pagewise_model::Bytes;
use pagewise_model::bench::pin::PinWay;
use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

/// The time of a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct PinTurn {
    pub(super) calls: u64,
    pub(super) call_ns: f64,
    pub(super) release_ns: f64,
}

/// The resources of a way, besides the pinned memory.
pub(super) enum Pinner {
    Lend { pipe: PipeLoop, end: WriteEnd },
    Tee { pipe: PipeLoop, seed: PipeLoop },
    Register(IoUringQueue),
    Read { pid: i32, into: Vec<u8> },
    Copy { into: Vec<u8>, page: usize },
    Kernel(GupTest),
}

impl Pinner {
    /// Those for pieces of `size`.
    pub(super) fn new(way: PinWay, size: usize) -> Result<Self, PriceError> {
        Ok(match way {
            PinWay::Vmsplice => {
                let pipe = pipe_for(size)?;
                let end = pipe.writer.try_clone();
                let end = end.map_err(PriceError::sys("dup", "an end of a pipe"))?;
                Self::Lend { end: WriteEnd::new(end)?, pipe }
            }
            PinWay::Tee => {
                let seed = pipe_for(size)?;
                let content = vec![1; size];
                match rustix::io::write(&seed.writer, &content) {
                    Ok(written) if written == size => {}
                    Ok(written) => return Err(short("write", written, size)),
                    Err(e) => return Err(SysError::new("write", "a pipe", e).into()),
                }
                Self::Tee { pipe: pipe_for(size)?, seed }
            }
            PinWay::Register => {
                let ring =
                    IoUringQueue::new().map_err(PriceError::sys("io_uring_setup", "a queue"))?;
                Self::Register(ring)
            }
            PinWay::ReadOwn => Self::Read { pid: own_pid(), into: vec![1; size] },
            PinWay::Copy => {
                let page = usize::try_from(page_size::base().bytes()).unwrap_or(size);
                Self::Copy { into: vec![1; size], page }
            }
            PinWay::GupTest => Self::Kernel(GupTest::open()?),
        })
    }

    /// Runs this many turns.
    pub(super) fn turns(
        &mut self,
        count: u64,
        region: &MemoryRegion,
        size: usize,
    ) -> Result<PinTurn, PriceError> {
        let mut all = PinTurn::default();
        for _ in 0..count {
            let turn = self.turn(region, size)?;
            all.calls += turn.calls;
            all.call_ns += turn.call_ns;
            all.release_ns += turn.release_ns;
        }
        Ok(all)
    }

    /// One turn over `region`, in pieces of `size`.
    pub(super) fn turn(
        &mut self,
        region: &MemoryRegion,
        size: usize,
    ) -> Result<PinTurn, PriceError> {
        let pieces = region.as_slice().chunks_exact(size);
        match self {
            Self::Lend { pipe, end } => {
                let pieces = pieces.cycle();
                fill_and_empty(pipe, size, pieces, |piece| end.lend(piece, SpliceFlags::NONBLOCK))
            }
            Self::Tee { pipe, seed } => {
                let target = &pipe.writer;
                fill_and_empty(pipe, size, std::iter::repeat(()), |()| {
                    rustix::pipe::tee(&seed.reader, target, size, SpliceFlags::NONBLOCK)
                })
            }
            Self::Register(ring) => {
                let register = |piece| {
                    ring.register(piece).map_err(PriceError::sys("io_uring_register", "a buffer"))
                };
                each(pieces, register)
            }
            Self::Read { pid, into } => each(pieces, |piece| match read_own(*pid, piece, into) {
                Ok(read) if read == size => Ok(()),
                Ok(read) => Err(short("process_vm_readv", read, size)),
                Err(e) => Err(SysError::new("process_vm_readv", "own memory", e).into()),
            }),
            Self::Copy { into, page } => each(pieces, |piece| {
                copy_by_pages(piece, into, *page);
                Ok(())
            }),
            Self::Kernel(test) => {
                let held = test.hold(region, Bytes(size as u64), page_size::base())?;
                let calls = pieces.len() as u64;
                Ok(PinTurn { calls, call_ns: held.get.0 as f64, release_ns: held.put.0 as f64 })
            }
        }
    }
}

/// A pipe that holds a piece.
fn pipe_for(size: usize) -> Result<PipeLoop, PriceError> {
    let pipe = PipeLoop::into_null(CAPACITY)?;
    if pipe.capacity >= size {
        return Ok(pipe);
    }
    let text = format!(
        "a pipe holds only {} here (fs.pipe-max-size, or this user's fs.pipe-user-pages-soft)",
        Bytes(pipe.capacity as u64)
    );
    Err(PriceError::Unavailable(text))
}

fn short(call: &'static str, done: usize, size: usize) -> PriceError {
    PriceError::Unavailable(format!("{call} took {done} of {size} bytes"))
}

/// Fills the pipe with `put`, with as many pieces as it holds, and empties it.
fn fill_and_empty<T>(
    pipe: &PipeLoop,
    size: usize,
    pieces: impl Iterator<Item = T>,
    mut put: impl FnMut(T) -> Result<usize, Errno>,
) -> Result<PinTurn, PriceError> {
    let count = pipe.capacity / size;
    let (call_ns, filled) = time_cpu(|| {
        pieces.take(count).try_for_each(|piece| match put(piece) {
            Ok(done) if done == size => Ok(()),
            Ok(done) => Err(short("the pipe", done, size)),
            Err(e) => Err(SysError::new("vmsplice or tee", "a pipe", e).into()),
        })
    });
    filled?;
    let release_ns = pipe.empty(count * size)?;
    Ok(PinTurn { calls: count as u64, call_ns, release_ns })
}

/// `act` on each piece.
fn each<'a>(
    pieces: impl ExactSizeIterator<Item = &'a [u8]>,
    act: impl FnMut(&'a [u8]) -> Result<(), PriceError>,
) -> Result<PinTurn, PriceError> {
    let calls = pieces.len() as u64;
    let mut pieces = pieces;
    let (call_ns, done) = time_cpu(|| pieces.try_for_each(act));
    done.map(|()| PinTurn { calls, call_ns, release_ns: 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_kernel::region::RegionPages;

    #[test]
    #[allow(clippy::print_stdout, reason = "a skipped test says so")]
    fn every_way_takes_every_piece() {
        let mut region = MemoryRegion::new(Bytes::mib(2), RegionPages::Base).expect("memory");
        region.populate().expect("memory");
        for way in PinWay::ALL {
            for size in [1 << 16, 1 << 18] {
                let turn = Pinner::new(way, size).and_then(|mut pinner| pinner.turn(&region, size));
                let turn = match turn {
                    Ok(turn) => turn,
                    Err(error) => {
                        assert!(!matches!(way, PinWay::Copy), "{error}");
                        println!("SKIP every_way_takes_every_piece: {}: {error}", way.into_str());
                        continue;
                    }
                };
                let is_of_pipe = matches!(way, PinWay::Vmsplice | PinWay::Tee);
                let all = (2 << 20) / size as u64;
                assert!(if is_of_pipe { turn.calls >= 1 } else { turn.calls == all }, "{turn:?}");
                assert!(turn.call_ns > 0.0 && (!is_of_pipe || turn.release_ns > 0.0), "{turn:?}");
            }
        }
    }

    #[test]
    fn a_piece_that_no_pipe_holds_is_refused() {
        let error = Pinner::new(PinWay::Vmsplice, 1 << 40).err().expect("too large").to_string();
        assert!(error.contains("a pipe holds"), "{error}");
    }
}
