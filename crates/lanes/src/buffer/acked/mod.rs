//! A ring of regions shared with a reader that acknowledges its copies.
//!
//! The writer fills a region, passes it to a pipe by reference (`vmsplice(2)`), and continues with the next.
//! It gets a region back for writing only when the reader has acknowledged its last byte: [`RingReader`] copies
//! out of the pipe (`read(2)`) and then adds the bytes to a shared count. So each byte is copied once instead
//! of twice, and no page is ever replaced.
//!
//! **Safe only with that reader.** [`ring`] makes both halves and never exposes the pipe. So no other code
//! can take slots out of it by `splice(2)` or `tee(2)`; such references would outlive the acknowledgement
//! unnoticed. For any other peer use [`RingWriter::over`], which is `unsafe` and lists the promises of the peer.
//! Threads share the halves directly. For another process, [`RingReader::into_files`] and [`RingReader::from_files`]
//! pass one half as two descriptors.
//!
//! Sizes are bytes. Writing waits while all regions are in flight. It polls some hundred times and then
//! sleeps (`futex(2)`), at most 10 ms at a time, to check whether the reader has closed its end. If so, it
//! fails with EPIPE, as with any pipe. The regions together should hold at least the pipe and two regions
//! more. Otherwise the writer waits for the reader while the pipe still has room. If the kernel refuses
//! references, `write(2)` copies.

mod account;
mod reader;
mod writer;

use super::region::BufferPages;
use rustix::io::Errno;
use rustix::pipe::PipeFlags;

pub use reader::{RingAcknowledger, RingReader};
pub use writer::{RingSpace, RingWriter};

/// Makes a ring of `regions` regions of `size` bytes each, rounded up to whole pages, and both of its halves.
///
/// # Errors
///
/// EINVAL for no region; ENOMEM, EMFILE; what `memfd_create(2)` gives where it is not allowed.
///
/// # Examples
///
/// ```
/// use pagewise_lanes::buffer::{BufferPages, acked};
/// use std::io::Read;
/// let (mut writer, mut reader) = acked::ring(4, 64 * 1024, BufferPages::Base)?;
/// let consumer = std::thread::spawn(move || {
///     let mut text = String::new();
///     reader.read_to_string(&mut text).map(|_| text)
/// });
/// for word in ["each ", "region ", "comes ", "back ", "when ", "copied"] {
///     let mut space = writer.space()?;
///     space[..word.len()].copy_from_slice(word.as_bytes());
///     space.send(word.len())?;
/// }
/// drop(writer);
/// assert_eq!(consumer.join().unwrap()?, "each region comes back when copied");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn ring(
    regions: usize,
    size: usize,
    pages: BufferPages,
) -> Result<(RingWriter, RingReader), Errno> {
    let (exit, entry) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    crate::pipe::capacity::grow(&entry, regions.saturating_mul(size).min(crate::copy::PIPE));
    let (writer, acknowledger) = RingWriter::between(entry, regions, size, pages)?;
    Ok((writer, RingReader::new(exit, acknowledger)))
}
