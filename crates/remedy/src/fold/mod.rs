//! `text fold`: copies a program or a library with changed program headers, so that more of its code can be
//! on huge pages. The original is unchanged. The copy has all other bytes at the same places: text, symbols,
//! notes, build-id and debug links.
//!
//! [`plan`] decides what changes and why. The copy appears under its name completely or not at all
//! ([`pagewise_kernel::part_file`]). Before that it is compared with the original byte by byte, and gets its
//! mode, its extended attributes (including capabilities) and, if this account may, its owner. If an
//! attribute cannot be set, the copy is refused.
//!
//! Refused: set-user-id and set-group-id programs, since a copy with less protected memory is not safe for
//! them; files with a signature of their content (`security.ima`, `security.evm`).
//!
//! The copy is written in aligned pieces of a huge page, which ext4 and xfs cache in folios of that size. So
//! it is often warm from the start. Cost: the file is read twice and written once.

mod attributes;
mod cover;
mod plan;

pub use cover::{CoveredFiles, FoldChoice, choose};
pub use plan::{FoldOptions, FoldPlan, FoldPlanError, HeaderEdit, plan};

use object::ReadCache;
use pagewise_kernel::cached_file::PageCacheFile;
use pagewise_kernel::part_file::{self, PartFile};
use pagewise_kernel::{SysError, clock, file_system, page_size};
use pagewise_model::fold::FoldChanges;
use pagewise_model::{Bytes, Nanos};
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Why no copy was made.
#[derive(Debug, thiserror::Error)]
pub enum FoldError {
    /// The file, or the name of the copy, does not permit it.
    #[error("{why}")]
    Refused {
        why: String,
        /// Advice for the user.
        help: &'static str,
    },
    /// The file cannot be folded.
    #[error(transparent)]
    Plan(#[from] FoldPlanError),
    #[error(transparent)]
    System(#[from] SysError),
    /// Stopped by the user.
    #[error("interrupted: no copy was made")]
    Stopped,
}

impl FoldError {
    fn refused(why: impl Into<String>, help: &'static str) -> Self {
        Self::Refused { why: why.into(), help }
    }
}

/// Destination of the copy.
#[derive(Debug, Clone, Copy)]
pub struct FoldTarget<'a> {
    pub path: &'a Path,
    /// Replace an existing file with that name.
    pub replaces: bool,
}

/// A finished copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedCopy {
    /// How it differs.
    pub changes: FoldChanges,
    /// Names of the extended attributes that it has from the original.
    pub attributes: Vec<String>,
    /// Notes for the user.
    pub notes: Vec<String>,
    pub took: Nanos,
}

/// Options that put as much code on huge pages as a copy can have there.
#[must_use]
pub fn merge_all() -> FoldOptions {
    let (base, huge) = (page_size::base(), page_size::huge());
    FoldOptions { merge: true, fill_above: Bytes(base.bytes()), base, huge }
}

/// Makes the copy. `stop` ends it between two pieces.
///
/// # Errors
/// In case of an error, nothing new exists under the name of the copy.
pub fn make(
    file: &PageCacheFile,
    target: FoldTarget<'_>,
    options: &FoldOptions,
    stop: &AtomicBool,
) -> Result<FinishedCopy, FoldError> {
    let start = clock::now();
    let kept = attributes::kept(file)?;
    let cache = ReadCache::new(file.file());
    let plan = plan(&cache, file.size().0, options)?;
    let mut notes = Vec::new();
    let place = part_file::PartFileTarget::open(target.path)?;
    for left in place.remove_leftovers() {
        notes.push(format!("removed the remains of a killed run: {}", left.display()));
    }
    refuse_target(file, target)?;
    let part = PartFile::create(place)?;
    let copying = FoldCopying { original: file, copy: part.file(), plan: &plan, stop };
    copying.write()?;
    copying.compare()?;
    notes.extend(about_file_system(part.file(), target.path)?);
    notes.extend(kept.give(part.file())?);
    part.place(target.replaces)?;
    let took = Nanos(clock::now().0.saturating_sub(start.0));
    Ok(FinishedCopy { changes: plan.changes, attributes: kept.names(), notes, took })
}

