//! One thread's share of a pass: the loops that are timed.

use super::super::account::{BlockAccount, WORD, own_word, sampled, word_at};
use super::super::order::BlockSequence;
use super::BlockDestination;
use super::FileTask;
use super::since;
use super::{DEPTH, ReaderResources};
use crate::error::PriceError;
use crate::kernels::ring::ReadQueue;
use crate::kernels::view::MappedFileView;
use crate::stream::sum;
use pagewise_kernel::clock;
use pagewise_model::bench::file::ReadWay;
use pagewise_model::bench::tlb::AccessOrder;
use pagewise_model::{Bytes, Nanos};
use rustix::fs::SeekFrom;
use rustix::io::{Errno, ReadWriteFlags};
use rustix::mm::Advice;
use std::hint::black_box;
use std::io::IoSliceMut;
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// Bytes of one readv(2), and most buffers of one.
const BATCH: Bytes = Bytes::mib(1);
const MOST_BUFFERS: usize = 256;
/// Bytes that one `MADV_POPULATE_READ` maps.
const PIECE: Bytes = Bytes::mib(2);

/// Slices of a pass, at most, and of all passes: see [`pagewise_model::bench::file::UndisturbedPace`].
const SLICES: usize = 64;
const ALL_SLICES: usize = 512;

/// Drops what is read from the cache again, if it was not there before (Linux 6.14).
const DONT_CACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(libc::RWF_DONTCACHE as u32);

/// A thread and the resources that it needs.
#[derive(Debug)]
pub(super) struct ReaderThread {
    share: Range<usize>,
    /// What of the share is taken now.
    slice: Range<usize>,
    block: usize,
    summed: bool,
    /// None once it was let go.
    destination: Option<BlockDestination>,
    account: BlockAccount,
    /// Pieces of the mapping that this thread has populated.
    pieces: Vec<bool>,
    calls: u64,
    total: u64,
}

impl ReaderThread {
    /// Prepares the thread that takes `share` of the blocks.
    pub(super) fn prepare(task: &FileTask, share: Range<usize>) -> Result<Self, PriceError> {
        let cell = &task.cell;
        let block = usize::try_from(cell.block_bytes.0).unwrap_or(usize::MAX);
        let piece = if cell.arm == ReadWay::Readv { batch(block) * block } else { block };
        let all = block.saturating_mul(share.len());
        let has_own =
            cell.arm.is_in_place() || matches!(cell.arm, ReadWay::Uring | ReadWay::UringFixed);
        let destination =
            if has_own { None } else { Some(BlockDestination::new(task, piece, all)?) };
        let pieces = matches!(cell.arm, ReadWay::MapPieces | ReadWay::PlacePieces);
        let count = if pieces { cell.span_bytes.0.div_ceil(PIECE.0) } else { 0 };
        Ok(Self {
            slice: share.start..share.start,
            share,
            block,
            summed: task.summed,
            destination,
            account: BlockAccount::new(cell.blocks(), cell.block_bytes.0),
            pieces: vec![false; usize::try_from(count).unwrap_or(usize::MAX)],
            calls: 0,
            total: 0,
        })
    }

    /// System calls so far.
    pub(super) const fn calls(&self) -> u64 {
        self.calls
    }

    /// Frees what was allocated only for the task.
    pub(super) fn let_go(&mut self) {
        self.destination.take_if(|destination| destination.is_fresh());
    }

    /// The combined account of all threads.
    pub(super) fn account(hands: &mut [Self]) -> BlockAccount {
        let mut whole = BlockAccount::new(0, 0);
        if let Some((first, others)) = hands.split_first_mut() {
            others.iter().for_each(|other| first.account.join(&other.account));
            std::mem::swap(&mut whole, &mut first.account);
        }
        whole
    }

