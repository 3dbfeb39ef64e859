//! Files that processes have mapped, opened as those processes have them.
//!
//! The path of a mapping is one of the process's own mount namespace. In ours it may be that of another file: every
//! container has its own `libc.so.6`. So a file is opened as the mapping itself (`/proc/PID/map_files`, which needs
//! CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN), as the executable of the process (`/proc/PID/exe`), or by its path below the
//! root of the process. The kernel must list it with the device and inode of the mapping. Of a process that has ended it is the file that has the path here,
//! if it has the device and inode that were recorded with the mapping. What is none of these is not opened.
//!
//! The numbers are those of `/proc/PID/maps`, which are not those of stat(2) on btrfs and overlayfs: a file is mapped to
//! see how it is listed ([`FileView::listed`]). Recorded ones (PERF_RECORD_MMAP2) have on overlayfs those of the layer
//! below on some kernels: there the inode alone counts.
//!
//! Not seen: a file that was replaced by one with the same inode after its process had ended. Cost: some 100 us for a
//! file that has not been met before.

use pagewise_kernel::file_view::FileView;
use pagewise_kernel::proc::maps::{self, Mapping};
use pagewise_model::fault::UnnamedFile;
use pagewise_model::fault::event::{FileId, Map};
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

/// A descriptor of a place alone: nothing is opened.
const PLACE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Of the file system that lays others over each other.
const OVERLAYFS: u64 = 0x794c_7630;

const GONE: &str = "its process has ended, and the file that has its path here is another one";
const REPLACED: &str = "its path belongs to another file now";
const UNREADABLE: &str = "it cannot be opened";

/// Why a file was not opened.
type Why = &'static str;

/// The file of a mapping that process `pid` has now.
///
/// # Errors
/// Why it is not opened.
pub fn open(pid: i32, mapping: &Mapping) -> Result<File, Why> {
    let id = id_of(mapping);
    let links = [format!("map_files/{:x}-{:x}", mapping.start, mapping.end), "exe".to_owned()];
    let by_link = links.iter().find_map(|link| {
        let link = openat(CWD, format!("/proc/{pid}/{link}"), PLACE, Mode::empty()).ok()?;
        // The process may have become another one since.
        regular(link).filter(|file| is_listed(file, &id))
    });
    if let Some(file) = by_link {
        return Ok(file);
    }
    let file = open_inside(pid, Path::new(&mapping.path)).ok_or(UNREADABLE)?;
    if is_listed(&file, &id) { Ok(file) } else { Err(REPLACED) }
}

/// Whether the file of a mapping is the one that has its path here.
#[must_use]
pub fn is_here(mapping: &Mapping) -> bool {
    ours(Path::new(&mapping.path), Some(id_of(mapping))).is_ok()
}

/// The regular file that process `pid` means by an absolute path.
#[must_use]
pub fn open_inside(pid: i32, path: &Path) -> Option<File> {
    let flags = PLACE | OFlags::DIRECTORY;
    let root = openat(CWD, format!("/proc/{pid}/root"), flags, Mode::empty()).ok()?;
    let path = path.strip_prefix("/").ok()?;
    // A link of its own must not lead through our root.
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let found = match openat2(&root, path, PLACE, Mode::empty(), resolve) {
        Err(Errno::NOSYS | Errno::PERM) => openat(&root, path, PLACE, Mode::empty()),
        found => found,
    };
    regular(found.ok()?)
}

/// The file of a mapping that was recorded when it was made.
fn open_recorded(map: &Map) -> Result<File, Why> {
    let all = maps::read(map.pid).unwrap_or_default();
    let is_same = |mapping: &&Mapping| {
        mapping.contains(map.start_address)
            && (map.file == Some(id_of(mapping)) || mapping.path.as_bytes() == map.path.as_bytes())
    };
    match all.iter().find(is_same) {
        Some(mapping) => open(map.pid, mapping),
        None => ours(Path::new(&map.path), map.file),
    }
}

/// Which file a mapping is of.
pub(crate) fn id_of(mapping: &Mapping) -> FileId {
    let (major, minor) = mapping.device;
    FileId { major, minor, inode: mapping.inode }
}

