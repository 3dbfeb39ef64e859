//! Which pages of a process are resident, with how much one fault may have mapped of each.

use super::reader;
use pagewise_kernel::pagemap::Pagemap;
use pagewise_kernel::proc::maps::{self, Mapping};
use pagewise_kernel::{SysError, page_size, thp};
use pagewise_model::fault::ResidentPages;
use pagewise_model::{Bytes, PageSize};

/// The most that one fault maps of a cached file (the kernel's `fault_around_bytes`).
const WINDOW: Bytes = Bytes::kib(64);

/// The resident pages of process `pid`, by address.
///
/// # Errors
/// When its mappings or its page table cannot be read.
pub fn resident(pid: i32) -> Result<Vec<ResidentPages>, SysError> {
    let table = Pagemap::open(pid)?;
    let largest = largest_folio();
    let mut found = Vec::new();
    for mapping in maps::read(pid)?.iter().filter(|mapping| !is_kernels(mapping)) {
        let is_of_file = mapping.is_file() || mapping.perms.shared;
        let block_bytes = if is_of_file { WINDOW } else { largest };
        // A mapping that cannot be looked at has none that are known.
        let ranges = reader::resident(&table, mapping.start, mapping.end).unwrap_or_default();
        found.extend(ranges.iter().map(|range| ResidentPages {
            pid,
            start_address: range.start.0,
            end_address: range.end.0,
            block_bytes,
        }));
    }
    Ok(found)
}

/// The most that one fault on anonymous memory may map here. The current size of a page does not tell how it
/// came: huge pages are split and merged later.
fn largest_folio() -> Bytes {
    let is_on = thp::enabled().is_ok_and(|word| word != "never");
    let huge = is_on.then(|| thp::huge_page_size().unwrap_or(PageSize::PMD_2M));
    Bytes(huge.unwrap_or(page_size::base()).bytes())
}

/// What the kernel maps into each process is not part of a resident set.
fn is_kernels(mapping: &Mapping) -> bool {
    let name = mapping.path.to_string_lossy();
    ["[vvar", "[vdso", "[vsyscall"].iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_kernel::proc::own_pid;

    #[test]
    fn what_is_held_is_resident_in_whole_pages() {
        let held = std::hint::black_box(vec![7_u8; 1 << 20]);
        let (start, end) = (held.as_ptr() as u64, held.as_ptr() as u64 + held.len() as u64);
        let all = resident(own_pid()).unwrap();
        let page = page_size::base().bytes();
        assert!(all.iter().all(|one| one.start_address % page == 0 && one.block_bytes.0 >= page));
        let inside = all
            .iter()
            .map(|one| one.end_address.min(end).saturating_sub(one.start_address.max(start)));
        assert_eq!(inside.sum::<u64>(), held.len() as u64);
    }
}
