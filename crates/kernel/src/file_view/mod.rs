//! A file as memory: shows what the page cache has of it and on which pages it is mapped, and brings it into
//! the cache.
//!
//! The mapping is shared and read-only. It begins at a huge-page boundary if the file is large enough. So
//! offset and address are congruent, and one page-table entry maps a 2 MiB folio of the cache (mm/filemap.c,
//! `filemap_map_pmd`). This process never touches it. The kernel enters the pages (`MADV_POPULATE_READ`,
//! Linux 5.14), so a file that is shortened meanwhile causes an error of that call instead of `SIGBUS`. With
//! `MADV_HUGEPAGE`, the kernel reads missing parts in huge folios if the file system supports them
//! (`do_sync_mmap_readahead`).
//!
//! `mincore(2)` gives a true answer for files that this account owns or may write. For other files it calls
//! every page cached (mm/mincore.c, `can_do_mincore`). Those are probed (see [`page_probe`](crate::page_probe)).
//!
//! Cost: one mapping, some 5 us. Entering costs 50 ns per page. A query costs 2 ns per page.

use crate::error::SysError;
use crate::page_size;
use crate::pagemap::Pagemap;
use crate::proc::maps::Mapping;
use crate::proc::{maps, own_pid, smaps};
use crate::region::MADV_COLLAPSE;
use pagewise_model::Bytes;
use rustix::fs::{Mode, OFlags};
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap,
};
use std::ffi::c_void;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Pages queried in one call; at least those of one huge page.
const WINDOW_PAGES: usize = 1 << 15;

/// Opens a regular file for reading. Also returns its length, which is not 0.
///
/// # Errors
/// When it cannot be examined or opened, is of another kind, or is empty.
pub fn open_regular(path: &Path) -> Result<(File, usize), SysError> {
    let failed = |call| move |e: std::io::Error| SysError::new(call, path.display().to_string(), e);
    let other = |what| failed("open")(std::io::Error::other(what));
    // Checked before the open: the open alone would wake the writer of a FIFO.
    let kind = std::fs::metadata(path).map_err(failed("stat"))?;
    if !kind.is_file() {
        return Err(other("not a regular file"));
    }
    // The name may lead to another file by now. So the open does not wait, takes no terminal, and the file is
    // checked again.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    let file = File::from(opened.map_err(|e| failed("open")(e.into()))?);
    let metadata = file.metadata().map_err(failed("fstat"))?;
    let len = usize::try_from(metadata.len()).map_err(|_| other("too large to be mapped"))?;
    match (metadata.is_file(), len) {
        (false, _) => Err(other("not a regular file")),
        (true, 0) => Err(other("the file is empty")),
        (true, _) => Ok((file, len)),
    }
}

/// The content of a regular file of at most `most` bytes. Never waits for a FIFO or a device.
///
/// # Errors
/// As [`open_regular`], and when the file is larger or cannot be read.
pub fn read_at_most(path: &Path, most: Bytes) -> Result<Vec<u8>, SysError> {
    content(open_regular(path)?.0, path, most)
}

/// Like [`read_at_most`], for a file that a user names. It may also be a pipe that this process was given:
/// shells spell `<(COMMAND)` as `/dev/fd/63`. A pipe is read to its end, like standard input.
///
/// # Errors
/// As [`read_at_most`].
pub fn read_named(path: &Path, most: Bytes) -> Result<Vec<u8>, SysError> {
    match given_pipe(path) {
        Some(pipe) => content(pipe, path, most),
        None => read_at_most(path, most),
    }
}

/// Duplicates the pipe that this process has open under the number in this path.
fn given_pipe(path: &Path) -> Option<File> {
    let name = path.to_str()?;
    let number = ["/dev/fd/", "/proc/self/fd/"].iter().find_map(|place| name.strip_prefix(place));
    let number: i32 = number?.parse().ok().filter(|number| *number >= 0)?;
    if !std::fs::metadata(path).ok()?.file_type().is_fifo() {
        return None;
    }
    // SAFETY: the number is not -1. The descriptor with that number was given to this process and is only
    // duplicated.
    let given = unsafe { BorrowedFd::borrow_raw(number) };
    rustix::io::fcntl_dupfd_cloexec(given, 3).ok().map(File::from)
}

fn content(file: File, path: &Path, most: Bytes) -> Result<Vec<u8>, SysError> {
    let failed = |e| SysError::new("read", path.display().to_string(), e);
    let mut content = Vec::new();
    file.take(most.0.saturating_add(1)).read_to_end(&mut content).map_err(failed)?;
    if content.len() as u64 > most.0 {
        return Err(failed(std::io::Error::other(format!("it is larger than {most}"))));
    }
    Ok(content)
}

