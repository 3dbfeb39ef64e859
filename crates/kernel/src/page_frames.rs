//! `/proc/kpageflags` and `/proc/kpagecount`: one word for each frame of physical memory, by frame number
//! (`Documentation/admin-guide/mm/pagemap.rst`). Root only.
//!
//! Flags are read without a lock, so those of a frame that changes its use meanwhile may be inconsistent. The
//! count is of page-table entries, not of references. For a frame of a large folio, some kernels give an
//! average (`CONFIG_NO_PAGE_MAPCOUNT`). Cost: some microseconds per call, 10 ns per frame.

use crate::error::SysError;
use crate::proc::read_words;
use pagewise_model::address::FrameFlags;
use std::fs::File;

const FLAGS: &str = "/proc/kpageflags";
const COUNTS: &str = "/proc/kpagecount";

/// The flags of `count` frames from number `first` on; fewer at the end of memory.
///
/// # Errors
/// EACCES or EPERM for accounts other than root.
pub fn flags(first: u64, count: usize) -> Result<Vec<FrameFlags>, SysError> {
    Ok(read(FLAGS, first, count)?.into_iter().map(FrameFlags).collect())
}

/// Number of page-table entries that map frame `number`.
///
/// # Errors
/// EACCES or EPERM for accounts other than root.
pub fn map_count(number: u64) -> Result<u64, SysError> {
    let words = read(COUNTS, number, 1)?;
    words.first().copied().ok_or_else(|| {
        SysError::new("read", COUNTS, std::io::Error::from(std::io::ErrorKind::UnexpectedEof))
    })
}

fn read(path: &str, first: u64, count: usize) -> Result<Vec<u64>, SysError> {
    let file = File::open(path).map_err(|e| SysError::new("open", path, e))?;
    read_words(&file, path, first, count)
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests {
    use super::*;

    #[test]
    fn frames_have_flags_or_are_refused() {
        match flags(0, 16) {
            Ok(found) => {
                assert_eq!(found.len(), 16);
                assert!(flags(1 << 50, 1).is_ok_and(|none| none.is_empty()));
                map_count(1).unwrap();
            }
            Err(error) => {
                assert!(matches!(error.errno(), Some(libc::EACCES | libc::EPERM)), "{error}");
                println!("SKIP frames_have_flags_or_are_refused: {error}");
            }
        }
    }
}
