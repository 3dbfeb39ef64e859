//! Page faults from what the kernel tells of them: pairs, kinds, sums.
//!
//! An [`Analysis`] is given events in the order of their time and keeps what they add up to: its
//! memory grows with the number of instructions that fault, of files mapped and of 2 MiB regions
//! touched, not with the number of faults, unless the list of them is wanted.
//!
//! A beginning belongs to the next end of the same thread at the same address. One that is followed
//! by another beginning or by the thread's end instead was not served: the access was not allowed,
//! or a signal came first and the instruction starts again. When records were lost, such a fault
//! may have been served after all; it is then called unknown.
//!
//! Whether the page was absent is what the kernel saw at the beginning. A page that another thread
//! brings in between the fault and that look counts as present (seen in 2.4% of the faults of 8
//! threads that race for the same pages). What was done is read from the instruction (`access`).

mod access;
mod address_space;
pub mod budget;
mod groups;
mod histogram;
mod sites;
mod summary;
mod touched;

use address_space::Spaces;
use groups::Groups;
use histogram::Histogram;
use pagewise_model::fault::event::{Begin, End, Event, What};
use pagewise_model::fault::{Access, Cause, Fault, Label, MappingKind, Served, Tally};
use pagewise_model::{Bytes, Fact, Nanos, PageSize};
use sites::Sites;
pub use sites::{CodePlace, Image, KERNEL};
use std::collections::HashMap;

/// What to look for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Size of a base page.
    pub page: PageSize,
    /// Keep every fault.
    pub list: bool,
    /// Faults in the kernel are recorded too.
    pub sees_kernel: bool,
}

/// The faults of a program so far.
#[derive(Debug)]
pub struct Analysis {
    options: Options,
    spaces: Spaces,
    sites: Sites,
    open: HashMap<i32, Open>,
    first: Option<Nanos>,
    total: Tally,
    latencies: Histogram,
    by_access: Groups<Access>,
    by_cause: Groups<Cause>,
    by_kind: Groups<MappingKind>,
    by_page: Groups<Bytes>,
    by_place: Groups<u32>,
    by_site: Groups<u32>,
    executed: u64,
    lost: u64,
    unpaired_ends: u64,
    unserved: u64,
    user_served: u64,
    kernel_served: u64,
    /// Those before the first fault in user mode: the kernel was still building the image.
    kernel_early: u64,
    list: Vec<Fault>,
}

/// A fault under way.
#[derive(Debug)]
struct Open {
    at: Nanos,
    begin: Begin,
    place: u32,
    site: u32,
    kind: MappingKind,
    offset: Option<Bytes>,
    access: Access,
    cause: Cause,
    labels: Labels,
}

#[derive(Debug, Clone, Copy)]
struct Labels {
    again: bool,
    copies: bool,
}