    /// Takes the blocks of the share once, slice by slice, each with whole batches. What each took of the
    /// CPU time of this thread is in the result.
    pub(super) fn work(
        &mut self,
        opened: &ReaderResources,
        blocks: &BlockSequence,
        task: &FileTask,
        thread: usize,
    ) -> Result<Vec<Nanos>, PriceError> {
        let share = self.share.clone();
        let unit = batch(self.block).max(DEPTH as usize);
        let most = (ALL_SLICES / task.cell.passes.max(1) as usize).clamp(1, SLICES);
        let len = share.len().div_ceil(most).next_multiple_of(unit);
        let mut slices = Vec::with_capacity(most);
        let mut at = clock::thread_cpu();
        for first in share.clone().step_by(len.max(1)) {
            self.slice = first..share.end.min(first.saturating_add(len));
            self.take(opened, blocks, task, thread)?;
            let end = clock::thread_cpu();
            slices.push(since(at, end));
            at = end;
        }
        Ok(slices)
    }

    /// Takes the blocks of the slice.
    fn take(
        &mut self,
        opened: &ReaderResources,
        blocks: &BlockSequence,
        task: &FileTask,
        thread: usize,
    ) -> Result<(), PriceError> {
        let block = self.block as u64;
        if task.cell.store.is_some() {
            return self.store(opened, blocks, task);
        }
        match task.cell.arm {
            ReadWay::Read => self.read(opened.descriptor(thread)?, blocks, task.cell.order),
            ReadWay::Readv => self.readv(opened.descriptor(thread)?),
            ReadWay::Pread | ReadWay::Direct => {
                let file = opened.descriptor(thread)?;
                self.calls += self.slice.len() as u64;
                self.copy(blocks, |index, to| {
                    whole("pread", rustix::io::pread(file, &mut *to, index * block), to.len())
                })
            }
            ReadWay::DontCache => {
                let file = opened.descriptor(thread)?;
                self.calls += self.slice.len() as u64;
                self.copy(blocks, |index, to| {
                    let len = to.len();
                    let mut piece = [IoSliceMut::new(to)];
                    let got = rustix::io::preadv2(file, &mut piece, index * block, DONT_CACHE);
                    whole("preadv2 RWF_DONTCACHE", got, len)
                })
            }
            ReadWay::Uring | ReadWay::UringFixed => {
                self.queued(&mut *opened.queue(thread)?, opened.descriptor(thread)?, blocks)
            }
            ReadWay::Map
            | ReadWay::MapPopulate
            | ReadWay::MapPieces
            | ReadWay::MapWillNeed
            | ReadWay::MapSequential
            | ReadWay::MapRandom => self.copy_out(opened.view()?, blocks),
            ReadWay::Place | ReadWay::PlacePopulate | ReadWay::PlacePieces => {
                self.use_in_place(opened.view()?, blocks)
            }
        }
    }

    /// Puts each block at its place with `fetch`, and keeps the account.
    fn copy(
        &mut self,
        blocks: &BlockSequence,
        mut fetch: impl FnMut(u64, &mut [u8]) -> Result<(), PriceError>,
    ) -> Result<(), PriceError> {
        let Some(destination) = &mut self.destination else { return Err(no_memory()) };
        let (block, summed) = (self.block, self.summed);
        let (account, mut total) = (&mut self.account, self.total);
        let result = blocks.each(self.slice.clone(), |index| {
            let to = destination.next(block);
            fetch(index, to)?;
            if summed {
                total = total.wrapping_add(sum(to));
            }
            account.take(index, word_at(to, sampled(index, block)));
            Ok(())
        });
        self.total = black_box(total);
        result
    }

    fn read(
        &mut self,
        file: BorrowedFd<'_>,
        blocks: &BlockSequence,
        order: AccessOrder,
    ) -> Result<(), PriceError> {
        let block = self.block as u64;
        let calls = self.slice.len() as u64;
        if order == AccessOrder::Random {
            self.calls += 2 * calls;
            return self.copy(blocks, |index, to| {
                seek(file, index * block)?;
                whole("read", rustix::io::read(file, &mut *to), to.len())
            });
        }
        self.calls += calls;
        self.begin_at(file)?;
        self.copy(blocks, |_, to| whole("read", rustix::io::read(file, &mut *to), to.len()))
    }

