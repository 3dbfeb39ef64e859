//! The seccomp filter that stops a tree where a file is mapped or a mapping moves, and where it is read. Pure.

use super::reads::CALLS;
use crate::seccomp::{argument, begin, give, jump};
use libc::{BPF_JEQ, BPF_JSET, SECCOMP_RET_ALLOW, SECCOMP_RET_TRACE, sock_filter};

/// Which argument of mmap(2) holds its flags.
const FLAGS: u32 = 3;

/// A stop at mmap(2) of anything but anonymous memory, at mremap(2), and with `reads` at each read.
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
