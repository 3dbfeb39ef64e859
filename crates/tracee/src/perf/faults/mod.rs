//! Records every page fault of a program, with its beginning and end, without privilege.
//!
//! The software event `page-faults` fires when the fault handler is entered; `minor-faults` and
//! `major-faults` fire when it is done (arch/x86/mm/fault.c; mm/memory.c, `mm_account_fault`). All three have
//! a period of 1, are inherited by threads and children, and write into one ring per CPU. Records of the
//! first also carry new mappings, execs, forks and exits. A beginning takes 96 bytes (with the three
//! registers that tell operands apart), or 48 if only places are wanted; an end takes 56. In user mode a
//! `perf_event_paranoid` of 2 suffices. Faults that the kernel takes for the program need 1 or CAP_PERFMON.
//! The processor's error codes need tracefs, and -1 or CAP_PERFMON (`tracepoint`).
//!
//! A program is followed from its exec ([`FaultRings::open`]), or a running process from now on
//! ([`FaultRings::attach`]), without stopping it (`perf::running`). The older mappings of such a process are
//! read from `/proc/PID/maps` afterwards, so that no mapping is missed in between. Children that already
//! exist are not followed.
//!
//! Rings are locked memory: [`RING_BYTES`] each if RLIMIT_MEMLOCK and `perf_event_mlock_kb` allow it, more for
//! accounts that may lock any amount. At 1 us per fault that is room for at least 15 ms. A full ring loses
//! records, and the kernel counts them.
//!
//! User stacks are recorded separately ([`stacks`]), or with the beginnings if frame pointers are to be
//! followed: 8 bytes per frame, some 0.5-0.8 us per fault.
//!
//! Not seen: faults without the registers of a thread (populating, pinning, the arguments of `exec`); those
//! of processes that outlive the recording.
//!
//! Overhead: 1-1.5 us per fault. The share of the beginning (about half) lies inside the latency. Without the
//! ends of minor faults it is half, and a third less without the data that tells their kind.

mod attributes;
mod record;
mod stacks;
mod tracepoint;

use super::event;
use super::merge::{RingMerge, TimedRecord};
use super::rings::CpuRings;
use super::running;
use attributes::FaultSelection;
use pagewise_kernel::proc::stat::{self, ProcessStat};
use pagewise_kernel::proc::tree;
use pagewise_kernel::{SysError, clock};
use pagewise_model::Nanos;
use pagewise_model::fault::event::{FaultEvent, FaultEventPayload, MremapEvent};
use pagewise_model::fault::{FaultRecordingOptions, RecordingScope, StackRecording};
use record::{FaultEventKind, FaultSampleLayout};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};
use stacks::StackRings;
use std::os::fd::BorrowedFd;
use tracepoint::FaultTracepoints;

/// Wanted size of a ring.
const RING_BYTES: usize = 4 << 20;
/// Preferred minimum size of a ring: 256 pages of 4 KiB.
const LEAST_RING_BYTES: usize = 1 << 20;
/// Size of all rings together if every page counts and this much may be locked (CAP_IPC_LOCK): room for a
/// burst of a million faults.
const AMPLE_BYTES: usize = 128 << 20;
/// Maximum size of a ring if any amount may be locked and not every page counts: room for 60,000 faults with
/// their ends and error codes while this process does not run.
const UNLIMITED_RING_BYTES: usize = 16 << 20;
/// Maximum number of events held between two rounds, some 120 bytes each. Beyond it, rings are left to fill.
const MOST_WAITING: usize = 1 << 18;
/// Of them, maximum number of stacks, some 4 KiB each.
const MOST_STACKS_WAITING: usize = 1 << 13;
/// Number of events taken at once.
const EVENTS_AT_ONCE: usize = 64;
/// How long rings may fill while events are processed. The smallest ring has room for 7 ms of faults that
/// come every microsecond. Each look at the rings takes cache lines from the CPUs that write there.
const ROOM_EVERY: Nanos = Nanos::millis(2);

/// Why faults cannot be recorded, and what would help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, serde::Serialize, serde::Deserialize)]
#[error("{why}")]
pub struct RecordingRefusal {
    /// The reason.
    pub why: String,
    /// What makes it possible.
    pub help: String,
}

/// How much is recorded for each fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FaultDetail {
    /// Time and place of the beginning: the cheapest record.
    Places,
    /// Also the registers and the size of the mapped page, which tell what kind of fault it was.
    Kinds,
    /// Also the end of the fault.
    Times,
}