/// Why a copy must not be written under this name.
fn refuse_target(file: &PageCacheFile, target: FoldTarget<'_>) -> Result<(), FoldError> {
    let name = target.path.display();
    let identity = |found: &std::fs::Metadata| (found.dev(), found.ino());
    let original = file.file().metadata();
    let original =
        original.map_err(|e| SysError::new("fstat", file.path().display().to_string(), e))?;
    if std::fs::metadata(target.path).is_ok_and(|there| identity(&there) == identity(&original)) {
        let why = format!("{name} is the file itself, which is never changed");
        return Err(FoldError::refused(why, "name another file for the copy"));
    }
    match std::fs::symlink_metadata(target.path) {
        Ok(there) if !there.is_file() => {
            let why = format!("{name} exists and is not a regular file");
            Err(FoldError::refused(why, "name a regular file; for a link, name its target"))
        }
        Ok(_) if !target.replaces => Err(FoldError::refused(
            format!("{name} already exists"),
            "use --force to replace it; running programs keep the old file",
        )),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Notes about the file system that holds the copy.
fn about_file_system(copy: &File, path: &Path) -> Result<Option<String>, FoldError> {
    let found = file_system::look_up(copy, &path.display().to_string())?;
    let name = &found.name;
    Ok(if found.has_no_large_folios {
        Some(format!(
            "it lies on {name}, which caches files only in base pages: move it to ext4 or xfs"
        ))
    } else if found.is_in_memory {
        Some(format!(
            "it lies in memory ({name}), where `text warm` does nothing: move it to ext4 or xfs"
        ))
    } else {
        None
    })
}

/// A copy in progress.
struct FoldCopying<'a> {
    original: &'a PageCacheFile,
    copy: &'a File,
    plan: &'a FoldPlan,
    stop: &'a AtomicBool,
}

impl FoldCopying<'_> {
    fn write(&self) -> Result<(), FoldError> {
        self.each_piece(|offset, piece| {
            let written = self.copy.write_all_at(piece, offset);
            Ok(written.map_err(|e| SysError::new("pwrite", "the copy", e))?)
        })
    }

    /// Checks that the copy contains what was written, and that the original is unchanged.
    fn compare(&self) -> Result<(), FoldError> {
        let mut there = Vec::new();
        self.each_piece(|offset, piece| {
            there.resize(piece.len(), 0);
            let read = self.copy.read_exact_at(&mut there, offset);
            read.map_err(|e| SysError::new("pread", "the copy", e))?;
            if there == piece {
                return Ok(());
            }
            let why = format!("{} changed during the copy", self.original.path().display());
            Err(FoldError::refused(why, "try again when nobody writes the file"))
        })
    }

    /// Calls `with` for each piece of the copy, built from the current original.
    fn each_piece(
        &self,
        mut with: impl FnMut(u64, &[u8]) -> Result<(), FoldError>,
    ) -> Result<(), FoldError> {
        let (len, slot) = (self.plan.copy_len(), page_size::huge().bytes());
        let mut buffer = vec![0; usize::try_from(slot.min(len)).unwrap_or(usize::MAX)];
        let mut offset = 0;
        while offset < len {
            if self.stop.load(Ordering::Relaxed) {
                return Err(FoldError::Stopped);
            }
            let size = usize::try_from(len - offset).unwrap_or(usize::MAX).min(buffer.len());
            let piece = &mut buffer[..size];
            self.read(offset, piece)?;
            with(offset, piece)?;
            offset += size as u64;
        }
        Ok(())
    }

    /// Reads a piece of the original as it will be in the copy. Bytes beyond its end are 0.
    fn read(&self, offset: u64, piece: &mut [u8]) -> Result<(), FoldError> {
        let left = self.plan.len.saturating_sub(offset);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
        let (from_file, beyond) = piece.split_at_mut(len);
        let read = self.original.file().read_exact_at(from_file, offset);
        let name = || self.original.path().display().to_string();
        read.map_err(|e| SysError::new("pread", name(), e))?;
        beyond.fill(0);
        self.plan.apply(offset, piece);
        Ok(())
    }
}
