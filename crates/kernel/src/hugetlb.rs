//! Pools of reserved huge pages: one for each size that processor and kernel offer, each a directory
//! `hugepages-<n>kB` under `/sys/kernel/mm/hugepages`; and the file systems (`hugetlbfs`) whose files
//! lie on them. See `Documentation/admin-guide/mm/hugetlbpage.rst`. Not seen: how many of the pages are
//! free, which only taking one tells for sure (others have reserved some, and cgroups have limits of
//! their own).

use crate::error::SysError;
use crate::proc::{fields, lines, meminfo, read_bytes, read_number};
use crate::thp;
use pagewise_model::{Bytes, PageSize};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

const DIR: &str = "/sys/kernel/mm/hugepages";

/// The page sizes that have a pool, smallest first; empty on a kernel without them.
pub fn sizes() -> Result<Vec<PageSize>, SysError> {
    match thp::sized_directories(DIR) {
        Err(e) if e.errno() == Some(libc::ENOENT) => Ok(Vec::new()),
        found => Ok(found?.into_iter().map(|(size, _)| size).collect()),
    }
}

/// The file that sets the number of pages in the pool of this page size.
#[must_use]
pub fn control(page: PageSize) -> String {
    of_pool(page, "nr_hugepages")
}

fn of_pool(page: PageSize, file: &str) -> String {
    format!("{DIR}/hugepages-{}kB/{file}", page.bytes() >> 10)
}

/// Pages of this size that are free in their pool now; some may be reserved.
pub fn free(page: PageSize) -> Result<u64, SysError> {
    read_number(of_pool(page, "free_hugepages")).map(|pages| u64::try_from(pages).unwrap_or(0))
}

/// Where a file system is mounted whose files lie on pages of this size; none where there is no such
/// mount. Mounts are told by their type: their first field is whatever was typed when they were made.
pub fn mount(page: PageSize) -> Result<Option<PathBuf>, SysError> {
    let usual = meminfo::read()?.hugetlb_size;
    let mounts = read_bytes("/proc/self/mounts")?;
    Ok(find_mount(&mounts, page, usual))
}

/// The mount in the text of `/proc/self/mounts`; `usual` is the size of those that name none.
fn find_mount(mounts: &[u8], page: PageSize, usual: Option<PageSize>) -> Option<PathBuf> {
    lines(mounts).find_map(|line| {
        let mut parts = fields(line).skip(1);
        let (path, kind, options) = (parts.next()?, parts.next()?, parts.next()?);
        let named = options.split(|byte| *byte == b',').find_map(page_size_option);
        (kind == b"hugetlbfs" && named.or(usual) == Some(page))
            .then(|| PathBuf::from(OsString::from_vec(unescape(path))))
    })
}

/// The size in the option `pagesize=2M` of a mount.
fn page_size_option(option: &[u8]) -> Option<PageSize> {
    let size: Bytes = std::str::from_utf8(option).ok()?.strip_prefix("pagesize=")?.parse().ok()?;
    PageSize::new(size.0)
}

/// A path as it is: the kernel writes blanks and backslashes as three octal digits.
fn unescape(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((first, tail)) = rest.split_first() {
        let octal = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok();
        match (first, tail.get(..3).and_then(octal)) {
            (b'\\', Some(byte)) => {
                out.push(byte);
                rest = &tail[3..];
            }
            (byte, _) => {
                out.push(*byte);
                rest = tail;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_pool_can_be_set() {
        for page in sizes().unwrap() {
            assert!(std::path::Path::new(&control(page)).exists(), "{page}");
            assert!(free(page).is_ok(), "{page}");
        }
    }

    #[test]
    fn a_mount_is_found_by_its_type_and_page_size() {
        let mounts = b"nodev /proc proc rw 0 0\n\
            none /mnt/giant hugetlbfs rw,relatime,pagesize=1024M 0 0\n\
            hugetlbfs /dev/huge\\040pages hugetlbfs rw,relatime,pagesize=2M 0 0\n\
            old /usual hugetlbfs rw 0 0\n";
        let find = |size: Bytes, usual| find_mount(mounts, PageSize::new(size.0).unwrap(), usual);
        assert_eq!(find(Bytes::mib(2), None), Some("/dev/huge pages".into()));
        assert_eq!(find(Bytes::gib(1), None), Some("/mnt/giant".into()));
        let other = PageSize::new(Bytes::mib(32).0);
        assert_eq!(find(Bytes::mib(32), other), Some("/usual".into()));
        assert_eq!(find(Bytes::mib(32), None), None);
        assert!(mount(PageSize::PMD_2M).is_ok());
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted(text: Vec<u8>) {
            let _ = find_mount(&text, PageSize::PMD_2M, Some(PageSize::PMD_2M));
            prop_assert!(unescape(&text).len() <= text.len());
        }
    }
}
