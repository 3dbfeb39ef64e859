//! The copy engine.

use crate::error::{Failure, answer};
use pagewise_lanes::{Copy, Side, Way};
use rustix::io::Errno;
use std::ffi::{c_char, c_int};
use std::os::fd::BorrowedFd;

/// For `limit`: copy until the end of the source.
pub const PAGEWISE_NO_LIMIT: u64 = u64::MAX;

/// For `flags`: pass pages of a file or pipe on by reference, without copying them. Dangerous if they can
/// change: until the reader takes them, a later write, truncation or punched hole changes what it gets.
pub const PAGEWISE_LIVE: u32 = 1;

/// For `flags`: also grow the pipe of the source. Dangerous if its writer passes pages by reference and
/// relies on the capacity that it has seen.
pub const PAGEWISE_GROW_SOURCE: u32 = 2;

/// For `flags`: do not change the capacity of pipes.
pub const PAGEWISE_KEEP_CAPACITY: u32 = 4;

/// For `side`: the source could not be read.
pub const PAGEWISE_SOURCE: i32 = 1;

/// For `side`: the sink could not be written.
pub const PAGEWISE_SINK: i32 = 2;

/// What a copy did.
#[repr(C)]
#[derive(Debug, Clone, Default)]
pub struct Copied {
    /// Bytes that the sink has taken, also after an error.
    pub bytes: u64,
    /// The side that an error is of: `PAGEWISE_SOURCE`, `PAGEWISE_SINK`, or 0.
    pub side: i32,
    /// The system call that moved the last bytes, such as "splice"; empty after an error.
    pub way: [c_char; 28],
}

/// Copies from `in_fd` to `out_fd` until the end of the source, at most `limit` bytes, exactly and by
/// the fastest safe way. Both descriptors may be anything, and stay open. Nothing beyond `limit` is taken
/// from the source. `flags` is 0 or a sum of `PAGEWISE_LIVE`, `PAGEWISE_GROW_SOURCE` and
/// `PAGEWISE_KEEP_CAPACITY`. Signals do not interrupt it.
///
/// Returns 0 or a negative errno. `*copied` is set in both cases, unless `copied` is NULL.
///
/// # Safety
///
/// `copied` is NULL or points to a place for the result.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_copy(
    in_fd: c_int,
    out_fd: c_int,
    limit: u64,
    flags: u32,
    copied: *mut Copied,
) -> c_int {
    answer(|| {
        let mut result = Copied::default();
        let ended = copy((in_fd, out_fd), limit, flags, &mut result);
        // SAFETY: by the contract of this function.
        unsafe { put(copied, result) };
        ended
    })
}

fn copy(
    (from, to): (c_int, c_int),
    limit: u64,
    flags: u32,
    result: &mut Copied,
) -> Result<(), Failure> {
    if flags & !(PAGEWISE_LIVE | PAGEWISE_GROW_SOURCE | PAGEWISE_KEEP_CAPACITY) != 0 {
        return Err(Failure::argument("pagewise_copy: unknown flags"));
    }
    // SAFETY: the caller keeps it open during the call, as for read(2).
    let from = unsafe { descriptor(from) }?;
    // SAFETY: likewise.
    let to = unsafe { descriptor(to) }?;
    let mut copy = Copy::new(&from, &to);
    if flags & PAGEWISE_LIVE != 0 {
        copy = copy.live();
    }
    if flags & PAGEWISE_GROW_SOURCE != 0 {
        copy = copy.grow_source();
    }
    if flags & PAGEWISE_KEEP_CAPACITY != 0 {
        copy = copy.keep_capacity();
    }
    if limit != PAGEWISE_NO_LIMIT {
        copy = copy.limit(limit);
    }
    match copy.run() {
        Ok(done) => {
            (result.bytes, result.way) = (done.bytes, text(name(done.way)));
            Ok(())
        }
        Err(error) => {
            result.bytes = error.moved;
            result.side = match error.side {
                Side::Source => PAGEWISE_SOURCE,
                Side::Sink => PAGEWISE_SINK,
            };
            Err(error.into())
        }
    }
}

/// The call of a way.
const fn name(way: Way) -> &'static str {
    match way {
        Way::FileRange => "copy_file_range",
        Way::Splice => "splice",
        Way::Broker => "splice through a pipe",
        Way::Sendfile => "sendfile",
        Way::ReadWrite => "read and write",
    }
}

/// A short text as C holds it: cut if it does not fit, and always ended by a zero.
pub(crate) fn text<const N: usize>(from: &str) -> [c_char; N] {
    let mut text = [0; N];
    for (to, byte) in text[..N - 1].iter_mut().zip(from.bytes()) {
        *to = byte as c_char;
    }
    text
}

/// Stores a result where the caller wants it, if it does.
///
/// # Safety
///
/// `place` is null or points to memory for a `T`.
pub(crate) unsafe fn put<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: by the contract of this function.
        unsafe { place.write(value) };
    }
}

/// A descriptor of the caller.
///
/// # Safety
///
/// It stays open while the result is used.
pub(crate) unsafe fn descriptor<'a>(fd: c_int) -> Result<BorrowedFd<'a>, Failure> {
    if fd < 0 {
        return Err(Failure::new(Errno::BADF, format!("{fd} is no descriptor")));
    }
    // SAFETY: not -1; open by the contract of this function.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_end_with_a_zero() {
        assert_eq!(text::<4>("ab"), [b'a' as c_char, b'b' as c_char, 0, 0]);
        assert_eq!(text::<3>("abcdef"), [b'a' as c_char, b'b' as c_char, 0]);
    }

    #[test]
    fn every_way_has_room_for_its_name() {
        let ways = [Way::FileRange, Way::Splice, Way::Broker, Way::Sendfile, Way::ReadWrite];
        let room = Copied::default().way.len();
        assert!(ways.into_iter().all(|way| name(way).len() < room));
    }
}
