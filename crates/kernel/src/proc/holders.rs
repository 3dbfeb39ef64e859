//! Finds the processes that map a file: those with its device and inode in `/proc/PID/maps`.
//!
//! The device must be the one that `maps` shows for a mapping of this process: on some file systems `stat(2)`
//! reports another. A process of another account counts as hidden if its `maps` cannot be read. Kernel
//! threads and zombies map nothing. Not a snapshot: processes that start meanwhile may be missed. Cost: some
//! 30 us per process.

use super::maps::{self, Mapping};
use super::{own_pid, stat, tree};
use crate::error::SysError;
use pagewise_model::Bytes;
use pagewise_model::cache::{FileHolder, FileHolders};

/// The file to search for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HolderSearch {
    device: (u32, u32),
    inode: u64,
}

impl HolderSearch {
    /// The file of this mapping.
    #[must_use]
    pub const fn for_mapping(mapping: &Mapping) -> Self {
        Self { device: mapping.device, inode: mapping.inode }
    }

    /// How many bytes of it these mappings map.
    #[must_use]
    pub fn mapped(&self, mappings: &[Mapping]) -> Bytes {
        let is_it = |m: &&Mapping| m.device == self.device && m.inode == self.inode;
        mappings.iter().filter(is_it).fold(Bytes(0), |sum, mapping| sum + mapping.size())
    }
}

/// The processes that map it, except this one.
///
/// # Errors
/// When `/proc` cannot be listed.
pub fn find(search: &HolderSearch) -> Result<FileHolders, SysError> {
    let mut holders = FileHolders::default();
    for pid in tree::all()?.into_iter().filter(|pid| *pid != own_pid()) {
        match maps::read(pid) {
            Ok(mappings) => {
                let mapped_bytes = search.mapped(&mappings);
                if mapped_bytes > Bytes(0) {
                    let name = stat::read(pid).map(|stat| stat.comm).unwrap_or_default();
                    holders.seen.push(FileHolder { pid, name, mapped_bytes });
                }
            }
            Err(error) if error.is_gone() => {}
            Err(_) => holders.hidden_processes += 1,
        }
    }
    Ok(holders)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_child_is_found_in_it() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id() as i32;
        // Mapped from exec on; between fork and exec the child still maps what this test maps.
        let program = std::fs::canonicalize("/proc/self/exe").unwrap();
        let is_of_child =
            |m: &Mapping| m.perms.exec && m.is_file() && program.as_os_str() != m.path;
        let found = (0..500).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            maps::read(pid).unwrap().into_iter().find(is_of_child)
        });
        let holders = find(&HolderSearch::for_mapping(&found.unwrap()));
        child.kill().unwrap();
        child.wait().unwrap();
        let holders = holders.unwrap();
        let held = holders.seen.iter().find(|holder| holder.pid == pid).unwrap();
        assert!(held.mapped_bytes > Bytes(0), "{held:?}");
        assert!(holders.seen.iter().all(|holder| holder.pid != own_pid()));
    }

    #[test]
    fn other_files_do_not_count() {
        let line = b"1000-3000 r-xp 0 08:01 5 /x\n3000-4000 r--p 2000 08:01 5 /x\n4000-5000 r--p 0 08:01 6 /y";
        let all = maps::parse(line);
        let search = HolderSearch::for_mapping(&all[0]);
        assert_eq!(search.mapped(&all), Bytes(0x3000));
        assert_eq!(search.mapped(&all[2..]), Bytes(0));
    }
}
