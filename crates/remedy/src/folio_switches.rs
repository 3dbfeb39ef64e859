//! Switches which memory may use folios for the duration of one run: advised heaps get 64 KiB, and nothing
//! gets 2 MiB.
//!
//! These are settings of the whole machine (`hugepages-64kB/enabled` and that of the largest size, Linux
//! 6.8): other programs that fault meanwhile get no 2 MiB pages either. The holder of the settings lock
//! ([`PoolPermit`]) changes them, and they are restored on every way out. A record beside the lock contains the
//! previous values, so root's next start of pagewise restores what a killed process left ([`repair`]). A
//! value that another process has changed since stays.
//!
//! Not seen: another process that writes the same value. Overhead: two small writes.

use crate::reservation::{PoolPermit, boot};
use pagewise_kernel::dirs;
use pagewise_kernel::lock::SettingsLock;
use pagewise_kernel::trusted_path::MissingNamePolicy;
use pagewise_kernel::{state_file, thp};
use pagewise_model::PageSize;
use pagewise_model::machine::SmallFolios;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of the record in the machine's directory.
const NAME: &str = "folios-changed.json";
const LIMITS: state_file::StateFileLimits =
    state_file::StateFileLimits { most_age: Duration::MAX, most_bytes: 2000 };
/// The words that the kernel uses there. Nothing else is ever restored.
const WORDS: [&str; 4] = ["always", "inherit", "madvise", "never"];
/// Wanted words for the small folios and the largest ones.
const WANTED: [&str; 2] = ["madvise", "never"];

/// Whether advised heaps are on small folios, given these words and the one for all sizes.
#[must_use]
pub(crate) fn is_as_wanted(folios: &SmallFolios, for_all: Option<&str>) -> bool {
    let resolved = |word: &str| match word {
        "inherit" => for_all.unwrap_or("never").to_owned(),
        own => own.to_owned(),
    };
    [&folios.small, &folios.largest].map(|word| resolved(word)) == WANTED
}

/// One setting, its previous word and its new word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FolioSwitch {
    page_bytes: PageSize,
    before: String,
    since: String,
}

/// The changed settings, with their previous words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FolioSwitchRecord {
    boot_id: String,
    changed: Vec<FolioSwitch>,
}

impl FolioSwitchRecord {
    /// Restores the settings that have not been changed since.
    fn undo(&self, root: &Path) -> Result<(), String> {
        for one in &self.changed {
            let is_known = WORDS.contains(&one.before.as_str())
                && [SmallFolios::SIZE, pagewise_kernel::page_size::huge()]
                    .contains(&one.page_bytes);
            let now = thp::word(root, one.page_bytes).map_err(|error| error.to_string())?;
            if is_known && now == one.since {
                thp::set_word(root, one.page_bytes, &one.before).map_err(|e| e.to_string())?;
            }
        }
        Ok(())
    }
}

/// Changed settings, restored when this is dropped. Holds the lock that long.
#[derive(Debug)]
pub struct FolioSwitches {
    _permit: PoolPermit,
    record: PathBuf,
    root: PathBuf,
    changed: Option<FolioSwitchRecord>,
}

impl FolioSwitches {
    /// Changes the settings below `root`.
    fn set(permit: &PoolPermit, root: &Path) -> Result<Self, String> {
        let failed = |error: pagewise_kernel::SysError| error.to_string();
        let sizes = [SmallFolios::SIZE, pagewise_kernel::page_size::huge()];
        let mut changed = Vec::new();
        for (page_bytes, since) in sizes.into_iter().zip(WANTED) {
            let before = thp::word(root, page_bytes).map_err(failed)?;
            changed.push(FolioSwitch { page_bytes, before, since: since.to_owned() });
        }
        let record = FolioSwitchRecord { boot_id: boot().map_err(failed)?, changed };
        let path = permit.beside(NAME);
        let text = serde_json::to_vec(&record).map_err(|error| error.to_string())?;
        state_file::write(&path, &text).map_err(failed)?;
        // From here on, any failure undoes the change.
        let switched = Self {
            _permit: permit.clone(),
            record: path,
            root: root.to_owned(),
            changed: Some(record.clone()),
        };
        for one in &record.changed {
            thp::set_word(root, one.page_bytes, &one.since).map_err(failed)?;
        }
        Ok(switched)
    }

