//! Page faults from the kernel's events: pairs, kinds, sums.
//!
//! A [`FaultAnalysis`] takes events in time order and keeps only their sums. Its memory grows with the number of
//! faulting instructions, mapped files and touched 2 MiB regions. It grows with the number of faults only if
//! the list of faults is wanted.
//!
//! A beginning belongs to the next end of the same thread at the same address. If another beginning or the
//! end of the thread follows instead, the fault was not served: the access was not allowed, or a signal came
//! first and the instruction starts again. If records were lost, such a fault may have been served; it then
//! counts as unknown.
//!
//! Whether the page was absent is what the kernel saw at the beginning. Another thread may have brought the
//! page in since the processor looked, or removed it. Such faults are labelled, and what they found is
//! derived from the others (`race`). The access is derived from the instruction; `access` names both. If the
//! processor's error code was recorded, it states both and nothing is inferred. Stacks show which code caused
//! a fault (`stacks`, `callers`). The mappings show when in the program's life it came (`phases`). The
//! fault-around windows show what the kernel mapped along (`around`).

mod access;
mod account;
mod address_space;
mod around;
pub mod budget;
mod callers;
mod churn;
mod groups;
mod histogram;
mod holders;
mod interned;
mod libraries;
mod mappings;
mod outside;
mod page_sizes;
mod phases;
mod race;
mod savings;
mod sites;
mod stacks;
mod summary;
mod timed;
mod touched;
pub mod working_set;

use address_space::{AddressSpaces, AddressTarget};
use churn::{ChurnGroups, RefaultCircumstances};
use groups::FaultGroups;
use histogram::LatencyHistogram;
use holders::PageHolders;
use outside::KernelFaultTimes;
use pagewise_model::diagnosis::CostKind;
use pagewise_model::fault::event::{
    CallStack, FaultBegin, FaultEnd, FaultErrorCode, FaultEvent, FaultEventPayload, RecordedStack,
};
use pagewise_model::fault::{
    AccessKind, FaultCause, FaultLabel, FaultOutcome, FaultRecordingOptions, FaultTally,
    MappingKind, PageFault, RecordingScope, ResidentPages, StackEnd,
};
use pagewise_model::{Bytes, Fact, Nanos, PageSize};
use phases::FaultPhases;
use race::{BegunFault, RacingFaults};
use rustc_hash::{FxHashMap, FxHashSet};
use savings::RemovableFaults;
use sites::FaultSites;
pub use sites::{CodePlace, CodeSource, FindCode, KERNEL, StackWalk};
use stacks::{WalkedStack, WalkedStacks};
use timed::{FaultClose, OpenFault};
pub use timed::{FaultProbe, timed};
use touched::PageHistory;

/// Why a fault has no latency where ends are left out.
const NO_ENDS: &str = "the ends of faults were not recorded (--no-latency, --exact)";

/// The faults of a program so far.
#[derive(Debug)]
pub struct FaultAnalysis {
    /// Size of a base page.
    page: PageSize,
    wanted: FaultRecordingOptions,
    sees: RecordingScope,
    spaces: AddressSpaces,
    sites: FaultSites,
    open: FxHashMap<i32, OpenFault>,
    /// What the processor reported about the fault that a thread is about to begin.
    codes: FxHashMap<i32, FaultErrorCode>,
    /// Threads with a recorded beginning, if some beginnings may be missing.
    begun: FxHashSet<i32>,
    races: RacingFaults,
    first: Option<Nanos>,
    total: FaultTally,
    latencies: LatencyHistogram,
    by_access: FaultGroups<AccessKind>,
    by_cause: FaultGroups<FaultCause>,
    by_kind: FaultGroups<MappingKind>,
    by_page: FaultGroups<Bytes>,
    by_cost: FaultGroups<CostKind>,
    by_place: FaultGroups<u32>,
    by_site: FaultGroups<u32>,
    taken: WalkedStacks,
    phases: FaultPhases,
    churning: ChurnGroups,
    removable: RemovableFaults,
    holders: PageHolders,
    /// Of the newest event.
    now: Nanos,
    executed: u64,
    lost: u64,
    unpaired_ends: u64,
    unserved: u64,
    user_served: u64,
    kernel_served: u64,
    /// Those before the first fault in user mode: the kernel was still building the image.
    kernel_early: u64,
    in_kernel: KernelFaultTimes,
    list: Vec<PageFault>,
}

