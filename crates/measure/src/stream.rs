//! Reading, writing and copying memory from end to end, at the full speed of one core.
//!
//! Two buffers, on huge pages if available, are touched before. Writing and copying use the library's fill
//! and copy, which on most machines use wide registers or the processor's string instructions. Both may
//! bypass the caches if the size is large. Reading sums words.

use crate::error::PriceError;
use pagewise_kernel::region::{MemoryRegion, RegionPages};
use pagewise_model::Bytes;
use std::hint::black_box;

/// Two buffers of one size.
#[derive(Debug)]
pub(crate) struct StreamBuffers {
    to: MemoryRegion,
    from: MemoryRegion,
}

impl StreamBuffers {
    pub(crate) fn new(each: Bytes) -> Result<Self, PriceError> {
        let buffer = || {
            let mut region = MemoryRegion::new(each, RegionPages::Huge)
                .or_else(|_| MemoryRegion::new(each, RegionPages::Base))?;
            region.populate().map(|()| region)
        };
        Ok(Self { to: buffer()?, from: buffer()? })
    }

    pub(crate) fn copy(&mut self) {
        black_box(self.to.as_mut_slice()).copy_from_slice(black_box(self.from.as_slice()));
    }

    pub(crate) fn read(&self) {
        black_box(sum(black_box(self.from.as_slice())));
    }

    pub(crate) fn write(&mut self) {
        black_box(self.to.as_mut_slice()).fill(black_box(1));
    }
}

/// The sum of all words.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().fold(0, |sum, word| sum.wrapping_add(u64::from_ne_bytes(*word)))
}

/// GiB/s for `bytes` in `ns` nanoseconds.
pub(crate) fn rate(bytes: Bytes, ns: f64) -> f64 {
    bytes.0 as f64 / Bytes::gib(1).0 as f64 / (ns / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_copied_is_what_was_there() {
        let mut buffers = StreamBuffers::new(Bytes::kib(64)).expect("memory");
        buffers.write();
        assert!(buffers.to.as_slice().iter().all(|byte| *byte == 1));
        buffers.copy();
        assert!(buffers.to.as_slice().iter().all(|byte| *byte == 0));
        assert_eq!(sum(&[1; 16]), 2 * 0x0101_0101_0101_0101);
        assert_eq!(rate(Bytes::gib(3), 1e9), 3.0);
    }
}
