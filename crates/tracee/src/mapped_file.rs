//! Opens files that processes have mapped, as those processes see them.
//!
//! The path of a mapping belongs to the mount namespace of its process. Here it may name another file: every
//! container has its own `libc.so.6`. So a file is opened through the mapping itself (`/proc/PID/map_files`,
//! which needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN), as the executable of the process (`/proc/PID/exe`),
//! or by its path below the root of the process. The kernel must list it with the device and inode of the
//! mapping. For a process that has ended, the file with that path here is used, if it has the device and
//! inode that were recorded with the mapping. Any other file is not opened.
//!
//! The numbers are those of `/proc/PID/maps`, which differ from those of stat(2) on btrfs and overlayfs. So a
//! file is mapped to see how it is listed ([`FileView::listed`]). On overlayfs, some kernels record the
//! numbers of the lower layer (PERF_RECORD_MMAP2); there only the inode is compared.
//!
//! Not seen: a file that was replaced by one with the same inode after its process had ended. Cost: some 100
//! us per file that is new.

use pagewise_kernel::file_view::FileView;
use pagewise_kernel::proc::maps::{self, Mapping};
use pagewise_model::fault::UnnamedFile;
use pagewise_model::fault::event::{FileId, MapEvent};
use rustix::fs::{
    CWD, FileType, Mode, OFlags, ResolveFlags, fstat, fstatfs, major, minor, openat, openat2,
};
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Flags for a path-only descriptor: the file itself is not opened.
const PLACE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Magic number of overlayfs.
const OVERLAYFS: u64 = 0x794c_7630;

const GONE: &str = "its process has ended, and the file that has its path here is another one";
const REPLACED: &str = "its path belongs to another file now";
const UNREADABLE: &str = "it cannot be opened";

/// Why a file was not opened.
type Why = &'static str;

/// Opens the file of a current mapping of process `pid`.
///
/// # Errors
/// Why it is not opened.
pub fn open(pid: i32, mapping: &Mapping) -> Result<File, Why> {
    let id = id_of(mapping);
    let links = [format!("map_files/{:x}-{:x}", mapping.start, mapping.end), "exe".to_owned()];
    let by_link = links.iter().find_map(|link| {
        let link = openat(CWD, format!("/proc/{pid}/{link}"), PLACE, Mode::empty()).ok()?;
        // The process may have executed another program since.
        regular(link).filter(|file| is_listed(file, &id))
    });
    if let Some(file) = by_link {
        return Ok(file);
    }
    let file = open_inside(pid, Path::new(&mapping.path)).ok_or(UNREADABLE)?;
    if is_listed(&file, &id) { Ok(file) } else { Err(REPLACED) }
}

/// Whether the file with this path here is the file of the mapping.
#[must_use]
pub fn is_here(mapping: &Mapping) -> bool {
    ours(Path::new(&mapping.path), Some(id_of(mapping))).is_ok()
}

/// The regular file that process `pid` finds at an absolute path.
#[must_use]
pub fn open_inside(pid: i32, path: &Path) -> Option<File> {
    let flags = PLACE | OFlags::DIRECTORY;
    let root = openat(CWD, format!("/proc/{pid}/root"), flags, Mode::empty()).ok()?;
    let path = path.strip_prefix("/").ok()?;
    // Links inside that root must not resolve against the root of this process.
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let found = match openat2(&root, path, PLACE, Mode::empty(), resolve) {
        Err(Errno::NOSYS | Errno::PERM) => openat(&root, path, PLACE, Mode::empty()),
        found => found,
    };
    regular(found.ok()?)
}

/// Opens the file of a mapping that was recorded when it was made.
fn open_recorded(map: &MapEvent) -> Result<File, Why> {
    open_listed(map, &maps::read(map.pid).unwrap_or_default())
}

/// [`open_recorded`], where `all` are the mappings that the process had a moment ago. It may have ended since.
fn open_listed(map: &MapEvent, all: &[Mapping]) -> Result<File, Why> {
    let is_same = |mapping: &&Mapping| {
        mapping.contains(map.start_address)
            && (map.file == Some(id_of(mapping)) || mapping.path.as_bytes() == map.path.as_bytes())
    };
    match all.iter().find(is_same) {
        Some(mapping) => match open(map.pid, mapping) {
            Err(UNREADABLE) => ours(Path::new(&map.path), map.file).or(Err(UNREADABLE)),
            opened => opened,
        },
        None => ours(Path::new(&map.path), map.file),
    }
}

/// Identity of the file of a mapping.
pub(crate) fn id_of(mapping: &Mapping) -> FileId {
    let (major, minor) = mapping.device;
    FileId { major, minor, inode: mapping.inode }
}

