//! The file to read: a given file or a generated one.
//!
//! A generated file has no name (`O_TMPFILE`; otherwise it is unlinked immediately), so nothing remains,
//! however the run ends. It is written in pieces of 64 KiB, which give the folios that copying tools leave,
//! or as requested ([`FileOrigin::in_pieces`]). Its words cannot be compressed (see [`super::account`]). It is
//! written to the disk, so its pages are clean. It takes at most a quarter of the memory and half of the free
//! disk space.

use super::account::{WORD, fill, own_word};
use pagewise_kernel::cached_file::PageCacheFile;
use pagewise_kernel::proc::meminfo;
use pagewise_kernel::{SysError, limits, page_size};
use pagewise_model::Bytes;
use pagewise_model::bench::file::FileSource;
use pagewise_model::cache::FolioClass;
use pagewise_model::choice::{FileState, FolioClassShare};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes of one write.
const WRITTEN_IN: Bytes = Bytes::kib(64);
/// Sizes of generated files are multiples of this.
const UNIT: Bytes = Bytes::mib(1);
/// Smallest useful generated file.
const SMALLEST: Bytes = Bytes::mib(8);
/// A generated file may take one in this many bytes of the installed memory.
const MEMORY_SHARE: u64 = 4;
/// Share of the free disk, and of what memory an experiment may take.
const FREE_SHARE: u64 = 2;

/// Why there is no file to read.
#[derive(Debug, thiserror::Error)]
pub enum FileOriginError {
    #[error(transparent)]
    Sys(#[from] SysError),
    /// The given file cannot be read here.
    #[error("`{path}` {what}")]
    Unfit {
        /// The path given.
        path: String,
        /// The reason.
        what: String,
        /// What to do about it.
        help: &'static str,
    },
    /// There is no room for a generated file.
    #[error("no space for a file to read: {why}")]
    NoRoom {
        /// What binds.
        why: String,
    },
    /// The caller wants no more.
    #[error("interrupted before the file was written")]
    Interrupted,
}

impl FileOriginError {
    /// What to do about it.
    #[must_use]
    pub const fn help(&self) -> Option<&'static str> {
        match self {
            Self::Unfit { help, .. } => Some(*help),
            Self::NoRoom { .. } => {
                Some("give another --dir, a smaller --size, or a file with --file")
            }
            Self::Sys(_) => Some("give another --dir, or a file with --file"),
            Self::Interrupted => None,
        }
    }
}

/// Where the file comes from, and how large it is.
#[derive(Debug)]
pub enum FileOrigin {
    /// A generated file, not yet written.
    Own {
        /// Where it will be.
        directory: PathBuf,
        size: Bytes,
        /// What set the size.
        bound_by: String,
        /// Bytes of each write.
        piece: Bytes,
    },
    /// A file that was named.
    Given {
        path: PathBuf,
        /// Open for reading.
        file: File,
        size: Bytes,
    },
}

impl FileOrigin {
    /// A generated file in `directory`: of `wanted` bytes, or up to `usual` bytes as room permits.
    ///
    /// # Errors
    /// If there is no room.
    pub fn own(
        directory: &Path,
        wanted: Option<Bytes>,
        usual: Bytes,
    ) -> Result<Self, FileOriginError> {
        let (most, bound_by) = room(directory)?;
        let (size, bound_by) = match wanted {
            Some(size) if size > most => {
                let why = format!("{size} is more than {most} ({bound_by})");
                return Err(FileOriginError::NoRoom { why });
            }
            Some(size) => (size, "as requested".to_owned()),
            None if usual <= most => (usual, "the usual size".to_owned()),
            None => (most, bound_by),
        };
        let size = Bytes(size.0 / UNIT.0 * UNIT.0);
        if size < SMALLEST {
            let why = format!("{size} ({bound_by}) is less than {SMALLEST}");
            return Err(FileOriginError::NoRoom { why });
        }
        Ok(Self::Own { directory: directory.to_path_buf(), size, bound_by, piece: WRITTEN_IN })
    }

