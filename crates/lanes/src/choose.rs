//! Chooses a way to read a file: predicted for this machine, for the file's current state in the page cache,
//! and for the program's use of it.
//!
//! ```no_run
//! use pagewise_lanes::choose::{ReadWay, Bytes, ReadDemand, AccessOrder, ExaminedFile};
//!
//! let demand =
//!     ReadDemand { order: AccessOrder::Random, block_bytes: Bytes::kib(16), passes: 3, threads: 1 };
//! let file = ExaminedFile::open("big.db".as_ref())?;
//! let choice = file.choose(&demand, &[ReadWay::Pread, ReadWay::Map, ReadWay::MapPopulate])?;
//! match choice.best().map(|best| best.arm) {
//!     Some(ReadWay::Pread) | None => { /* pread(2) into one buffer */ }
//!     Some(_) => { /* map it, and populate it if that is what was chosen */ }
//! }
//! # Ok::<(), pagewise_lanes::choose::ChooseError>(())
//! ```
//!
//! Run `pagewise choose --calibrate` first. It measures the prices: some 18 s, once for each machine, kernel
//! and file system. They are kept in the cache directory for a week, and named after the file system. This module
//! measures nothing. A look at the file (`pagewise_kernel::cached_file`) costs some 2 ns a page, and 60 if this
//! account may see frames. It does not change the cache, except that it requests one page of each huge page's
//! worth for files of other accounts.
//!
//! If another program shortens a mapped file, a touch ends the program (`SIGBUS`). Leave mappings out of
//! the ways to choose from if that may happen.

pub use pagewise_model::bench::file::ReadWay;
pub use pagewise_model::bench::tlb::AccessOrder;
pub use pagewise_model::cache::FolioClass;
pub use pagewise_model::choice::{Calibration, FileState, ReadChoice, ReadDemand, ReadForecast};
pub use pagewise_model::{Bytes, Nanos};

use pagewise_kernel::cached_file::PageCacheFile;
use pagewise_kernel::dirs;
use pagewise_kernel::state_file::{self, StateFileLimits};
use pagewise_kernel::{SysError, file_system, machine, page_size};
use pagewise_model::choice::CalibrationKey;
use rustix::fs::Access;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Machines change; no calibration is larger.
const LIMITS: StateFileLimits =
    StateFileLimits { most_age: Duration::from_secs(7 * 24 * 60 * 60), most_bytes: 4 << 20 };

/// Why there is no choice.
#[derive(Debug, thiserror::Error)]
pub enum ChooseError {
    /// The file cannot be examined.
    #[error(transparent)]
    Sys(#[from] SysError),
    /// There is no directory for saved prices.
    #[error("{0}")]
    NoPlace(String),
    /// No way to read supports the demand.
    #[error("{0}")]
    Demand(String),
    /// There are no prices yet, they are for another machine, or they are too old.
    #[error("no prices of reading are saved for files on {file_system} here")]
    NotCalibrated {
        /// The kind of the file system.
        file_system: String,
    },
}

impl ChooseError {
    /// The next step for the user.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::Sys(_) => "name a regular file with content that you may read".to_owned(),
            Self::NoPlace(_) => {
                "set XDG_CACHE_HOME to a directory that you may write to".to_owned()
            }
            Self::Demand(_) => "use other blocks, passes or threads".to_owned(),
            Self::NotCalibrated { .. } => {
                "measure them with pagewise choose --calibrate FILE".to_owned()
            }
        }
    }
}

/// Where the prices for a file are measured, and what they are valid for.
#[derive(Debug, Clone)]
pub struct CalibrationPlace {
    /// The directory of the files that are read for them.
    pub directory: PathBuf,
    /// What the prices are valid for.
    pub key: CalibrationKey,
    /// It is on the file system of the file. If false, this account has no directory there.
    pub is_own: bool,
    /// The file that keeps the prices, or the reason why this account has no directory for it.
    pub kept_in: Result<PathBuf, String>,
}

/// Prices that are kept.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptPrices {
    /// The prices.
    pub calibration: Calibration,
    /// Since they were taken.
    pub age: Nanos,
}

impl CalibrationPlace {
    /// The prices that are kept, if they hold here and now.
    #[must_use]
    pub fn kept(&self) -> Option<KeptPrices> {
        let kept = state_file::read(self.kept_in.as_ref().ok()?, LIMITS)?;
        let calibration: Calibration = serde_json::from_slice(&kept.text).ok()?;
        (calibration.key == self.key).then(|| KeptPrices { calibration, age: kept.age.into() })
    }

