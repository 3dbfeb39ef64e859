//! Every page fault of a program, by its beginning and its end, without privilege.
//!
//! The software event `page-faults` fires when the fault handler is entered, `minor-faults` and
//! `major-faults` when it is done (arch/x86/mm/fault.c; mm/memory.c, `mm_account_fault`). All three
//! with a period of 1, inherited by threads and children, write into one ring per CPU, and records
//! of the first carry new mappings, execs, forks and exits along. A beginning is 96 bytes (with the
//! three registers that tell operands apart), or 48 where places alone are wanted, an end 56. In user mode `perf_event_paranoid` of 2
//! suffices; faults that the kernel takes for the program need 1 or CAP_PERFMON, the processor's
//! error codes tracefs and -1 or CAP_PERFMON (`tracepoint`).
//!
//! A program is followed from its exec ([`FaultRings::open`]), or a process from now on
//! ([`FaultRings::attach`]), without stopping it (`perf::running`). What such a process had mapped before is
//! read from `/proc/PID/maps` afterwards, so that no mapping falls between the two. Children that live already
//! are not followed.
//!
//! Rings are locked memory: [`RING_BYTES`] each where RLIMIT_MEMLOCK and `perf_event_mlock_kb`
//! give that much, at 1 us a fault room for 15 ms at the least. A full ring loses records, and the
//! kernel counts them.
//!
//! User stacks are taken beside them ([`stacks`]), or with the beginnings where frame pointers are to
//! be followed: 8 bytes a frame, some 0.5-0.8 us a fault.
//!
//! Not seen: faults without registers of a thread (populating, pinning, the arguments of `exec`);
//! those of processes that outlive the recording. Overhead: 1-1.5 us a fault, of which the share of
//! the beginning (about half) lies inside the latency; half of it without the ends of minor faults, and
//! a third of that less without what tells of their kind.

mod attributes;
mod record;
mod stacks;
mod tracepoint;

use super::event;
use super::merge::{Merge, Timed};
use super::rings::Rings;
use super::running;
use attributes::Choice;
use pagewise_kernel::proc::stat::{self, Stat};
use pagewise_kernel::proc::tree;
use pagewise_kernel::{SysError, clock};
use pagewise_model::Nanos;
use pagewise_model::fault::event::{Event, Move, What};
use pagewise_model::fault::{Sees, Stacks, Wanted};
use record::{Kind, Layout};
use stacks::StackRings;
use std::os::fd::BorrowedFd;
use tracepoint::Tracepoints;

/// Wanted size of a ring.
const RING_BYTES: usize = 4 << 20;
/// What a ring should not be below: 256 pages of 4 KiB.
const LEAST_RING_BYTES: usize = 1 << 20;
/// Size of all rings together where each page counts, if so much may be locked (CAP_IPC_LOCK): room for a burst of
/// a million faults.
const AMPLE_BYTES: usize = 128 << 20;
/// Events that are held between two rounds, some 120 bytes each, before rings are left to fill.
const MOST_WAITING: usize = 1 << 18;
/// How many events are taken at once.
const EVENTS_AT_ONCE: usize = 64;
/// How long rings may go on to fill while events are worked through: the smallest has room for 7 ms of
/// faults that come every microsecond. Each look at them takes cache lines from those who write there.
const ROOM_EVERY: Nanos = Nanos::millis(2);

/// Why faults cannot be recorded, and what would change that.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, serde::Serialize, serde::Deserialize)]
#[error("{why}")]
pub struct Refusal {
    /// The reason.
    pub why: String,
    /// What unlocks it.
    pub help: String,
}

/// How much is recorded of each fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// When and where it began: the cheapest record.
    Places,
    /// Also the registers and the size of the page that was mapped, which tell what it was about.
    Kinds,
    /// Also its end.
    Times,
}

impl Detail {
    /// How much `wanted` needs.
    const fn of(wanted: &Wanted) -> Self {
        match (wanted.latency, wanted.exact || wanted.sites) {
            (true, _) => Self::Times,
            (false, true) => Self::Kinds,
            (false, false) => Self::Places,
        }
    }

