//! Faults of several threads on one page at overlapping times, and what each of them found there.
//!
//! The kernel reports the page's state as it sees it at the beginning of a fault, some time after the
//! processor looked. Meanwhile another thread may have brought the page in, or taken it out to replace it
//! with a copy. A fault races with one that is under way on the same page, and with one that ended at most
//! [`WINDOW`] before. That window covers the way from the processor to the recording with an interrupt in
//! between.
//!
//! What such a fault found follows from what the others did:
//!
//! - A present page can be read. So a read or a fetch that was served found none.
//! - A write that sees the page of another thread's write found what that write had found. If that was a page
//!   to be copied, the kernel takes it out while all CPUs forget it, and puts the copy in afterwards
//!   (mm/memory.c, `wp_page_copy`). A fault that begins up to [`TAKEN_OUT`] after it found the old page; one
//!   that begins later found none, whatever it sees.
//! - A write that sees a page brought in only by reads found it there if the first of them had ended
//!   [`ENTRY`] before.
//!
//! Not covered: rights that change meanwhile (fork, mprotect). The times are those of one machine (a 2-CPU
//! guest, 7 runs of 8 threads on the same pages). There the processor's error codes agree with 99.2% of the
//! later ones of such faults. With only what the kernel sees they agree with 73%
//! (`bench/accept/faults/access`).

use pagewise_model::Nanos;
use pagewise_model::fault::{AccessKind, FaultCause};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// How long after its end a fault still counts.
const WINDOW: Nanos = Nanos(50_000);
/// From the beginning of a copy on write to the removal of the old page: 4-5 us if the copy takes 18. Most of
/// the remainder is the wait for the other CPUs.
const TAKEN_OUT: Nanos = Nanos(5_000);
/// From the processor's look to the recorded beginning, if nothing interrupts.
const ENTRY: Nanos = Nanos(1_500);

/// A page of a process.
pub(super) type Page = (i32, u64);

/// What is known of a fault when it begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct BegunFault {
    pub(super) tid: i32,
    pub(super) at: Nanos,
    pub(super) access: AccessKind,
    /// By the page that the kernel saw.
    pub(super) cause: FaultCause,
    /// The cause comes from the processor's error code.
    pub(super) is_reported: bool,
}

/// The faults that a coming one could race with, by page, each in the order of their beginnings.
#[derive(Debug, Default)]
pub(super) struct RacingFaults {
    pages: FxHashMap<Page, Vec<RecentFault>>,
    /// When one on a page ended, in the order of time.
    ended: VecDeque<(Nanos, Page)>,
}

#[derive(Debug, Clone, Copy)]
struct RecentFault {
    look: BegunFault,
    ended: Option<Nanos>,
}

impl RacingFaults {
    /// Records the beginning of a fault on `page`. Returns the thread it races with, the latest if there are
    /// several.
    pub(super) fn begin(&mut self, page: Page, look: BegunFault) -> Option<i32> {
        self.drop_old(look.at);
        let recent = self.pages.entry(page).or_default();
        recent.retain(|before| before.is_near(look.at));
        let other = recent.iter().rev().find(|before| before.look.tid != look.tid);
        let other = other.map(|before| before.look.tid);
        recent.push(RecentFault { look, ended: None });
        other
    }

    /// The cause of the fault of thread `tid` under way on `page`, now that it has been served.
    pub(super) fn cause(&mut self, page: Page, tid: i32) -> Option<FaultCause> {
        let recent = self.pages.get_mut(&page)?;
        let at = recent.iter().rposition(|one| one.look.tid == tid && one.ended.is_none())?;
        let (before, rest) = recent.split_at_mut(at);
        let fault = rest.first_mut()?;
        if !fault.look.is_reported {
            fault.look.cause = found(&fault.look, before);
        }
        Some(fault.look.cause)
    }

    /// The fault of thread `tid` on `page` is over.
    pub(super) fn end(&mut self, page: Page, tid: i32, at: Nanos) {
        let Some(recent) = self.pages.get_mut(&page) else { return };
        let is_meant = |one: &&mut RecentFault| one.look.tid == tid && one.ended.is_none();
        if let Some(one) = recent.iter_mut().rev().find(is_meant) {
            one.ended = Some(at);
            self.ended.push_back((at, page));
        }
    }

