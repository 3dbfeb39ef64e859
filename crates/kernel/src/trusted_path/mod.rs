//! A path that only root and this account can redirect.
//!
//! The path is walked from the root, one component at a time, each opened in the previous directory
//! (openat(2), `O_PATH | O_NOFOLLOW`). Every directory on the way must belong to root or to this account. No
//! other account may write to it, unless its sticky bit prevents others from renaming its entries. A symbolic
//! link is followed if it belongs to root or to this account; its directory has already passed. The resulting
//! path has no links. No other account can rename one of its components, so it leads to the same directory
//! for as long as that exists. That is why callers may use the path instead of a descriptor: a search path
//! (PATH) can contain it.
//!
//! Two cases need more care. If each user has a private group, directories are often group-writable. That is
//! accepted if `/etc/passwd` and `/etc/group` show no other member and the directory has no access control
//! list. In a user namespace (user_namespaces(7)), users without a number inside show as the overflow user.
//! There, directories of the overflow user count as root's, because no process inside can be that user.
//!
//! Not seen: group members that only a directory service knows; mounts that root makes later. Overhead: three
//! calls per component, some 10 us in total.

use crate::attributes;
use crate::error::SysError;
use crate::proc::{lines, number, read_bytes, read_number, read_text};
use rustix::fs::{FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// Maximum number of links in one path, the same as the kernel's.
const MOST_LINKS: u32 = 40;
pub(crate) const WRITABLE_BY_GROUP: u32 = 0o020;
pub(crate) const WRITABLE_BY_ALL: u32 = 0o002;
pub(crate) const STICKY: u32 = 0o1000;
const PATH_ONLY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const DIRECTORY_ONLY: OFlags = PATH_ONLY.union(OFlags::DIRECTORY);

/// Why other accounts could redirect a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathDoubt {
    /// It belongs to another user.
    #[error("belongs to another user (uid {0})")]
    Foreign(u32),
    /// Every user may write to it, or rename its entries.
    #[error("can be written by every user")]
    Open,
    /// The members of a group may write to it, or rename its entries.
    #[error("can be written by other users (group {0})")]
    Group(u32),
}

/// Why no usable directory was found.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    #[error(transparent)]
    Sys(#[from] SysError),
    /// Other accounts could redirect the path.
    #[error("{} {why}", .at.display())]
    Doubtful {
        /// The part that they could change.
        at: PathBuf,
        why: PathDoubt,
    },
}

impl From<PathError> for SysError {
    fn from(error: PathError) -> Self {
        match error {
            PathError::Sys(error) => error,
            PathError::Doubtful { at, why } => {
                let kind = std::io::ErrorKind::PermissionDenied;
                let why = std::io::Error::new(kind, why.to_string());
                Self::new("open", at.display().to_string(), why)
            }
        }
    }
}

/// What a walk does if a name does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingNamePolicy {
    Ends,
    /// Creates a directory for this account only.
    IsMade,
    /// Creates a directory that others may enter and read.
    IsMadeOpen,
}

/// What a walk accepts on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PathTrust {
    /// Only what root alone can change.
    Root,
    /// Only what no other account can change.
    Whole,
    /// Every directory, but no link that another account planted: for results that a user asked for by name.
    Links,
}

/// An open directory that no other account can replace.
#[derive(Debug)]
pub struct TrustedDir {
    fd: OwnedFd,
    path: PathBuf,
    trust: PathTrust,
}

impl AsFd for TrustedDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Target of a path.
#[derive(Debug)]
pub(crate) enum PathEnd {
    Directory(TrustedDir),
    Other(PathObject),
    /// The name does not exist in that directory. `is_last`: no further names follow it.
    Nowhere {
        above: TrustedDir,
        name: OsString,
        is_last: bool,
    },
}

/// An object that is neither directory nor link, opened with `O_PATH`.
#[derive(Debug)]
pub(crate) struct PathObject {
    pub(crate) above: TrustedDir,
    pub(crate) name: OsString,
    pub(crate) file: OwnedFd,
    pub(crate) stat: Stat,
    /// A link of /proc led to it, so the directory contains no such name (proc(5), `/proc/PID/fd`).
    pub(crate) is_magic: bool,
}

/// Opens the directory of an absolute path; `None` if it is missing and is not to be created.
///
/// # Errors
/// Whatever could redirect it, and failed calls.
pub fn walk(path: &Path, missing: MissingNamePolicy) -> Result<Option<TrustedDir>, PathError> {
    walk_by(PathTrust::Whole, path, missing)
}

