//! Pages added to the machine's pool of huge pages for as long as one run or session lasts.
//!
//! A setting of the whole machine (`nr_hugepages`): it is changed by who holds the lock of experiments and may
//! write it, never so far that less than a quarter of the memory stays available, and given back on every way
//! out. Before the first page is asked for, a record says what the pool had, what it is to have, and who
//! asked. Where a kill left it, the next start of pagewise by that account gives the pages back ([`repair`]),
//! never while the owner lives. A pool that holds more than was asked for has been changed by somebody else
//! since and is left as it is. Pages in use stay with their users until these end, and leave the pool then.
//!
//! The kernel may find fewer pages than asked for: memory is in pieces. All or nothing is kept; what was
//! missing is told with the state of the free memory.
//!
//! Not seen: that another changes the pool to a number between the two of the record. Overhead: the kernel
//! clears nothing at this moment; a page costs some microseconds, or the moving of what lies in it.

use pagewise_kernel::lock::ExperimentLock;
use pagewise_kernel::proc::{buddyinfo, own_pid, pagetypeinfo, read_text, stat};
use pagewise_kernel::{SysError, dirs, hugetlb, kept, page_size};
use pagewise_model::plan::PoolNeed;
use pagewise_model::pool::HugePool;
use pagewise_model::{Fact, PageSize};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The record's name in the state directory.
const NAME: &str = "pool-changed.json";
/// A record ends with its boot; its age says nothing.
const LIMITS: kept::Limits = kept::Limits { most_age: Duration::MAX, most_bytes: 2000 };

/// Who changed a setting: a process of one boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Owner {
    boot_id: String,
    pid: i32,
    /// When it was started, in ticks since the boot.
    start_ticks: u64,
}

impl Owner {
    fn own() -> Result<Self, SysError> {
        let pid = own_pid();
        Ok(Self { boot_id: boot()?, pid, start_ticks: stat::read(pid)?.start_ticks })
    }

    /// It runs. One that has ended and that nobody has waited for does not.
    fn lives(&self) -> bool {
        stat::read(self.pid)
            .is_ok_and(|now| now.start_ticks == self.start_ticks && !"ZX".contains(now.state))
    }
}

/// The boot that this machine runs since.
pub(crate) fn boot() -> Result<String, SysError> {
    read_text("/proc/sys/kernel/random/boot_id")
}

/// What was changed, and how it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    owner: Owner,
    page_bytes: PageSize,
    before_pages: u64,
    most_pages: u64,
}

impl Record {
    fn read(path: &Path) -> Option<Self> {
        serde_json::from_slice(&kept::read(path, LIMITS)?.text).ok()
    }

    fn write(&self, path: &Path) -> Result<(), String> {
        let text = serde_json::to_vec(self).map_err(|error| error.to_string())?;
        kept::write(path, &text).map_err(|error| error.to_string())
    }

    /// Of a pool with `now` pages, those to give back.
    fn added(&self, now: u64) -> Result<u64, String> {
        let Self { before_pages, most_pages, .. } = self;
        if now > *most_pages || before_pages > most_pages {
            return Err(format!(
                "the pool of huge pages has {now} pages, which another has set since: it is left so"
            ));
        }
        Ok(now.saturating_sub(*before_pages))
    }

    /// Gives the added pages back: how many that were.
    fn undo(&self) -> Result<u64, String> {
        let now = hugetlb::pool(self.page_bytes).map_err(|error| error.to_string())?.pages;
        let added = self.added(now)?;
        if added > 0 {
            hugetlb::resize(self.page_bytes, self.before_pages).map_err(|e| e.to_string())?;
        }
        Ok(added)
    }
}

/// That the pool of this machine may be changed.
#[derive(Debug, Clone)]
pub struct Permit {
    record: PathBuf,
    page: PageSize,
}

