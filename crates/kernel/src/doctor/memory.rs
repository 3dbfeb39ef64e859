//! Probes: calls on memory and on the page cache, tried on a few pages of this process.

use super::answer::{answer_if, answer_of, capability};
use crate::error::SysError;
use crate::ioctl::control;
use crate::pagemap::{self, Pagemap};
use crate::proc::{meminfo, own_pid};
use crate::region::{MemoryRegion, RegionPages};
use crate::userfault::Userfault;
use crate::{cachestat, linker_cache, page_size, thp};
use pagewise_model::Bytes;
use pagewise_model::capability::{Capability, CapabilityAnswer};
use rustix::fs::MemfdFlags;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::fs::File;
use std::os::fd::OwnedFd;

const GROUP: &str = "memory";

// Number from linux/fs.h, _IOWR, the same on every architecture that uses the generic ioctl encoding (x86,
// arm64, riscv).
const PROCMAP_QUERY: u64 = 0xc068_6611;

pub(super) fn probe() -> Vec<Capability> {
    let mut found = huge_pages();
    found.extend(allocators());
    found.extend(page_tables());
    found.extend(files());
    found
}

fn huge_pages() -> Vec<Capability> {
    let enabled = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
    vec![
        capability(
            GROUP,
            "transparent huge pages",
            "anonymous memory on huge pages where a program asks (remedy heap-huge)",
            huge_answer(advised_huge(), thp::enabled().ok().as_deref()),
            Some(enabled),
        ),
        capability(
            GROUP,
            "MADV_COLLAPSE",
            "memory and code that exist already on huge pages (Linux 6.1)",
            proven(collapsed(), "accepted, but the memory is not on huge pages"),
            None,
        ),
        capability(
            GROUP,
            "reserved huge pages",
            "memory that is always huge (remedy pool)",
            answer_of(&take_reserved()),
            Some("as root: sysctl vm.nr_hugepages=N, or pagewise run --system --with pool=SIZE"),
        ),
    ]
}

fn allocators() -> Vec<Capability> {
    let found = linker_cache::allocators();
    let row = |known: &linker_cache::KnownAllocator| {
        let is_there = found.iter().any(|library| library.allocator == known.allocator);
        capability(
            GROUP,
            known.name,
            "another malloc, to be tried on any program (remedy allocator)",
            answer_if(is_there, "the dynamic linker knows no such library"),
            Some(&format!("Debian, Ubuntu: apt install {}", known.package)),
        )
    };
    linker_cache::ALLOCATORS.iter().map(row).collect()
}

fn page_tables() -> Vec<Capability> {
    vec![
        capability(
            GROUP,
            "PAGEMAP_SCAN",
            "page sizes and written pages by range, without reading each entry (Linux 6.7)",
            answer_of(&scan_pagemap()),
            None,
        ),
        capability(
            GROUP,
            "frame numbers in pagemap",
            "the physical pages and folios behind an address",
            proven(pagemap::shows_frames(), "read, but frame numbers are hidden from this account"),
            Some("root, or setcap cap_sys_admin+ep on pagewise"),
        ),
        capability(
            GROUP,
            "PROCMAP_QUERY",
            "one mapping found without reading them all (Linux 6.11)",
            answer_of(&query_map()),
            None,
        ),
        capability(
            GROUP,
            "userfaultfd write-protect, asynchronous",
            "exact record of the pages that are touched, without rights (Linux 6.7)",
            answer_of(&Userfault::open()),
            Some("in a container: allow userfaultfd"),
        ),
    ]
}

fn files() -> Vec<Capability> {
    vec![
        capability(
            GROUP,
            "memfd",
            "memory with a descriptor, sealable",
            answer_of(&memfd().map(drop)),
            None,
        ),
        capability(
            GROUP,
            "cachestat",
            "how much of a file is in the page cache, for files you may write (Linux 6.5)",
            answer_of(&memfd().and_then(|file| cachestat::read(&file, "a memfd"))),
            None,
        ),
    ]
}

/// Yes if the effect was proven; no with `why_not` if the call succeeded without it.
fn proven(result: Result<bool, SysError>, why_not: &str) -> CapabilityAnswer {
    match result {
        Ok(effect) => answer_if(effect, why_not),
        Err(_) => answer_of(&result),
    }
}

fn huge_answer(result: Result<bool, SysError>, setting: Option<&str>) -> CapabilityAnswer {
    match (result, setting) {
        (Ok(true), _) => CapabilityAnswer::Yes,
        (_, Some("never")) => {
            CapabilityAnswer::No("transparent_hugepage/enabled is `never`".into())
        }
        (Ok(false), _) => CapabilityAnswer::No("advised, but no huge page was free".into()),
        (result, _) => answer_of(&result),
    }
}

