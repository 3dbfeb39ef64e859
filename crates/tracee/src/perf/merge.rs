//! Merges the events of many rings in the order of their time.
//!
//! Each ring is in order by itself, so the next event is the oldest of the first events of all rings. An
//! event may be published some time after its own time. So events younger than the start of the previous
//! round wait for the next round.

use pagewise_model::Nanos;
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::collections::binary_heap::{BinaryHeap, PeekMut};

/// Something with a time.
pub(super) trait TimedRecord {
    /// Time of the event, by the clock of the rings.
    fn at_ns(&self) -> Nanos;
}

/// Events that wait for older ones, by ring.
#[derive(Debug)]
pub(super) struct RingMerge<E> {
    rings: Vec<VecDeque<E>>,
    /// Start of the newest round.
    round: Nanos,
    /// Start of the previous round: all older events have been added.
    complete_until: Nanos,
}

impl<E> Default for RingMerge<E> {
    fn default() -> Self {
        Self { rings: Vec::new(), round: Nanos(0), complete_until: Nanos(0) }
    }
}

impl<E: TimedRecord> RingMerge<E> {
    /// Adds an event of a ring.
    pub(super) fn add(&mut self, ring: usize, event: E) {
        if self.rings.len() <= ring {
            self.rings.resize_with(ring + 1, VecDeque::new);
        }
        let Some(waiting) = self.rings.get_mut(ring) else { return };
        let is_late = waiting.back().is_some_and(|last| last.at_ns() > event.at_ns());
        if is_late {
            let at = waiting.partition_point(|other| other.at_ns() <= event.at_ns());
            waiting.insert(at, event);
        } else {
            waiting.push_back(event);
        }
    }

    /// Number of waiting events of the rings from number `first` on.
    pub(super) fn waiting(&self, first: usize) -> usize {
        self.rings.iter().skip(first).map(VecDeque::len).sum()
    }

    /// Begins a round, which adds everything that was published before it.
    pub(super) fn begin_round(&mut self, at: Nanos) {
        self.complete_until = std::mem::replace(&mut self.round, at);
    }

    /// Marks the end: nothing will be added any more.
    pub(super) fn end(&mut self) {
        self.complete_until = Nanos(u64::MAX);
    }

    /// Moves the events that cannot be preceded by an older one any more to `into`, until it holds `most`.
    /// Events of one ring with the same time keep their order.
    pub(super) fn release(&mut self, into: &mut Vec<E>, most: usize) {
        let first =
            |(number, ring): (usize, &VecDeque<E>)| Some(Reverse((ring.front()?.at_ns(), number)));
        let mut firsts: BinaryHeap<_> = self.rings.iter().enumerate().filter_map(first).collect();
        while into.len() < most
            && let Some(mut oldest) = firsts.peek_mut()
            && let Reverse((at, number)) = *oldest
            && at < self.complete_until
            && let Some(ring) = self.rings.get_mut(number)
        {
            into.extend(ring.pop_front());
            match ring.front() {
                Some(next) => *oldest = Reverse((next.at_ns(), number)),
                None => drop(PeekMut::pop(oldest)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::fault::event::{FaultEvent, FaultEventPayload};
    use proptest::prelude::*;

    fn event(at: u64) -> FaultEvent {
        FaultEvent { at_ns: Nanos(at), what: FaultEventPayload::Lost { records: at } }
    }

    fn released(merge: &mut RingMerge<FaultEvent>) -> Vec<u64> {
        let mut events = Vec::new();
        merge.release(&mut events, usize::MAX);
        events.iter().map(|event| event.at_ns.0).collect()
    }

    #[test]
    fn what_an_older_event_may_precede_is_held_back() {
        let mut merge = RingMerge::default();
        merge.begin_round(Nanos(7));
        [(0, 5), (0, 9), (1, 4), (1, 8)].iter().for_each(|(ring, at)| merge.add(*ring, event(*at)));
        assert_eq!(released(&mut merge), [0_u64; 0]);
        merge.begin_round(Nanos(11));
        [(2, 6), (0, 12)].iter().for_each(|(ring, at)| merge.add(*ring, event(*at)));
        assert_eq!(released(&mut merge), [4, 5, 6]);
        merge.begin_round(Nanos(20));
        merge.add(1, event(10));
        assert_eq!(released(&mut merge), [8, 9, 10]);
        merge.end();
        assert_eq!(released(&mut merge), [12]);
        assert_eq!((released(&mut merge), merge.waiting(0)), (vec![], 0));
    }

    #[test]
    fn no_more_are_released_than_are_wanted() {
        let mut merge = RingMerge::default();
        (0..10).for_each(|at| merge.add((at % 3) as usize, event(at)));
        merge.end();
        let mut events = vec![event(0)];
        merge.release(&mut events, 4);
        assert_eq!((events.len(), merge.waiting(0)), (4, 7));
        assert_eq!(released(&mut merge), [3, 4, 5, 6, 7, 8, 9]);
    }

    proptest! {
        #[test]
        fn all_come_in_order_whatever_the_order_of_each_ring(
            all in prop::collection::vec((0_usize..5, 0_u64..50), 0..200),
        ) {
            let mut merge = RingMerge::default();
            all.iter().for_each(|(ring, at)| merge.add(*ring, event(*at)));
            merge.end();
            let mut times: Vec<u64> = all.iter().map(|(_, at)| *at).collect();
            times.sort_unstable();
            prop_assert_eq!(released(&mut merge), times);
        }
    }
}
