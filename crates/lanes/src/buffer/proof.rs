//! Which pages memory really lies on, read from `/proc/self/smaps` (`proc_pid_smaps(5)`).
//!
//! Memory counts as huge if one middle-level table entry maps it: `AnonHugePages`, `ShmemPmdMapped` and
//! `FilePmdMapped`. Folios between a base page and that size are not seen and count as base pages. Overhead:
//! one walk over all mappings of the process, some 0.1 to 1 ms, under the mapping lock. Before that, one page
//! is touched in each huge page.

use super::region::{BufferPages, BufferRegion};
use std::io::{BufRead, BufReader};

/// Size in bytes of the smallest page under any part of `region`.
pub(super) fn page_size(region: &BufferRegion) -> std::io::Result<usize> {
    let (base, huge) = (BufferPages::Base.size(), BufferPages::Huge.size());
    if region.pages() == BufferPages::Base || base == huge {
        return Ok(base);
    }
    for byte in region.as_bytes().iter().step_by(huge) {
        std::hint::black_box(*byte);
    }
    let smaps = BufReader::new(std::fs::File::open("/proc/self/smaps")?);
    let mapped = huge_bytes(smaps, region.address())?;
    Ok(if mapped >= region.len() { huge } else { base })
}

/// Bytes mapped huge of the mapping that starts at `address`.
fn huge_bytes(smaps: impl BufRead, address: usize) -> std::io::Result<usize> {
    let head = format!("{address:08x}-");
    let (mut found, mut sum) = (false, 0);
    for line in smaps.lines() {
        let line = line?;
        let first = line.split_ascii_whitespace().next().unwrap_or_default();
        if !first.ends_with(':') {
            if found {
                break;
            }
            found = line.starts_with(&head);
        } else if found && matches!(first, "AnonHugePages:" | "ShmemPmdMapped:" | "FilePmdMapped:")
        {
            let number = line.split_ascii_whitespace().nth(1).and_then(|n| n.parse().ok());
            sum += number.unwrap_or(0_usize) * 1024;
        }
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
7f0000000000-7f0000400000 rw-p 00000000 00:00 0 \n\
Size:               4096 kB\nRss:                4096 kB\nAnonHugePages:      2048 kB\n\
ShmemPmdMapped:        0 kB\nFilePmdMapped:         0 kB\nVmFlags: rd wr mr mw me ac sd hg \n\
7f0000400000-7f0000600000 r--p 00000000 00:01 7 /memfd:frozen (deleted)\n\
Size:               2048 kB\nAnonHugePages:         0 kB\nShmemPmdMapped:     2048 kB\n";

    #[test]
    fn reads_the_mapping_asked_for() {
        let of = |address| huge_bytes(SMAPS.as_bytes(), address).unwrap();
        assert_eq!(of(0x7f00_0000_0000), 2048 * 1024);
        assert_eq!(of(0x7f00_0040_0000), 2048 * 1024);
        assert_eq!(of(0x7f00_0060_0000), 0);
    }
}
