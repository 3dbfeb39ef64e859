//! Reading and writing regular files so that they leave nothing in the page cache that was not there.
//!
//! A copy that reads or writes much data once pushes the files of other programs out of the cache. Since
//! Linux 6.14 the kernel drops the pages itself: `preadv2(2)` and `pwritev2(2)` with `RWF_DONTCACHE`, which
//! keeps pages that were cached before. If the file system or the kernel refuses that, each file has a trail:
//! the part behind its position is dropped by `POSIX_FADV_DONTNEED`. Written data first goes to the disk
//! (`sync_file_range(2)`), because dirty pages cannot be dropped. Pages that `mincore(2)` reported as cached
//! before this copy reached them are kept. Also kept are all pages of a file whose cache state this account
//! may not query, those within the old length of a file that is open only for writing, those that a process
//! maps, and those of a file system in memory.
//!
//! Pieces that are not whole pages use the trail too: with the flag a page would be dropped before the next
//! piece needs the rest of it. Written pages leave the cache when they are on the disk, so some stay for a
//! moment after the end. This does not make data durable. Cost of a trail: 2 ns a page, and a wait for the
//! disk every 8 MiB written.

use super::calls::{CopyCalls, KernelCalls, TransferCall};
use super::trail::{CacheTrail, page_len, position};
use super::{CopyError, CopySide};
use crate::end::{CopyEnd, DescriptorKind};
use rustix::event::PollFlags;
use rustix::io::Errno;
use std::cell::RefCell;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// A file that is read or written without filling the page cache. Anything but a regular file is read and
/// written normally.
///
/// # Examples
///
/// ```
/// use std::io::{Seek, Write};
/// let mut file = tempfile::tempfile()?;
/// file.write_all(b"read once")?;
/// file.rewind()?;
/// let mut bytes = [0; 20];
/// let mut source = pagewise_lanes::Uncached::of(&file);
/// assert_eq!((source.read(&mut bytes)?, &bytes[..9]), (9, &b"read once"[..]));
/// source.finish()?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Uncached<'a>(UncachedEnd<'a, KernelCalls>);

impl<'a> Uncached<'a> {
    /// Of an open file, from its position on.
    pub fn of(file: &'a impl AsFd) -> Self {
        Self(UncachedEnd::of(&KernelCalls, file.as_fd()))
    }

    /// `read(2)`.
    ///
    /// # Errors
    ///
    /// Those of the call.
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize, Errno> {
        self.0.read(into)
    }

    /// `write(2)`.
    ///
    /// # Errors
    ///
    /// Those of the call, and those of writing to the disk.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        self.0.write(bytes)
    }

    /// Drops the remaining pages behind the position.
    ///
    /// # Errors
    ///
    /// Those of writing to the disk.
    pub fn finish(&mut self) -> Result<(), Errno> {
        self.0.finish()
    }
}

/// How the cache of a file is left as it was.
#[derive(Debug)]
enum BypassMethod {
    /// It is no regular file, or it has no position.
    AsAlways,
    /// The kernel drops the pages.
    ByFlag { is_appending: bool },
    /// We drop them.
    ByTrail(CacheTrail),
}

/// One end of a copy past the cache.
#[derive(Debug)]
struct UncachedEnd<'a, C> {
    calls: &'a C,
    fd: BorrowedFd<'a>,
    how: BypassMethod,
    writes: bool,
}

impl<'a, C: CopyCalls> UncachedEnd<'a, C> {
    fn of(calls: &'a C, fd: BorrowedFd<'a>) -> Self {
        // Some regular files have no position (trace_pipe, files of FUSE): nothing can be found behind it.
        let has_pages = |end: &CopyEnd| end.kind == DescriptorKind::Regular && position(fd).is_ok();
        let file = CopyEnd::of(fd).ok().filter(has_pages);
        let by_flag = |end: CopyEnd| BypassMethod::ByFlag { is_appending: end.append };
        Self { calls, fd, how: file.map_or(BypassMethod::AsAlways, by_flag), writes: false }
    }

    fn read(&mut self, into: &mut [u8]) -> Result<usize, Errno> {
        if self.is_by_flag(into.len())? {
            match self.calls.read_uncached(self.fd, into) {
                Err(errno) if is_refusal(errno) => {}
                done => return done,
            }
        }
        self.before_call()?;
        let read = self.calls.read(self.fd, into)?;
        if let BypassMethod::ByTrail(trail) = &mut self.how {
            trail.passed_by_reading(self.fd)?;
        }
        Ok(read)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        self.writes = true;
        if self.is_by_flag(bytes.len())? {
            match self.calls.write_uncached(self.fd, bytes) {
                Err(errno) if is_refusal(errno) => {}
                done => return done,
            }
        }
        self.before_call()?;
        let written = self.calls.write(self.fd, bytes)?;
        if let BypassMethod::ByTrail(trail) = &mut self.how {
            trail.passed_by_writing(self.calls, self.fd)?;
        }
        Ok(written)
    }

