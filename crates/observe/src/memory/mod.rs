//! The current memory of a process: its mappings by `smaps`, and the owner of each piece of anonymous memory,
//! by verified marks in it ([`marks`], [`heap`]).
//!
//! Nothing is stopped here. A heap that changes while it is read is read again, and is not divided if that
//! does not help. `smaps` is read first, because reading memory marks pages as referenced. Only resident
//! pages are read. Mappings need the right to look at the process, marks the right to trace it (ptrace(2)).
//! Without the latter, heaps and nameless memory are not divided, and the reason is kept.
//!
//! Cost: `smaps` 1 us for each resident MiB on huge pages, some 10 us on small ones. Heaps, Python's pools
//! and huge pages are copied, a GiB in about 0.3 s.

mod claims;
mod heap;
mod hotspot;
mod marks;
mod reader;
mod resident;
mod zeroed_data;
mod zeros;

pub use resident::resident;

use claims::{ClaimedMapping, MemoryOwners};
use pagewise_kernel::SysError;
use pagewise_kernel::pagemap::Pagemap;
use pagewise_kernel::proc::{smaps, stat, status};
use pagewise_model::address::ScannedRange;
use pagewise_model::look::Allocator;
use pagewise_model::memory_account::{
    HugeSeen, MappingMemorySeen, ProcessMemorySeen, ResidentMemory,
};
use pagewise_model::{Bytes, Fact};
use pagewise_tracee::elf;
use pagewise_tracee::memory_peak::AttributedMapping;
use pagewise_tracee::ptrace::read_u64;
use std::fs;
use zeroed_data::ZeroedData;

/// Mappings of at least this size are shown page by page, in this many cells.
const MUCH: Bytes = Bytes::mib(1);
const CELLS: u64 = 64;

/// The memory of process `pid`. `history` says which code mapped which addresses, sorted by address, if that
/// was recorded.
///
/// # Errors
/// If its mappings cannot be read, or it has ended.
pub fn look(pid: i32, history: &[AttributedMapping]) -> Result<ProcessMemorySeen, SysError> {
    let stat = stat::read(pid)?;
    let entries = smaps::read(pid)?;
    let status = status::read(pid).unwrap_or_default();
    let allocator = elf::of_process(pid).map_or(Allocator::Unknown, |seen| seen.allocator);
    let refused = refusal(pid, &entries);
    let is_java = allocator == Allocator::Hotspot && refused.is_none();
    let owners = MemoryOwners {
        pid,
        history,
        refused,
        java_heap: is_java.then(|| hotspot::heap(pid, &entries)).flatten(),
        has_glibc: allocator == Allocator::Glibc || entries.iter().any(is_glibc),
        has_other_malloc: is_other_malloc(allocator),
        is_python: entries.iter().any(|entry| file_name(entry).contains("python")),
    };
    let table = Pagemap::open(pid);
    let mut zeroed = ZeroedData::default();
    let mut huge = Fact::Known(HugeSeen::default());
    let mut mappings = Vec::with_capacity(entries.len());
    for (at, entry) in entries.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|before| entries.get(before));
        let resident = pages(entry, table.as_ref());
        let place = ClaimedMapping { entry, before, resident: &resident };
        let claims = claims::of(&owners, &place, &mut zeroed);
        mappings.push(MappingMemorySeen { claims, ..seen(entry, &resident) });
        count_zeros(&owners, entry, &resident, &mut huge);
    }
    Ok(ProcessMemorySeen {
        pid,
        parent: stat.ppid,
        name: executable(pid).unwrap_or_else(|| stat.comm.clone()),
        threads: stat.threads,
        is_forked: !stat.has_execed(),
        page_table_bytes: status.page_tables,
        mappings,
        owner: owner(allocator),
        huge,
        unread: owners.refused,
    })
}

