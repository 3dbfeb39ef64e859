//! Pools of reserved huge pages: one for each size that processor and kernel offer, each a directory
//! `hugepages-<n>kB` under `/sys/kernel/mm/hugepages`.
//!
//! Free pages that a mapping has reserved and not yet touched are counted as free and cannot be taken
//! (`resv_hugepages`). See `Documentation/admin-guide/mm/hugetlbpage.rst`. Reading costs about 10 us per
//! file. Not seen: limits of the hugetlb controller of a cgroup.

use crate::error::SysError;
use crate::proc::read_number;
use crate::thp;
use pagewise_model::PageSize;

const DIR: &str = "/sys/kernel/mm/hugepages";

/// The pool of one page size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    /// The size of its pages.
    pub page: PageSize,
    /// Pages in it.
    pub total: u64,
    /// Pages that can be taken.
    pub available: u64,
}

/// All pools, smallest pages first; empty on a kernel without them.
pub fn pools() -> Result<Vec<Pool>, SysError> {
    let fail = |e| SysError::new("read_dir", DIR, e);
    let entries = match std::fs::read_dir(DIR) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(fail)?,
    };
    let mut pools = Vec::new();
    for entry in entries {
        let name = entry.map_err(fail)?.file_name();
        let Some(page) = name.to_str().and_then(thp::size_of_directory) else { continue };
        let count = |file: &str| {
            let number = read_number(format!("{DIR}/{}/{file}", name.display()))?;
            Ok::<u64, SysError>(u64::try_from(number).unwrap_or(0))
        };
        let available = count("free_hugepages")?.saturating_sub(count("resv_hugepages")?);
        pools.push(Pool { page, total: count("nr_hugepages")?, available });
    }
    pools.sort_by_key(|pool| pool.page);
    Ok(pools)
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
    fn no_pool_gives_more_than_it_has() {
        for pool in pools().unwrap() {
            assert!(pool.available <= pool.total, "{pool:?}");
            assert!(std::path::Path::new(&control(pool.page)).exists(), "{pool:?}");
        }
    }
}
