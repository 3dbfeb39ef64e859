//! Programs that gain rights when they start: such programs are not run under pagewise.
//!
//! Set-user-id and set-group-id bits, or file capabilities (`security.capability`, capabilities(7)).
//! A set-group-id bit without group execute permission means something else and does not count.

use crate::error::SysError;
use rustix::io::Errno;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// True when starting the file at `path` would change rights.
pub fn is_setuid(path: &Path) -> Result<bool, SysError> {
    let subject = || path.display().to_string();
    let metadata = std::fs::metadata(path).map_err(|e| SysError::new("stat", subject(), e))?;
    if mode_gains_rights(metadata.permissions().mode()) {
        return Ok(true);
    }
    has_capabilities(rustix::fs::getxattr(path, "security.capability", &mut [0u8; 64]))
        .map_err(|e| SysError::new("getxattr security.capability", subject(), e))
}

const fn mode_gains_rights(mode: u32) -> bool {
    mode & 0o4000 != 0 || mode & 0o2010 == 0o2010
}

/// What the answer to the question for the attribute means.
fn has_capabilities(answer: Result<usize, Errno>) -> Result<bool, Errno> {
    match answer {
        Ok(len) => Ok(len > 0),
        Err(Errno::RANGE) => Ok(true),
        // No such attribute, or a file system without attributes.
        Err(Errno::NODATA | Errno::NOTSUP | Errno::NOSYS) => Ok(false),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes() {
        assert!(mode_gains_rights(0o104_755));
        assert!(mode_gains_rights(0o102_755));
        assert!(!mode_gains_rights(0o102_745));
        assert!(!mode_gains_rights(0o100_755));
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
        assert!(!is_setuid(&file).unwrap());
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o4755)).unwrap();
        assert!(is_setuid(&file).unwrap());
        assert!(is_setuid(&dir.path().join("none")).unwrap_err().is_gone());
    }
}
