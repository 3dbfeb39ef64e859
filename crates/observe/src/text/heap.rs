//! Anonymous memory that a process writes: heap, stacks, arenas, and mappings of the reserved pools.
//!
//! Present pages come from `PAGEMAP_SCAN` (Linux 6.7) in ranges, so a mapping of terabytes with few touched
//! pages is cheap. The program's requests come from `VmFlags` in `smaps`, for which the kernel walks over all
//! resident pages. Not seen: memory that processes share (memfd, System V, tmpfs); whether khugepaged will
//! collapse pages; pools from which a cgroup may take no more; and that a process uses huge pages only where
//! it asks for them (PR_THP_DISABLE_EXCEPT_ADVISED, Linux 6.18).

use super::process::is_still;
use pagewise_kernel::pagemap::Pagemap;
use pagewise_kernel::proc::smaps::{self, SmapsEntry};
use pagewise_kernel::{SysError, hugetlb, page_size, thp};
use pagewise_model::heap::{HeapSeen, HugeAdvice, PoolSeen};
use pagewise_model::pool::HugePool;
use pagewise_model::{Fact, PageSize};

/// The memory of a process.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessHeap {
    /// The machine's setting for such memory: `always`, `madvise` or `never`.
    pub setting: Fact<String>,
    /// The mappings, by address.
    pub mappings: Vec<HeapSeen>,
}

/// Looks at the memory of process `pid`, which was started at `start_ticks`.
///
/// # Errors
/// If the process no longer exists, or may not be looked at.
pub fn look_heap(pid: i32, start_ticks: u64) -> Result<ProcessHeap, SysError> {
    let pagemap = Pagemap::open(pid)?;
    let is_heap = |entry: &SmapsEntry| {
        let is_plain = entry.mapping.is_anonymous() && !entry.mapping.perms.exec;
        entry.mapping.perms.write && (is_plain || pool_page(entry).is_some())
    };
    let entries = smaps::read(pid)?.into_iter().filter(is_heap);
    let mappings = entries.map(|entry| seen(&pagemap, &entry)).collect::<Result<_, _>>()?;
    is_still(pid, start_ticks)?;
    Ok(ProcessHeap { setting: thp::enabled_largest().into(), mappings })
}

fn seen(pagemap: &Pagemap, entry: &SmapsEntry) -> Result<HeapSeen, SysError> {
    let (start, end) = (entry.mapping.start, entry.mapping.end);
    let has = |flag: &str| entry.flags.split_ascii_whitespace().any(|each| each == flag);
    let advice = match (has("nh"), has("hg")) {
        (true, _) => HugeAdvice::Refused,
        (false, true) => HugeAdvice::Wanted,
        (false, false) => HugeAdvice::None,
    };
    let is_reserved = entry.mapping.perms.shared || !has("nr");
    let pool = pool_page(entry)
        .map(|page| PoolSeen { page, is_empty: !is_reserved && has_nothing_to_spare(page) });
    let name = entry.mapping.path.to_string_lossy().into_owned();
    let populated = pagemap.populated(start, end)?;
    Ok(HeapSeen { name, start, end, advice, pool, populated })
}

/// The page of the reserved pool that a mapping is served from.
fn pool_page(entry: &SmapsEntry) -> Option<PageSize> {
    entry.page.filter(|page| *page != page_size::base())
}

/// Whether a pool has no page that is not set aside, and may take none from elsewhere.
fn has_nothing_to_spare(page: PageSize) -> bool {
    let may_grow =
        |pool: &HugePool| hugetlb::most_surplus(page).is_ok_and(|most| pool.surplus_pages < most);
    hugetlb::pool(page).is_ok_and(|pool| pool.free_pages <= pool.reserved_pages && !may_grow(&pool))
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests {
    use super::*;
    use pagewise_kernel::proc::{own_pid, stat};
    use pagewise_kernel::region::{MemoryRegion, RegionPages};
    use pagewise_model::Bytes;

    /// The entry found for a region of this process, and its advice.
    fn found(region: &MemoryRegion) -> Option<(u64, u64, HugeAdvice)> {
        let ticks = stat::read(own_pid()).unwrap().start_ticks;
        let heap = match look_heap(own_pid(), ticks) {
            Ok(heap) => heap,
            Err(error) => {
                println!("SKIP own_memory_is_seen_as_it_was_touched: {error}");
                return None;
            }
        };
        let start = region.as_ptr() as u64;
        let mapping = heap.mappings.iter().find(|m| m.start <= start && start < m.end).unwrap();
        let end = start + region.as_slice().len() as u64;
        let ours = mapping.populated.iter().filter(|r| r.start.0 < end && r.end.0 > start);
        let sum = |is_huge| {
            let of = ours.clone().filter(|range| range.is_huge == is_huge);
            of.map(|range| range.end.0.min(end) - range.start.0.max(start)).sum()
        };
        Some((sum(false), sum(true), mapping.advice))
    }

    #[test]
    fn own_memory_is_seen_as_it_was_touched() {
        let (base, huge) = (page_size::base().bytes(), page_size::huge().bytes());
        if huge > Bytes::mib(64).0 {
            return println!("SKIP own_memory_is_seen_as_it_was_touched: a page of {huge} bytes");
        }
        let mut region = MemoryRegion::new(Bytes(4 * huge), RegionPages::Base).unwrap();
        let pages = region.touch(Bytes(7 * base));
        let Some(seen) = found(&region) else { return };
        assert_eq!(seen, (pages * base, 0, HugeAdvice::Refused));
        let mut region = MemoryRegion::new(Bytes(4 * huge), RegionPages::Huge).unwrap();
        let slots = region.touch(Bytes(2 * huge));
        if region.huge_bytes().unwrap() != Bytes(slots * huge) {
            return println!("SKIP huge pages of own_memory_is_seen_as_it_was_touched: none given");
        }
        let Some(seen) = found(&region) else { return };
        assert_eq!(seen, (0, slots * huge, HugeAdvice::Wanted));
    }

    #[test]
    fn another_process_of_that_number_is_none() {
        let ticks = stat::read(own_pid()).unwrap().start_ticks;
        assert!(look_heap(own_pid(), ticks + 1).unwrap_err().is_gone());
    }
}
