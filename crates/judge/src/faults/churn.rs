//! Why pages are faulted on again, and which code touches pages that were dropped.
//!
//! A page can be dropped in several ways. Its mapping was replaced (a program that maps and unmaps in a loop
//! gets the same addresses again). It was given back (`MADV_DONTNEED`, a heap that shrinks and grows). Or it
//! was reclaimed or swapped out. The kernel reports new mappings, not what is unmapped or given back. These
//! are not churn: a write to a page that was read before, two threads at one page, an access that a signal
//! interrupted.

use super::callers::{self, Attribution};
use super::groups::Groups;
use super::touched::Before;
use pagewise_model::fault::{Again, Cause, Churn, Site, Tally};

/// What else is known of a fault on a page seen before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Circumstances {
    /// Another thread of the process has a fault on the page under way.
    pub(super) is_raced: bool,
    /// The thread's fault before was on this page and was not served.
    pub(super) is_retried: bool,
}

/// Why a page is faulted on again; `None` for one that is new.
pub(super) const fn reason(before: Before, cause: Cause, of: Circumstances) -> Option<Again> {
    Some(match (before, cause) {
        (Before::New, _) => return None,
        _ if of.is_retried => Again::Retried,
        (_, Cause::Protection) => Again::Protection,
        _ if of.is_raced => Again::Raced,
        (Before::Remapped, _) => Again::Remapped,
        (Before::Touched, Cause::Absent) => Again::GivenBack,
        (Before::Touched, Cause::Unknown) => Again::Unknown,
    })
}

/// Faults on pages seen before.
#[derive(Debug, Default)]
pub(super) struct Churning {
    by_reason: Groups<Again>,
    /// Those on pages that were gone, by the instruction.
    by_site: Groups<u32>,
}

impl Churning {
    pub(super) fn add(&mut self, again: Again, site: u32, tally: Tally) {
        self.by_reason.add(again, tally);
        if again.is_churn() {
            self.by_site.add(site, tally);
        }
    }

    /// The totals. An instruction with no known cause stands for itself.
    pub(super) fn conclude(&self, attribution: &Attribution<'_>, sites: &[Site]) -> Churn {
        let mut who: Vec<(&Site, Tally)> = Vec::new();
        for group in self.by_site.ranked() {
            let own = sites.get(group.kind as usize);
            attribution.share_out(group.kind, group.tally, &mut |behind, part| {
                who.extend(behind.ok().or(own).map(|site| (site, part)));
            });
        }
        Churn { by_reason: self.by_reason.ranked(), functions: callers::by_function(who) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_needs_a_page_seen_before() {
        let plain = Circumstances::default();
        let raced = Circumstances { is_raced: true, ..plain };
        let retried = Circumstances { is_retried: true, is_raced: true };
        for (before, cause, of, want) in [
            (Before::New, Cause::Absent, retried, None),
            (Before::Touched, Cause::Absent, plain, Some(Again::GivenBack)),
            (Before::Touched, Cause::Unknown, plain, Some(Again::Unknown)),
            (Before::Remapped, Cause::Absent, plain, Some(Again::Remapped)),
            (Before::Remapped, Cause::Protection, raced, Some(Again::Protection)),
            (Before::Touched, Cause::Absent, raced, Some(Again::Raced)),
            (Before::Touched, Cause::Absent, retried, Some(Again::Retried)),
        ] {
            assert_eq!(reason(before, cause, of), want);
        }
    }
}
