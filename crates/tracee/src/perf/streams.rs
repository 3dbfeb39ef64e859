//! Decides which records count: those of one event per thread.
//!
//! If a thread is attached to while its process makes others, it may be recorded twice: by the event opened
//! for it, and by the copy it inherited from its maker. For such a thread only the records of one event
//! count: its own if it has one, otherwise the first seen. An event of a whole CPU has no copies and always
//! counts. It reports all forks. The kernel also reports forks to events that report names and mappings
//! (kernel/events/core.c, `perf_event_task_match`). So if there are CPU events, only their forks count.

use rustc_hash::FxHashMap;

/// Stands for a thread: whatever runs on a CPU (perf_event_open(2)).
pub(super) const EVERYBODY: i32 = -1;

/// The events behind the rings, by number; `K` is the kind of an event.
#[derive(Debug)]
pub(super) struct EventStreams<K> {
    by_id: FxHashMap<u64, EventStream<K>>,
    /// For each thread, the owner of the event whose records of it count. `None` if events are opened for one
    /// thread only, so that nothing can be recorded twice.
    owners: Option<FxHashMap<i32, i32>>,
    /// Whether any event covers a whole CPU.
    has_cpus: bool,
}

#[derive(Debug, Clone, Copy)]
struct EventStream<K> {
    kind: K,
    /// The thread that the event was opened for.
    owner: i32,
}

impl<K: Copy> EventStreams<K> {
    /// For events that are opened for one thread only, or for `many`.
    pub(super) fn new(many: bool) -> Self {
        let owners = many.then(FxHashMap::default);
        Self { by_id: FxHashMap::default(), owners, has_cpus: false }
    }

    /// Adds event `id`, opened for thread `owner` or for [`EVERYBODY`].
    pub(super) fn add(&mut self, id: u64, kind: K, owner: i32) {
        self.by_id.insert(id, EventStream { kind, owner });
        if owner == EVERYBODY {
            self.has_cpus = true;
        } else if let Some(owners) = &mut self.owners {
            owners.insert(owner, owner);
        }
    }

    /// Kind of event `id`.
    pub(super) fn kind(&self, id: u64) -> Option<K> {
        self.by_id.get(&id).map(|stream| stream.kind)
    }

    /// Whether a record of event `id` about thread `tid` counts.
    pub(super) fn accepts(&mut self, id: u64, tid: i32) -> bool {
        let Some(owners) = &mut self.owners else { return true };
        let Some(stream) = self.by_id.get(&id) else { return true };
        if stream.owner == EVERYBODY {
            return true;
        }
        *owners.entry(tid).or_insert(stream.owner) == stream.owner
    }

    /// Whether forks reported by event `id` count.
    pub(super) fn tells_forks(&self, id: u64) -> bool {
        let is_of_cpu = |stream: &EventStream<K>| stream.owner == EVERYBODY;
        !self.has_cpus || self.by_id.get(&id).is_some_and(is_of_cpu)
    }

    /// Whether an event was opened for thread `tid` and the thread has not ended since.
    pub(super) fn owns(&self, tid: i32) -> bool {
        self.owners.as_ref().is_some_and(|owners| owners.get(&tid) == Some(&tid))
    }

    /// Thread `tid` has ended; its number may be reused.
    pub(super) fn forget(&mut self, tid: i32) {
        if let Some(owners) = &mut self.owners {
            owners.remove(&tid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_counts_once() {
        let mut streams = EventStreams::new(true);
        streams.add(1, 'b', 100);
        streams.add(2, 'b', 101);
        assert!(streams.owns(101) && !streams.owns(102));
        // 101 has inherited event 1 and has its own event.
        assert!(!streams.accepts(1, 101) && streams.accepts(2, 101));
        // Its child has inherited both.
        assert!(streams.accepts(1, 102) && !streams.accepts(2, 102) && streams.accepts(1, 102));
        // Its number is reused by a child of a thread that has only event 2.
        streams.forget(102);
        assert!(streams.accepts(2, 102));
        assert_eq!((streams.kind(2), streams.kind(3)), (Some('b'), None));
    }

    #[test]
    fn events_of_whole_cpus_count_beside_those_of_threads() {
        let mut streams = EventStreams::new(true);
        streams.add(1, 'c', EVERYBODY);
        streams.add(2, 'n', 100);
        assert!(streams.accepts(1, 7) && streams.accepts(1, 100) && streams.accepts(2, 100));
        assert!(streams.accepts(2, 7) && streams.accepts(1, 7), "the thread is not the CPU's");
        assert!(!streams.owns(EVERYBODY) && streams.tells_forks(1) && !streams.tells_forks(2));
    }

    #[test]
    fn events_of_one_thread_are_never_doubted() {
        let mut streams = EventStreams::new(false);
        streams.add(1, 'b', 100);
        streams.add(2, 'm', 100);
        assert!(streams.accepts(1, 100) && streams.accepts(2, 7) && streams.accepts(9, 7));
        assert!(!streams.owns(100) && streams.tells_forks(1));
    }
}
