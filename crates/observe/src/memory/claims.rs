//! The owners of the pieces of one mapping. The strongest mark comes first; each mark claims only unclaimed
//! addresses.

use super::heap::{self, ChunkChain, HEAP_ALIGNMENT};
use super::marks::{self, PHP_CHUNK, V8_ALIGNMENT};
use super::reader::{MemoryReader, bytes_in};
use super::zeroed_data::ZeroedData;
use pagewise_kernel::page_size;
use pagewise_kernel::proc::smaps;
use pagewise_model::address::ScannedRange;
use pagewise_model::memory_account::{OwnerClaim, OwnerMark, PYTHON_OBJECTS};
use pagewise_model::{Bytes, Fact};
use pagewise_tracee::memory_peak::AttributedMapping;
use std::ops::Range;

/// Window size if everything is read, and if only marks are read.
const WHOLE: Bytes = Bytes::mib(1);
const MARKS: Bytes = Bytes(64);
/// Pools of Python's small objects since 3.10, and before.
const POOLS: [u64; 2] = [Bytes::kib(16).0, Bytes::kib(4).0];
/// The loader's memory for the first thread is not larger, unless it is something else.
const LARGEST_THREAD_DATA: u64 = Bytes::mib(1).0;
/// Pages searched for a large block of malloc, if the mapping does not begin with one.
const MOST_PAGES: usize = 1024;

/// Known facts about a process before its mappings are examined.
pub(super) struct MemoryOwners<'a> {
    pub(super) pid: i32,
    pub(super) history: &'a [AttributedMapping],
    /// Why its memory cannot be read.
    pub(super) refused: Option<String>,
    pub(super) has_glibc: bool,
    /// Its malloc is not glibc's.
    pub(super) has_other_malloc: bool,
    pub(super) is_python: bool,
    /// The range that a JVM has reserved for its heap.
    pub(super) java_heap: Option<Range<u64>>,
}

/// One mapping.
pub(super) struct ClaimedMapping<'a> {
    pub(super) entry: &'a smaps::SmapsEntry,
    /// The mapping below it.
    pub(super) before: Option<&'a smaps::SmapsEntry>,
    pub(super) resident: &'a [ScannedRange],
}

/// The claims on a mapping, by address.
pub(super) fn of(
    owners: &MemoryOwners<'_>,
    place: &ClaimedMapping<'_>,
    zeroed: &mut ZeroedData,
) -> Vec<OwnerClaim> {
    let mapping = &place.entry.mapping;
    if !mapping.is_anonymous() || place.resident.is_empty() {
        return Vec::new();
    }
    let mut sorting = ClaimSorting { owners, place, claims: Vec::new() };
    match &*mapping.path.to_string_lossy() {
        "[heap]" => sorting.main_heap(),
        "" if mapping.perms.write && !mapping.perms.exec => sorting.nameless(zeroed),
        "" if !mapping.perms.exec => sorting.callers(),
        _ => {}
    }
    sorting.claims
}

struct ClaimSorting<'a> {
    owners: &'a MemoryOwners<'a>,
    place: &'a ClaimedMapping<'a>,
    /// By address.
    claims: Vec<OwnerClaim>,
}

impl<'a> ClaimSorting<'a> {
    const fn start(&self) -> u64 {
        self.place.entry.mapping.start
    }

    const fn end(&self) -> u64 {
        self.place.entry.mapping.end
    }

