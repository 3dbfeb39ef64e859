//! Which records count: those of one event a thread.
//!
//! A thread that is attached to while its process makes others may be recorded twice: by the event
//! opened for it, and by the copy it has inherited from the thread that made it. Of such a thread
//! only the records of one event are taken: of its own where it has one, else of the first seen.

use rustc_hash::FxHashMap;

/// The events behind the rings, by their numbers; `K` says what one tells of.
#[derive(Debug)]
pub(super) struct Streams<K> {
    by_id: FxHashMap<u64, Stream<K>>,
    /// For which thread the event was opened that a thread's records are taken from; absent where
    /// events are opened for one thread only, so that nothing can come twice.
    owners: Option<FxHashMap<i32, i32>>,
}

#[derive(Debug, Clone, Copy)]
struct Stream<K> {
    kind: K,
    /// The thread it was opened for.
    owner: i32,
}

impl<K: Copy> Streams<K> {
    /// Of events that are opened for one thread only, or for `many`.
    pub(super) fn new(many: bool) -> Self {
        Self { by_id: FxHashMap::default(), owners: many.then(FxHashMap::default) }
    }

    /// Adds event `id`, opened for thread `owner`.
    pub(super) fn add(&mut self, id: u64, kind: K, owner: i32) {
        self.by_id.insert(id, Stream { kind, owner });
        if let Some(owners) = &mut self.owners {
            owners.insert(owner, owner);
        }
    }

    /// What event `id` tells of.
    pub(super) fn kind(&self, id: u64) -> Option<K> {
        self.by_id.get(&id).map(|stream| stream.kind)
    }

    /// Whether a record of event `id` about thread `tid` counts.
    pub(super) fn accepts(&mut self, id: u64, tid: i32) -> bool {
        let Some(owners) = &mut self.owners else { return true };
        let Some(stream) = self.by_id.get(&id) else { return true };
        *owners.entry(tid).or_insert(stream.owner) == stream.owner
    }

    /// Whether an event was opened for thread `tid`, which has not ended since.
    pub(super) fn owns(&self, tid: i32) -> bool {
        self.owners.as_ref().is_some_and(|owners| owners.get(&tid) == Some(&tid))
    }

    /// Thread `tid` has ended; its number may come again.
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
        let mut streams = Streams::new(true);
        streams.add(1, 'b', 100);
        streams.add(2, 'b', 101);
        assert!(streams.owns(101) && !streams.owns(102));
        // 101 has inherited event 1 and has one of its own.
        assert!(!streams.accepts(1, 101) && streams.accepts(2, 101));
        // A child of it has inherited both.
        assert!(streams.accepts(1, 102) && !streams.accepts(2, 102) && streams.accepts(1, 102));
        // Its number comes again, made by a thread that has event 2 alone.
        streams.forget(102);
        assert!(streams.accepts(2, 102));
        assert_eq!((streams.kind(2), streams.kind(3)), (Some('b'), None));
    }

    #[test]
    fn events_of_one_thread_are_never_doubted() {
        let mut streams = Streams::new(false);
        streams.add(1, 'b', 100);
        streams.add(2, 'm', 100);
        assert!(streams.accepts(1, 100) && streams.accepts(2, 7) && streams.accepts(9, 7));
        assert!(!streams.owns(100));
    }
}