/// The directory of an absolute path in which this account keeps a file for its user. For root this is
/// [`walk`]. Other accounts may use shared directories, and only links that others planted are refused.
///
/// # Errors
/// As [`walk`].
pub fn walk_to_place(
    path: &Path,
    missing: MissingNamePolicy,
) -> Result<Option<TrustedDir>, PathError> {
    let is_root = rustix::process::geteuid().is_root();
    walk_by(if is_root { PathTrust::Whole } else { PathTrust::Links }, path, missing)
}

fn walk_by(
    trust: PathTrust,
    path: &Path,
    missing: MissingNamePolicy,
) -> Result<Option<TrustedDir>, PathError> {
    match lead(root(trust)?, path, missing)? {
        PathEnd::Directory(found) => Ok(Some(found)),
        PathEnd::Other(found) => {
            Err(found.above.failed("openat", &found.name)(Errno::NOTDIR).into())
        }
        PathEnd::Nowhere { .. } => Ok(None),
    }
}

/// Resolves the path of a result. Other accounts may own and change directories on the way; then they can
/// also replace the result. Root follows none of their links. In a world-writable sticky directory no account
/// follows them. That is the rule of `fs.protected_symlinks` (proc_sys_fs(5)), which may be off in the
/// kernel.
pub(crate) fn lead_to_result(path: &Path) -> Result<PathEnd, PathError> {
    let start = if path.is_absolute() {
        root(PathTrust::Links)?
    } else {
        let here = rustix::fs::open(".", DIRECTORY_ONLY, Mode::empty());
        let fd = here.map_err(|error| SysError::new("open", ".", error))?;
        TrustedDir { fd, path: PathBuf::new(), trust: PathTrust::Links }
    };
    lead(start, path, MissingNamePolicy::Ends)
}

/// Why an account other than root could change or replace the file of this absolute path. `None` if no
/// account can, or if the file does not exist.
///
/// # Errors
/// Failed calls.
pub fn doubt(path: &Path) -> Result<Option<(PathBuf, PathDoubt)>, SysError> {
    let checked =
        lead(root(PathTrust::Root)?, path, MissingNamePolicy::Ends).and_then(|end| match end {
            PathEnd::Other(found) => {
                let path = found.above.path.join(&found.name);
                TrustedDir { fd: found.file, path, trust: PathTrust::Root }.check()
            }
            PathEnd::Directory(_) | PathEnd::Nowhere { .. } => Ok(()),
        });
    match checked {
        Ok(()) => Ok(None),
        Err(PathError::Doubtful { at, why }) => Ok(Some((at, why))),
        Err(PathError::Sys(error)) => Err(error),
    }
}

fn lead(from: TrustedDir, path: &Path, missing: MissingNamePolicy) -> Result<PathEnd, PathError> {
    let mut at = from;
    at.check()?;
    let mut left = reversed(path);
    let mut links = 0;
    while let Some(name) = left.pop() {
        match at.step(&name, missing)? {
            PathStep::Into(next) => at = next,
            PathStep::Nowhere => {
                return Ok(PathEnd::Nowhere { above: at, name, is_last: left.is_empty() });
            }
            PathStep::Link(target) => {
                links += 1;
                if links > MOST_LINKS {
                    return Err(at.failed("openat", &name)(Errno::LOOP).into());
                }
                if target.is_absolute() {
                    at = root(at.trust)?;
                }
                left.extend(reversed(&target));
            }
            PathStep::Other { file, stat, is_magic } if left.is_empty() => {
                return Ok(PathEnd::Other(PathObject { above: at, name, file, stat, is_magic }));
            }
            PathStep::Other { .. } => return Err(at.failed("openat", &name)(Errno::NOTDIR).into()),
        }
    }
    Ok(PathEnd::Directory(at))
}

enum PathStep {
    Into(TrustedDir),
    Link(PathBuf),
    Nowhere,
    Other { file: OwnedFd, stat: Stat, is_magic: bool },
}

impl TrustedDir {
    /// Its path, without links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The entry with this name, for the caller to judge. Creates a missing directory if requested.
    ///
    /// # Errors
    /// When a call fails.
    pub fn look(&self, name: &OsStr, missing: MissingNamePolicy) -> Result<Option<Stat>, SysError> {
        let opened = self.open(name, missing)?;
        opened.map(|fd| rustix::fs::fstat(&fd).map_err(self.failed("fstat", name))).transpose()
    }

