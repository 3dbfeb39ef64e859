//! The file that links to the tools lead to.
//!
//! Scripts start a tool thousands of times, so the tools have a small program, `pagewise-tools`, in the
//! directory of pagewise. It is used only if no other account can put it there or change it. Otherwise
//! pagewise itself serves, which has the same tools and starts slower.
//!
//! Cost: a walk to the directory, some 10 us.

use crate::trusted_path::{MissingNamePolicy, STICKY, WRITABLE_BY_ALL, WRITABLE_BY_GROUP, walk};
use rustix::fs::{FileType, fstat, stat};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

/// Names of the programs that have the tools.
pub const NAMES: [&str; 2] = ["pagewise-tools", "pagewise"];

const RUNS_AS_ANOTHER: u32 = 0o6000;
const EXECUTABLE: u32 = 0o111;

/// The program of the tools beside this one, or this one.
///
/// # Errors
/// When the file of this process is not known.
pub fn path() -> io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    Ok(beside(&own).unwrap_or(own))
}

fn beside(own: &Path) -> Option<PathBuf> {
    let directory = walk(own.parent()?, MissingNamePolicy::Ends).ok()??;
    // Others can add entries to a sticky directory, even if they cannot replace ours.
    if fstat(&directory).ok()?.st_mode & STICKY != 0 {
        return None;
    }
    let found = directory.look(OsStr::new(NAMES[0]), MissingNamePolicy::Ends).ok()??;
    let runs = stat(own).ok()?.st_mode & EXECUTABLE;
    let is_safe = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
        && (found.st_uid == 0 || found.st_uid == rustix::process::geteuid().as_raw())
        && found.st_mode & (WRITABLE_BY_GROUP | WRITABLE_BY_ALL | RUNS_AS_ANOTHER) == 0
        && found.st_mode & runs == runs;
    is_safe.then(|| directory.path().join(NAMES[0]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn the_tools_program_is_used_only_where_no_other_account_could_change_it() {
        let place = tempfile::tempdir().unwrap();
        let [own, tools] = ["pagewise", "pagewise-tools"].map(|name| place.path().join(name));
        let mode = |path: &Path, mode| set_permissions(path, Permissions::from_mode(mode)).unwrap();
        write(&own, "").unwrap();
        mode(&own, 0o755);
        assert_eq!(beside(&own), None, "it is not there");
        write(&tools, "").unwrap();
        for (bits, is_used) in
            [(0o755, true), (0o700, false), (0o775, false), (0o757, false), (0o4755, false)]
        {
            mode(&tools, bits);
            assert_eq!(beside(&own).is_some(), is_used, "{bits:o}");
        }
        mode(&tools, 0o755);
        mode(place.path(), 0o1777);
        assert_eq!(beside(&own), None, "a directory in which others may put files");
        mode(place.path(), 0o700);
        assert_eq!(beside(&own), Some(place.path().canonicalize().unwrap().join("pagewise-tools")));
        std::fs::remove_file(&tools).unwrap();
        symlink(&own, &tools).unwrap();
        assert_eq!(beside(&own), None, "a link");
    }
}
