//! Keeping files in the page cache for as long as a session lasts.
//!
//! Where something pages out idle memory (DAMON schemes, proactive reclaim), unmapped page cache
//! decays within a minute; pages of a file that some process has mapped are spared. A [`Keeper`]
//! maps files and never touches the mapping: no page is faulted, nothing is read through it, so
//! that a truncated file does no harm. mmap(2); cost: one mapping per file, no memory.
//!
//! Not seen: whether the pages were in the cache to begin with, and reclaim under memory pressure,
//! which takes mapped pages too.

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::fs::File;
use std::path::Path;

/// Mappings that are held and never read.
#[derive(Debug, Default)]
pub struct Keeper {
    held: Vec<Held>,
}

#[derive(Debug)]
struct Held {
    start: *mut c_void,
    len: usize,
}

impl Keeper {
    /// Holds `path` if it is a regular file that may be read and is not empty; says whether.
    pub fn hold(&mut self, path: &Path) -> bool {
        let Ok(file) = File::open(path) else { return false };
        let Ok(metadata) = file.metadata() else { return false };
        let Ok(len) = usize::try_from(metadata.len()) else { return false };
        if !metadata.is_file() || len == 0 {
            return false;
        }
        let (flags, prot) = (MapFlags::SHARED, ProtFlags::READ);
        // SAFETY: a fresh mapping at an address of the kernel's choice; nothing else refers to it.
        let mapped = unsafe { mmap(std::ptr::null_mut(), len, prot, flags, &file, 0) };
        let Ok(start) = mapped else { return false };
        self.held.push(Held { start, len });
        true
    }

    /// Files held.
    #[must_use]
    pub fn count(&self) -> usize {
        self.held.len()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        for Held { start, len } in self.held.drain(..) {
            // SAFETY: exactly the mapping made in `hold`, never handed out.
            let _cannot_fail = unsafe { munmap(start, len) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::{maps, own_pid};

    fn mapped(path: &Path) -> usize {
        let all = maps::read(own_pid()).unwrap();
        all.iter().filter(|m| Path::new(&m.path) == path).count()
    }

    #[test]
    fn files_are_mapped_while_held_and_only_files() {
        let path = std::env::temp_dir().join(format!("pagewise-keep-{}", std::process::id()));
        std::fs::write(&path, [7; 100]).unwrap();
        let path = path.canonicalize().unwrap();
        let mut keeper = Keeper::default();
        assert!(keeper.hold(&path));
        assert_eq!(mapped(&path), 1);
        assert!(!keeper.hold(Path::new("/dev/zero")) && !keeper.hold(Path::new("/")));
        assert!(!keeper.hold(Path::new("/nonexistent")) && keeper.count() == 1);
        std::fs::write(&path, []).unwrap();
        drop(keeper);
        assert_eq!(mapped(&path), 0);
        std::fs::remove_file(&path).unwrap();
    }
}
