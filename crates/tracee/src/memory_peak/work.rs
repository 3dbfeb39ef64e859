//! Work at the stops of the tree: records calls and adds up resident sets.

use super::callers::CallerFinder;
use super::filter::LEAST;
use super::history::{AttributedMapping, MappingHistory};
use super::{PeakProcess, Take};
use crate::follow::{NewThread, TraceWork};
use crate::ptrace::{Regs, request};
use crate::recorder::FaultRecording;
use pagewise_kernel::clock;
use pagewise_kernel::proc::status;
use pagewise_model::fault::event::MremapEvent;
use pagewise_model::memory_account::{AccountMoment, PeakWatch};
use pagewise_model::{Bytes, Nanos};
use std::collections::BTreeMap;
use std::sync::Arc;

/// madvise(2) advice that releases memory.
const RELEASING: [i32; 4] =
    [libc::MADV_DONTNEED, libc::MADV_FREE, libc::MADV_REMOVE, libc::MADV_PAGEOUT];
/// Accounts may use 1/`BUDGET` of the time that has passed. Accounts of much more memory come on top.
const BUDGET: u64 = 2;
/// An account is always taken if memory has reached this many tenths of the last account's. All such accounts
/// together cost at most eleven times the last one.
const MUCH_MORE: u64 = 11;

/// A call whose exit is needed.
#[derive(Debug, Clone, Copy)]
pub(super) enum MemoryCall {
    Map,
    Move { from: u64, size: u64 },
}

/// The memory of one process.
#[derive(Debug, Default)]
struct TracedMemory {
    history: MappingHistory,
    callers: CallerFinder,
    /// End of its heap; 0 until it was asked for.
    heap_end: u64,
}

pub(super) struct PeakRecorder<'a, 'b> {
    recording: &'a mut FaultRecording,
    take: &'a mut Take<'b>,
    /// By process id, for processes that do not share their memory.
    spaces: BTreeMap<i32, TracedMemory>,
    began: Nanos,
    /// The sum of resident sets at the last account.
    taken: Bytes,
    watched: PeakWatch,
}

impl<'a, 'b> PeakRecorder<'a, 'b> {
    pub(super) fn new(recording: &'a mut FaultRecording, take: &'a mut Take<'b>) -> Self {
        Self {
            recording,
            take,
            spaces: BTreeMap::new(),
            began: clock::now(),
            taken: Bytes(0),
            watched: PeakWatch::default(),
        }
    }

    pub(super) fn finish(self) -> PeakWatch {
        self.watched
    }

    fn since_start(&self) -> Nanos {
        Nanos(clock::now().0.saturating_sub(self.began.0))
    }

    /// Adds up all resident sets. Takes an account if they are the largest so far.
    fn look(&mut self, moment: &AccountMoment) {
        let resident = |pid: &i32| status::read(*pid).ok().and_then(|status| status.rss);
        let rss = self.spaces.keys().filter_map(resident).fold(Bytes(0), |sum, rss| sum + rss);
        self.watched.looks += 1;
        self.watched.peak_rss_bytes = self.watched.peak_rss_bytes.max(rss);
        if rss <= self.taken || !self.is_worth(rss, moment) {
            return;
        }
        self.taken = rss;
        let histories: Vec<(i32, Vec<AttributedMapping>)> =
            self.spaces.iter().map(|(pid, space)| (*pid, space.history.all())).collect();
        let held: Vec<PeakProcess<'_>> =
            histories.iter().map(|(pid, history)| PeakProcess { pid: *pid, history }).collect();
        let begin = clock::thread_cpu();
        if let Some(resident) = (self.take)(moment, &held) {
            self.recording.ask(|recorder| recorder.hold(resident));
        }
        self.watched.accounts += 1;
        self.watched.cpu_ns += Nanos(clock::thread_cpu().0.saturating_sub(begin.0));
    }