/// Whether `mincore` gives this account a true answer about a file (mm/mincore.c, `can_do_mincore`).
#[must_use]
pub fn is_answered_for(file: &impl AsFd) -> bool {
    let user = rustix::process::geteuid();
    let is_own = rustix::fs::fstat(file).is_ok_and(|found| found.st_uid == user.as_raw());
    let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    user.is_root() || is_own || rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

/// Whether the kernel itself aligns mappings of this file to huge pages, as it does for some file systems
/// (`thp_get_unmapped_area`). Found by trying: two mappings in a row are not aligned by chance.
#[must_use]
pub fn is_placed_aligned(file: &File, len: usize) -> bool {
    let huge = page_size::huge().bytes();
    if (len as u64) < huge {
        return false;
    }
    let place = || FileView::map_anywhere(file, len).ok();
    let (first, second) = (place(), place());
    [first, second]
        .iter()
        .all(|view| view.as_ref().is_some_and(|v| (v.start as u64).is_multiple_of(huge)))
}

/// A mapping of the beginning of a file, unmapped when dropped.
#[derive(Debug)]
pub struct FileView {
    start: *mut c_void,
    len: usize,
}

impl FileView {
    /// Maps `len` bytes, congruent with huge pages if the file is large enough.
    ///
    /// # Errors
    /// ENODEV for a file that cannot be mapped, ENOMEM.
    pub fn map(file: &impl AsFd, len: usize) -> Result<Self, SysError> {
        if (len as u64) < page_size::huge().bytes() {
            Self::map_anywhere(file, len)
        } else {
            Self::map_part(file, 0..len as u64, 0)
        }
    }

    fn map_anywhere(file: &impl AsFd, len: usize) -> Result<Self, SysError> {
        let (flags, prot) = (MapFlags::SHARED, ProtFlags::READ);
        // SAFETY: a fresh mapping at an address chosen by the kernel; nothing else refers to it.
        unsafe { mmap(std::ptr::null_mut(), len, prot, flags, file, 0) }
            .map(|start| Self { start, len })
            .map_err(|e| SysError::new("mmap", format!("{len} bytes of a file"), e))
    }

    /// Maps a part of a file that begins at a page. The mapping begins `shift` bytes after a huge-page
    /// boundary.
    ///
    /// # Errors
    /// As [`Self::map`]; EINVAL if offset or shift is not a multiple of the page.
    pub fn map_part(file: &impl AsFd, part: Range<u64>, shift: usize) -> Result<Self, SysError> {
        let subject = || format!("{} bytes of a file", part.end.saturating_sub(part.start));
        let too_large = |_| SysError::new("mmap", subject(), rustix::io::Errno::NOMEM);
        let len = usize::try_from(part.end.saturating_sub(part.start)).map_err(too_large)?;
        let huge = usize::try_from(page_size::huge().bytes()).unwrap_or(usize::MAX);
        let room = ReservedSpace::new(len.saturating_add(shift), huge)?;
        let start = room.boundary(huge).wrapping_byte_add(shift);
        let (flags, prot) = (MapFlags::SHARED | MapFlags::FIXED, ProtFlags::READ);
        // SAFETY: the range lies in the address space that `room` has reserved and that nothing uses.
        let mapped = unsafe { mmap(start, len, prot, flags, file, part.start) };
        room.give_back_around(start, if mapped.is_ok() { len } else { 0 });
        mapped.map(|start| Self { start, len }).map_err(|e| SysError::new("mmap", subject(), e))
    }

    /// Number of faults for touching the pages at these offsets, one after the other. Each page is entered as
    /// by a fault, unless an earlier one has brought it in.
    ///
    /// # Errors
    /// As [`Self::enter`], and when the page table cannot be read.
    pub fn count_faults(&self, offsets: impl Iterator<Item = usize>) -> Result<u64, SysError> {
        let (page, pagemap) = (page_size::base().bytes() as usize, Pagemap::open(own_pid())?);
        let mut faults = 0;
        for offset in offsets {
            let (at, len) = self.part(offset, page);
            let entry = pagemap.read(at as u64, 1)?;
            if len > 0 && !entry.first().is_some_and(|entry| entry.is_present()) {
                self.enter(offset, len)?;
                faults += 1;
            }
        }
        Ok(faults)
    }

    /// Length in bytes; never 0.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Always false: a mapping is never empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The parts that are queried in one call each: all of it, cut at huge-page boundaries.
    pub fn windows(&self) -> impl Iterator<Item = Range<usize>> {
        let (page, len) = (page_size::base().bytes() as usize, self.len);
        let huge = usize::try_from(page_size::huge().bytes()).unwrap_or(usize::MAX);
        let window = (WINDOW_PAGES * page).max(huge);
        (0..len).step_by(window).map(move |start| start..len.min(start.saturating_add(window)))
    }

    /// Which pages are in the cache according to `mincore`: at most `len` bytes from `offset` on, a multiple
    /// of the page.
    ///
    /// # Errors
    /// When the call fails.
    pub fn resident_pages(&self, offset: usize, len: usize) -> Result<Vec<bool>, SysError> {
        let page = page_size::base().bytes() as usize;
        let (from, len) = self.part(offset, len);
        let mut bytes = vec![0_u8; len.div_ceil(page)];
        // SAFETY: the range is this mapping's own. `bytes` has one byte for each of its pages, is alive and
        // not otherwise referenced, and the kernel writes nothing else.
        let done = unsafe { libc::mincore(from, len, bytes.as_mut_ptr()) };
        if done != 0 {
            return Err(SysError::last("mincore", format!("{len} bytes of a file")));
        }
        Ok(bytes.into_iter().map(|b| b & 1 == 1).collect())
    }

    /// Enters `len` bytes from `offset` on into the page table. Reads what is not cached.
    ///
    /// # Errors
    /// EFAULT if the file has become shorter or cannot be read; EINVAL before Linux 5.14.
    pub fn enter(&self, offset: usize, len: usize) -> Result<(), SysError> {
        self.advise(offset, len, Advice::LinuxPopulateRead, "MADV_POPULATE_READ")
            .map_err(|error| error.lacking_before("Linux 5.14"))
    }

    /// Requests huge folios for reads through this mapping.
    ///
    /// # Errors
    /// EINVAL on a kernel without transparent huge pages.
    pub fn ask_for_huge(&self) -> Result<(), SysError> {
        self.advise(0, self.len, Advice::LinuxHugepage, "MADV_HUGEPAGE")
    }

    /// Makes it executable, which some kernels require of memory to collapse. Nothing here executes it.
    ///
    /// # Errors
    /// EACCES on file systems that do not permit execution.
    pub fn open_to_execution(&self) -> Result<(), SysError> {
        let rights = MprotectFlags::READ | MprotectFlags::EXEC;
        // SAFETY: the range is this mapping's own, and reading it stays allowed; nothing jumps there.
        unsafe { rustix::mm::mprotect(self.start, self.len, rights) }
            .map_err(|e| SysError::new("mprotect", format!("{} bytes of a file", self.len), e))
    }

    /// Puts the slot at `offset` on a huge page of the page cache, for all processes that map it
    /// (`MADV_COLLAPSE`, Linux 6.1). `offset` is a multiple of a huge page, and the slot is completely in the
    /// file.
    ///
    /// # Errors
    /// EINVAL for files on disk without READ_ONLY_THP_FOR_FS, ENOMEM if no huge page is free, EAGAIN.
    pub fn collapse(&self, offset: usize) -> Result<(), SysError> {
        let huge = usize::try_from(page_size::huge().bytes()).unwrap_or(usize::MAX);
        let (from, len) = self.part(offset, huge);
        // SAFETY: the range is this mapping's own; its content stays.
        let done = unsafe { libc::madvise(from, len, MADV_COLLAPSE) };
        let subject = || format!("{} of a file", Bytes(len as u64));
        if done == 0 { Ok(()) } else { Err(SysError::last("madvise MADV_COLLAPSE", subject())) }
    }

    /// Prevents read-ahead beyond what is entered, so that only requested pages change.
    ///
    /// # Errors
    /// When the advice is refused.
    pub fn read_nothing_ahead(&self) -> Result<(), SysError> {
        self.advise(0, self.len, Advice::Random, "MADV_RANDOM")
    }

    fn advise(
        &self,
        offset: usize,
        len: usize,
        advice: Advice,
        name: &str,
    ) -> Result<(), SysError> {
        let (from, len) = self.part(offset, len);
        // SAFETY: the range is this mapping's own; the callers' advice changes no content.
        unsafe { madvise(from, len, advice) }
            .map_err(|e| SysError::new("madvise", format!("{name} of {}", Bytes(len as u64)), e))
    }

    /// Locks all of it in memory (`mlock(2)`, within `RLIMIT_MEMLOCK`). Reads what is not cached.
    ///
    /// # Errors
    /// ENOMEM or EPERM beyond the limit.
    pub fn lock(&self) -> Result<(), SysError> {
        // SAFETY: the range is this mapping's own; locking changes no content.
        unsafe { rustix::mm::mlock(self.start, self.len) }.map_err(|e| {
            SysError::new("mlock", format!("{} of a file (ulimit -l)", Bytes(self.len as u64)), e)
        })
    }

    /// Offset ranges that are mapped by an entry above the lowest level (`PAGEMAP_SCAN`, Linux 6.7).
    ///
    /// # Errors
    /// ENOTTY on older kernels.
    pub fn huge_ranges(&self) -> Result<Vec<Range<u64>>, SysError> {
        let start = self.start as u64;
        let end = start + (self.len as u64).next_multiple_of(page_size::base().bytes());
        let found = Pagemap::open(own_pid())?.scan(start, end)?;
        let huge = found.into_iter().filter(|range| range.is_huge);
        Ok(huge.map(|range| range.start.0 - start..range.end.0 - start).collect())
    }

    /// Frame numbers of the whole mapping, page by page. `None` for a page that is not entered, or if this
    /// account may not see frame numbers.
    ///
    /// # Errors
    /// When the page table cannot be read.
    pub fn frames(&self) -> Result<Vec<Option<u64>>, SysError> {
        let count = self.len.div_ceil(page_size::base().bytes() as usize);
        let entries = Pagemap::open(own_pid())?.read(self.start as u64, count)?;
        Ok(entries.into_iter().map(|entry| entry.frame()).collect())
    }

    /// How many bytes are mapped huge according to `smaps` (`FilePmdMapped`, `ShmemPmdMapped`).
    ///
    /// # Errors
    /// When `smaps` cannot be read.
    pub fn huge_bytes(&self) -> Result<Bytes, SysError> {
        let start = self.start as u64;
        Ok(smaps::total(&smaps::own(start..start + self.len as u64)?).huge())
    }

    /// Its entry in `/proc/self/maps`, with device and inode as other processes show them.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn listed(&self) -> Result<Mapping, SysError> {
        let all = maps::read(own_pid())?;
        let own = all.into_iter().find(|mapping| mapping.start == self.start as u64);
        own.ok_or_else(|| SysError::malformed("read", "/proc/self/maps"))
    }

    /// Address of `offset`, and how many of `len` bytes from there are in the mapping.
    fn part(&self, offset: usize, len: usize) -> (*mut c_void, usize) {
        let offset = offset.min(self.len);
        (self.start.wrapping_byte_add(offset), len.min(self.len - offset))
    }
}

