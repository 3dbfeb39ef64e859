//! The events of a recording.

use super::record::{FaultEventKind, FaultSampleLayout};
use super::tracepoint::FaultTracepoints;
use crate::perf::event;
use pagewise_kernel::perf::{bindings as b, perf_event_attr};
use pagewise_model::fault::StackRecording;

/// Selects what is recorded.
#[derive(Debug, Clone, Copy)]
pub(super) struct FaultSelection {
    pub(super) layout: FaultSampleLayout,
    /// Include faults that the kernel takes on behalf of the program.
    pub(super) kernel: bool,
    /// Record the end of all faults, not only of major ones.
    pub(super) all_ends: bool,
    /// The tracepoints for the processor's error codes; `None` without them.
    pub(super) codes: Option<FaultTracepoints>,
    /// Start at the exec of a program; otherwise at once.
    pub(super) on_exec: bool,
    /// User stacks.
    pub(super) stacks: StackRecording,
}

impl FaultSelection {
    /// All events of a thread. Beginnings come last: in a running thread, no beginning is then recorded
    /// before its end can be.
    pub(super) fn events(&self) -> Vec<(FaultEventKind, perf_event_attr)> {
        let mut all = vec![(FaultEventKind::Major, self.software(FaultEventKind::Major))];
        if self.all_ends {
            all.push((FaultEventKind::Minor, self.software(FaultEventKind::Minor)));
        }
        let codes = self.codes.iter().flat_map(|tracepoints| tracepoints.ids);
        all.extend(codes.map(|id| (FaultEventKind::Code, self.tracepoint(id))));
        all.push((FaultEventKind::Begin, self.software(FaultEventKind::Begin)));
        all
    }

    /// True if stacks are taken at a rate of faults, not of time.
    pub(super) const fn has_many_stacks(&self) -> bool {
        matches!(self.stacks, StackRecording::Copied | StackRecording::Periodic)
    }

    fn software(&self, kind: FaultEventKind) -> perf_event_attr {
        let config = match kind {
            FaultEventKind::Minor => b::PERF_COUNT_SW_PAGE_FAULTS_MIN,
            FaultEventKind::Major => b::PERF_COUNT_SW_PAGE_FAULTS_MAJ,
            FaultEventKind::Begin | FaultEventKind::Code => b::PERF_COUNT_SW_PAGE_FAULTS,
        };
        let mut attr = self.common(b::PERF_TYPE_SOFTWARE, u64::from(config), kind);
        if kind == FaultEventKind::Begin {
            attr.set_exclude_callchain_kernel(1);
            attr.sample_regs_user = self.layout.registers();
            event::tell_of_processes(&mut attr);
            attr.set_mmap_data(1);
        }
        attr
    }

    fn tracepoint(&self, id: u64) -> perf_event_attr {
        self.common(b::PERF_TYPE_TRACEPOINT, id, FaultEventKind::Code)
    }

    fn common(&self, kind: u32, config: u64, of: FaultEventKind) -> perf_event_attr {
        let mut attr = self.plain(kind, config);
        attr.__bindgen_anon_1.sample_period = 1;
        attr.sample_type = u64::from(self.layout.sample_type(of));
        attr
    }

    /// An event that is enabled together with the others, still without fields and period.
    pub(super) fn plain(&self, kind: u32, config: u64) -> perf_event_attr {
        let mut attr = event::followed(kind, config, self.on_exec);
        attr.set_exclude_kernel(u64::from(!self.kernel));
        attr
    }
}
