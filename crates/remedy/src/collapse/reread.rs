//! Puts the text of a file on huge pages while its process runs, on kernels that do not collapse files.
//!
//! The page cache cannot drop pages that are mapped, and a table of small pages keeps a huge one out. So the
//! process itself forgets a slot (an injected `MADV_DONTNEED`, which also frees the table from Linux 6.14 on,
//! CONFIG_PT_RECLAIM). While its running threads stand still, the slot is dropped from the page cache and read
//! back in one huge folio. The next touch maps that folio by one entry. File, addresses and symbols stay. If
//! no huge folio comes, the slot is on small pages as before.
//!
//! Right before the call, with the threads stopped, the slot must still be text of that file, not writable,
//! without a page that is no longer the file's (a breakpoint, a uprobe, a relocation). Refused: a file that
//! other processes map, because they keep its pages; one that is not on disk; file systems with base pages.
//!
//! Not prevented: a thread that wakes within these microseconds and maps something else there. A thread that
//! wakes while the slot is read may bring small pages in; then the slot is tried again. If the disk fails,
//! the text is lost as it would be after a reclaim. Cost: 1 to 3 ms per slot, plus reading 2 MiB.

use crate::recache::RecacheSubject;
use pagewise_kernel::cached_file::PageCacheFile;
use pagewise_kernel::pagemap::Pagemap;
use pagewise_kernel::proc::image::ImageIdentity;
use pagewise_kernel::proc::maps::{self, Mapping};
use pagewise_kernel::{SysError, page_size};
use pagewise_model::Nanos;
use pagewise_model::cache::CacheSlot;
use pagewise_tracee::inject::{CallInjector, HeldWork, InjectError, ProcessIdentity, ProcessOwner};
use pagewise_tracee::mapped_file;
use pagewise_tracee::ptrace::read_memory;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How often a slot is read again at most.
const REREADS: usize = 4;
/// Attempts on a slot, and the pause between them: a thread that waits may be at work a moment later.
const ATTEMPTS: usize = 20;
const PAUSE: Duration = Duration::from_millis(2);

/// A process whose text is read again.
pub(super) struct TextRereader {
    image: ImageIdentity,
    process: ProcessIdentity,
    injector: CallInjector,
    /// The longest time that a thread stood still.
    pub(super) longest_stop: Nanos,
}

/// A file that a process maps.
pub(super) struct RereadFile {
    file: Arc<PageCacheFile>,
    /// It has no other place (tmpfs).
    pub(super) is_in_memory: bool,
    /// Why nothing of it can be read again.
    obstacle: Option<String>,
}

impl TextRereader {
    /// For the process with this image.
    ///
    /// # Errors
    /// When it has ended.
    pub(super) fn of(image: &ImageIdentity) -> Result<Self, SysError> {
        let process = ProcessIdentity::find(image.pid())?;
        let injector = CallInjector::new(ProcessOwner::Other);
        Ok(Self { image: *image, process, injector, longest_stop: Nanos(0) })
    }

