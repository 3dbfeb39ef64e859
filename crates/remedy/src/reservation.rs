//! Adds pages to the machine's pool of huge pages for the duration of one run or session.
//!
//! This is a setting of the whole machine (`nr_hugepages`). Only the holder of the settings lock
//! ([`SettingsLock`]) who may write it changes it. At least a quarter of the memory always stays available,
//! and the pages are given back on every way out. Before the first page is requested, a record beside the
//! lock stores the previous and the new size of the pool. The lock is held as long as the pages are, and ends
//! with its holder however that ends. So a process that has the lock and finds a record knows that its owner
//! has ended, in any namespace. Root's next start of pagewise gives the pages back ([`repair`]), and reports
//! it if it cannot. A pool with more pages than requested has been changed by another process since, and is
//! left alone. Pages in use stay with their users, and leave the pool when these end.
//!
//! The kernel may find fewer pages than requested if memory is fragmented. Then none are kept, and the
//! shortfall is reported with the state of the free memory.
//!
//! Not seen: another process that changes the pool to a size between the two in the record. Overhead: the
//! kernel clears nothing at this point; a page costs some microseconds, or the move of its content.

use pagewise_kernel::dirs::{self, DirError};
use pagewise_kernel::lock::{LockError, SettingsLock};
use pagewise_kernel::proc::{buddyinfo, pagetypeinfo, read_text};
use pagewise_kernel::trusted_path::MissingNamePolicy;
use pagewise_kernel::{SysError, hugetlb, page_size, state_file};
use pagewise_model::plan::PoolNeed;
use pagewise_model::pool::HugePool;
use pagewise_model::{Fact, PageSize};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Name of the record in the machine's directory.
const NAME: &str = "pool-changed.json";
/// A record is void after its boot; its age does not matter.
const LIMITS: state_file::StateFileLimits =
    state_file::StateFileLimits { most_age: Duration::MAX, most_bytes: 2000 };

/// Identifier of the current boot.
pub(crate) fn boot() -> Result<String, SysError> {
    read_text("/proc/sys/kernel/random/boot_id")
}

/// The changed setting, with its previous value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ReservationRecord {
    boot_id: String,
    page_bytes: PageSize,
    before_pages: u64,
    most_pages: u64,
}

impl ReservationRecord {
    /// `None` if there is no record.
    fn read(path: &Path) -> Result<Option<Self>, String> {
        let read =
            state_file::read(path, LIMITS).and_then(|kept| serde_json::from_slice(&kept.text).ok());
        if read.is_none() && path.symlink_metadata().is_ok() {
            return Err(format!(
                "cannot read the record `{}` of reserved huge pages: set vm.nr_hugepages to the wanted number, and remove the record",
                path.display()
            ));
        }
        Ok(read)
    }

    fn write(&self, path: &Path) -> Result<(), String> {
        let text = serde_json::to_vec(self).map_err(|error| error.to_string())?;
        state_file::write(path, &text).map_err(|error| error.to_string())
    }

    /// The number of pages to give back from a pool that has `now` pages.
    fn added(&self, now: u64) -> Result<u64, String> {
        let Self { before_pages, most_pages, .. } = self;
        if now > *most_pages || before_pages > most_pages {
            return Err(format!(
                "something else changed the pool to {now} huge pages, so pagewise leaves it"
            ));
        }
        Ok(now.saturating_sub(*before_pages))
    }

    /// Gives the added pages back. Returns how many.
    fn undo(&self) -> Result<u64, String> {
        let now = hugetlb::pool(self.page_bytes).map_err(|error| error.to_string())?.pages;
        let added = self.added(now)?;
        if added > 0 {
            hugetlb::resize(self.page_bytes, self.before_pages).map_err(|e| e.to_string())?;
        }
        Ok(added)
    }
}

/// Permission to change the pool of this machine, exclusive while it is held.
#[derive(Debug, Clone)]
pub struct PoolPermit {
    record: PathBuf,
    page: PageSize,
    _lock: Arc<SettingsLock>,
}

