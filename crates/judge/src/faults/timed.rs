//! Fault times for a diagnosis: the faults of one run by kind of cost, compared with a probe.

use crate::faults::churn::{self, RefaultCircumstances};
use crate::faults::race::Page;
use crate::faults::touched::PageHistory;
use pagewise_model::diagnosis::CostKind;
use pagewise_model::fault::event::FaultBegin;
use pagewise_model::fault::{AccessKind, FaultCause, FaultReport, MappingKind, RepeatFaultReason};
use pagewise_model::look::TimedFaults;
use pagewise_model::usage::ProgramUsage;
use pagewise_model::{Bytes, Fact, Nanos};

/// The kind of cost that a diagnosis counts a served fault as.
pub(super) fn cost(open: &OpenFault, is_major: bool) -> CostKind {
    let is_of_file = open.offset.is_some();
    // A first write to a part of a program copies it at once.
    let copies_part =
        is_of_file && open.kind == MappingKind::Data && open.access == AccessKind::Write;
    match open.kind {
        _ if is_major => CostKind::MajorFaults,
        _ if open.copies || copies_part => CostKind::CowFaults,
        MappingKind::Heap | MappingKind::Stack | MappingKind::Anonymous => CostKind::AnonFaults,
        MappingKind::Shared | MappingKind::Vdso => CostKind::FileFaults,
        _ if is_of_file => CostKind::FileFaults,
        _ => CostKind::AnonFaults,
    }
}

/// A program that touches so many fresh anonymous base pages that its other faults do not move the median.
#[derive(Debug)]
pub struct FaultProbe<'a> {
    /// Recorded in the same way as the program.
    pub recorded: &'a FaultReport,
    /// Its usage without recording.
    pub plain: &'a ProgramUsage,
}

impl FaultProbe<'_> {
    /// CPU time that recording adds to a fault.
    fn added(&self) -> Result<Nanos, String> {
        let recorded = match &self.recorded.usage {
            Fact::Known(usage) => usage.cpu_ns(),
            Fact::Missing(why) => return Err(why.clone()),
        };
        let more = recorded.0.saturating_sub(self.plain.cpu_ns().0);
        Ok(Nanos(more / self.recorded.total.faults.max(1)))
    }

    fn median(&self) -> Result<Nanos, String> {
        match &self.recorded.latency {
            Fact::Known(latencies) if latencies.p50_ns > Nanos(0) => Ok(latencies.p50_ns),
            Fact::Known(_) => Err("the recorder's clock gives no latencies".to_owned()),
            Fact::Missing(why) => Err(why.clone()),
        }
    }
}

/// The fault times of `program` compared with `probe`. `in_shown_run` is that of [`TimedFaults`].
#[must_use]
pub fn timed(
    program: &FaultReport,
    probe: &FaultProbe<'_>,
    in_shown_run: bool,
) -> Fact<TimedFaults> {
    if !(program.is_complete() && probe.recorded.is_complete()) {
        let lost = program.lost_records.saturating_add(probe.recorded.lost_records);
        return Fact::Missing(format!("their recording is incomplete ({lost} records lost)"));
    }
    let of_probe = || Ok::<_, String>((probe.median()?, probe.added()?));
    Fact::from(of_probe().map(|(probe_ns, added_ns)| TimedFaults {
        by_cost: program.by_cost.clone(),
        probe_ns,
        added_ns,
        in_shown_run,
    }))
}

// A fault under way: the known facts until its end, or until it is known to have none.

/// A fault under way.
#[derive(Debug)]
pub(super) struct OpenFault {
    pub(super) at: Nanos,
    pub(super) begin: FaultBegin,
    pub(super) page: Page,
    pub(super) place: u32,
    pub(super) site: u32,
    pub(super) kind: MappingKind,
    pub(super) offset: Option<Bytes>,
    pub(super) is_shared: bool,
    pub(super) access: AccessKind,
    pub(super) cause: FaultCause,
    /// The previous state of its page, and other activity, when it began.
    pub(super) before: PageHistory,
    pub(super) circumstances: RefaultCircumstances,
    pub(super) again: Option<RepeatFaultReason>,
    pub(super) copies: bool,
    pub(super) raced: bool,
    pub(super) stack: Option<u32>,
    /// Its touch has been taken down.
    pub(super) is_taken: bool,
}

