//! One ring per CPU, and the thread events that write into them.
//!
//! An inherited event can have a ring only if it is bound to a CPU. So a thread has its events on every CPU,
//! and all events of one CPU write into the same ring. The ring belongs to an event of this process that
//! never counts ([`event::ring`]), so it survives the threads. The users of this module choose its size
//! (`faults`, `profile`).

use super::event;
use super::ring::PerfRing;
use super::streams::EventStreams;
use pagewise_kernel::SysError;
use pagewise_kernel::perf::perf_event_attr;
use std::os::fd::{BorrowedFd, OwnedFd};

/// The rings; `K` is the kind of an event.
#[derive(Debug)]
pub(super) struct CpuRings<K> {
    rings: Vec<PerfRing>,
    /// The events, each of which writes into one of the rings.
    events: Vec<OwnedFd>,
    streams: EventStreams<K>,
}

impl<K: Copy> CpuRings<K> {
    /// Opens rings of `wanted_bytes`, and not less than `least_bytes`, on each of `cpus`. They have no events
    /// yet; those will belong to one thread or to `many`.
    pub(super) fn open(
        cpus: &[u32],
        wanted_bytes: usize,
        least_bytes: usize,
        many: bool,
    ) -> Result<Self, SysError> {
        let rings = PerfRing::open_each(&event::ring(least_bytes), 0, cpus, wanted_bytes)?;
        Ok(Self { rings, events: Vec::new(), streams: EventStreams::new(many) })
    }

    /// Opens `attr`, of kind `kind`, on every CPU, for thread `tid` or for `streams::EVERYBODY`.
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

    /// Whether events were opened for thread `tid` itself.
    pub(super) fn owns(&self, tid: i32) -> bool {
        self.streams.owns(tid)
    }

    /// Number of rings.
    pub(super) fn count(&self) -> usize {
        self.rings.len()
    }

    /// Size of the smallest ring.
    pub(super) fn least_bytes(&self) -> usize {
        self.rings.iter().map(PerfRing::data_bytes).min().unwrap_or(0)
    }

    /// Descriptors that become readable when a ring is a quarter full.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.rings.iter().map(PerfRing::event)
    }

    /// Empties the rings. Passes the number and the content of each to `take`.
    pub(super) fn drain(&mut self, mut take: impl FnMut(usize, &[u8], &mut EventStreams<K>)) {
        for (number, ring) in self.rings.iter_mut().enumerate() {
            take(number, ring.drain(), &mut self.streams);
        }
    }
}
