//! The kind of file system that a file is on (`statfs(2)`), with regard to its page cache: whether the cache
//! is the file itself, and whether it never has folios larger than the base page.
//!
//! Support for large folios changes with each kernel, and is found by trying. The file systems that never
//! call `mapping_set_large_folios` (Linux 6.18) are listed here, so that their cache is not dropped in vain.
//! The answer of an overlay is about the overlay, not about the file system that holds the pages.

use crate::error::SysError;
use std::os::fd::AsFd;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystem {
    /// Its name in `mount(8)`, or its magic number.
    pub name: String,
    /// Its files exist only in memory.
    pub is_in_memory: bool,
    /// It never has folios larger than the base page.
    pub has_no_large_folios: bool,
    /// The pages of its files are in their own caches, so `cachestat` counts what a mapping of them sees.
    /// Layers over other files (overlay, FUSE with passthrough) have empty caches.
    pub counts_own_pages: bool,
}

/// Magic number (linux/magic.h and the file systems' own headers) and name.
const NAMES: [(u64, &str); 20] = [
    (0xef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0x794c_7630, "overlay"),
    (0xf2f5_2010, "f2fs"),
    (0xe0f5_e1e2, "erofs"),
    (0xca45_1a4e, "bcachefs"),
    (0x2fc1_2fc1, "zfs"),
    (0x6969, "nfs"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "fuse"),
    (0xff53_4d42, "cifs"),
    (0x0102_1994, "tmpfs"),
    (0x8584_58f6, "ramfs"),
    (0x9584_58f6, "hugetlbfs"),
    (0x7371_7368, "squashfs"),
    (0x9660, "iso9660"),
    (0x1501_3346, "udf"),
    (0x4d44, "vfat"),
    (0x2011_bab0, "exfat"),
];
const IN_MEMORY: [&str; 3] = ["tmpfs", "ramfs", "hugetlbfs"];
const OWN_PAGES: [&str; 9] =
    ["ext4", "xfs", "btrfs", "f2fs", "bcachefs", "tmpfs", "nfs", "vfat", "exfat"];
const BASE_PAGES_ALONE: [&str; 5] = ["squashfs", "iso9660", "udf", "vfat", "exfat"];

impl FileSystem {
    /// Its name, if it never has folios larger than the base page.
    #[must_use]
    pub fn base_pages_alone(self) -> Option<String> {
        self.has_no_large_folios.then_some(self.name)
    }

    fn of_magic(magic: u64) -> Self {
        let known = NAMES.iter().find(|(number, _)| *number == magic).map(|(_, name)| *name);
        let is_one_of = |names: &[&str]| known.is_some_and(|name| names.contains(&name));
        Self {
            name: known.map_or_else(|| format!("file system {magic:#x}"), str::to_owned),
            is_in_memory: is_one_of(&IN_MEMORY),
            has_no_large_folios: is_one_of(&BASE_PAGES_ALONE),
            counts_own_pages: is_one_of(&OWN_PAGES),
        }
    }
}

/// The file system of `file`, which `subject` names.
///
/// # Errors
/// When the call is refused.
pub fn look_up(file: &impl AsFd, subject: &str) -> Result<FileSystem, SysError> {
    let found = rustix::fs::fstatfs(file).map_err(|e| SysError::new("fstatfs", subject, e))?;
    // Keeps 32 bits of a word whose width and sign differ between architectures.
    Ok(FileSystem::of_magic(found.f_type as u64 & u64::from(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::MemfdFlags;

    #[test]
    fn a_memfd_lives_in_memory() {
        let file = rustix::fs::memfd_create("x", MemfdFlags::CLOEXEC).unwrap();
        let found = look_up(&file, "a memfd").unwrap();
        assert_eq!((found.name.as_str(), found.is_in_memory), ("tmpfs", true));
    }

    #[test]
    fn names_are_of_one_number_and_others_show_theirs() {
        let ext4 = FileSystem::of_magic(0xef53);
        assert!(ext4.name == "ext4" && !ext4.is_in_memory && !ext4.has_no_large_folios);
        assert!(ext4.counts_own_pages && !FileSystem::of_magic(0x794c_7630).counts_own_pages);
        assert!(FileSystem::of_magic(0x4d44).has_no_large_folios);
        assert_eq!(FileSystem::of_magic(0x1234).name, "file system 0x1234");
        let numbers: std::collections::BTreeSet<u64> = NAMES.iter().map(|(n, _)| *n).collect();
        assert_eq!(numbers.len(), NAMES.len());
    }
}