    fn drop_old(&mut self, now: Nanos) {
        while let Some((_, page)) =
            self.ended.pop_front_if(|(end, _)| end.0.saturating_add(WINDOW.0) < now.0)
        {
            // Later faults on the page are kept.
            if self.pages.get(&page).is_some_and(|all| !all.iter().any(|one| one.is_near(now))) {
                self.pages.remove(&page);
            }
        }
    }
}

impl RecentFault {
    /// Whether what begins at `at` could race with it.
    fn is_near(&self, at: Nanos) -> bool {
        self.ended.is_none_or(|end| at.0.saturating_sub(end.0) <= WINDOW.0)
    }

    fn is_under_way(&self, at: Nanos) -> bool {
        self.ended.is_none_or(|end| end > at)
    }
}

/// What `fault` found, after those that had begun `before`.
fn found(fault: &BegunFault, before: &[RecentFault]) -> FaultCause {
    let is_other = |one: &&RecentFault| one.look.tid != fault.tid && one.is_near(fault.at);
    let others = || before.iter().filter(is_other);
    let write = others().rev().find(|one| one.look.access == AccessKind::Write);
    match (fault.access, write) {
        _ if others().next().is_none() => fault.cause,
        (AccessKind::Unknown, _) => fault.cause,
        (AccessKind::Read | AccessKind::Execute, _) => FaultCause::Absent,
        (AccessKind::Write, Some(write)) => found_beside(fault, write),
        (AccessKind::Write, None) => {
            let first = others().filter_map(|read| read.ended).min();
            let was_there = first.is_some_and(|end| end.0.saturating_add(ENTRY.0) < fault.at.0);
            match fault.cause {
                FaultCause::Protection if !was_there => FaultCause::Absent,
                cause => cause,
            }
        }
    }
}