    /// A generated file written in pieces of this size. No effect on a given file.
    #[must_use]
    pub fn in_pieces(self, piece: Bytes) -> Self {
        match self {
            Self::Own { directory, size, bound_by, .. } => {
                Self::Own { directory, size, bound_by, piece }
            }
            given @ Self::Given { .. } => given,
        }
    }

    /// A generated file written so that it lies on such folios. No effect on a given file.
    #[must_use]
    pub fn on(self, folios: FolioClass) -> Self {
        self.in_pieces(match folios {
            FolioClass::Page => Bytes(page_size::base().bytes()),
            FolioClass::Piece => WRITTEN_IN,
            FolioClass::Huge => Bytes(page_size::huge().bytes()),
        })
    }

    /// The folios that hold most of it in the page cache, or will after it is written.
    ///
    /// # Errors
    /// If the page cache cannot be queried.
    pub fn folios(&self) -> Result<FolioClassShare, SysError> {
        match self {
            Self::Own { piece, .. } => {
                let folios = match piece.0 {
                    bytes if bytes <= page_size::base().bytes() => FolioClass::Page,
                    bytes if bytes < page_size::huge().bytes() => FolioClass::Piece,
                    _ => FolioClass::Huge,
                };
                Ok(FolioClassShare { folios, share: 1.0 })
            }
            Self::Given { path, size, .. } => {
                let seen = PageCacheFile::open(path)?.look()?;
                let parts = FileState::from_cache(&seen, *size, page_size::base()).folios;
                let most = parts.into_iter().max_by(|a, b| a.share.total_cmp(&b.share));
                Ok(most.unwrap_or(FolioClassShare { folios: FolioClass::Piece, share: 1.0 }))
            }
        }
    }

    /// The file at `path`, which has to hold a block of `block` bytes.
    ///
    /// # Errors
    /// When it is not a regular file, cannot be read, or is too small.
    pub fn given(path: &Path, block: Bytes) -> Result<Self, FileOriginError> {
        let unfit = |what: String, help| FileOriginError::Unfit {
            path: path.display().to_string(),
            what,
            help,
        };
        // Does not wait until another process opens the other end of a named pipe.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file: File = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|e| {
                let why = io::Error::from(e);
                unfit(format!("cannot be opened: {why}"), "name a file that you may read")
            })?
            .into();
        let found = rustix::fs::fstat(&file)
            .map_err(|e| SysError::new("fstat", path.to_string_lossy(), e))?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => {
                return Err(unfit("is a directory".to_owned(), "name a regular file"));
            }
            _ => return Err(unfit("is not a regular file".to_owned(), "name a regular file")),
        }
        let size = Bytes(u64::try_from(found.st_size).unwrap_or(0));
        if size < block {
            let what = format!("has {size}, less than one block of {block}");
            return Err(unfit(what, "name a larger file, or smaller blocks with --block"));
        }
        Ok(Self::Given { path: path.to_path_buf(), file, size })
    }

    #[must_use]
    pub const fn size(&self) -> Bytes {
        match self {
            Self::Own { size, .. } | Self::Given { size, .. } => *size,
        }
    }

    /// The file. A generated file is written first.
    ///
    /// # Errors
    /// If it cannot be written, most likely because the disk is full. Nothing of it remains then.
    pub fn open(self, stop: &dyn Fn() -> bool) -> Result<FileContent, FileOriginError> {
        match self {
            Self::Given { path, file, size } => {
                let source = FileSource {
                    path: Some(path.display().to_string()),
                    size_bytes: size,
                    directory: None,
                    written_in_bytes: None,
                    bound_by: "its own size".to_owned(),
                };
                Ok(FileContent { file, source })
            }
            Self::Own { directory, size, bound_by, piece } => {
                let file = nameless(&directory)?;
                write(&file, &directory, (size, piece), stop)?;
                let source = FileSource {
                    path: None,
                    size_bytes: size,
                    directory: Some(directory.display().to_string()),
                    written_in_bytes: Some(piece),
                    bound_by,
                };
                Ok(FileContent { file, source })
            }
        }
    }
}

/// A file that can be read.
#[derive(Debug)]
pub struct FileContent {
    pub(super) file: File,
    pub(super) source: FileSource,
}

