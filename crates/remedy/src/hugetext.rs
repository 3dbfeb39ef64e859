//! The settings of hugetext, changed for all programs of the machine, and put back.
//!
//! What is set stays when pagewise ends: that is what was asked for. A record in the machine's directory
//! says, from before the first change on, what each setting was; undoing puts that back, unless
//! somebody else has set another value since, and a record of a former boot is void. Only the two settings
//! are written, in their ranges, by who holds the lock of such settings. khugepaged acts on them by and by.
//!
//! What is cleaned (page cache dropped, huge pages split) cannot be undone, and is in no record.
//!
//! Not seen: that another sets a value and then the recorded one again. Cost: some system calls.

use crate::recache;
use crate::reservation::boot;
use pagewise_kernel::hugetext::Tree;
use pagewise_kernel::lock::SettingsLock;
use pagewise_kernel::proc::meminfo;
use pagewise_kernel::trusted_path::Missing;
use pagewise_kernel::{SysError, dirs, page_size, state_file};
use pagewise_model::text::HugeTotals;
use pagewise_model::text_system::{Change, Cleaner, Hugetext, Mode, Setting, TextSystem};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The record's name in the machine's directory.
const NAME: &str = "hugetext-changed.json";
/// A record ends with its boot; its age says nothing.
const LIMITS: state_file::Limits = state_file::Limits { most_age: Duration::MAX, most_bytes: 2000 };

/// What a setting was before it was first changed, and what it was set to last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    before: u64,
    set: u64,
}

/// The settings that were changed since a boot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    boot_id: String,
    settings: BTreeMap<Setting, Kept>,
}

