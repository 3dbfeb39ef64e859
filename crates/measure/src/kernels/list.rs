//! A list through memory: each element begins with the address of the next, so a load cannot begin before the
//! previous one has ended.
//!
//! The loop is a load, a bounds check of the loaded address (two instructions, which the processor executes
//! while it waits for the chain of loads), and a count. Elements hold an address, not an offset: a load by
//! base and offset takes a cycle more on some processors.

use pagewise_kernel::region::MemoryRegion;

/// Bytes of an address.
pub(crate) const WORD: usize = size_of::<usize>();

/// Memory in which elements are being linked.
#[derive(Debug)]
pub(crate) struct ChaseListBuilder(MemoryRegion);

impl ChaseListBuilder {
    pub(crate) const fn new(region: MemoryRegion) -> Self {
        Self(region)
    }

    /// Links the element at offset `from` to the one at offset `to`. Offsets outside are ignored: a walk
    /// stops at an element without a link.
    pub(crate) fn link(&mut self, from: usize, to: usize) {
        let address = self.0.as_ptr().addr().wrapping_add(to);
        if let Some(place) = self.0.as_mut_slice().get_mut(from..from.saturating_add(WORD)) {
            place.copy_from_slice(&address.to_ne_bytes());
        }
    }

    /// The list, from now on unchanged.
    pub(crate) fn close(self) -> ChaseList {
        let start = self.0.as_ptr().expose_provenance();
        let len = usize::try_from(self.0.size().0).unwrap_or(0);
        ChaseList { region: self.0, start, last: len.saturating_sub(WORD) }
    }
}

/// A list that can be followed.
#[derive(Debug)]
pub(crate) struct ChaseList {
    region: MemoryRegion,
    start: usize,
    /// Largest offset at which a whole address fits.
    last: usize,
}

impl ChaseList {
    /// The memory, to look at its pages.
    pub(crate) const fn region(&self) -> &MemoryRegion {
        &self.region
    }

    /// Follows `steps` links from the element at offset `from`. Returns the offset of the last element,
    /// `None` if a link led outside.
    pub(crate) fn walk(&self, from: usize, steps: u64) -> Option<usize> {
        let (start, last) = (self.start, self.last);
        let mut at = start.wrapping_add(from);
        for _ in 0..steps {
            if at.wrapping_sub(start) > last {
                return None;
            }
            let element = std::ptr::with_exposed_provenance::<usize>(at);
            // SAFETY: the line above found `at` and the `WORD` bytes from there inside the region,
            // which `self` owns, whose address `close` has exposed, which is mapped readable and whose
            // bytes are zeroed or written; nothing writes it while `self` is borrowed.
            at = unsafe { element.read_unaligned() };
        }
        let offset = at.wrapping_sub(start);
        (offset <= last).then_some(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_kernel::region::RegionPages;
    use pagewise_model::Bytes;

    fn links() -> ChaseListBuilder {
        ChaseListBuilder::new(MemoryRegion::new(Bytes(1), RegionPages::Base).expect("a page"))
    }

    #[test]
    fn it_leads_from_element_to_element() {
        let mut links = links();
        for (from, to) in [(0, 64), (64, 8), (8, 0)] {
            links.link(from, to);
        }
        let list = links.close();
        let places: Vec<_> = (0..5).map(|steps| list.walk(0, steps)).collect();
        assert_eq!(places, [0, 64, 8, 0, 64].map(Some));
    }

    #[test]
    fn what_leads_outside_stops() {
        let mut links = links();
        let len = usize::try_from(links.0.size().0).expect("small");
        links.link(0, len - WORD);
        links.link(8, len - WORD + 1);
        links.link(16, usize::MAX);
        links.link(len - WORD + 1, 0);
        let list = links.close();
        assert_eq!(list.walk(0, 1), Some(len - WORD));
        assert_eq!(list.walk(0, 2), None, "the last word was not linked");
        assert_eq!((list.walk(8, 1), list.walk(16, 1), list.walk(len, 1)), (None, None, None));
    }
}
