//! Changes the settings of hugetext for all programs of the machine, and restores them.
//!
//! Unlike other changes, these stay when pagewise ends: that is their purpose. A record in the machine's
//! directory contains the value of each setting from before the first change. Undoing restores it, unless
//! another process has set another value since; a record of an earlier boot is void. Only the two settings
//! are written, within their ranges, by the holder of the settings lock. khugepaged applies them gradually.
//!
//! Cleaning (dropping the page cache, splitting huge pages) cannot be undone and is not recorded.
//!
//! Not seen: another process that sets a value and then the recorded one again. Cost: some system calls.

use crate::recache;
use crate::reservation::boot;
use pagewise_kernel::hugetext::HugetextTree;
use pagewise_kernel::lock::SettingsLock;
use pagewise_kernel::proc::meminfo;
use pagewise_kernel::trusted_path::MissingNamePolicy;
use pagewise_kernel::{SysError, dirs, page_size, state_file};
use pagewise_model::text::HugeTotals;
use pagewise_model::text_system::{
    HugePageCleaner, HugetextChange, HugetextMode, HugetextSetting, HugetextState, TextSystem,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of the record in the machine's directory.
const NAME: &str = "hugetext-changed.json";
/// A record is void after its boot; its age does not matter.
const LIMITS: state_file::StateFileLimits =
    state_file::StateFileLimits { most_age: Duration::MAX, most_bytes: 2000 };

/// Value of a setting before its first change, and the last value that was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct KeptSetting {
    before: u64,
    set: u64,
}

/// Settings that were changed since a boot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct HugetextRecord {
    boot_id: String,
    settings: BTreeMap<HugetextSetting, KeptSetting>,
}

impl HugetextRecord {
    /// The record of this boot; empty if there is none.
    fn read(path: &Path, boot_id: String) -> Self {
        let text = state_file::read(path, LIMITS);
        let record = text.and_then(|kept| serde_json::from_slice::<Self>(&kept.text).ok());
        let of_this_boot = record.filter(|record| record.boot_id == boot_id);
        of_this_boot.unwrap_or(Self { boot_id, settings: BTreeMap::new() })
    }

    fn write(&self, path: &Path) -> Result<(), HugetextError> {
        if self.settings.is_empty() {
            return match std::fs::remove_file(path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    Err(SysError::new("unlink", path.display().to_string(), error).into())
                }
                _ => Ok(()),
            };
        }
        let text = serde_json::to_vec(self).map_err(|e| HugetextError::Record(e.to_string()))?;
        Ok(state_file::write(path, &text)?)
    }
}

