//! `/proc/PID/smaps` and `smaps_rollup`: how much of each mapping is resident, and on which pages.
//!
//! The kernel walks the page tables under the mapping lock, so a read of a large process delays its faults.
//! `AnonHugePages`, `FilePmdMapped` and `ShmemPmdMapped` count memory mapped by one middle-level entry (2 MiB
//! with 4 KiB base pages). Smaller multi-size folios do not show.
//!
//! `Referenced` counts pages with the accessed bit. The processor sets that bit when it walks the page table
//! for a page that is not in its TLB. [`clear_referenced`] clears it for all pages of a process.

use super::maps::{self, Mapping};
use super::{kilobytes, lines, named, own_pid, pid_path, read_bytes};
use crate::error::SysError;
use pagewise_model::{Bytes, PageSize};
use std::ops::Range;

/// How much of a mapping, or of all mappings, is resident.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MappingResidency {
    /// Resident.
    pub rss: Bytes,
    /// Resident, with each shared page divided by the number of processes that map it.
    pub pss: Bytes,
    /// Resident pages marked as used since the marks were last cleared.
    pub referenced: Bytes,
    /// Resident pages without a file.
    pub anonymous: Bytes,
    /// Anonymous memory mapped huge.
    pub anon_huge: Bytes,
    /// File pages mapped huge.
    pub file_pmd: Bytes,
    /// Shared memory mapped huge.
    pub shmem_pmd: Bytes,
    /// Pages of this process only, written.
    pub private_dirty: Bytes,
    /// Pages of this process only, not written.
    pub private_clean: Bytes,
    /// Swapped out.
    pub swap: Bytes,
    /// Pages of the reserved pool (hugetlb), which `rss` does not count.
    pub pool: Bytes,
}

impl MappingResidency {
    fn take(&mut self, name: &[u8], value: &[u8]) {
        let slot = match name {
            b"Rss" => &mut self.rss,
            b"Pss" => &mut self.pss,
            b"Referenced" => &mut self.referenced,
            b"Anonymous" => &mut self.anonymous,
            b"AnonHugePages" => &mut self.anon_huge,
            b"FilePmdMapped" => &mut self.file_pmd,
            b"ShmemPmdMapped" => &mut self.shmem_pmd,
            b"Private_Dirty" => &mut self.private_dirty,
            b"Private_Clean" => &mut self.private_clean,
            b"Swap" => &mut self.swap,
            b"Private_Hugetlb" | b"Shared_Hugetlb" => &mut self.pool,
            _ => return,
        };
        if let Some(bytes) = kilobytes(value) {
            // Two names share the pool's slot; every other name occurs once in an entry.
            *slot = if name.ends_with(b"_Hugetlb") { *slot + bytes } else { bytes };
        }
    }

    /// Everything mapped huge that `rss` counts.
    #[must_use]
    pub fn huge(&self) -> Bytes {
        self.anon_huge + self.file_pmd + self.shmem_pmd
    }
}

impl std::ops::AddAssign for MappingResidency {
    fn add_assign(&mut self, other: Self) {
        self.rss += other.rss;
        self.pss += other.pss;
        self.referenced += other.referenced;
        self.anonymous += other.anonymous;
        self.anon_huge += other.anon_huge;
        self.file_pmd += other.file_pmd;
        self.shmem_pmd += other.shmem_pmd;
        self.private_dirty += other.private_dirty;
        self.private_clean += other.private_clean;
        self.swap += other.swap;
        self.pool += other.pool;
    }
}

/// One mapping with its residency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmapsEntry {
    pub mapping: Mapping,
    /// How much of it is resident.
    pub residency: MappingResidency,
    /// Its page size (`KernelPageSize`): larger than the base page only in mappings of a reserved pool.
    pub page: Option<PageSize>,
    /// The page size that the processor uses to translate it (`MMUPageSize`).
    pub mmu_page: Option<PageSize>,
    /// `VmFlags`: two letters each.
    pub flags: String,
}

impl SmapsEntry {
    fn new(mapping: Mapping) -> Self {
        let residency = MappingResidency::default();
        Self { mapping, residency, page: None, mmu_page: None, flags: String::new() }
    }