impl PoolPermit {
    /// For an account that may write the setting. First gives back what a killed process left.
    ///
    /// # Errors
    /// A sentence.
    pub fn obtain() -> Result<Self, String> {
        let page = hugetlb::usual().map_err(|error| error.to_string())?;
        let control = hugetlb::control(page);
        rustix::fs::access(&control, rustix::fs::Access::WRITE_OK).map_err(|error| {
            SysError::new("access", control, error).to_string() + ": only root can change the pool"
        })?;
        let directory =
            dirs::machine_dir(MissingNamePolicy::IsMade).map_err(|error| error.to_string())?;
        Self::obtain_in(&directory.ok_or("there is no /run to record the change in")?, page)
    }

    /// Path of another record in the same directory.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.record.with_file_name(name)
    }

    pub(crate) fn obtain_in(directory: &Path, page: PageSize) -> Result<Self, String> {
        let lock = SettingsLock::acquire_in(directory).map_err(|error| error.to_string())?;
        let record = directory.join(NAME);
        if let Some(left) = ReservationRecord::read(&record)? {
            settle(&record, &left)?;
        }
        Ok(Self { record, page, _lock: Arc::new(lock) })
    }

    /// Adds pages to the pool until the result is dropped.
    ///
    /// # Errors
    /// A sentence. Then the pool is unchanged.
    pub fn add(&self, pages: u64) -> Result<PoolReservation, String> {
        let pool = hugetlb::pool(self.page).map_err(|error| error.to_string())?;
        if pages > pool.addable_pages {
            return Err(format!(
                "reserving {} more would leave less than a quarter of the memory available (at most {})",
                pool.size(pages),
                pool.size(pool.addable_pages)
            ));
        }
        let record = ReservationRecord {
            boot_id: boot().map_err(|error| error.to_string())?,
            page_bytes: self.page,
            before_pages: pool.pages,
            most_pages: pool.pages.saturating_add(pages),
        };
        record.write(&self.record)?;
        // From here on, any failure undoes the change.
        let reservation = PoolReservation { permit: self.clone(), record: Some(record) };
        hugetlb::resize(self.page, pool.pages.saturating_add(pages)).map_err(|e| e.to_string())?;
        let now = hugetlb::pool(self.page).map_err(|error| error.to_string())?;
        let got = now.pages.saturating_sub(pool.pages);
        if got >= pages {
            return Ok(reservation);
        }
        Err(format!(
            "{got} of {pages} pages of {} could be reserved: {}",
            self.page,
            pieces(self.page)
        ))
    }
}

/// Describes the fragmentation of the free memory.
fn pieces(page: PageSize) -> String {
    let base = page_size::base();
    let free = buddyinfo::read().map(|info| (info.free_for(page, base), info.free_for(base, base)));
    let blocks = pagetypeinfo::read();
    let mut said = Vec::new();
    if let Ok((whole, all)) = free {
        said.push(format!("{whole} of {all} free lie in blocks of {page} or more"));
    }
    if let Ok(blocks) = blocks {
        let all = blocks.movable.saturating_add(blocks.other);
        said.push(format!("{} of {all} blocks of memory cannot be moved", blocks.other));
    }
    said.push(
        "hugepages=N on the kernel's command line reserves them before memory fragments".into(),
    );
    said.join("; ")
}

/// Added pages, given back when this is dropped. Holds the lock that long.
#[derive(Debug)]
pub struct PoolReservation {
    permit: PoolPermit,
    record: Option<ReservationRecord>,
}

impl PoolReservation {
    /// Gives the pages back.
    ///
    /// # Errors
    /// A sentence. The next start tries again.
    pub fn give_back(mut self) -> Result<(), String> {
        self.record
            .take()
            .map_or(Ok(()), |record| settle(&self.permit.record, &record).map(|_pages| ()))
    }
}

impl Drop for PoolReservation {
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            // No caller is left to read a message. If this fails, the record stays for the next start.
            let _settled = settle(&self.permit.record, &record);
        }
    }
}