    fn reader(&self, window: Bytes) -> MemoryReader<'a> {
        MemoryReader::new(self.owners.pid, self.place.resident, window)
    }

    fn claim(&mut self, start: u64, end: u64, mark: OwnerMark) {
        let resident_bytes = Bytes(bytes_in(self.place.resident, start, end));
        let at = self.claims.partition_point(|claim| claim.start < start);
        self.claims.insert(at, OwnerClaim { start, end, resident_bytes, mark });
    }

    /// The ranges that are not claimed.
    fn gaps(&self) -> Vec<(u64, u64)> {
        let starts = self.claims.iter().map(|claim| claim.end);
        let ends = self.claims.iter().map(|claim| claim.start);
        let starts = std::iter::once(self.start()).chain(starts);
        let pairs = starts.zip(ends.chain([self.end()]));
        pairs.filter(|(start, end)| start < end).collect()
    }

    /// The heap that grows by brk(2).
    fn main_heap(&mut self) {
        if !self.owners.has_glibc {
            return;
        }
        let chain = ChunkChain { from: self.start(), end: self.end() };
        let blocks = match &self.owners.refused {
            Some(why) => Fact::missing(why),
            None => {
                let mut reader = self.reader(WHOLE);
                heap::blocks(&mut reader, chain, self.place.resident, MemoryReader::forget).into()
            }
        };
        // Another allocator takes memory by brk(2) too.
        if blocks.known().is_some() || !self.owners.has_other_malloc {
            self.claim(self.start(), self.end(), OwnerMark::Heap { arena: None, blocks });
        }
    }

    fn java_heap(&mut self) {
        let Some(heap) = self.owners.java_heap.clone() else { return };
        let (start, end) = (heap.start.max(self.start()), heap.end.min(self.end()));
        if start < end {
            self.claim(start, end, OwnerMark::Runtime { name: "Java heap", live_bytes: None });
        }
    }

    fn nameless(&mut self, zeroed: &mut ZeroedData) {
        self.java_heap();
        if !self.claims.is_empty() {
            return self.callers();
        }
        self.zeroed_data(zeroed);
        if self.owners.refused.is_none() {
            if self.owners.has_glibc {
                self.other_heaps();
            }
            if !self.stack() {
                self.runtimes();
                if self.owners.has_glibc {
                    self.large_blocks();
                }
                self.thread_data();
            }
        }
        self.callers();
    }

    fn zeroed_data(&mut self, zeroed: &mut ZeroedData) {
        let Some(before) = self.place.before.map(|before| &before.mapping) else { return };
        if !before.is_file() || !before.perms.write || before.end != self.start() {
            return;
        }
        let file = before.path.to_string_lossy().into_owned();
        let end = self.end().min(self.start().saturating_add(zeroed.of(self.owners.pid, before)));
        if end > self.start() {
            self.claim(self.start(), end, OwnerMark::ZeroedData { file });
        }
    }

    /// Heaps of other arenas, at each multiple of their alignment.
    fn other_heaps(&mut self) {
        let mut base = self.start().next_multiple_of(HEAP_ALIGNMENT);
        while base < self.end() {
            if let Some(head) = heap::head(&mut self.reader(MARKS), base)
                && base + head.open <= self.end()
            {
                let chain = ChunkChain { from: head.first, end: base + head.size };
                let mut reader = self.reader(WHOLE);
                let found =
                    heap::blocks(&mut reader, chain, self.place.resident, MemoryReader::forget);
                let mark = OwnerMark::Heap { arena: Some(head.arena), blocks: found.into() };
                self.claim(base, base + head.open, mark);
            }
            base += HEAP_ALIGNMENT;
        }
    }

    /// The stack of a thread: an inaccessible page below it, and its descriptor at its end.
    fn stack(&mut self) -> bool {
        let is_guard = |before: &smaps::SmapsEntry| {
            let perms = before.mapping.perms;
            before.mapping.end == self.start() && !perms.read && !perms.write && !perms.exec
        };
        let is_one = self.claims.is_empty()
            && self.place.before.is_some_and(is_guard)
            && self.descriptor(self.start(), self.end()).is_some();
        if is_one {
            self.claim(self.start(), self.end(), OwnerMark::ThreadStack);
        }
        is_one
    }

    fn descriptor(&self, start: u64, end: u64) -> Option<u64> {
        marks::descriptor(&mut self.reader(Bytes(page_size::base().bytes())), start, end)
    }

    fn runtimes(&mut self) {
        if self.start().is_multiple_of(V8_ALIGNMENT)
            && let Some(size) = marks::v8_chunk(&mut self.reader(MARKS), self.start(), self.end())
        {
            let mark = OwnerMark::Runtime { name: "V8", live_bytes: None };
            self.claim(self.start(), self.start() + size, mark);
        }
        self.php_chunks();
        if self.owners.is_python {
            let found = POOLS.map(|size| self.pools(size));
            let [new, old] = found;
            let pools = if new.len() * 4 >= old.len() { new } else { old };
            for claim in pools {
                self.claim(claim.start, claim.end, claim.mark);
            }
        }
    }

    fn php_chunks(&mut self) {
        let mut found: Vec<u64> = Vec::new();
        for (start, end) in self.gaps() {
            let mut at = start.next_multiple_of(PHP_CHUNK);
            while at + PHP_CHUNK <= end {
                if marks::is_php_chunk(&mut self.reader(MARKS), at) {
                    found.push(at);
                }
                at += PHP_CHUNK;
            }
        }
        for at in found {
            self.claim(at, at + PHP_CHUNK, OwnerMark::Runtime { name: "PHP", live_bytes: None });
        }
    }

    /// Python's pools of `size`; those next to each other are one claim.
    fn pools(&self, size: u64) -> Vec<OwnerClaim> {
        let mut found: Vec<OwnerClaim> = Vec::new();
        for (start, end) in self.gaps() {
            let mut reader = self.reader(MARKS);
            let first = start.next_multiple_of(size);
            for at in (first..end.saturating_sub(size - 1)).step_by(size as usize) {
                let Some(pool) = marks::python_pool(&mut reader, at, size) else { continue };
                let resident = bytes_in(self.place.resident, at, at + size);
                let live = pool.live.min(resident);
                match found.last_mut().filter(|last| last.end == at) {
                    Some(last) => extend(last, at + size, resident, live),
                    None => found.push(python(at, at + size, resident, live)),
                }
            }
        }
        found
    }

    /// Blocks that malloc has mapped by themselves: one after the other, as the kernel joins mappings.
    fn large_blocks(&mut self) {
        let page = page_size::base().bytes();
        let mut found: Vec<(u64, u64)> = Vec::new();
        for (start, end) in self.gaps() {
            let mut reader = self.reader(MARKS);
            let (mut at, mut tries) = (start.next_multiple_of(page), 0);
            while at < end && tries < MOST_PAGES {
                match marks::large_block(&mut reader, at, end) {
                    Some(size) => {
                        found.push((at, at + size));
                        at += size;
                    }
                    None => {
                        tries += 1;
                        at += page;
                    }
                }
            }
        }
        for (start, end) in found {
            self.claim(start, end, OwnerMark::LargeBlock);
        }
    }

    /// What holds the descriptor of the first thread.
    fn thread_data(&mut self) {
        let small = |(start, end): &(u64, u64)| end - start <= LARGEST_THREAD_DATA;
        let gaps: Vec<_> = self.gaps().into_iter().filter(small).collect();
        for (start, end) in gaps {
            if self.descriptor(start, end).is_some() {
                self.claim(start, end, OwnerMark::ThreadData);
            }
        }
    }

    /// Claims the remainder by the code that mapped it.
    fn callers(&mut self) {
        for (start, end) in self.gaps() {
            let first = self.owners.history.partition_point(|mapped| mapped.end <= start);
            let inside =
                self.owners.history[first..].iter().take_while(|mapped| mapped.start < end);
            for mapped in inside {
                let object = mapped.object.to_string();
                let (from, to) = (mapped.start.max(start), mapped.end.min(end));
                self.claim(from, to, OwnerMark::MappedBy { object });
            }
        }
    }
}

fn python(start: u64, end: u64, resident: u64, live: u64) -> OwnerClaim {
    let mark = OwnerMark::Runtime { name: PYTHON_OBJECTS, live_bytes: Some(Bytes(live)) };
    OwnerClaim { start, end, resident_bytes: Bytes(resident), mark }
}

fn extend(claim: &mut OwnerClaim, end: u64, resident: u64, more: u64) {
    claim.end = end;
    claim.resident_bytes += Bytes(resident);
    if let OwnerMark::Runtime { live_bytes: Some(live), .. } = &mut claim.mark {
        *live += Bytes(more);
    }
}