impl FaultAnalysis {
    /// The state before any event of a recording that sees this much. If calls are wanted, its kernel faults
    /// are also kept by time: 8 bytes a fault.
    #[must_use]
    pub fn new(page: PageSize, wanted: FaultRecordingOptions, sees: RecordingScope) -> Self {
        Self {
            page,
            wanted,
            sees,
            spaces: AddressSpaces::new(page, wanted.exact),
            sites: FaultSites::default(),
            open: FxHashMap::default(),
            codes: FxHashMap::default(),
            begun: FxHashSet::default(),
            races: RacingFaults::default(),
            first: None,
            total: FaultTally::default(),
            latencies: LatencyHistogram::default(),
            by_access: FaultGroups::default(),
            by_cause: FaultGroups::default(),
            by_kind: FaultGroups::default(),
            by_page: FaultGroups::default(),
            by_cost: FaultGroups::default(),
            by_place: FaultGroups::default(),
            by_site: FaultGroups::default(),
            taken: WalkedStacks::default(),
            phases: FaultPhases::default(),
            churning: ChurnGroups::default(),
            removable: RemovableFaults::default(),
            holders: PageHolders::default(),
            now: Nanos(0),
            executed: 0,
            lost: 0,
            unpaired_ends: 0,
            unserved: 0,
            user_served: 0,
            kernel_served: 0,
            kernel_early: 0,
            in_kernel: KernelFaultTimes::default(),
            list: Vec::new(),
        }
    }

    /// Takes one event; `images` gives the code that faulted.
    pub fn take(&mut self, event: FaultEvent, images: &mut dyn CodeSource) {
        let at = event.at_ns;
        self.now = self.now.max(at);
        match event.what {
            FaultEventPayload::Begin(begin) => self.begin(at, begin, images),
            FaultEventPayload::ErrorCode(code) => {
                self.codes.insert(code.tid, code);
            }
            FaultEventPayload::End(end) => self.end(at, end),
            FaultEventPayload::Stack(stack) => self.stack(&stack, images),
            FaultEventPayload::Map(map) => {
                self.phases.map(&map);
                self.spaces.map(&map);
            }
            FaultEventPayload::Move(moved) => {
                self.take_open();
                self.holders.moved(&moved, self.page);
            }
            FaultEventPayload::Exec { pid } => {
                self.holders.forget(pid);
                self.executed += 1;
                self.phases.exec(pid, at);
                self.spaces.exec(pid);
                self.sites.forget(pid);
            }
            FaultEventPayload::Fork { pid, parent_pid } => {
                self.phases.fork(pid, parent_pid, at);
                self.holders.fork(pid, parent_pid);
                self.spaces.fork(pid, parent_pid);
            }
            FaultEventPayload::Exit { pid, tid } => {
                self.give_up(at, tid, "the thread ended in it");
                self.codes.remove(&tid);
                self.begun.remove(&tid);
                self.taken.forget(tid);
                if self.spaces.exit(pid) {
                    self.holders.forget(pid);
                    self.sites.forget(pid);
                    self.phases.end(pid, at);
                }
            }
            FaultEventPayload::Lost { records } => self.lost += records,
            FaultEventPayload::LostStacks { stacks } => self.taken.lost += stacks,
        }
    }

    /// These pages, of all relevant processes, are resident now. [`Self::memory_sites`] reports which code
    /// touched them.
    pub fn hold(&mut self, resident: &[ResidentPages]) {
        self.take_open();
        self.holders.hold(resident, self.page);
    }

    /// Faults of which no end was recorded may be served already.
    fn take_open(&mut self) {
        for open in self.open.values_mut().filter(|open| !open.is_taken) {
            self.holders.touch(open);
            open.is_taken = true;
        }
    }

    fn begin(&mut self, at: Nanos, begin: FaultBegin, images: &mut dyn CodeSource) {
        let page = (begin.pid, begin.address / self.page.bytes());
        let before = self.open.get(&begin.tid).map(|open| open.page);
        let is_retried = self.sees.all_ends && before == Some(page);
        self.give_up(at, begin.tid, "not allowed, or interrupted by a signal");
        self.first.get_or_insert(at);
        if !self.sees.from_start {
            self.begun.insert(begin.tid);
        }
        let target = self.spaces.find(begin.pid, begin.address, begin.registers);
        let code = self.spaces.code(begin.pid, begin.ip_address);
        let (site, instruction) =
            self.sites.find(code, self.spaces.path(code.path), &begin, images);
        let reported = self.codes.remove(&begin.tid).filter(|code| code.address == begin.address);
        let (access, cause) = match reported {
            Some(code) => access::from_code(code),
            None => (access::classify(&begin, instruction, self.page), access::cause(&begin)),
        };
        let before = self.touch(&begin, &target, (access, cause));
        let look =
            BegunFault { tid: begin.tid, at, access, cause, is_reported: reported.is_some() };
        let is_raced = self.race(page, look);
        let mut open = OpenFault {
            at,
            begin,
            page,
            place: target.place,
            site,
            kind: target.kind,
            offset: target.offset,
            is_shared: target.is_shared,
            access,
            cause,
            before,
            circumstances: RefaultCircumstances { is_raced, is_retried },
            again: None,
            copies: false,
            raced: is_raced,
            is_taken: false,
            stack: self.taken.take_early(begin.tid, begin.address),
        };
        open.settle(cause);
        self.open.insert(begin.tid, open);
    }