/// Why a setting does not have the requested value.
#[derive(Debug, thiserror::Error)]
pub enum HugetextError {
    #[error(transparent)]
    Sys(#[from] SysError),
    /// No place for the record is available.
    #[error("{0}")]
    Record(String),
    /// The value is out of range.
    #[error("{file} takes 0 to {most}, not {asked}")]
    Range {
        file: &'static str,
        /// The largest value.
        most: u64,
        asked: u64,
    },
    /// The kernel accepted the value but shows another.
    #[error("{file} was set to {asked}, and the kernel says {now}")]
    NotTaken { file: &'static str, asked: u64, now: u64 },
}

/// The settings of a machine, with the record of what was changed.
#[derive(Debug)]
pub struct HugetextControl {
    tree: HugetextTree,
    record: PathBuf,
}

impl HugetextControl {
    /// The settings of this machine.
    ///
    /// # Errors
    /// When no place for the record is available.
    pub fn own() -> Result<Self, HugetextError> {
        let none = || HugetextError::Record("there is no /run to record the change in".to_owned());
        let directory = dirs::machine_dir(MissingNamePolicy::IsMade);
        let directory = directory.map_err(|error| HugetextError::Record(error.to_string()))?;
        Ok(Self { tree: HugetextTree::own(), record: directory.ok_or_else(none)?.join(NAME) })
    }

    /// Sets one of them and records its previous value.
    ///
    /// # Errors
    /// The obstacle. In that case nothing was changed, or the record contains the change.
    pub fn set(
        &self,
        _lock: &SettingsLock,
        setting: HugetextSetting,
        value: u64,
    ) -> Result<HugetextChange, HugetextError> {
        self.change(setting, value)
    }

    fn change(
        &self,
        setting: HugetextSetting,
        value: u64,
    ) -> Result<HugetextChange, HugetextError> {
        check(setting, value)?;
        let now = self.tree.get(setting)?;
        let mut record = HugetextRecord::read(&self.record, boot()?);
        // The value before the first change, unless another process has set a value since.
        let first = record.settings.get(&setting).filter(|kept| kept.set == now);
        let before = first.map_or(now, |kept| kept.before);
        let former = record.clone();
        record.settings.insert(setting, KeptSetting { before, set: value });
        record.write(&self.record)?;
        if let Err(error) = self.tree.set(setting, value) {
            // Nothing was changed, so the previous record is restored.
            former.write(&self.record)?;
            return Err(error.into());
        }
        if value == before {
            record.settings.remove(&setting);
            record.write(&self.record)?;
        }
        match self.tree.get(setting)? {
            after if after == value => Ok(HugetextChange { setting, before: now, after }),
            now => Err(HugetextError::NotTaken { file: setting.into_str(), asked: value, now }),
        }
    }

    /// Restores the changed settings. Also returns messages about changes made by other processes.
    ///
    /// # Errors
    /// The obstacle. The record still contains what must be restored.
    pub fn undo(
        &self,
        _lock: &SettingsLock,
    ) -> Result<(Vec<HugetextChange>, Vec<String>), HugetextError> {
        self.put_back()
    }

    fn put_back(&self) -> Result<(Vec<HugetextChange>, Vec<String>), HugetextError> {
        let mut record = HugetextRecord::read(&self.record, boot()?);
        let (mut changes, mut notes) = (Vec::new(), Vec::new());
        while let Some((setting, kept)) = record.settings.first_key_value().map(|(k, v)| (*k, *v)) {
            let now = self.tree.get(setting)?;
            if now == kept.set {
                self.tree.set(setting, kept.before)?;
                changes.push(HugetextChange {
                    setting,
                    before: now,
                    after: self.tree.get(setting)?,
                });
            } else {
                notes.push(format!(
                    "something else changed {} to {now}, so pagewise leaves it",
                    setting.into_str()
                ));
            }
            record.settings.remove(&setting);
            record.write(&self.record)?;
        }
        Ok((changes, notes))
    }

    /// The current settings; `None` if the kernel has no hugetext.
    #[must_use]
    pub fn now(&self) -> Option<HugetextState> {
        self.tree.hugetext()
    }

    /// Removes huge pages on the whole machine. This cannot be undone.
    ///
    /// # Errors
    /// When this account lacks permission, or the file does not exist.
    pub fn clean(&self, _lock: &SettingsLock, cleaner: HugePageCleaner) -> Result<(), SysError> {
        self.tree.clean(cleaner)
    }
}

/// Checks that a value is in the range of a setting.
///
/// # Errors
/// When it is too large.
pub fn check(setting: HugetextSetting, value: u64) -> Result<(), HugetextError> {
    let most = match setting {
        HugetextSetting::Mode => HugetextMode::Both.number(),
        HugetextSetting::PadThreshold => page_size::huge().bytes() - 1,
    };
    if value > most {
        return Err(HugetextError::Range { file: setting.into_str(), most, asked: value });
    }
    Ok(())
}

/// The state of this machine, without changes. Whether text of files can be collapsed is tried on this
/// program's own text.
///
/// # Errors
/// When `/proc/meminfo` cannot be read.
pub fn look() -> Result<TextSystem, SysError> {
    let tree = HugetextTree::own();
    Ok(TextSystem {
        hugetext: tree.hugetext(),
        boot_mode: tree.boot_mode(),
        collapses_files: recache::collapses_files(),
        pace: tree.pace().into(),
        cleaners: tree.cleaners(),
        changes: Vec::new(),
        cleaned: None,
        files: Vec::new(),
        processes: Vec::new(),
        notes: Vec::new(),
        before: totals()?,
        after: None,
    })
}

/// Huge pages of this machine now.
///
/// # Errors
/// When `/proc/meminfo` cannot be read.
pub fn totals() -> Result<HugeTotals, SysError> {
    Ok(meminfo::read()?.huge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::{Bytes, Fact};
    use std::process::Command;

    /// The tree of a kernel with hugetext, in mode 1 with a threshold of one page, and the place of a record.
    fn recorded() -> (tempfile::TempDir, HugetextControl) {
        let dir = tempfile::tempdir().unwrap();
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hugetext");
        let copied =
            Command::new("cp").arg("-r").arg(fixture).arg(dir.path().join("root")).status();
        assert!(copied.unwrap().success());
        let tree = HugetextTree::at(&dir.path().join("root"));
        let settings = HugetextControl { tree, record: dir.path().join(NAME) };
        (dir, settings)
    }

    fn get(settings: &HugetextControl) -> (u64, u64) {
        let of = |setting| settings.tree.get(setting).unwrap();
        (of(HugetextSetting::Mode), of(HugetextSetting::PadThreshold))
    }

    #[test]
    fn every_mode_is_set_and_the_first_comes_back() {
        let (_dir, settings) = recorded();
        let (first, page) = get(&settings);
        for mode in [HugetextMode::Off, HugetextMode::Generated, HugetextMode::Both] {
            let before = get(&settings).0;
            let change = settings.change(HugetextSetting::Mode, mode.number()).unwrap();
            assert_eq!(
                change,
                HugetextChange { setting: HugetextSetting::Mode, before, after: mode.number() }
            );
            let found = settings.tree.hugetext().unwrap();
            assert_eq!(found.mode, Fact::Known(mode));
        }
        settings.change(HugetextSetting::PadThreshold, 0).unwrap();
        assert_eq!(get(&settings), (3, 0));
        let (changes, notes) = settings.put_back().unwrap();
        assert_eq!((changes.len(), notes.len()), (2, 0), "{notes:?}");
        assert_eq!((get(&settings), settings.record.exists()), ((first, page), false));
        assert_eq!(settings.put_back().unwrap(), (Vec::new(), Vec::new()));
    }

    #[test]
    fn what_is_set_as_it_was_leaves_no_record() {
        let (_dir, settings) = recorded();
        let first = get(&settings).0;
        settings.change(HugetextSetting::Mode, 2).unwrap();
        assert!(settings.record.exists());
        settings.change(HugetextSetting::Mode, first).unwrap();
        assert!(!settings.record.exists());
        settings.change(HugetextSetting::Mode, first).unwrap();
        assert!(!settings.record.exists());
    }

    #[test]
    fn what_another_has_set_is_left() {
        let (_dir, settings) = recorded();
        settings.change(HugetextSetting::Mode, 3).unwrap();
        settings.tree.set(HugetextSetting::Mode, 2).unwrap();
        let (changes, notes) = settings.put_back().unwrap();
        assert_eq!((changes.len(), get(&settings).0), (0, 2));
        assert!(notes[0].contains("to 2, so pagewise leaves it"), "{notes:?}");
        // After a new start, this is the value that comes back.
        settings.change(HugetextSetting::Mode, 0).unwrap();
        settings.tree.set(HugetextSetting::Mode, 2).unwrap();
        settings.change(HugetextSetting::Mode, 1).unwrap();
        settings.put_back().unwrap();
        assert_eq!(get(&settings).0, 2);
    }

    #[test]
    fn a_record_of_a_former_boot_is_void() {
        let (_dir, settings) = recorded();
        let first = get(&settings).0;
        let former = KeptSetting { before: 3, set: first };
        let settings_then = BTreeMap::from([(HugetextSetting::Mode, former)]);
        let record = HugetextRecord { boot_id: "another".into(), settings: settings_then };
        record.write(&settings.record).unwrap();
        assert_eq!(settings.put_back().unwrap(), (Vec::new(), Vec::new()));
        assert_eq!(get(&settings).0, first);
    }

    #[test]
    fn numbers_outside_of_the_range_are_refused_before_anything_is_written() {
        let (_dir, settings) = recorded();
        let huge = page_size::huge().bytes();
        for (setting, value) in [(HugetextSetting::Mode, 4), (HugetextSetting::PadThreshold, huge)]
        {
            let error = settings.change(setting, value).unwrap_err().to_string();
            assert!(
                error.starts_with(setting.into_str()) && error.contains("takes 0 to"),
                "{error}"
            );
        }
        assert!(!settings.record.exists());
        settings.change(HugetextSetting::PadThreshold, huge - 1).unwrap();
        let found = settings.tree.hugetext().unwrap();
        assert_eq!(found.pad_threshold_bytes, Fact::Known(Bytes(huge - 1)));
    }

    #[test]
    fn a_kernel_without_the_setting_keeps_no_record() {
        let dir = tempfile::tempdir().unwrap();
        let settings =
            HugetextControl { tree: HugetextTree::at(dir.path()), record: dir.path().join(NAME) };
        let error = settings.change(HugetextSetting::Mode, 1).unwrap_err();
        assert!(matches!(error, HugetextError::Sys(error) if error.is_gone()));
        assert!(!settings.record.exists());
    }

    #[test]
    fn what_cleans_is_written_to_its_own_file_alone() {
        let (dir, settings) = recorded();
        let before = get(&settings);
        let read = |cleaner: HugePageCleaner| {
            std::fs::read_to_string(dir.path().join("root").join(&cleaner.path()[1..])).unwrap()
        };
        settings.tree.clean(HugePageCleaner::Caches).unwrap();
        assert_eq!(
            (read(HugePageCleaner::Caches).as_str(), read(HugePageCleaner::Split).as_str()),
            ("3\n", "")
        );
        settings.tree.clean(HugePageCleaner::Split).unwrap();
        assert_eq!(read(HugePageCleaner::Split), "1\n");
        assert_eq!(get(&settings), before);
    }

    #[test]
    fn this_machine_is_looked_at_without_a_change() {
        let found = look().unwrap();
        assert!(!found.is_changed() && found.cleaners.len() == HugePageCleaner::ALL.len());
    }
}