/// The file with this `path` here, if it is the recorded one.
fn ours(path: &Path, recorded: Option<FileId>) -> Result<File, Why> {
    let found = openat(CWD, path, PLACE, Mode::empty());
    let file = found.ok().and_then(regular).ok_or(GONE)?;
    let is_same = recorded.is_some_and(|id| is_listed(&file, &id) || is_below_overlay(&file, &id));
    if is_same { Ok(file) } else { Err(GONE) }
}

/// Opens the file behind a path-only descriptor if it is a regular file. Opening anything else could block or
/// have an effect.
fn regular(place: impl AsFd) -> Option<File> {
    let kind = FileType::from_raw_mode(fstat(&place).ok()?.st_mode);
    let link = format!("/proc/self/fd/{}", place.as_fd().as_raw_fd());
    (kind == FileType::RegularFile).then(|| File::open(link).ok()).flatten()
}

/// Whether the kernel lists mappings of `file` with these numbers.
fn is_listed(file: &File, id: &FileId) -> bool {
    if file.metadata().is_ok_and(|meta| number_of(&meta) == *id) {
        return true;
    }
    let listed = FileView::map(file, 1).and_then(|view| view.listed());
    listed.is_ok_and(|listed| id_of(&listed) == *id)
}

/// The numbers that stat(2) reports.
fn number_of(meta: &Metadata) -> FileId {
    let device = meta.dev();
    FileId { major: major(device), minor: minor(device), inode: meta.ino() }
}

fn is_below_overlay(file: &File, id: &FileId) -> bool {
    let is_overlay = fstatfs(file).is_ok_and(|found| found.f_type as u64 == OVERLAYFS);
    is_overlay && file.metadata().is_ok_and(|meta| meta.ino() == id.inode)
}

/// The files that processes have mapped, each under a name: its path, plus a number if another file has that
/// path.
///
/// A handle; copies share the same data.
#[derive(Debug, Clone, Default)]
pub struct MappedFiles(Arc<Mutex<KnownMappings>>);

#[derive(Debug, Default)]
struct KnownMappings {
    /// Names of the mappings seen, by path and file numbers.
    names: HashMap<(String, Option<FileId>), Arc<str>>,
    /// Names with the same path, in the order of their appearance.
    by_path: HashMap<String, Vec<Arc<str>>>,
    files: HashMap<Arc<str>, Result<Arc<File>, Why>>,
}

impl MappedFiles {
    fn known(&self) -> MutexGuard<'_, KnownMappings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles a new mapping: opens its file if it is new. Returns the name of the file.
    pub fn meet(&self, map: &MapEvent) -> Arc<str> {
        if !is_path(&map.path) {
            return Arc::from(map.path.as_str());
        }
        let key = (map.path.clone(), map.file);
        if let Some(name) = self.known().names.get(&key) {
            return Arc::clone(name);
        }
        let opened = open_recorded(map);
        let mut known = self.known();
        let name = known.add(&map.path, opened);
        known.names.insert(key, Arc::clone(&name));
        name
    }

    /// Registers `file` under `name`.
    pub fn put(&self, name: &str, file: File) {
        self.known().files.insert(Arc::from(name), Ok(Arc::new(file)));
    }

    /// The file of this name; `None` if it could not be opened or the name is unknown.
    #[must_use]
    pub fn file(&self, name: &str) -> Option<Arc<File>> {
        self.known().files.get(name)?.as_ref().ok().map(Arc::clone)
    }

    /// Why the file of this name is missing; `None` if it is present or the name is not a file's.
    #[must_use]
    pub fn missing(&self, name: &str) -> Option<UnnamedFile> {
        let why = *self.known().files.get(name)?.as_ref().err()?;
        Some(UnnamedFile { path: name.to_owned(), why: why.to_owned() })
    }
}

impl KnownMappings {
    /// The name for the file that was opened by `path`.
    fn add(&mut self, path: &str, opened: Result<File, Why>) -> Arc<str> {
        let names = self.by_path.entry(path.to_owned()).or_default();
        let identity = |file: &File| file.metadata().ok().map(|meta| (meta.dev(), meta.ino()));
        let own = opened.as_ref().ok().and_then(identity);
        let is_same = |name: &&Arc<str>| {
            let file = self.files.get(&***name).and_then(|file| file.as_ref().ok());
            own.is_some() && file.and_then(|file| identity(file)) == own
        };
        if let Some(same) = names.iter().find(is_same) {
            return Arc::clone(same);
        }
        let name: Arc<str> = match names.len() {
            0 => Arc::from(path),
            before => Arc::from(format!("{path} (file {})", before + 1)),
        };
        names.push(Arc::clone(&name));
        self.files.insert(Arc::clone(&name), opened.map(Arc::new));
        name
    }
}

