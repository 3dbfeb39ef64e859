//! The account: the kernel's count of faults, and what explains it.
//!
//! Each term has its own source. Faults without a source stay unexplained. If calls were followed, the
//! counters of the threads at each call say how many faults were taken inside. Faults in the kernel that
//! events may also have reported are then not added a second time.

use super::FaultAnalysis;
use pagewise_model::Fact;
use pagewise_model::fault::{CallKind, FaultAccount, RecordingEnd};

const NOT_FOLLOWED: &str = "system calls were not followed (--account)";
const NOT_SEEN: &str = "needs kernel.perf_event_paranoid=1 or CAP_PERFMON";

impl FaultAnalysis {
    /// Of all that was taken in.
    pub(super) fn account(&self, ending: &RecordingEnd) -> FaultAccount {
        let before_exec_faults = ending
            .exec
            .clone()
            .map(|counts| counts.minor_faults.saturating_add(counts.major_faults));
        let in_calls = |kind| match &ending.calls {
            Fact::Known(calls) => Fact::Known(calls.faults(kind)),
            Fact::Missing(_) => Fact::missing(NOT_FOLLOWED),
        };
        let kernel_faults = match in_calls(CallKind::Copy) {
            Fact::Missing(_) => self.recorded_in_kernel(before_exec_faults.known().is_some()),
            counted => counted,
        };
        let (start_faults, populate_faults) =
            (in_calls(CallKind::Start), in_calls(CallKind::Populate));
        let outside_faults = self.outside_of_calls(ending);
        let terms =
            [&before_exec_faults, &kernel_faults, &start_faults, &populate_faults, &outside_faults];
        let known = terms.iter().filter_map(|term| term.known()).sum::<u64>();
        let explained = known.saturating_add(self.user_served);
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let unexplained = |counted| signed(counted) - signed(explained);
        FaultAccount {
            rusage_faults: ending.counted_faults.clone(),
            before_exec_faults,
            user_faults: self.user_served,
            kernel_faults,
            start_faults,
            populate_faults,
            outside_faults,
            calls: ending.calls.known().map(|calls| calls.calls.clone()).unwrap_or_default(),
            failed_faults: self.failed(),
            unexplained_faults: ending.counted_faults.clone().map(unexplained),
        }
    }

    /// Those that events reported; those of building the first image may be counted elsewhere.
    fn recorded_in_kernel(&self, exec_is_known: bool) -> Fact<u64> {
        if !self.sees.kernel {
            return Fact::missing("needs kernel.perf_event_paranoid=1, CAP_PERFMON or --account");
        }
        let early = if exec_is_known { 0 } else { self.kernel_early };
        Fact::Known(self.kernel_served + early)
    }

    /// Faults recorded in the kernel but in no call that the counters cover.
    fn outside_of_calls(&self, ending: &RecordingEnd) -> Fact<u64> {
        match &ending.calls {
            Fact::Missing(_) => Fact::missing(NOT_FOLLOWED),
            Fact::Known(_) if !self.sees.kernel => Fact::missing(NOT_SEEN),
            Fact::Known(calls) => Fact::Known(self.in_kernel.outside(&calls.inside)),
        }
    }

    fn failed(&self) -> Fact<u64> {
        if !self.sees.all_ends {
            Fact::missing("ends of faults were not recorded")
        } else if self.lost > 0 {
            Fact::missing("ends of faults may be among the lost records")
        } else {
            Fact::Known(self.unserved)
        }
    }
}