    /// What is asked for, the most that a kernel may know first.
    const fn layouts(self) -> &'static [Layout] {
        match self {
            Self::Places => &[Layout::LEAN],
            Self::Kinds | Self::Times => &[Layout::FULL, Layout::NO_PAGE_SIZE, Layout::LEAN],
        }
    }
}

/// The rings of one program, one for each CPU.
#[derive(Debug)]
pub struct FaultRings {
    rings: Rings<Kind>,
    choice: Choice,
    stacks: Option<StackRings>,
    merge: Merge<Event>,
    /// When the rings were emptied last.
    emptied: Nanos,
    /// What happened before it is left out: not all threads were followed yet.
    since: Nanos,
    before: Before,
}

/// What the kernel told of a process at the moment from which on it is followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Before {
    /// Faults of it and of the children it had waited for, where they could be read.
    pub faults: Option<u64>,
    /// Its threads; 0 for a program that is to be executed.
    pub threads: u64,
}

impl FaultRings {
    /// Opens the rings for `pid`, which must not have executed its program yet. What the kernel does not know (page
    /// sizes before Linux 5.11) or does not allow (kernel mode, error codes, stacks) is left out.
    ///
    /// # Errors
    /// [`Refusal`] where not even faults in user mode can be recorded.
    pub fn open(pid: i32, wanted: &Wanted) -> Result<Self, Refusal> {
        let follow = |rings: &mut Self| rings.add_thread(pid);
        Self::choose(true, wanted, &follow).map_err(|e| refusal(&e))
    }

    /// Follows process `pid` from now on.
    ///
    /// # Errors
    /// [`Refusal`] where not even faults in user mode can be recorded, or the process is gone.
    pub fn attach(pid: i32, wanted: &Wanted) -> Result<Self, Refusal> {
        event::allow_descriptors();
        let owns = |all: &Self, tid| all.rings.owns(tid);
        let follow = |all: &mut Self| running::add_threads(all, pid, owns, Self::add_thread);
        let mut all = Self::choose(false, wanted, &follow).map_err(|e| refusal(&e))?;
        let stat = stat::read(pid).ok();
        all.since = clock::now();
        all.before = Before {
            faults: stat.as_ref().map(Stat::faults_with_children),
            threads: stat.map_or(0, |stat| u64::from(stat.threads)),
        };
        all.add_what_was_before(pid);
        Ok(all)
    }

    /// Its threads beyond the first, and its mappings.
    fn add_what_was_before(&mut self, pid: i32) {
        let at_ns = self.since;
        let others = tree::threads(pid).map_or(0, |threads| threads.len().saturating_sub(1));
        for _ in 0..others {
            self.merge.add(0, Event { at_ns, what: What::Fork { pid, parent_pid: pid } });
        }
        for map in running::mapped(pid) {
            self.merge.add(0, Event { at_ns, what: What::Map(map) });
        }
    }

