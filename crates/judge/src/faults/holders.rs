//! Which code touched each page of each process, and which of these pages are held at one moment.
//!
//! The kernel does not report pages that are unmapped or given back, so nothing is subtracted. Instead the
//! resident pages of the moment are read, and each belongs to the last fault that brought it in. A fault on a
//! present page takes it over only if the page had only been read: it was then the zero page, a page of the
//! file, or another process's page. A page without its own fault came with the newest fault of its block: a
//! window of a file, a folio, a huge page.
//!
//! A fault without a recorded stack gets the stack of the last fault of its thread at the same instruction.
//! Not seen: pages that a call fills without faults (MAP_POPULATE). Cost: about 40 bytes for each touched
//! page.

use super::timed::OpenFault;
use pagewise_model::fault::event::MremapEvent;
use pagewise_model::fault::{AccessKind, FaultCause, ResidentPages};
use pagewise_model::{Bytes, Nanos, PageSize};
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;

/// A site and the stack above it.
pub(super) type Who = (u32, Option<u32>);

/// The fault that brought a page.
#[derive(Debug, Clone, Copy)]
struct PageTouch {
    who: Who,
    at: Nanos,
    /// The process that touched it. Differs from the page's process if that was forked.
    pid: i32,
    is_read: bool,
}

type Pages = FxHashMap<u64, PageTouch>;

/// The pages of all processes so far.
#[derive(Debug, Default)]
pub(super) struct PageHolders {
    processes: FxHashMap<i32, Rc<Pages>>,
    /// The last stack of a thread at an instruction.
    last: FxHashMap<(i32, u32), u32>,
    /// The memory held at the last request.
    pub(super) held: HeldMemory,
}

/// Memory that is held.
#[derive(Debug, Clone, Default)]
pub(super) struct HeldMemory {
    pub(super) by: FxHashMap<Who, Bytes>,
    pub(super) unseen: Bytes,
}

impl PageHolders {
    /// Takes a fault.
    pub(super) fn touch(&mut self, open: &OpenFault) {
        let (pid, tid) = (open.begin.pid, open.begin.tid);
        if let Some(stack) = open.stack {
            self.last.insert((tid, open.site), stack);
        }
        let stack = open.stack.or_else(|| self.last.get(&(tid, open.site)).copied());
        let is_read = matches!(open.access, AccessKind::Read | AccessKind::Execute);
        let touch = PageTouch { who: (open.site, stack), at: open.at, pid, is_read };
        let pages = Rc::make_mut(self.processes.entry(pid).or_default());
        let before = pages.get(&open.page.1).filter(|before| before.pid == pid);
        let stays = before.is_some_and(|before| !before.is_read || is_read);
        if open.cause != FaultCause::Protection || !stays {
            pages.insert(open.page.1, touch);
        }
    }

    /// Pages were moved.
    pub(super) fn moved(&mut self, moved: &MremapEvent, page: PageSize) {
        let pages = Rc::make_mut(self.processes.entry(moved.pid).or_default());
        let number = |address: u64| address / page.bytes();
        let count = number(moved.size_bytes.0);
        let (from, to) = (number(moved.from_address), number(moved.to_address));
        // Iterates over known pages, not over the moved range: a program may move a reservation of terabytes.
        let moved = from..from.saturating_add(count);
        let numbers: Vec<u64> = pages.keys().copied().filter(|at| moved.contains(at)).collect();
        let taken: Vec<(u64, PageTouch)> = numbers
            .into_iter()
            .filter_map(|at| Some((to + (at - from), pages.remove(&at)?)))
            .collect();
        pages.extend(taken);
    }

    pub(super) fn fork(&mut self, pid: i32, parent_pid: i32) {
        if pid != parent_pid {
            let pages = self.processes.get(&parent_pid).cloned().unwrap_or_default();
            self.processes.insert(pid, pages);
        }
    }

    /// The process has other memory from now on, or none.
    pub(super) fn forget(&mut self, pid: i32) {
        self.processes.remove(&pid);
    }

    /// Works out who touched the pages that are resident now.
    pub(super) fn hold(&mut self, resident: &[ResidentPages], page: PageSize) {
        let pids: FxHashSet<i32> = resident.iter().map(|range| range.pid).collect();
        let mut held = HeldMemory::default();
        for range in resident {
            let pages = self.processes.get(&range.pid);
            let of = |at: u64| pages.and_then(|pages| pages.get(&at)).copied();
            let in_block = (range.block_bytes.0 / page.bytes()).max(1);
            let (mut block, mut newest) = (u64::MAX, None);
            for at in range.start_address / page.bytes()..range.end_address / page.bytes() {
                let touch = of(at).or_else(|| {
                    let start = at - at % in_block;
                    if block != start {
                        block = start;
                        let all = (start..start + in_block).filter_map(of);
                        newest = all.max_by_key(|touch| touch.at);
                    }
                    newest
                });
                let bytes = Bytes(page.bytes());
                match touch {
                    // It counts in the process that made it.
                    Some(touch) if touch.pid != range.pid && pids.contains(&touch.pid) => {}
                    Some(touch) => *held.by.entry(touch.who).or_default() += bytes,
                    None => held.unseen += bytes,
                }
            }
        }
        self.held = held;
    }
}
