//! Events of many CPUs in the order of their time.
//!
//! Each ring is in order by itself. An event may be published some time after its own time, so
//! what is younger than the start of the round before stays until the next round.

use pagewise_model::Nanos;
use pagewise_model::fault::event::Event;

/// Events that wait for older ones.
#[derive(Debug, Default)]
pub(super) struct Merge {
    waiting: Vec<Event>,
    /// When the round before began: all older events have been added.
    complete_until: Nanos,
}

impl Merge {
    pub(super) fn add(&mut self, event: Event) {
        self.waiting.push(event);
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The events that no older one can follow any more; this round began at `round`.
    pub(super) fn release(&mut self, round: Nanos) -> Vec<Event> {
        let until = std::mem::replace(&mut self.complete_until, round);
        self.sort();
        let cut = self.waiting.partition_point(|event| event.at_ns < until);
        let rest = self.waiting.split_off(cut);
        std::mem::replace(&mut self.waiting, rest)
    }

    /// All of them.
    pub(super) fn release_all(&mut self) -> Vec<Event> {
        self.sort();
        std::mem::take(&mut self.waiting)
    }

    /// Stable, so that events of one ring with the same time keep their order.
    fn sort(&mut self) {
        self.waiting.sort_by_key(|event| event.at_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::fault::event::What;

    fn event(at: u64) -> Event {
        Event { at_ns: Nanos(at), what: What::Lost { records: at } }
    }

    #[test]
    fn what_an_older_event_may_precede_is_held_back() {
        let mut merge = Merge::default();
        let times = |events: Vec<Event>| events.iter().map(|e| e.at_ns.0).collect::<Vec<_>>();
        [5, 9, 4, 8].into_iter().for_each(|at| merge.add(event(at)));
        assert_eq!(times(merge.release(Nanos(7))), [0_u64; 0]);
        [6, 12].into_iter().for_each(|at| merge.add(event(at)));
        assert_eq!(times(merge.release(Nanos(11))), [4, 5, 6]);
        merge.add(event(10));
        assert_eq!(times(merge.release(Nanos(20))), [8, 9, 10]);
        assert_eq!(times(merge.release_all()), [12]);
        assert!(merge.release_all().is_empty());
    }
}