    /// Records the page that `begin` is on, and what is mapped along with it. Returns what was known about
    /// the page.
    fn touch(
        &mut self,
        begin: &FaultBegin,
        target: &AddressTarget,
        what: (AccessKind, FaultCause),
    ) -> PageHistory {
        let before = self.spaces.touch(begin.pid, begin.address);
        let kinds = [MappingKind::Code, MappingKind::Data, MappingKind::File];
        if target.offset.is_some() && kinds.contains(&target.kind) {
            let (access, cause) = what;
            let reads = matches!(access, AccessKind::Read | AccessKind::Execute);
            let may_map = reads && cause != FaultCause::Protection;
            self.spaces.map_around(begin.pid, begin.address, before, may_map);
        }
        before
    }

    /// Whether the fault that begins on `page` races with that of another thread, which is then
    /// labelled as well.
    fn race(&mut self, page: race::Page, look: BegunFault) -> bool {
        if self.spaces.threads(page.0) < 2 {
            return false;
        }
        let Some(other) = self.races.begin(page, look) else { return false };
        if let Some(open) = self.open.get_mut(&other).filter(|open| open.page == page) {
            open.raced = true;
        }
        true
    }

    fn stack(&mut self, stack: &CallStack, images: &mut dyn CodeSource) {
        let pid = stack.pid;
        let walk = match &stack.chain {
            RecordedStack::Walked(addresses) => {
                StackWalk { addresses: addresses.clone(), end: StackEnd::Deep }
            }
            RecordedStack::Copied { registers, bytes } => {
                let spaces = &self.spaces;
                images.walk(pid, registers, bytes, &|address| spaces.code_at(pid, address))
            }
        };
        let spaces = &mut self.spaces;
        // The first is the instruction itself, unless that is in the kernel.
        let own = usize::from(!stack.in_kernel);
        let callers = walk.addresses.iter().skip(own).map(|address| address.saturating_sub(1));
        let frames = callers.map(|address| spaces.code(pid, address)).collect();
        let code = spaces.code(pid, stack.ip_address);
        let Some(number) =
            self.taken.add(code, &WalkedStack { frames, end: walk.end }, stack.faults)
        else {
            return;
        };
        match self.open.get_mut(&stack.tid) {
            Some(open) if open.begin.address == stack.address => open.stack = Some(number),
            _ => self.taken.keep_early(stack.tid, stack.address, number),
        }
    }

    fn end(&mut self, at: Nanos, end: FaultEnd) {
        let matches = |open: &OpenFault| open.begin.address == end.address;
        if self.open.get(&end.tid).is_some_and(matches) {
            let page = end.page_bytes.filter(|page| page.0 > 0);
            self.close(at, end.tid, FaultClose::Served { is_major: end.is_major, page });
        } else if self.sees.from_start || self.begun.contains(&end.tid) {
            self.unpaired_ends += 1;
        }
        // Otherwise it had begun before the recording.
    }

    /// The fault of `tid` that is still under way will not be served.
    fn give_up(&mut self, at: Nanos, tid: i32, why: &'static str) {
        let is_reported = self.sees.all_ends;
        let close =
            if is_reported { FaultClose::Unserved(why) } else { FaultClose::Unreported(NO_ENDS) };
        self.close(at, tid, close);
    }

