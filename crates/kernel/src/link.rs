//! Replaces a symbolic link atomically: `symlink(2)` under a temporary name, then `rename(2)` over the old
//! link.
//!
//! The name never disappears. A directory with that name stays. A killed process leaves a link whose name
//! begins with `.pagewise-link-`; the next process with the same process id removes it. Overhead: two calls.

use crate::error::SysError;
use crate::proc::own_pid;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Makes `path` a link to `target`, replacing any link or file.
///
/// # Errors
/// [`SysError`] of the call that failed. Then `path` is unchanged.
pub fn replace(target: &Path, path: &Path) -> Result<(), SysError> {
    let fresh = path.with_file_name(format!(".pagewise-link-{}", own_pid()));
    let _none_left = std::fs::remove_file(&fresh);
    let failed = |call, at: &Path, error| SysError::new(call, at.to_string_lossy(), error);
    symlink(target, &fresh).map_err(|error| failed("symlink", &fresh, error))?;
    std::fs::rename(&fresh, path).map_err(|error| {
        let _gone = std::fs::remove_file(&fresh);
        failed("rename", path, error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_takes_the_place_of_another_and_leaves_nothing_beside_it() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("cat");
        let left = place.path().join(format!(".pagewise-link-{}", own_pid()));
        symlink("left by a killed process of this id", left).unwrap();
        for target in ["/first", "/second"] {
            replace(Path::new(target), &path).unwrap();
            assert_eq!(path.read_link().unwrap(), Path::new(target));
        }
        assert_eq!(place.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn a_directory_of_the_name_stays() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("cat");
        std::fs::create_dir(&path).unwrap();
        let error = replace(Path::new("/first"), &path).unwrap_err();
        assert_eq!((error.call, error.errno()), ("rename", Some(libc::EISDIR)));
        assert_eq!(place.path().read_dir().unwrap().count(), 1);
    }
}