    /// Restores the settings.
    ///
    /// # Errors
    /// A sentence. The next start tries again.
    pub fn put_back(mut self) -> Result<(), String> {
        self.changed.take().map_or(Ok(()), |record| settle(&self.record, &record, &self.root))
    }
}

impl Drop for FolioSwitches {
    fn drop(&mut self) {
        if let Some(record) = self.changed.take() {
            // No caller is left to read a message. If this fails, the record stays for the next start.
            let _settled = settle(&self.record, &record, &self.root);
        }
    }
}

/// Undoes the changes in a record and removes the record.
fn settle(path: &Path, record: &FolioSwitchRecord, root: &Path) -> Result<(), String> {
    // Settings of an earlier boot no longer exist.
    if boot().is_ok_and(|now| now == record.boot_id) {
        record.undo(root)?;
    }
    std::fs::remove_file(path)
        .map_err(|error| format!("cannot remove `{}`: {error}", path.display()))
}

/// Ensures that advised heaps are on these folios. Changes the settings if that is necessary and `permit`
/// allows it.
///
/// # Errors
/// A sentence that says what is in the way, and what would help.
pub fn ensure(permit: Option<&PoolPermit>) -> Result<Option<FolioSwitches>, String> {
    let now = thp::small_folios().map_err(|error| in_the_way(&error))?;
    let for_all = thp::enabled().ok();
    match permit {
        _ if is_as_wanted(&now, for_all.as_deref()) => Ok(None),
        Some(permit) => FolioSwitches::set(permit, thp::root()).map(Some),
        None => Err(unlock(&now)),
    }
}

/// Message for a kernel without such folios.
pub(crate) fn absent() -> String {
    format!("this kernel has no folios of {} for heaps (Linux 6.8 and later)", SmallFolios::SIZE)
}

fn in_the_way(error: &pagewise_kernel::SysError) -> String {
    if error.is_gone() { absent() } else { error.to_string() }
}

/// Advice for the current words.
pub(crate) fn unlock(now: &SmallFolios) -> String {
    format!(
        "{} folios are set to `{}` and the largest to `{}`; run as root with --system to set \
         `{}` and `{}` for the run",
        SmallFolios::SIZE,
        now.small,
        now.largest,
        WANTED[0],
        WANTED[1]
    )
}

/// For root: restores what a killed start of pagewise had changed. Returns a message if there was anything.
#[must_use]
pub fn repair() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let directory = dirs::machine_dir(MissingNamePolicy::Ends).ok().flatten()?;
    repair_in(&directory, thp::root())
}

