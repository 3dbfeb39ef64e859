//! Growing a pipe within the user's limits (`fcntl(2)` F_SETPIPE_SZ, `pipe(7)`).
//!
//! An unprivileged user may request /proc/sys/fs/pipe-max-size bytes a pipe, 1 MiB by default. All of the
//! user's pipes together may hold pipe-user-pages-soft pages: 64 pipes of 1 MiB. Beyond that every growth is
//! EPERM and new pipes have two slots. They all work, only slower, so this is not an error here: half the
//! size is requested until the kernel agrees or the pipe has that capacity. A pipe is never shrunk. Costs one
//! call if the pipe is large enough, two if it grows.

use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd};

/// Grows a pipe to `most` bytes or as near as allowed. Returns its resulting capacity, which the kernel
/// rounds up to a power of two of pages, or 0 for a descriptor that is not a pipe.
pub(crate) fn grow(pipe: impl AsFd, most: usize) -> usize {
    try_grow(pipe.as_fd(), most).unwrap_or(0)
}

/// Slots of a pipe with the default capacity.
const SLOTS: usize = 16;

/// As [`grow`], but a pipe whose capacity was changed before keeps it. An error for a descriptor that is not
/// a pipe.
pub(crate) fn grow_unset(pipe: BorrowedFd<'_>, most: usize) -> Result<usize, Errno> {
    let has = rustix::pipe::fcntl_getpipe_size(pipe)?;
    if has == SLOTS * rustix::param::page_size() { try_grow(pipe, most) } else { Ok(has) }
}

/// As [`grow`], but an error for a descriptor that is not a pipe.
fn try_grow(pipe: BorrowedFd<'_>, most: usize) -> Result<usize, Errno> {
    let has = rustix::pipe::fcntl_getpipe_size(pipe)?;
    let got = sizes(most, has).find_map(|size| rustix::pipe::fcntl_setpipe_size(pipe, size).ok());
    Ok(got.unwrap_or(has))
}

/// What to ask for, in order.
fn sizes(most: usize, has: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(most), |size| Some(size / 2)).take_while(move |size| *size > has)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1024;

    #[test]
    fn asks_for_less_until_the_pipe_has_it() {
        let asked: Vec<usize> = sizes(1024 * KIB, 64 * KIB).collect();
        assert_eq!(asked, [1024 * KIB, 512 * KIB, 256 * KIB, 128 * KIB]);
        assert_eq!(sizes(64 * KIB, 64 * KIB).count(), 0);
        assert_eq!(sizes(0, 0).count(), 0);
    }

    #[test]
    fn grows_and_never_shrinks() {
        let (_reader, writer) = std::io::pipe().unwrap();
        assert_eq!(grow(&writer, 256 * KIB), 256 * KIB);
        assert_eq!(grow(&writer, 64 * KIB), 256 * KIB);
        assert_eq!(grow_unset(writer.as_fd(), 1024 * KIB), Ok(256 * KIB));
        assert_eq!(grow(std::fs::File::open("/dev/null").unwrap(), 64 * KIB), 0);
    }
}
