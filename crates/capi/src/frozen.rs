//! Frozen buffers: filled as a draft, then never changed again.

use crate::copy::{descriptor, put};
use crate::error::{Failure, answer};
use pagewise_lanes::buffer;
use std::ffi::c_int;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// Bytes that can be written until they are frozen.
#[derive(Debug)]
pub struct Draft(buffer::Draft);

/// Bytes that never change again. Any number of threads may use one object at the same time.
#[derive(Debug)]
pub struct Frozen(pub(crate) buffer::Frozen);

/// Makes a draft of `length` bytes, all zero.
///
/// Returns 0 or a negative errno: -ENOMEM.
///
/// # Safety
///
/// `draft` points to memory for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_draft_new(length: usize, draft: *mut *mut Draft) -> c_int {
    answer(|| {
        let made = buffer::Draft::new(length).map_err(|e| Failure::of_call("mmap", e))?;
        // SAFETY: by the contract of this function.
        unsafe { put_new(draft, Draft(made)) }
    })
}

/// Returns the bytes of a draft, for writing. The pointer is valid until the draft is frozen or freed.
///
/// # Safety
///
/// `draft` comes from `pagewise_draft_new`, and was neither frozen nor freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_draft_bytes(draft: *mut Draft) -> *mut u8 {
    // SAFETY: a live draft by the contract of this function.
    unsafe { draft.as_mut() }
        .map_or(std::ptr::null_mut(), |draft| draft.0.as_mut_slice().as_mut_ptr())
}

/// Freezes a draft. The draft no longer exists afterwards, even after an error. The bytes move: get the new
/// pointer from `pagewise_frozen_bytes`.
///
/// Returns 0 or a negative errno: -ENOMEM.
///
/// # Safety
///
/// `draft` comes from `pagewise_draft_new`, and was neither frozen nor freed. `frozen` points to memory for a
/// pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_draft_freeze(
    draft: *mut Draft,
    frozen: *mut *mut Frozen,
) -> c_int {
    answer(|| {
        if draft.is_null() {
            return Err(Failure::argument("pagewise_draft_freeze: no draft"));
        }
        // SAFETY: `pagewise_draft_new` made this box, and nothing uses it after this call.
        let draft = unsafe { Box::from_raw(draft) };
        let made = draft.0.freeze().map_err(|e| Failure::of_call("mmap", e))?;
        // SAFETY: by the contract of this function.
        unsafe { put_new(frozen, Frozen(made)) }
    })
}

/// Frees a draft that was not frozen. NULL is allowed.
///
/// # Safety
///
/// `draft` is NULL or comes from `pagewise_draft_new`, and was neither frozen nor freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_draft_free(draft: *mut Draft) {
    // SAFETY: by the contract of this function.
    unsafe { free(draft) };
}

/// Freezes a copy of `length` bytes.
///
/// Returns 0 or a negative errno: -ENOMEM.
///
/// # Safety
///
/// `bytes` points to `length` bytes, and `frozen` to memory for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_frozen_new(
    bytes: *const u8,
    length: usize,
    frozen: *mut *mut Frozen,
) -> c_int {
    answer(|| {
        // SAFETY: by the contract of this function.
        let bytes = unsafe { slice(bytes, length) }?;
        let made = buffer::Frozen::new(bytes).map_err(|e| Failure::of_call("mmap", e))?;
        // SAFETY: by the contract of this function.
        unsafe { put_new(frozen, Frozen(made)) }
    })
}

/// Uses the first `length` bytes of a sealed memfd. Another process can get one from `pagewise_frozen_memfd`
/// and pass it on (unix(7), SCM_RIGHTS). The descriptor is duplicated. The seals are checked, so the sender
/// can no longer change the bytes.
///
/// Returns 0 or a negative errno: -EPERM if the file lacks one of the seals F_SEAL_WRITE, F_SEAL_GROW and
/// F_SEAL_SHRINK, -EINVAL if it is shorter than `length` or not a memfd.
///
/// # Safety
///
/// `frozen` points to memory for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_frozen_open(
    memfd: c_int,
    length: usize,
    frozen: *mut *mut Frozen,
) -> c_int {
    answer(|| {
        // SAFETY: the caller keeps it open during the call.
        let file = unsafe { descriptor(memfd) }?.try_clone_to_owned();
        let file = file.map_err(|e| Failure::of_io("fcntl", &e))?;
        let made = buffer::Frozen::from_memfd(file, length);
        let made =
            made.map_err(|e| Failure::new(e, format!("no sealed memfd of that length: {e}")))?;
        // SAFETY: by the contract of this function.
        unsafe { put_new(frozen, Frozen(made)) }
    })
}