impl FaultDetail {
    /// The detail that `wanted` needs.
    const fn of(wanted: &FaultRecordingOptions) -> Self {
        match (wanted.latency, wanted.exact || wanted.sites) {
            (true, _) => Self::Times,
            (false, true) => Self::Kinds,
            (false, false) => Self::Places,
        }
    }

    /// Layouts to try, the richest first. Old kernels know only the later ones.
    const fn layouts(self) -> &'static [FaultSampleLayout] {
        match self {
            Self::Places => &[FaultSampleLayout::LEAN],
            Self::Kinds | Self::Times => {
                &[FaultSampleLayout::FULL, FaultSampleLayout::NO_PAGE_SIZE, FaultSampleLayout::LEAN]
            }
        }
    }
}

/// The rings of one program, one for each CPU.
#[derive(Debug)]
pub struct FaultRings {
    rings: CpuRings<FaultEventKind>,
    choice: FaultSelection,
    stacks: Option<StackRings>,
    merge: RingMerge<FaultEvent>,
    /// Time when the rings were last emptied.
    emptied: Nanos,
    /// Earlier events are dropped: not all threads were followed yet.
    since: Nanos,
    before: InitialCounts,
    /// Records that the rings reported as lost.
    reported_lost: u64,
}

/// Counts of a process at the moment from which it is followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct InitialCounts {
    /// Faults of the process and of the children it had waited for; `None` if they could not be read.
    pub faults: Option<u64>,
    /// Number of threads; 0 for a program that is yet to be executed.
    pub threads: u64,
}

impl FaultRings {
    /// Opens the rings for `pid`, which must not have executed its program yet. Leaves out what the kernel
    /// does not support (page sizes before Linux 5.11) or permit (kernel mode, error codes, stacks).
    ///
    /// # Errors
    /// [`RecordingRefusal`] if not even faults in user mode can be recorded.
    pub fn open(pid: i32, wanted: &FaultRecordingOptions) -> Result<Self, RecordingRefusal> {
        let follow = |rings: &mut Self| rings.add_thread(pid);
        Self::choose(true, wanted, &follow).map_err(|e| refusal(&e))
    }

    /// Follows the running process `pid` from now on.
    ///
    /// # Errors
    /// [`RecordingRefusal`] if not even faults in user mode can be recorded, or the process has ended.
    pub fn attach(pid: i32, wanted: &FaultRecordingOptions) -> Result<Self, RecordingRefusal> {
        event::allow_descriptors();
        let owns = |all: &Self, tid| all.rings.owns(tid);
        let follow = |all: &mut Self| running::add_threads(all, pid, owns, Self::add_thread);
        let mut all = Self::choose(false, wanted, &follow).map_err(|e| refusal(&e))?;
        let stat = stat::read(pid).ok();
        all.since = clock::now();
        all.before = InitialCounts {
            faults: stat.as_ref().map(ProcessStat::faults_with_children),
            threads: stat.map_or(0, |stat| u64::from(stat.threads)),
        };
        all.add_what_was_before(pid);
        Ok(all)
    }

    /// Adds its threads beyond the first, and its mappings.
    fn add_what_was_before(&mut self, pid: i32) {
        let at_ns = self.since;
        let others = tree::threads(pid).map_or(0, |threads| threads.len().saturating_sub(1));
        for _ in 0..others {
            self.merge.add(
                0,
                FaultEvent { at_ns, what: FaultEventPayload::Fork { pid, parent_pid: pid } },
            );
        }
        for map in running::mapped(pid) {
            self.merge.add(0, FaultEvent { at_ns, what: FaultEventPayload::Map(map) });
        }
    }

    /// Finds the richest choice that the kernel supports and permits, by trying `follow`, which adds the
    /// threads.
    fn choose(
        on_exec: bool,
        wanted: &FaultRecordingOptions,
        follow: &dyn Fn(&mut Self) -> Result<(), SysError>,
    ) -> Result<Self, SysError> {
        let (detail, stacks) = (FaultDetail::of(wanted), wanted.stacks);
        let all_ends = detail == FaultDetail::Times;
        let found = if all_ends { FaultTracepoints::find() } else { None };
        let with_codes = found.map(|codes| (true, Some(codes)));
        let mut last = None;
        for (kernel, codes) in with_codes.into_iter().chain([(true, None), (false, None)]) {
            for layout in detail.layouts() {
                let layout = layout.with_chain(stacks == StackRecording::FramePointers);
                let choice = FaultSelection { layout, kernel, all_ends, codes, on_exec, stacks };
                match Self::empty(choice).and_then(|mut all| follow(&mut all).map(|()| all)) {
                    Ok(rings) => return Ok(rings),
                    Err(error) if error.errno() == Some(libc::EINVAL) => last = Some(error),
                    Err(error) => {
                        last = Some(error);
                        break;
                    }
                }
            }
        }
        Err(last.unwrap_or_else(|| SysError::malformed("perf_event_open", "page faults")))
    }

