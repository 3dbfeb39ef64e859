//! Drops the page cache of a file, or refills it so that the file is in huge folios.
//!
//! A folio is as large as the write or read-ahead that created it: programs that were installed by small
//! writes, or started from disk, are in small folios. If the file is dropped (`POSIX_FADV_DONTNEED`) and read
//! back through a mapping with `MADV_HUGEPAGE`, it gets huge folios wherever its file system supports them.
//! Every later congruent mapping, of any process, then maps each folio by one entry, without a setting or
//! privilege (mm/filemap.c, `do_sync_mmap_readahead`, `filemap_map_pmd`). What counts is what a fresh plain
//! mapping shows afterwards.
//!
//! Data that was written but is not on disk is not dropped: the advice would make the kernel write it.
//! `cachestat` shows this for files that this account owns or may write. Any other file, and one on an
//! overlay, must be unchanged (content, name, rights) for longer than the kernel keeps changes in memory
//! (`vm.dirty_expire_centisecs` and two rounds of `vm.dirty_writeback_centisecs`). Mapped pages cannot be
//! dropped, so a mapped file stays unchanged and its holders are named.
//!
//! The calls are tried before anything is dropped: if an older kernel or a filter refuses the advice, the
//! cache stays as it was.
//!
//! Not seen: mappings of processes that this account may not examine; they show in what stays. The state does
//! not last: demand for memory, or a scheme against idle memory, takes unmapped cache. Cost: the file is read
//! once, some milliseconds per 10 MiB from a fast disk.

mod collapse;

pub use collapse::collapses_files;

use pagewise_kernel::cached_file::PageCacheFile;
use pagewise_kernel::file_system::FileSystem;
use pagewise_kernel::file_view::is_answered_for;
use pagewise_kernel::proc::{pressure, read_number};
use pagewise_kernel::{SysError, clock, limits, page_cache, page_size};
use pagewise_model::cache::{self, CacheCounts, CacheOutcome, CacheSlot, CacheState, FileHolders};
use pagewise_model::{Bytes, Fact, Nanos};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Attempts to read a file back before the result counts: fragmented memory may have been compacted
/// meanwhile.
const ATTEMPTS: usize = 2;

/// If a process waited for memory in this share of the last ten seconds, no memory is taken.
const PRESSED_PERCENT: f64 = 10.0;

/// A file, and what was found about it before any change.
#[derive(Debug)]
pub struct RecacheSubject {
    file: PageCacheFile,
    file_system: FileSystem,
    before: CacheState,
}

impl RecacheSubject {
    /// Examines a file.
    ///
    /// # Errors
    /// When it cannot be examined.
    pub fn look(file: PageCacheFile) -> Result<Self, SysError> {
        let (file_system, before) = (file.file_system()?, file.look()?);
        Ok(Self { file, file_system, before })
    }

    /// What was found, without any change.
    #[must_use]
    pub fn shown(self) -> cache::FileCacheReport {
        self.report(RecacheEnding::default())
    }

    /// Drops what can be dropped.
    ///
    /// # Errors
    /// When the file can no longer be examined, or does not accept advice.
    pub fn evict(self) -> Result<cache::FileCacheReport, SysError> {
        if is_gone(&self.before) {
            return Ok(self.report(RecacheEnding::with_outcome(CacheOutcome::Already)));
        }
        if let Some(refused) = self.may_be_dropped() {
            return Ok(self.report(RecacheEnding::with_outcome(refused)));
        }
        let start = clock::now();
        let after = self.drop_all()?;
        let took = Nanos(clock::now().0.saturating_sub(start.0));
        if is_gone(&after) {
            return Ok(
                self.report(RecacheEnding::with_outcome(CacheOutcome::Done).after(after, took))
            );
        }
        let holders = self.file.holders()?;
        let why = why_pages_stay(&after, &holders);
        let ending = RecacheEnding::with_outcome(CacheOutcome::Short { why }).after(after, took);
        Ok(self.report(RecacheEnding { holders: Some(holders), ..ending }))
    }

