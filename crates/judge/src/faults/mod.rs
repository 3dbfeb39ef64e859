//! Page faults from the kernel's events: pairs, kinds, sums.
//!
//! An [`Analysis`] takes events in time order and keeps only their sums. Its memory grows with the number of
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

use address_space::{Spaces, Target};
use churn::{Churning, Circumstances};
use groups::Groups;
use histogram::Histogram;
use holders::Holders;
use outside::InKernel;
use pagewise_model::diagnosis::CostKind;
use pagewise_model::fault::event::{Begin, CallStack, Chain, End, ErrorCode, Event, What};
use pagewise_model::fault::{
    Access, Cause, Fault, Label, MappingKind, ResidentPages, Sees, Served, StackEnd, Tally, Wanted,
};
use pagewise_model::{Bytes, Fact, Nanos, PageSize};
use phases::Phases;
use race::{Look, Races};
use rustc_hash::{FxHashMap, FxHashSet};
use savings::Removable;
use sites::Sites;
pub use sites::{CodePlace, FindCode, Image, KERNEL, Walk};
use stacks::{Walked, WalkedStacks};
use timed::{Close, Open};
pub use timed::{Probe, timed};
use touched::Before;

/// Why a fault has no latency where ends are left out.
const NO_ENDS: &str = "the ends of faults were not recorded (--no-latency, --exact)";

/// The faults of a program so far.
#[derive(Debug)]
pub struct Analysis {
    /// Size of a base page.
    page: PageSize,
    wanted: Wanted,
    sees: Sees,
    spaces: Spaces,
    sites: Sites,
    open: FxHashMap<i32, Open>,
    /// What the processor reported about the fault that a thread is about to begin.
    codes: FxHashMap<i32, ErrorCode>,
    /// Threads with a recorded beginning, if some beginnings may be missing.
    begun: FxHashSet<i32>,
    races: Races,
    first: Option<Nanos>,
    total: Tally,
    latencies: Histogram,
    by_access: Groups<Access>,
    by_cause: Groups<Cause>,
    by_kind: Groups<MappingKind>,
    by_page: Groups<Bytes>,
    by_cost: Groups<CostKind>,
    by_place: Groups<u32>,
    by_site: Groups<u32>,
    taken: WalkedStacks,
    phases: Phases,
    churning: Churning,
    removable: Removable,
    holders: Holders,
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
    in_kernel: InKernel,
    list: Vec<Fault>,
}

impl Analysis {
    /// The state before any event of a recording that sees this much. If calls are wanted, its kernel faults
    /// are also kept by time: 8 bytes a fault.
    #[must_use]
    pub fn new(page: PageSize, wanted: Wanted, sees: Sees) -> Self {
        Self {
            page,
            wanted,
            sees,
            spaces: Spaces::new(page, wanted.exact),
            sites: Sites::default(),
            open: FxHashMap::default(),
            codes: FxHashMap::default(),
            begun: FxHashSet::default(),
            races: Races::default(),
            first: None,
            total: Tally::default(),
            latencies: Histogram::default(),
            by_access: Groups::default(),
            by_cause: Groups::default(),
            by_kind: Groups::default(),
            by_page: Groups::default(),
            by_cost: Groups::default(),
            by_place: Groups::default(),
            by_site: Groups::default(),
            taken: WalkedStacks::default(),
            phases: Phases::default(),
            churning: Churning::default(),
            removable: Removable::default(),
            holders: Holders::default(),
            now: Nanos(0),
            executed: 0,
            lost: 0,
            unpaired_ends: 0,
            unserved: 0,
            user_served: 0,
            kernel_served: 0,
            kernel_early: 0,
            in_kernel: InKernel::default(),
            list: Vec::new(),
        }
    }

