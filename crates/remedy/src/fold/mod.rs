//! `text fold`: a copy of a program or a library whose program headers let more of its code be on huge
//! pages. The original stays as it is, and all of its bytes but those headers are in the copy at their
//! places: text, symbols, notes, build-id and debug links among them.
//!
//! What changes and why is [`plan`]'s. The copy appears under its name whole or not at all
//! ([`pagewise_kernel::part_file`]); before that it is compared with the original byte by byte, and
//! given its mode, its extended attributes (capabilities among them) and, where this account may, its
//! owner. An attribute that cannot be given is a refusal, not a loss.
//!
//! Refused: programs that gain rights from their file by set-user-id or set-group-id, since a copy with
//! less protected memory is no place for them; files with a signature over their contents
//! (`security.ima`, `security.evm`).
//!
//! The copy is written in pieces of a huge page at multiples of it, which ext4 and xfs cache in folios of
//! that size, so that it is often warm from the start. Cost: the file is read twice and written once.

mod attributes;
mod cover;
mod plan;

pub use cover::{Choice, Covering, choose};
pub use plan::{Edit, Options, Plan, PlanError, plan};

use object::ReadCache;
use pagewise_kernel::cached_file::CachedFile;
use pagewise_kernel::part_file::{self, PartFile};
use pagewise_kernel::{SysError, clock, file_system};
use pagewise_model::Nanos;
use pagewise_model::fold::Changes;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
pub enum FoldError {
    /// The file or the name of the copy does not allow it.
    #[error("{why}")]
    Refused {
        why: String,
        /// What can be done.
        help: &'static str,
    },
    /// The file cannot be folded.
    #[error(transparent)]
    Plan(#[from] PlanError),
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

/// Where the copy is to be.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    pub path: &'a Path,
    /// A file of that name is replaced.
    pub replaces: bool,
}

/// A copy that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// How it differs.
    pub changes: Changes,
    /// Names of the extended attributes that it has from the original.
    pub attributes: Vec<String>,
    /// What the reader must know.
    pub notes: Vec<String>,
    pub took: Nanos,
}

/// Makes the copy. `stop` ends it between two pieces.
///
/// # Errors
/// Nothing is there under the name of the copy then that was not there before.
pub fn make(
    file: &CachedFile,
    target: Target<'_>,
    options: &Options,
    stop: &AtomicBool,
) -> Result<Made, FoldError> {
    let start = clock::now();
    let kept = attributes::kept(file)?;
    let cache = ReadCache::new(file.file());
    let plan = plan(&cache, file.size().0, options)?;
    let mut notes = Vec::new();
    let place = part_file::Target::open(target.path)?;
    for left in place.remove_leftovers() {
        notes.push(format!("removed the remains of a killed run: {}", left.display()));
    }
    refuse_target(file, target)?;
    let part = PartFile::create(place)?;
    let copying = Copying { original: file, copy: part.file(), plan: &plan, stop };
    copying.write()?;
    copying.compare()?;
    notes.extend(about_file_system(part.file(), target.path)?);
    notes.extend(kept.give(part.file())?);
    part.place(target.replaces)?;
    let took = Nanos(clock::now().0.saturating_sub(start.0));
    Ok(Made { changes: plan.changes, attributes: kept.names(), notes, took })
}

/// Why nothing may be written under this name.
fn refuse_target(file: &CachedFile, target: Target<'_>) -> Result<(), FoldError> {
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

/// What has to be known of the place where the copy lies.
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

/// A copy in the making.
struct Copying<'a> {
    original: &'a CachedFile,
    copy: &'a File,
    plan: &'a Plan,
    stop: &'a AtomicBool,
}

impl Copying<'_> {
    fn write(&self) -> Result<(), FoldError> {
        self.each_piece(|offset, piece| {
            let written = self.copy.write_all_at(piece, offset);
            Ok(written.map_err(|e| SysError::new("pwrite", "the copy", e))?)
        })
    }

    /// Whether what was written is what is there now, and the original what it was.
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

    /// Calls `with` for each piece of the copy, made of the original as it is now.
    fn each_piece(
        &self,
        mut with: impl FnMut(u64, &[u8]) -> Result<(), FoldError>,
    ) -> Result<(), FoldError> {
        let (len, slot) = (self.plan.copy_len(), pagewise_kernel::page_size::huge().bytes());
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

    /// A piece of the original as it is in the copy; what is beyond its end has value 0.
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
