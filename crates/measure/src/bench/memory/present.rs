//! Which pages of a range are mapped, by `/proc/self/pagemap` (bit 63 of each entry; everybody may read it
//! of himself). `mincore(2)` does not serve: of a file it tells the page cache, not the mapping.
//!
//! The buffer is made before a fork, so that a child counts without allocating.

use pagewise_kernel::page_size;
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, pread};

/// Bytes of an entry.
const ENTRY: usize = 8;
/// Entries that are read at once.
const WINDOW: usize = 1 << 12;
/// The bit of a page that is mapped.
const PRESENT: u64 = 1 << 63;

/// The means to count.
#[derive(Debug)]
pub(super) struct Present {
    entries: Vec<u8>,
}

impl Present {
    pub(super) fn new() -> Self {
        Self { entries: vec![0; WINDOW * ENTRY] }
    }

    /// How many of the base pages from `address` on are mapped.
    pub(super) fn count(&mut self, address: u64, len: usize) -> Result<u64, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        // Opened each time: a descriptor belongs to the memory of whoever opened it.
        let file = rustix::fs::open(c"/proc/self/pagemap", flags, Mode::empty())?;
        let page = page_size::base().bytes();
        let mut left = len as u64 / page;
        let mut offset = address / page * ENTRY as u64;
        let mut count = 0;
        while left > 0 {
            let want = (left * ENTRY as u64).min(self.entries.len() as u64) as usize;
            let got = pread(&file, &mut self.entries[..want], offset)?;
            if got < ENTRY {
                return Err(Errno::NODATA);
            }
            let (entries, _) = self.entries[..got].as_chunks::<ENTRY>();
            let is_present = |entry: &&[u8; ENTRY]| u64::from_ne_bytes(**entry) & PRESENT != 0;
            count += entries.iter().filter(is_present).count() as u64;
            left = left.saturating_sub(entries.len() as u64);
            offset += (entries.len() * ENTRY) as u64;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_kernel::region::{Pages, Region};
    use pagewise_model::Bytes;

    #[test]
    fn what_is_touched_is_present() {
        let page = page_size::base().bytes();
        let mut region = Region::new(Bytes(5000 * page), Pages::Base).expect("memory");
        let (address, len) = (region.as_ptr() as u64, region.size().0 as usize);
        let mut present = Present::new();
        assert_eq!(present.count(address, len), Ok(0));
        assert_eq!(region.touch(Bytes(10 * page)), 500);
        assert_eq!(present.count(address, len), Ok(500));
        assert_eq!(present.count(address, page as usize), Ok(1));
    }
}
