//! `/proc/meminfo`: memory of the machine.
//!
//! `MemAvailable` is the kernel's estimate of the memory available without swapping (mm/page_alloc.c,
//! `si_mem_available`). It does not consider cgroup limits.

use super::{kilobytes, lines, named, read_bytes};
use crate::error::SysError;
use pagewise_model::text::HugeTotals;
use pagewise_model::{Bytes, PageSize};

/// The fields that pagewise uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemInfo {
    /// Installed.
    pub total: Bytes,
    pub free: Bytes,
    /// Available without swapping.
    pub available: Bytes,
    /// Swap space.
    pub swap_total: Bytes,
    /// Swap space not in use.
    pub swap_free: Bytes,
    /// Size of the default huge page.
    pub hugetlb_size: Option<PageSize>,
    /// Transparent huge pages in use.
    pub huge: HugeTotals,
}

/// The field for the total with this name; `None` for other names.
fn huge_total<'a>(totals: &'a mut HugeTotals, name: &[u8]) -> Option<&'a mut Option<Bytes>> {
    match name {
        b"FileHugePages" => Some(&mut totals.file_huge_bytes),
        b"FilePmdMapped" => Some(&mut totals.file_pmd_bytes),
        b"ShmemHugePages" => Some(&mut totals.shmem_huge_bytes),
        b"ShmemPmdMapped" => Some(&mut totals.shmem_pmd_bytes),
        b"AnonHugePages" => Some(&mut totals.anon_huge_bytes),
        _ => None,
    }
}

/// Parses the fields in `text`; `None` if the total is missing.
#[must_use]
pub fn parse(text: &[u8]) -> Option<MemInfo> {
    let mut info = MemInfo::default();
    for (name, value) in lines(text).filter_map(named) {
        let slot = match name {
            b"MemTotal" => &mut info.total,
            b"MemFree" => &mut info.free,
            b"MemAvailable" => &mut info.available,
            b"SwapTotal" => &mut info.swap_total,
            b"SwapFree" => &mut info.swap_free,
            b"Hugepagesize" => {
                info.hugetlb_size = kilobytes(value).and_then(|b| PageSize::new(b.0));
                continue;
            }
            name => {
                if let Some(total) = huge_total(&mut info.huge, name) {
                    *total = kilobytes(value);
                }
                continue;
            }
        };
        *slot = kilobytes(value)?;
    }
    (info.total > Bytes(0)).then_some(info)
}

/// The memory of this machine now.
pub fn read() -> Result<MemInfo, SysError> {
    let path = "/proc/meminfo";
    parse(&read_bytes(path)?).ok_or_else(|| SysError::malformed("read", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn recorded_meminfo() {
        let info = parse(include_bytes!("../../../../fixtures/proc/x86_64-meminfo")).unwrap();
        assert_eq!(info.total, Bytes::kib(24_684_084));
        assert_eq!(info.hugetlb_size, Some(PageSize::PMD_2M));
        assert_eq!(info.huge.file_pmd_bytes, Some(Bytes(0)));
        let arm = parse(include_bytes!("../../../../fixtures/proc/aarch64-64k-meminfo")).unwrap();
        assert_eq!(arm.hugetlb_size, PageSize::new(Bytes::mib(512).0));
        let shared = parse(b"MemTotal: 4 kB\nShmemPmdMapped: 2048 kB\nAnonHugePages: x kB\n");
        let shared = shared.unwrap().huge;
        assert_eq!((shared.shmem_pmd_bytes, shared.anon_huge_bytes), (Some(Bytes::mib(2)), None));
        assert_eq!(parse(b"MemFree: 1 kB\n"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted(text: Vec<u8>) {
            let _ = parse(&text);
        }
    }
}