    /// Keeps prices for the next time.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn keep(&self, calibration: &Calibration) -> Result<(), ChooseError> {
        let kept_in = self.kept_in.as_ref().map_err(|why| ChooseError::NoPlace(why.clone()))?;
        let broken = |e: serde_json::Error| {
            SysError::new("write", kept_in.display().to_string(), std::io::Error::other(e))
        };
        state_file::write(kept_in, &serde_json::to_vec(calibration).map_err(broken)?)?;
        Ok(())
    }

    /// The place for a file with this path on this device. Uses the cache directory if it is on the same
    /// device, otherwise the file's own directory if this account may write there. Otherwise it still uses
    /// the cache directory, or that of temporary files.
    fn for_file(path: &Path, device: u64) -> Result<Self, ChooseError> {
        let cache = dirs::cache_dir().map_err(|error| error.to_string());
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let is_there = |directory: &&Path| {
            directory.metadata().is_ok_and(|found| found.dev() == device)
                && rustix::fs::access(*directory, Access::WRITE_OK | Access::EXEC_OK).is_ok()
        };
        let own = cache.as_deref().ok().into_iter().chain([parent]).find(is_there);
        let else_in = cache.clone().unwrap_or_else(|_| std::env::temp_dir());
        Self::at(cache.as_deref().map_err(Clone::clone), own.unwrap_or(&else_in), own.is_some())
    }

    /// For files of `directory`.
    fn at(
        cache: Result<&Path, String>,
        directory: &Path,
        is_own: bool,
    ) -> Result<Self, ChooseError> {
        let failed =
            |call| move |e: std::io::Error| SysError::new(call, directory.display().to_string(), e);
        let opened = File::open(directory).map_err(failed("open"))?;
        let device = opened.metadata().map_err(failed("fstat"))?.dev();
        let name = file_system::look_up(&opened, &directory.display().to_string())?.name;
        let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        Ok(Self {
            kept_in: cache.map(|cache| cache.join(format!("choose-{plain}-{device:x}.json"))),
            key: CalibrationKey::new(&machine::machine(), name, device),
            directory: directory.to_owned(),
            is_own,
        })
    }
}

/// A file to read, and its state in the page cache.
#[derive(Debug)]
pub struct ExaminedFile {
    path: PathBuf,
    state: FileState,
    place: CalibrationPlace,
}

impl ExaminedFile {
    /// Looks at a file.
    ///
    /// # Errors
    /// When it cannot be opened or examined, is not a regular file, or is empty.
    pub fn open(path: &Path) -> Result<Self, ChooseError> {
        let file = PageCacheFile::open(path)?;
        let state = FileState::from_cache(&file.look()?, file.size(), page_size::base());
        let found = file.file().metadata();
        let device =
            found.map_err(|e| SysError::new("fstat", path.display().to_string(), e))?.dev();
        Ok(Self { path: path.to_owned(), state, place: CalibrationPlace::for_file(path, device)? })
    }

    /// Its size.
    #[must_use]
    pub const fn size(&self) -> Bytes {
        self.state.size_bytes
    }

    /// How much of it is cached, and in which folios.
    #[must_use]
    pub const fn state(&self) -> &FileState {
        &self.state
    }

    /// Where its prices are measured and kept.
    #[must_use]
    pub const fn place(&self) -> &CalibrationPlace {
        &self.place
    }

    /// The predicted time of each way of `arms` by the saved prices, fastest first.
    ///
    /// # Errors
    /// When no way supports the demand, or no prices are saved.
    pub fn choose(&self, demand: &ReadDemand, arms: &[ReadWay]) -> Result<ReadChoice, ChooseError> {
        let Some(kept) = self.place.kept() else {
            let file_system = self.place.key.file_system().to_owned();
            return Err(ChooseError::NotCalibrated { file_system });
        };
        self.choose_by(&kept, demand, arms)
    }

    /// As [`ExaminedFile::choose`], with other prices.
    ///
    /// # Errors
    /// When no way supports the demand.
    pub fn choose_by(
        &self,
        prices: &KeptPrices,
        demand: &ReadDemand,
        arms: &[ReadWay],
    ) -> Result<ReadChoice, ChooseError> {
        if let Some(why) = demand.objection(self.size()) {
            return Err(ChooseError::Demand(why));
        }
        let calibration = &prices.calibration;
        Ok(ReadChoice {
            path: self.path.display().to_string(),
            demand: *demand,
            state: self.state.clone(),
            calibration_age_ns: prices.age,
            calibration_took_ns: calibration.took_ns,
            calibration_processes: calibration.processes,
            file_system: calibration.key.file_system().to_owned(),
            error_share: calibration.error_share,
            forecasts: calibration.forecasts(arms, demand, &self.state),
            trials: Vec::new(),
            trial_error_share: None,
            reasons: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::constructed;

    fn calibration(key: CalibrationKey) -> Calibration {
        constructed::calibration(key, Vec::new())
    }

    #[test]
    fn prices_are_kept_for_their_place_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let place = CalibrationPlace::at(Ok(dir.path()), dir.path(), true).expect("a place");
        assert_eq!(place.kept(), None);
        place.keep(&calibration(place.key.clone())).expect("kept");
        let kept = place.kept().expect("read back");
        assert_eq!(kept.calibration, calibration(place.key.clone()));
        let other = CalibrationKey::new(&machine::machine(), "none".to_owned(), 1);
        place.keep(&calibration(other)).expect("kept");
        assert_eq!(place.kept(), None, "they are another's");
        state_file::write(&place.kept_in.clone().expect("a place"), b"{}").expect("written");
        assert_eq!(place.kept(), None, "they are no prices");
    }

    #[test]
    fn the_place_is_on_the_file_system_of_the_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let device = dir.path().metadata().expect("metadata").dev();
        let own = CalibrationPlace::at(Ok(dir.path()), dir.path(), true).expect("a place");
        let name = own
            .kept_in
            .clone()
            .expect("a file")
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        assert!(
            name.starts_with("choose-") && name.ends_with(&format!("-{device:x}.json")),
            "{name}"
        );
        let proc = CalibrationPlace::at(Ok(dir.path()), Path::new("/proc"), true).expect("a place");
        assert_ne!((proc.key, proc.kept_in), (own.key, own.kept_in));
        assert!(CalibrationPlace::at(Ok(dir.path()), Path::new("/no/such/place"), true).is_err());
    }
}