fn repair_in(directory: &Path, root: &Path) -> Option<String> {
    let path = directory.join(NAME);
    path.symlink_metadata().ok()?;
    // The owner is alive, or another process repairs it.
    let _lock = SettingsLock::acquire_in(directory).ok()?;
    let kept = state_file::read(&path, LIMITS)?;
    let done = serde_json::from_slice(&kept.text)
        .map_err(|error| error.to_string())
        .and_then(|record: FolioSwitchRecord| settle(&path, &record, root));
    Some(match done {
        Ok(()) => "restored the huge page settings that a killed run had changed".to_owned(),
        Err(why) => format!(
            "cannot restore the huge page settings that a killed run changed ({why}); \
             the old values are in `{}`",
            path.display()
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folios(small: &str, largest: &str) -> SmallFolios {
        SmallFolios { small: small.to_owned(), largest: largest.to_owned(), may_change: false }
    }

    /// Settings of a machine, in a directory.
    fn machine(small: &str, largest: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let sizes = [SmallFolios::SIZE, pagewise_kernel::page_size::huge()];
        for (size, word) in sizes.into_iter().zip([small, largest]) {
            std::fs::create_dir(root.path().join(format!("hugepages-{}kB", size.bytes() >> 10)))
                .unwrap();
            thp::set_word(root.path(), size, word).unwrap();
        }
        root
    }

    fn words(root: &Path) -> [String; 2] {
        [SmallFolios::SIZE, pagewise_kernel::page_size::huge()]
            .map(|size| thp::word(root, size).unwrap())
    }

    #[test]
    fn advice_brings_small_folios_where_the_largest_are_off() {
        assert!(is_as_wanted(&folios("madvise", "never"), Some("madvise")));
        assert!(is_as_wanted(&folios("inherit", "never"), Some("madvise")));
        assert!(!is_as_wanted(&folios("inherit", "never"), Some("always")));
        assert!(!is_as_wanted(&folios("never", "inherit"), Some("madvise")));
        assert!(!is_as_wanted(&folios("madvise", "inherit"), Some("madvise")));
    }

    #[test]
    fn what_was_changed_is_put_back_unless_somebody_has_changed_it_since() {
        let (directory, root) = (tempfile::tempdir().unwrap(), machine("never", "inherit"));
        let permit = PoolPermit::obtain_in(directory.path(), PageSize::PMD_2M).unwrap();
        let switched = FolioSwitches::set(&permit, root.path()).unwrap();
        assert_eq!(words(root.path()), ["madvise", "never"]);
        assert!(directory.path().join(NAME).exists());
        switched.put_back().unwrap();
        assert_eq!(words(root.path()), ["never", "inherit"]);
        let switched = FolioSwitches::set(&permit, root.path()).unwrap();
        thp::set_word(root.path(), SmallFolios::SIZE, "always").unwrap();
        drop(switched);
        assert_eq!(words(root.path()), ["always", "inherit"]);
        assert!(!directory.path().join(NAME).exists());
    }

    #[test]
    fn what_a_kill_left_is_put_back_and_nothing_else_is_ever_written() {
        let (directory, root) = (tempfile::tempdir().unwrap(), machine("never", "inherit"));
        assert_eq!(repair_in(directory.path(), root.path()), None);
        let permit = PoolPermit::obtain_in(directory.path(), PageSize::PMD_2M).unwrap();
        let mut switched = FolioSwitches::set(&permit, root.path()).unwrap();
        let mut record = switched.changed.take().unwrap();
        drop((switched, permit));
        let reported = repair_in(directory.path(), root.path()).unwrap();
        assert!(reported.starts_with("restored"), "{reported}");
        assert_eq!(words(root.path()), ["never", "inherit"]);
        record.changed[0] = FolioSwitch {
            before: "odd".into(),
            since: "never".into(),
            ..record.changed[0].clone()
        };
        let text = serde_json::to_vec(&record).unwrap();
        state_file::write(&directory.path().join(NAME), &text).unwrap();
        repair_in(directory.path(), root.path()).unwrap();
        assert_eq!(words(root.path()), ["never", "inherit"]);
    }

    #[test]
    fn a_kernel_without_them_is_named_so() {
        let root = tempfile::tempdir().unwrap();
        let error = thp::word(root.path(), SmallFolios::SIZE).unwrap_err();
        assert_eq!(in_the_way(&error), absent());
    }

    #[test]
    fn a_kernel_without_them_is_an_error() {
        let (directory, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let permit = PoolPermit::obtain_in(directory.path(), PageSize::PMD_2M).unwrap();
        assert!(FolioSwitches::set(&permit, root.path()).unwrap_err().contains("hugepages-64kB"));
        assert!(!directory.path().join(NAME).exists());
    }
}