/// Returns the bytes. They are mapped read-only until `pagewise_frozen_free`.
///
/// # Safety
///
/// `frozen` was made here and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_frozen_bytes(frozen: *const Frozen) -> *const u8 {
    // SAFETY: by the contract of this function.
    unsafe { frozen.as_ref() }.map_or(std::ptr::null(), |frozen| frozen.0.as_bytes().as_ptr())
}

/// Returns the number of bytes.
///
/// # Safety
///
/// `frozen` was made here and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_frozen_length(frozen: *const Frozen) -> usize {
    // SAFETY: by the contract of this function.
    unsafe { frozen.as_ref() }.map_or(0, |frozen| frozen.0.len())
}

/// Returns the sealed memfd that holds the bytes, for other processes. It belongs to `frozen`: do not close
/// it.
///
/// Returns the descriptor or a negative errno: -ENOTSUP if the kernel or a filter refuses sealed memfds, and
/// the bytes are in private memory.
///
/// # Safety
///
/// `frozen` was made here and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_frozen_memfd(frozen: *const Frozen) -> c_int {
    let mut fd = -1;
    let failed = answer(|| {
        // SAFETY: by the contract of this function.
        let frozen = unsafe { get(frozen) }?;
        let refused = || Failure::new(rustix::io::Errno::NOTSUP, "the bytes are in private memory");
        fd = frozen.0.memfd().ok_or_else(refused)?.as_raw_fd();
        Ok(())
    });
    if failed == 0 { fd } else { failed }
}

/// Sends all `length` bytes from `start` on to any descriptor, and sleeps while it is full. A pipe gets them
/// by reference, any other descriptor by write(2). `pagewise_writer_send` waits adaptively instead.
///
/// Returns 0 or a negative errno: -EINVAL for bytes beyond the end, -EINTR after a signal; then send the rest
/// again. `*taken` is set to the number of bytes sent in all cases, unless `taken` is NULL.
///
/// # Safety
///
/// `frozen` was made here and not freed. `taken` is NULL or points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_frozen_send(
    frozen: *const Frozen,
    fd: c_int,
    start: usize,
    length: usize,
    taken: *mut usize,
) -> c_int {
    answer(|| {
        // SAFETY: by the contract of this function.
        let frozen = unsafe { get(frozen) }?;
        // SAFETY: the caller keeps it open during the call.
        let fd = unsafe { descriptor(fd) }?;
        let sent = frozen.0.send_interruptibly(fd, range(start, length));
        // SAFETY: by the contract of this function.
        unsafe { put(taken, sent.as_ref().map_or_else(|error| error.taken, |_| length)) };
        Ok(sent.map(drop)?)
    })
}

/// Frees frozen bytes. References that pipes hold stay valid. NULL is allowed.
///
/// # Safety
///
/// `frozen` is NULL or was made here and not freed, and no call uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_frozen_free(frozen: *mut Frozen) {
    // SAFETY: by the contract of this function.
    unsafe { free(frozen) };
}

/// A range for the library. An overflow becomes a range beyond every end.
pub(crate) fn range(start: usize, length: usize) -> Range<usize> {
    start..start.saturating_add(length)
}

/// Passes ownership of an object to C.
///
/// # Safety
///
/// `place` is null, which is an error, or points to a place for a pointer.
pub(crate) unsafe fn put_new<T>(place: *mut *mut T, value: T) -> Result<(), Failure> {
    if place.is_null() {
        return Err(Failure::argument("no place for the result"));
    }
    let given = Box::into_raw(Box::new(value));
    // SAFETY: by the contract of this function.
    unsafe { place.write(given) };
    Ok(())
}

/// Borrows an object that C owns.
///
/// # Safety
///
/// `object` is null, which is an error, or comes from [`put_new`] and was not freed.
pub(crate) unsafe fn get<'a, T>(object: *const T) -> Result<&'a T, Failure> {
    // SAFETY: by the contract of this function.
    unsafe { object.as_ref() }.ok_or_else(|| Failure::argument("an object is missing"))
}

/// Frees an object that C owns.
///
/// # Safety
///
/// `object` is null, or comes from [`put_new`] and was not freed.
pub(crate) unsafe fn free<T>(object: *mut T) {
    if !object.is_null() {
        // SAFETY: the box comes from `put_new`, by the contract of this function.
        drop(unsafe { Box::from_raw(object) });
    }
}

/// Borrows bytes that C owns.
///
/// # Safety
///
/// `bytes` points to `length` bytes that do not change while the slice is used. It may be null only if
/// `length` is 0.
pub(crate) unsafe fn slice<'a>(bytes: *const u8, length: usize) -> Result<&'a [u8], Failure> {
    match (bytes.is_null(), length) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Failure::argument("no bytes")),
        (_, _) if isize::try_from(length).is_err() => Err(Failure::argument("too many bytes")),
        // SAFETY: by the contract of this function.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(bytes, length) }),
    }
}
