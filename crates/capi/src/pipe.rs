//! Pipe ends that wait adaptively.

use crate::copy::{descriptor, put};
use crate::error::{Failure, answer, count};
use crate::frozen::{Frozen, free, get, put_new, range, slice};
use crate::shared::Shared;
use pagewise_lanes::pipe::{self, PipeOptions, PipeStop, WaitMode};
use rustix::io::Errno;
use std::ffi::c_int;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

/// For `wait`: spin for at most 200 us while the other end is about to act, and sleep otherwise.
pub const PAGEWISE_WAIT_ADAPTIVE: u32 = 0;

/// For `wait`: sleep in each call, as read(2) and write(2) do.
pub const PAGEWISE_WAIT_BLOCK: u32 = 1;

/// For `wait`: never sleep. This uses a whole processor.
pub const PAGEWISE_WAIT_BUSY: u32 = 2;

/// The writing end of a pipe, or any other descriptor. Calls of several threads take turns.
#[derive(Debug)]
pub struct Writer(Shared<pipe::Writer>, usize);

/// The reading end of a pipe, or any other descriptor. Calls of several threads take turns.
#[derive(Debug)]
pub struct Reader(Shared<pipe::Reader>);

/// Makes an end that writes to `fd`. The descriptor is duplicated: close yours, or the reader never sees the
/// end. A pipe grows to `capacity` bytes, or as near to that as the user's limits allow. A capacity of 0
/// leaves it unchanged; 1 MiB is usually the most that is allowed. `wait` is one of `PAGEWISE_WAIT_...`.
///
/// Returns 0 or a negative errno.
///
/// # Safety
///
/// `writer` points to memory for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_writer_new(
    fd: c_int,
    wait: u32,
    capacity: usize,
    writer: *mut *mut Writer,
) -> c_int {
    answer(|| {
        let options = options(wait)?.capacity(capacity);
        let made = options.writer(duplicate(fd)?).map_err(|e| Failure::of_io("fstat", &e))?;
        let stop = new_stop()?;
        let capacity = made.capacity();
        let made = Writer(Shared::new(made.stopped_by(&stop), stop), capacity);
        // SAFETY: by the contract of this function.
        unsafe { put_new(writer, made) }
    })
}

/// Writes some of `length` bytes, as write(2) does.
///
/// Returns the number of bytes, or a negative errno: -EINTR after a signal, and occasionally from an end that
/// never sleeps. -EPIPE comes with SIGPIPE unless the program ignores it.
///
/// # Safety
///
/// `writer` comes from `pagewise_writer_new` and was not freed. `bytes` points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_writer_write(
    writer: *const Writer,
    bytes: *const u8,
    length: usize,
) -> i64 {
    count(|| {
        // SAFETY: by the contract of this function.
        let writer = unsafe { get(writer) }?;
        // SAFETY: by the contract of this function.
        let bytes = unsafe { slice(bytes, length) }?;
        writer.0.with(|writer| number("write", writer.write(bytes)))
    })
}

/// Sends all `length` bytes of `frozen` from `start` on. A pipe gets them by reference, any other descriptor
/// by write(2). The same bytes can be sent again immediately.
///
/// Returns 0 or a negative errno: -EINVAL for bytes beyond the end, -EINTR after a signal; then send the rest
/// again. `*taken` is set to the number of bytes sent in all cases, unless `taken` is NULL.
///
/// # Safety
///
/// `writer` and `frozen` were made here and not freed. `taken` is NULL or points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_writer_send(
    writer: *const Writer,
    frozen: *const Frozen,
    start: usize,
    length: usize,
    taken: *mut usize,
) -> c_int {
    answer(|| {
        // SAFETY: by the contract of this function.
        let writer = unsafe { get(writer) }?;
        // SAFETY: by the contract of this function.
        let frozen = unsafe { get(frozen) }?;
        let mut sent = 0;
        let ended = writer.0.with(|writer| {
            let all = writer.send(&frozen.0, range(start, length));
            sent = all.as_ref().map_or_else(|error| error.taken, |_| length);
            Ok(all.map(drop)?)
        });
        // SAFETY: by the contract of this function.
        unsafe { put(taken, sent) };
        ended
    })
}

/// Returns the capacity of the pipe in bytes; 0 if the descriptor is not a pipe.
///
/// # Safety
///
/// `writer` comes from `pagewise_writer_new` and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_writer_capacity(writer: *const Writer) -> usize {
    // SAFETY: by the contract of this function.
    unsafe { writer.as_ref() }.map_or(0, |writer| writer.1)
}

/// Ends the current call of another thread, and every later call, with -ECANCELED. Use it to close an end
/// that other threads use. A signal handler may call it. NULL is allowed.
///
/// # Safety
///
/// `writer` is NULL or comes from `pagewise_writer_new` and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_writer_stop(writer: *const Writer) {
    // SAFETY: by the contract of this function.
    if let Some(writer) = unsafe { writer.as_ref() } {
        writer.0.stop();
    }
}

