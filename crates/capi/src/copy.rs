//! The copy engine.

use crate::error::{Failure, answer};
use crate::frozen::{free, put_new};
use pagewise_lanes::{CopyError, CopyJob, CopyRoute, CopySide, ResumableCopy};
use rustix::io::Errno;
use std::ffi::{c_char, c_int};
use std::os::fd::BorrowedFd;

/// For `limit`: copy until the end of the source.
pub const PAGEWISE_NO_LIMIT: u64 = u64::MAX;

/// For `flags`: pass pages of a file or pipe on by reference, without copying them. This is dangerous if the
/// pages can change. Until the reader takes them, a later write, truncation or punched hole changes the bytes
/// that it gets.
pub const PAGEWISE_LIVE: u32 = 1;

/// For `flags`: also grow the pipe of the source. This is dangerous if its writer passes pages by reference
/// and relies on the former capacity.
pub const PAGEWISE_GROW_SOURCE: u32 = 2;

/// For `flags`: do not change the capacity of pipes.
pub const PAGEWISE_KEEP_CAPACITY: u32 = 4;

/// For `side`: the source could not be read.
pub const PAGEWISE_SOURCE: i32 = 1;

/// For `side`: the sink could not be written.
pub const PAGEWISE_SINK: i32 = 2;

/// Bytes after which a copier returns, so that its caller can handle signals.
const PAUSE: u64 = 64 * 1024 * 1024;

/// The result of a copy.
#[repr(C)]
#[derive(Debug, Clone, Default)]
pub struct Copied {
    /// Bytes that the sink took, also after an error.
    pub bytes: u64,
    /// Side of the error: `PAGEWISE_SOURCE`, `PAGEWISE_SINK`, or 0 without an error.
    pub side: i32,
    /// System call that moved the last bytes, such as "splice"; empty after an error.
    pub way: [c_char; 28],
}

/// Copies from `in_fd` to `out_fd` until the end of the source, but at most `limit` bytes. The copy is exact
/// and uses the fastest safe way. Both may be descriptors of any kind, and both stay open. No bytes beyond
/// `limit` are taken from the source. `flags` is 0 or a sum of `PAGEWISE_LIVE`, `PAGEWISE_GROW_SOURCE` and
/// `PAGEWISE_KEEP_CAPACITY`.
///
/// Returns 0 or a negative errno: -EINTR after a signal, but only when no byte is in transit, so no byte is
/// lost. `pagewise_copier_run` returns after every signal. `*copied` is set in all cases, unless `copied` is
/// NULL.
///
/// # Safety
///
/// `copied` is NULL or points to memory for the result.
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
        // SAFETY: the caller keeps both open during the call.
        let made = unsafe { copier(in_fd, out_fd, limit, flags, &mut result) };
        let ended = made.and_then(|mut copier| {
            loop {
                match copier.run(u64::MAX, &mut result) {
                    Err(failure) if failure.is_interrupted() && copier.0.holds() => {}
                    ended => break ended,
                }
            }
        });
        // SAFETY: by the contract of this function.
        unsafe { put(copied, result) };
        ended
    })
}

/// Makes a copier, which copies as `pagewise_copy` does when `pagewise_copier_run` is called. Both
/// descriptors must stay open until `pagewise_copier_free`.
///
/// Returns 0 or a negative errno.
///
/// # Safety
///
/// `copier` points to memory for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_copier_new(
    in_fd: c_int,
    out_fd: c_int,
    limit: u64,
    flags: u32,
    copier: *mut *mut Copier,
) -> c_int {
    answer(|| {
        // SAFETY: the caller keeps both open while the copier lives.
        let made = unsafe { self::copier(in_fd, out_fd, limit, flags, &mut Copied::default()) }?;
        // SAFETY: by the contract of this function.
        unsafe { put_new(copier, made) }
    })
}