impl FileContent {
    /// The word at `offset`: computed for a generated file, read from a given one.
    pub(super) fn word(&self, offset: u64) -> Result<u64, SysError> {
        if self.source.path.is_none() {
            return Ok(own_word(offset));
        }
        let mut word = [0; WORD];
        let read = self.file.read_exact_at(&mut word, offset);
        read.map(|()| u64::from_ne_bytes(word)).map_err(|e| SysError::new("pread", "the file", e))
    }
}

/// The largest possible generated file, and what limits it.
fn room(directory: &Path) -> Result<(Bytes, String), FileOriginError> {
    let place = directory.display();
    let free = rustix::fs::statvfs(directory)
        .map_err(|e| SysError::new("statvfs", place.to_string(), e))
        .map(|found| Bytes(found.f_bavail.saturating_mul(found.f_frsize)))?;
    let memory = meminfo::read()?.total;
    let allowed = limits::own_memory()?;
    let bounds = [
        (Bytes(free.0 / FREE_SHARE), format!("half of what is free in {place}")),
        (Bytes(memory.0 / MEMORY_SHARE), "a quarter of the installed memory".to_owned()),
        (Bytes(allowed.bytes.0 / FREE_SHARE), format!("half of what {} leaves", allowed.bound_by)),
    ];
    let least = bounds.into_iter().min_by_key(|(bytes, _)| *bytes);
    Ok(least.unwrap_or_else(|| (Bytes(0), "nothing is known".to_owned())))
}

/// A file without a name.
fn nameless(directory: &Path) -> Result<File, SysError> {
    let mode = Mode::RUSR | Mode::WUSR;
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(directory, flags | OFlags::TMPFILE, mode) {
        Ok(file) => Ok(file.into()),
        // The file system, or an older kernel, does not support `O_TMPFILE`.
        Err(Errno::NOTSUP | Errno::ISDIR | Errno::INVAL) => unlinked(directory, flags, mode),
        Err(error) => Err(SysError::new("open O_TMPFILE", directory.to_string_lossy(), error)),
    }
}

/// A file that is unlinked immediately.
fn unlinked(directory: &Path, flags: OFlags, mode: Mode) -> Result<File, SysError> {
    let path = directory.join(format!("pagewise-file-{}", std::process::id()));
    let subject = path.to_string_lossy().into_owned();
    let new = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    let file = rustix::fs::open(&path, new, mode)
        .map_err(|e| SysError::new("open", subject.as_str(), e))?;
    rustix::fs::unlinkat(CWD, &path, AtFlags::empty())
        .map_err(|e| SysError::new("unlink", subject, e))?;
    Ok(file.into())
}

