//! The directories that pagewise keeps: state (saved runs, undo records) and cache (prices, and links
//! to the tools, which have a place among the temporary files where there is no cache).
//!
//! By the XDG base directory specification: `$XDG_STATE_HOME/pagewise` or
//! `~/.local/state/pagewise`, and `$XDG_CACHE_HOME/pagewise` or `~/.cache/pagewise`. Made for the
//! owner alone (0700). A link in the place of the directory, or one that others may enter or that
//! another user owns, is refused: an undo record is acted upon.

use std::ffi::OsString;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirError {
    /// Neither variable gives an absolute path.
    #[error("no place for the {what} directory: neither {variable} nor HOME is an absolute path")]
    NoHome {
        /// "state" or "cache".
        what: &'static str,
        /// The variable that would name it.
        variable: &'static str,
    },
    /// It could not be made or looked at.
    #[error("`{call}` on the {what} directory {} failed: {source}", .path.display())]
    Io {
        /// "state" or "cache".
        what: &'static str,
        /// The call.
        call: &'static str,
        /// The directory.
        path: PathBuf,
        /// The variable that would name another.
        variable: &'static str,
        /// What the kernel answered.
        source: std::io::Error,
    },
    /// It is not the owner's alone.
    #[error("the {what} directory {} {why}", .path.display())]
    Unsafe {
        /// "state" or "cache".
        what: &'static str,
        /// The directory.
        path: PathBuf,
        /// The variable that would name another.
        variable: &'static str,
        /// What is wrong with it.
        why: Objection,
    },
}

/// What is wrong with a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Objection {
    /// Something else has its name.
    #[error("is a link or a file, not a directory")]
    NotDirectory,
    /// Its owner is not the effective user, whose id this is.
    #[error("belongs to another user")]
    Foreign(u32),
    /// Its mode lets others in.
    #[error("can be entered by other users")]
    Open,
}

impl DirError {
    /// What to do about it.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::NoHome { variable, .. } | Self::Io { variable, .. } => {
                format!("set {variable} to a directory that you may write")
            }
            Self::Unsafe { path, variable, why, .. } => {
                let path = path.display();
                match why {
                    Objection::NotDirectory => {
                        format!("remove it, or set {variable} to a directory that you may write")
                    }
                    Objection::Foreign(uid) => format!(
                        "set {variable} to a directory of your own, or as root: chown {uid} {path}"
                    ),
                    Objection::Open => {
                        format!("remove it, or make it yours alone: chmod 700 {path}")
                    }
                }
            }
        }
    }
}

struct Kind {
    what: &'static str,
    variable: &'static str,
    below_home: &'static str,
}

const STATE: Kind = Kind { what: "state", variable: "XDG_STATE_HOME", below_home: ".local/state" };
const CACHE: Kind = Kind { what: "cache", variable: "XDG_CACHE_HOME", below_home: ".cache" };
const TEMPORARY: Kind = Kind { what: "temporary", variable: "TMPDIR", below_home: "" };

/// The state directory, made if it does not exist.
pub fn state_dir() -> Result<PathBuf, DirError> {
    from_environment(&STATE)
}

/// The state directory where there is one, for who only looks whether something was left there: nothing
/// is made.
///
/// # Errors
/// It is not the owner's alone.
pub fn found_state_dir() -> Result<Option<PathBuf>, DirError> {
    match base_from_environment(&STATE) {
        Some(base) => found(&STATE, base.join("pagewise")),
        None => Ok(None),
    }
}

/// The cache directory, made if it does not exist.
pub fn cache_dir() -> Result<PathBuf, DirError> {
    from_environment(&CACHE)
}

/// A directory called `name` for links to the tools, made if it does not exist: in the cache
/// directory, or where that cannot be had among the temporary files, in a directory of this user's.
pub fn links_dir(name: &str) -> Result<PathBuf, DirError> {
    let temporary = || {
        let user = format!("pagewise-{}", rustix::process::geteuid().as_raw());
        own(&TEMPORARY, std::env::temp_dir().join(user))
    };
    let within = |kind, place: PathBuf| {
        own(kind, place.join("tools")).and_then(|tools| own(kind, tools.join(name)))
    };
    cache_dir()
        .and_then(|cache| within(&CACHE, cache))
        .or_else(|_no_cache| temporary().and_then(|place| within(&TEMPORARY, place)))
}

fn from_environment(kind: &Kind) -> Result<PathBuf, DirError> {
    match base_from_environment(kind) {
        Some(base) => make(kind, &base),
        None => Err(DirError::NoHome { what: kind.what, variable: kind.variable }),
    }
}

