//! The ring buffer of one event, shared with the kernel.
//!
//! It has one control page, then 2^n data pages (kernel/events/ring_buffer.c). The kernel writes records and
//! then moves `data_head`. This side reads `data_head` (acquire), copies the bytes before it, and moves
//! `data_tail` (release), which frees the room. Both values only grow. A position is their value modulo the
//! size, so a record may wrap around the end. A full ring loses records. The kernel reports that in a LOST
//! record together with the next record that has room, and there may be none. So each event also counts what it
//! lost ([`PerfRing::lost`]). Bytes are copied out before they are examined: the kernel owns the memory.

use pagewise_kernel::SysError;
use pagewise_kernel::perf::bindings::perf_event_mmap_page;
use pagewise_kernel::perf::{self, perf_event_attr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

/// One event with its ring.
#[derive(Debug)]
pub(super) struct PerfRing {
    cpu: i32,
    base: NonNull<u8>,
    map_bytes: usize,
    data_bytes: usize,
    page_bytes: usize,
    /// The bytes moved out last. Keeps its largest size.
    moved: Vec<u8>,
    /// Keeps the ring alive; unmapped before it closes.
    event: OwnedFd,
}

// SAFETY: the mapping is owned by this value alone and is not tied to the thread that made it.
unsafe impl Send for PerfRing {}

impl PerfRing {
    /// Opens `attr` for `pid` on `cpu` and maps its ring of `wanted_bytes`, a power of two. Without
    /// privileges the size is limited by `kernel.perf_event_mlock_kb` (516 KiB per CPU) plus RLIMIT_MEMLOCK.
    /// The size is halved until the kernel agrees.
    pub(super) fn open(
        attr: &perf_event_attr,
        pid: i32,
        cpu: u32,
        wanted_bytes: usize,
    ) -> Result<Self, SysError> {
        let cpu = i32::try_from(cpu).unwrap_or(i32::MAX);
        let event = perf::open_counting_lost(attr, pid, cpu)?;
        let page_bytes = rustix::param::page_size();
        let mut data_bytes = wanted_bytes.max(page_bytes);
        loop {
            let map_bytes = page_bytes + data_bytes;
            match map(&event, map_bytes) {
                Ok(base) => {
                    let moved = Vec::new();
                    return Ok(Self { cpu, base, map_bytes, data_bytes, page_bytes, moved, event });
                }
                Err(error) if data_bytes == page_bytes => return Err(error),
                Err(_) => data_bytes /= 2,
            }
        }
    }

    /// Opens one ring on each of `cpus`; skips a CPU that has gone offline.
    pub(super) fn open_each(
        attr: &perf_event_attr,
        pid: i32,
        cpus: &[u32],
        wanted_bytes: usize,
    ) -> Result<Vec<Self>, SysError> {
        let open = |cpu: &u32| match Self::open(attr, pid, *cpu, wanted_bytes) {
            Err(error) if error.errno() == Some(libc::ENODEV) => None,
            opened => Some(opened),
        };
        cpus.iter().filter_map(open).collect()
    }

    /// Opens `attr` for thread `tid`, or for all threads (-1), on the CPU of this ring, with this ring as its
    /// output. Returns the number by which records name the event.
    pub(super) fn open_event(
        &self,
        attr: &perf_event_attr,
        tid: i32,
    ) -> Result<(u64, OwnedFd), SysError> {
        let event = perf::open_counting_lost(attr, tid, self.cpu)?;
        perf::redirect(event.as_fd(), self.event())?;
        Ok((perf::id(event.as_fd())?, event))
    }

    /// Size of the data area.
    pub(super) const fn data_bytes(&self) -> usize {
        self.data_bytes
    }

    /// The event; readable when records wait, by its watermark.
    pub(super) fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Records of its own event that found no room (Linux 6.0; 0 before).
    pub(super) fn lost(&self) -> u64 {
        perf::lost_records(self.event())
    }

    /// Moves all complete records out of the ring.
    pub(super) fn drain(&mut self) -> &[u8] {
        let head = self.head().load(Ordering::Acquire);
        let tail = self.tail().load(Ordering::Relaxed);
        let length = usize::try_from(head.wrapping_sub(tail)).unwrap_or(0).min(self.data_bytes);
        let start = usize::try_from(tail % self.data_bytes as u64).unwrap_or(0);
        let mut moved = std::mem::take(&mut self.moved);
        if moved.len() < length {
            moved.resize(length, 0);
        }
        let to_end = length.min(self.data_bytes - start);
        let (first, rest) = moved[..length].split_at_mut(to_end);
        self.copy_out(start, first);
        self.copy_out(0, rest);
        self.tail().store(head, Ordering::Release);
        self.moved = moved;
        &self.moved[..length]
    }

    fn copy_out(&self, offset: usize, into: &mut [u8]) {
        debug_assert!(offset + into.len() <= self.data_bytes);
        // SAFETY: `page_bytes + offset` lies within the mapping, as `offset < data_bytes`.
        let from = unsafe { self.base.as_ptr().add(self.page_bytes + offset) };
        // SAFETY: `offset + into.len() <= data_bytes` (`drain` splits at the end of the ring), so the source
        // lies within the mapping. The kernel does not write between tail and head. The target is a vector
        // owned by this value.
        unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
    }

    fn head(&self) -> &AtomicU64 {
        self.position(std::mem::offset_of!(perf_event_mmap_page, data_head))
    }

    fn tail(&self) -> &AtomicU64 {
        self.position(std::mem::offset_of!(perf_event_mmap_page, data_tail))
    }

    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: `offset` is that of a field of the control page, which the mapping begins with.
        let field = unsafe { self.base.as_ptr().add(offset) };
        // SAFETY: the field is an aligned u64 in memory that stays mapped as long as `self`. Both sides
        // access it only atomically.
        unsafe { AtomicU64::from_ptr(field.cast()) }
    }
}

impl Drop for PerfRing {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `open`, and no reference into it outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.map_bytes) };
    }
}

fn map(event: &OwnedFd, bytes: usize) -> Result<NonNull<u8>, SysError> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new shared mapping at an address chosen by the kernel touches no existing memory.
    let base = unsafe {
        libc::mmap(null_mut(), bytes, protection, libc::MAP_SHARED, event.as_raw_fd(), 0)
    };
    if base == libc::MAP_FAILED {
        return Err(SysError::last("mmap", "ring of a perf event"));
    }
    NonNull::new(base.cast()).ok_or_else(|| SysError::malformed("mmap", "ring of a perf event"))
}