/// What the write `fault` found when it raced with the write `other`.
fn found_beside(fault: &BegunFault, other: &RecentFault) -> FaultCause {
    let is_early = fault.at.0.saturating_sub(other.look.at.0) < TAKEN_OUT.0;
    match (fault.cause, other.look.cause) {
        (FaultCause::Absent, FaultCause::Protection)
            if other.is_under_way(fault.at) && is_early =>
        {
            FaultCause::Protection
        }
        (FaultCause::Protection, FaultCause::Protection) if is_early => FaultCause::Protection,
        (FaultCause::Protection, FaultCause::Absent | FaultCause::Protection) => FaultCause::Absent,
        (cause, _) => cause,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AccessKind::{Execute, Read, Unknown, Write};
    use FaultCause::{Absent, Protection};

    const PAGE: Page = (1, 7);

    fn look(tid: i32, at: u64, access: AccessKind, cause: FaultCause) -> BegunFault {
        BegunFault { tid, at: Nanos(at), access, cause, is_reported: false }
    }

    fn begin(races: &mut RacingFaults, page: Page, tid: i32, at: u64) -> Option<i32> {
        races.begin(page, look(tid, at, Write, Absent))
    }

    #[test]
    fn faults_race_while_they_overlap_and_shortly_after() {
        let at = Nanos;
        let mut races = RacingFaults::default();
        assert_eq!(begin(&mut races, PAGE, 1, 100), None);
        assert_eq!(begin(&mut races, PAGE, 2, 200), Some(1));
        assert_eq!(begin(&mut races, (2, 7), 3, 200), None);
        races.end(PAGE, 1, at(300));
        races.end(PAGE, 2, at(400));
        assert_eq!(begin(&mut races, PAGE, 2, 500), Some(1), "the one before that one");
        races.end(PAGE, 2, at(600));
        assert_eq!(begin(&mut races, PAGE, 1, 600 + WINDOW.0), Some(2));
        races.end(PAGE, 1, at(700 + WINDOW.0));
        assert_eq!(begin(&mut races, PAGE, 2, 701 + 2 * WINDOW.0), None);
        races.end(PAGE, 2, at(702 + 2 * WINDOW.0));
        assert_eq!(begin(&mut races, PAGE, 2, 703 + 2 * WINDOW.0), None, "not with itself");
    }

    #[test]
    fn what_is_over_is_forgotten() {
        let mut races = RacingFaults::default();
        for page in 0..1000 {
            begin(&mut races, (1, page), 1, page * 1000);
            races.end((1, page), 1, Nanos(page * 1000));
        }
        assert!(races.pages.len() < 60 && races.ended.len() < 60, "{}", races.pages.len());
    }

    /// What the last of these faults found. Each has a beginning, an end, an access and what the kernel saw,
    /// and a separate thread.
    fn last_found(faults: &[(u64, u64, AccessKind, FaultCause)]) -> FaultCause {
        let mut events: Vec<(u64, bool, usize)> = Vec::new();
        for (number, (begun, ended, ..)) in faults.iter().enumerate() {
            events.extend([(*begun, false, number), (*ended, true, number)]);
        }
        events.sort_unstable();
        let mut races = RacingFaults::default();
        let mut causes = vec![None; faults.len()];
        for (at, is_end, number) in events {
            let (.., access, cause) = faults[number];
            let tid = number as i32;
            if is_end {
                causes[number] = races.cause(PAGE, tid);
                races.end(PAGE, tid, Nanos(at));
            } else {
                races.begin(PAGE, look(tid, at, access, cause));
            }
        }
        causes.pop().flatten().expect("a fault")
    }

    /// Recorded together with the processor's error codes, which gave the expected values here.
    #[test]
    fn recorded_races_are_what_the_processor_said() {
        let read = (0, 1863, Read, Absent);
        assert_eq!(last_found(&[read, (3671, 12_223, Read, Protection)]), Absent);
        let write = (0, 2263, Write, Absent);
        assert_eq!(last_found(&[write, (3430, 6194, Write, Protection)]), Absent);
        assert_eq!(last_found(&[write, (1106, 4732, Read, Protection)]), Absent);
        // Copies of a page that was read before: early, in between, at the end.
        let copy = (160_919, 179_817, Write, Protection);
        assert_eq!(last_found(&[copy, (165_211, 181_144, Write, Absent)]), Protection);
        let copy = (176_903, 195_901, Write, Protection);
        assert_eq!(last_found(&[copy, (179_031, 197_138, Write, Protection)]), Protection);
        let copy = (101_912, 122_623, Write, Protection);
        assert_eq!(last_found(&[copy, (109_373, 126_889, Write, Absent)]), Absent);
        let copy = (91_146, 120_109, Write, Protection);
        assert_eq!(last_found(&[copy, (119_337, 121_791, Write, Protection)]), Absent);
    }

    #[test]
    fn a_write_after_reads_found_the_page_when_one_was_over_before() {
        let read = (0, 2500, Read, Absent);
        assert_eq!(last_found(&[read, (9000, 9900, Write, Protection)]), Protection);
        assert_eq!(last_found(&[read, (2600, 9900, Write, Protection)]), Absent);
        assert_eq!(
            last_found(&[read, (2600, 9900, Write, FaultCause::Unknown)]),
            FaultCause::Unknown
        );
    }

    #[test]
    fn nothing_is_made_up_where_the_others_do_not_tell() {
        assert_eq!(last_found(&[(0, 10, Write, Protection)]), Protection);
        assert_eq!(last_found(&[(0, 10, Read, Protection)]), Protection, "no race");
        let write = (0, 10, Write, Absent);
        assert_eq!(last_found(&[write, (5, 20, Unknown, Protection)]), Protection);
        assert_eq!(last_found(&[write, (5, 20, Write, FaultCause::Unknown)]), FaultCause::Unknown);
        assert_eq!(last_found(&[(0, 10, Unknown, Absent), (5, 20, Execute, Protection)]), Absent);
        // Given back after a copy, and touched again.
        assert_eq!(last_found(&[(0, 10, Write, Protection), (900, 990, Write, Absent)]), Absent);
    }

    #[test]
    fn the_processors_own_word_stays() {
        let mut races = RacingFaults::default();
        races.begin(PAGE, look(1, 0, Write, Absent));
        races.begin(PAGE, BegunFault { is_reported: true, ..look(2, 5, Read, Protection) });
        assert_eq!(races.cause(PAGE, 2), Some(Protection));
        assert_eq!(races.cause(PAGE, 3), None);
        assert_eq!(races.cause((9, 9), 2), None);
    }
}
