//! The interface of hugetext, for kernels that put the code of all programs on huge pages: its settings, its
//! boot parameter, and ways to remove existing huge pages.
//!
//! `hugetext_enabled` (0 to 3) and `hugetext_pad_threshold` (bytes below a huge page) are in
//! `/sys/kernel/mm/transparent_hugepage`. `hugetext=` on the kernel's command line sets the first. khugepaged
//! applies them gradually, `khugepaged/pages_to_scan` base pages every `scan_sleep_millisecs`. Switching
//! hugetext off leaves existing huge pages. `drop_caches` and `split_huge_pages` remove those on any kernel;
//! the second needs debugfs. Every path is below one directory: `/`, or that of a recorded tree.
//!
//! Not seen: other kernels that use these names. Reading costs some 10 us per file.

use crate::error::SysError;
use crate::page_size;
use crate::proc::{read_number, read_text};
use crate::thp;
use pagewise_model::text_system::{
    HugePageCleaner, HugetextMode, HugetextSetting, HugetextState, KhugepagedPace, OfferedCleaner,
};
use pagewise_model::{Bytes, Fact, Nanos};
use rustix::fs::{Access, access};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

const THP: &str = "/sys/kernel/mm/transparent_hugepage";

/// The directory tree with the kernel's settings.
#[derive(Debug, Clone)]
pub struct HugetextTree {
    root: PathBuf,
}

impl HugetextTree {
    /// The tree of this machine.
    #[must_use]
    pub fn own() -> Self {
        Self::at(Path::new("/"))
    }

    /// A tree that was recorded below a directory.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    fn path(&self, absolute: &str) -> PathBuf {
        self.root.join(absolute.trim_start_matches('/'))
    }

    fn setting_path(&self, setting: HugetextSetting) -> PathBuf {
        self.path(&format!("{THP}/{}", setting.into_str()))
    }

    /// Reads a setting.
    ///
    /// # Errors
    /// ENOENT if the kernel does not have it.
    pub fn get(&self, setting: HugetextSetting) -> Result<u64, SysError> {
        let path = self.setting_path(setting);
        let malformed = || SysError::malformed("read", path.display().to_string());
        thp::chosen(&read_text(&path)?).and_then(|word| word.parse().ok()).ok_or_else(malformed)
    }

    /// Writes a setting.
    ///
    /// # Errors
    /// EACCES for accounts without permission, EINVAL for a number that the kernel rejects.
    pub fn set(&self, setting: HugetextSetting, value: u64) -> Result<(), SysError> {
        write(&self.setting_path(setting), &format!("{value}\n"))
    }

    /// The settings; `None` if the kernel has no hugetext.
    #[must_use]
    pub fn hugetext(&self) -> Option<HugetextState> {
        let mode = self.get(HugetextSetting::Mode);
        if mode.as_ref().is_err_and(SysError::is_gone) {
            return None;
        }
        let mode = Fact::from(mode).and_then(|number| match HugetextMode::from_repr(number) {
            Some(mode) => Fact::Known(mode),
            None => Fact::missing(format!("{number} is an unknown mode")),
        });
        let pad_threshold_bytes = Fact::from(self.get(HugetextSetting::PadThreshold)).map(Bytes);
        Some(HugetextState { mode, pad_threshold_bytes })
    }

    /// The mode that the kernel was started with; `None` if it was given none.
    #[must_use]
    pub fn boot_mode(&self) -> Option<HugetextMode> {
        boot_mode(&read_text(self.path("/proc/cmdline")).ok()?)
    }

    /// The pace of khugepaged.
    ///
    /// # Errors
    /// When the kernel does not show it.
    pub fn pace(&self) -> Result<KhugepagedPace, SysError> {
        let number = |file: &str| {
            let path = self.path(&format!("{THP}/khugepaged/{file}"));
            let malformed = |_| SysError::malformed("read", path.display().to_string());
            u64::try_from(read_number(&path)?).map_err(malformed)
        };
        let (pages, sleep) = (number("pages_to_scan")?, number("scan_sleep_millisecs")?);
        Ok(KhugepagedPace {
            round_bytes: Bytes(pages.saturating_mul(page_size::base().bytes())),
            sleep_ns: Nanos(sleep.saturating_mul(Nanos::millis(1).0)),
        })
    }

    /// The ways to remove huge pages, and whether this account may use them.
    #[must_use]
    pub fn cleaners(&self) -> Vec<OfferedCleaner> {
        let offered = |cleaner: HugePageCleaner| {
            let may_write = match access(self.path(cleaner.path()), Access::WRITE_OK) {
                Ok(()) => Fact::Known(true),
                Err(
                    rustix::io::Errno::ACCESS | rustix::io::Errno::PERM | rustix::io::Errno::ROFS,
                ) => Fact::Known(false),
                Err(error) => {
                    Fact::missing(SysError::new("access", cleaner.path(), error).to_string())
                }
            };
            OfferedCleaner { cleaner, may_write }
        };
        HugePageCleaner::ALL.into_iter().map(offered).collect()
    }

    /// Removes huge pages on the whole machine. This cannot be undone.
    ///
    /// # Errors
    /// ENOENT if debugfs is not mounted, EACCES for accounts without permission.
    pub fn clean(&self, cleaner: HugePageCleaner) -> Result<(), SysError> {
        let word = match cleaner {
            // The page cache, and the dentries and inodes that hold it.
            HugePageCleaner::Caches => "3\n",
            HugePageCleaner::Split => "1\n",
        };
        write(&self.path(cleaner.path()), word)
    }
}