    /// Refills the cache with huge folios. Calls `begin` when there is no obstacle, before anything is
    /// dropped.
    ///
    /// # Errors
    /// When the file can no longer be examined or read.
    pub fn make_huge(self, begin: impl FnOnce(&Path)) -> Result<cache::FileCacheReport, SysError> {
        let asked = self.whole_slots();
        if asked > Bytes(0) && self.huge_before() >= asked {
            return Ok(self.report(RecacheEnding::with_outcome(CacheOutcome::Already)));
        }
        let unfit = self.cannot_be_huge(asked).or_else(|| self.may_be_dropped());
        let no_memory = || no_room(self.file.size()).or_else(is_pressed);
        if let Some(refused) = unfit.or_else(no_memory) {
            return Ok(self.report(RecacheEnding::with_outcome(refused)));
        }
        let holders = self.file.holders()?;
        if !holders.seen.is_empty() {
            let refused = held(&holders);
            return Ok(self.report(RecacheEnding {
                holders: Some(holders),
                ..RecacheEnding::with_outcome(refused)
            }));
        }
        self.try_filling()?;
        begin(self.file.path());
        let start = clock::now();
        let after = self.recache(asked)?;
        let took = Nanos(clock::now().0.saturating_sub(start.0));
        let outcome = outcome(self.huge_before(), huge(&after), asked, &self.file_system.name);
        let ending = RecacheEnding::with_outcome(outcome).after(after, took);
        Ok(self.report(RecacheEnding { holders: Some(holders), ..ending }))
    }

    /// The file, and why it cannot be dropped and read back in huge folios by the slot while process `pid` maps
    /// it.
    ///
    /// # Errors
    /// When the processes cannot be listed.
    pub(crate) fn obstacle_beside(
        self,
        pid: i32,
    ) -> Result<(PageCacheFile, Option<String>), SysError> {
        let mut holders = self.file.holders()?;
        holders.seen.retain(|holder| holder.pid != pid);
        let unfit = self.cannot_be_huge(self.whole_slots()).or_else(|| self.may_be_dropped());
        let refused = unfit.or_else(|| (!holders.seen.is_empty()).then(|| held(&holders)));
        let why = refused.and_then(|refused| match refused {
            CacheOutcome::Refused { why, .. } => Some(why),
            _ => None,
        });
        Ok((self.file, why))
    }

    /// Drops the file from the cache. Repeats that if the kernel itself held pages.
    fn drop_all(&self) -> Result<CacheState, SysError> {
        let drop = || {
            self.file.drop_cached()?;
            self.file.look()
        };
        page_cache::drop_until_gone(drop, is_gone)
    }

    fn recache(&self, asked: Bytes) -> Result<CacheState, SysError> {
        for _ in 1..ATTEMPTS {
            let state = self.read_back()?;
            if huge(&state) >= asked {
                return Ok(state);
            }
        }
        self.read_back()
    }

    /// Tries the calls that will bring it back, through a separate view: entered pages cannot be dropped.
    fn try_filling(&self) -> Result<(), SysError> {
        let view = self.file.view()?;
        view.ask_for_huge()?;
        view.enter(0, 1)
    }

    /// Drops the file from the cache and reads all of it, in huge folios if available.
    fn read_back(&self) -> Result<CacheState, SysError> {
        let view = self.file.view()?;
        view.ask_for_huge()?;
        self.file.drop_cached()?;
        view.enter(0, view.len())?;
        drop(view);
        self.file.look()
    }

    /// Bytes of the file that can be on huge pages: all slots except a shorter last one.
    fn whole_slots(&self) -> Bytes {
        let slot = page_size::huge().bytes();
        Bytes(self.file.size().0 / slot * slot)
    }

    fn huge_before(&self) -> Bytes {
        huge(&self.before)
    }

    /// Why no slot of it can be huge.
    fn cannot_be_huge(&self, whole: Bytes) -> Option<CacheOutcome> {
        let slot = page_size::huge();
        if whole == Bytes(0) {
            return Some(refuse(
                format!("it is {}, less than one huge page of {slot}", self.file.size()),
                "nothing to do: small files gain nothing".to_owned(),
            ));
        }
        self.file_system.has_no_large_folios.then(|| {
            refuse(
                format!("{} caches files only in base pages", self.file_system.name),
                "put the file on ext4, xfs or tmpfs".to_owned(),
            )
        })
    }

    /// Why nothing of it may be dropped.
    fn may_be_dropped(&self) -> Option<CacheOutcome> {
        if self.file_system.is_in_memory {
            let name = &self.file_system.name;
            return Some(refuse(
                format!("it lives only in memory ({name}): its cache is the file itself"),
                "name a file on a disk: only those can be dropped and read back".to_owned(),
            ));
        }
        let unwritten = match &self.before.counts {
            Fact::Known(counts) => unwritten(counts),
            Fact::Missing(_) => return self.is_too_young(),
        };
        (unwritten > Bytes(0)).then(|| {
            refuse(
                format!("{unwritten} of it are not on disk yet"),
                "wait, or write it to disk first: sync FILE".to_owned(),
            )
        })
    }