    /// Opens the rings, without any event.
    fn empty(choice: FaultSelection) -> Result<Self, SysError> {
        let cpus = event::online_cpus();
        // Many stacks take as much room as the faults.
        let shares = if choice.has_many_stacks() { 2 } else { 1 };
        let ring_bytes = ring_bytes(cpus.len() * shares);
        let open = |bytes| CpuRings::open(&cpus, bytes, LEAST_RING_BYTES, !choice.on_exec);
        let is_every_page = choice.stacks == StackRecording::Periodic;
        let ample_bytes = ample_ring_bytes(cpus.len(), is_every_page);
        let is_tried = ample_bytes > ring_bytes && (is_every_page || may_lock_any());
        let ample = is_tried.then(|| open(ample_bytes));
        let ample = ample.and_then(Result::ok).filter(|rings| rings.least_bytes() == ample_bytes);
        let stack_bytes = ample.as_ref().filter(|_| is_every_page).map(|_| ample_bytes);
        Ok(Self {
            rings: ample.map_or_else(|| open(ring_bytes), Ok)?,
            choice,
            // They take the locked memory that is left.
            stacks: StackRings::open(&choice, stack_bytes),
            merge: RingMerge::default(),
            emptied: Nanos(0),
            since: Nanos(0),
            before: InitialCounts::default(),
            reported_lost: 0,
        })
    }

    /// Opens the events of thread `tid` on every CPU. Each kind is opened on all CPUs before the next.
    fn add_thread(&mut self, tid: i32) -> Result<(), SysError> {
        for (kind, attr) in self.choice.events() {
            self.rings.add_event(kind, &attr, tid)?;
        }
        if let Some(stacks) = &mut self.stacks {
            stacks.add_thread(tid);
        }
        Ok(())
    }

    /// What is recorded.
    #[must_use]
    pub const fn sees(&self) -> RecordingScope {
        RecordingScope {
            kernel: self.choice.kernel,
            all_ends: self.choice.all_ends,
            error_codes: self.choice.codes.is_some(),
            from_start: self.choice.on_exec,
        }
    }

    /// Counts from before the recording.
    #[must_use]
    pub const fn before(&self) -> InitialCounts {
        self.before
    }

    /// Descriptors that become readable when a ring is a quarter full.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let stacks = self.stacks.iter().flat_map(StackRings::descriptors);
        self.rings.descriptors().chain(stacks)
    }

    /// Empties the rings. Events from before the previous round can be taken then. Another CPU may still add
    /// newer ones.
    pub fn drain(&mut self) {
        self.merge.begin_round(clock::now());
        self.collect();
    }

    /// Empties the rings a last time; all that is left can be taken then.
    pub fn finish(&mut self) {
        self.collect();
        let records = self.rings.lost().saturating_sub(self.reported_lost);
        let stacks = self.stacks.as_ref().map_or(0, StackRings::silently_lost);
        for what in [FaultEventPayload::Lost { records }, FaultEventPayload::LostStacks { stacks }]
        {
            self.merge.add(0, FaultEvent { at_ns: self.since, what });
        }
        self.merge.end();
    }

    /// Adds a move of pages, made just now by a thread that is still stopped.
    pub fn add_move(&mut self, moved: MremapEvent) {
        let stacks = self.stacks.as_ref().map_or(0, StackRings::count);
        let event = FaultEvent { at_ns: clock::now(), what: FaultEventPayload::Move(moved) };
        self.merge.add(self.rings.count() + stacks, event);
    }

    /// Replaces the content of `events` by the next events in the order of their time; empty if there are
    /// none for now. Rings that fill are emptied meanwhile, to keep room while events are processed, unless
    /// too many events wait already.
    pub fn take(&mut self, events: &mut Vec<FaultEvent>) {
        let is_time = clock::now().0.saturating_sub(self.emptied.0) >= ROOM_EVERY.0;
        if is_time && self.merge.waiting(0) < MOST_WAITING {
            self.collect_faults();
            if self.merge.waiting(self.rings.count()) < MOST_STACKS_WAITING {
                self.collect_stacks();
            }
        }
        events.clear();
        self.merge.release(events, EVENTS_AT_ONCE);
    }

    fn collect(&mut self) {
        self.collect_faults();
        self.collect_stacks();
    }

    fn collect_stacks(&mut self) {
        let faults = self.rings.count();
        if let Some(stacks) = &mut self.stacks {
            stacks.collect(&mut |ring, event| self.merge.add(faults + ring, event));
        }
    }

    fn collect_faults(&mut self) {
        let (layout, fields) = (self.choice.layout, self.choice.codes.map(|codes| codes.fields));
        self.rings.drain(|number, bytes, streams| {
            record::parse(bytes, layout, fields, streams, &mut |event| {
                if let FaultEventPayload::Lost { records } = event.what {
                    self.reported_lost += records;
                }
                if event.at_ns >= self.since || counts_before(&event) {
                    self.merge.add(number, event);
                }
            });
        });
        self.emptied = clock::now();
    }
}