/// Whether a mapping with this path can have a file: the kernel uses `//anon` and `[heap]` as names.
fn is_path(path: &str) -> bool {
    path.starts_with('/') && !path.starts_with("//")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_kernel::proc::own_pid;
    use pagewise_model::Bytes;

    /// Maps `file` in this process. The mapping lives as long as the view.
    fn mapped(file: &File) -> (FileView, Mapping) {
        let view = FileView::map(file, 1).unwrap();
        let listed = view.listed().unwrap();
        (view, listed)
    }

    fn told(pid: i32, mapping: &Mapping, file: Option<FileId>) -> MapEvent {
        MapEvent {
            pid,
            start_address: mapping.start,
            size_bytes: Bytes(mapping.end - mapping.start),
            offset_bytes: Bytes(0),
            is_executable: true,
            is_shared: false,
            path: mapping.path.to_string_lossy().into_owned(),
            file,
        }
    }

    fn content(file: &File) -> String {
        std::io::read_to_string(file).unwrap()
    }

    #[test]
    fn a_file_whose_path_has_another_one_is_opened_as_itself_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("x");
        std::fs::write(&path, "first").unwrap();
        let (_view, mapping) = mapped(&File::open(&path).unwrap());
        let own = own_pid();
        assert!(is_here(&mapping));
        assert_eq!(content(&open(own, &mapping).unwrap()), "first");
        // Both files exist at the same time, so the inodes differ.
        std::fs::write(dir.path().join("y"), "second").unwrap();
        std::fs::rename(dir.path().join("y"), &path).unwrap();
        assert!(!is_here(&mapping));
        match open(own, &Mapping { path: path.clone().into(), ..mapping.clone() }) {
            Ok(file) => assert_eq!(content(&file), "first"),
            Err(why) => assert_eq!(why, REPLACED),
        }
        // For a process that has ended, the recorded numbers decide.
        let gone = |file| {
            open_recorded(&MapEvent {
                path: path.display().to_string(),
                ..told(i32::MAX, &mapping, file)
            })
        };
        assert_eq!(gone(Some(id_of(&mapping))).unwrap_err(), GONE);
        assert_eq!(gone(None).unwrap_err(), GONE);
        let (_view, second) = mapped(&File::open(&path).unwrap());
        assert_eq!(content(&gone(Some(id_of(&second))).unwrap()), "second");
    }

    #[test]
    fn a_process_may_end_after_its_mappings_were_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("x");
        std::fs::write(&path, "first").unwrap();
        let (_view, mapping) = mapped(&File::open(&path).unwrap());
        let ended = told(i32::MAX, &mapping, Some(id_of(&mapping)));
        let open = || open_listed(&ended, std::slice::from_ref(&mapping));
        assert_eq!(content(&open().unwrap()), "first");
        std::fs::write(dir.path().join("y"), "second").unwrap();
        std::fs::rename(dir.path().join("y"), &path).unwrap();
        assert_eq!(open().unwrap_err(), UNREADABLE);
    }

    #[test]
    fn files_of_one_path_have_names_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("x");
        std::fs::write(&path, "first").unwrap();
        let (_one, first) = mapped(&File::open(&path).unwrap());
        let (files, own, id) = (MappedFiles::default(), own_pid(), id_of(&first));
        let name = path.display().to_string();
        assert_eq!(&*files.meet(&told(own, &first, Some(id))), name);
        // The same file, recorded with other numbers, as on overlayfs.
        let other = FileId { inode: id.inode + 1, ..id };
        assert_eq!(&*files.meet(&told(own, &first, Some(other))), name);
        assert_eq!(&*files.meet(&told(i32::MAX, &first, Some(other))), name, "it was met");
        let unknown = FileId { inode: id.inode + 2, ..id };
        let second = files.meet(&told(i32::MAX, &first, Some(unknown)));
        assert_eq!(*second, format!("{name} (file 2)"));
        assert_eq!(content(&files.file(&name).unwrap()), "first");
        assert!(files.file(&second).is_none() && files.missing(&name).is_none());
        assert_eq!(files.missing(&second).unwrap().why, GONE);
        for name in ["//anon", "[vdso]", ""] {
            let map = MapEvent { path: name.to_owned(), ..told(own, &first, None) };
            assert_eq!((&*files.meet(&map), files.missing(name)), (name, None));
        }
    }
}
