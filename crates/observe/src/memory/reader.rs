//! The memory of a process as words, read in windows. Only pages that are resident are read: reading another one
//! would make it resident, or bring it back from swap space.

use pagewise_kernel::SysError;
use pagewise_kernel::page_size;
use pagewise_kernel::pagemap::Pagemap;
use pagewise_model::Bytes;
use pagewise_model::address::ScannedRange;
use pagewise_tracee::ptrace::read_memory;

const WORD: usize = size_of::<u64>();
/// Larger mappings are not read page by page if the kernel has no scan.
const LARGEST: Bytes = Bytes::gib(16);

/// Words at addresses.
pub(super) trait MemoryWords {
    /// The word at `address`. `None` if it is not resident or cannot be read.
    fn word(&mut self, address: u64) -> Option<u64>;
}

/// A part of a process's memory.
#[derive(Debug)]
pub(super) struct MemoryReader<'a> {
    pid: i32,
    resident: &'a [ScannedRange],
    /// Bytes read at a time.
    window: usize,
    bytes: Vec<u8>,
    /// Address of the first of `bytes`.
    start: u64,
}

impl<'a> MemoryReader<'a> {
    pub(super) fn new(pid: i32, resident: &'a [ScannedRange], window: Bytes) -> Self {
        let window = usize::try_from(window.0).unwrap_or(usize::MAX);
        Self { pid, resident, window, bytes: Vec::new(), start: 0 }
    }

    /// Forgets what was read, so that it is read again.
    pub(super) fn forget(&mut self) {
        self.bytes.clear();
    }

    fn fill(&mut self, address: u64) -> Option<()> {
        self.bytes.clear();
        let range = range_of(self.resident, address)?;
        let start = address - address % page_size::base().bytes();
        let length = usize::try_from(range.end.0 - start).unwrap_or(usize::MAX).min(self.window);
        self.bytes.resize(length, 0);
        let read = read_memory(self.pid, start, &mut self.bytes).unwrap_or(0);
        self.bytes.truncate(read);
        self.start = start;
        Some(())
    }

    fn held(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let word = self.bytes.get(at..at.checked_add(WORD)?)?;
        Some(u64::from_ne_bytes(word.try_into().ok()?))
    }
}

impl MemoryWords for MemoryReader<'_> {
    fn word(&mut self, address: u64) -> Option<u64> {
        if let Some(word) = self.held(address) {
            return Some(word);
        }
        self.fill(address)?;
        self.held(address)
    }
}

/// The range that holds `address`.
pub(super) fn range_of(ranges: &[ScannedRange], address: u64) -> Option<&ScannedRange> {
    let at = ranges.partition_point(|range| range.end.0 <= address);
    ranges.get(at).filter(|range| range.contains(address))
}

/// How many bytes of `start..end` lie in `ranges`.
pub(super) fn bytes_in(ranges: &[ScannedRange], start: u64, end: u64) -> u64 {
    let first = ranges.partition_point(|range| range.end.0 <= start);
    let inside = ranges[first..].iter().take_while(|range| range.start.0 < end);
    inside.map(|range| range.end.0.min(end) - range.start.0.max(start)).sum()
}

/// The resident ranges of `start..end`.
///
/// # Errors
/// When the page table cannot be read.
pub(super) fn resident(
    table: &Pagemap,
    start: u64,
    end: u64,
) -> Result<Vec<ScannedRange>, SysError> {
    match table.resident(start, end) {
        Err(error) if end - start <= LARGEST.0 && !error.is_gone() => by_entries(table, start, end),
        found => found,
    }
}

/// The same by the entries, on kernels without the scan; which of them are huge is not known.
fn by_entries(table: &Pagemap, start: u64, end: u64) -> Result<Vec<ScannedRange>, SysError> {
    const AT_ONCE: u64 = 1 << 16;
    let page = page_size::base().bytes();
    let mut found: Vec<ScannedRange> = Vec::new();
    let mut from = start;
    while from < end {
        let count = ((end - from) / page).min(AT_ONCE);
        let entries = table.read(from, usize::try_from(count).unwrap_or(1))?;
        for (nth, _) in entries.iter().enumerate().filter(|(_, entry)| entry.is_present()) {
            let at = from + nth as u64 * page;
            match found.last_mut().filter(|last| last.end.0 == at) {
                Some(last) => last.end.0 += page,
                None => found.push(piece(at, at + page)),
            }
        }
        from += count.max(1) * page;
    }
    Ok(found)
}

const fn piece(start: u64, end: u64) -> ScannedRange {
    use pagewise_model::address::VirtualAddress;
    ScannedRange {
        start: VirtualAddress(start),
        end: VirtualAddress(end),
        is_huge: false,
        is_zero: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_kernel::proc::own_pid;

    #[test]
    fn ranges_are_intersected() {
        let ranges = [piece(10, 20), piece(30, 40)];
        assert_eq!(bytes_in(&ranges, 0, 100), 20);
        assert_eq!(bytes_in(&ranges, 15, 35), 10);
        assert_eq!(bytes_in(&ranges, 20, 30), 0);
        assert_eq!(range_of(&ranges, 30).map(|range| range.end.0), Some(40));
        assert!(range_of(&ranges, 20).is_none() && range_of(&ranges, 40).is_none());
    }

    #[test]
    fn both_ways_find_the_same_pages_and_words() {
        let page = page_size::base().bytes();
        let held = vec![7_u64; 64 << 10];
        let first = held.as_ptr() as u64;
        let (start, end) = (first - first % page, (first + 8 * held.len() as u64) / page * page);
        let table = Pagemap::open(own_pid()).unwrap();
        let entries = by_entries(&table, start, end).unwrap();
        let sum = |ranges: &[ScannedRange]| bytes_in(ranges, start, end);
        assert_eq!(sum(&resident(&table, start, end).unwrap()), sum(&entries));
        let mut reader = MemoryReader::new(own_pid(), &entries, Bytes(3 * page));
        assert!((first..first + 1000).step_by(8).all(|at| reader.word(at) == Some(7)));
        assert_eq!(reader.word(start + 8 * page), Some(7));
        assert!(reader.word(end).is_none());
    }
}
