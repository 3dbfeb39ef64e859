//! Decides whether a call may be injected into a process, and where a frame has room.
//!
//! A frame goes below the thread's stack pointer if that points to a stack: `[stack]` for the main thread, a
//! mapping with a guard right below it for others. If the main thread runs on another stack (a goroutine, a
//! coroutine), its frame goes to the lowest, never touched pages of `[stack]`. Such small stacks have no room
//! for a signal frame, and their programs handle signals on another stack. For the same reason, Go threads
//! other than the main one are left alone.

use super::layout::{self, CallSites};
use super::{InjectError, InjectRefusal, ProcessIdentity};
use crate::elf;
use crate::ptrace::{read_memory, read_u64, request};
use pagewise_kernel::error::SysError;
use pagewise_kernel::proc::maps::{self, Mapping};
use pagewise_kernel::proc::status::{self, ProcessStatus};
use pagewise_model::look::Allocator;
use std::fs;
use std::os::unix::fs::FileExt;

/// First bytes of a frame's page if the frame is not below the stack pointer.
pub(super) const MARK: [u8; 16] = *b"pagewise frame\0\0";

/// A process that calls can be injected into.
#[derive(Debug)]
pub(super) struct InjectableProcess {
    pub(super) process: ProcessIdentity,
    /// Where to call and where to return.
    pub(super) sites: CallSites,
    /// Its mappings as they were before the stop.
    pub(super) maps: Vec<Mapping>,
    /// A Go program: only its main thread has a stack with room for a frame.
    pub(super) is_go: bool,
}

impl InjectableProcess {
    pub(super) const fn pid(&self) -> i32 {
        self.process.pid
    }

    /// Looks at `process` without stopping it.
    ///
    /// # Errors
    /// [`InjectError::Refused`] with the reason why it cannot be done.
    pub(super) fn inspect(process: ProcessIdentity) -> Result<Self, InjectError> {
        let pid = process.pid;
        refuse_by_status(&status::read(pid)?, own_filters())?;
        let seen = elf::of_executable_of(pid).ok();
        if seen.is_some_and(|seen| seen.is_32_bit) {
            return Err(InjectRefusal::ThirtyTwoBit.into());
        }
        let maps = maps::read(pid)?;
        if seen.is_some_and(|seen| seen.checks_leaks) || maps.iter().any(layout::checks_leaks) {
            return Err(InjectRefusal::LeakChecker.into());
        }
        let sites = layout::sites(pid, &maps).ok_or(InjectRefusal::NoCallSite)?;
        let is_go = seen.is_some_and(|seen| seen.allocator == Allocator::Go);
        Ok(Self { process, sites, maps, is_go })
    }

    /// True if the thread may have room for a frame.
    pub(super) fn takes_frame(&self, tid: i32) -> bool {
        self.sites.restorer.is_some() && (tid == self.pid() || !self.is_go)
    }

    /// The address below which a frame of `room` bytes may be put, for a thread with stack pointer `sp`; and
    /// whether the place must be marked.
    ///
    /// # Errors
    /// [`InjectRefusal::NoStack`] when there is no such place.
    pub(super) fn frame_top(
        &self,
        tid: i32,
        sp: u64,
        room: u64,
    ) -> Result<(u64, bool), InjectError> {
        let maps = &self.maps;
        let own = maps.iter().position(|m| m.contains(sp) && layout::is_writable(m));
        let has_room = |m: &Mapping| sp - m.start > room;
        if tid != self.pid() {
            let guarded = own.filter(|&index| {
                let below = index.checked_sub(1).map(|i| &maps[i]);
                !self.is_go
                    && below.is_some_and(|b| layout::is_guard(b) && b.end == maps[index].start)
                    && has_room(&maps[index])
            });
            return guarded.map(|_| (sp, false)).ok_or(InjectRefusal::NoStack.into());
        }
        match own.map(|index| &maps[index]) {
            Some(stack) if layout::name(stack) == "[stack]" && has_room(stack) => Ok((sp, false)),
            Some(_) => self.untouched_top(sp, room),
            None => Err(InjectRefusal::NoStack.into()),
        }
    }

    fn untouched_top(&self, sp: u64, room: u64) -> Result<(u64, bool), InjectError> {
        let page = rustix::param::page_size() as u64;
        let is_stack = |m: &&Mapping| layout::name(m) == "[stack]";
        let stack = self.maps.iter().find(is_stack).ok_or(InjectRefusal::NoStack)?;
        let top = stack.start + marked_room(room);
        let free = !stack.contains(sp)
            && top < stack.end
            && (untouched(self.pid(), stack.start, top, page)
                || self.is_cleared_frame(stack.start, top));
        if free { Ok((top, true)) } else { Err(InjectRefusal::NoStack.into()) }
    }

    /// True if the mark is followed by zeros only: a frame's place that was used and cleared, and that the
    /// stack itself has not reached since.
    fn is_cleared_frame(&self, start: u64, top: u64) -> bool {
        let mut bytes = vec![0; (top - start) as usize];
        read_memory(self.pid(), start, &mut bytes).is_ok_and(|n| n == bytes.len())
            && bytes.strip_prefix(&MARK).is_some_and(|rest| rest.iter().all(|&byte| byte == 0))
    }
}