    fn step(&self, name: &OsStr, missing: MissingNamePolicy) -> Result<PathStep, PathError> {
        let Some(fd) = self.open(name, missing)? else { return Ok(PathStep::Nowhere) };
        let mut path = self.path.clone();
        if name == OsStr::new("..") {
            path.pop();
        } else {
            path.push(name);
        }
        let next = Self { fd, path, trust: self.trust };
        let found = next.stat()?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Symlink => {
                self.check_link(&next, &found)?;
                self.follow(name, next)
            }
            FileType::Directory => {
                next.check()?;
                Ok(PathStep::Into(next))
            }
            _ => Ok(PathStep::Other { file: next.fd, stat: found, is_magic: false }),
        }
    }

    /// Follows a link. Only the kernel can follow those of /proc: their text may not be a path.
    fn follow(&self, name: &OsStr, link: Self) -> Result<PathStep, PathError> {
        let is_magic = rustix::fs::fstatfs(&link.fd).is_ok_and(|fs| fs.f_type == PROC_SUPER_MAGIC);
        if self.trust == PathTrust::Links && is_magic {
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            let opened = rustix::fs::openat(&self.fd, name, flags, Mode::empty());
            let next = Self { fd: opened.map_err(self.failed("openat", name))?, ..link };
            let stat = next.stat()?;
            return Ok(match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => PathStep::Into(next),
                _ => PathStep::Other { file: next.fd, stat, is_magic },
            });
        }
        let target = rustix::fs::readlinkat(&link.fd, "", Vec::new())
            .map_err(self.failed("readlinkat", name))?;
        Ok(PathStep::Link(PathBuf::from(OsString::from_vec(target.into_bytes()))))
    }

    /// Whether a link in this directory may be followed.
    fn check_link(&self, link: &Self, found: &Stat) -> Result<(), PathError> {
        if self.trust != PathTrust::Links || rustix::process::geteuid().is_root() {
            return link.check_owner(found);
        }
        if is_others_in_sticky(&self.stat()?, found) { link.check_owner(found) } else { Ok(()) }
    }

    /// Opens the entry with this name with `O_PATH`.
    fn open(&self, name: &OsStr, missing: MissingNamePolicy) -> Result<Option<OwnedFd>, SysError> {
        // As a directory first: only that triggers file systems that are mounted on first use.
        let open = || match rustix::fs::openat(&self.fd, name, DIRECTORY_ONLY, Mode::empty()) {
            Err(Errno::NOTDIR | Errno::LOOP) => {
                rustix::fs::openat(&self.fd, name, PATH_ONLY, Mode::empty())
            }
            opened => opened,
        };
        let rights = match missing {
            MissingNamePolicy::Ends => None,
            MissingNamePolicy::IsMade => Some(Mode::RWXU),
            MissingNamePolicy::IsMadeOpen => Some(Mode::from_raw_mode(0o755)),
        };
        let opened = match (open(), rights) {
            (Err(Errno::NOENT), None) => return Ok(None),
            (Err(Errno::NOENT), Some(rights)) => {
                match rustix::fs::mkdirat(&self.fd, name, rights) {
                    Ok(()) | Err(Errno::EXIST) => open(),
                    Err(error) => return Err(self.failed("mkdir", name)(error)),
                }
            }
            (opened, _) => opened,
        };
        opened.map(Some).map_err(self.failed("openat", name))
    }

    fn check(&self) -> Result<(), PathError> {
        if self.trust == PathTrust::Links {
            return Ok(());
        }
        let found = self.stat()?;
        self.check_owner(&found)?;
        let is_sticky = is_directory(&found) && found.st_mode & STICKY != 0;
        let others = if is_sticky { 0 } else { found.st_mode };
        if others & WRITABLE_BY_ALL != 0 {
            return Err(self.doubt(PathDoubt::Open));
        }
        if others & WRITABLE_BY_GROUP != 0 && (self.has_list() || !is_private(&found)) {
            return Err(self.doubt(PathDoubt::Group(found.st_gid)));
        }
        Ok(())
    }

    fn check_owner(&self, found: &Stat) -> Result<(), PathError> {
        let own = match self.trust {
            PathTrust::Root => 0,
            PathTrust::Whole | PathTrust::Links => rustix::process::geteuid().as_raw(),
        };
        let is_trusted = [0, own].contains(&found.st_uid) || is_unmapped(found.st_uid);
        if is_trusted { Ok(()) } else { Err(self.doubt(PathDoubt::Foreign(found.st_uid))) }
    }

    /// Whether an access control list may give rights to others: its mask shows as the group permissions.
    fn has_list(&self) -> bool {
        !matches!(attributes::access_list(&self.fd), Ok(None))
    }

    pub(crate) fn stat(&self) -> Result<Stat, SysError> {
        let failed = |error| SysError::new("fstat", self.path.display().to_string(), error);
        rustix::fs::fstat(&self.fd).map_err(failed)
    }

    fn doubt(&self, why: PathDoubt) -> PathError {
        PathError::Doubtful { at: self.path.clone(), why }
    }

    fn failed(&self, call: &'static str, name: &OsStr) -> impl Fn(Errno) -> SysError + use<> {
        let subject = self.path.join(name).display().to_string();
        move |error| SysError::new(call, subject.clone(), error)
    }
}

