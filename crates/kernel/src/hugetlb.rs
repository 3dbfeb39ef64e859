//! Pools of reserved huge pages, one for each size that processor and kernel support. Each is a directory
//! `hugepages-<n>kB` under `/sys/kernel/mm/hugepages`. Also the file systems (`hugetlbfs`) whose files use
//! them. See `Documentation/admin-guide/mm/hugetlbpage.rst`.
//!
//! A pool grows by as many contiguous pages as the kernel finds; it moves other pages out of the way if it
//! can. A pool shrinks at once; pages in use leave it when they are released (mm/hugetlb.c,
//! `set_max_huge_pages`). Not seen: cgroup limits, by which a touch may end in `SIGBUS` although a page is
//! free.

use crate::error::SysError;
use crate::proc::{fields, lines, meminfo, read_bytes, read_number};
use crate::thp;
use pagewise_model::pool::HugePool;
use pagewise_model::{Bytes, PageSize};
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Growing a pool leaves one byte in this many of the memory available.
const LEFT: u64 = 4;

const DIR: &str = "/sys/kernel/mm/hugepages";

/// The page sizes that have a pool, smallest first; empty on a kernel without them.
pub fn sizes() -> Result<Vec<PageSize>, SysError> {
    match thp::sized_directories(DIR) {
        Err(e) if e.errno() == Some(libc::ENOENT) => Ok(Vec::new()),
        found => Ok(found?.into_iter().map(|(size, _)| size).collect()),
    }
}

/// The file that sets the number of pages in the pool of this size.
#[must_use]
pub fn control(page: PageSize) -> String {
    of_pool(page, "nr_hugepages")
}

fn of_pool(page: PageSize, file: &str) -> String {
    format!("{DIR}/hugepages-{}kB/{file}", page.bytes() >> 10)
}

/// The page size for calls that do not name one.
pub fn usual() -> Result<PageSize, SysError> {
    let none = || SysError::new("open", DIR, std::io::Error::from_raw_os_error(libc::ENOENT));
    meminfo::read()?.hugetlb_size.ok_or_else(none)
}

/// Current state of the pool of this page size, with the number of pages that may be added.
pub fn pool(page: PageSize) -> Result<HugePool, SysError> {
    let count = |file| {
        read_number(of_pool(page, file)).map(|pages| u64::try_from(pages).unwrap_or_default())
    };
    let (all, surplus_pages) = (count("nr_hugepages")?, count("surplus_hugepages")?);
    let memory = meminfo::read()?;
    Ok(HugePool {
        page_bytes: page,
        // When read, the file includes surplus pages; a write sets the number without them.
        pages: all.saturating_sub(surplus_pages),
        free_pages: count("free_hugepages")?,
        reserved_pages: count("resv_hugepages")?,
        surplus_pages,
        addable_pages: addable(memory.available, memory.total, page),
    })
}

/// Maximum number of surplus pages, which the pool may borrow while they are in use.
pub fn most_surplus(page: PageSize) -> Result<u64, SysError> {
    let pages = read_number(of_pool(page, "nr_overcommit_hugepages"))?;
    Ok(u64::try_from(pages).unwrap_or_default())
}

/// Number of pages that can be added while [`LEFT`] of the memory stays available.
fn addable(available: Bytes, total: Bytes, page: PageSize) -> u64 {
    available.0.saturating_sub(total.0 / LEFT) / page.bytes()
}

/// Requests a pool of `pages` pages. Success does not mean that all of them exist; [`pool`] reports that. A
/// signal ends the kernel's search for more.
pub fn resize(page: PageSize, pages: u64) -> Result<(), SysError> {
    let path = control(page);
    let written = OpenOptions::new().write(true).open(&path);
    let written = written.and_then(|mut file| file.write_all(pages.to_string().as_bytes()));
    written.map_err(|error| SysError::new("write", path, error))
}

/// Where a file system with pages of this size is mounted; `None` if there is no such mount. Mounts are
/// recognised by their type: their first field is free text.
pub fn mount(page: PageSize) -> Result<Option<PathBuf>, SysError> {
    let usual = meminfo::read()?.hugetlb_size;
    let mounts = read_bytes("/proc/self/mounts")?;
    Ok(find_mount(&mounts, page, usual))
}

/// The mount in the text of `/proc/self/mounts`; `usual` is the size of mounts that name none.
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

/// Decodes a path: the kernel writes blanks and backslashes as three octal digits.
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
            let pool = pool(page).unwrap();
            assert!(pool.free_pages <= pool.pages + pool.surplus_pages, "{pool:?}");
        }
    }

    #[test]
    fn a_quarter_of_the_memory_stays() {
        let of = |available| addable(Bytes::mib(available), Bytes::mib(400), PageSize::PMD_2M);
        assert_eq!([of(99), of(101), of(104), of(400)], [0, 0, 2, 150]);
    }

    #[test]
    fn a_pool_that_is_not_there_is_an_error() {
        let odd = PageSize::new(Bytes::kib(32).0).unwrap();
        assert_eq!(pool(odd).unwrap_err().errno(), Some(libc::ENOENT));
        assert_eq!(resize(odd, 1).unwrap_err().errno(), Some(libc::ENOENT));
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
