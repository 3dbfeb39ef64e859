//! Which pages of which files are cached.
//!
//! Directories are walked completely, on their own file system and without following links in them. A file
//! with several names is saved under the first one. The files of a process are those that it or a descendant
//! maps or has open. Each must be the same file under that name here, which may not be so in another mount
//! namespace.
//!
//! Not seen: files that are opened and closed again. Cost: some 50 us per file, and 2 ns per page.

use super::inode;
use pagewise_kernel::cached_file::PageCacheFile;
use pagewise_kernel::proc::fd::{self, DescriptorTarget};
use pagewise_kernel::proc::{maps, tree};
use pagewise_kernel::{SysError, page_size};
use pagewise_model::cache_list::{CACHE_LIST_SCHEMA, CacheList, ListedFile};
use pagewise_tracee::read_ahead::modified;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Name suffix of a deleted file.
const DELETED: &[u8] = b" (deleted)";

/// Result of a save.
#[derive(Debug)]
pub struct SavedCache {
    pub list: CacheList,
    /// Number of files examined.
    pub examined: u64,
    /// What could not be examined, each with the reason.
    pub left_out: Vec<String>,
}

/// Examines all files under `roots`, until `is_over`.
#[must_use]
pub fn save(
    roots: &[PathBuf],
    is_over: &dyn Fn() -> bool,
    see: &mut dyn FnMut(&Path),
) -> SavedCache {
    let mut walk = SaveWalk { is_over, see, seen: BTreeSet::new(), found: empty() };
    for root in roots {
        walk.enter_root(root);
    }
    walk.found.list.files.sort_by(|a, b| a.path.cmp(&b.path));
    walk.found
}

fn empty() -> SavedCache {
    let list = CacheList {
        cache_list_schema: CACHE_LIST_SCHEMA,
        page_bytes: page_size::base(),
        roots: Vec::new(),
        files: Vec::new(),
    };
    SavedCache { list, examined: 0, left_out: Vec::new() }
}

struct SaveWalk<'a> {
    is_over: &'a dyn Fn() -> bool,
    see: &'a mut dyn FnMut(&Path),
    /// Device and inode.
    seen: BTreeSet<(u64, u64)>,
    found: SavedCache,
}

impl SaveWalk<'_> {
    fn enter_root(&mut self, root: &Path) {
        let found =
            std::path::absolute(root).and_then(|path| Ok((std::fs::metadata(&path)?, path)));
        match found {
            Err(error) => self.leave_out(root, &error.to_string()),
            Ok((of, path)) => {
                self.found.list.roots.push(path.clone());
                if of.is_dir() {
                    self.enter_directory(path, of.dev());
                } else {
                    self.look(&path, &of);
                }
            }
        }
    }

    fn enter_directory(&mut self, root: PathBuf, device: u64) {
        let mut open = vec![root];
        while let Some(directory) = open.pop() {
            let entries = match std::fs::read_dir(&directory) {
                Ok(entries) => entries,
                Err(error) => {
                    self.leave_out(&directory, &error.to_string());
                    continue;
                }
            };
            let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            paths.sort();
            for path in paths {
                // A file that has disappeared is no loss.
                let Ok(of) = std::fs::symlink_metadata(&path) else { continue };
                if of.is_dir() && of.dev() != device {
                    self.leave_out(&path, "another file system: name it by itself");
                } else if of.is_dir() {
                    open.push(path);
                } else if of.is_file() {
                    self.look(&path, &of);
                }
                if (self.is_over)() {
                    return;
                }
            }
        }
    }

    fn look(&mut self, path: &Path, of: &Metadata) {
        let is_new = self.seen.insert((of.dev(), of.ino()));
        let is_empty = of.is_file() && of.len() == 0;
        if !is_new || is_empty {
            return;
        }
        (self.see)(path);
        self.found.examined += 1;
        match listed(path) {
            Ok(file) if file.pages.count() > 0 => self.found.list.files.push(file),
            Ok(_) => {}
            Err(why) => self.leave_out(path, &why),
        }
    }

    fn leave_out(&mut self, path: &Path, why: &str) {
        self.found.left_out.push(format!("{}: {why}", path.display()));
    }
}

/// A file and its cached pages.
fn listed(path: &Path) -> Result<ListedFile, String> {
    let why = |error: SysError| error.source.to_string();
    let file = PageCacheFile::open(path).map_err(why)?;
    let system = file.file_system().map_err(why)?;
    if system.is_in_memory {
        return Err(format!("it lives only in memory ({})", system.name));
    }
    // Read before its pages are examined: a later write then shows as a change.
    let modified = modified(file.file()).ok_or("its time of last writing is not known")?;
    let inode = inode(&file).ok_or("its inode is not known")?;
    let pages = file.cached_pages().map_err(why)?;
    let size_bytes = file.size();
    Ok(ListedFile { path: path.to_owned(), size_bytes, modified_unix_ns: modified, inode, pages })
}

/// The files that a process and its descendants map or have open, and what is left out.
///
/// # Errors
/// When the process does not exist, or may not be examined.
pub fn files_of(pid: i32) -> Result<(Vec<PathBuf>, Vec<String>), SysError> {
    let (mut files, mut left_out) = (BTreeSet::new(), BTreeSet::new());
    collect(pid, &mut files, &mut left_out)?;
    for below in tree::descendants(pid)? {
        match collect(below, &mut files, &mut left_out) {
            Err(error) if !error.is_gone() => {
                left_out.insert(format!("process {below}: {}", error.source));
            }
            _ => {}
        }
    }
    Ok((files.into_iter().collect(), left_out.into_iter().collect()))
}

fn collect(
    pid: i32,
    files: &mut BTreeSet<PathBuf>,
    left_out: &mut BTreeSet<String>,
) -> Result<(), SysError> {
    let mapped = maps::read(pid)?.into_iter().filter(maps::Mapping::is_file);
    let mut paths: BTreeSet<PathBuf> = mapped.map(|mapping| mapping.path.into()).collect();
    for descriptor in fd::list(pid)? {
        if let DescriptorTarget::File(path) = descriptor.target {
            paths.insert(path);
        }
    }
    for path in paths {
        match is_kept_by(pid, &path) {
            Ok(true) => _ = files.insert(path),
            Ok(false) => {}
            Err(why) => _ = left_out.insert(format!("{}: {why}", path.display())),
        }
    }
    Ok(())
}

/// Whether to save a file that process `pid` knows by this name: it must be regular, and the same file here.
fn is_kept_by(pid: i32, path: &Path) -> Result<bool, &'static str> {
    let name = path.as_os_str().as_bytes();
    if name.ends_with(DELETED) {
        return Ok(false);
    }
    let identity = |path: &Path| {
        let found = std::fs::metadata(path).ok()?;
        Some((found.dev(), found.ino(), found.is_file()))
    };
    let inside = [format!("/proc/{pid}/root").as_bytes(), name].concat();
    // Descriptors of directories are not files, nor are objects without a name in any file system (shared
    // memory).
    let Some((device, inode, true)) = identity(Path::new(OsStr::from_bytes(&inside))) else {
        return Ok(false);
    };
    match identity(path) {
        Some(here) if here == (device, inode, true) => Ok(true),
        _ => Err("the process has another file by that name (another mount namespace)"),
    }
}