fn root(trust: PathTrust) -> Result<TrustedDir, SysError> {
    let opened = rustix::fs::open("/", PATH_ONLY, Mode::empty());
    let fd = opened.map_err(|e| SysError::new("open", "/", e))?;
    Ok(TrustedDir { fd, path: PathBuf::from("/"), trust })
}

const fn is_directory(found: &Stat) -> bool {
    matches!(FileType::from_raw_mode(found.st_mode), FileType::Directory)
}

/// Whether this is in a sticky directory that others may write, and belongs neither to this account nor to
/// the directory's owner: the rule of `fs.protected_regular` and similar settings (fs/namei.c,
/// `may_create_in_sticky`).
pub(crate) fn is_others_in_sticky(above: &Stat, found: &Stat) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let is_shared = above.st_mode & (WRITABLE_BY_ALL | WRITABLE_BY_GROUP) != 0;
    above.st_mode & STICKY != 0 && is_shared && ![own, above.st_uid].contains(&found.st_uid)
}

/// Components of a path in reverse order, including `..`.
fn reversed(path: &Path) -> Vec<OsString> {
    let named = |component| match component {
        Component::Normal(_) | Component::ParentDir => {
            Some(Component::as_os_str(component).to_owned())
        }
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    };
    path.components().rev().filter_map(named).collect()
}

/// Whether this uid only stands for users without a number in this user namespace.
fn is_unmapped(uid: u32) -> bool {
    let overflow = read_number("/proc/sys/kernel/overflowuid").ok();
    let map = || read_text("/proc/self/uid_map").ok();
    overflow == Some(i64::from(uid)) && map().is_some_and(|map| !has_number(&map, uid))
}

/// Whether a user has this number, according to the text of `/proc/PID/uid_map`.
fn has_number(map: &str, uid: u32) -> bool {
    let range = |line: &str| {
        let mut words = line.split_whitespace().map(str::parse::<u64>);
        let (first, _outside, count) =
            (words.next()?.ok()?, words.next()?.ok()?, words.next()?.ok()?);
        Some(first..first.saturating_add(count))
    };
    map.lines().filter_map(range).any(|range| range.contains(&u64::from(uid)))
}

/// Whether the group has no members other than its owner, root and this account.
fn is_private(found: &Stat) -> bool {
    let file = |path: &str| read_bytes(path).unwrap_or_default();
    let own = rustix::process::geteuid().as_raw();
    let (users, groups) = (file("/etc/passwd"), file("/etc/group"));
    has_no_others(&users, &groups, (found.st_uid, found.st_gid), &[0, own, found.st_uid])
}

/// Whether all members of a group are among `trusted`, according to the text of passwd(5) and group(5). A
/// group in neither file is private if it has the number of its owner, as groups created together with their
/// user have.
fn has_no_others(users: &[u8], groups: &[u8], (owner, group): (u32, u32), trusted: &[u32]) -> bool {
    let users: Vec<(&[u8], u32, u32)> = records(users)
        .filter_map(|row| Some((*row.first()?, number(row.get(2)?)?, number(row.get(3)?)?)))
        .collect();
    let is_trusted =
        |name: &[u8]| users.iter().any(|(known, uid, _)| *known == name && trusted.contains(uid));
    let others = users.iter().any(|(_, uid, gid)| *gid == group && !trusted.contains(uid));
    let listed: Vec<&[u8]> = records(groups)
        .filter(|row| row.get(2).and_then(|gid| number(gid)) == Some(group))
        .map(|row| row.get(3).copied().unwrap_or_default())
        .collect();
    let members = listed.iter().flat_map(|members| members.split(|byte| *byte == b','));
    let is_known = !listed.is_empty() || group == owner;
    is_known && !others && members.filter(|name| !name.is_empty()).all(is_trusted)
}

fn records(text: &[u8]) -> impl Iterator<Item = Vec<&[u8]>> {
    lines(text).map(|line| line.split(|byte| *byte == b':').collect())
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests;
