//! Writes a result to a file that the user named: replaces an old file by a complete new one.
//!
//! The path is resolved once, one component at a time, to an open directory and a name. All further steps use
//! those, so a link that is changed meanwhile has no effect. A link stays: its target is replaced. The new
//! file keeps the owner, group, access list and read/write permissions of the old one. It never gets execute
//! permission or a set-user-ID, set-group-ID or sticky bit: those belonged to other content. If the owner
//! cannot be kept, nothing is written.
//!
//! Files of others in world-writable sticky directories, and FIFOs of others, are refused. Root does not
//! follow links of others. This matches `fs.protected_regular`, `protected_fifos` and `protected_symlinks`
//! (proc_sys_fs(5)), and also applies on systems that have them off. Anything that is not a regular file, and
//! this process's own output, is written to directly.
//!
//! Not kept: times, hard links, extended attributes other than the access list. Overhead: three calls for
//! each component, and those of [`part_file`](crate::part_file).

use crate::error::SysError;
use crate::part_file::{FilePermissions, PartFileTarget};
use crate::trusted_path::{PathEnd, PathError, PathObject, is_others_in_sticky, lead_to_result};
use crate::{attributes, trusted_path};
use rustix::fs::{FileType, Mode, OFlags, fstat};
use rustix::io::Errno;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

/// The only permission bits that a result takes from the file that it replaces.
const READ_AND_WRITE: u32 = 0o666;

/// Why a result is not written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    #[error(transparent)]
    Sys(#[from] SysError),
    /// The path leads there only through a link of another account.
    #[error("{} {why}, so its link is not followed", .at.display())]
    Link { at: std::path::PathBuf, why: trusted_path::PathDoubt },
    /// Another account made the file in a world-writable directory, or a FIFO anywhere.
    #[error("it belongs to another user (uid {0}), who may have planted it")]
    Planted(u32),
    /// This account cannot give the new file to the owner of the old one.
    #[error("it belongs to another user (uid {0}), who cannot keep it")]
    Foreign(u32),
}

impl From<PathError> for OutputError {
    fn from(error: PathError) -> Self {
        match error {
            PathError::Sys(error) => Self::Sys(error),
            PathError::Doubtful { at, why } => Self::Link { at, why },
        }
    }
}

impl OutputError {
    /// Advice for the user.
    #[must_use]
    pub fn help(&self) -> Option<&'static str> {
        match self {
            Self::Sys(_) => None,
            Self::Link { .. } => Some("give the path that the link leads to"),
            Self::Planted(_) | Self::Foreign(_) => Some("give another name, or remove that file"),
        }
    }
}

/// Writes a complete result or nothing. A new file gets `mode`.
///
/// # Errors
/// When the path leads to no usable place, or only through something that another account planted.
pub fn write(path: &Path, content: &[u8], mode: u32) -> Result<(), OutputError> {
    let failed = |error: Errno| SysError::new("open", path.display().to_string(), error);
    match lead_to_result(path)? {
        PathEnd::Directory(_) => Err(failed(Errno::ISDIR).into()),
        PathEnd::Nowhere { is_last: false, .. } => Err(failed(Errno::NOENT).into()),
        PathEnd::Nowhere { above, name, is_last: true } => Ok(PartFileTarget::within(above, &name)
            .write(content, &FilePermissions::new(mode), true)?),
        PathEnd::Other(found) if is_open_as(&found, std::io::stdout()) => {
            let written = std::io::stdout().lock().write_all(content);
            Ok(written.map_err(|error| SysError::new("write", "standard output", error))?)
        }
        PathEnd::Other(found) if is_open_as(&found, std::io::stderr()) => {
            let written = std::io::stderr().lock().write_all(content);
            Ok(written.map_err(|error| SysError::new("write", "standard error", error))?)
        }
        PathEnd::Other(found) => over(found, content),
    }
}

fn is_open_as(found: &PathObject, stream: impl AsFd) -> bool {
    let there = &found.stat;
    fstat(stream).is_ok_and(|own| (own.st_dev, own.st_ino) == (there.st_dev, there.st_ino))
}