    /// Why the file may not be on disk yet, if the kernel does not report it.
    fn is_too_young(&self) -> Option<CacheOutcome> {
        let (who, help) = match is_answered_for(self.file.file()) {
            true => ("is not known for this file", "wait a minute"),
            false => ("is shown only to its owner", "run as its owner or root, or wait a minute"),
        };
        // Copies and unpacked archives keep the times of their originals: the later time shows when it was
        // written.
        let found = self.file.file().metadata().ok();
        let modified = found.as_ref().and_then(|found| found.modified().ok());
        let changed = found.and_then(|found| {
            Some(SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(found.ctime()).ok()?))
        });
        let age = modified.max(changed).and_then(|at| SystemTime::now().duration_since(at).ok());
        let why = match (age, longest_unwritten()) {
            (Some(age), Some(longest)) if age > longest => return None,
            (Some(_), Some(longest)) => {
                format!("it was written less than {} ago", Nanos::from(longest))
            }
            (None, _) => "its modification time is in the future".to_owned(),
            (_, None) => "this kernel keeps written pages in memory without limit".to_owned(),
        };
        let why = format!("{why}; whether its data is on disk {who}");
        Some(refuse(why, help.to_owned()))
    }

    fn report(self, ending: RecacheEnding) -> cache::FileCacheReport {
        cache::FileCacheReport {
            path: self.file.path().to_string_lossy().into_owned(),
            size_bytes: self.file.size(),
            file_system: self.file_system.name,
            before: self.before,
            after: ending.after,
            holders: ending.holders,
            outcome: ending.outcome,
            took_ns: ending.took,
        }
    }
}

/// Data added to what was found.
#[derive(Debug, Default)]
struct RecacheEnding {
    outcome: Option<CacheOutcome>,
    after: Option<CacheState>,
    holders: Option<FileHolders>,
    took: Option<Nanos>,
}

impl RecacheEnding {
    fn with_outcome(outcome: CacheOutcome) -> Self {
        Self { outcome: Some(outcome), ..Self::default() }
    }

    fn after(self, state: CacheState, took: Nanos) -> Self {
        Self { after: Some(state), took: Some(took), ..self }
    }
}

const fn refuse(why: String, help: String) -> CacheOutcome {
    CacheOutcome::Refused { why, help }
}

/// How many bytes are huge; 0 if unknown.
fn huge(state: &CacheState) -> Bytes {
    state.huge_bytes.known().copied().unwrap_or_default()
}

/// How many bytes are not on disk.
const fn unwritten(counts: &CacheCounts) -> Bytes {
    Bytes(counts.dirty_bytes.0.saturating_add(counts.writeback_bytes.0))
}

/// Whether nothing is cached, as far as can be determined. Pages that are still being read, for example for a
/// killed process, can neither be dropped nor found by `mincore`. They appear a moment later, and `cachestat`
/// counts them.
fn is_gone(state: &CacheState) -> bool {
    let is_counted = state.counts.known().is_some_and(|counts| counts.cached_bytes > Bytes(0));
    let is_there = match state.cached_bytes {
        Fact::Known(cached) => cached > Bytes(0),
        Fact::Missing(_) => state.slots.0.iter().any(|slot| *slot != CacheSlot::Absent),
    };
    !is_counted && !is_there
}

/// How long the kernel keeps written pages in memory at most; `None` for ever.
fn longest_unwritten() -> Option<Duration> {
    let setting = |name: &str| {
        let value = read_number(format!("/proc/sys/vm/{name}")).ok()?;
        u64::try_from(value).ok().filter(|centiseconds| *centiseconds > 0)
    };
    let (expire, round) =
        (setting("dirty_expire_centisecs")?, setting("dirty_writeback_centisecs")?);
    Some(Duration::from_millis(expire.saturating_add(round.saturating_mul(2)).saturating_mul(10)))
}

/// Why this much memory must not be taken, according to host and cgroup.
pub(crate) fn no_room(size: Bytes) -> Option<CacheOutcome> {
    let limit = match limits::experiment_memory() {
        Ok(limit) => limit,
        Err(error) => {
            let help = "pagewise doctor shows what this account may see";
            return Some(refuse(format!("free memory is not known: {error}"), help.to_owned()));
        }
    };
    let why = limit.exceeded("it is", size)?;
    Some(refuse(why, "free memory first, or use smaller files".to_owned()))
}

/// Why no memory must be taken now, regardless of free memory: other processes wait for it. If the kernel
/// does not report that, it assumes they do not wait.
pub(crate) fn is_pressed() -> Option<CacheOutcome> {
    let pressure = pressure::read(pressure::PressureResource::Memory).ok()?;
    under_pressure(pressure.some.avg10_percent)
}

fn under_pressure(waited_percent: f64) -> Option<CacheOutcome> {
    (waited_percent >= PRESSED_PERCENT).then(|| {
        refuse(
            format!(
                "memory is short: in {waited_percent:.0}% of the last 10 s a process waited for it"
            ),
            "wait until other processes have the memory they need".to_owned(),
        )
    })
}