    /// Takes one event; `images` gives the code that faulted.
    pub fn take(&mut self, event: Event, images: &mut dyn Image) {
        let at = event.at_ns;
        self.now = self.now.max(at);
        match event.what {
            What::Begin(begin) => self.begin(at, begin, images),
            What::ErrorCode(code) => {
                self.codes.insert(code.tid, code);
            }
            What::End(end) => self.end(at, end),
            What::Stack(stack) => self.stack(&stack, images),
            What::Map(map) => {
                self.phases.map(&map);
                self.spaces.map(&map);
            }
            What::Move(moved) => {
                self.take_open();
                self.holders.moved(&moved, self.page);
            }
            What::Exec { pid } => {
                self.holders.forget(pid);
                self.executed += 1;
                self.phases.exec(pid, at);
                self.spaces.exec(pid);
                self.sites.forget(pid);
            }
            What::Fork { pid, parent_pid } => {
                self.phases.fork(pid, parent_pid, at);
                self.holders.fork(pid, parent_pid);
                self.spaces.fork(pid, parent_pid);
            }
            What::Exit { pid, tid } => {
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
            What::Lost { records } => self.lost += records,
            What::LostStacks { stacks } => self.taken.lost += stacks,
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

    fn begin(&mut self, at: Nanos, begin: Begin, images: &mut dyn Image) {
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
        let look = Look { tid: begin.tid, at, access, cause, is_reported: reported.is_some() };
        let is_raced = self.race(page, look);
        let mut open = Open {
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
            circumstances: Circumstances { is_raced, is_retried },
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
    fn touch(&mut self, begin: &Begin, target: &Target, what: (Access, Cause)) -> Before {
        let before = self.spaces.touch(begin.pid, begin.address);
        let kinds = [MappingKind::Code, MappingKind::Data, MappingKind::File];
        if target.offset.is_some() && kinds.contains(&target.kind) {
            let (access, cause) = what;
            let reads = matches!(access, Access::Read | Access::Execute);
            let may_map = reads && cause != Cause::Protection;
            self.spaces.map_around(begin.pid, begin.address, before, may_map);
        }
        before
    }

    /// Whether the fault that begins on `page` races with that of another thread, which is then
    /// labelled as well.
    fn race(&mut self, page: race::Page, look: Look) -> bool {
        if self.spaces.threads(page.0) < 2 {
            return false;
        }
        let Some(other) = self.races.begin(page, look) else { return false };
        if let Some(open) = self.open.get_mut(&other).filter(|open| open.page == page) {
            open.raced = true;
        }
        true
    }

    fn stack(&mut self, stack: &CallStack, images: &mut dyn Image) {
        let pid = stack.pid;
        let walk = match &stack.chain {
            Chain::Walked(addresses) => Walk { addresses: addresses.clone(), end: StackEnd::Deep },
            Chain::Copied { registers, bytes } => {
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
        let Some(number) = self.taken.add(code, &Walked { frames, end: walk.end }, stack.faults)
        else {
            return;
        };
        match self.open.get_mut(&stack.tid) {
            Some(open) if open.begin.address == stack.address => open.stack = Some(number),
            _ => self.taken.keep_early(stack.tid, stack.address, number),
        }
    }

    fn end(&mut self, at: Nanos, end: End) {
        let matches = |open: &Open| open.begin.address == end.address;
        if self.open.get(&end.tid).is_some_and(matches) {
            let page = end.page_bytes.filter(|page| page.0 > 0);
            self.close(at, end.tid, Close::Served { is_major: end.is_major, page });
        } else if self.sees.from_start || self.begun.contains(&end.tid) {
            self.unpaired_ends += 1;
        }
        // Otherwise it had begun before the recording.
    }

    /// The fault of `tid` that is still under way will not be served.
    fn give_up(&mut self, at: Nanos, tid: i32, why: &'static str) {
        let is_reported = self.sees.all_ends;
        let close = if is_reported { Close::Unserved(why) } else { Close::Unreported(NO_ENDS) };
        self.close(at, tid, close);
    }

    fn close(&mut self, at: Nanos, tid: i32, close: Close) {
        let Some(mut open) = self.open.remove(&tid) else { return };
        let is_over = self.sees.all_ends && matches!(close, Close::Served { .. });
        if open.raced
            && is_over
            && let Some(cause) = self.races.cause(open.page, tid)
        {
            open.settle(cause);
        }
        self.races.end(open.page, tid, at);
        let latency = is_over.then(|| Nanos(at.0.saturating_sub(open.at.0)));
        let one = Tally {
            faults: 1,
            major_faults: u64::from(matches!(close, Close::Served { is_major: true, .. })),
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

    fn count_served(&mut self, open: &Open, close: Close, one: Tally) {
        match close {
            Close::Unserved(_) => self.unserved += 1,
            // Still under way when the recording ended.
            Close::Unreported(_) if self.sees.all_ends => {}
            _ => self.count_mode(open),
        }
        if let Close::Served { is_major, page } = close {
            self.by_cost.add(timed::cost(open, is_major), one);
            if let Some(page) = page {
                self.by_page.add(page, one);
            }
        }
    }

    fn count_mode(&mut self, open: &Open) {
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
    fn place_in_course(&mut self, open: &Open, close: Close, one: Tally) {
        let code_path = self.sites.code(open.site).map_or("", |code| self.spaces.path(code.path));
        let seen = phases::Seen {
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
        if let Close::Served { is_major, page, .. } = close {
            let (kind, cause, again) = (open.kind, open.cause, open.again);
            self.removable.add(&savings::Seen { kind, cause, again, is_major, page }, one);
        }
    }

    /// The fault of a list; its order and whether records were lost are known at the end.
    fn fault(&self, open: &Open, close: Close, latency: Option<Nanos>) -> Fault {
        let begin = &open.begin;
        let (served, page) = match close {
            Close::Served { is_major: true, page } => (Served::Major, page),
            Close::Served { is_major: false, page } => (Served::Minor, page),
            Close::Unserved(_) => (Served::No, None),
            Close::Unreported(_) => (Served::Unknown, None),
        };
        let latency = match (latency, close) {
            (Some(latency), _) => Fact::Known(latency),
            (None, Close::Unserved(why) | Close::Unreported(why)) => Fact::missing(why),
            (None, Close::Served { .. }) => Fact::missing(NO_ENDS),
        };
        let labels = [
            (open.again.is_some(), Label::Again),
            (open.copies, Label::CopyOnWrite),
            (begin.in_kernel, Label::KernelMode),
            (open.raced, Label::Raced),
        ];
        Fault {
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
