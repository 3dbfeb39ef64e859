//! Resolves a path or descriptor argument of another process' call: read from its memory and looked up from
//! its directories through `/proc/PID`, before the call changes anything.
//!
//! A process with a separate root or separate mounts is looked up there. Not seen: links with absolute paths
//! below such a root are followed from our root.

use pagewise_tracee::ptrace::read_memory;
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Device and inode: one file, whatever its names.
pub(super) type Identity = (u64, u64);

/// A name: the directory and the entry in it, whatever path leads to it.
pub(super) type Name = (Identity, OsString);

/// Where the path of a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathArgument {
    /// First argument, relative to the working directory.
    Path,
    /// Second argument, relative to the directory that the first one is.
    At,
    /// Second argument, relative to the working directory.
    SecondPath,
    /// Third argument, relative to the directory that the second one is.
    SecondAt,
    /// Fourth argument, relative to the directory that the third one is.
    ThirdAt,
}

/// A file that a call names.
#[derive(Debug, Clone)]
pub(super) struct NamedFile {
    /// A path to it that works from here.
    pub(super) path: PathBuf,
    /// Its absolute path, for people.
    pub(super) shown: PathBuf,
    /// Its name, unless it is given by a descriptor or a path like `..`.
    pub(super) name: Option<Name>,
    /// The metadata after following links.
    pub(super) target: Option<Metadata>,
    /// The metadata without following links.
    pub(super) own: Option<Metadata>,
}

impl NamedFile {
    /// The target path with all links followed, including those of `/proc/PID`.
    pub(super) fn led(&self) -> PathBuf {
        kernel_path(&self.path).unwrap_or_else(|| self.shown.clone())
    }

    /// True for a device, when links are followed.
    pub(super) fn is_device(&self) -> bool {
        self.target.as_ref().is_some_and(is_device)
    }
}

/// The file that call arguments `args` of thread `tid` name.
pub(super) fn named(tid: i32, named: PathArgument, args: &[u64; 6]) -> Option<NamedFile> {
    let (directory, pointer) = match named {
        PathArgument::Path => (libc::AT_FDCWD, args[0]),
        PathArgument::At => (args[0] as i32, args[1]),
        PathArgument::SecondPath => (libc::AT_FDCWD, args[1]),
        PathArgument::SecondAt => (args[1] as i32, args[2]),
        PathArgument::ThirdAt => (args[2] as i32, args[3]),
    };
    if pointer == 0 {
        return (directory >= 0).then(|| opened(tid, directory)).flatten();
    }
    let text = read_path(tid, pointer)?;
    if text.as_os_str().is_empty() {
        return (directory >= 0).then(|| opened(tid, directory)).flatten();
    }
    Some(look(from_here(tid, directory, &text)))
}

/// The file that `path` refers to in thread `tid`.
pub(super) fn of_path(tid: i32, path: &Path) -> NamedFile {
    look(from_here(tid, libc::AT_FDCWD, path))
}

/// A path that leads here to where `path` leads `tid` from `directory`.
fn from_here(tid: i32, directory: i32, path: &Path) -> PathBuf {
    if let Some(own) = own_view(tid, path) {
        return own;
    }
    match (path.strip_prefix("/"), directory) {
        (Ok(below), _) if has_own_root(tid) => Path::new(&format!("/proc/{tid}/root")).join(below),
        (Ok(_), _) => path.to_owned(),
        (_, libc::AT_FDCWD) => Path::new(&format!("/proc/{tid}/cwd")).join(path),
        (_, fd) => Path::new(&format!("/proc/{tid}/fd/{fd}")).join(path),
    }
}

/// True if absolute paths resolve differently for `tid` than for us.
fn has_own_root(tid: i32) -> bool {
    let differs = |name: &str| {
        let of = |who: &str| fs::metadata(format!("/proc/{who}/{name}")).ok();
        let (theirs, ours) = (of(&tid.to_string()), of("self"));
        theirs.zip(ours).is_some_and(|(theirs, ours)| identity(&theirs) != identity(&ours))
    };
    differs("root") || differs("ns/mnt")
}

/// The file that descriptor `fd` of thread `tid` leads to.
pub(super) fn opened(tid: i32, fd: i32) -> Option<NamedFile> {
    let path = PathBuf::from(format!("/proc/{tid}/fd/{fd}"));
    let target = fs::metadata(&path).ok()?;
    let shown = fs::read_link(&path).ok()?;
    Some(NamedFile { path, shown, name: None, own: Some(target.clone()), target: Some(target) })
}

fn look(path: PathBuf) -> NamedFile {
    let (target, own) = (fs::metadata(&path).ok(), fs::symlink_metadata(&path).ok());
    if !ends_in_name(&path) {
        let shown = kernel_path(&path).unwrap_or_else(|| path.clone());
        return NamedFile { path, shown, name: None, target, own };
    }
    let (mut shown, mut name) = (path.clone(), None);
    if let (Some(parent), Some(last)) = (path.parent(), path.file_name()) {
        shown = kernel_path(parent).map_or(shown, |parent| parent.join(last));
        name = fs::metadata(parent).ok().map(|meta| (identity(&meta), last.to_owned()));
    }
    NamedFile { path, shown, name, target, own }
}

