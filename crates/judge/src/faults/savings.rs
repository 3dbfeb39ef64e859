//! Which faults a remedy could remove: upper bounds, from what the faults were.
//!
//! Remedies are named only. Whether one fits, takes hold and pays is for the experiment to decide. A remedy
//! that could save less than a hundredth of the run time is not named.

use super::groups;
use pagewise_model::fault::{FaultCause, FaultSaving, FaultTally, MappingKind, RepeatFaultReason};
use pagewise_model::{Bytes, Nanos, PageSize};

/// Share of the run time below which a saving is not named.
const LEAST_SHARE: f64 = 0.01;

/// Faults that a remedy is known for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RemovableFaults {
    /// Private memory that was dropped and faulted in again.
    churned: FaultTally,
    /// Private memory touched for the first time, a base page at a time.
    small: FaultTally,
    /// Parts of files that had to be read.
    read: FaultTally,
}

/// A fault, as far as remedies are for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct RemediableFault {
    pub(super) kind: MappingKind,
    pub(super) cause: FaultCause,
    pub(super) again: Option<RepeatFaultReason>,
    pub(super) is_major: bool,
    /// Size of the page mapped.
    pub(super) page: Option<Bytes>,
}

impl RemovableFaults {
    pub(super) fn add(&mut self, seen: &RemediableFault, tally: FaultTally) {
        let is_private = matches!(seen.kind, MappingKind::Heap | MappingKind::Anonymous);
        let is_file =
            matches!(seen.kind, MappingKind::Code | MappingKind::Data | MappingKind::File);
        let is_huge = seen.page.is_some_and(|page| page.0 >= PageSize::PMD_2M.bytes());
        if is_private && seen.again.is_some_and(RepeatFaultReason::is_churn) {
            groups::add(&mut self.churned, tally);
        } else if is_private
            && seen.again.is_none()
            && seen.cause != FaultCause::Protection
            && !is_huge
        {
            groups::add(&mut self.small, tally);
        } else if is_file && seen.is_major {
            groups::add(&mut self.read, tally);
        }
    }

    /// What would be worth a try, the most time first; `spared` are the first touches of private
    /// memory that the forecast for huge pages is without.
    pub(super) fn savings(&self, wall: Nanos, spared: u64) -> Vec<FaultSaving> {
        let saved = self.small.faults.min(spared);
        let time = self.small.time_ns.0 as f64 * saved as f64 / self.small.faults.max(1) as f64;
        let all = [
            saving(
                "malloc-keep",
                self.churned.faults,
                self.churned.time_ns,
                "private memory that was given back and touched again",
            ),
            saving(
                "heap-huge",
                saved,
                Nanos::from_f64(time),
                "first touches of private memory on base pages, if there were one for each whole 2 MiB of a mapping; clearing the memory remains",
            ),
            saving(
                "working-set",
                self.read.faults,
                self.read.time_ns,
                "parts of files that were read from disk when touched",
            ),
        ];
        let worth = |saving: &FaultSaving| saving.time_ns.0 as f64 > wall.0 as f64 * LEAST_SHARE;
        let mut worthy: Vec<FaultSaving> = all.into_iter().filter(worth).collect();
        worthy.sort_by_key(|saving| std::cmp::Reverse(saving.time_ns));
        worthy
    }
}

fn saving(remedy: &str, faults: u64, time_ns: Nanos, why: &str) -> FaultSaving {
    FaultSaving { remedy: remedy.to_owned(), faults, time_ns, why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: RemediableFault = RemediableFault {
        kind: MappingKind::Heap,
        cause: FaultCause::Absent,
        again: None,
        is_major: false,
        page: Some(Bytes(4096)),
    };

    fn tally(faults: u64) -> FaultTally {
        FaultTally { faults, time_ns: Nanos(faults * 1000), ..FaultTally::default() }
    }

    #[test]
    fn each_kind_of_fault_has_its_remedy_and_the_small_are_left_out() {
        let mut removable = RemovableFaults::default();
        removable.add(&PLAIN, tally(1024));
        removable.add(
            &RemediableFault { again: Some(RepeatFaultReason::Remapped), ..PLAIN },
            tally(2000),
        );
        removable.add(
            &RemediableFault { again: Some(RepeatFaultReason::Protection), ..PLAIN },
            tally(9000),
        );
        removable.add(&RemediableFault { page: Some(Bytes::mib(2)), ..PLAIN }, tally(9000));
        removable.add(&RemediableFault { kind: MappingKind::Stack, ..PLAIN }, tally(9000));
        let read = RemediableFault { kind: MappingKind::Code, is_major: true, ..PLAIN };
        removable.add(&read, tally(100));
        let of = |wall| {
            let savings = removable.savings(Nanos(wall), 1022);
            savings.into_iter().map(|s| (s.remedy, s.faults, s.time_ns.0)).collect::<Vec<_>>()
        };
        let keep = ("malloc-keep".to_owned(), 2000, 2_000_000);
        let huge = ("heap-huge".to_owned(), 1022, 1_022_000);
        let set = ("working-set".to_owned(), 100, 100_000);
        assert_eq!(of(5_000_000), [keep.clone(), huge.clone(), set]);
        assert_eq!(of(50_000_000), [keep, huge]);
        assert!(RemovableFaults::default().savings(Nanos(0), 1022).is_empty());
    }

    #[test]
    fn huge_pages_save_no_more_than_their_forecast_and_than_there_is() {
        let mut removable = RemovableFaults::default();
        removable.add(&PLAIN, tally(1000));
        let of = |spared| {
            let savings = removable.savings(Nanos(1000), spared);
            savings.first().map(|saving| (saving.faults, saving.time_ns.0))
        };
        assert_eq!(of(0), None);
        assert_eq!(of(600), Some((600, 600_000)));
        assert_eq!(of(5000), Some((1000, 1_000_000)));
    }
}
