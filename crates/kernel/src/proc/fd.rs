//! `/proc/PID/fd`: the descriptors of a process and their targets.
//!
//! Each entry is a link. Its text names the target (`pipe:[1234]`, `socket:[1234]`, a path), and its
//! permission bits say whether the descriptor is open for reading or writing (fs/proc/fd.c). Costs about 3 us
//! per descriptor. Descriptors that close while the directory is read are left out.

use super::{number, pid_path};
use crate::error::SysError;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Target of a descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DescriptorTarget {
    /// A pipe, by inode.
    Pipe(u64),
    /// A socket, by inode.
    Socket(u64),
    /// An object without a file: `eventpoll`, `eventfd`, `perf_event`, ...
    Anonymous(String),
    /// A memfd, by the name that its creator gave.
    Memfd(String),
    /// A file under `/dev`.
    Device(PathBuf),
    /// Any other file or directory.
    File(PathBuf),
    /// A deleted file, by its last name.
    Deleted(PathBuf),
}

impl DescriptorTarget {
    /// One word for the kind, as counted in reports.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Pipe(_) => "pipe",
            Self::Socket(_) => "socket",
            Self::Anonymous(_) => "anonymous",
            Self::Memfd(_) => "memfd",
            Self::Device(_) => "device",
            Self::File(_) | Self::Deleted(_) => "regular",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenDescriptor {
    pub fd: i32,
    /// Target of the descriptor.
    pub target: DescriptorTarget,
    /// Open for reading.
    pub readable: bool,
    /// Open for writing.
    pub writable: bool,
}

/// Parses the text of a link.
#[must_use]
pub fn parse_target(link: &[u8]) -> DescriptorTarget {
    let bracketed = |prefix: &[u8]| -> Option<u64> {
        number(link.strip_prefix(prefix)?.strip_prefix(b":[")?.strip_suffix(b"]")?)
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let path = |bytes: &[u8]| PathBuf::from(std::ffi::OsStr::from_bytes(bytes));
    if let Some(inode) = bracketed(b"pipe") {
        return DescriptorTarget::Pipe(inode);
    }
    if let Some(inode) = bracketed(b"socket") {
        return DescriptorTarget::Socket(inode);
    }
    if let Some(name) = link.strip_prefix(b"anon_inode:") {
        let name = name.strip_prefix(b"[").and_then(|n| n.strip_suffix(b"]")).unwrap_or(name);
        return DescriptorTarget::Anonymous(text(name));
    }
    if let Some(name) = link.strip_prefix(b"/memfd:") {
        return DescriptorTarget::Memfd(text(name.strip_suffix(b" (deleted)").unwrap_or(name)));
    }
    if link.starts_with(b"/dev/") {
        return DescriptorTarget::Device(path(link));
    }
    if !link.starts_with(b"/") {
        return DescriptorTarget::Anonymous(text(link));
    }
    match link.strip_suffix(b" (deleted)") {
        Some(name) => DescriptorTarget::Deleted(path(name)),
        None => DescriptorTarget::File(path(link)),
    }
}

/// The descriptors of process `pid`. Needs the right to trace it.
pub fn list(pid: i32) -> Result<Vec<OpenDescriptor>, SysError> {
    let dir = pid_path(pid, "fd");
    let fail = |e| SysError::new("read_dir", dir.clone(), e);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&dir).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        found.extend(describe(&entry.path()));
    }
    found.sort_by_key(|d| d.fd);
    Ok(found)
}

fn describe(link: &Path) -> Option<OpenDescriptor> {
    let fd = number(link.file_name()?.as_bytes())?;
    let mode = link.symlink_metadata().ok()?.permissions().mode();
    let target = parse_target(std::fs::read_link(link).ok()?.as_os_str().as_bytes());
    Some(OpenDescriptor { fd, target, readable: mode & 0o400 != 0, writable: mode & 0o200 != 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn targets() {
        assert_eq!(parse_target(b"pipe:[42]"), DescriptorTarget::Pipe(42));
        assert_eq!(parse_target(b"socket:[7]"), DescriptorTarget::Socket(7));
        assert_eq!(
            parse_target(b"anon_inode:[eventpoll]"),
            DescriptorTarget::Anonymous("eventpoll".into())
        );
        assert_eq!(
            parse_target(b"anon_inode:inotify"),
            DescriptorTarget::Anonymous("inotify".into())
        );
        assert_eq!(parse_target(b"/memfd:a b (deleted)"), DescriptorTarget::Memfd("a b".into()));
        assert_eq!(parse_target(b"/dev/null").kind(), "device");
        assert_eq!(parse_target(b"/tmp/x (deleted)"), DescriptorTarget::Deleted("/tmp/x".into()));
        assert_eq!(parse_target(b"/pipe:[42]").kind(), "regular");
        assert_eq!(parse_target(b"pipe:[x]").kind(), "anonymous");
    }

    #[test]
    fn own_pipe_is_found_with_its_directions() {
        let (reader, writer) = std::io::pipe().unwrap();
        let list = list(crate::proc::own_pid()).unwrap();
        let find = |fd: i32| list.iter().find(|d| d.fd == fd).unwrap();
        let (r, w) = (find(reader.as_raw_fd()), find(writer.as_raw_fd()));
        assert_eq!(r.target, w.target);
        assert_eq!(r.target.kind(), "pipe");
        assert!(r.readable && !r.writable && w.writable && !w.readable);
    }
}