    /// Writes each block from the same memory, with a new word of the file's own, and the stamp, at the place where
    /// it is read back.
    fn store(
        &mut self,
        opened: &ReaderResources,
        blocks: &BlockSequence,
        task: &FileTask,
    ) -> Result<(), PriceError> {
        let block = self.block;
        let stamped = |index: u64, from: &mut [u8]| {
            let at = sampled(index, block);
            let word = own_word(index * block as u64 + at as u64).wrapping_add(task.stamp);
            if let Some(place) = from.get_mut(at..at + WORD) {
                place.copy_from_slice(&word.to_ne_bytes());
            }
        };
        if task.cell.arm.is_mapped() {
            let mut view = opened.stored()?;
            return self.copy(blocks, |index, from| {
                stamped(index, from);
                if view.copy_in(index as usize * block, from) { Ok(()) } else { Err(outside()) }
            });
        }
        let file = opened.descriptor(0)?;
        let seeks = task.cell.order == AccessOrder::Random;
        self.calls += self.slice.len() as u64 * (1 + u64::from(seeks));
        if !seeks {
            self.begin_at(file)?;
        }
        self.copy(blocks, |index, from| {
            stamped(index, from);
            if seeks {
                seek(file, index * block as u64)?;
            }
            whole("write", rustix::io::write(file, &*from), from.len())
        })
    }

    /// Sets the position of a descriptor to the beginning of the share, before its first slice.
    fn begin_at(&mut self, file: BorrowedFd<'_>) -> Result<(), PriceError> {
        if self.slice.start != self.share.start {
            return Ok(());
        }
        self.calls += 1;
        seek(file, self.share.start as u64 * self.block as u64)
    }

    /// Neighbouring blocks, many in one call, each into its own buffer.
    fn readv(&mut self, file: BorrowedFd<'_>) -> Result<(), PriceError> {
        self.begin_at(file)?;
        let Some(destination) = &mut self.destination else { return Err(no_memory()) };
        let (block, most) = (self.block, batch(self.block));
        for first in self.slice.clone().step_by(most) {
            let count = most.min(self.slice.end - first);
            let to = destination.next(count * block);
            let mut buffers: Vec<IoSliceMut<'_>> =
                to.chunks_exact_mut(block).map(IoSliceMut::new).collect();
            whole("readv", rustix::io::readv(file, &mut buffers), count * block)?;
            self.calls += 1;
            for (index, taken) in (first as u64..).zip(to.chunks_exact(block)) {
                if self.summed {
                    self.total = self.total.wrapping_add(sum(taken));
                }
                self.account.take(index, word_at(taken, sampled(index, block)));
            }
        }
        self.total = black_box(self.total);
        Ok(())
    }

    /// Several blocks at a time through a queue, into the queue's memory.
    fn queued(
        &mut self,
        queue: &mut ReadQueue,
        file: BorrowedFd<'_>,
        blocks: &BlockSequence,
    ) -> Result<(), PriceError> {
        let (block, summed) = (self.block, self.summed);
        let (account, calls, total) = (&mut self.account, &mut self.calls, &mut self.total);
        let mut take = |batch: &mut Vec<u64>| -> Result<(), PriceError> {
            let offsets = batch.iter().map(|index| index * block as u64);
            whole("io_uring_enter", queue.read(file, offsets, block), block)?;
            *calls += 1;
            for (nth, index) in batch.drain(..).enumerate() {
                let taken = queue.taken(nth, block);
                if summed {
                    *total = total.wrapping_add(sum(taken));
                }
                account.take(index, word_at(taken, sampled(index, block)));
            }
            Ok(())
        };
        let mut batch = Vec::with_capacity(DEPTH as usize);
        blocks.each(self.slice.clone(), |index| {
            batch.push(index);
            if batch.len() < DEPTH as usize { Ok(()) } else { take(&mut batch) }
        })?;
        if batch.is_empty() { Ok(()) } else { take(&mut batch) }
    }

    fn copy_out(
        &mut self,
        view: &MappedFileView,
        blocks: &BlockSequence,
    ) -> Result<(), PriceError> {
        let block = self.block;
        let mut populate = PopulatedPieces::new(view, &mut self.pieces);
        let result = self.copy(blocks, |index, to| {
            let offset = index as usize * block;
            populate.reach(offset, block)?;
            if view.copy_out(offset, to) { Ok(()) } else { Err(outside()) }
        });
        (self.pieces, self.calls) = (populate.done, self.calls + populate.calls);
        result
    }