impl Permit {
    /// For who holds the lock and may write the setting; what a kill has left is given back before.
    ///
    /// # Errors
    /// A sentence.
    pub fn obtain(_lock: &ExperimentLock) -> Result<Self, String> {
        let state = dirs::state_dir().map_err(|error| error.to_string())?;
        let page = hugetlb::usual().map_err(|error| error.to_string())?;
        Self { record: state.join(NAME), page }.checked()
    }

    fn checked(self) -> Result<Self, String> {
        if let Some(left) = Record::read(&self.record) {
            settle(&self.record, &left)?;
        }
        let control = hugetlb::control(self.page);
        rustix::fs::access(&control, rustix::fs::Access::WRITE_OK).map_err(|error| {
            SysError::new("access", control, error).to_string() + ": only root changes the pool"
        })?;
        Ok(self)
    }

    /// Adds pages to the pool until what is returned is dropped.
    ///
    /// # Errors
    /// A sentence; the pool is then as it was.
    pub fn add(&self, pages: u64) -> Result<Reservation, String> {
        let pool = hugetlb::pool(self.page).map_err(|error| error.to_string())?;
        if pages > pool.addable_pages {
            return Err(format!(
                "{} more in the pool of huge pages would leave less than a quarter of the memory \
                 available (at most {})",
                pool.size(pages),
                pool.size(pool.addable_pages)
            ));
        }
        let record = Record {
            owner: Owner::own().map_err(|error| error.to_string())?,
            page_bytes: self.page,
            before_pages: pool.pages,
            most_pages: pool.pages.saturating_add(pages),
        };
        record.write(&self.record)?;
        // From here on whatever happens is undone.
        let reservation = Reservation { path: self.record.clone(), record: Some(record) };
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

/// How the free memory lies.
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
        "hugepages=N on the kernel's command line takes them before memory is in pieces".into(),
    );
    said.join("; ")
}

/// Added pages, until this is dropped.
#[derive(Debug)]
pub struct Reservation {
    path: PathBuf,
    record: Option<Record>,
}

impl Reservation {
    /// Gives the pages back.
    ///
    /// # Errors
    /// A sentence; the next start tries again.
    pub fn give_back(mut self) -> Result<(), String> {
        self.record.take().map_or(Ok(()), |record| settle(&self.path, &record).map(|_pages| ()))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            // Nobody is left to be told; the record stays where this fails, for the next start.
            let _told_then = settle(&self.path, &record);
        }
    }
}