    fn is_worth(&self, rss: Bytes, moment: &AccountMoment) -> bool {
        matches!(moment, AccountMoment::End { .. })
            || rss.0.saturating_mul(10) >= self.taken.0.saturating_mul(MUCH_MORE)
            || self.watched.cpu_ns.0.saturating_mul(BUDGET) <= self.since_start().0
    }

    fn before_release(&mut self, pid: i32) {
        let since_start_ns = self.since_start();
        self.look(&AccountMoment::Release { pid, since_start_ns });
    }

    /// Records the new end of a heap. Returns whether the heap shrinks by much.
    fn heap_shrinks(&mut self, pid: i32, end: u64) -> bool {
        let Some(space) = self.spaces.get_mut(&pid).filter(|_| end > 0) else { return false };
        let before = std::mem::replace(&mut space.heap_end, end);
        before.saturating_sub(end) >= LEAST.0
    }
}

impl TraceWork for PeakRecorder<'_, '_> {
    type Call = MemoryCall;
    const SEES_EXITS: bool = true;

    fn begin(&mut self, new: NewThread) {
        if !new.has_own_memory() {
            return;
        }
        let maker = new.birth.and_then(|birth| self.spaces.get(&birth.maker));
        let history = maker.map(|space| space.history.clone()).unwrap_or_default();
        self.spaces.insert(new.pid, TracedMemory { history, ..TracedMemory::default() });
    }

    fn executed(&mut self, pid: i32) -> Option<MemoryCall> {
        self.spaces.insert(pid, TracedMemory::default());
        None
    }

    fn entered(&mut self, tid: i32, pid: i32) -> Option<MemoryCall> {
        let regs = request::get_regs(tid).ok()?;
        match regs.orig_rax as i64 {
            libc::SYS_mmap => return Some(MemoryCall::Map),
            libc::SYS_mremap => {
                if regs.rsi.saturating_sub(regs.rdx) >= LEAST.0 {
                    self.before_release(pid);
                }
                return Some(MemoryCall::Move { from: regs.rdi, size: regs.rsi });
            }
            libc::SYS_brk if !self.heap_shrinks(pid, regs.rdi) => {}
            libc::SYS_madvise if !RELEASING.contains(&(regs.rdx as i32)) => {}
            _ => self.before_release(pid),
        }
        None
    }

    fn left(&mut self, tid: i32, pid: i32, call: MemoryCall) {
        let Ok(regs) = request::get_regs(tid) else { return };
        let Some(space) = self.spaces.get_mut(&pid).filter(|_| !is_error(&regs)) else { return };
        let object = match call {
            MemoryCall::Map => None,
            MemoryCall::Move { from, .. } => space.history.object(from),
        };
        let object: Option<Arc<str>> = object.or_else(|| space.callers.of(pid, &regs));
        let length = match call {
            MemoryCall::Map => regs.rsi,
            MemoryCall::Move { .. } => regs.rdx,
        };
        if let Some(object) = object {
            space.history.put(regs.rax, regs.rax.saturating_add(length), object);
        }
        if let MemoryCall::Move { from, size } = call
            && from != regs.rax
        {
            let size_bytes = Bytes(size.min(length));
            let moved = MremapEvent { pid, from_address: from, to_address: regs.rax, size_bytes };
            self.recording.ask(|recorder| recorder.moved(moved));
        }
    }

    fn signalled(&mut self, _tid: i32, _pid: i32, signal: i32) -> i32 {
        signal
    }

    fn exiting(&mut self, tid: i32, pid: i32) {
        if tid == pid && self.spaces.contains_key(&pid) {
            let since_start_ns = self.since_start();
            self.look(&AccountMoment::End { pid, since_start_ns });
        }
    }

    fn ended(&mut self, tid: i32) {
        self.spaces.remove(&tid);
    }
}

/// Whether the call failed: it then returns a number just below zero.
fn is_error(regs: &Regs) -> bool {
    const LARGEST: i64 = 4095;
    (-LARGEST..0).contains(&(regs.rax as i64))
}
