//! The directories of pagewise: state (saved runs, undo records), cache (prices and tool links), and root's
//! directory for settings of the whole machine. If there is no cache, tool links go to a directory for
//! temporary files.
//!
//! They follow the XDG base directory specification: `$XDG_STATE_HOME/pagewise` or `~/.local/state/pagewise`,
//! and `$XDG_CACHE_HOME/pagewise` or `~/.cache/pagewise`. Each is created for its owner only (0700). A
//! directory is used only if no other account can replace it or anything above it
//! ([`trusted_path`](crate::trusted_path)): programs are started from it, and its records are acted upon. A
//! home directory itself is never created.
//!
//! Root with the home of another user (`sudo -E`) would run what that user can plant there, and would leave
//! root's files in that home. So root then uses these directories below its own home.

use crate::trusted_path::{MissingNamePolicy, PathDoubt, PathError, walk};
use rustix::fs::{FileType, Stat};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirError {
    /// Neither variable contains an absolute path.
    #[error("cannot choose a {what} directory: neither {variable} nor HOME is an absolute path")]
    NoHome {
        /// "state" or "cache".
        what: &'static str,
        /// The variable that would set it.
        variable: &'static str,
    },
    /// It could not be created or examined.
    #[error("`{call}` on the {what} directory {} failed: {source}", .path.display())]
    Io {
        /// "state" or "cache".
        what: &'static str,
        call: &'static str,
        path: PathBuf,
        /// The variable that would set another directory.
        variable: &'static str,
        /// Error of the kernel.
        source: std::io::Error,
    },
    /// Other accounts have access to it.
    #[error("the {what} directory {} {why}", .path.display())]
    Unsafe {
        /// "state" or "cache".
        what: &'static str,
        path: PathBuf,
        /// The variable that would set another directory.
        variable: &'static str,
        /// What is wrong with it.
        why: DirObjection,
    },
    /// Another account could replace it.
    #[error("the {what} directory {} is not used: {} {why}", .path.display(), .at.display())]
    Doubtful {
        /// "state" or "cache".
        what: &'static str,
        path: PathBuf,
        /// The variable that would set another directory.
        variable: &'static str,
        /// The directory above that is unsafe.
        at: PathBuf,
        /// What is wrong with that.
        why: PathDoubt,
    },
}

/// What is wrong with a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DirObjection {
    /// Its name belongs to something other than a directory.
    #[error("is a link or a file, not a directory")]
    NotDirectory,
    /// Its owner is not the effective user; this is the owner's id.
    #[error("belongs to another user")]
    Foreign(u32),
    /// Its mode gives access to others.
    #[error("can be entered by other users")]
    Open,
}

impl DirError {
    /// Advice for the user.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::Io { variable: "", path, .. }
            | Self::Unsafe { variable: "", path, .. }
            | Self::Doubtful { variable: "", path, .. } => {
                format!(
                    "root must own it and nobody else may write to it; check: ls -ld {}",
                    path.display()
                )
            }
            Self::NoHome { variable, .. } | Self::Io { variable, .. } => {
                format!("set {variable} to a directory that you may write to")
            }
            Self::Doubtful { variable, at, why, .. } => match why {
                PathDoubt::Foreign(_) => {
                    format!("set {variable} to a path whose directories belong to you or root")
                }
                PathDoubt::Open | PathDoubt::Group(_) => {
                    let at = at.display();
                    format!(
                        "chmod go-w {at}, or set {variable} to a path that only you and root \
                         can change"
                    )
                }
            },
            Self::Unsafe { path, variable, why, .. } => {
                let path = path.display();
                match why {
                    DirObjection::NotDirectory => {
                        format!("remove it, or set {variable} to a directory that you may write to")
                    }
                    DirObjection::Foreign(uid) => format!(
                        "set {variable} to a directory of your own, or as root: chown {uid} {path}"
                    ),
                    DirObjection::Open => {
                        format!("remove it, or make it private: chmod 700 {path}")
                    }
                }
            }
        }
    }
}