fn base_from_environment(kind: &Kind) -> Option<PathBuf> {
    base(kind, std::env::var_os(kind.variable), std::env::var_os("HOME"))
}

/// The directory in which ours lies; relative paths are ignored, as the specification says.
fn base(kind: &Kind, own: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |v: Option<OsString>| v.map(PathBuf::from).filter(|p| p.is_absolute());
    absolute(own).or_else(|| absolute(home).map(|h| h.join(kind.below_home)))
}

fn make(kind: &Kind, base: &Path) -> Result<PathBuf, DirError> {
    own(kind, base.join("pagewise"))
}

/// The directory of this path, made with what lies above it: the owner's alone, or an error.
fn own(kind: &Kind, path: PathBuf) -> Result<PathBuf, DirError> {
    let above = path.parent().unwrap_or(Path::new("/"));
    let fail = |call| {
        let path = path.clone();
        move |source| DirError::Io { what: kind.what, call, path, variable: kind.variable, source }
    };
    let mut builder = std::fs::DirBuilder::new();
    builder.mode(0o700);
    builder.recursive(true).create(above).map_err(fail("mkdir"))?;
    match builder.recursive(false).create(&path) {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
        other => other.map_err(fail("mkdir"))?,
    }
    let gone = fail("stat");
    found(kind, path)?.ok_or_else(|| gone(std::io::ErrorKind::NotFound.into()))
}

/// The directory of this path where there is one: the owner's alone, or an error.
fn found(kind: &Kind, path: PathBuf) -> Result<Option<PathBuf>, DirError> {
    let (what, variable) = (kind.what, kind.variable);
    let found = match path.symlink_metadata() {
        Ok(found) => found,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(DirError::Io { what, call: "stat", path, variable, source }),
    };
    let owner = (found.uid(), rustix::process::geteuid().as_raw());
    match objection(found.is_dir(), owner, found.mode()) {
        Some(why) => Err(DirError::Unsafe { what, path, variable, why }),
        None => Ok(Some(path)),
    }
}

const fn objection(is_dir: bool, owner: (u32, u32), mode: u32) -> Option<Objection> {
    if !is_dir {
        Some(Objection::NotDirectory)
    } else if owner.0 != owner.1 {
        Some(Objection::Foreign(owner.1))
    } else if mode & 0o077 != 0 {
        Some(Objection::Open)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_base_is_absolute() {
        let os = |s: &str| Some(OsString::from(s));
        assert_eq!(base(&STATE, os("/x"), os("/h")), Some("/x".into()));
        assert_eq!(base(&STATE, os("x"), os("/h")), Some("/h/.local/state".into()));
        assert_eq!(base(&CACHE, None, os("/h")), Some("/h/.cache".into()));
        assert_eq!(base(&CACHE, None, os("")), None);
        assert_eq!(base(&CACHE, None, None), None);
    }

    #[test]
    fn made_for_the_owner_alone_and_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let parent = dir.path().join("a/b");
        assert_eq!(found(&STATE, parent.join("pagewise")).unwrap(), None);
        assert!(!parent.exists(), "looking makes nothing");
        let path = make(&STATE, &parent).unwrap();
        assert_eq!(path, parent.join("pagewise"));
        assert_eq!(found(&STATE, path.clone()).unwrap(), Some(path.clone()));
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o700);
        assert_eq!(make(&STATE, &parent).unwrap(), path);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let error = make(&STATE, &parent).unwrap_err();
        assert!(error.to_string().ends_with("can be entered by other users"), "{error}");
        assert!(error.help().contains("chmod 700"));
    }

    #[test]
    fn each_directory_on_the_way_is_the_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let tools = make(&CACHE, dir.path()).unwrap().join("tools");
        assert_eq!(own(&CACHE, tools.join("cat")).unwrap(), tools.join("cat"));
        assert_eq!(tools.metadata().unwrap().mode() & 0o777, 0o700);
        std::fs::set_permissions(&tools, std::fs::Permissions::from_mode(0o777)).unwrap();
        let error = own(&CACHE, tools).unwrap_err();
        assert!(matches!(error, DirError::Unsafe { why: Objection::Open, .. }), "{error}");
    }

    #[test]
    fn a_link_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/tmp", dir.path().join("pagewise")).unwrap();
        let error = make(&CACHE, dir.path()).unwrap_err();
        assert!(matches!(error, DirError::Unsafe { .. }), "{error}");
        assert!(error.help().starts_with("remove it, or set XDG_CACHE_HOME"), "{}", error.help());
    }

    #[test]
    fn only_root_gives_a_directory_away() {
        let why = objection(true, (1, 2), 0o700).unwrap();
        let path = PathBuf::from("/x/pagewise");
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
