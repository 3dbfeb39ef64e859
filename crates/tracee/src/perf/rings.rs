//! One ring for each CPU, and the events of threads that write into them.
//!
//! An inherited event can have a ring only when it is bound to a CPU, so a thread has its events on
//! every CPU, and all of one CPU write into the same ring. It belongs to an event of this process that
//! never counts ([`event::ring`]), so that it stays whatever becomes of the threads. How large a ring is, is up to
//! who opens it (`faults`, `profile`).

use super::event;
use super::ring::Ring;
use super::streams::Streams;
use pagewise_kernel::SysError;
use pagewise_kernel::perf::perf_event_attr;
use std::os::fd::{BorrowedFd, OwnedFd};

/// The rings; `K` says what an event tells of.
#[derive(Debug)]
pub(super) struct Rings<K> {
    rings: Vec<Ring>,
    /// The events, all of which write into a ring.
    events: Vec<OwnedFd>,
    streams: Streams<K>,
}

impl<K: Copy> Rings<K> {
    /// Rings of `wanted_bytes`, and not below `least_bytes`, on each of `cpus`; without events yet, which
    /// will be of one thread or of `many`.
    pub(super) fn open(
        cpus: &[u32],
        wanted_bytes: usize,
        least_bytes: usize,
        many: bool,
    ) -> Result<Self, SysError> {
        let rings = Ring::open_each(&event::ring(least_bytes), 0, cpus, wanted_bytes)?;
        Ok(Self { rings, events: Vec::new(), streams: Streams::new(many) })
    }

    /// Opens `attr`, which tells of `kind`, on every CPU, for thread `tid` or for `streams::EVERYBODY`.
    pub(super) fn add_event(
        &mut self,
        kind: K,
        attr: &perf_event_attr,
        tid: i32,
    ) -> Result<(), SysError> {
        for ring in &self.rings {
            match ring.open_event(attr, tid) {
                Ok((id, event)) => {
                    self.streams.add(id, kind, tid);
                    self.events.push(event);
                }
                Err(error) if error.errno() == Some(libc::ENODEV) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether thread `tid` has events of its own.
    pub(super) fn owns(&self, tid: i32) -> bool {
        self.streams.owns(tid)
    }

    /// How many rings there are.
    pub(super) fn count(&self) -> usize {
        self.rings.len()
    }

    /// Size of the smallest ring.
    pub(super) fn least_bytes(&self) -> usize {
        self.rings.iter().map(Ring::data_bytes).min().unwrap_or(0)
    }

    /// Descriptors that become readable when a ring is a quarter full.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.rings.iter().map(Ring::event)
    }

    /// Empties the rings: gives the number of each and what was in it.
    pub(super) fn drain(&mut self, mut take: impl FnMut(usize, &[u8], &mut Streams<K>)) {
        for (number, ring) in self.rings.iter_mut().enumerate() {
            take(number, ring.drain(), &mut self.streams);
        }
    }
}
