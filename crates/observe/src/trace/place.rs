//! What a path or descriptor argument of another process' call means: read from its memory and
//! looked up from its directories through `/proc/PID`, before the call changes anything.

use super::calls::Named;
use pagewise_tracee::ptrace::read_memory;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Device and inode: one file, whatever its names.
pub(super) type Identity = (u64, u64);

/// A file that a call names.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// A path to it that works from here.
    pub(super) path: PathBuf,
    /// Its absolute path, for people and for comparing names.
    pub(super) shown: PathBuf,
    /// What is there when links are followed.
    pub(super) target: Option<Metadata>,
    /// What is there itself.
    pub(super) own: Option<Metadata>,
}

/// The file that call arguments `args` of thread `tid` name.
pub(super) fn named(tid: i32, named: Named, args: &[u64; 6]) -> Option<Place> {
    let (directory, pointer) = match named {
        Named::Path => (libc::AT_FDCWD, args[0]),
        Named::At => (args[0] as i32, args[1]),
        Named::SecondPath => (libc::AT_FDCWD, args[1]),
        Named::SecondAt => (args[1] as i32, args[2]),
        Named::ThirdAt => (args[2] as i32, args[3]),
    };
    if pointer == 0 {
        return (directory >= 0).then(|| opened(tid, directory)).flatten();
    }
    let text = read_path(tid, pointer)?;
    if text.as_os_str().is_empty() {
        return (directory >= 0).then(|| opened(tid, directory)).flatten();
    }
    let path = own_view(tid, &text).unwrap_or_else(|| match directory {
        _ if text.is_absolute() => text.clone(),
        libc::AT_FDCWD => Path::new(&format!("/proc/{tid}/cwd")).join(&text),
        fd => Path::new(&format!("/proc/{tid}/fd/{fd}")).join(&text),
    });
    Some(look(path))
}

/// The file that descriptor `fd` of thread `tid` leads to.
pub(super) fn opened(tid: i32, fd: i32) -> Option<Place> {
    let path = PathBuf::from(format!("/proc/{tid}/fd/{fd}"));
    let target = fs::metadata(&path).ok()?;
    let shown = fs::read_link(&path).ok()?;
    Some(Place { path, shown, own: Some(target.clone()), target: Some(target) })
}

fn look(path: PathBuf) -> Place {
    let (target, own) = (fs::metadata(&path).ok(), fs::symlink_metadata(&path).ok());
    let parent = path.parent().and_then(|p| fs::canonicalize(p).ok());
    let shown = match (parent, path.file_name()) {
        (Some(parent), Some(name)) => parent.join(name),
        _ => path.clone(),
    };
    Place { path, shown, target, own }
}

/// Names that mean something else in each process.
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
fn read_path(tid: i32, pointer: u64) -> Option<PathBuf> {
    let mut bytes = [0; libc::PATH_MAX as usize];
    let read = read_memory(tid, pointer, &mut bytes).ok()?;
    let length = bytes[..read].iter().position(|&b| b == 0)?;
    Some(PathBuf::from(OsStr::from_bytes(&bytes[..length])))
}

/// Device and inode of what `meta` describes.
pub(super) fn identity(meta: &Metadata) -> Identity {
    (meta.dev(), meta.ino())
}

/// True for a file whose content or marks a program may spoil: not a device, pipe or socket.
pub(super) fn is_lasting(meta: &Metadata) -> bool {
    let kind = meta.file_type();
    !(kind.is_char_device() || kind.is_block_device() || kind.is_fifo() || kind.is_socket())
}

/// True for names that are views of processes and not files.
pub(super) fn is_process_view(path: &Path) -> bool {
    let mut parts = path.components().skip(1).map(|c| c.as_os_str().as_bytes());
    parts.next() == Some(b"proc")
        && parts.next().is_some_and(|p| p.iter().all(u8::is_ascii_digit) || p == b"self")
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
        assert!(is_process_view(Path::new("/proc/12/oom_score_adj")));
        assert!(!is_process_view(Path::new("/proc/sys/vm/drop_caches")));
    }

    #[test]
    fn paths_are_read_from_memory() {
        let pid = std::process::id() as i32;
        let text = b"/bin/ls\0";
        let args = [text.as_ptr() as u64, 0, 0, 0, 0, 0];
        let place = named(pid, Named::Path, &args).unwrap();
        assert!(place.target.unwrap().is_file());
        assert!(named(pid, Named::Path, &[8, 0, 0, 0, 0, 0]).is_none());
    }
}
