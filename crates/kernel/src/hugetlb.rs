//! Pools of reserved huge pages: one for each size that processor and kernel offer, each a directory
//! `hugepages-<n>kB` under `/sys/kernel/mm/hugepages`. See
//! `Documentation/admin-guide/mm/hugetlbpage.rst`. Not seen: how many of the pages are free, which only
//! taking one tells for sure (others have reserved some, and cgroups have limits of their own).

use crate::error::SysError;
use crate::thp;
use pagewise_model::PageSize;

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
    format!("{DIR}/hugepages-{}kB/nr_hugepages", page.bytes() >> 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pool_can_be_set() {
        for page in sizes().unwrap() {
            assert!(std::path::Path::new(&control(page)).exists(), "{page}");
        }
    }
}