/// Writes directly to an existing target.
fn over(found: PathObject, content: &[u8]) -> Result<(), OutputError> {
    let kind = FileType::from_raw_mode(found.stat.st_mode);
    let is_planted = !found.is_magic
        && match kind {
            FileType::RegularFile => is_others_in_sticky(&found.above.stat()?, &found.stat),
            // Opening it waits for a reader, possibly for ever.
            FileType::Fifo => {
                ![0, rustix::process::geteuid().as_raw()].contains(&found.stat.st_uid)
            }
            _ => false,
        };
    if is_planted {
        return Err(OutputError::Planted(found.stat.st_uid));
    }
    if kind != FileType::RegularFile || found.is_magic {
        return Ok(into(&found, content)?);
    }
    let rights = rights_of(&found)?;
    Ok(PartFileTarget::within(found.above, &found.name).write(content, &rights, true)?)
}

/// Permissions of the old file that the new one must get.
fn rights_of(found: &PathObject) -> Result<FilePermissions, OutputError> {
    let user = rustix::process::geteuid();
    if found.stat.st_uid != user.as_raw() && !user.is_root() {
        return Err(OutputError::Foreign(found.stat.st_uid));
    }
    let list = attributes::access_list(&found.file)?;
    Ok(FilePermissions {
        owner: Some((found.stat.st_uid, found.stat.st_gid)),
        mode: found.stat.st_mode & READ_AND_WRITE,
        access_list: list.map(attributes::without_execution),
    })
}

