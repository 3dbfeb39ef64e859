//! A mount namespace for this process and its children: it can replace a file for them alone
//! (mount_namespaces(7)).
//!
//! A process with CAP_SYS_ADMIN enters one by unshare(2). Without it, the process must also enter a user
//! namespace (user_namespaces(7)), where only its own user and group are mapped, to themselves. There, files
//! of other users show as those of `nobody`, set-user-id programs of others give no rights, and operations
//! that need privileges on the machine are refused. The process has all capabilities in that namespace until
//! it executes a program. New mounts from outside still arrive (`MS_SLAVE`); mounts made here do not leave.
//!
//! The replacement is created on a separate tmpfs with `huge=always`. While it is created, that tmpfs is
//! mounted over the directory of the target (over `/dev` if that is the root). Then the file is bound over
//! the target read-only, and only this bind mount keeps it alive. The copy belongs to this user, and any
//! attempt to write it fails with EROFS, so no program mistakes it for a file that it may change. No cleanup
//! is needed: namespace, mount and memory end with the last process in it, however that ends (fs/namespace.c,
//! `put_mnt_ns`).
//!
//! Not seen: other names of the same file (hard links, other mounts of its file system), which still lead to
//! the original. Overhead: seven calls, some 0.1 ms, and the memory of the copy, which is not shared with
//! other starts.

use crate::error::SysError;
use rustix::fs::{Mode, OFlags};
use std::ffi::{CStr, CString};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Directory that is hidden while a copy of a file in the root directory is created.
const BESIDE_ROOT: &str = "/dev";

/// Flags of a read-only bind remount; the other flags are those of its file system.
const FOR_READING: libc::c_ulong =
    libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY | libc::MS_NOSUID | libc::MS_NODEV;

/// A namespace that this process has entered.
#[derive(Debug)]
pub struct MountNamespace {
    has_own_users: bool,
}

impl MountNamespace {
    /// Enters a mount namespace, together with a user namespace if the right to enter one alone is missing. A
    /// process with several threads cannot enter a user namespace.
    ///
    /// # Errors
    /// When either is refused: by limits, a filter, or a security module.
    pub fn enter() -> Result<Self, SysError> {
        let has_own_users = match unshare(libc::CLONE_NEWNS, "a mount namespace") {
            Err(error) if error.errno() == Some(libc::EPERM) => {
                enter_with_users()?;
                true
            }
            done => {
                done?;
                false
            }
        };
        mount(c"none", c"/", c"none", libc::MS_REC | libc::MS_SLAVE, c"")?;
        Ok(Self { has_own_users })
    }

    /// Whether it is in a user namespace that maps only this user.
    #[must_use]
    pub const fn has_own_users(&self) -> bool {
        self.has_own_users
    }

    /// Replaces `target`, at every path that leads to it. `make` creates the replacement under the name it is
    /// given. The rest of the directory is hidden meanwhile.
    ///
    /// # Errors
    /// The error of `make`, or a refused mount.
    pub fn cover<E: From<SysError>>(
        &self,
        target: &Path,
        make: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<(), E> {
        let failed = |call| {
            let subject = target.display().to_string();
            move |error: std::io::Error| SysError::new(call, subject, error)
        };
        let whole = target.canonicalize().map_err(failed("realpath"))?;
        let no_file = || failed("mount")(ErrorKind::IsADirectory.into());
        let (directory, name) = whole.parent().zip(whole.file_name()).ok_or_else(no_file)?;
        // Kept open, because its name is hidden while the copy is created.
        let held = rustix::fs::open(&whole, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| failed("open")(error.into()))?;
        // Path lookups that start at the root do not see a mount over the root.
        let is_root = directory == Path::new("/");
        let place = if is_root { Path::new(BESIDE_ROOT) } else { directory };
        let (copy, hidden) = (place.join(name), text(place)?);
        mount_memory(&hidden)?;
        let made = make(&copy).and_then(|()| {
            let over = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
            Ok(mount(&text(&copy)?, &text(&over)?, c"none", libc::MS_BIND, c"")?)
        });
        let shown = detach(&hidden);
        made?;
        shown?;
        // Only now does its path lead to the copy: nothing hides it any more.
        Ok(mount(c"none", &text(&whole)?, c"none", FOR_READING, c"")?)
    }
}

/// Enters a mount namespace in a user namespace that maps only this user.
fn enter_with_users() -> Result<(), SysError> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS, "a user namespace and a mount namespace")?;
    // Without the right to change groups, this must precede the group map.
    let settings = [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{0} {0} 1", user.as_raw())),
        ("/proc/self/gid_map", format!("{0} {0} 1", group.as_raw())),
    ];
    for (path, text) in settings {
        std::fs::write(path, text).map_err(|error| SysError::new("write", path, error))?;
    }
    Ok(())
}