/// Bytes of whole pages that hold the mark and a frame of `room` bytes.
fn marked_room(room: u64) -> u64 {
    (room + MARK.len() as u64).next_multiple_of(rustix::param::page_size() as u64)
}

/// Where the mark goes when the frame is put below `top`.
#[must_use]
pub(super) fn mark_place(top: u64, room: u64) -> u64 {
    top - marked_room(room)
}

/// True if no page of the range exists, in memory or in swap (`pagemap`, bits 63 and 62).
fn untouched(pid: i32, start: u64, end: u64, page: u64) -> bool {
    let Ok(pagemap) = fs::File::open(format!("/proc/{pid}/pagemap")) else { return false };
    let mut entries = vec![0; ((end - start) / page * 8) as usize];
    pagemap.read_exact_at(&mut entries, start / page * 8).is_ok()
        && entries.chunks_exact(8).all(|entry| entry[7] & 0xc0 == 0)
}

/// `own_filters` is the number of filters that this process runs under (a container's). A target with the
/// same number has no filter of its own.
fn refuse_by_status(status: &ProcessStatus, own_filters: Option<u32>) -> Result<(), InjectError> {
    if status.vm_size.is_none() {
        return Err(InjectRefusal::NoMemory.into());
    }
    if let Some(tracer) = status.tracer_pid.filter(|&pid| pid != 0) {
        return Err(InjectRefusal::Traced(tracer).into());
    }
    if status.shadow_stack {
        return Err(InjectRefusal::ShadowStack.into());
    }
    match status.seccomp {
        Some(0) | None => Ok(()),
        Some(2) if status.seccomp_filters.is_some() && status.seccomp_filters == own_filters => {
            Ok(())
        }
        Some(_) => Err(InjectRefusal::Seccomp.into()),
    }
}

fn own_filters() -> Option<u32> {
    status::read(pagewise_kernel::proc::own_pid()).ok()?.seccomp_filters
}

/// True if a signal is pending that thread `tid` would take as soon as it runs.
pub(super) fn has_pending_signal(tid: i32) -> Result<bool, SysError> {
    status::read(tid).map(|status| has_pending(&status))
}

/// Like [`has_pending_signal`], from the status of the thread.
pub(super) const fn has_pending(status: &ProcessStatus) -> bool {
    (status.thread_pending | status.process_pending) & !status.blocked != 0
}

/// True if `ip` is in a restartable sequence (rseq(2)), which the kernel would abort if it saw the thread
/// elsewhere. Kernels before 5.13 do not report the area, and it counts as absent: a C library that registers
/// it there does not use such sequences by itself.
#[must_use]
pub(super) fn in_restartable_sequence(pid: i32, tid: i32, ip: u64) -> bool {
    let Ok(Some(area)) = request::rseq_area(tid) else { return false };
    let descriptor = match read_u64(pid, area + 8) {
        Ok(0) => return false,
        Ok(address) => address,
        Err(_) => return true,
    };
    match (read_u64(pid, descriptor + 8), read_u64(pid, descriptor + 16)) {
        (Ok(start), Ok(length)) => ip.wrapping_sub(start) < length,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_decides() {
        let base = "VmSize:\t 10 kB\nTracerPid:\t0\nSeccomp:\t0\nSeccomp_filters:\t0\n";
        let refuse = |text: &str, own| refuse_by_status(&status::parse(text.as_bytes()), own);
        assert!(refuse(base, Some(0)).is_ok());
        for (from, to) in [
            ("VmSize:\t 10 kB\n", ""),
            ("TracerPid:\t0", "TracerPid:\t7"),
            ("Seccomp:\t0\n", "Seccomp:\t1\n"),
            ("Seccomp:\t0\nSeccomp_filters:\t0", "Seccomp:\t2\nSeccomp_filters:\t99"),
            ("Seccomp:\t0\n", "Seccomp:\t0\nx86_Thread_features:\tshstk \n"),
        ] {
            let refused = refuse(&base.replace(from, to), Some(0));
            assert!(matches!(refused, Err(InjectError::Refused(_))), "{to}");
        }
        let filtered = "VmSize:\t 10 kB\nSeccomp:\t2\n";
        assert!(refuse(filtered, None).is_err(), "nobody knows whose filters they are");
        assert!(refuse(&format!("{filtered}Seccomp_filters:\t1\n"), Some(1)).is_ok());
    }

    #[test]
    fn untouched_pages_are_told_from_touched() {
        let pid = std::process::id() as i32;
        let page = rustix::param::page_size();
        // Larger than anything that malloc serves from memory it already has.
        let mut block = vec![0_u8; 40 << 20];
        let first = (block.as_ptr() as usize).next_multiple_of(page);
        let offset = first - block.as_ptr() as usize;
        block[offset] = 1;
        let (first, page) = (first as u64, page as u64);
        assert!(!untouched(pid, first, first + page, page));
        assert!(untouched(pid, first + (8 << 20), first + (9 << 20), page));
        std::hint::black_box(&block);
    }
}
