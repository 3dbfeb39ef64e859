//! What the kernel reports about addresses of a running process: its mappings (`smaps`), the entries of its
//! page table (`pagemap`, `PAGEMAP_SCAN`), the frames under them (`kpageflags`, `kpagecount`).
//!
//! The process is not stopped. Sources are read one after the other, so a page that changes meanwhile may
//! appear inconsistently. What the kernel refuses is missing, with the reason. Cost: one read of `smaps`,
//! which walks all page tables of the process under its lock (about 1 us for each resident MiB), and four
//! short calls for each address.

use pagewise_kernel::pagemap::{self, Pagemap};
use pagewise_kernel::proc::{maps, smaps};
use pagewise_kernel::{SysError, page_frames};
use pagewise_model::address::{
    AddressLayout, AddressSeen, FlagWindow, FrameSeen, MappingResidence, MemoryMapping,
    PagemapWindow, ScannedRange, VirtualAddress,
};
use pagewise_model::{Bytes, Fact, PageSize};
use pagewise_tracee::target::{TargetError, TargetProcess};

/// What there is at each of `addresses` in the memory of `target`.
///
/// # Errors
/// [`TargetError`] when the process ends before all is read, or its mappings cannot be had.
pub fn look(
    target: &TargetProcess,
    layout: &AddressLayout,
    addresses: &[VirtualAddress],
) -> Result<Vec<AddressSeen>, TargetError> {
    let mapped = mapped(target)?;
    let table = Pagemap::open(target.pid());
    let keeps_soft_dirty = Fact::from(pagemap::keeps_soft_dirty());
    let mappings: Vec<MemoryMapping> = mapped.iter().map(|(mapping, _)| mapping.clone()).collect();
    let look = |address: &VirtualAddress| {
        let inside = mapped.iter().find(|(mapping, _)| mapping.contains(address.0));
        let none = || Fact::missing("it is in no mapping");
        let residence = inside.map_or_else(none, |(_, residence)| residence.clone());
        let (entries, scanned) = read_table(table.as_ref(), layout, *address);
        let frame = frame(layout, &entries, &residence, *address);
        AddressSeen {
            address: *address,
            mappings: mappings.clone(),
            residence,
            entries,
            scanned,
            frame,
            keeps_soft_dirty: keeps_soft_dirty.clone(),
        }
    };
    let seen = addresses.iter().map(look).collect();
    if target.has_ended() { Err(TargetError::Gone(target.pid())) } else { Ok(seen) }
}

/// The mappings, each with its resident bytes if the kernel reports them.
fn mapped(
    target: &TargetProcess,
) -> Result<Vec<(MemoryMapping, Fact<MappingResidence>)>, TargetError> {
    let why = match smaps::read(target.pid()) {
        Ok(entries) => {
            let of = |e: &smaps::SmapsEntry| (mapping(&e.mapping), Fact::Known(residence(e)));
            return Ok(entries.iter().map(of).collect());
        }
        Err(error) => error.to_string(),
    };
    let found = maps::read(target.pid()).map_err(|error| match error.is_gone() {
        true => TargetError::Gone(target.pid()),
        false => TargetError::Sys(error),
    })?;
    Ok(found.iter().map(|m| (mapping(m), Fact::missing(&why))).collect())
}

fn mapping(found: &maps::Mapping) -> MemoryMapping {
    let perms = found.perms;
    let letter = |is: bool, letter: char| if is { letter } else { '-' };
    let permissions = [
        letter(perms.read, 'r'),
        letter(perms.write, 'w'),
        letter(perms.exec, 'x'),
        if perms.shared { 's' } else { 'p' },
    ];
    MemoryMapping {
        start_address: VirtualAddress(found.start),
        end_address: VirtualAddress(found.end),
        permissions: permissions.iter().collect(),
        offset_bytes: found.is_file().then_some(Bytes(found.offset)),
        path: found.path.to_string_lossy().into_owned(),
    }
}

fn residence(entry: &smaps::SmapsEntry) -> MappingResidence {
    let of = entry.residency;
    MappingResidence {
        kernel_page_bytes: entry.page,
        mmu_page_bytes: entry.mmu_page,
        resident_bytes: of.rss,
        anon_huge_bytes: of.anon_huge,
        file_pmd_mapped_bytes: of.file_pmd,
        shmem_pmd_mapped_bytes: of.shmem_pmd,
        pool_bytes: of.pool,
        swapped_bytes: of.swap,
        flags: entry.flags.split_ascii_whitespace().map(str::to_owned).collect(),
    }
}

/// The entries under the same entry one level above base pages, and which of them are huge or zero.
fn read_table(
    table: Result<&Pagemap, &SysError>,
    layout: &AddressLayout,
    address: VirtualAddress,
) -> (Fact<PagemapWindow>, Fact<Vec<ScannedRange>>) {
    let table = match table {
        Ok(table) => table,
        Err(error) => return (Fact::missing(error.to_string()), Fact::missing(error.to_string())),
    };
    let base = layout.base_page_bytes;
    let span = layout.huge_page().unwrap_or(base).bytes();
    let start = address.0 - address.0 % span;
    // As many entries as fit one page.
    let count = usize::try_from(span / base.bytes()).unwrap_or(1);
    let entries = table.read(start, count);
    let entries =
        entries.map(|entries| PagemapWindow { first_address: VirtualAddress(start), entries });
    let end = start.saturating_add(span);
    (entries.into(), table.scan(start, end).into())
}

/// The frame of the entry of `address`, with the flags of all frames that its folio may have.
fn frame(
    layout: &AddressLayout,
    entries: &Fact<PagemapWindow>,
    residence: &Fact<MappingResidence>,
    address: VirtualAddress,
) -> Fact<FrameSeen> {
    let entries = match entries {
        Fact::Known(entries) => entries,
        Fact::Missing(why) => return Fact::missing(why),
    };
    let base = layout.base_page_bytes;
    let nth = (address.0 - entries.first_address.0) / base.bytes();
    let entry = usize::try_from(nth).ok().and_then(|nth| entries.entries.get(nth));
    let number = match entry {
        Some(entry) if !entry.is_present() => return Fact::missing("no page is present"),
        None => return Fact::missing("the kernel shows no entry there"),
        Some(entry) => match entry.frame() {
            Some(number) => number,
            None => {
                return Fact::missing(
                    "its number, and so the physical address, is hidden from this account: run as \
                     root, or setcap cap_sys_admin+ep on pagewise",
                );
            }
        },
    };
    let pool = residence.known().and_then(|residence| residence.kernel_page_bytes);
    let largest = layout.huge_page().into_iter().chain(pool).max().unwrap_or(base);
    Fact::Known(FrameSeen {
        number,
        flags: for_root(flags(number, largest, base)),
        map_count: for_root(page_frames::map_count(number)),
    })
}

/// Flags of the frames of a page of size `largest` that holds frame `number`.
fn flags(number: u64, largest: PageSize, base: PageSize) -> Result<FlagWindow, SysError> {
    let count = (largest.bytes() / base.bytes()).max(1);
    let first = number - number % count;
    let flags = page_frames::flags(first, usize::try_from(count).unwrap_or(1))?;
    Ok(FlagWindow { first, flags })
}

fn for_root<T>(read: Result<T, SysError>) -> Fact<T> {
    read.map_err(|error| format!("{error}; only root may read it")).into()
}
