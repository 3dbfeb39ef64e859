//! Builds the memory account of a process tree so that its parts add up.
//!
//! Each mapping is divided among its claims. The remainder is named after the kernel's name for the mapping.
//! The proportional set size of a mapping is known only as a whole, so it is divided by the resident bytes of
//! the pieces. This is exact unless only some pages of the mapping are shared. The parts of a process add up
//! to its proportional set size. In a private mapping of a file, written pages count first (`Anonymous` of
//! `smaps`).

mod give_back;
mod names;
#[cfg(test)]
mod tests;

pub use give_back::at_most;
use names::{MAIN, NamedMemory, OTHERS, mapped_by, named};
use pagewise_model::address::VirtualAddress;
use pagewise_model::memory_account::{
    AccountMoment, HugeSeen, KernelMemory, MallocAccount, MallocBlocks, MappingMemorySeen,
    MemoryAccount, MemoryKind, MemoryPart, OwnerClaim, OwnerEvidence, OwnerMark, PeakWatch,
    ProcessAccount, ProcessMemorySeen, ResidencyStrip, UnderusedHugePages,
};
use pagewise_model::{Bytes, Fact, Nanos};
use std::collections::{BTreeMap, BTreeSet};

/// Mappings of a process that are shown page by page.
const STRIPS: usize = 24;

/// What an account is made of.
#[derive(Debug, Clone)]
pub struct MemoryAccountFacts {
    pub processes: Vec<ProcessMemorySeen>,
    pub unseen_processes: u64,
    pub moment: AccountMoment,
    pub watched: Option<PeakWatch>,
    pub used_within_ns: Option<Nanos>,
    /// Of one thread.
    pub kernel_stack_bytes: Bytes,
}

/// The account of these processes.
#[must_use]
pub fn account(facts: &MemoryAccountFacts) -> MemoryAccount {
    let of = |process: &ProcessMemorySeen| {
        let parent = facts.processes.iter().find(|other| other.pid == process.parent);
        of_process(process, parent, facts.kernel_stack_bytes)
    };
    let mut processes: Vec<ProcessAccount> = facts.processes.iter().map(of).collect();
    processes.sort_by_key(|process| std::cmp::Reverse(process.pss_bytes));
    let give_backs = give_back::all(&processes);
    MemoryAccount {
        moment: facts.moment.clone(),
        watched: facts.watched,
        used_within_ns: facts.used_within_ns,
        processes,
        unseen_processes: facts.unseen_processes,
        give_backs,
        sites: None,
    }
}

fn of_process(
    process: &ProcessMemorySeen,
    parent: Option<&ProcessMemorySeen>,
    kernel_stack: Bytes,
) -> ProcessAccount {
    let sum = |of: fn(&MappingMemorySeen) -> Bytes| {
        process.mappings.iter().fold(Bytes(0), |sum, mapping| sum + of(mapping))
    };
    ProcessAccount {
        pid: process.pid,
        name: process.name.clone(),
        threads: process.threads,
        pss_bytes: sum(|mapping| mapping.resident.pss_bytes),
        rss_bytes: sum(|mapping| mapping.resident.rss_bytes),
        swapped_bytes: sum(|mapping| mapping.resident.swapped_bytes),
        parts: parts(process),
        beside: KernelMemory {
            page_table_bytes: process.page_table_bytes,
            kernel_stack_bytes: Bytes(kernel_stack.0 * u64::from(process.threads)),
        },
        map: map(process),
        malloc: malloc(process),
        half_used: process.huge.clone().map(half_used),
        copied_bytes: parent.filter(|_| process.is_forked).map(|parent| copied(process, parent)),
        unread: process.unread.clone(),
    }
}

