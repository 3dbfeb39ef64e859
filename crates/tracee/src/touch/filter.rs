//! The seccomp filter that stops a tree where it maps a file or moves a mapping, and optionally where it
//! reads. Pure.

use super::reads::CALLS;
use crate::seccomp::{argument, begin, give, jump};
use libc::{BPF_JEQ, BPF_JSET, SECCOMP_RET_ALLOW, SECCOMP_RET_TRACE, sock_filter};

/// Index of the flags argument of mmap(2).
const FLAGS: u32 = 3;

/// Stops at every mmap(2) except of anonymous memory, at mremap(2), and with `reads` at each read.
pub(crate) fn filter(reads: bool) -> Vec<sock_filter> {
    let (allow, stop) = (give(SECCOMP_RET_ALLOW), give(SECCOMP_RET_TRACE));
    let mut filter = begin();
    let stops = CALLS.iter().filter(|_| reads).chain([&libc::SYS_mremap]);
    filter.extend(stops.flat_map(|number| [jump(BPF_JEQ, *number as u32, 0, 1), stop]));
    filter.extend([
        jump(BPF_JEQ, libc::SYS_mmap as u32, 1, 0),
        allow,
        argument(FLAGS),
        jump(BPF_JSET, libc::MAP_ANONYMOUS as u32, 0, 1),
        allow,
        stop,
    ]);
    filter
}