/// How a fault came to its end.
#[derive(Debug, Clone, Copy)]
enum Close {
    Served {
        at: Nanos,
        is_major: bool,
        page: Option<Bytes>,
    },
    /// Without an end, and why.
    Unserved(&'static str),
}

impl Analysis {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options,
            spaces: Spaces::new(options.page),
            sites: Sites::default(),
            open: HashMap::new(),
            first: None,
            total: Tally::default(),
            latencies: Histogram::default(),
            by_access: Groups::default(),
            by_cause: Groups::default(),
            by_kind: Groups::default(),
            by_page: Groups::default(),
            by_place: Groups::default(),
            by_site: Groups::default(),
            executed: 0,
            lost: 0,
            unpaired_ends: 0,
            unserved: 0,
            user_served: 0,
            kernel_served: 0,
            kernel_early: 0,
            list: Vec::new(),
        }
    }

    /// Takes one event; `images` gives the code that faulted.
    pub fn take(&mut self, event: Event, images: &mut dyn Image) {
        match event.what {
            What::Begin(begin) => self.begin(event.at_ns, begin, images),
            What::End(end) => self.end(event.at_ns, end),
            What::Map(map) => self.spaces.map(&map),
            What::Exec { pid } => {
                self.executed += 1;
                self.spaces.exec(pid);
            }
            What::Fork { pid, parent_pid } => self.spaces.fork(pid, parent_pid),
            What::Exit { pid, tid } => {
                self.close(tid, Close::Unserved("the thread ended in it"));
                self.spaces.exit(pid);
            }
            What::Lost { records } => self.lost += records,
        }
    }

    fn begin(&mut self, at: Nanos, begin: Begin, images: &mut dyn Image) {
        self.close(begin.tid, Close::Unserved("not allowed, or interrupted by a signal"));
        self.first.get_or_insert(at);
        let target = self.spaces.find(begin.pid, begin.address, begin.registers);
        let code = self.spaces.code(begin.pid, begin.ip_address);
        let (site, instruction) =
            self.sites.find(code, self.spaces.path(code.path), &begin, images);
        let access = access::of(&begin, instruction, self.options.page);
        let cause = match begin.page_bytes {
            Some(Bytes(0)) => Cause::Absent,
            Some(_) => Cause::Protection,
            None => Cause::Unknown,
        };
        let copies = cause == Cause::Protection && access == Access::Write && !target.is_shared;
        let again = !self.spaces.touch(begin.pid, begin.address);
        let open = Open {
            at,
            begin,
            place: target.place,
            site,
            kind: target.kind,
            offset: target.offset,
            access,
            cause,
            labels: Labels { again, copies },
        };
        self.open.insert(begin.tid, open);
    }

    fn end(&mut self, at: Nanos, end: End) {
        let matches = |open: &Open| open.begin.address == end.address;
        if self.open.get(&end.tid).is_some_and(matches) {
            let close = Close::Served { at, is_major: end.is_major, page: end.page_bytes };
            self.close(end.tid, close);
        } else {
            self.unpaired_ends += 1;
        }
    }

    fn close(&mut self, tid: i32, close: Close) {
        let Some(open) = self.open.remove(&tid) else { return };
        let latency = match close {
            Close::Served { at, .. } => Some(Nanos(at.0.saturating_sub(open.at.0))),
            Close::Unserved(_) => None,
        };
        let one = Tally {
            faults: 1,
            major_faults: u64::from(matches!(close, Close::Served { is_major: true, .. })),
            again_faults: u64::from(open.labels.again),
            time_ns: latency.unwrap_or_default(),
        };
        match close {
            Close::Served { page, .. } => {
                let count = match open.begin.in_kernel {
                    true if self.user_served == 0 => &mut self.kernel_early,
                    true => &mut self.kernel_served,
                    false => &mut self.user_served,
                };
                *count += 1;
                if let Some(page) = page.filter(|page| page.0 > 0) {
                    self.by_page.add(page, one);
                }
            }
            Close::Unserved(_) => self.unserved += 1,
        }
        if let Some(latency) = latency {
            self.latencies.add(latency);
        }
        groups::add(&mut self.total, one);
        self.by_access.add(open.access, one);
        self.by_cause.add(open.cause, one);
        self.by_kind.add(open.kind, one);
        self.by_place.add(open.place, one);
        self.by_site.add(open.site, one);
        if self.options.list {
            let fault = self.fault(&open, close, latency);
            self.list.push(fault);
        }
    }

    /// The fault of a list; its order and whether records were lost are known at the end.
    fn fault(&self, open: &Open, close: Close, latency: Option<Nanos>) -> Fault {
        let begin = &open.begin;
        let page_of = |address: u64| address - address % self.options.page.bytes();
        let (served, page, latency) = match close {
            Close::Served { is_major, page, .. } => {
                let served = if is_major { Served::Major } else { Served::Minor };
                (served, page.filter(|page| page.0 > 0), Fact::Known(latency.unwrap_or_default()))
            }
            Close::Unserved(why) => (Served::No, None, Fact::missing(why)),
        };
        let labels = [
            (open.labels.again, Label::Again),
            (open.labels.copies, Label::CopyOnWrite),
            (begin.in_kernel, Label::KernelMode),
        ];
        Fault {
            order: 0,
            since_first_ns: Nanos(open.at.0.saturating_sub(self.first.unwrap_or(open.at).0)),
            latency_ns: latency,
            pid: begin.pid,
            tid: begin.tid,
            page_address: page_of(begin.address),
            ip_address: begin.ip_address,
            access: open.access,
            cause: open.cause,
            served,
            page_bytes: page,
            offset_bytes: open.offset,
            place: open.place,
            site: open.site,
            labels: labels.iter().filter(|(is, _)| *is).map(|(_, label)| *label).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