impl OpenFault {
    /// It came for `cause`.
    pub(super) fn settle(&mut self, cause: FaultCause) {
        self.cause = cause;
        self.again = churn::reason(self.before, cause, self.circumstances);
        self.copies =
            cause == FaultCause::Protection && self.access == AccessKind::Write && !self.is_shared;
    }
}

/// How a fault came to its end.
#[derive(Debug, Clone, Copy)]
pub(super) enum FaultClose {
    Served {
        is_major: bool,
        /// Size of the page mapped, if known.
        page: Option<Bytes>,
    },
    /// Without an end, and why.
    Unserved(&'static str),
    /// Its end was not to be recorded, and why.
    Unreported(&'static str),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::tests::{
        DATA, Writes, analyse, begin, end, lossy_report, map, options, plain, present, usage,
    };

    #[test]
    fn each_served_fault_is_one_kind_of_cost() {
        const TEXT: u64 = 0x40_0000;
        let mut events = vec![
            map(TEXT, 0x2000, true, "/bin/x"),
            map(TEXT + 0x2000, 0x4000, false, "/bin/x"),
            map(DATA, 0x5000, false, "//anon"),
        ];
        let mut at = 0;
        let mut fault = |address, is_present, is_major| {
            at += 10;
            let begun = begin(at, 1, address);
            events.push(if is_present { present(begun) } else { begun });
            events.push(end(at + 4, 1, address, is_major));
        };
        // Every instruction writes.
        fault(DATA, false, false);
        fault(DATA + 0x1000, true, false);
        fault(TEXT + 0x2000, false, false);
        fault(TEXT, false, false);
        fault(TEXT + 0x1000, false, true);
        // Not served.
        events.push(begin(100, 1, DATA + 0x2000));
        let (report, ..) =
            analyse(events, options(false), &usage(5, 0), &Fact::missing(""), &mut Writes);
        let mut kinds: Vec<_> = report.by_cost.iter().map(|g| (g.kind, g.tally.faults)).collect();
        kinds.sort_unstable();
        let want = [
            (CostKind::AnonFaults, 1),
            (CostKind::FileFaults, 1),
            (CostKind::CowFaults, 2),
            (CostKind::MajorFaults, 1),
        ];
        assert_eq!(kinds, want);
    }

    #[test]
    fn times_need_complete_recordings_and_a_probe_that_was_timed() {
        let pair = || [begin(1, 1, DATA), end(701, 1, DATA, false)];
        let whole = plain(pair()).0;
        let lossy = lossy_report();
        let empty = plain([]).0;
        let beside = |program: &FaultReport, recorded: &FaultReport| {
            let spent = ProgramUsage { sys_ns: Nanos(300), ..usage(1, 0) };
            let recorded = FaultReport { usage: Fact::Known(spent), ..recorded.clone() };
            timed(program, &FaultProbe { recorded: &recorded, plain: &usage(1, 0) }, false)
        };
        let known = beside(&whole, &whole).known().cloned().unwrap();
        assert_eq!(
            (known.faults(), known.added_ns, known.recording_ns()),
            (1, Nanos(300), Nanos(300))
        );
        assert!(known.probe_ns > Nanos(650) && known.probe_ns < Nanos(750), "{known:?}");
        for (program, probe) in [(&lossy, &whole), (&whole, &lossy)] {
            assert!(beside(program, probe).reason().is_some_and(|why| why.contains("3 records")));
        }
        assert!(beside(&whole, &empty).reason().is_some());
    }
}