    fn take(&mut self, name: &[u8], value: &[u8]) {
        let page = || kilobytes(value).and_then(|size| PageSize::new(size.0));
        match name {
            b"KernelPageSize" => self.page = page(),
            b"MMUPageSize" => self.mmu_page = page(),
            b"VmFlags" => self.flags = String::from_utf8_lossy(value).into_owned(),
            _ => self.residency.take(name, value),
        }
    }
}

/// The entries of an `smaps` text.
#[must_use]
pub fn parse(text: &[u8]) -> Vec<SmapsEntry> {
    let mut entries: Vec<SmapsEntry> = Vec::new();
    for line in lines(text) {
        if maps::is_head(line) {
            if let Some(mapping) = maps::parse_line(line) {
                entries.push(SmapsEntry::new(mapping));
            }
        } else if let (Some((name, value)), Some(entry)) = (named(line), entries.last_mut()) {
            entry.take(name, value);
        }
    }
    entries
}

/// The sum over all entries; works for `smaps` and `smaps_rollup`.
#[must_use]
pub fn sum(text: &[u8]) -> MappingResidency {
    total(&parse(text))
}

/// The sum over these entries.
#[must_use]
pub fn total(entries: &[SmapsEntry]) -> MappingResidency {
    let mut total = MappingResidency::default();
    for entry in entries {
        total += entry.residency;
    }
    total
}

/// The mappings of process `pid` with their residency.
pub fn read(pid: i32) -> Result<Vec<SmapsEntry>, SysError> {
    read_bytes(pid_path(pid, "smaps")).map(|text| parse(&text))
}

/// The mappings of the calling process that begin in `range`.
pub(crate) fn own(range: Range<u64>) -> Result<Vec<SmapsEntry>, SysError> {
    let mut entries = read(own_pid())?;
    entries.retain(|entry| range.contains(&entry.mapping.start));
    Ok(entries)
}

/// The sum over process `pid`, from `smaps_rollup` (Linux 4.14) or else by adding up `smaps`.
pub fn rollup(pid: i32) -> Result<MappingResidency, SysError> {
    match read_bytes(pid_path(pid, "smaps_rollup")) {
        Err(e) if e.errno() == Some(libc::ENOENT) => read_bytes(pid_path(pid, "smaps")),
        other => other,
    }
    .map(|text| sum(&text))
}

/// Clears the marks of use of all pages of process `pid` (`clear_refs` in `proc(5)`). The TLB is not flushed:
/// a page that is in the TLB is marked again only after it has left it.
///
/// Reclaim takes unmarked pages for unused, so use this only for processes under observation.
pub fn clear_referenced(pid: i32) -> Result<(), SysError> {
    let path = pid_path(pid, "clear_refs");
    std::fs::write(&path, "1").map_err(|e| SysError::new("write", path, e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const X86: &[u8] = include_bytes!("../../../../fixtures/proc/x86_64-smaps");
    const ROLLUP: &[u8] = include_bytes!("../../../../fixtures/proc/x86_64-smaps_rollup");
    const ARM: &[u8] = include_bytes!("../../../../fixtures/proc/aarch64-64k-smaps");

    #[test]
    fn entries_add_up() {
        let entries = parse(X86);
        assert_eq!(entries.len(), 2);
        assert_eq!(entries[0].residency.rss, Bytes::kib(8));
        assert_eq!(entries[1].mapping.size(), Bytes::mib(4));
        assert_eq!(entries[1].residency.anon_huge, Bytes::mib(2));
        assert_eq!(entries[1].page, Some(PageSize::BASE_4K), "huge by chance, not by its kind");
        assert_eq!(entries[1].mmu_page, Some(PageSize::BASE_4K));
        assert!(entries[1].flags.split_ascii_whitespace().any(|flag| flag == "rd"));
        assert_eq!(sum(X86).rss, Bytes::kib(8) + Bytes::mib(3));
    }

    #[test]
    fn rollup_is_one_entry() {
        let total = sum(ROLLUP);
        assert_eq!((total.rss, total.pss), (Bytes::kib(1728), Bytes::kib(393)));
        assert_eq!(total.private_dirty, Bytes::kib(116));
    }

    #[test]
    fn huge_pages_of_512_mib() {
        let total = sum(ARM);
        assert_eq!(total.anon_huge, Bytes::mib(512));
        assert_eq!(total.huge(), Bytes::mib(512));
        assert_eq!(total.rss, Bytes::mib(512) + Bytes::kib(64));
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted(text: Vec<u8>) {
            let _ = sum(&text);
        }
    }
}
