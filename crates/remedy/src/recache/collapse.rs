//! Puts files on huge pages in the cache, on kernels that collapse text of files (READ_ONLY_THP_FOR_FS).
//! Nothing is dropped, so processes that map the file are no obstacle and get the huge pages too
//! (mm/khugepaged.c, `retract_page_tables`).
//!
//! Each whole slot is requested separately through an executable mapping. What counts is what a fresh plain
//! mapping shows afterwards. Not done: files that are open for writing, which such a kernel refuses. Cost: 1
//! ms per slot, and reading what is not cached.

use super::{RecacheEnding, RecacheSubject, huge, is_pressed, no_room, outcome};
use pagewise_kernel::cached_file::PageCacheFile;
use pagewise_kernel::{SysError, clock, page_size};
use pagewise_model::cache::{self, CacheOutcome};
use pagewise_model::{Bytes, Fact, Nanos};
use std::path::Path;

impl RecacheSubject {
    /// Collapses each whole slot. Calls `begin` when there is no obstacle.
    ///
    /// # Errors
    /// When the file can no longer be examined or mapped.
    pub fn collapse(self, begin: impl FnOnce(&Path)) -> Result<cache::FileCacheReport, SysError> {
        let asked = self.whole_slots();
        if asked > Bytes(0) && self.huge_before() >= asked {
            return Ok(self.report(RecacheEnding::with_outcome(CacheOutcome::Already)));
        }
        let no_memory = || no_room(self.file.size()).or_else(is_pressed);
        if let Some(refused) = self.cannot_be_huge(asked).or_else(no_memory) {
            return Ok(self.report(RecacheEnding::with_outcome(refused)));
        }
        begin(self.file.path());
        let start = clock::now();
        let refusals = collapse_slots(&self.file, asked)?;
        let after = self.file.look()?;
        let took = Nanos(clock::now().0.saturating_sub(start.0));
        let outcome = match (huge(&after) >= asked, refusals) {
            (false, Some(error)) => CacheOutcome::Short { why: error.to_string() },
            _ => outcome(self.huge_before(), huge(&after), asked, &self.file_system.name),
        };
        Ok(self.report(RecacheEnding::with_outcome(outcome).after(after, took)))
    }
}

/// Requests each slot. Returns the error of the last one that was refused.
fn collapse_slots(file: &PageCacheFile, whole: Bytes) -> Result<Option<SysError>, SysError> {
    let view = file.view()?;
    view.open_to_execution()?;
    let slot = usize::try_from(page_size::huge().bytes()).unwrap_or(usize::MAX);
    let ends = usize::try_from(whole.0).unwrap_or(usize::MAX);
    let mut refused = None;
    for offset in (0..ends).step_by(slot) {
        if let Err(error) = view.collapse(offset) {
            refused = Some(error);
        }
    }
    Ok(refused)
}

/// Whether this kernel collapses text of files on disk. Tried on a slot of the running program.
#[must_use]
pub fn collapses_files() -> Fact<bool> {
    let slot = page_size::huge();
    let tried = || -> Result<bool, SysError> {
        let own = PageCacheFile::open(Path::new("/proc/self/exe"))?;
        if own.size().0 < slot.bytes() {
            let small = std::io::Error::other("smaller than a huge page");
            return Err(SysError::new("open", "/proc/self/exe", small));
        }
        let view = own.view()?;
        view.open_to_execution()?;
        // Makes sure that the slot is present.
        view.enter(0, usize::try_from(slot.bytes()).unwrap_or(usize::MAX))?;
        match view.collapse(0) {
            Ok(()) => Ok(true),
            Err(error) if error.source.kind() == std::io::ErrorKind::InvalidInput => Ok(false),
            Err(error) => Err(error),
        }
    };
    tried().into()
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, memfd_create};
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    /// A file in memory, in small folios. Every kernel can collapse it.
    fn in_memory(size: Bytes) -> (File, PageCacheFile) {
        let mut file = File::from(memfd_create("collapse", MemfdFlags::CLOEXEC).unwrap());
        let page = vec![7; page_size::base().bytes() as usize];
        for _ in 0..size.0 / page.len() as u64 {
            file.write_all(&page).unwrap();
        }
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let opened = PageCacheFile::open(Path::new(&path)).unwrap();
        (file, opened)
    }

    #[test]
    fn a_file_lies_on_huge_pages_afterwards_though_it_is_mapped() {
        let size = Bytes(3 * page_size::huge().bytes());
        let (_file, opened) = in_memory(size);
        let holder = opened.view().unwrap();
        let subject = RecacheSubject::look(opened).unwrap();
        assert_eq!(subject.huge_before(), Bytes(0));
        let mut begun = false;
        let done = subject.collapse(|_| begun = true).unwrap();
        match done.outcome.clone() {
            Some(CacheOutcome::Done) => {}
            other => return println!("SKIP a_file_lies_on_huge_pages_afterwards: {other:?}"),
        }
        assert!(begun);
        assert_eq!(done.after.unwrap().huge_bytes, Fact::Known(size));
        holder.enter(0, holder.len()).unwrap();
        assert_eq!(holder.huge_bytes().unwrap(), size, "who mapped it before has them too");
    }

    #[test]
    fn less_than_a_slot_is_refused_before_anything_is_done() {
        let (_file, opened) = in_memory(Bytes(page_size::base().bytes()));
        let done = RecacheSubject::look(opened).unwrap().collapse(|_| panic!("begun")).unwrap();
        assert!(matches!(done.outcome, Some(CacheOutcome::Refused { .. })), "{done:?}");
    }

    #[test]
    fn whether_files_are_collapsed_is_found_by_trying() {
        match collapses_files() {
            Fact::Known(can) => assert_eq!(collapses_files(), Fact::Known(can)),
            Fact::Missing(why) => println!("SKIP whether_files_are_collapsed: {why}"),
        }
    }
}
