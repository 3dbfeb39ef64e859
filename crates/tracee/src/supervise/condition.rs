//! Touches fresh memory and frees it, so that the host of a virtual machine has it in place.
//!
//! A host that takes back free memory (free page reporting, whole blocks of 2 MiB) faults it in again at the
//! next touch. That cost would be charged to the program that touches first. Huge pages are requested,
//! because host memory comes and goes in such blocks: one touch makes the kernel clear the whole page. If no
//! huge page was available (`mincore(2)` reports the block's last page missing), every small page is touched.
//! Separate processes do this, and the kernel kills them first when memory runs out. So a size that is too
//! large ends them and not the supervisor. The supervisor listens meanwhile, and ends them if the front says
//! so or is gone.

use super::ConditioningCost;
use crate::child;
use crate::launch::LaunchError;
use crate::wait;
use pagewise_model::units::{Bytes, Nanos};
use pagewise_model::usage::ProgramEnd;
use rustix::event::{PollFd, PollFlags};
use std::io;
use std::num::NonZero;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr;
use std::time::Instant;

/// Maximum number of processes that touch at the same time.
const MOST_PROCESSES: usize = 4;
/// Minimum number of bytes for one of several processes.
const LEAST_SHARE: usize = 64 << 20;

/// Sizes of the pages that are touched.
#[derive(Debug, Clone, Copy)]
struct TouchSizes {
    page: usize,
    /// The largest transparent huge page; 0 if there are none.
    huge: usize,
}

impl TouchSizes {
    fn read() -> Self {
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(0);
        let huge = pagewise_kernel::thp::huge_page_size().map_or(0, |page| size(page.bytes()));
        Self { page: size(pagewise_kernel::page_size::base().bytes()).max(1), huge }
    }
}

/// Touches and frees `bytes`; `None` if `stop` became readable before that was done.
pub(super) fn touch_and_free(
    bytes: Bytes,
    stop: BorrowedFd<'_>,
) -> Result<Option<ConditioningCost>, LaunchError> {
    let subject = || format!("{bytes} of fresh memory");
    let len = usize::try_from(bytes.0)
        .map_err(|_| LaunchError::errno("mmap", subject(), rustix::io::Errno::NOMEM))?;
    let steps = TouchSizes::read();
    let start = Instant::now();
    let (reader, writer) = pagewise_kernel::pipe::pipe().map_err(|e| LaunchError::sys(&e))?;
    let parent = std::process::id();
    let (mut children, mut failed) = (Vec::new(), None);
    for share in shares(len, steps) {
        // SAFETY: the child only runs `live`, which neither allocates nor locks, and `_exit`s.
        match unsafe { libc::fork() } {
            -1 => {
                let error = io::Error::last_os_error();
                failed = Some(LaunchError::call("fork", subject(), &error));
                break;
            }
            0 => live(share, steps, parent, [reader.as_raw_fd(), writer.as_raw_fd()]),
            pid => children.push(pid),
        }
    }
    drop(writer);
    let stopped = failed.map_or_else(|| is_stopped(&children, stop), Err);
    if !matches!(stopped, Ok(false)) {
        children.iter().for_each(|pid| wait::kill(*pid, libc::SIGKILL));
    }
    let used = children.iter().map(|pid| wait::usage(*pid, Nanos(0), None));
    let used = used.collect::<Result<Vec<_>, _>>()?;
    if stopped? {
        return Ok(None);
    }
    if used.iter().any(|used| used.ended != ProgramEnd::Exited(0)) {
        return Err(LaunchError::errno("mmap", subject(), rustix::io::Errno::NOMEM));
    }
    Ok(Some(ConditioningCost {
        wall_ns: Nanos::from(start.elapsed()),
        sys_ns: Nanos(used.iter().map(|used| used.sys_ns.0).sum()),
        faults: used.iter().map(|used| used.minor_faults).sum(),
    }))
}

/// Splits `len` bytes into the share of each process, one per CPU: the host needs longer than the guest and
/// serves two CPUs at once.
fn shares(len: usize, steps: TouchSizes) -> Vec<usize> {
    let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
    let each = len.div_ceil(cpus.min(MOST_PROCESSES)).max(LEAST_SHARE);
    let each = each.next_multiple_of(steps.huge.max(steps.page));
    let starts = (0..len.max(1)).step_by(each);
    starts.map(|start| each.min(len - start)).collect()
}