    /// Whether the kernel may drop the `len` bytes of this call: only whole pages. Otherwise a page would be
    /// dropped before the next call needs the rest of it.
    fn is_by_flag(&self, len: usize) -> Result<bool, Errno> {
        let BypassMethod::ByFlag { is_appending: false } = self.how else { return Ok(false) };
        let page = page_len();
        Ok((len as u64).is_multiple_of(page) && position(self.fd)?.is_multiple_of(page))
    }

    /// From here on, the pages that this file passes are dropped by us.
    fn before_call(&mut self) -> Result<(), Errno> {
        if let BypassMethod::ByFlag { is_appending } = self.how {
            self.how = BypassMethod::ByTrail(CacheTrail::begin(self.fd, is_appending)?);
        }
        if let BypassMethod::ByTrail(trail) = &mut self.how {
            trail.look_ahead(self.fd);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Errno> {
        match &mut self.how {
            BypassMethod::ByTrail(trail) => trail.finish(self.calls, self.fd, self.writes),
            BypassMethod::AsAlways | BypassMethod::ByFlag { .. } => Ok(()),
        }
    }
}

/// The flag, or the call, is not supported here. Any other error is reported by the call without the flag.
fn is_refusal(errno: Errno) -> bool {
    matches!(errno, Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::PERM)
}

/// The calls of a copy whose ends bypass the cache. It moves bytes only by `read` and `write`.
pub(super) struct UncachedCalls<'a, C> {
    calls: &'a C,
    ends: Vec<RefCell<UncachedEnd<'a, C>>>,
}

impl<'a, C: CopyCalls> UncachedCalls<'a, C> {
    pub(super) fn new(calls: &'a C, ends: impl IntoIterator<Item = BorrowedFd<'a>>) -> Self {
        let ends = ends.into_iter().map(|fd| RefCell::new(UncachedEnd::of(calls, fd)));
        Self { calls, ends: ends.collect() }
    }

    fn end(&self, fd: BorrowedFd<'_>) -> Option<&RefCell<UncachedEnd<'a, C>>> {
        self.ends.iter().find(|end| end.borrow().fd.as_raw_fd() == fd.as_raw_fd())
    }

    /// Drops the remainder after a copy that has moved `moved` bytes. Returns the error of each end that has
    /// one, with its place; the source is the first end.
    pub(super) fn finish(&self, moved: u64) -> Vec<(usize, CopyError)> {
        let finished = self.ends.iter().map(|end| end.borrow_mut().finish()).enumerate();
        let error = |(end, done): (usize, Result<(), Errno>)| {
            let (side, call) = if end == 0 {
                (CopySide::Source, "lseek")
            } else {
                (CopySide::Sink, "sync_file_range")
            };
            done.err().map(|errno| (end, CopyError { side, call, errno, moved }))
        };
        finished.filter_map(error).collect()
    }
}

impl<C: CopyCalls> CopyCalls for UncachedCalls<'_, C> {
    fn read(&self, from: BorrowedFd<'_>, into: &mut [u8]) -> Result<usize, Errno> {
        match self.end(from) {
            Some(end) => end.borrow_mut().read(into),
            None => self.calls.read(from, into),
        }
    }

    fn write(&self, to: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
        match self.end(to) {
            Some(end) => end.borrow_mut().write(bytes),
            None => self.calls.write(to, bytes),
        }
    }

    fn transfer(
        &self,
        _how: TransferCall,
        _from: BorrowedFd<'_>,
        _to: BorrowedFd<'_>,
        _most: usize,
    ) -> Result<usize, Errno> {
        Err(Errno::OPNOTSUPP)
    }

    fn pipe(&self) -> Result<(OwnedFd, OwnedFd), Errno> {
        self.calls.pipe()
    }

    fn grow(&self, pipe: BorrowedFd<'_>, size: usize) -> Result<usize, Errno> {
        self.calls.grow(pipe, size)
    }

    fn wait(&self, fd: BorrowedFd<'_>, ready: PollFlags) -> Result<(), Errno> {
        self.calls.wait(fd, ready)
    }

    fn can_wait(&self, fd: BorrowedFd<'_>) -> bool {
        self.calls.can_wait(fd)
    }