impl Record {
    /// That of this boot; an empty one where there is none.
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

/// Why a setting is not as it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum HugetextError {
    #[error(transparent)]
    Sys(#[from] SysError),
    /// There is no place for the record.
    #[error("{0}")]
    Record(String),
    /// Outside of its range.
    #[error("{file} takes 0 to {most}, not {asked}")]
    Range {
        file: &'static str,
        /// The largest value.
        most: u64,
        asked: u64,
    },
    /// The kernel took the value and shows another.
    #[error("{file} was set to {asked}, and the kernel says {now}")]
    NotTaken { file: &'static str, asked: u64, now: u64 },
}

/// The settings of a machine, with the record of what was changed.
#[derive(Debug)]
pub struct Settings {
    tree: Tree,
    record: PathBuf,
}

impl Settings {
    /// Those of this machine.
    ///
    /// # Errors
    /// Where there is no place for the record.
    pub fn own() -> Result<Self, HugetextError> {
        let none = || HugetextError::Record("there is no /run to record the change in".to_owned());
        let directory = dirs::machine_dir(Missing::IsMade);
        let directory = directory.map_err(|error| HugetextError::Record(error.to_string()))?;
        Ok(Self { tree: Tree::own(), record: directory.ok_or_else(none)?.join(NAME) })
    }

    /// Sets one of them, with its former value recorded.
    ///
    /// # Errors
    /// What stands in the way; then nothing was changed, or the record has it.
    pub fn set(
        &self,
        _lock: &SettingsLock,
        setting: Setting,
        value: u64,
    ) -> Result<Change, HugetextError> {
        self.change(setting, value)
    }

    fn change(&self, setting: Setting, value: u64) -> Result<Change, HugetextError> {
        check(setting, value)?;
        let now = self.tree.get(setting)?;
        let mut record = Record::read(&self.record, boot()?);
        // What was there before the first change, unless somebody else has set something since.
        let first = record.settings.get(&setting).filter(|kept| kept.set == now);
        let before = first.map_or(now, |kept| kept.before);
        let former = record.clone();
        record.settings.insert(setting, Kept { before, set: value });
        record.write(&self.record)?;
        if let Err(error) = self.tree.set(setting, value) {
            // Nothing was changed: what is to be put back is what it was.
            former.write(&self.record)?;
            return Err(error.into());
        }
        if value == before {
            record.settings.remove(&setting);
            record.write(&self.record)?;
        }
        match self.tree.get(setting)? {
            after if after == value => Ok(Change { setting, before: now, after }),
            now => Err(HugetextError::NotTaken { file: setting.into_str(), asked: value, now }),
        }
    }

    /// Puts back what was changed: the settings, and what is to be told of others.
    ///
    /// # Errors
    /// What stands in the way; the record has what is still to be put back.
    pub fn undo(&self, _lock: &SettingsLock) -> Result<(Vec<Change>, Vec<String>), HugetextError> {
        self.put_back()
    }

    fn put_back(&self) -> Result<(Vec<Change>, Vec<String>), HugetextError> {
        let mut record = Record::read(&self.record, boot()?);
        let (mut changes, mut notes) = (Vec::new(), Vec::new());
        while let Some((setting, kept)) = record.settings.first_key_value().map(|(k, v)| (*k, *v)) {
            let now = self.tree.get(setting)?;
            if now == kept.set {
                self.tree.set(setting, kept.before)?;
                changes.push(Change { setting, before: now, after: self.tree.get(setting)? });
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

    /// What they are now; none where the kernel has no hugetext.
    #[must_use]
    pub fn now(&self) -> Option<Hugetext> {
        self.tree.hugetext()
    }

    /// Removes huge pages of the whole machine, for good.
    ///
    /// # Errors
    /// When this account may not, or the file is not there.
    pub fn clean(&self, _lock: &SettingsLock, cleaner: Cleaner) -> Result<(), SysError> {
        self.tree.clean(cleaner)
    }
}

/// Whether a setting has such a value.
///
/// # Errors
/// Where it is larger than the largest.
pub fn check(setting: Setting, value: u64) -> Result<(), HugetextError> {
    let most = match setting {
        Setting::Mode => Mode::Both.number(),
        Setting::PadThreshold => page_size::huge().bytes() - 1,
    };
    if value > most {
        return Err(HugetextError::Range { file: setting.into_str(), most, asked: value });
    }
    Ok(())
}

/// What this machine has, with none of it changed. Whether text of files can be collapsed is tried on that of
/// this program.
///
/// # Errors
/// When `/proc/meminfo` cannot be read.
pub fn look() -> Result<TextSystem, SysError> {
    let tree = Tree::own();
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

    /// The tree of a kernel with hugetext, in mode 1 with a threshold of a page, and the place of a record.
    fn recorded() -> (tempfile::TempDir, Settings) {
        let dir = tempfile::tempdir().unwrap();
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hugetext");
        let copied =
            Command::new("cp").arg("-r").arg(fixture).arg(dir.path().join("root")).status();
        assert!(copied.unwrap().success());
        let tree = Tree::at(&dir.path().join("root"));
        let settings = Settings { tree, record: dir.path().join(NAME) };
        (dir, settings)
    }

    fn get(settings: &Settings) -> (u64, u64) {
        let of = |setting| settings.tree.get(setting).unwrap();
        (of(Setting::Mode), of(Setting::PadThreshold))
    }

    #[test]
    fn every_mode_is_set_and_the_first_comes_back() {
        let (_dir, settings) = recorded();
        let (first, page) = get(&settings);
        for mode in [Mode::Off, Mode::Generated, Mode::Both] {
            let before = get(&settings).0;
            let change = settings.change(Setting::Mode, mode.number()).unwrap();
            assert_eq!(change, Change { setting: Setting::Mode, before, after: mode.number() });
            let found = settings.tree.hugetext().unwrap();
            assert_eq!(found.mode, Fact::Known(mode));
        }
        settings.change(Setting::PadThreshold, 0).unwrap();
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
        settings.change(Setting::Mode, 2).unwrap();
        assert!(settings.record.exists());
        settings.change(Setting::Mode, first).unwrap();
        assert!(!settings.record.exists());
        settings.change(Setting::Mode, first).unwrap();
        assert!(!settings.record.exists());
    }

    #[test]
    fn what_another_has_set_is_left() {
        let (_dir, settings) = recorded();
        settings.change(Setting::Mode, 3).unwrap();
        settings.tree.set(Setting::Mode, 2).unwrap();
        let (changes, notes) = settings.put_back().unwrap();
        assert_eq!((changes.len(), get(&settings).0), (0, 2));
        assert!(notes[0].contains("to 2, so pagewise leaves it"), "{notes:?}");
        // Begun again, that is what comes back.
        settings.change(Setting::Mode, 0).unwrap();
        settings.tree.set(Setting::Mode, 2).unwrap();
        settings.change(Setting::Mode, 1).unwrap();
        settings.put_back().unwrap();
        assert_eq!(get(&settings).0, 2);
    }

    #[test]
    fn a_record_of_a_former_boot_is_void() {
        let (_dir, settings) = recorded();
        let first = get(&settings).0;
        let former = Kept { before: 3, set: first };
        let settings_then = BTreeMap::from([(Setting::Mode, former)]);
        let record = Record { boot_id: "another".into(), settings: settings_then };
        record.write(&settings.record).unwrap();
        assert_eq!(settings.put_back().unwrap(), (Vec::new(), Vec::new()));
        assert_eq!(get(&settings).0, first);
    }

    #[test]
    fn numbers_outside_of_the_range_are_refused_before_anything_is_written() {
        let (_dir, settings) = recorded();
        let huge = page_size::huge().bytes();
        for (setting, value) in [(Setting::Mode, 4), (Setting::PadThreshold, huge)] {
            let error = settings.change(setting, value).unwrap_err().to_string();
            assert!(
                error.starts_with(setting.into_str()) && error.contains("takes 0 to"),
                "{error}"
            );
        }
        assert!(!settings.record.exists());
        settings.change(Setting::PadThreshold, huge - 1).unwrap();
        let found = settings.tree.hugetext().unwrap();
        assert_eq!(found.pad_threshold_bytes, Fact::Known(Bytes(huge - 1)));
    }

    #[test]
    fn a_kernel_without_the_setting_keeps_no_record() {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings { tree: Tree::at(dir.path()), record: dir.path().join(NAME) };
        let error = settings.change(Setting::Mode, 1).unwrap_err();
        assert!(matches!(error, HugetextError::Sys(error) if error.is_gone()));
        assert!(!settings.record.exists());
    }

    #[test]
    fn what_cleans_is_written_to_its_own_file_alone() {
        let (dir, settings) = recorded();
        let before = get(&settings);
        let read = |cleaner: Cleaner| {
            std::fs::read_to_string(dir.path().join("root").join(&cleaner.path()[1..])).unwrap()
        };
        settings.tree.clean(Cleaner::Caches).unwrap();
        assert_eq!((read(Cleaner::Caches).as_str(), read(Cleaner::Split).as_str()), ("3\n", ""));
        settings.tree.clean(Cleaner::Split).unwrap();
        assert_eq!(read(Cleaner::Split), "1\n");
        assert_eq!(get(&settings), before);
    }

    #[test]
    fn this_machine_is_looked_at_without_a_change() {
        let found = look().unwrap();
        assert!(!found.is_changed() && found.cleaners.len() == Cleaner::ALL.len());
    }
}
