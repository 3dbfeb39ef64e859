//! Faults of two threads on one page at overlapping times.
//!
//! What the kernel tells of a page at the beginning of a fault is what it sees then, some time after
//! the processor looked: another thread may have brought the page in meanwhile. A fault races with
//! one that is under way on the same page, and with one that ended at most [`WINDOW`] before, which
//! covers the way from the processor to the recording with an interrupt in between.

use pagewise_model::Nanos;
use std::collections::{HashMap, VecDeque};

/// How long after its end a fault still counts.
const WINDOW: Nanos = Nanos(50_000);

/// A page of a process.
pub(super) type Page = (i32, u64);

/// The latest fault on each page that a coming one could race with.
#[derive(Debug, Default)]
pub(super) struct Races {
    latest: HashMap<Page, Latest>,
    /// Those that have ended, in the order in which they did.
    ended: VecDeque<(Nanos, Page)>,
}

#[derive(Debug, Clone, Copy)]
struct Latest {
    tid: i32,
    ended: Option<Nanos>,
}

impl Races {
    /// Thread `tid` faults on `page`; tells the thread it races with, if any.
    pub(super) fn begin(&mut self, page: Page, tid: i32, at: Nanos) -> Option<i32> {
        self.drop_old(at);
        let before = self.latest.insert(page, Latest { tid, ended: None })?;
        let is_near = before.ended.is_none_or(|end| at.0.saturating_sub(end.0) <= WINDOW.0);
        (before.tid != tid && is_near).then_some(before.tid)
    }

    /// The fault of thread `tid` on `page` is over.
    pub(super) fn end(&mut self, page: Page, tid: i32, at: Nanos) {
        if let Some(latest) = self.latest.get_mut(&page).filter(|latest| latest.tid == tid) {
            latest.ended = Some(at);
            self.ended.push_back((at, page));
        }
    }

    fn drop_old(&mut self, now: Nanos) {
        while let Some((end, page)) =
            self.ended.pop_front_if(|(end, _)| end.0.saturating_add(WINDOW.0) < now.0)
        {
            // A later fault on the page stays.
            if self.latest.get(&page).is_some_and(|latest| latest.ended == Some(end)) {
                self.latest.remove(&page);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: Page = (1, 7);

    #[test]
    fn faults_race_while_they_overlap_and_shortly_after() {
        let at = Nanos;
        let mut races = Races::default();
        assert_eq!(races.begin(PAGE, 1, at(100)), None);
        assert_eq!(races.begin(PAGE, 2, at(200)), Some(1));
        assert_eq!(races.begin((2, 7), 3, at(200)), None);
        races.end(PAGE, 1, at(300));
        races.end(PAGE, 2, at(400));
        assert_eq!(races.begin(PAGE, 2, at(500)), None, "a thread does not race with itself");
        races.end(PAGE, 2, at(600));
        assert_eq!(races.begin(PAGE, 1, at(600 + WINDOW.0)), Some(2));
        races.end(PAGE, 1, at(700 + WINDOW.0));
        assert_eq!(races.begin(PAGE, 2, at(701 + 2 * WINDOW.0)), None);
    }

    #[test]
    fn what_is_over_is_forgotten() {
        let mut races = Races::default();
        for page in 0..1000 {
            let at = Nanos(page * 1000);
            races.begin((1, page), 1, at);
            races.end((1, page), 1, at);
        }
        assert!(races.latest.len() < 60 && races.ended.len() < 60, "{}", races.latest.len());
    }
}