/// Copies until the end. After -EINTR, call it again to go on, or free the copier to give up. Bytes that were
/// taken from the source and not yet written are then lost.
///
/// Returns 0 or a negative errno: -EINTR after a signal and after every 64 MiB. `*copied` counts the bytes of
/// all calls. It is set in all cases, unless `copied` is NULL.
///
/// # Safety
///
/// `copier` comes from `pagewise_copier_new` and was not freed, and no other call uses it. `copied` is NULL
/// or points to memory for the result.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_copier_run(copier: *mut Copier, copied: *mut Copied) -> c_int {
    answer(|| {
        // SAFETY: by the contract of this function.
        let copier = unsafe { copier.as_mut() };
        let copier = copier.ok_or_else(|| Failure::argument("an object is missing"))?;
        let mut result = Copied::default();
        let ended = copier.run(PAUSE, &mut result);
        // SAFETY: by the contract of this function.
        unsafe { put(copied, result) };
        ended
    })
}

/// Frees a copier. NULL is allowed.
///
/// # Safety
///
/// `copier` is NULL or comes from `pagewise_copier_new` and was not freed, and no call uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_copier_free(copier: *mut Copier) {
    // SAFETY: by the contract of this function.
    unsafe { free(copier) };
}

/// A copy that signals interrupt and that the program can continue. One thread at a time may use it.
#[derive(Debug)]
pub struct Copier(ResumableCopy<'static>);

/// Makes a copier for the caller's descriptors.
///
/// # Safety
///
/// Both descriptors stay open while the copier lives.
unsafe fn copier(
    from: c_int,
    to: c_int,
    limit: u64,
    flags: u32,
    result: &mut Copied,
) -> Result<Copier, Failure> {
    if flags & !(PAGEWISE_LIVE | PAGEWISE_GROW_SOURCE | PAGEWISE_KEEP_CAPACITY) != 0 {
        return Err(Failure::argument("unknown flags"));
    }
    // SAFETY: by the contract of this function.
    let from: BorrowedFd<'static> = unsafe { descriptor(from) }?;
    // SAFETY: likewise.
    let to: BorrowedFd<'static> = unsafe { descriptor(to) }?;
    let mut copy = CopyJob::between(from, to);
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
    copy.resumable().map(Copier).map_err(|error| noted(error, result))
}

impl Copier {
    /// Copies until the end of the source, or `most` bytes.
    fn run(&mut self, most: u64, result: &mut Copied) -> Result<(), Failure> {
        let done = self.0.run(most).map_err(|error| noted(error, result))?;
        *result = Copied { bytes: done.bytes, side: 0, way: text(name(done.way)) };
        Ok(())
    }
}

/// Stores the numbers of an error in the result, and returns the failure.
fn noted(error: CopyError, result: &mut Copied) -> Failure {
    let side = match error.side {
        CopySide::Source => PAGEWISE_SOURCE,
        CopySide::Sink => PAGEWISE_SINK,
    };
    *result = Copied { bytes: error.moved, side, way: text("") };
    error.into()
}

/// The name of the system call of a way.
const fn name(way: CopyRoute) -> &'static str {
    match way {
        CopyRoute::FileRange => "copy_file_range",
        CopyRoute::Splice => "splice",
        CopyRoute::Broker => "splice through a pipe",
        CopyRoute::Sendfile => "sendfile",
        CopyRoute::Lend => "read and vmsplice",
        CopyRoute::ReadWrite => "read and write",
    }
}

/// A short text as a C string: truncated if it does not fit, and always ended by a zero byte.
pub(crate) fn text<const N: usize>(from: &str) -> [c_char; N] {
    let mut text = [0; N];
    for (to, byte) in text[..N - 1].iter_mut().zip(from.bytes()) {
        *to = byte as c_char;
    }
    text
}

/// Stores a result at `place`, unless `place` is null.
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

/// Borrows a descriptor of the caller.
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
        let ways = [
            CopyRoute::FileRange,
            CopyRoute::Splice,
            CopyRoute::Broker,
            CopyRoute::Sendfile,
            CopyRoute::Lend,
            CopyRoute::ReadWrite,
        ];
        let room = Copied::default().way.len();
        assert!(ways.into_iter().all(|way| name(way).len() < room));
    }
}