    /// The most that is known and allowed, as `follow`, which adds threads, finds out.
    fn choose(
        on_exec: bool,
        wanted: &Wanted,
        follow: &dyn Fn(&mut Self) -> Result<(), SysError>,
    ) -> Result<Self, SysError> {
        let (detail, stacks) = (Detail::of(wanted), wanted.stacks);
        let all_ends = detail == Detail::Times;
        let found = if all_ends { Tracepoints::find() } else { None };
        let with_codes = found.map(|codes| (true, Some(codes)));
        let mut last = None;
        for (kernel, codes) in with_codes.into_iter().chain([(true, None), (false, None)]) {
            for layout in detail.layouts() {
                let layout = layout.with_chain(stacks == Stacks::FramePointers);
                let choice = Choice { layout, kernel, all_ends, codes, on_exec, stacks };
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

    /// The rings without any event.
    fn empty(choice: Choice) -> Result<Self, SysError> {
        let cpus = event::online_cpus();
        // Many stacks take as much room as the faults.
        let is_many = matches!(choice.stacks, Stacks::Copied | Stacks::Periodic);
        let shares = if is_many { 2 } else { 1 };
        let ring_bytes = ring_bytes(cpus.len() * shares);
        let open = |bytes| Rings::open(&cpus, bytes, LEAST_RING_BYTES, !choice.on_exec);
        let ample = match choice.stacks {
            Stacks::Periodic => {
                let bytes = 1 << (AMPLE_BYTES / cpus.len().max(1)).ilog2();
                open(bytes).ok().filter(|rings| rings.least_bytes() == bytes)
            }
            _ => None,
        };
        let stacks = StackRings::open(&choice, ample.as_ref().map(Rings::least_bytes));
        Ok(Self {
            rings: ample.map_or_else(|| open(ring_bytes), Ok)?,
            choice,
            stacks,
            merge: Merge::default(),
            emptied: Nanos(0),
            since: Nanos(0),
            before: Before::default(),
        })
    }

    /// Opens the events of thread `tid` on every CPU, each kind on all CPUs before the next.
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
    pub const fn sees(&self) -> Sees {
        Sees {
            kernel: self.choice.kernel,
            all_ends: self.choice.all_ends,
            error_codes: self.choice.codes.is_some(),
            from_start: self.choice.on_exec,
        }
    }

    /// What there was before.
    #[must_use]
    pub const fn before(&self) -> Before {
        self.before
    }

    /// Descriptors that become readable when a ring is a quarter full.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let stacks = self.stacks.iter().flat_map(StackRings::descriptors);
        self.rings.descriptors().chain(stacks)
    }

    /// Empties the rings. What was there before the last time can be taken then: another CPU may still
    /// add to what is newer.
    pub fn drain(&mut self) {
        self.merge.begin_round(clock::now());
        self.collect();
    }

    /// Empties the rings a last time; all that is left can be taken then.
    pub fn finish(&mut self) {
        self.collect();
        self.merge.end();
    }

    /// Adds that pages were moved, just now, by a thread that has not gone on since.
    pub fn add_move(&mut self, moved: Move) {
        let stacks = self.stacks.as_ref().map_or(0, StackRings::count);
        let event = Event { at_ns: clock::now(), what: What::Move(moved) };
        self.merge.add(self.rings.count() + stacks, event);
    }

    /// Puts the next events in the place of those in `events`, in the order of their time; none when
    /// there are no more for now. Meanwhile rings of the faults that fill are emptied, so that they
    /// have room while events are worked through; not where too many wait already.
    pub fn take(&mut self, events: &mut Vec<Event>) {
        let is_time = clock::now().0.saturating_sub(self.emptied.0) >= ROOM_EVERY.0;
        if is_time && self.merge.waiting() < MOST_WAITING {
            self.collect_faults();
        }
        events.clear();
        self.merge.release(events, EVENTS_AT_ONCE);
    }

    fn collect(&mut self) {
        self.collect_faults();
        let faults = self.rings.count();
        if let Some(stacks) = &mut self.stacks {
            stacks.collect(&mut |ring, event| self.merge.add(faults + ring, event));
        }
    }

    fn collect_faults(&mut self) {
        let (layout, fields) = (self.choice.layout, self.choice.codes.map(|codes| codes.fields));
        self.rings.drain(|number, bytes, streams| {
            record::parse(bytes, layout, fields, streams, &mut |event| {
                if event.at_ns >= self.since || counts_before(&event) {
                    self.merge.add(number, event);
                }
            });
        });
        self.emptied = clock::now();
    }
}

impl Timed for Event {
    fn at_ns(&self) -> Nanos {
        self.at_ns
    }
}

/// Whether an event counts although not all threads were followed yet. What was mapped and which
/// threads there were is read when they are.
const fn counts_before(event: &Event) -> bool {
    match event.what {
        What::Fork { pid, parent_pid } => pid != parent_pid,
        What::Lost { .. } => true,
        _ => false,
    }
}

/// Size of each of `rings` rings: what locked memory allows, within bounds; the kernel has the
/// last word.
fn ring_bytes(rings: usize) -> usize {
    let unlimited = RING_BYTES.saturating_mul(rings);
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
    let limit = limit.map_or(unlimited, |bytes| usize::try_from(bytes).unwrap_or(unlimited));
    let share = (limit / rings.max(1)).clamp(LEAST_RING_BYTES, RING_BYTES);
    1 << share.ilog2()
}

fn refusal(error: &SysError) -> Refusal {
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
    Refusal { why, help: help.to_owned() }
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