/// Undoes the change in a record and removes the record. Returns how many pages were given back.
fn settle(path: &Path, record: &ReservationRecord) -> Result<u64, String> {
    let is_own = |now: String| now == record.boot_id;
    // Settings of an earlier boot no longer exist.
    let undone = if boot().is_ok_and(is_own) { record.undo() } else { Ok(0) };
    let is_foreign = || {
        let now = hugetlb::pool(record.page_bytes);
        now.is_ok_and(|pool| record.added(pool.pages).is_err())
    };
    if undone.is_ok() || is_foreign() {
        std::fs::remove_file(path)
            .map_err(|error| format!("cannot remove `{}`: {error}", path.display()))?;
    }
    undone
}

/// For root: gives back what a killed start of pagewise had added to the pool. Returns a message if there was
/// anything, or if it cannot be given back.
#[must_use]
pub fn repair() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    match dirs::machine_dir(MissingNamePolicy::Ends) {
        Ok(directory) => repair_in(&directory?),
        // Root of a user namespace: the directory belongs to another user there.
        Err(DirError::Unsafe { why: dirs::DirObjection::Foreign(_), .. }) => None,
        Err(error) => {
            Some(format!("cannot find out whether a killed run has reserved huge pages: {error}"))
        }
    }
}

fn repair_in(directory: &Path) -> Option<String> {
    let path = directory.join(NAME);
    path.symlink_metadata().ok()?;
    let impossible = |why: String| {
        Some(format!("cannot give back the huge pages that a killed run reserved: {why}"))
    };
    let _lock = match SettingsLock::acquire_in(directory) {
        // The owner is alive, or another process repairs it.
        Err(LockError::Changing(_)) => return None,
        Err(error) => return impossible(error.to_string()),
        Ok(lock) => lock,
    };
    let record = match ReservationRecord::read(&path) {
        Ok(record) => record?,
        Err(why) => return Some(why),
    };
    match settle(&path, &record) {
        Ok(0) => None,
        Ok(pages) => Some(format!(
            "gave back {pages} huge pages of {}, reserved by a killed run",
            record.page_bytes
        )),
        Err(why) => impossible(format!(
            "{why}; the old size was {} pages (vm.nr_hugepages)",
            record.before_pages
        )),
    }
}

/// The pool for the evidence of remedies, with the pages that `permit` could add.
#[must_use]
pub fn facts(permit: Option<&PoolPermit>) -> Fact<HugePool> {
    let pool: Fact<HugePool> = hugetlb::usual().and_then(hugetlb::pool).into();
    pool.map(|pool| match permit {
        Some(_) => pool,
        None => HugePool { addable_pages: 0, ..pool },
    })
}