/// Writes to a device, a pipe, or a file known only by its descriptor.
fn into(found: &PathObject, content: &[u8]) -> Result<(), SysError> {
    let failed = |call, error| {
        SysError::new(call, found.above.path().join(&found.name).display().to_string(), error)
    };
    let path = format!("/proc/self/fd/{}", found.file.as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    let mut file = File::from(opened.map_err(|error| failed("open", error.into()))?);
    file.write_all(content).map_err(|error| failed("write", error))
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests {
    use super::*;
    use crate::part_file::PRIVATE;
    use std::fs::{Permissions, metadata, set_permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
    use std::path::PathBuf;

    /// A user id that nothing in these tests has.
    const STRANGER: u32 = 65001;

    fn place(mode: u32) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        (dir, path)
    }

    fn file(path: &Path, owner: u32, mode: u32) {
        std::fs::write(path, "theirs").unwrap();
        chown(path, Some(owner), Some(owner)).unwrap();
        set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn refused(path: &Path) -> String {
        write(path, b"ours", PRIVATE).unwrap_err().to_string()
    }

    fn is_root(test: &str) -> bool {
        let is_root = rustix::process::geteuid().is_root();
        if !is_root {
            println!("SKIP {test}: only root gives files away");
        }
        is_root
    }

    #[test]
    fn a_new_file_and_the_target_of_a_link_are_written_whole() {
        let (_dir, path) = place(0o700);
        let (file, link) = (path.join("file"), path.join("link"));
        symlink("file", &link).unwrap();
        for (name, text) in [(&link, b"one"), (&file, b"two"), (&link, b"six")] {
            write(name, text, PRIVATE).unwrap();
            assert_eq!(std::fs::read(&file).unwrap(), text);
        }
        assert!(link.is_symlink() && metadata(&file).unwrap().mode() & 0o7777 == 0o600);
        assert!(refused(&path).contains("directory"), "{}", refused(&path));
        assert!(refused(&file.join("x")).contains("irectory"));
        assert!(refused(&path.join("none/x")).contains("No such file"));
        symlink("loop", path.join("loop")).unwrap();
        assert!(refused(&path.join("loop")).contains("symbolic links"));
    }

    #[test]
    fn a_mode_that_is_kept_is_to_read_and_write_alone() {
        let (_dir, path) = place(0o700);
        let file = path.join("file");
        std::fs::write(&file, "").unwrap();
        for (before, after) in [(0o6777, 0o666), (0o4755, 0o644), (0o1640, 0o640)] {
            set_permissions(&file, Permissions::from_mode(before)).unwrap();
            write(&file, b"x", PRIVATE).unwrap();
            assert_eq!(metadata(&file).unwrap().mode() & 0o7777, after, "{before:o}");
        }
    }

    #[test]
    fn a_file_of_another_keeps_its_owner() {
        if !is_root("a_file_of_another_keeps_its_owner") {
            return;
        }
        let (_dir, path) = place(0o755);
        let theirs = path.join("file");
        file(&theirs, STRANGER, 0o6777);
        write(&theirs, b"ours", PRIVATE).unwrap();
        let now = metadata(&theirs).unwrap();
        assert_eq!((now.uid(), now.gid(), now.mode() & 0o7777), (STRANGER, STRANGER, 0o666));
    }

    #[test]
    fn what_others_plant_in_shared_directories_is_refused() {
        if !is_root("what_others_plant_in_shared_directories_is_refused") {
            return;
        }
        let (_dir, own) = place(0o755);
        let fifo = own.join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, 0o666.into(), 0).unwrap();
        chown(&fifo, Some(STRANGER), None).unwrap();
        assert!(refused(&fifo).contains("uid 65001"), "it would wait for a reader");
        for mode in [0o1777, 0o1775] {
            let (_dir, path) = place(mode);
            let theirs = path.join("file");
            file(&theirs, STRANGER, 0o666);
            assert!(refused(&theirs).contains("uid 65001"), "{}", refused(&theirs));
            let fifo = path.join("fifo");
            rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, 0o666.into(), 0).unwrap();
            chown(&fifo, Some(STRANGER), None).unwrap();
            assert!(refused(&fifo).contains("uid 65001"));
            assert_eq!(std::fs::read(&theirs).unwrap(), b"theirs");
        }
    }

    #[test]
    fn a_link_of_another_is_not_followed_by_root() {
        if !is_root("a_link_of_another_is_not_followed_by_root") {
            return;
        }
        for mode in [0o755, 0o777, 0o1777] {
            let (_dir, path) = place(mode);
            let (victim, link) = (path.join("victim"), path.join("link"));
            std::fs::write(&victim, "before").unwrap();
            symlink(&victim, &link).unwrap();
            std::os::unix::fs::lchown(&link, Some(STRANGER), None).unwrap();
            let (above, inner) = (path.join("above"), path.join("inner"));
            std::fs::create_dir(&inner).unwrap();
            symlink(&inner, &above).unwrap();
            std::os::unix::fs::lchown(&above, Some(STRANGER), None).unwrap();
            for planted in [link, above.join("new")] {
                assert!(refused(&planted).ends_with("so its link is not followed"));
            }
            assert_eq!(std::fs::read(&victim).unwrap(), b"before");
            assert_eq!(std::fs::read_dir(&inner).unwrap().count(), 0);
        }
    }

    #[test]
    fn an_access_list_stays_without_rights_to_execute() {
        // linux/posix_acl_xattr.h: version 2; owner rwx, user 65001 rwx, group, mask rwx, others.
        let entries: [(u16, u16, u32); 5] =
            [(1, 7, !0), (2, 7, STRANGER), (4, 5, !0), (16, 7, !0), (32, 0, !0)];
        let entry = |(tag, rights, id): (u16, u16, u32)| {
            [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat()
        };
        let list = [2_u32.to_le_bytes().to_vec(), entries.map(entry).concat()].concat();
        let (_dir, path) = place(0o700);
        let file = path.join("file");
        std::fs::write(&file, "").unwrap();
        let name = attributes::ACCESS_LIST;
        let flags = rustix::fs::XattrFlags::empty();
        if let Err(error) = rustix::fs::setxattr(&file, name, &list, flags) {
            return println!("SKIP an_access_list_stays: {error}");
        }
        write(&file, b"x", PRIVATE).unwrap();
        let now = attributes::access_list(&File::open(&file).unwrap()).unwrap();
        assert_eq!(now, Some(attributes::without_execution(list.clone())));
        assert_ne!(now, Some(list));
        assert_eq!(metadata(&file).unwrap().mode() & 0o7777, 0o660);
    }

    #[test]
    fn devices_pipes_and_descriptors_are_written_to() {
        let (_dir, path) = place(0o700);
        write(Path::new("/dev/null"), b"x", PRIVATE).unwrap();
        let (mut read, write_end) = std::io::pipe().unwrap();
        let name = format!("/dev/fd/{}", write_end.as_raw_fd());
        write(Path::new(&name), b"piped", PRIVATE).unwrap();
        drop(write_end);
        let mut text = String::new();
        std::io::Read::read_to_string(&mut read, &mut text).unwrap();
        assert_eq!(text, "piped");
        let open = File::create(path.join("file")).unwrap();
        let name = format!("/proc/self/fd/{}", open.as_raw_fd());
        write(Path::new(&name), b"by its descriptor", PRIVATE).unwrap();
        assert_eq!(std::fs::read(path.join("file")).unwrap(), b"by its descriptor");
    }
}