/// A region of one huge page for the probes. Fails if a huge page has hundreds of MiB.
fn huge_region() -> Result<MemoryRegion, SysError> {
    let size = Bytes(page_size::huge().bytes());
    if size > Bytes::mib(64) {
        return Err(SysError::new(
            "mmap",
            format!("a huge page of {size}"),
            rustix::io::Errno::NOMEM,
        ));
    }
    MemoryRegion::new(size, RegionPages::Huge)
}

fn advised_huge() -> Result<bool, SysError> {
    let mut region = huge_region()?;
    region.touch(region.size());
    Ok(region.huge_bytes()? > Bytes(0))
}

fn collapsed() -> Result<bool, SysError> {
    let mut region = huge_region()?;
    region.advise(Advice::LinuxNoHugepage)?;
    region.touch(region.size());
    region.advise(Advice::LinuxHugepage)?;
    region.collapse()?;
    Ok(region.huge_bytes()? > Bytes(0))
}

fn take_reserved() -> Result<(), SysError> {
    let size = meminfo::read()?.hugetlb_size.unwrap_or_else(page_size::huge);
    let fail = |call| move |e| SysError::new(call, format!("a reserved page of {size}"), e);
    let len = size.bytes() as usize;
    // SAFETY: a fresh mapping at an address chosen by the kernel.
    let start = unsafe {
        rustix::mm::mmap_anonymous(
            std::ptr::null_mut(),
            len,
            ProtFlags::READ,
            MapFlags::PRIVATE | MapFlags::HUGETLB,
        )
    }
    .map_err(fail("mmap MAP_HUGETLB"))?;
    // SAFETY: the mapping just made, which nothing refers to.
    unsafe { rustix::mm::munmap(start, len) }.map_err(fail("munmap"))
}

/// `struct procmap_query`.
#[repr(C)]
#[derive(Default)]
struct MapQuery {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma: [u64; 6],
    device: [u32; 2],
    name_and_build_id_sizes: [u32; 2],
    name_and_build_id: [u64; 2],
}

fn open(path: &str) -> Result<File, SysError> {
    File::open(path).map_err(|e| SysError::new("open", path, e))
}

fn scan_pagemap() -> Result<(), SysError> {
    let region = MemoryRegion::new(Bytes(1), RegionPages::Any)?;
    let start = region.as_ptr() as u64;
    Pagemap::open(own_pid())?.scan(start, start + region.size().0).map(drop)
}

fn query_map() -> Result<(), SysError> {
    let region = MemoryRegion::new(Bytes(1), RegionPages::Any)?;
    let mut query = MapQuery {
        size: size_of::<MapQuery>() as u64,
        query_addr: region.as_ptr() as u64,
        ..MapQuery::default()
    };
    let (name, file) = ("ioctl PROCMAP_QUERY", open("/proc/self/maps")?);
    // SAFETY: the number encodes the size of the argument (checked by a test), which holds integers only.
    unsafe { control(name, "own memory", &file, PROCMAP_QUERY, &mut query) }.map(drop)
}

fn memfd() -> Result<OwnedFd, SysError> {
    rustix::fs::memfd_create("probe", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .map_err(|e| SysError::new("memfd_create", "a probe", e))
}

#[cfg(test)]
mod tests {
    use super::super::answer::answer_from;
    use super::*;

    #[test]
    fn the_ioctl_number_encodes_the_size() {
        assert_eq!((PROCMAP_QUERY >> 16 & 0x3fff) as usize, size_of::<MapQuery>());
    }

    fn injected(errno: i32) -> CapabilityAnswer {
        proven(Err(SysError::new("x", "y", std::io::Error::from_raw_os_error(errno))), "unused")
    }

    #[test]
    fn refusals() {
        for errno in [libc::ENOSYS, libc::EPERM, libc::EINVAL] {
            assert_eq!(injected(errno), answer_from(errno));
            assert!(matches!(injected(errno), CapabilityAnswer::No(_)));
        }
        assert!(
            matches!(proven(Ok(false), "hidden"), CapabilityAnswer::No(why) if why == "hidden")
        );
    }

    #[test]
    fn the_setting_explains_absent_huge_pages() {
        assert_eq!(huge_answer(Ok(true), Some("never")), CapabilityAnswer::Yes);
        assert!(
            matches!(huge_answer(Ok(false), Some("never")), CapabilityAnswer::No(w) if w.contains("never"))
        );
        assert!(
            matches!(huge_answer(Ok(false), Some("madvise")), CapabilityAnswer::No(w) if w.contains("free"))
        );
        let refused = Err(SysError::new("x", "y", rustix::io::Errno::INVAL));
        assert!(matches!(huge_answer(refused, None), CapabilityAnswer::No(_)));
    }

    #[test]
    fn every_probe_understands_its_answer() {
        for found in probe() {
            assert!(!matches!(found.answer, CapabilityAnswer::Unknown(_)), "{found:?}");
        }
    }
}