#[derive(Debug)]
struct DirKind {
    what: &'static str,
    variable: &'static str,
    below_home: &'static str,
}

const STATE: DirKind =
    DirKind { what: "state", variable: "XDG_STATE_HOME", below_home: ".local/state" };
const CACHE: DirKind = DirKind { what: "cache", variable: "XDG_CACHE_HOME", below_home: ".cache" };
const TEMPORARY: DirKind = DirKind { what: "temporary", variable: "TMPDIR", below_home: "" };

/// Root's home, for use when the variables name the home of another user.
const HOME_OF_ROOT: &str = "/root";
/// Parent directory for data that is valid for this boot only.
const OF_THIS_BOOT: &str = "/run";
/// Name of the pagewise directory in each of them.
const OURS: &str = "pagewise";

/// The state directory, created if it does not exist.
///
/// # Errors
/// When it cannot be created, or other accounts could replace it.
pub fn state_dir() -> Result<PathBuf, DirError> {
    from_environment(&STATE, make)
}

/// The state directory, if it exists. Creates nothing, so this works on a read-only file system.
///
/// # Errors
/// When other accounts could replace it.
pub fn find_state_dir() -> Result<Option<PathBuf>, DirError> {
    from_environment(&STATE, find)
}

/// The cache directory, created if it does not exist.
///
/// # Errors
/// When it cannot be created, or other accounts could replace it.
pub fn cache_dir() -> Result<PathBuf, DirError> {
    from_environment(&CACHE, make)
}

/// Root's directory for the lock and the records of settings of the whole machine. `None` if it is missing
/// and is not to be created.
///
/// # Errors
/// When it cannot be created, or other accounts have access to it.
pub fn machine_dir(missing: MissingNamePolicy) -> Result<Option<PathBuf>, DirError> {
    let kind = DirKind { what: "machine's", variable: "", below_home: "" };
    own_in(&kind, Path::new(OF_THIS_BOOT), MissingNamePolicy::Ends, OURS, missing)
}

/// A directory called `name` for tool links, created if it does not exist. It is in the cache directory; if
/// that is not available, it is in a directory of this user among the temporary files.
///
/// # Errors
/// When neither is available.
pub fn links_dir(name: &str) -> Result<PathBuf, DirError> {
    let temporary = || {
        let user = format!("{OURS}-{}", rustix::process::geteuid().as_raw());
        own(&TEMPORARY, &std::env::temp_dir(), &user)
    };
    let within =
        |kind, place: PathBuf| own(kind, &place, "tools").and_then(|tools| own(kind, &tools, name));
    cache_dir()
        .and_then(|cache| within(&CACHE, cache))
        .or_else(|_no_cache| temporary().and_then(|place| within(&TEMPORARY, place)))
}

/// Location of a pagewise directory.
#[derive(Debug, PartialEq, Eq)]
enum DirBase {
    /// Named by a variable; created if it is missing.
    Named(PathBuf),
    /// In a home directory, which must exist.
    InHome(PathBuf),
}

/// Finds or creates the pagewise directory below another one.
type Get<T> = fn(&DirKind, &Path) -> Result<T, DirError>;

/// Creates the pagewise directory in `above`, and its missing parents.
fn make(kind: &DirKind, above: &Path) -> Result<PathBuf, DirError> {
    own(kind, above, OURS)
}

/// The pagewise directory in `above`, if it exists.
fn find(kind: &DirKind, above: &Path) -> Result<Option<PathBuf>, DirError> {
    own_in(kind, above, MissingNamePolicy::Ends, OURS, MissingNamePolicy::Ends)
}

