//! The memory that blocks are put into: the same buffer again, or memory that was never touched.

use super::super::wire::Task;
use crate::error::PriceError;
use pagewise_kernel::region::{Pages, Region};
use pagewise_model::Bytes;

/// Memory for blocks, so many bytes behind the beginning of a page.
#[derive(Debug)]
pub(super) struct Destination {
    region: Region,
    offset: usize,
    at: usize,
    /// Each piece comes after the one before, from memory that was not touched yet.
    fresh: bool,
    len: usize,
}

impl Destination {
    /// Memory for pieces of `piece` bytes, used again; or for `all` bytes, where it is to be fresh.
    pub(super) fn new(task: &Task, piece: usize, all: usize) -> Result<Self, PriceError> {
        let fresh = task.cell.fresh;
        let len = if fresh { all.max(piece) } else { piece };
        let size = Bytes(task.cell.offset_bytes.0.saturating_add(len as u64));
        let mut region = Region::new(size, Pages::Base)?;
        if !fresh {
            region.populate()?;
        }
        let offset = usize::try_from(task.cell.offset_bytes.0).unwrap_or(usize::MAX);
        Ok(Self { region, offset, at: 0, fresh, len })
    }

    /// The next place for `len` bytes; shorter only where that is more than was asked for at first.
    pub(super) fn next(&mut self, len: usize) -> &mut [u8] {
        if self.at.saturating_add(len) > self.len {
            self.at = 0;
        }
        let start = self.offset.saturating_add(self.at);
        if self.fresh {
            self.at += len;
        }
        let end = start.saturating_add(len);
        self.region.as_mut_slice().get_mut(start..end).unwrap_or_default()
    }

    /// Whether its memory is taken anew for each task, so that giving it back belongs to the task.
    pub(super) const fn is_fresh(&self) -> bool {
        self.fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::file::process::example::{cell, task};
    use pagewise_model::bench::file::{Arm, Cell};

    #[test]
    fn fresh_memory_goes_on_and_other_comes_again() {
        let offset_bytes = Bytes(64);
        let places = |fresh| {
            let task = task(Cell { fresh, offset_bytes, ..cell(Arm::Read) });
            let mut destination = Destination::new(&task, 512, 4 * 512).expect("memory");
            let start = destination.region.as_ptr().addr();
            let mut next = || destination.next(512).as_ptr().addr() - start;
            [next(), next(), next()]
        };
        assert_eq!(places(false), [64; 3]);
        assert_eq!(places(true), [64, 576, 1088]);
    }
}
