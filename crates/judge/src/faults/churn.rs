//! Why pages are faulted on again, and which code touches pages that were dropped.
//!
//! A page can be dropped in several ways. Its mapping was replaced (a program that maps and unmaps in a loop
//! gets the same addresses again). It was given back (`MADV_DONTNEED`, a heap that shrinks and grows). Or it
//! was reclaimed or swapped out. The kernel reports new mappings, not what is unmapped or given back. These
//! are not churn: a write to a page that was read before, two threads at one page, an access that a signal
//! interrupted.

use super::callers::{self, FaultAttribution};
use super::groups::FaultGroups;
use super::touched::PageHistory;
use pagewise_model::fault::{FaultCause, FaultChurn, FaultSite, FaultTally, RepeatFaultReason};

/// What else is known of a fault on a page seen before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RefaultCircumstances {
    /// Another thread of the process has a fault on the page under way.
    pub(super) is_raced: bool,
    /// The thread's fault before was on this page and was not served.
    pub(super) is_retried: bool,
}

/// Why a page is faulted on again; `None` for one that is new.
pub(super) const fn reason(
    before: PageHistory,
    cause: FaultCause,
    of: RefaultCircumstances,
) -> Option<RepeatFaultReason> {
    Some(match (before, cause) {
        (PageHistory::New, _) => return None,
        _ if of.is_retried => RepeatFaultReason::Retried,
        (_, FaultCause::Protection) => RepeatFaultReason::Protection,
        _ if of.is_raced => RepeatFaultReason::Raced,
        (PageHistory::Remapped, _) => RepeatFaultReason::Remapped,
        (PageHistory::Touched, FaultCause::Absent) => RepeatFaultReason::GivenBack,
        (PageHistory::Touched, FaultCause::Unknown) => RepeatFaultReason::Unknown,
    })
}

/// Faults on pages seen before.
#[derive(Debug, Default)]
pub(super) struct ChurnGroups {
    by_reason: FaultGroups<RepeatFaultReason>,
    /// Those on pages that were gone, by the instruction.
    by_site: FaultGroups<u32>,
}

impl ChurnGroups {
    pub(super) fn add(&mut self, again: RepeatFaultReason, site: u32, tally: FaultTally) {
        self.by_reason.add(again, tally);
        if again.is_churn() {
            self.by_site.add(site, tally);
        }
    }

    /// The totals. An instruction with no known cause stands for itself.
    pub(super) fn conclude(
        &self,
        attribution: &FaultAttribution<'_>,
        sites: &[FaultSite],
    ) -> FaultChurn {
        let mut who: Vec<(&FaultSite, FaultTally)> = Vec::new();
        for group in self.by_site.ranked() {
            let own = sites.get(group.kind as usize);
            attribution.share_out(group.kind, group.tally, &mut |behind, part| {
                who.extend(behind.ok().or(own).map(|site| (site, part)));
            });
        }
        FaultChurn { by_reason: self.by_reason.ranked(), functions: callers::by_function(who) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_needs_a_page_seen_before() {
        let plain = RefaultCircumstances::default();
        let raced = RefaultCircumstances { is_raced: true, ..plain };
        let retried = RefaultCircumstances { is_retried: true, is_raced: true };
        for (before, cause, of, want) in [
            (PageHistory::New, FaultCause::Absent, retried, None),
            (PageHistory::Touched, FaultCause::Absent, plain, Some(RepeatFaultReason::GivenBack)),
            (PageHistory::Touched, FaultCause::Unknown, plain, Some(RepeatFaultReason::Unknown)),
            (PageHistory::Remapped, FaultCause::Absent, plain, Some(RepeatFaultReason::Remapped)),
            (
                PageHistory::Remapped,
                FaultCause::Protection,
                raced,
                Some(RepeatFaultReason::Protection),
            ),
            (PageHistory::Touched, FaultCause::Absent, raced, Some(RepeatFaultReason::Raced)),
            (PageHistory::Touched, FaultCause::Absent, retried, Some(RepeatFaultReason::Retried)),
        ] {
            assert_eq!(reason(before, cause, of), want);
        }
    }
}