    fn has_own_ranges(&self, _file: BorrowedFd<'_>) -> bool {
        false
    }
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests {
    use super::*;
    use crate::copy::{CopyJob, CopyOutcome, CopyRoute, FanOut};
    use crate::probe::cached;
    use rustix::fs::Advice;
    use std::fs::File;
    use std::io::{Read, Seek, Write};
    use std::ops::Range;
    use std::os::unix::fs::FileExt;

    const MIB: u64 = 1 << 20;
    const SIZE: u64 = 24 * MIB + 777;
    /// A part of the file that is cached before.
    const CACHED: Range<u64> = 9 * MIB..10 * MIB;

    /// A kernel or file system that does not drop pages by itself.
    struct Refusing {
        /// Its errno in that case.
        flag: Errno,
        /// The error of its disk.
        disk: Option<Errno>,
    }

    impl CopyCalls for Refusing {
        fn read(&self, from: BorrowedFd<'_>, into: &mut [u8]) -> Result<usize, Errno> {
            KernelCalls.read(from, into)
        }
        fn write(&self, to: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
            KernelCalls.write(to, bytes)
        }
        fn read_uncached(&self, _: BorrowedFd<'_>, _: &mut [u8]) -> Result<usize, Errno> {
            Err(self.flag)
        }
        fn write_uncached(&self, _: BorrowedFd<'_>, _: &[u8]) -> Result<usize, Errno> {
            Err(self.flag)
        }
        fn transfer(
            &self,
            how: TransferCall,
            from: BorrowedFd<'_>,
            to: BorrowedFd<'_>,
            most: usize,
        ) -> Result<usize, Errno> {
            KernelCalls.transfer(how, from, to, most)
        }
        fn pipe(&self) -> Result<(OwnedFd, OwnedFd), Errno> {
            KernelCalls.pipe()
        }
        fn grow(&self, pipe: BorrowedFd<'_>, size: usize) -> Result<usize, Errno> {
            KernelCalls.grow(pipe, size)
        }
        fn wait(&self, fd: BorrowedFd<'_>, ready: PollFlags) -> Result<(), Errno> {
            KernelCalls.wait(fd, ready)
        }
        fn has_own_ranges(&self, file: BorrowedFd<'_>) -> bool {
            KernelCalls.has_own_ranges(file)
        }
        fn write_out(
            &self,
            to: BorrowedFd<'_>,
            part: Range<u64>,
            waits: bool,
        ) -> Result<(), Errno> {
            self.disk.map_or_else(|| KernelCalls.write_out(to, part, waits), Err)
        }
    }

    fn content() -> Vec<u8> {
        (0..SIZE).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 13) as u8).collect()
    }

    /// Which pages of a file are cached.
    fn pages(file: &File) -> Vec<bool> {
        cached::cached_pages(file.as_fd(), 0..file.metadata().unwrap().len()).unwrap()
    }

    fn count(file: &File) -> usize {
        pages(file).into_iter().filter(|page| *page).count()
    }

