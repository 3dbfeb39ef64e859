//! The memory between `read(2)` and `write(2)`. It begins on a page, because a file opened with
//! O_DIRECT takes no other address (open(2)); it is not touched before the kernel fills it.

/// Bytes that begin on a page.
#[derive(Debug)]
pub(super) struct Memory {
    bytes: Vec<u8>,
    start: usize,
    size: usize,
}

impl Memory {
    /// `size` bytes.
    pub(super) fn new(size: usize) -> Self {
        let page = rustix::param::page_size();
        let bytes = vec![0; size + page];
        let start = bytes.as_ptr().align_offset(page).min(page);
        Self { bytes, start, size }
    }

    /// All of them.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.size]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begins_on_a_page() {
        for size in [1, 1_000, 256 * 1024] {
            let mut memory = Memory::new(size);
            assert_eq!(memory.bytes().len(), size);
            assert_eq!(memory.bytes().as_ptr().addr() % rustix::param::page_size(), 0);
        }
    }
}