/// Other processes map it, so its pages cannot be dropped.
fn held(holders: &FileHolders) -> CacheOutcome {
    let all = holders.seen.len();
    let names: Vec<String> =
        holders.seen.iter().take(3).map(|h| format!("{} ({})", h.name, h.pid)).collect();
    let more =
        if all > names.len() { format!(" and {} more", all - names.len()) } else { String::new() };
    refuse(
        format!("it is mapped in its current folios by {}{more}", names.join(", ")),
        "stop them first, and start them again afterwards".to_owned(),
    )
}

/// Why pages are still there.
fn why_pages_stay(after: &CacheState, holders: &FileHolders) -> String {
    if !holders.seen.is_empty() {
        return "processes map it, and mapped pages cannot be dropped".to_owned();
    }
    if after.counts.known().is_some_and(|counts| unwritten(counts) > Bytes(0)) {
        return "a process writes it, and pages that are not on disk cannot be dropped".to_owned();
    }
    match holders.hidden_processes {
        0 => "no process maps it, but the kernel uses the pages (a swap file, a loop device, a transfer)"
            .to_owned(),
        hidden => {
            format!("the pages are in use; {hidden} processes of other accounts could not be examined")
        }
    }
}

/// Meaning of a change of the huge part.
fn outcome(before: Bytes, after: Bytes, asked: Bytes, file_system: &str) -> CacheOutcome {
    if after >= asked {
        CacheOutcome::Done
    } else if after < before {
        let why = "no huge page was free while it was read back".to_owned();
        CacheOutcome::Worse { why }
    } else if after == Bytes(0) {
        let why = format!(
            "{file_system} gave no huge folio: it does not support them, or no huge page was free"
        );
        CacheOutcome::Short { why }
    } else {
        let why = "some of it was in use, or no huge page was free for it".to_owned();
        CacheOutcome::Short { why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::cache::FileHolder;

    #[test]
    fn what_counts_is_what_is_huge_afterwards() {
        let of = |before, after| outcome(Bytes(before), Bytes(after), Bytes(8), "ext4");
        assert_eq!(of(0, 8), CacheOutcome::Done);
        assert!(matches!(of(4, 2), CacheOutcome::Worse { .. }));
        assert!(
            matches!(of(0, 0), CacheOutcome::Short { why } if why.starts_with("ext4 gave no huge"))
        );
        assert!(matches!(of(2, 2), CacheOutcome::Short { .. }));
    }

    #[test]
    fn holders_are_named_and_counted() {
        let holder = |pid| FileHolder { pid, name: "sleep".into(), mapped_bytes: Bytes(1) };
        let holders = FileHolders { seen: (1..=5).map(holder).collect(), hidden_processes: 0 };
        let CacheOutcome::Refused { why, .. } = held(&holders) else { panic!("not refused") };
        assert!(why.ends_with("sleep (1), sleep (2), sleep (3) and 2 more"), "{why}");
    }

    #[test]
    fn why_pages_stay_is_reported_by_what_is_known() {
        let mut state = CacheState {
            cached_bytes: Fact::Known(Bytes(1)),
            huge_bytes: Fact::Known(Bytes(0)),
            slots: cache::SlotMap(vec![CacheSlot::Part]),
            counts: Fact::missing("x"),
            folios: Fact::missing("x"),
        };
        let mut holders = FileHolders::default();
        assert!(!is_gone(&state));
        assert!(why_pages_stay(&state, &holders).contains("no process maps it"));
        holders.hidden_processes = 2;
        assert!(why_pages_stay(&state, &holders).contains("2 processes of other accounts"));
        let counts = CacheCounts { dirty_bytes: Bytes(1), ..Default::default() };
        state.counts = Fact::Known(counts);
        assert!(why_pages_stay(&state, &holders).contains("not on disk"));
        state.cached_bytes = Fact::Known(Bytes(0));
        state.slots = cache::SlotMap(vec![CacheSlot::Absent]);
        assert!(is_gone(&state));
        let counts = CacheCounts { cached_bytes: Bytes(1), ..Default::default() };
        state.counts = Fact::Known(counts);
        assert!(!is_gone(&state), "it is being read");
    }

    #[test]
    fn where_others_wait_for_memory_none_is_taken() {
        assert_eq!(under_pressure(9.9), None);
        let Some(CacheOutcome::Refused { why, .. }) = under_pressure(25.0) else {
            panic!("not refused")
        };
        assert!(why.contains("in 25% of the last 10 s"), "{why}");
    }

    #[test]
    fn the_kernel_writes_within_a_time() {
        if let Some(longest) = longest_unwritten() {
            assert!(longest >= Duration::from_millis(1));
        }
        assert!(no_room(Bytes(u64::MAX)).is_some() && no_room(Bytes(1)).is_none());
    }
}