impl Drop for FileView {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `map`, which was never handed out.
        let unmapped = unsafe { munmap(self.start, self.len) };
        debug_assert!(unmapped.is_ok(), "munmap of an owned mapping");
    }
}

/// Reserved address space that is not used yet.
struct ReservedSpace {
    start: *mut c_void,
    len: usize,
}

impl ReservedSpace {
    /// Reserves `len` bytes plus room to align them to `unit`.
    fn new(len: usize, unit: usize) -> Result<Self, SysError> {
        let subject = || format!("{len} bytes of address space");
        let too_large = || SysError::new("mmap", subject(), rustix::io::Errno::NOMEM);
        let page = page_size::base().bytes() as usize;
        let len = len.checked_next_multiple_of(page).ok_or_else(too_large)?;
        let len = len.checked_add(unit).ok_or_else(too_large)?;
        let (prot, flags) = (ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a fresh mapping at an address chosen by the kernel; nothing else refers to it.
        unsafe { mmap_anonymous(std::ptr::null_mut(), len, prot, flags) }
            .map(|start| Self { start, len })
            .map_err(|e| SysError::new("mmap", subject(), e))
    }

    /// The first address in it that is a multiple of `unit`.
    fn boundary(&self, unit: usize) -> *mut c_void {
        let address = self.start as usize;
        self.start.wrapping_byte_add(address.next_multiple_of(unit) - address)
    }

    /// Releases what lies before and after the `len` bytes at `kept`.
    fn give_back_around(self, kept: *mut c_void, len: usize) {
        let page = page_size::base().bytes() as usize;
        let before = kept as usize - self.start as usize;
        let after = before + len.next_multiple_of(page);
        for (offset, len) in [(0, before), (after, self.len - after)] {
            if len > 0 {
                // SAFETY: a part of the reserved range that nothing was mapped over.
                let unmapped = unsafe { munmap(self.start.wrapping_byte_add(offset), len) };
                debug_assert!(unmapped.is_ok(), "munmap of reserved address space");
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests;