/// Ensures that the pool has the pages that a start needs. Adds missing pages if `permit` allows it and none
/// have been added yet.
///
/// # Errors
/// A sentence that says what is missing, and what would help.
pub fn ensure(
    need: PoolNeed,
    permit: Option<&PoolPermit>,
    held: &mut Option<PoolReservation>,
) -> Result<(), String> {
    let page = hugetlb::usual().map_err(|error| error.to_string())?;
    if page != need.page_bytes {
        return Err(format!(
            "the default huge page size is {page} here, and this remedy needs {}",
            need.page_bytes
        ));
    }
    let pool = hugetlb::pool(page).map_err(|error| error.to_string())?;
    let missing = need.pages().saturating_sub(pool.available_pages());
    match permit.filter(|_| held.is_none()) {
        _ if missing == 0 => Ok(()),
        Some(permit) => {
            *held = Some(permit.add(missing)?);
            Ok(())
        }
        None => Err(format!(
            "the pool of huge pages has {} of {} available; use --system as root to reserve them (or \
             sysctl vm.nr_hugepages={})",
            pool.available(),
            need.bytes,
            pool.pages.saturating_add(missing)
        )),
    }
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests {
    use super::*;
    use pagewise_model::Bytes;
    use std::sync::{Mutex, PoisonError};

    fn record(before_pages: u64, most_pages: u64) -> ReservationRecord {
        let (boot_id, page_bytes) = (boot().unwrap(), hugetlb::usual().unwrap());
        ReservationRecord { boot_id, page_bytes, before_pages, most_pages }
    }

    fn now() -> u64 {
        hugetlb::pool(hugetlb::usual().unwrap()).unwrap().pages
    }

    #[test]
    fn only_what_was_added_is_given_back() {
        let added = |now| record(3, 10).added(now);
        assert_eq!([added(3), added(2), added(7), added(10)], [Ok(0), Ok(0), Ok(4), Ok(7)]);
        assert!(added(11).unwrap_err().contains("something else changed the pool"));
        assert!(record(10, 3).added(1).is_err(), "no range at all");
    }

    /// Held by tests that change the machine's pool, or that need it unchanged.
    static POOL: Mutex<()> = Mutex::new(());

    #[test]
    fn what_was_left_is_settled_and_what_cannot_be_is_reported() {
        let _pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        let same = record(now(), now());
        assert_eq!(repair_in(dir.path()), None);
        assert_eq!(dir.path().read_dir().unwrap().count(), 0, "nothing is made for nothing");
        same.write(&path).unwrap();
        assert_eq!(ReservationRecord::read(&path), Ok(Some(same.clone())));
        assert_eq!(repair_in(dir.path()), None, "nothing had been added");
        assert!(!path.exists());
        ReservationRecord { before_pages: 9, most_pages: 8, ..same.clone() }.write(&path).unwrap();
        let reported = repair_in(dir.path()).unwrap();
        assert!(reported.contains("so pagewise leaves it") && !path.exists(), "{reported}");
        ReservationRecord { boot_id: "another".into(), most_pages: u64::MAX, ..same }
            .write(&path)
            .unwrap();
        assert_eq!(repair_in(dir.path()), None);
        assert!(!path.exists(), "its boot is over");
        std::fs::write(&path, "half of a rec").unwrap();
        let reported = repair_in(dir.path()).unwrap();
        assert!(reported.contains("cannot read the record") && path.exists(), "{reported}");
        assert!(PoolPermit::obtain_in(dir.path(), PageSize::PMD_2M).is_err());
    }

    #[test]
    fn what_is_missing_is_named_to_who_may_not_add_it() {
        let page_bytes = hugetlb::usual().unwrap();
        let more = PoolNeed { bytes: Bytes::gib(1 << 20), page_bytes };
        let why = ensure(more, None, &mut None).unwrap_err();
        assert!(why.contains("use --system as root"), "{why}");
        let odd = PoolNeed { page_bytes: PageSize::BASE_4K, ..more };
        assert!(
            ensure(odd, None, &mut None).unwrap_err().contains("the default huge page size is")
        );
        assert_eq!(facts(None).known().map(|pool| pool.addable_pages), Some(0));
    }

    #[test]
    fn pages_are_added_and_given_back() {
        let _pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        let permit = PoolPermit::obtain_in(dir.path(), hugetlb::usual().unwrap()).unwrap();
        let before = now();
        let too_many = permit.add(u64::MAX / 2).unwrap_err();
        assert!(too_many.contains("less than a quarter"), "{too_many}");
        let held = match permit.add(2) {
            Ok(held) => held,
            Err(why) => return println!("SKIP pages_are_added_and_given_back: {why}"),
        };
        assert_eq!((now(), path.exists()), (before + 2, true));
        held.give_back().unwrap();
        assert_eq!((now(), path.exists()), (before, false));
        // As after a kill: the pages and the record stay, the lock does not.
        let mut held = permit.add(2).unwrap();
        held.record.take().unwrap();
        drop((held, permit));
        let reported = repair_in(dir.path()).unwrap();
        assert!(reported.starts_with("gave back 2 huge pages"), "{reported}");
        assert_eq!((now(), path.exists()), (before, false));
        let permit = PoolPermit::obtain_in(dir.path(), hugetlb::usual().unwrap()).unwrap();
        // The first reservation is in the way of the second.
        let page_bytes = hugetlb::usual().unwrap();
        let available = hugetlb::pool(page_bytes).unwrap().available_pages();
        let need = PoolNeed { bytes: Bytes((available + 2) * page_bytes.bytes()), page_bytes };
        let mut held = None;
        ensure(need, Some(&permit), &mut held).unwrap();
        assert!(held.is_some() && ensure(need, None, &mut None).is_ok());
        drop(held);
        assert_eq!(now(), before);
    }
}