/// Writes to an existing file.
fn write(path: &Path, text: &str) -> Result<(), SysError> {
    let written = OpenOptions::new().write(true).truncate(true).open(path);
    written
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|e| SysError::new("write", path.display().to_string(), e))
}

/// The last `hugetext=` on a kernel's command line that contains a valid mode number.
fn boot_mode(line: &str) -> Option<HugetextMode> {
    let words = line.split_ascii_whitespace().rev();
    let mut values = words.filter_map(|word| word.strip_prefix("hugetext="));
    values.find_map(|value| HugetextMode::from_repr(value.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture() -> HugetextTree {
        HugetextTree::at(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hugetext"))
    }

    #[test]
    fn the_tree_of_a_kernel_with_hugetext_is_understood() {
        let tree = fixture();
        let found = tree.hugetext().unwrap();
        assert_eq!(found.mode, Fact::Known(HugetextMode::Files));
        assert_eq!(found.pad_threshold_bytes, Fact::Known(Bytes::kib(4)));
        assert_eq!(tree.boot_mode(), Some(HugetextMode::Files));
        let round_bytes = Bytes((1 << 12) * page_size::base().bytes());
        assert_eq!(tree.pace().unwrap(), KhugepagedPace { round_bytes, sleep_ns: Nanos::secs(10) });
        assert_eq!(tree.cleaners().len(), 2);
    }

    #[test]
    fn a_kernel_without_it_has_none() {
        let dir = tempfile::tempdir().unwrap();
        let tree = HugetextTree::at(dir.path());
        assert_eq!((tree.hugetext(), tree.boot_mode()), (None, None));
        assert!(tree.pace().unwrap_err().is_gone());
        for cleaner in HugePageCleaner::ALL {
            assert!(tree.clean(cleaner).unwrap_err().is_gone());
        }
        assert!(tree.set(HugetextSetting::Mode, 1).unwrap_err().is_gone(), "no file is made");
        assert!(tree.cleaners().iter().all(|offered| offered.may_write.reason().is_some()));
    }

    #[test]
    fn what_is_no_mode_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let tree = HugetextTree::at(dir.path());
        std::fs::create_dir_all(tree.path(THP)).unwrap();
        for (text, expected) in
            [("7\n", "7 is an unknown mode"), ("on\n", "unexpected text format")]
        {
            std::fs::write(tree.setting_path(HugetextSetting::Mode), text).unwrap();
            let found = tree.hugetext().unwrap();
            assert!(found.mode.reason().is_some_and(|why| why.contains(expected)), "{found:?}");
            assert!(found.pad_threshold_bytes.reason().is_some());
        }
    }

    #[test]
    fn the_last_parameter_counts() {
        assert_eq!(boot_mode("quiet hugetext=1 hugetext=3"), Some(HugetextMode::Both));
        assert_eq!(boot_mode("hugetext=2 hugetext=on"), Some(HugetextMode::Generated));
        assert_eq!(boot_mode("nohugetext=1 hugetext="), None);
    }
}