fn from_environment<T>(kind: &DirKind, get: Get<T>) -> Result<T, DirError> {
    let base = base(std::env::var_os(kind.variable), std::env::var_os("HOME"));
    let found = match base {
        Some(DirBase::Named(base)) => get(kind, &base),
        Some(DirBase::InHome(home)) => in_home(kind, &home, get),
        None => Err(DirError::NoHome { what: kind.what, variable: kind.variable }),
    };
    match found {
        Err(DirError::NoHome { .. } | DirError::Doubtful { .. }) if is_root() => {
            in_home(kind, Path::new(HOME_OF_ROOT), get)
        }
        found => found,
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The parent of the pagewise directory. Relative paths are ignored, as the specification says.
fn base(own: Option<OsString>, home: Option<OsString>) -> Option<DirBase> {
    let absolute = |v: Option<OsString>| v.map(PathBuf::from).filter(|p| p.is_absolute());
    absolute(own).map(DirBase::Named).or_else(|| absolute(home).map(DirBase::InHome))
}

/// The pagewise directory in an existing home.
fn in_home<T>(kind: &DirKind, home: &Path, get: Get<T>) -> Result<T, DirError> {
    match walk(home, MissingNamePolicy::Ends) {
        Ok(Some(home)) => get(kind, &home.path().join(kind.below_home)),
        Ok(None) => Err(DirError::NoHome { what: kind.what, variable: kind.variable }),
        Err(error) => Err(failed(kind, home.join(kind.below_home).join(OURS))(error)),
    }
}

/// The directory with this name in `above`, created with its missing parents.
fn own(kind: &DirKind, above: &Path, name: &str) -> Result<PathBuf, DirError> {
    let gone = |source| DirError::Io {
        what: kind.what,
        call: "openat",
        path: above.join(name),
        variable: kind.variable,
        source,
    };
    let made = own_in(kind, above, MissingNamePolicy::IsMade, name, MissingNamePolicy::IsMade)?;
    made.ok_or_else(|| gone(std::io::ErrorKind::NotFound.into()))
}

/// The directory with this name in `above`. Fails if other accounts have access to it.
fn own_in(
    kind: &DirKind,
    above: &Path,
    above_missing: MissingNamePolicy,
    name: &str,
    missing: MissingNamePolicy,
) -> Result<Option<PathBuf>, DirError> {
    let failed = || failed(kind, above.join(name));
    let above = std::path::absolute(above).map_err(|e| failed()(absolute(above, e)))?;
    let Some(above) = walk(&above, above_missing).map_err(failed())? else { return Ok(None) };
    let found = above.look(name.as_ref(), missing).map_err(|error| failed()(error.into()))?;
    let Some(found) = found else { return Ok(None) };
    let path = above.path().join(name);
    match objection(&found, rustix::process::geteuid().as_raw()) {
        Some(why) => Err(DirError::Unsafe { what: kind.what, path, variable: kind.variable, why }),
        None => Ok(Some(path)),
    }
}

fn absolute(path: &Path, error: std::io::Error) -> PathError {
    crate::SysError::new("getcwd", path.display().to_string(), error).into()
}

/// Converts an error of a walk to one about this directory.
fn failed(kind: &DirKind, path: PathBuf) -> impl FnOnce(PathError) -> DirError {
    let (what, variable) = (kind.what, kind.variable);
    move |error| match error {
        PathError::Sys(error) => {
            DirError::Io { what, call: error.call, path, variable, source: error.source }
        }
        PathError::Doubtful { at, why } => DirError::Doubtful { what, path, variable, at, why },
    }
}

const fn objection(found: &Stat, owner: u32) -> Option<DirObjection> {
    if !matches!(FileType::from_raw_mode(found.st_mode), FileType::Directory) {
        Some(DirObjection::NotDirectory)
    } else if found.st_uid != owner {
        Some(DirObjection::Foreign(owner))
    } else if found.st_mode & 0o077 != 0 {
        Some(DirObjection::Open)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    fn found(base: &Path) -> Option<PathBuf> {
        find(&STATE, base).unwrap()
    }

    fn place() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        (dir, path)
    }

    #[test]
    fn the_base_is_absolute() {
        let os = |s: &str| Some(OsString::from(s));
        let home = |path: &str| Some(DirBase::InHome(path.into()));
        assert_eq!(base(os("/x"), os("/h")), Some(DirBase::Named("/x".into())));
        assert_eq!(base(os("x"), os("/h")), home("/h"));
        assert_eq!(base(None, os("/h")), home("/h"));
        assert_eq!(base(None, os("")), None);
        assert_eq!(base(None, None), None);
    }

    #[test]
    fn a_home_is_used_and_never_made() {
        let (_dir, path) = place();
        assert_eq!(in_home(&STATE, &path, find).unwrap(), None);
        assert!(!path.join(".local").exists(), "looking makes nothing");
        let made = path.join(".local/state/pagewise");
        assert_eq!(in_home(&STATE, &path, make).unwrap(), made);
        assert_eq!(in_home(&STATE, &path, find).unwrap(), Some(made));
        let missing = path.join("missing");
        let error = in_home(&CACHE, &missing, make).unwrap_err();
        assert!(matches!(error, DirError::NoHome { .. }) && !missing.exists(), "{error}");
    }

    #[test]
    fn made_for_the_owner_alone_and_found_again() {
        let (_dir, path) = place();
        let parent = path.join("a/b");
        assert_eq!(found(&parent), None);
        assert!(!parent.exists(), "looking makes nothing");
        let path = make(&STATE, &parent).unwrap();
        assert_eq!(path, parent.join("pagewise"));
        assert_eq!(found(&parent), Some(path.clone()));
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o700);
        assert_eq!(make(&STATE, &parent).unwrap(), path);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let error = make(&STATE, &parent).unwrap_err();
        assert!(error.to_string().ends_with("can be entered by other users"), "{error}");
        assert!(error.help().contains("chmod 700"));
    }

    #[test]
    fn each_directory_on_the_way_is_the_owners_alone() {
        let (_dir, path) = place();
        let tools = own(&CACHE, &make(&CACHE, &path).unwrap(), "tools").unwrap();
        assert_eq!(own(&CACHE, &tools, "cat").unwrap(), tools.join("cat"));
        assert_eq!(tools.metadata().unwrap().mode() & 0o777, 0o700);
        std::fs::set_permissions(&tools, std::fs::Permissions::from_mode(0o777)).unwrap();
        let error = own(&CACHE, &tools, "cat").unwrap_err();
        assert!(matches!(error, DirError::Doubtful { why: PathDoubt::Open, .. }), "{error}");
        assert!(error.to_string().ends_with("tools can be written by every user"), "{error}");
        assert!(error.help().starts_with("chmod go-w "), "{}", error.help());
    }

    #[test]
    fn a_link_is_refused() {
        let (_dir, path) = place();
        std::os::unix::fs::symlink("/tmp", path.join("pagewise")).unwrap();
        let error = make(&CACHE, &path).unwrap_err();
        assert!(matches!(error, DirError::Unsafe { .. }), "{error}");
        assert!(error.help().starts_with("remove it, or set XDG_CACHE_HOME"), "{}", error.help());
    }

    #[test]
    fn only_root_gives_a_directory_away() {
        let path = PathBuf::from("/x/pagewise");
        let why = DirObjection::Foreign(2);
        let error = DirError::Unsafe { what: "state", path, variable: "XDG_STATE_HOME", why };
        assert!(error.to_string().ends_with("belongs to another user"), "{error}");
        assert!(error.help().ends_with("chown 2 /x/pagewise"), "{}", error.help());
    }

    #[test]
    fn no_parent_says_what_to_set() {
        let error = make(&STATE, Path::new("/dev/null/x")).unwrap_err();
        assert!(error.help().contains("XDG_STATE_HOME"), "{error}");
    }
}
