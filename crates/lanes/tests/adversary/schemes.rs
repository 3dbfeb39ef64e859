//! The writers: each safe kind of buffer, used as hard as its type allows, and the unsafe one.

#![allow(unsafe_code, reason = "the known bad scheme is what no safe function can do")]

use crate::block::{Block, Dice, fill};
use pagewise_lanes::buffer::{BufferPages, Dropped, Frozen, FrozenStore, SendError, SendWay};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::pipe::{IoSliceRaw, SpliceFlags};
use std::io::{PipeWriter, Write};

/// A way to send blocks.
pub trait Scheme {
    /// Sends the block of round `round` and returns it. The scheme chooses the block.
    fn send(&mut self, round: u64, to: &PipeWriter) -> (Block, Result<SendWay, SendError>);

    /// The pipe capacity that it wants, in bytes.
    fn pipe_size(&self) -> usize {
        1 << 20
    }

    /// How many blocks may be in the pipe when the next is sent.
    fn lag(&self) -> usize {
        4
    }
}

/// A few frozen contents, sent in pieces. They are dropped and created again while pieces are in flight.
pub struct Freezes {
    len: usize,
    store: FrozenStore,
    contents: Vec<(u64, Frozen)>,
    dice: Dice,
}

impl Freezes {
    /// Contents of `len` bytes.
    pub fn new(len: usize, store: FrozenStore) -> Self {
        let contents = (0..3).map(|seed| (seed, freeze(seed, len, store))).collect();
        Self { len, store, contents, dice: Dice(0x5eed) }
    }
}

fn freeze(seed: u64, len: usize, store: FrozenStore) -> Frozen {
    match store {
        FrozenStore::Sealed => Frozen::build(len, |space| fill(seed, space)).unwrap(),
        FrozenStore::Private => Frozen::build_private(len, |space| fill(seed, space)).unwrap(),
    }
}

impl Scheme for Freezes {
    fn send(&mut self, round: u64, to: &PipeWriter) -> (Block, Result<SendWay, SendError>) {
        let which = self.dice.roll(3) as usize;
        if self.dice.roll(200) == 0 {
            self.contents[which] = (round, freeze(round, self.len, self.store));
        }
        let (seed, frozen) = &self.contents[which];
        let len = self.dice.len();
        let start = self.dice.roll((self.len - len) as u64) as usize;
        let block = Block { seed: *seed, range: start..start + len };
        (block.clone(), frozen.send(to, block.range))
    }
}

/// A region that is overwritten as often as it allows, and renewed and replaced at random.
pub struct Drops {
    region: Dropped,
    make: Make,
    pages: BufferPages,
    dice: Dice,
}

/// A way to make a region.
pub type Make = fn(usize, BufferPages) -> Result<Dropped, Errno>;

impl Drops {
    pub fn new(make: Make, pages: BufferPages) -> Self {
        Self { region: make(REGION, pages).unwrap(), make, pages, dice: Dice(0xd09) }
    }
}

/// Bytes of a region.
const REGION: usize = 128 * 1024;

impl Scheme for Drops {
    fn send(&mut self, round: u64, to: &PipeWriter) -> (Block, Result<SendWay, SendError>) {
        let region = &mut self.region;
        match self.dice.roll(200) {
            0 => *region = (self.make)(REGION, self.pages).unwrap(),
            1..10 => region.renew().unwrap(),
            10..20 => {
                let rest = region.as_mut_slice();
                let len = rest.len().min(REGION);
                rest[..len].fill(0xaa);
            }
            _ => {}
        }
        let block = Block::new(round, self.dice.len());
        fill(round, &mut region.space(block.len()).unwrap()[..block.len()]);
        let sent = region.give(to, block.len());
        (block, sent)
    }
}

/// `write(2)` through the standard library.
#[derive(Default)]
pub struct Copied(Vec<u8>);

impl Scheme for Copied {
    fn send(&mut self, round: u64, mut to: &PipeWriter) -> (Block, Result<SendWay, SendError>) {
        let block = Block::new(round, 1 + (round * 7919 % 40_000) as usize);
        self.0.resize(block.len(), 0);
        fill(round, &mut self.0);
        let sent = to.write_all(&self.0).map(|()| SendWay::Copied).map_err(|_| SendError {
            call: "write",
            errno: Errno::PIPE,
            taken: 0,
        });
        (block, sent)
    }
}

/// The unsafe scheme: it sends the two halves of one buffer in turn, and the pipe holds as much as one half.
/// When the splice of one half returns, the other half has left the pipe and is filled again.
pub struct DoubleBuffer {
    start: *mut u8,
}

const HALF: usize = 65_536;

impl DoubleBuffer {
    pub fn new() -> Self {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        let null = std::ptr::null_mut();
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let start = unsafe {
            rustix::mm::mmap_anonymous(null, 2 * HALF, rights, MapFlags::PRIVATE).unwrap()
        };
        Self { start: start.cast() }
    }
}

impl Drop for DoubleBuffer {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this size, and not used any more.
        unsafe { rustix::mm::munmap(self.start.cast(), 2 * HALF).unwrap() };
    }
}

impl Scheme for DoubleBuffer {
    fn send(&mut self, round: u64, to: &PipeWriter) -> (Block, Result<SendWay, SendError>) {
        let half = self.start.wrapping_add(round as usize % 2 * HALF);
        // SAFETY: half of the mapping of `new`, which only this value writes.
        let bytes = unsafe { std::slice::from_raw_parts_mut(half, HALF) };
        fill(round, bytes);
        let parts = [IoSliceRaw::from_slice(bytes)];
        // SAFETY: the memory is readable and `to` can be written. The bytes change later, which is the error of
        // this scheme.
        let sent = unsafe { rustix::pipe::vmsplice(to, &parts, SpliceFlags::empty()) };
        let error = |errno| SendError { call: "vmsplice", errno, taken: 0 };
        (Block::new(round, HALF), sent.map(|_| SendWay::ByReference).map_err(error))
    }

    fn pipe_size(&self) -> usize {
        HALF
    }

    fn lag(&self) -> usize {
        0
    }
}