    /// The file whose text is at `slot`. `Err` says why it is not opened.
    pub(super) fn open(&self, slot: u64) -> Result<RereadFile, String> {
        let pid = self.image.pid();
        let mapping = text_at(pid, slot).ok_or("it was unmapped meanwhile")?;
        let opened = mapped_file::open(pid, &mapping)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()));
        let look = || -> Result<RereadFile, SysError> {
            let file = PageCacheFile::open(&path)?;
            let is_in_memory = file.file_system()?.is_in_memory;
            let (file, obstacle) = RecacheSubject::look(file)?.obstacle_beside(pid)?;
            Ok(RereadFile { file: Arc::new(file), is_in_memory, obstacle })
        };
        look().map_err(|error| error.to_string())
    }

    /// Puts the slot on a huge page. `is_huge` if the page cache holds it so and only the table is in the way.
    /// Returns why it is not there.
    ///
    /// # Errors
    /// When the process has ended.
    pub(super) fn reread(
        &mut self,
        file: &RereadFile,
        slot: u64,
        is_huge: bool,
    ) -> Result<Option<String>, SysError> {
        if let Some(why) = file.obstacle.as_ref().filter(|_| !is_huge) {
            return Ok(Some(why.clone()));
        }
        let pid = self.image.pid();
        let Some(mapping) = text_at(pid, slot) else {
            return Ok(Some("it was unmapped meanwhile".to_owned()));
        };
        let huge = page_size::huge().bytes();
        let (mut why, mut rereads) = (String::new(), 0);
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                std::thread::sleep(PAUSE);
            }
            let work = work(self.image, mapping.clone(), slot, file.file.clone(), is_huge);
            match self.injector.forget(self.process, &(slot..slot + huge), work) {
                Ok(done) => self.longest_stop = self.longest_stop.max(done.stop_ns),
                Err(error) if error.passes() && self.image.is_there() => {
                    why = error.to_string();
                    continue;
                }
                Err(InjectError::Sys(error)) if error.is_gone() => return Err(error),
                Err(error) => return Ok(Some(error.to_string())),
            }
            // Maps it as the next touch by the process would.
            let _gone = read_memory(pid, slot, &mut [0]);
            if is_mapped_huge(pid, slot)? {
                return Ok(None);
            }
            why = file.why_small(mapping.offset + (slot - mapping.start)).to_owned();
            rereads += 1;
            if rereads == REREADS {
                break;
            }
        }
        Ok(Some(why))
    }
}

impl RereadFile {
    /// Why the slot at this offset is on small pages in the process after it was read again.
    fn why_small(&self, offset: u64) -> &'static str {
        let slots = self.file.slots().ok();
        match slots.and_then(|slots| slots.at(offset, page_size::huge())) {
            Some(CacheSlot::Huge) => {
                "the process keeps its table of small pages (no CONFIG_PT_RECLAIM)"
            }
            _ => {
                "no huge folio came: none was free, a thread used the slot meanwhile, or the process maps it twice"
            }
        }
    }
}

/// Work around the call that forgets the slot.
fn work(
    image: ImageIdentity,
    mapping: Mapping,
    slot: u64,
    file: Arc<PageCacheFile>,
    is_huge: bool,
) -> HeldWork {
    let offset = mapping.offset + (slot - mapping.start);
    let part = offset..offset + page_size::huge().bytes();
    let may_call = move || {
        image.is_there()
            && text_at(image.pid(), slot).is_some_and(|now| is_same(&now, &mapping))
            && is_of_file(image.pid(), slot)
    };
    let then = move || {
        if !is_huge {
            // What comes is seen in the page table afterwards.
            let _not_huge = file.reread_huge(&part);
        }
    };
    HeldWork { may_call: Box::new(may_call), then: Box::new(then) }
}

/// The mapping of a file's text that holds the slot, if it is not writable.
fn text_at(pid: i32, slot: u64) -> Option<Mapping> {
    let holds =
        |m: &Mapping| m.start <= slot && m.end.saturating_sub(slot) >= page_size::huge().bytes();
    let all = maps::read(pid).ok()?;
    let found = all.into_iter().find(|mapping| mapping.contains(slot))?;
    (holds(&found) && found.is_file() && found.perms.exec && !found.perms.write).then_some(found)
}

fn is_same(now: &Mapping, before: &Mapping) -> bool {
    let key = |m: &Mapping| (m.device, m.inode, m.start.wrapping_sub(m.offset));
    key(now) == key(before)
}

/// Whether every page that the process has there is the file's.
fn is_of_file(pid: i32, slot: u64) -> bool {
    let count = page_size::huge().bytes() / page_size::base().bytes();
    let entries = Pagemap::open(pid).and_then(|map| map.read(slot, count as usize));
    entries.is_ok_and(|entries| {
        entries.iter().all(|entry| {
            !entry.is_swapped() && (!entry.is_present() || entry.is_of_file_or_shared())
        })
    })
}

/// Whether one entry maps the slot.
///
/// # Errors
/// When the process has ended.
pub(super) fn is_mapped_huge(pid: i32, slot: u64) -> Result<bool, SysError> {
    let found = Pagemap::open(pid)?.scan(slot, slot + page_size::huge().bytes())?;
    Ok(found.iter().any(|range| range.is_huge && range.start.0 == slot))
}