/// Waits for the end of `children`. True if `stop` became readable first.
fn is_stopped(children: &[i32], stop: BorrowedFd<'_>) -> Result<bool, LaunchError> {
    for pid in children {
        let pidfd = pagewise_kernel::pidfd::open(*pid).map_err(|e| LaunchError::sys(&e))?;
        let mut fds =
            [PollFd::new(&pidfd, PollFlags::IN), PollFd::from_borrowed_fd(stop, PollFlags::IN)];
        while fds.iter().all(|fd| fd.revents().is_empty()) {
            wait::sleep(&mut fds, None);
        }
        if !fds[1].revents().is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Runs a touching process. It keeps its memory until all have closed the pipe's `writer`: otherwise another
/// process could get freed memory instead of fresh memory. Never returns.
fn live(len: usize, steps: TouchSizes, parent: u32, [reader, writer]: [RawFd; 2]) -> ! {
    let mut done = false;
    if wait::die_with(parent).is_ok() {
        child::raise_oom_score(c"1000");
        done = len == 0 || map(len).is_some_and(|at| touch(at, len, steps));
    }
    // SAFETY: closes this forked process's copy of the end, which is not used any more.
    unsafe { libc::close(writer) };
    if done {
        let mut byte = 0_u8;
        // SAFETY: reads at most one byte into the live `byte`; returns when no writer is left.
        while unsafe { libc::read(reader, (&raw mut byte).cast(), 1) } < 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
    }
    // SAFETY: ends this forked process without running exit handlers of its parent.
    unsafe { libc::_exit(i32::from(!done)) }
}

/// A fresh mapping of `len` bytes.
fn map(len: usize) -> Option<*mut u8> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new private mapping at an address chosen by the kernel disturbs nothing.
    let at = unsafe { libc::mmap(ptr::null_mut(), len, access, kind, -1, 0) };
    if at == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: advice on the mapping just made; a refusal leaves ordinary pages.
    unsafe { libc::madvise(at, len, libc::MADV_HUGEPAGE) };
    Some(at.cast())
}

/// Makes every page of the mapping of `len` bytes at `first` present. Always true.
fn touch(first: *mut u8, len: usize, steps: TouchSizes) -> bool {
    let mut offset = 0;
    while offset < len {
        let aligned = steps.huge > 0 && first.addr().wrapping_add(offset) % steps.huge == 0;
        write(first, offset);
        let block = if aligned { steps.huge } else { 0 };
        let is_whole = block > steps.page && len - offset >= block;
        let huge = is_whole && is_present(first, offset + block - steps.page, steps.page);
        offset += if huge { block } else { steps.page };
    }
    true
}

/// Writes the byte `offset` bytes into the mapping at `first`.
fn write(first: *mut u8, offset: usize) {
    // SAFETY: the caller keeps `offset` below the length of the mapping that starts at `first`.
    let byte = unsafe { first.add(offset) };
    // SAFETY: the byte is in a writable mapping of this process, and no reference points into it.
    unsafe { byte.write_volatile(1) };
}

/// Whether the page of `len` bytes at `offset` in the mapping at `first` is present.
fn is_present(first: *mut u8, offset: usize, len: usize) -> bool {
    let mut state = 0_u8;
    // SAFETY: the caller keeps `offset` below the length of the mapping that starts at `first`.
    let page = unsafe { first.add(offset) };
    // SAFETY: the kernel writes one byte for the one page into the live `state`.
    let known = unsafe { libc::mincore(page.cast(), len, &raw mut state) } == 0;
    known && state & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_there_with_and_without_huge_ones() {
        let steps = TouchSizes::read();
        let len = 5 * steps.huge.max(1 << 20) + 3 * steps.page;
        let absent = |first, len| {
            let pages = (0..len).step_by(steps.page);
            pages.filter(|offset| !is_present(first, *offset, steps.page)).count()
        };
        for (steps, advice) in [
            (steps, libc::MADV_HUGEPAGE),
            (steps, libc::MADV_NOHUGEPAGE),
            (TouchSizes { huge: 0, ..steps }, libc::MADV_HUGEPAGE),
        ] {
            let first = map(len).unwrap();
            // SAFETY: advice on the mapping just made.
            unsafe { libc::madvise(first.cast(), len, advice) };
            assert!(absent(first, len) > 0);
            assert!(touch(first, len, steps));
            assert_eq!(absent(first, len), 0);
            // SAFETY: this test owns the mapping, and nothing points into it any more.
            unsafe { libc::munmap(first.cast(), len) };
        }
    }

    #[test]
    fn it_stops_when_told() {
        let (reader, writer) = pagewise_kernel::pipe::pipe().unwrap();
        use std::os::fd::AsFd;
        let done = touch_and_free(Bytes::mib(8), reader.as_fd()).unwrap();
        assert!(done.is_some_and(|done| done.faults > 0));
        drop(writer);
        let stopped = touch_and_free(Bytes::mib(64), reader.as_fd());
        assert!(matches!(stopped, Ok(None)), "{stopped:?}");
    }
}