/// The parts of a process, the largest first; those of one kind, name and evidence are one.
fn parts(process: &ProcessMemorySeen) -> Vec<MemoryPart> {
    let mut all: BTreeMap<(MemoryKind, String, OwnerEvidence), MemoryPart> = BTreeMap::new();
    for part in process.mappings.iter().flat_map(|mapping| of_mapping(process, mapping)) {
        let key = (part.kind, part.name.clone(), part.evidence);
        match all.get_mut(&key) {
            Some(sum) => add(sum, &part),
            None => drop(all.insert(key, part)),
        }
    }
    let is_something = |part: &MemoryPart| {
        [part.rss_bytes, part.pss_bytes, part.swapped_bytes].iter().any(|bytes| *bytes > Bytes(0))
    };
    let mut parts: Vec<MemoryPart> = all.into_values().filter(is_something).collect();
    parts.sort_by_key(|part| std::cmp::Reverse((part.pss_bytes, part.rss_bytes)));
    parts
}

fn add(sum: &mut MemoryPart, part: &MemoryPart) {
    sum.pss_bytes += part.pss_bytes;
    sum.rss_bytes += part.rss_bytes;
    sum.referenced_bytes += part.referenced_bytes;
    sum.swapped_bytes += part.swapped_bytes;
    sum.huge_bytes += part.huge_bytes;
}

/// `part` of `whole` of `bytes`.
fn share_of(bytes: Bytes, part: u64, whole: u64) -> Bytes {
    let share = u128::from(bytes.0) * u128::from(part.min(whole)) / u128::from(whole.max(1));
    Bytes(u64::try_from(share).unwrap_or(u64::MAX))
}

/// The pieces of a mapping by resident bytes. The unclaimed part gets the remainder.
fn of_mapping(process: &ProcessMemorySeen, mapping: &MappingMemorySeen) -> Vec<MemoryPart> {
    let mut pieces: Vec<(NamedMemory, Bytes)> =
        mapping.claims.iter().flat_map(|claim| pieces(process, claim)).collect();
    let claimed: u64 = pieces.iter().map(|(_, resident)| resident.0).sum();
    let whole = mapping.resident.rss_bytes.0.max(claimed);
    pieces.extend(named(process, mapping, Bytes(whole - claimed)));
    // The last piece takes the remainder of the division, so it must not be empty.
    if whole > 0 {
        pieces.retain(|(_, resident)| *resident > Bytes(0));
    }
    let mut left = mapping.resident;
    let last = pieces.len().saturating_sub(1);
    let divide = |at: usize, resident: Bytes, all: Bytes, left: &mut Bytes| {
        let taken = if at == last { *left } else { share_of(all, resident.0, whole).min(*left) };
        left.0 -= taken.0;
        taken
    };
    let all = mapping.resident;
    let part = |(at, (named, resident)): (usize, (NamedMemory, Bytes))| MemoryPart {
        kind: named.kind,
        name: named.name,
        evidence: named.evidence,
        pss_bytes: divide(at, resident, all.pss_bytes, &mut left.pss_bytes),
        rss_bytes: divide(at, resident, all.rss_bytes, &mut left.rss_bytes),
        referenced_bytes: divide(at, resident, all.referenced_bytes, &mut left.referenced_bytes),
        swapped_bytes: divide(at, resident, all.swapped_bytes, &mut left.swapped_bytes),
        huge_bytes: divide(at, resident, all.huge_bytes, &mut left.huge_bytes),
    };
    pieces.into_iter().enumerate().map(part).collect()
}

/// The pieces of a claim, each with its resident bytes.
fn pieces(process: &ProcessMemorySeen, claim: &OwnerClaim) -> Vec<(NamedMemory, Bytes)> {
    let resident = claim.resident_bytes;
    let is = |kind, name: &str| (NamedMemory::marked(kind, name), resident);
    match &claim.mark {
        OwnerMark::Heap { arena, blocks } => {
            let name = if arena.is_some() { OTHERS } else { MAIN };
            match blocks {
                Fact::Known(blocks) => {
                    let live = Bytes(resident.0.saturating_sub(blocks.freed_bytes.0));
                    vec![
                        (
                            NamedMemory::marked(MemoryKind::Freed, name),
                            blocks.freed_bytes.min(resident),
                        ),
                        (NamedMemory::marked(MemoryKind::Live, name), live),
                    ]
                }
                Fact::Missing(_) => vec![is(MemoryKind::Arena, name)],
            }
        }
        OwnerMark::LargeBlock => vec![is(MemoryKind::Live, "large blocks of malloc")],
        OwnerMark::ThreadStack => vec![is(MemoryKind::Stack, "threads")],
        OwnerMark::ThreadData => vec![is(MemoryKind::ThreadData, &process.name)],
        OwnerMark::ZeroedData { file } => vec![is(MemoryKind::Data, file)],
        OwnerMark::Runtime { name, live_bytes: None } => vec![is(MemoryKind::Runtime, name)],
        OwnerMark::Runtime { name, live_bytes: Some(live) } => {
            let live = (*live).min(resident);
            vec![
                (NamedMemory::marked(MemoryKind::Live, name), live),
                (NamedMemory::marked(MemoryKind::Freed, name), Bytes(resident.0 - live.0)),
            ]
        }
        OwnerMark::MappedBy { object } => vec![(mapped_by(object), resident)],
    }
}