    fn close(&mut self, at: Nanos, tid: i32, close: FaultClose) {
        let Some(mut open) = self.open.remove(&tid) else { return };
        let is_over = self.sees.all_ends && matches!(close, FaultClose::Served { .. });
        if open.raced
            && is_over
            && let Some(cause) = self.races.cause(open.page, tid)
        {
            open.settle(cause);
        }
        self.races.end(open.page, tid, at);
        let latency = is_over.then(|| Nanos(at.0.saturating_sub(open.at.0)));
        let one = FaultTally {
            faults: 1,
            major_faults: u64::from(matches!(close, FaultClose::Served { is_major: true, .. })),
            again_faults: u64::from(open.again.is_some()),
            raced_faults: u64::from(open.raced),
            time_ns: latency.unwrap_or_default(),
        };
        self.count_served(&open, close, one);
        if let Some(latency) = latency {
            self.latencies.add(latency);
        }
        groups::add(&mut self.total, one);
        self.by_access.add(open.access, one);
        self.by_cause.add(open.cause, one);
        self.by_kind.add(open.kind, one);
        self.by_place.add(open.place, one);
        self.by_site.add(open.site, one);
        self.place_in_course(&open, close, one);
        if self.wanted.sites && !open.is_taken {
            self.holders.touch(&open);
        }
        if self.wanted.list {
            let fault = self.fault(&open, close, latency);
            self.list.push(fault);
        }
    }

    fn count_served(&mut self, open: &OpenFault, close: FaultClose, one: FaultTally) {
        match close {
            FaultClose::Unserved(_) => self.unserved += 1,
            // Still under way when the recording ended.
            FaultClose::Unreported(_) if self.sees.all_ends => {}
            _ => self.count_mode(open),
        }
        if let FaultClose::Served { is_major, page } = close {
            self.by_cost.add(timed::cost(open, is_major), one);
            if let Some(page) = page {
                self.by_page.add(page, one);
            }
        }
    }

    fn count_mode(&mut self, open: &OpenFault) {
        if open.begin.in_kernel && self.wanted.calls {
            self.in_kernel.add(open.begin.tid, open.at);
        }
        let count = match open.begin.in_kernel {
            true if self.user_served == 0 => &mut self.kernel_early,
            true => &mut self.kernel_served,
            false => &mut self.user_served,
        };
        *count += 1;
    }

    /// Counts a fault towards the phases of the program's run.
    fn place_in_course(&mut self, open: &OpenFault, close: FaultClose, one: FaultTally) {
        let code_path = self.sites.code(open.site).map_or("", |code| self.spaces.path(code.path));
        let seen = phases::PhaseFault {
            pid: open.begin.pid,
            at: open.at,
            code_path,
            touched_path: self.spaces.place_path(open.place),
            touched: open.kind,
            access: open.access,
            in_kernel: open.begin.in_kernel,
            is_first_touch: open.again.is_none(),
        };
        self.phases.fault(&seen, one);
        if let Some(again) = open.again {
            self.churning.add(again, open.site, one);
        }
        if let FaultClose::Served { is_major, page, .. } = close {
            let (kind, cause, again) = (open.kind, open.cause, open.again);
            self.removable
                .add(&savings::RemediableFault { kind, cause, again, is_major, page }, one);
        }
    }

    /// The fault of a list; its order and whether records were lost are known at the end.
    fn fault(&self, open: &OpenFault, close: FaultClose, latency: Option<Nanos>) -> PageFault {
        let begin = &open.begin;
        let (served, page) = match close {
            FaultClose::Served { is_major: true, page } => (FaultOutcome::Major, page),
            FaultClose::Served { is_major: false, page } => (FaultOutcome::Minor, page),
            FaultClose::Unserved(_) => (FaultOutcome::No, None),
            FaultClose::Unreported(_) => (FaultOutcome::Unknown, None),
        };
        let latency = match (latency, close) {
            (Some(latency), _) => Fact::Known(latency),
            (None, FaultClose::Unserved(why) | FaultClose::Unreported(why)) => Fact::missing(why),
            (None, FaultClose::Served { .. }) => Fact::missing(NO_ENDS),
        };
        let labels = [
            (open.again.is_some(), FaultLabel::Again),
            (open.copies, FaultLabel::CopyOnWrite),
            (begin.in_kernel, FaultLabel::KernelMode),
            (open.raced, FaultLabel::Raced),
        ];
        PageFault {
            order: 0,
            since_first_ns: Nanos(open.at.0.saturating_sub(self.first.unwrap_or(open.at).0)),
            latency_ns: latency,
            pid: begin.pid,
            tid: begin.tid,
            page_address: open.page.1 * self.page.bytes(),
            ip_address: begin.ip_address,
            access: open.access,
            cause: open.cause,
            served,
            page_bytes: page,
            offset_bytes: open.offset,
            place: open.place,
            site: open.site,
            stack: open.stack,
            labels: labels.iter().filter(|(is, _)| *is).map(|(_, label)| *label).collect(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
