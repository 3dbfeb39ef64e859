//! Which parts of files a tree reads by system calls.
//!
//! A thread stops at the entry of a read. The file position is an argument or the descriptor's position
//! (`/proc/TID/fdinfo`). It stops again at the exit, which says how much was read. Whole pages count, as in
//! the page cache. Only regular files count.
//!
//! Not seen: sendfile(2), splice(2), io_uring; a position that another thread moves meanwhile. Cost: two
//! stops and three looks at `/proc`, some 30 us per read.

use crate::elf::{Key, key};
use crate::ptrace::Regs;
use pagewise_kernel::page_size;
use pagewise_model::fault::WorkingSetRange;
use pagewise_model::{Bytes, Nanos};
use std::collections::{BTreeMap, HashMap};
use std::fs;

/// Calls that read from a descriptor.
pub(super) const CALLS: [i64; 5] =
    [libc::SYS_read, libc::SYS_pread64, libc::SYS_readv, libc::SYS_preadv, libc::SYS_preadv2];
/// Maximum number of parts kept: no program start needs more.
const MOST_PARTS: usize = 1 << 20;

/// A read of a regular file in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PendingRead {
    /// Index in [`ReadHistory::files`].
    file: usize,
    offset: u64,
}

/// Path of a file and the parts of it that were read.
#[derive(Debug)]
struct FileReadParts {
    path: String,
    /// Parts by first byte: their end, and the time of their first read.
    parts: BTreeMap<u64, (u64, Nanos)>,
}

/// Everything that was read so far.
#[derive(Debug, Default)]
pub(super) struct ReadHistory {
    files: Vec<FileReadParts>,
    known: HashMap<Key, usize>,
    parts: usize,
}

impl ReadHistory {
    /// A thread is about to make one of [`CALLS`]. `None` if the call does not read a regular file.
    pub(super) fn enter(&mut self, tid: i32, regs: &Regs) -> Option<PendingRead> {
        let fd = regs.rdi as i32;
        let link = format!("/proc/{tid}/fd/{fd}");
        let meta = fs::metadata(&link).ok().filter(fs::Metadata::is_file)?;
        let is_placed = match regs.orig_rax as i64 {
            libc::SYS_pread64 | libc::SYS_preadv => true,
            libc::SYS_preadv2 => regs.r10 as i64 != -1,
            _ => false,
        };
        let offset = if is_placed { regs.r10 } else { position(tid, fd)? };
        let file = match self.known.get(&key(&meta)) {
            Some(file) => *file,
            None => {
                let path = fs::read_link(&link).ok()?.into_os_string().into_string().ok()?;
                // Files of the kernel have no pages.
                if ["/proc/", "/sys/"].iter().any(|own| path.starts_with(own)) {
                    return None;
                }
                self.files.push(FileReadParts { path, parts: BTreeMap::new() });
                self.known.insert(key(&meta), self.files.len() - 1);
                self.files.len() - 1
            }
        };
        Some(PendingRead { file, offset })
    }

    /// The read has returned this many bytes.
    pub(super) fn leave(&mut self, reading: PendingRead, bytes: u64, at: Nanos) {
        if bytes == 0 || self.parts >= MOST_PARTS {
            return;
        }
        let page = page_size::base().bytes();
        let start = reading.offset - reading.offset % page;
        let end = reading.offset.saturating_add(bytes);
        let end = end.checked_next_multiple_of(page).unwrap_or(end);
        let parts = &mut self.files[reading.file].parts;
        let before = parts.len();
        add(parts, start, end, at);
        self.parts = (self.parts + parts.len()).saturating_sub(before);
    }

    /// The parts of each file, in order.
    pub(super) fn finish(self) -> Vec<(String, Vec<WorkingSetRange>)> {
        let range = |(start, (end, at)): (u64, (u64, Nanos))| WorkingSetRange {
            offset_bytes: Bytes(start),
            length_bytes: Bytes(end - start),
            first_touch_ns: at,
        };
        let ranges = |file: FileReadParts| (file.path, file.parts.into_iter().map(range).collect());
        self.files.into_iter().map(ranges).collect()
    }
}

/// Adds a part and joins it with those it touches.
fn add(parts: &mut BTreeMap<u64, (u64, Nanos)>, start: u64, end: u64, at: Nanos) {
    let (mut start, mut end, mut at) = (start, end, at);
    let meets = |parts: &BTreeMap<u64, (u64, Nanos)>, start: u64, end: u64| {
        let last = parts.range(..=end).next_back();
        last.filter(|(_, part)| part.0 >= start).map(|(first, part)| (*first, *part))
    };
    while let Some((first, (last, former))) = meets(parts, start, end) {
        parts.remove(&first);
        (start, end, at) = (start.min(first), end.max(last), at.min(former));
    }
    parts.insert(start, (end, at));
}

/// Current file position of a descriptor.
fn position(tid: i32, fd: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{tid}/fdinfo/{fd}")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("pos:")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptrace::cleared;
    use std::os::fd::AsRawFd;

    #[test]
    fn parts_that_meet_are_one_with_the_first_read() {
        let mut parts = BTreeMap::new();
        for (start, end, at) in [(8, 12, 5), (0, 4, 6), (20, 24, 7), (4, 8, 8), (21, 22, 1)] {
            add(&mut parts, start, end, Nanos(at));
        }
        assert_eq!(parts, BTreeMap::from([(0, (12, Nanos(5))), (20, (24, Nanos(1)))]));
    }

    #[test]
    fn reads_of_regular_files_count_by_page() {
        let path = std::env::temp_dir().join(format!("pagewise-reads-{}", std::process::id()));
        let page = page_size::base().bytes();
        fs::write(&path, vec![1; 8 * page as usize]).unwrap();
        let file = fs::File::open(&path).unwrap();
        std::io::Seek::seek(&mut &file, std::io::SeekFrom::Start(page + 1)).unwrap();
        let tid = std::process::id() as i32;
        let call = |number: i64, fd: i32, offset: u64| Regs {
            orig_rax: number as u64,
            rdi: fd as u64,
            r10: offset,
            ..cleared()
        };
        let mut reads = ReadHistory::default();
        let fd = file.as_raw_fd();
        for (number, offset) in [(libc::SYS_read, 0), (libc::SYS_pread64, 5 * page)] {
            let reading = reads.enter(tid, &call(number, fd, offset)).unwrap();
            reads.leave(reading, 10, Nanos(3));
        }
        let other = fs::File::open("/proc/self/stat").unwrap();
        assert_eq!(reads.enter(tid, &call(libc::SYS_read, other.as_raw_fd(), 0)), None);
        assert_eq!(reads.enter(tid, &call(libc::SYS_read, -1, 0)), None);
        fs::remove_file(&path).unwrap();
        let range = |pages: u64| WorkingSetRange {
            offset_bytes: Bytes(pages * page),
            length_bytes: Bytes(page),
            first_touch_ns: Nanos(3),
        };
        let [(name, ranges)] = &reads.finish()[..] else { panic!("one file") };
        assert_eq!(
            (name.as_str(), &ranges[..]),
            (path.to_str().unwrap(), &[range(1), range(5)][..])
        );
    }
}
