//! Base pages of zeros in huge pages: what small pages would not have taken, unless they are written.
//!
//! A program may have written zeros there, so this is an upper bound. Huge pages are sampled evenly, up to
//! [`MOST`]. Reading a huge page does not split it.

use pagewise_kernel::page_size;
use pagewise_model::Bytes;
use pagewise_model::address::ScannedRange;
use pagewise_model::memory_account::HugeSeen;
use pagewise_tracee::ptrace::read_memory;

/// Read of one process at most: some 60 ms.
const MOST: Bytes = Bytes::mib(256);

/// The content of the huge pages in `resident`.
pub(super) fn look(pid: i32, resident: &[ScannedRange]) -> HugeSeen {
    let huge = page_size::huge().bytes();
    let pages = |range: &ScannedRange| (range.start.0..range.end.0).step_by(huge as usize);
    let all: Vec<u64> = resident.iter().filter(|range| range.is_huge).flat_map(pages).collect();
    let mut seen = HugeSeen { bytes: Bytes(all.len() as u64 * huge), ..HugeSeen::default() };
    let step = seen.bytes.0.div_ceil(MOST.0).max(1);
    let zeros = vec![0; page_size::base().bytes() as usize];
    let mut bytes = vec![0; huge as usize];
    for address in all.into_iter().step_by(step as usize) {
        let Ok(read) = read_memory(pid, address, &mut bytes) else { continue };
        let empty = bytes[..read].chunks_exact(zeros.len()).filter(|page| **page == *zeros).count();
        seen.read_bytes += Bytes(read as u64);
        seen.zero_bytes += Bytes((empty * zeros.len()) as u64);
    }
    seen
}