impl TimedRecord for FaultEvent {
    fn at_ns(&self) -> Nanos {
        self.at_ns
    }
}

/// Whether an event counts although not all threads were followed yet. Mappings and threads are read once
/// they all are.
const fn counts_before(event: &FaultEvent) -> bool {
    match event.what {
        FaultEventPayload::Fork { pid, parent_pid } => pid != parent_pid,
        FaultEventPayload::Lost { .. } => true,
        _ => false,
    }
}

/// Whether this process may lock as much memory as it likes: by CAP_IPC_LOCK (capabilities(7)), or without a limit.
fn may_lock_any() -> bool {
    let of_this_thread = capabilities(None);
    of_this_thread.is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK))
        || getrlimit(Resource::Memlock).current.is_none()
}

/// Size of each of `rings` rings if any amount may be locked.
fn ample_ring_bytes(rings: usize, is_every_page: bool) -> usize {
    let share = 1 << (AMPLE_BYTES / rings.max(1)).max(1).ilog2();
    if is_every_page { share } else { share.min(UNLIMITED_RING_BYTES) }
}

/// Size of each of `rings` rings: what locked memory allows, within bounds. The kernel may still give less.
fn ring_bytes(rings: usize) -> usize {
    let unlimited = RING_BYTES.saturating_mul(rings);
    let limit = getrlimit(Resource::Memlock).current;
    let limit = limit.map_or(unlimited, |bytes| usize::try_from(bytes).unwrap_or(unlimited));
    let share = (limit / rings.max(1)).clamp(LEAST_RING_BYTES, RING_BYTES);
    1 << share.ilog2()
}

fn refusal(error: &SysError) -> RecordingRefusal {
    let paranoid = || {
        let level = pagewise_kernel::machine::perf_event_paranoid();
        level.known().map_or(String::new(), |level| format!(" (it is {level})"))
    };
    let (why, help) = match error.errno() {
        Some(libc::EACCES | libc::EPERM) => (
            format!("perf events are refused to this account{}", paranoid()),
            "use sysctl kernel.perf_event_paranoid=2, or CAP_PERFMON; in a container allow perf_event_open in the seccomp profile",
        ),
        Some(libc::ENOSYS) => (
            "this kernel or container has no perf_event_open".to_owned(),
            "use a kernel with CONFIG_PERF_EVENTS, or allow perf_event_open in the seccomp profile",
        ),
        Some(libc::EMFILE) => (
            "the events of all CPUs need more descriptors than this process may have".to_owned(),
            "raise ulimit -n to at least eight times the number of CPUs",
        ),
        _ => (format!("page faults cannot be recorded: {error}"), "pagewise doctor"),
    };
    RecordingRefusal { why, help: help.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_what_unlocks_it() {
        let with = |errno| {
            let source = std::io::Error::from_raw_os_error(errno);
            refusal(&SysError::new("perf_event_open", "event", source)).help
        };
        assert!(with(libc::EPERM).contains("kernel.perf_event_paranoid=2"));
        assert!(with(libc::ENOSYS).contains("seccomp"));
        assert!(with(libc::EMFILE).contains("ulimit"));
        assert!(with(libc::EIO).contains("doctor"));
    }

    #[test]
    fn rings_are_a_power_of_two_within_bounds() {
        for cpus in [1, 2, 3, 64, 4096] {
            let bytes = ring_bytes(cpus);
            assert!(bytes.is_power_of_two(), "{bytes}");
            assert!((LEAST_RING_BYTES..=RING_BYTES).contains(&bytes), "{bytes}");
        }
    }
}