    /// A file of which only [`CACHED`] is cached. `None`, with a `SKIP` line, on a file system in memory.
    fn source(content: &[u8]) -> Option<File> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        file.sync_all().unwrap();
        let advise = |advice| rustix::fs::fadvise(&file, 0, None, advice).unwrap();
        advise(Advice::DontNeed);
        if count(&file) > 0 {
            println!("SKIP past the cache: this file system keeps its pages");
            return None;
        }
        advise(Advice::Random);
        let mut part = vec![0; (CACHED.end - CACHED.start) as usize];
        file.read_exact_at(&mut part, CACHED.start).unwrap();
        advise(Advice::Normal);
        file.rewind().unwrap();
        Some(file)
    }

    /// Whether a written file leaves the cache, now or when it is on the disk.
    fn leaves(file: &File, most: usize) -> bool {
        file.sync_all().unwrap();
        (0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            count(file) <= most
        })
    }

    fn whole(mut file: &File) -> Vec<u8> {
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    }

    /// Checks that a copy between files leaves the source's pages as they were, drops those of the sink, and
    /// does not change those of another file.
    fn check(calls: &impl CopyCalls, most: usize) {
        let content = content();
        let Some(from) = source(&content) else { return };
        let before = pages(&from);
        assert_eq!(before.iter().filter(|page| **page).count() as u64, MIB / page_len());
        let mut other = tempfile::tempfile().unwrap();
        other.write_all(&content[..MIB as usize]).unwrap();
        let others = pages(&other);
        let to = tempfile::tempfile().unwrap();
        let copied = CopyJob::new(&from, &to).past_cache().live().run_on(calls, |_| {}).unwrap();
        assert_eq!(copied, CopyOutcome { bytes: SIZE, way: CopyRoute::ReadWrite });
        let after = pages(&from);
        let kept = before.iter().zip(&after).all(|(before, after)| !before || *after);
        assert!(kept, "pages that were cached before are gone");
        let new = before.iter().zip(&after).filter(|(before, after)| !**before && **after);
        assert!(new.count() <= most);
        assert_eq!(pages(&other), others);
        assert!(leaves(&to, most), "{} pages stay", count(&to));
        assert!(whole(&to) == content);
    }

    #[test]
    fn the_kernel_drops_what_a_copy_has_passed_or_we_do() {
        // The last page of each file may stay, because it is not a whole one.
        check(&KernelCalls, 2);
        for errno in [Errno::OPNOTSUPP, Errno::NOSYS, Errno::INVAL, Errno::PERM] {
            check(&Refusing { flag: errno, disk: None }, 2);
        }
    }

    #[test]
    fn pieces_of_any_size_leave_nothing_and_what_is_written_over_stays() {
        let content = content();
        let mut to = tempfile::tempfile().unwrap();
        to.write_all(&content[..MIB as usize]).unwrap();
        to.sync_all().unwrap();
        to.rewind().unwrap();
        let mut sink = Uncached::of(&to);
        for piece in content.chunks(100_001) {
            let mut rest = piece;
            while !rest.is_empty() {
                rest = &rest[sink.write(rest).unwrap()..];
            }
        }
        sink.finish().unwrap();
        let there = (MIB / page_len()) as usize;
        assert!(pages(&to)[..there].iter().all(|page| *page), "what was cached is gone");
        if source(&content).is_some() {
            assert!(leaves(&to, there + 1), "{} pages stay", count(&to));
        }
        assert!(whole(&to) == content);
    }

    #[test]
    fn a_fan_out_leaves_nothing_of_its_files() {
        let content = content();
        let Some(from) = source(&content) else { return };
        let sinks = [tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap()];
        assert_eq!(FanOut::new(&from, &sinks).past_cache().run(|_, _| false), Ok(SIZE));
        let stay = count(&from) as u64;
        assert!(stay <= MIB / page_len() + 2, "{stay} pages stay");
        for sink in &sinks {
            assert!(leaves(sink, 2), "{} pages stay", count(sink));
            assert!(whole(sink) == content);
        }
    }

    #[test]
    fn what_is_no_file_is_read_and_written_as_always() {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut sink = Uncached::of(&writer);
        assert_eq!(sink.write(b"abc"), Ok(3));
        let mut bytes = [0; 5];
        let mut source = Uncached::of(&reader);
        assert_eq!((source.read(&mut bytes), &bytes[..3]), (Ok(3), &b"abc"[..]));
        assert_eq!((sink.finish(), source.finish()), (Ok(()), Ok(())));
    }

    #[test]
    fn what_has_no_position_is_read_and_written_as_always() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let is_plain = |flags| {
            let fd = rustix::fs::open(file.path(), flags, rustix::fs::Mode::empty()).unwrap();
            matches!(UncachedEnd::of(&KernelCalls, fd.as_fd()).how, BypassMethod::AsAlways)
        };
        // lseek(2) refuses such a descriptor of a regular file.
        assert!(is_plain(rustix::fs::OFlags::PATH));
        assert!(!is_plain(rustix::fs::OFlags::RDONLY));
    }

    #[test]
    fn a_disk_that_fails_at_the_end_is_an_error_of_each_sink() {
        let calls = Refusing { flag: Errno::OPNOTSUPP, disk: Some(Errno::IO) };
        let mut from = tempfile::tempfile().unwrap();
        from.write_all(&[1; 10_000]).unwrap();
        let unwritable = File::open("/proc/self/exe").unwrap();
        let sinks = [unwritable, tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap()];
        let run = |goes_on: bool| {
            from.try_clone().unwrap().rewind().unwrap();
            // Moves the position, so that it is not at the beginning.
            (&sinks[0]).seek(std::io::SeekFrom::Start(100)).unwrap();
            let mut failed = Vec::new();
            let result = FanOut::new(&from, &sinks).past_cache().run_on(&calls, |sink, error| {
                failed.push((sink, error.side, error.errno));
                goes_on || sink == 0
            });
            (result.map_err(|error| (error.side, error.errno, error.moved)), failed)
        };
        let all = [Errno::BADF, Errno::IO, Errno::IO].map(|errno| (CopySide::Sink, errno));
        let all = [0, 1, 2].map(|sink| (sink, all[sink].0, all[sink].1));
        assert_eq!(run(true), (Ok(10_000), all.to_vec()));
        assert_eq!(run(false), (Err((CopySide::Sink, Errno::IO, 10_000)), all[..2].to_vec()));
        from.rewind().unwrap();
        let error = CopyJob::new(&from, &sinks[1]).past_cache().run_on(&calls, |_| {}).unwrap_err();
        assert_eq!((error.side, error.errno, error.moved), (CopySide::Sink, Errno::IO, 10_000));
    }
}
