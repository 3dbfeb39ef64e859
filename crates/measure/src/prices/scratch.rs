//! A cached file without a name, for the prices of file work.
//!
//! `O_TMPFILE` on the file system of the cache, where programs' own files are of the same kind;
//! where that is not offered, a memfd. It is written in steps of 64 KiB, which gives the folios that
//! copying tools leave behind, or a base page at a time, which gives the single pages that a start
//! from disk leaves of programs and libraries; it is gone with its last descriptor.

use crate::error::PriceError;
use pagewise_kernel::SysError;
use rustix::fs::{MemfdFlags, Mode, OFlags};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Bytes of one read, write or copy of the copying prices.
pub(crate) const BLOCK: usize = 64 << 10;

/// A file of `len` bytes, all in the page cache, written `step` bytes at a time.
pub(crate) fn create_cached(dir: &Path, len: usize, step: usize) -> Result<File, PriceError> {
    fill(open_nameless(dir)?, len, step).or_else(|_| fill(open_memory()?, len, step))
}

fn open_nameless(dir: &Path) -> Result<File, PriceError> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(dir, flags, Mode::RUSR | Mode::WUSR) {
        Ok(fd) => Ok(fd.into()),
        Err(_) => open_memory(),
    }
}

fn open_memory() -> Result<File, PriceError> {
    let fd = rustix::fs::memfd_create("pagewise-scratch", MemfdFlags::CLOEXEC);
    Ok(fd.map_err(|e| SysError::new("memfd_create", "a scratch file", e))?.into())
}

fn fill(mut file: File, len: usize, step: usize) -> Result<File, PriceError> {
    let block = vec![0x5a_u8; step];
    for _ in 0..len.div_ceil(step) {
        file.write_all(&block).map_err(PriceError::sys("write", "the scratch file"))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_not_there_is_no_obstacle() {
        let file =
            create_cached(Path::new("/no/such/directory"), 2 * BLOCK, BLOCK).expect("a memfd");
        assert_eq!(file.metadata().expect("metadata").len(), 2 * BLOCK as u64);
    }
}