fn write(
    file: &File,
    directory: &Path,
    (size, piece): (Bytes, Bytes),
    stop: &dyn Fn() -> bool,
) -> Result<(), FileOriginError> {
    let failed = |call| {
        let subject = format!("a file of {size} in {}", directory.display());
        move |e: io::Error| FileOriginError::Sys(SysError::new(call, subject, e))
    };
    let mut bytes = vec![0; usize::try_from(piece.0).unwrap_or(usize::MAX).max(WORD)];
    for offset in (0..size.0).step_by(bytes.len()) {
        if offset % UNIT.0 == 0 && stop() {
            return Err(FileOriginError::Interrupted);
        }
        bytes.truncate(usize::try_from(size.0 - offset).unwrap_or(usize::MAX));
        fill(&mut bytes, offset);
        if let Err(error) = file.write_all_at(&bytes, offset) {
            return Err(failed("write")(error));
        }
    }
    file.sync_data().map_err(failed("fdatasync"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unfit(path: &Path, block: Bytes) -> String {
        let error = FileOrigin::given(path, block).expect_err("unfit");
        assert!(error.help().is_some_and(|help| help.starts_with("name a")), "{error}");
        error.to_string()
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let small = dir.path().join("small");
        std::fs::write(&small, [0; 100]).expect("written");
        assert!(unfit(dir.path(), Bytes(512)).ends_with("is a directory"));
        assert!(unfit(&small, Bytes(512)).ends_with("has 100 B, less than one block of 512 B"));
        assert!(
            unfit(&dir.path().join("none"), Bytes(512)).contains("cannot be opened: No such file")
        );
        assert!(unfit(Path::new("/dev/null"), Bytes(512)).ends_with("is not a regular file"));
        assert_eq!(FileOrigin::given(&small, Bytes(64)).expect("read").size(), Bytes(100));
    }

    #[test]
    fn a_file_of_our_own_holds_what_is_known_and_has_no_name() {
        let dir = tempfile::tempdir().expect("a directory");
        let origin = FileOrigin::own(dir.path(), Some(SMALLEST), SMALLEST).expect("room");
        let content = origin.open(&|| false).expect("written");
        assert_eq!(std::fs::read_dir(dir.path()).expect("listed").count(), 0);
        assert_eq!(content.file.metadata().expect("metadata").len(), SMALLEST.0);
        for offset in [0, 8, WRITTEN_IN.0, SMALLEST.0 - 8] {
            let mut word = [0; WORD];
            content.file.read_exact_at(&mut word, offset).expect("read");
            assert_eq!(content.word(offset).expect("known"), u64::from_ne_bytes(word), "{offset}");
        }
        let unlinked = unlinked(dir.path(), OFlags::RDWR, Mode::RUSR | Mode::WUSR).expect("made");
        write(&unlinked, dir.path(), (UNIT, WRITTEN_IN), &|| false).expect("written");
        assert_eq!(std::fs::read_dir(dir.path()).expect("listed").count(), 0);
    }

    #[test]
    fn pieces_of_any_size_give_the_same_file() {
        let dir = tempfile::tempdir().expect("a directory");
        for piece in [Bytes::kib(4), Bytes::mib(3)] {
            let origin = FileOrigin::own(dir.path(), Some(SMALLEST), SMALLEST).expect("room");
            let content = origin.in_pieces(piece).open(&|| false).expect("written");
            assert_eq!(content.source.written_in_bytes, Some(piece));
            assert_eq!(content.file.metadata().expect("metadata").len(), SMALLEST.0);
            let mut word = [0; WORD];
            content.file.read_exact_at(&mut word, SMALLEST.0 - 8).expect("read");
            assert_eq!(u64::from_ne_bytes(word), own_word(SMALLEST.0 - 8), "{piece}");
        }
    }

    #[test]
    fn folios_are_those_that_it_is_written_in_or_lies_on() {
        let dir = tempfile::tempdir().expect("a directory");
        for folios in FolioClass::ALL {
            let origin = FileOrigin::own(dir.path(), Some(SMALLEST), SMALLEST).expect("room");
            let part = origin.on(folios).folios().expect("as it will be");
            assert_eq!((part.folios, part.share), (folios, 1.0));
        }
        let path = dir.path().join("given");
        std::fs::write(&path, vec![1; 1 << 20]).expect("written");
        let part = FileOrigin::given(&path, UNIT).expect("read").folios().expect("looked at");
        assert!(part.folios != FolioClass::Huge && part.share > 0.5, "{part:?}");
    }

    #[test]
    fn what_has_no_room_says_what_binds() {
        let dir = tempfile::tempdir().expect("a directory");
        let large =
            FileOrigin::own(dir.path(), Some(Bytes(1 << 60)), SMALLEST).expect_err("too large");
        assert!(large.to_string().contains("1048576 TiB is more than"), "{large}");
        let small = FileOrigin::own(dir.path(), Some(Bytes(1)), SMALLEST).expect_err("too small");
        assert!(small.to_string().contains("0 B (as requested) is less than 8.0 MiB"), "{small}");
        assert!(FileOrigin::own(Path::new("/no/such/place"), None, SMALLEST).is_err());
    }

    #[test]
    fn a_full_disk_leaves_nothing() {
        let full = File::options().write(true).open("/dev/full").expect("a device");
        let asked = (UNIT, WRITTEN_IN);
        let error =
            write(&full, Path::new("/dev"), asked, &|| false).expect_err("full").to_string();
        assert!(
            error.contains("`write` on a file of 1.0 MiB in /dev failed: No space left"),
            "{error}"
        );
        let stopped = write(&full, Path::new("/dev"), asked, &|| true);
        assert!(matches!(stopped, Err(FileOriginError::Interrupted)));
    }
}