/// Why the memory of the process cannot be read. `None` if it can.
fn refusal(pid: i32, entries: &[smaps::SmapsEntry]) -> Option<String> {
    let readable =
        |entry: &&smaps::SmapsEntry| entry.mapping.perms.read && entry.residency.rss > Bytes(0);
    // The program's own first page: it exists as long as the process does.
    let first = entries.iter().find(readable)?;
    let error = read_u64(pid, first.mapping.start).err()?;
    let is_refused = matches!(error.errno(), Some(libc::EPERM | libc::EACCES | libc::ENOSYS));
    is_refused.then(|| error.to_string())
}

/// The resident pages of private memory of no file, and of other mappings that hold much.
fn pages(entry: &smaps::SmapsEntry, table: Result<&Pagemap, &SysError>) -> Vec<ScannedRange> {
    let mapping = &entry.mapping;
    let least = if mapping.is_anonymous() { Bytes(1) } else { MUCH };
    let is_wanted = entry.residency.rss >= least;
    match table {
        Ok(table) if is_wanted => {
            reader::resident(table, mapping.start, mapping.end).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

fn count_zeros(
    owners: &MemoryOwners<'_>,
    entry: &smaps::SmapsEntry,
    resident: &[ScannedRange],
    huge: &mut Fact<HugeSeen>,
) {
    if entry.residency.anon_huge == Bytes(0) {
        return;
    }
    match (&owners.refused, huge) {
        (None, Fact::Known(sum)) => {
            let found = zeros::look(owners.pid, resident);
            sum.bytes += found.bytes;
            sum.read_bytes += found.read_bytes;
            sum.zero_bytes += found.zero_bytes;
        }
        (Some(why), huge) => *huge = Fact::missing(why),
        (None, Fact::Missing(_)) => {}
    }
}

fn seen(entry: &smaps::SmapsEntry, resident: &[ScannedRange]) -> MappingMemorySeen {
    let smaps::SmapsEntry { mapping, residency, .. } = entry;
    MappingMemorySeen {
        start: mapping.start,
        end: mapping.end,
        is_writable: mapping.perms.write,
        is_executable: mapping.perms.exec,
        is_shared: mapping.perms.shared,
        is_file: mapping.is_file(),
        path: mapping.path.to_string_lossy().into_owned(),
        resident: ResidentMemory {
            rss_bytes: residency.rss,
            pss_bytes: residency.pss,
            referenced_bytes: residency.referenced,
            anonymous_bytes: residency.anonymous,
            huge_bytes: residency.huge(),
            private_dirty_bytes: residency.private_dirty,
            swapped_bytes: residency.swap,
        },
        cells: cells(entry, resident),
        claims: Vec::new(),
    }
}

/// How much of each part of a mapping that holds much is resident, in percent.
fn cells(entry: &smaps::SmapsEntry, resident: &[ScannedRange]) -> Vec<u8> {
    let (start, end) = (entry.mapping.start, entry.mapping.end);
    if resident.is_empty() || entry.residency.rss < MUCH {
        return Vec::new();
    }
    let edge =
        |nth: u64| start + (u128::from(end - start) * u128::from(nth) / u128::from(CELLS)) as u64;
    let of = |nth: u64| {
        let (from, to) = (edge(nth), edge(nth + 1));
        let held = reader::bytes_in(resident, from, to);
        (100 * u128::from(held)).div_ceil(u128::from(to - from).max(1)) as u8
    };
    (0..CELLS).map(of).collect()
}

fn file_name(entry: &smaps::SmapsEntry) -> String {
    let path = entry.mapping.path.to_string_lossy();
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

fn is_glibc(entry: &smaps::SmapsEntry) -> bool {
    file_name(entry) == "libc.so.6"
}

const fn is_other_malloc(allocator: Allocator) -> bool {
    matches!(
        allocator,
        Allocator::Jemalloc | Allocator::Mimalloc | Allocator::Tcmalloc | Allocator::Musl
    )
}

/// Which allocator other than glibc and the program maps memory in a process.
fn owner(allocator: Allocator) -> Option<String> {
    let is_one =
        is_other_malloc(allocator) || matches!(allocator, Allocator::Go | Allocator::Hotspot);
    is_one.then(|| allocator.to_string())
}

/// The name of the program that a process runs.
fn executable(pid: i32) -> Option<String> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    Some(path.file_name()?.to_string_lossy().into_owned())
}