/// The file that has `path` here, if it is the one that was recorded.
fn ours(path: &Path, recorded: Option<FileId>) -> Result<File, Why> {
    let found = openat(CWD, path, PLACE, Mode::empty());
    let file = found.ok().and_then(regular).ok_or(GONE)?;
    let is_same = recorded.is_some_and(|id| is_listed(&file, &id) || is_below_overlay(&file, &id));
    if is_same { Ok(file) } else { Err(GONE) }
}

/// Opens what a descriptor of its place leads to, if that is a regular file: to open anything else could block or act.
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

/// The numbers that stat(2) tells.
fn number_of(meta: &Metadata) -> FileId {
    let device = meta.dev();
    FileId { major: major(device), minor: minor(device), inode: meta.ino() }
}

fn is_below_overlay(file: &File, id: &FileId) -> bool {
    let is_overlay = fstatfs(file).is_ok_and(|found| found.f_type as u64 == OVERLAYFS);
    is_overlay && file.metadata().is_ok_and(|meta| meta.ino() == id.inode)
}

/// The files that processes have mapped, each under a name: its path, with a number where another file has that.
///
/// A handle; copies share what is known.
#[derive(Debug, Clone, Default)]
pub struct MappedFiles(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    /// What mappings have told of, by path and numbers.
    names: HashMap<(String, Option<FileId>), Arc<str>>,
    /// The names of one path, in the order in which they were met.
    by_path: HashMap<String, Vec<Arc<str>>>,
    files: HashMap<Arc<str>, Result<Arc<File>, Why>>,
}

impl MappedFiles {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A mapping was made: opens its file, if that has not been met before. The name that stands for it.
    pub fn meet(&self, map: &Map) -> Arc<str> {
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

    /// Has `file` stand under `name`.
    pub fn put(&self, name: &str, file: File) {
        self.known().files.insert(Arc::from(name), Ok(Arc::new(file)));
    }

    /// The file of this name; none of another origin.
    #[must_use]
    pub fn file(&self, name: &str) -> Option<Arc<File>> {
        self.known().files.get(name)?.as_ref().ok().map(Arc::clone)
    }

    /// Why there is no file of this name, where it is the name of one.
    #[must_use]
    pub fn missing(&self, name: &str) -> Option<UnnamedFile> {
        let why = *self.known().files.get(name)?.as_ref().err()?;
        Some(UnnamedFile { path: name.to_owned(), why: why.to_owned() })
    }
}

impl Known {
    /// The name of what was opened by `path`.
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

/// Whether a mapping with this path can be of a file: `//anon` and `[heap]` are names of the kernel's.
fn is_path(path: &str) -> bool {
    path.starts_with('/') && !path.starts_with("//")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_kernel::proc::own_pid;
    use pagewise_model::Bytes;

    /// A mapping of `file` in this process, which lives as long as the view.
    fn mapped(file: &File) -> (FileView, Mapping) {
        let view = FileView::map(file, 1).unwrap();
        let listed = view.listed().unwrap();
        (view, listed)
    }

    fn told(pid: i32, mapping: &Mapping, file: Option<FileId>) -> Map {
        Map {
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
        // Both live, so that the inode is another one.
        std::fs::write(dir.path().join("y"), "second").unwrap();
        std::fs::rename(dir.path().join("y"), &path).unwrap();
        assert!(!is_here(&mapping));
        match open(own, &Mapping { path: path.clone().into(), ..mapping.clone() }) {
            Ok(file) => assert_eq!(content(&file), "first"),
            Err(why) => assert_eq!(why, REPLACED),
        }
        // A process that has ended: the recorded numbers tell.
        let gone = |file| {
            open_recorded(&Map {
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
    fn files_of_one_path_have_names_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("x");
        std::fs::write(&path, "first").unwrap();
        let (_one, first) = mapped(&File::open(&path).unwrap());
        let (files, own, id) = (MappedFiles::default(), own_pid(), id_of(&first));
        let name = path.display().to_string();
        assert_eq!(&*files.meet(&told(own, &first, Some(id))), name);
        // The same file, told of with other numbers, as overlayfs has them.
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
            let map = Map { path: name.to_owned(), ..told(own, &first, None) };
            assert_eq!((&*files.meet(&map), files.missing(name)), (name, None));
        }
    }
}
