//! Bytes before they are frozen, for callers that fill them piece by piece.
//!
//! Units are bytes. The memory is a memfd (`memfd_create(2)`) that is not yet sealed, or private memory if
//! that is refused. Its descriptor is never exposed. A memfd is put on huge pages before it is filled. So the
//! bytes do not fault once for each base page, and are not copied a second time. If the kernel refuses, it is
//! tried again when the bytes are frozen. Overhead: that of [`Frozen`].

use super::frozen::Frozen;
use super::region::{BufferPages, BufferRegion};
use super::sealed::LooseMemfd;
use rustix::io::Errno;

/// Bytes that are still written, until [`Draft::freeze`].
///
/// # Examples
///
/// ```
/// use pagewise_lanes::buffer::Draft;
/// use std::io::Read;
/// let mut draft = Draft::new(10)?;
/// let mut source: &[u8] = b"0123456789 and more";
/// source.read_exact(draft.as_mut_slice())?;
/// assert_eq!(draft.freeze()?.as_bytes(), b"0123456789");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Draft {
    memory: DraftMemory,
    len: usize,
}

#[derive(Debug)]
enum DraftMemory {
    Loose(LooseMemfd),
    Private(BufferRegion),
}

impl Draft {
    /// `len` zeroes, in a memfd if that is allowed.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub fn new(len: usize) -> Result<Self, Errno> {
        match LooseMemfd::new(len, BufferPages::for_len(len)) {
            Ok(mut loose) => {
                loose.memory().make_huge();
                Ok(Self { memory: DraftMemory::Loose(loose), len })
            }
            Err(_) => Self::private(len),
        }
    }

    /// `len` zeroes in private memory.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub fn private(len: usize) -> Result<Self, Errno> {
        let memory = DraftMemory::Private(BufferRegion::anonymous(len, BufferPages::for_len(len))?);
        Ok(Self { memory, len })
    }

    /// The bytes, to be written.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        let memory = match &mut self.memory {
            DraftMemory::Loose(loose) => loose.memory(),
            DraftMemory::Private(region) => region,
        };
        &mut memory.as_mut_bytes()[..self.len]
    }

    /// Freezes them.
    ///
    /// # Errors
    ///
    /// ENOMEM. If the seals are refused, the bytes are copied into private memory instead.
    pub fn freeze(self) -> Result<Frozen, Errno> {
        match self.memory {
            DraftMemory::Private(region) => Frozen::still(region, self.len),
            DraftMemory::Loose(mut loose) => {
                loose.memory().collapse();
                match loose.seal()? {
                    Ok(sealed) => Ok(Frozen::sealed(sealed, self.len)),
                    Err(copy) => Frozen::still(copy, self.len),
                }
            }
        }
    }
}