/// Closes the descriptor of an end and frees the end. NULL is allowed.
///
/// # Safety
///
/// `writer` is NULL or comes from `pagewise_writer_new` and was not freed, and no call uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_writer_free(writer: *mut Writer) {
    // SAFETY: by the contract of this function.
    unsafe { free(writer) };
}

/// Makes an end that reads from `fd`. The descriptor is duplicated. The capacity of a pipe does not change,
/// because its writer may rely on it. `wait` is one of `PAGEWISE_WAIT_...`.
///
/// Returns 0 or a negative errno.
///
/// # Safety
///
/// `reader` points to memory for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_reader_new(
    fd: c_int,
    wait: u32,
    reader: *mut *mut Reader,
) -> c_int {
    answer(|| {
        let made =
            options(wait)?.reader(duplicate(fd)?).map_err(|e| Failure::of_io("fstat", &e))?;
        let stop = new_stop()?;
        let made = Reader(Shared::new(made.stopped_by(&stop), stop));
        // SAFETY: by the contract of this function.
        unsafe { put_new(reader, made) }
    })
}

/// Reads at most `length` bytes, as read(2) does. It returns the bytes that are available, however few.
///
/// Returns the number of bytes, 0 at the end, or a negative errno: -EINTR after a signal, and occasionally
/// from an end that never sleeps.
///
/// # Safety
///
/// `reader` comes from `pagewise_reader_new` and was not freed. `into` points to `length` initialized bytes,
/// for example zeroes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_reader_read(
    reader: *const Reader,
    into: *mut u8,
    length: usize,
) -> i64 {
    count(|| {
        // SAFETY: by the contract of this function.
        let reader = unsafe { get(reader) }?;
        if length == 0 {
            return Ok(0);
        }
        if into.is_null() || isize::try_from(length).is_err() {
            return Err(Failure::argument("pagewise_reader_read: no place for the bytes"));
        }
        // SAFETY: by the contract of this function; nothing else uses the bytes during the call.
        let into = unsafe { std::slice::from_raw_parts_mut(into, length) };
        reader.0.with(|reader| number("read", reader.read(into)))
    })
}

/// Discards the next `bytes` bytes, or fewer after a signal. Bytes in a pipe are not touched.
///
/// Returns the number of bytes discarded, 0 at the end, or a negative errno: -EINTR after a signal before the
/// first byte.
///
/// # Safety
///
/// `reader` comes from `pagewise_reader_new` and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_reader_skip(reader: *const Reader, bytes: u64) -> i64 {
    count(|| {
        // SAFETY: by the contract of this function.
        let reader = unsafe { get(reader) }?;
        let most = bytes.min(i64::MAX as u64);
        reader.0.with(|reader| number("read", reader.skip(most).map(|n| n as usize)))
    })
}

/// Ends the current call of another thread, and every later call, with -ECANCELED. Use it to close an end
/// that other threads use. A signal handler may call it. NULL is allowed.
///
/// # Safety
///
/// `reader` is NULL or comes from `pagewise_reader_new` and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_reader_stop(reader: *const Reader) {
    // SAFETY: by the contract of this function.
    if let Some(reader) = unsafe { reader.as_ref() } {
        reader.0.stop();
    }
}

/// Closes the descriptor of an end and frees the end. NULL is allowed.
///
/// # Safety
///
/// `reader` is NULL or comes from `pagewise_reader_new` and was not freed, and no call uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_reader_free(reader: *mut Reader) {
    // SAFETY: by the contract of this function.
    unsafe { free(reader) };
}

/// A number of bytes, which always fits in a signed number.
fn number(call: &str, moved: io::Result<usize>) -> Result<i64, Failure> {
    moved.map(|n| n as i64).map_err(|error| Failure::of_io(call, &error))
}

fn options(wait: u32) -> Result<PipeOptions, Failure> {
    let wait = match wait {
        PAGEWISE_WAIT_ADAPTIVE => WaitMode::Adaptive,
        PAGEWISE_WAIT_BLOCK => WaitMode::Block,
        PAGEWISE_WAIT_BUSY => WaitMode::Busy,
        _ => return Err(Failure::argument("unknown way to wait")),
    };
    Ok(PipeOptions::new().wait(wait))
}

fn new_stop() -> Result<PipeStop, Failure> {
    PipeStop::new().map_err(|error| Failure::of_io("eventfd", &error))
}

fn duplicate(fd: c_int) -> Result<OwnedFd, Failure> {
    // SAFETY: the caller keeps it open during the call.
    let fd = unsafe { descriptor(fd) }?;
    // Avoids the three standard descriptors, which the program may have closed.
    rustix::io::fcntl_dupfd_cloexec(fd, 3).map_err(|errno: Errno| Failure::of_call("fcntl", errno))
}