/// The mappings with the most resident pages, among those whose pages were read.
fn map(process: &ProcessMemorySeen) -> Vec<ResidencyStrip> {
    let read = process.mappings.iter().filter(|mapping| !mapping.cells.is_empty());
    let mut largest: Vec<&MappingMemorySeen> = read.collect();
    largest.sort_by_key(|mapping| std::cmp::Reverse(mapping.resident.rss_bytes));
    largest.truncate(STRIPS);
    let strip = |mapping: &MappingMemorySeen| ResidencyStrip {
        start_address: VirtualAddress(mapping.start),
        size_bytes: Bytes(mapping.end.saturating_sub(mapping.start)),
        name: mapping.path.clone(),
        resident_bytes: mapping.resident.rss_bytes,
        referenced_bytes: mapping.resident.referenced_bytes,
        cells: mapping.cells.clone(),
    };
    largest.into_iter().map(strip).collect()
}

/// glibc's malloc in a process. `None` if the process has no heap of it.
fn malloc(process: &ProcessMemorySeen) -> Option<MallocAccount> {
    let heaps =
        process.mappings.iter().flat_map(|mapping| &mapping.claims).filter_map(
            |claim| match &claim.mark {
                OwnerMark::Heap { arena, blocks } => Some((*arena, blocks)),
                _ => None,
            },
        );
    let mut arenas = BTreeSet::new();
    let mut sum = MallocAccount::default();
    for (arena, blocks) in heaps {
        arenas.insert(arena);
        match blocks {
            Fact::Known(blocks) => add_blocks(&mut sum, blocks, arena.is_some()),
            Fact::Missing(why) if sum.not_walked.contains(why) => {}
            Fact::Missing(why) => sum.not_walked.push(why.clone()),
        }
    }
    sum.arenas = arenas.len() as u64;
    (sum.arenas > 0).then_some(sum)
}

fn add_blocks(sum: &mut MallocAccount, blocks: &MallocBlocks, is_elsewhere: bool) {
    sum.live_bytes += blocks.live_bytes;
    sum.freed_bytes += blocks.freed_bytes;
    if is_elsewhere {
        sum.freed_elsewhere_bytes += blocks.freed_bytes;
    }
    sum.whole_pages_bytes += blocks.whole_pages_bytes;
    sum.top_bytes += blocks.top_bytes;
    sum.large_bytes += blocks.large_bytes;
    sum.live_blocks = sum.live_blocks.saturating_add(blocks.live_blocks);
    sum.freed_blocks = sum.freed_blocks.saturating_add(blocks.freed_blocks);
}

fn half_used(seen: HugeSeen) -> UnderusedHugePages {
    UnderusedHugePages {
        huge_bytes: seen.bytes,
        read_bytes: seen.read_bytes,
        zero_bytes: share_of(seen.bytes, seen.zero_bytes.0, seen.read_bytes.0),
    }
}

/// Pages that the process has written in mappings that its parent has too.
fn copied(process: &ProcessMemorySeen, parent: &ProcessMemorySeen) -> Bytes {
    let starts: BTreeSet<u64> = parent.mappings.iter().map(|mapping| mapping.start).collect();
    let inherited =
        |m: &&MappingMemorySeen| m.is_writable && !m.is_shared && starts.contains(&m.start);
    let written = process.mappings.iter().filter(inherited);
    written.fold(Bytes(0), |sum, mapping| sum + mapping.resident.private_dirty_bytes)
}
