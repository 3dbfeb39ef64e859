//! Reading into pages that the sink's pipe then refers to, and that come back.
//!
//! `write(2)` into a pipe copies each byte into new pages. Here `read(2)` fills a region on huge pages and
//! `vmsplice(2)` gives the pipe references to it, so a byte is copied once, not twice. The copy stays exact:
//! when the region is filled again, the kernel copies the pages that are still referenced
//! ([`Dropped::returning`]).
//!
//! It begins after [`AFTER`] bytes, because a region takes 2 ms to make, and only on huge pages that can be taken back
//! in place without a child process. It ends for good when a reader keeps pages: the kernel would copy them once more.
//! Each round shares the page tables of the whole process, which only a small process can afford.

use crate::buffer::{BufferPages, Dropped, SendWay};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;

/// Bytes after which a copy begins to lend: twice what pays for the region.
pub(super) const AFTER: u64 = 32 << 20;

/// Bytes of a region: eight times the capacity of a grown pipe, so that readers have released the pages that
/// are filled next.
const REGION: usize = 8 << 20;

/// Bytes of one call: as many as a grown pipe holds.
pub(super) const PIECE: usize = super::PIPE;

/// Smaller pieces are written: the pipe combines them in a page, while each loan takes a slot.
pub(super) fn least() -> usize {
    BufferPages::Base.size()
}

/// If a round has more page faults, readers must have kept pages. A huge page that came back takes one.
const MOST_FAULTS: u64 = 64;

/// A region whose pages are lent to one pipe.
#[derive(Debug)]
pub(super) struct LendingRegion {
    region: Dropped,
    /// Page faults of this thread when the round began.
    faults: u64,
}

impl LendingRegion {
    /// A region for the pipe `to`. `None` if lending would be no faster than copying.
    pub(super) fn begin(to: BorrowedFd<'_>) -> Option<Self> {
        if SendWay::first_of_memory(to) == SendWay::Copied {
            return None;
        }
        let mut region = Dropped::returning(REGION, BufferPages::Huge).ok()?;
        region.make_huge();
        let is_huge = region.page_size().is_ok_and(|size| size > BufferPages::Base.size());
        (is_huge && region.returns_without_child()).then(|| Self { region, faults: faults() })
    }

    /// Up to `most` bytes to fill and then lend. `None` once lending should end.
    pub(super) fn space(&mut self, most: usize) -> Option<&mut [u8]> {
        let round_begins = self.region.as_mut_slice().len() == self.region.capacity();
        if round_begins {
            let before = std::mem::replace(&mut self.faults, faults());
            if self.faults.saturating_sub(before) > MOST_FAULTS {
                return None;
            }
        }
        let space = self.region.as_mut_slice();
        let most = most.min(space.len());
        // Empty: the last round's pages could not be taken back.
        (most > 0).then(|| &mut space[..most])
    }

    /// The first `len` bytes that have not been lent.
    pub(super) fn bytes(&mut self, len: usize) -> &[u8] {
        &self.region.as_mut_slice()[..len]
    }

    /// Lends some of the next `len` bytes.
    ///
    /// # Errors
    ///
    /// EINTR, EAGAIN and EPIPE as `write(2)` gives them. EOPNOTSUPP: refused, and nothing was lent.
    pub(super) fn lend(&mut self, to: BorrowedFd<'_>, len: usize) -> Result<usize, Errno> {
        let flags = rustix::pipe::SpliceFlags::empty();
        let refused = |_bytes: &[u8]| Err(Errno::OPNOTSUPP);
        self.region.give_some(to, len, flags, &mut SendWay::ByReference, refused)
    }
}

/// Page faults of this thread that needed no reading.
fn faults() -> u64 {
    crate::buffer::minor_faults().unwrap_or(0)
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests {
    use super::LendingRegion;
    use crate::buffer::only_sharer;
    use crate::{CopyJob, CopyRoute};
    use rustix::pipe::SpliceFlags;
    use std::fs::File;
    use std::io::{PipeReader, Read, Seek, Write};
    use std::os::fd::AsFd;

    const MIB: usize = 1 << 20;

    /// Bytes in which no two page-sized blocks are equal.
    fn content(size: usize) -> Vec<u8> {
        (0..size as u64 / 8)
            .flat_map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes())
            .collect()
    }

    /// The ways of a lending copy of `content`, in order of use, and the bytes that `read` got. No ways if
    /// this machine cannot lend.
    fn lent(
        content: &[u8],
        read: impl FnOnce(PipeReader) -> Vec<u8> + Send,
    ) -> (Vec<CopyRoute>, Vec<u8>) {
        let _turn = only_sharer();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        file.rewind().unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        let mut ways = Vec::new();
        let got = std::thread::scope(|scope| {
            let got = scope.spawn(|| read(reader));
            let mut copy = CopyJob::new(&file, &writer).lend();
            copy.lend_after = Some(MIB as u64);
            copy.run_watched(|step| ways.push(step.way)).unwrap();
            ways.dedup();
            if LendingRegion::begin(writer.as_fd()).is_none() {
                println!("SKIP lending: no huge page, or pages do not come back");
                ways.clear();
            }
            drop(writer);
            got.join().unwrap()
        });
        (ways, got)
    }

    fn read_all(mut reader: impl Read) -> Vec<u8> {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn many_rounds_arrive_as_they_were_read() {
        let content = content(100 * MIB);
        let (ways, got) = lent(&content, read_all);
        assert!(got == content);
        assert!(ways.is_empty() || ways == [CopyRoute::ReadWrite, CopyRoute::Lend], "{ways:?}");
    }

    #[test]
    fn a_reader_that_keeps_pages_ends_it_and_keeps_what_it_got() {
        let content = content(100 * MIB);
        let (ways, got) = lent(&content, |mut reader| {
            let mut got = Vec::new();
            // Twenty pipes full of references, which are read only at the end.
            let mut kept: Vec<(File, File)> = Vec::new();
            while kept.len() < 20 {
                let mut piece = vec![0; 2 * MIB];
                reader.read_exact(&mut piece).unwrap();
                got.extend(piece);
                let (near, far) = rustix::pipe::pipe().unwrap();
                let size =
                    rustix::pipe::splice(&reader, None, &far, None, 32 << 10, SpliceFlags::empty());
                got.resize(got.len() + size.unwrap(), 0);
                kept.push((File::from(near), File::from(far)));
            }
            let mut at = 0;
            for (mut near, far) in kept {
                drop(far);
                at += 2 * MIB;
                let piece = read_all(&mut near);
                got[at..at + piece.len()].copy_from_slice(&piece);
                at += piece.len();
            }
            got.extend(read_all(reader));
            got
        });
        assert!(got == content);
        assert!(
            ways.is_empty()
                || ways == [CopyRoute::ReadWrite, CopyRoute::Lend, CopyRoute::ReadWrite],
            "{ways:?}"
        );
    }

    #[test]
    fn only_pipes_are_lent_pages() {
        let file = tempfile::tempfile().unwrap();
        assert!(LendingRegion::begin(file.as_fd()).is_none_or(|mut lending| {
            lending.space(10).unwrap().fill(1);
            lending.lend(file.as_fd(), 10) == Err(rustix::io::Errno::OPNOTSUPP)
        }));
    }
}
