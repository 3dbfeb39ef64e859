//! The memory between `read(2)` and `write(2)`. It begins on a page, because a file opened with
//! O_DIRECT takes no other address (open(2)); it is not touched before the kernel fills it.

/// Bytes that begin on a page, for `read(2)` and `write(2)` on any descriptor.
///
/// # Examples
///
/// ```
/// use std::io::Read;
/// let mut memory = pagewise_lanes::copy::AlignedBuffer::new(4096);
/// let n = std::fs::File::open("/proc/self/exe")?.read(memory.bytes())?;
/// assert_eq!(memory.bytes()[..n.min(4)], *b"\x7fELF");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct AlignedBuffer {
    bytes: Vec<u8>,
    start: usize,
    size: usize,
}

impl AlignedBuffer {
    /// `size` bytes, all zero.
    #[must_use]
    pub fn new(size: usize) -> Self {
        let page = rustix::param::page_size();
        let bytes = vec![0; size + page];
        let start = bytes.as_ptr().align_offset(page).min(page);
        Self { bytes, start, size }
    }

    /// All of them.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.size]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begins_on_a_page() {
        for size in [1, 1_000, 256 * 1024] {
            let mut memory = AlignedBuffer::new(size);
            assert_eq!(memory.bytes().len(), size);
            assert_eq!(memory.bytes().as_ptr().addr() % rustix::param::page_size(), 0);
        }
    }
}
