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
use pagewise_kernel::perf::{self, perf_event_attr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

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

    /// Records that found no room in the rings (Linux 6.0; 0 before).
    pub(super) fn lost(&self) -> u64 {
        self.events.iter().map(|event| perf::lost_records(event.as_fd())).sum()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::words::for_each_record;
    use pagewise_kernel::perf::{PerfCounter, bindings as b, software};
    use pagewise_kernel::region::{MemoryRegion, RegionPages};
    use pagewise_kernel::{affinity, page_size};
    use pagewise_model::Bytes;

    /// The page faults of this thread with a ring that is not emptied: the records in it, those that it reported
    /// as lost, those that the kernel counted as lost, and all faults. `None` if events are refused.
    fn faults_into_a_full_ring() -> Option<(u64, u64, u64, u64)> {
        let page = page_size::base().bytes();
        let cpu = affinity::current()?;
        affinity::set(0, &[cpu]).ok()?;
        let ring_bytes = usize::try_from(page).ok()?;
        let mut rings = CpuRings::open(&[cpu], ring_bytes, ring_bytes, false).ok()?;
        let faults = b::PERF_COUNT_SW_PAGE_FAULTS;
        let all = PerfCounter::open(&software(faults), 0, -1).ok()?;
        let mut attr = event::followed(b::PERF_TYPE_SOFTWARE, u64::from(faults), false);
        attr.__bindgen_anon_1.sample_period = 1;
        attr.sample_type = u64::from(b::PERF_SAMPLE_TID);
        let mut region = MemoryRegion::new(Bytes::mib(4), RegionPages::Base).ok()?;
        all.enable().ok()?;
        rings.add_event((), &attr, 0).ok()?;
        region.touch(Bytes(page));
        all.disable().ok()?;
        let (mut recorded, mut reported) = (0, 0);
        rings.drain(|_, bytes, _| {
            for_each_record(bytes, |record, _, body| match record {
                b::PERF_RECORD_SAMPLE => recorded += 1,
                b::PERF_RECORD_LOST => {
                    let count = body.get(8..16).and_then(|word| word.try_into().ok());
                    reported += count.map_or(0, u64::from_ne_bytes);
                }
                _ => {}
            });
        });
        Some((recorded, reported, rings.lost(), all.read().ok()?.value))
    }

    #[test]
    #[allow(clippy::print_stdout, reason = "a skipped test says so")]
    fn a_full_ring_that_reports_nothing_is_noticed() {
        let thread = std::thread::spawn(faults_into_a_full_ring);
        let Some((recorded, reported, lost, faults)) = thread.join().expect("it ends") else {
            return println!("SKIP a_full_ring_that_reports_nothing: perf events are refused");
        };
        if lost == 0 {
            return println!("SKIP a_full_ring_that_reports_nothing: Linux before 6.0");
        }
        assert_eq!(reported, 0, "no record had room after the loss");
        assert!(recorded > 0 && recorded < 300, "{recorded}");
        // The counter ran a little longer.
        assert!((recorded + lost).abs_diff(faults) < 32, "{recorded} {lost} {faults}");
        assert!(faults >= 1024, "{faults}");
    }
}