fn unshare(flags: libc::c_int, what: &str) -> Result<(), SysError> {
    // SAFETY: takes a number, and changes what this process sees and may do; touches no memory.
    match unsafe { libc::unshare(flags) } {
        0 => Ok(()),
        _ => Err(SysError::last("unshare", what)),
    }
}

/// Mounts a file system in memory, on huge pages.
fn mount_memory(at: &CStr) -> Result<(), SysError> {
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    mount(c"pagewise", at, c"tmpfs", flags, c"mode=0755,huge=always")
}

fn mount(
    source: &CStr,
    target: &CStr,
    kind: &CStr,
    flags: libc::c_ulong,
    data: &CStr,
) -> Result<(), SysError> {
    let (from, at, kind, data) = (source.as_ptr(), target.as_ptr(), kind.as_ptr(), data.as_ptr());
    // SAFETY: the four are NUL-terminated texts in the caller's frame, which the kernel only reads.
    match unsafe { libc::mount(from, at, kind, flags, data.cast()) } {
        0 => Ok(()),
        _ => Err(SysError::last("mount", target.to_string_lossy())),
    }
}

/// Unmounts a mount; what is bound elsewhere stays.
fn detach(at: &CStr) -> Result<(), SysError> {
    // SAFETY: reads a NUL-terminated text in the caller's frame.
    match unsafe { libc::umount2(at.as_ptr(), libc::MNT_DETACH) } {
        0 => Ok(()),
        _ => Err(SysError::last("umount2", at.to_string_lossy())),
    }
}

fn text(path: &Path) -> Result<CString, SysError> {
    let nul = |_| SysError::new("mount", path.display().to_string(), ErrorKind::InvalidInput);
    CString::new(path.as_os_str().as_bytes()).map_err(nul)
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests {
    use super::*;

    /// What another thread reads from `path` after it has covered it, if that is permitted.
    fn covered(path: &Path, with: &'static str) -> Result<String, SysError> {
        let path = path.to_owned();
        let thread = std::thread::spawn(move || {
            let namespace = MountNamespace::enter()?;
            namespace.cover(&path, |copy| {
                std::fs::write(copy, with)
                    .map_err(|error| SysError::new("write", copy.display().to_string(), error))
            })?;
            let beside = path.with_file_name("beside");
            assert_eq!(std::fs::read_to_string(beside).unwrap(), "beside");
            let refused = std::fs::write(&path, "changed").unwrap_err().raw_os_error();
            assert_eq!(refused, Some(libc::EROFS));
            Ok(std::fs::read_to_string(&path).unwrap())
        });
        thread.join().unwrap()
    }

    #[test]
    fn a_file_is_covered_for_those_in_the_namespace_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        std::fs::write(&file, "the file").unwrap();
        std::fs::write(dir.path().join("beside"), "beside").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        for path in [&file, &link] {
            match covered(path, "the copy") {
                // A test thread cannot enter a user namespace.
                Err(error) => println!("SKIP a_file_is_covered: {error}"),
                Ok(text) => assert_eq!(text, "the copy"),
            }
            assert_eq!(std::fs::read_to_string(path).unwrap(), "the file");
        }
        let names = dir.path().read_dir().unwrap().count();
        assert_eq!(names, 3, "nothing is left beside it");
    }

    #[test]
    fn a_copy_that_cannot_be_made_covers_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "the file").unwrap();
        let path = file.clone();
        let thread = std::thread::spawn(move || -> Result<String, SysError> {
            let namespace = MountNamespace::enter()?;
            let refused = |_: &Path| Err(SysError::malformed("make", "it"));
            let error = namespace.cover(&path, refused).unwrap_err();
            assert_eq!(error.call, "make");
            let gone = namespace.cover(Path::new("/nonexistent/file"), |_| Ok(()));
            assert!(SysError::is_gone(&gone.unwrap_err()));
            Ok(std::fs::read_to_string(&path).unwrap())
        });
        match thread.join().unwrap() {
            Err(error) => println!("SKIP a_copy_that_cannot_be_made: {error}"),
            Ok(text) => assert_eq!(text, "the file"),
        }
    }
}
