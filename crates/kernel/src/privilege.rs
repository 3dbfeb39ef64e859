//! Programs that gain rights at their start. pagewise does not run such programs.
//!
//! Rights come from set-user-id and set-group-id bits, or from file capabilities (`security.capability`,
//! capabilities(7)). A set-group-id bit without group execute permission means something else and does not
//! count.

use crate::error::SysError;
use rustix::io::Errno;
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The extended attribute that holds capabilities.
const CAPABILITIES: &str = "security.capability";

/// The rights that a file gives when it is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilePrivileges {
    /// The user it runs as (set-user-id).
    pub user: Option<u32>,
    /// The group it runs as (set-group-id).
    pub group: Option<u32>,
    /// It has file capabilities.
    pub capabilities: bool,
}

impl FilePrivileges {
    /// Rights of the file at `path`. Follows symbolic links.
    ///
    /// # Errors
    /// When the file or its attributes cannot be examined.
    pub fn of(path: &Path) -> Result<Self, SysError> {
        let name = path.display().to_string();
        let meta = std::fs::metadata(path).map_err(|e| SysError::new("stat", name.as_str(), e))?;
        Self::of_parts(&meta, rustix::fs::getxattr(path, CAPABILITIES, &mut [0u8; 64]), &name)
    }

    /// Rights of an open file with this name.
    ///
    /// # Errors
    /// When its attributes cannot be examined.
    pub fn of_open(file: &File, name: &str) -> Result<Self, SysError> {
        let meta = file.metadata().map_err(|e| SysError::new("fstat", name, e))?;
        Self::of_parts(&meta, rustix::fs::fgetxattr(file, CAPABILITIES, &mut [0u8; 64]), name)
    }

    fn of_parts(
        meta: &Metadata,
        answer: Result<usize, Errno>,
        name: &str,
    ) -> Result<Self, SysError> {
        let capabilities = has_capabilities(answer)
            .map_err(|e| SysError::new("getxattr security.capability", name, e))?;
        Ok(Self {
            user: is_set_user(meta.mode()).then(|| meta.uid()),
            group: is_set_group(meta.mode()).then(|| meta.gid()),
            capabilities,
        })
    }

    /// The mark by which it would gain rights, as the end of a sentence about it; `None` without one.
    #[must_use]
    pub const fn mark(self) -> Option<&'static str> {
        match self {
            Self { user: Some(_), .. } => Some("is setuid"),
            Self { group: Some(_), .. } => Some("is setgid"),
            Self { capabilities: true, .. } => Some("has file capabilities"),
            Self { .. } => None,
        }
    }

    /// True if these exceed the rights of `user` in `group`.
    #[must_use]
    pub fn exceed(self, user: u32, group: u32) -> bool {
        self.user.is_some_and(|own| own != user)
            || self.group.is_some_and(|own| own != group)
            || (self.capabilities && user != 0)
    }
}

const fn is_set_user(mode: u32) -> bool {
    mode & 0o4000 != 0
}

const fn is_set_group(mode: u32) -> bool {
    mode & 0o2010 == 0o2010
}

/// Interprets the result of reading the attribute.
fn has_capabilities(answer: Result<usize, Errno>) -> Result<bool, Errno> {
    match answer {
        Ok(len) => Ok(len > 0),
        Err(Errno::RANGE) => Ok(true),
        // The attribute is missing, or the file system does not support attributes.
        Err(Errno::NODATA | Errno::NOTSUP | Errno::NOSYS) => Ok(false),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn modes() {
        assert!(is_set_user(0o104_755) && !is_set_user(0o102_755));
        assert!(is_set_group(0o102_755));
        assert!(!is_set_group(0o102_745) && !is_set_group(0o100_755));
    }

    #[test]
    fn rights_that_the_caller_has_anyway_are_no_more() {
        let none = FilePrivileges { user: None, group: None, capabilities: false };
        assert!(!none.exceed(1000, 1000) && none.mark().is_none());
        let root = FilePrivileges { user: Some(0), ..none };
        assert!(root.exceed(1000, 1000) && !root.exceed(0, 0));
        assert_eq!(root.mark(), Some("is setuid"));
        let group = FilePrivileges { group: Some(5), ..none };
        assert!(group.exceed(0, 0) && !group.exceed(0, 5));
        let capable = FilePrivileges { capabilities: true, ..none };
        assert!(capable.exceed(1000, 1000) && !capable.exceed(0, 0));
        assert_eq!(capable.mark(), Some("has file capabilities"));
    }

    #[test]
    fn answers() {
        assert_eq!(has_capabilities(Ok(20)), Ok(true));
        assert_eq!(has_capabilities(Err(Errno::RANGE)), Ok(true));
        for absent in [Errno::NODATA, Errno::NOTSUP, Errno::NOSYS] {
            assert_eq!(has_capabilities(Err(absent)), Ok(false));
        }
        assert_eq!(has_capabilities(Err(Errno::PERM)), Err(Errno::PERM));
    }

    #[test]
    fn files() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("program");
        std::fs::write(&file, b"x").unwrap();
        assert_eq!(FilePrivileges::of(&file).unwrap().mark(), None);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o4755)).unwrap();
        let rights = FilePrivileges::of(&file).unwrap();
        let open = File::open(&file).unwrap();
        assert_eq!(FilePrivileges::of_open(&open, "program").unwrap(), rights);
        assert_eq!(rights.user, Some(rustix::process::geteuid().as_raw()));
        assert_eq!(rights.mark(), Some("is setuid"));
        assert!(FilePrivileges::of(&dir.path().join("none")).unwrap_err().is_gone());
    }
}