/// Undoes what a record says, and removes it: how many pages were given back.
fn settle(path: &Path, record: &Record) -> Result<u64, String> {
    let is_own = |now: String| now == record.owner.boot_id;
    // The settings of a former boot are gone with it.
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

/// Gives back what a start of pagewise had added to the pool that was killed before it could: what to tell
/// of it, if there was something.
#[must_use]
pub fn repair() -> Option<String> {
    repair_by(&dirs::found_state_dir().ok()??.join(NAME), ExperimentLock::acquire)
}

fn repair_by<L, E>(path: &Path, lock: impl FnOnce() -> Result<L, E>) -> Option<String> {
    let record = Record::read(path)?;
    if record.owner.lives() && boot().is_ok_and(|now| now == record.owner.boot_id) {
        return None;
    }
    // Who holds the lock repairs it.
    let _lock = lock().ok()?;
    match settle(path, &record) {
        Ok(0) => None,
        Ok(pages) => Some(format!(
            "{pages} huge pages of {} that a killed run had reserved are given back",
            record.page_bytes
        )),
        Err(why) => Some(why),
    }
}

/// The pool as remedies are to see it: with what may be added, by who may.
#[must_use]
pub fn facts(permit: Option<&Permit>) -> Fact<HugePool> {
    let pool: Fact<HugePool> = hugetlb::usual().and_then(hugetlb::pool).into();
    pool.map(|pool| match permit {
        Some(_) => pool,
        None => HugePool { addable_pages: 0, ..pool },
    })
}

/// Sees to it that the pool has what a start needs: what is missing is added by who may, unless something has been
/// added already.
///
/// # Errors
/// A sentence that says what is missing, and what would help.
pub fn ensure(
    need: PoolNeed,
    permit: Option<&Permit>,
    held: &mut Option<Reservation>,
) -> Result<(), String> {
    let page = hugetlb::usual().map_err(|error| error.to_string())?;
    if page != need.page_bytes {
        return Err(format!("the usual pages of the pool are of {page} here"));
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
            "the pool of huge pages has {} of {} available; --system reserves them, as root (or \
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

    fn record(before_pages: u64, most_pages: u64) -> Record {
        let owner = Owner::own().unwrap();
        Record { owner, page_bytes: hugetlb::usual().unwrap(), before_pages, most_pages }
    }

    fn now() -> u64 {
        hugetlb::pool(hugetlb::usual().unwrap()).unwrap().pages
    }

    /// A lock that nobody else wants.
    fn free() -> Result<(), ()> {
        Ok(())
    }

    #[test]
    fn only_what_was_added_is_given_back() {
        let added = |now| record(3, 10).added(now);
        assert_eq!([added(3), added(2), added(7), added(10)], [Ok(0), Ok(0), Ok(4), Ok(7)]);
        assert!(added(11).unwrap_err().contains("another has set since"));
        assert!(record(10, 3).added(1).is_err(), "no range at all");
    }

    #[test]
    fn an_owner_that_lives_is_not_repaired_behind_its_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        let same = record(now(), now());
        same.write(&path).unwrap();
        assert_eq!(Record::read(&path), Some(same.clone()));
        assert_eq!(repair_by(&path, free), None);
        assert!(path.exists(), "we live");
        let dead = Owner { start_ticks: same.owner.start_ticks + 1, ..same.owner.clone() };
        Record { owner: dead.clone(), ..same.clone() }.write(&path).unwrap();
        assert_eq!(repair_by(&path, || Err::<(), _>(())), None);
        assert!(path.exists(), "who holds the lock will do it");
        assert_eq!(repair_by(&path, free), None, "nothing had been added");
        assert!(!path.exists());
        let foreign =
            Record { owner: dead.clone(), before_pages: 9, most_pages: 8, ..same.clone() };
        foreign.write(&path).unwrap();
        assert!(repair_by(&path, free).is_some_and(|told| told.contains("it is left so")));
        let former = Owner { boot_id: "another".into(), ..dead };
        Record { owner: former, most_pages: u64::MAX, ..same }.write(&path).unwrap();
        assert_eq!(repair_by(&path, free), None);
        assert!(!path.exists(), "its boot is over");
    }

    #[test]
    fn what_is_missing_is_named_to_who_may_not_add_it() {
        let page_bytes = hugetlb::usual().unwrap();
        let more = PoolNeed { bytes: Bytes::gib(1 << 20), page_bytes };
        let why = ensure(more, None, &mut None).unwrap_err();
        assert!(why.contains("--system reserves them"), "{why}");
        let odd = PoolNeed { page_bytes: PageSize::BASE_4K, ..more };
        assert!(ensure(odd, None, &mut None).unwrap_err().contains("the usual pages"));
        assert_eq!(facts(None).known().map(|pool| pool.addable_pages), Some(0));
    }

    #[test]
    fn pages_are_added_and_given_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        let permit = Permit { record: path.clone(), page: hugetlb::usual().unwrap() };
        let permit = match permit.checked() {
            Ok(permit) => permit,
            Err(why) => return println!("SKIP pages_are_added_and_given_back: {why}"),
        };
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
        // As a kill leaves it: the pages and the record stay, the owner does not.
        let mut held = permit.add(2).unwrap();
        let mut left = held.record.take().unwrap();
        left.owner.start_ticks += 1;
        left.write(&path).unwrap();
        let told = repair_by(&path, free).unwrap();
        assert!(told.starts_with("2 huge pages"), "{told}");
        assert_eq!((now(), path.exists()), (before, false));
        // What is in the way of a second is the first.
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