/// False for a path whose last part is `.` or `..`.
fn ends_in_name(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    let end = bytes.iter().rposition(|&b| b != b'/').map_or(0, |at| at + 1);
    let last = bytes[..end].rsplit(|&b| b == b'/').next().unwrap_or_default();
    last != b"." && last != b".."
}

/// The kernel's path of the file that `path` leads to. Unlike resolving link texts, this is right for the
/// links of `/proc/PID` into other roots and mounts.
fn kernel_path(path: &Path) -> Option<PathBuf> {
    let file = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
}

/// Names that resolve differently in each process.
fn own_view(tid: i32, path: &Path) -> Option<PathBuf> {
    let own = |rest: &Path| Some(Path::new(&format!("/proc/{tid}")).join(rest));
    for prefix in ["/proc/self", "/proc/thread-self"] {
        if let Ok(rest) = path.strip_prefix(prefix) {
            return own(rest);
        }
    }
    if let Ok(rest) = path.strip_prefix("/dev/fd") {
        return own(&Path::new("fd").join(rest));
    }
    let standard = ["/dev/stdin", "/dev/stdout", "/dev/stderr"];
    let number = standard.iter().position(|name| path == Path::new(name))?;
    own(Path::new(&format!("fd/{number}")))
}

/// The path at `pointer` in the memory of `tid`.
pub(super) fn read_path(tid: i32, pointer: u64) -> Option<PathBuf> {
    let mut bytes = [0; libc::PATH_MAX as usize];
    let read = read_memory(tid, pointer, &mut bytes).ok()?;
    let length = bytes[..read].iter().position(|&b| b == 0)?;
    Some(PathBuf::from(OsStr::from_bytes(&bytes[..length])))
}

/// Device and inode of what `meta` describes.
pub(super) fn identity(meta: &Metadata) -> Identity {
    (meta.dev(), meta.ino())
}

/// True for a file whose content or metadata a program may damage: not a terminal or other character device,
/// pipe or socket. A block device counts, because it contains files.
pub(super) fn is_lasting(meta: &Metadata) -> bool {
    let kind = meta.file_type();
    !(kind.is_char_device() || kind.is_fifo() || kind.is_socket())
}

/// True for memory behind a descriptor (memfd), given its path and metadata.
pub(super) fn is_memory(path: &Path, meta: &Metadata) -> bool {
    meta.nlink() == 0 && path.as_os_str().as_bytes().starts_with(b"/memfd:")
}

/// True for a node of a device, which others reach through it.
pub(super) fn is_device(meta: &Metadata) -> bool {
    let kind = meta.file_type();
    kind.is_char_device() || kind.is_block_device()
}

/// The process that a name in `/proc` is a view of.
pub(super) fn viewed_process(path: &Path) -> Option<i32> {
    path.strip_prefix("/proc").ok()?.components().next()?.as_os_str().to_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_ones_own_are_translated() {
        let view = |path: &str| own_view(7, Path::new(path));
        assert_eq!(view("/proc/self/fd/3"), Some("/proc/7/fd/3".into()));
        assert_eq!(view("/dev/fd/3"), Some("/proc/7/fd/3".into()));
        assert_eq!(view("/dev/stderr"), Some("/proc/7/fd/2".into()));
        assert_eq!(view("/proc/selfish"), None);
        assert_eq!(view("/dev/null"), None);
        assert_eq!(viewed_process(Path::new("/proc/12/oom_score_adj")), Some(12));
        assert_eq!(viewed_process(Path::new("/proc/sys/vm/drop_caches")), None);
    }

    #[test]
    fn directories_are_reported_by_their_paths() {
        for path in ["/proc/7/cwd/.", "/proc/7/cwd/..", "./", "a/..//"] {
            assert!(!ends_in_name(Path::new(path)), "{path}");
        }
        assert!(["/", "a", "/a/b/", ".a"].into_iter().all(|path| ends_in_name(Path::new(path))));
        let here = std::env::current_dir().unwrap();
        let place = look("/proc/self/cwd/.".into());
        assert_eq!((&place.shown, place.name), (&here, None));
        let other = look("/proc/self/cwd/../x".into());
        assert_eq!(other.shown, here.parent().unwrap().join("x"));
        assert!(other.name.is_some() && other.own.is_none());
    }

    #[test]
    fn paths_are_read_from_memory() {
        let pid = std::process::id() as i32;
        let text = b"/bin/ls\0";
        let args = [text.as_ptr() as u64, 0, 0, 0, 0, 0];
        let place = named(pid, PathArgument::Path, &args).unwrap();
        assert!(place.target.unwrap().is_file());
        assert!(named(pid, PathArgument::Path, &[8, 0, 0, 0, 0, 0]).is_none());
    }
}