    /// Sums each block where it lies.
    fn use_in_place(
        &mut self,
        view: &MappedFileView,
        blocks: &BlockSequence,
    ) -> Result<(), PriceError> {
        let block = self.block;
        let mut populate = PopulatedPieces::new(view, &mut self.pieces);
        let (account, mut total) = (&mut self.account, self.total);
        let result = blocks.each(self.slice.clone(), |index| {
            let offset = index as usize * block;
            populate.reach(offset, block)?;
            let block_sum = view.sum(offset, block).ok_or_else(outside)?;
            total = total.wrapping_add(block_sum);
            let word = view.word(offset + sampled(index, block)).ok_or_else(outside)?;
            account.take(index, word);
            Ok(())
        });
        self.total = black_box(total);
        (self.pieces, self.calls) = (populate.done, self.calls + populate.calls);
        result
    }
}

/// Pieces of a mapping that are populated when first used. Empty if that was not requested.
struct PopulatedPieces<'a> {
    view: &'a MappedFileView,
    done: Vec<bool>,
    calls: u64,
}

impl<'a> PopulatedPieces<'a> {
    fn new(view: &'a MappedFileView, done: &mut Vec<bool>) -> Self {
        Self { view, done: std::mem::take(done), calls: 0 }
    }

    /// Populates the pieces that contain these bytes, unless they are populated already.
    fn reach(&mut self, offset: usize, len: usize) -> Result<(), PriceError> {
        if self.done.is_empty() {
            return Ok(());
        }
        let piece = PIECE.0 as usize;
        for nth in offset / piece..=(offset + len - 1) / piece {
            if let Some(done) = self.done.get_mut(nth).filter(|done| !**done) {
                *done = true;
                self.calls += 1;
                let advised = self.view.advise(nth * piece, piece, Advice::LinuxPopulateRead);
                advised.map_err(|error| failed("madvise MADV_POPULATE_READ", error))?;
            }
        }
        Ok(())
    }
}

/// Blocks of one readv(2).
fn batch(block: usize) -> usize {
    (BATCH.0 as usize / block.max(1)).clamp(1, MOST_BUFFERS)
}

fn seek(file: BorrowedFd<'_>, offset: u64) -> Result<(), PriceError> {
    match rustix::fs::seek(file, SeekFrom::Start(offset)) {
        Ok(_) => Ok(()),
        Err(error) => Err(failed("lseek", error)),
    }
}

/// Made only when a call has failed: the loops that are timed make no text.
fn failed(call: &'static str, error: Errno) -> PriceError {
    PriceError::sys(call, "the file")(error)
}

/// A call has to give all that was asked for.
fn whole(call: &'static str, got: Result<usize, Errno>, asked: usize) -> Result<(), PriceError> {
    match got {
        Ok(len) if len == asked => Ok(()),
        Ok(len) => Err(PriceError::Unavailable(format!(
            "{call} gave {len} of {asked} bytes: the file was shortened meanwhile"
        ))),
        Err(error) => Err(failed(call, error)),
    }
}

fn outside() -> PriceError {
    PriceError::Unavailable("a block lies outside the mapping".to_owned())
}

fn no_memory() -> PriceError {
    PriceError::Unavailable("there is no memory for the blocks".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_many_blocks_have_a_bound() {
        assert_eq!((batch(512), batch(64 << 10), batch(1 << 20), batch(0)), (256, 16, 1, 256));
    }

    #[test]
    fn a_short_read_is_reported() {
        assert!(whole("pread", Ok(7), 7).is_ok());
        let short = whole("pread", Ok(3), 7).expect_err("short").to_string();
        assert!(short.contains("gave 3 of 7 bytes") && short.contains("shortened"), "{short}");
        let failed = whole("pread", Err(Errno::IO), 7).expect_err("failed").to_string();
        assert!(failed.contains("`pread` on the file failed"), "{failed}");
    }
}
