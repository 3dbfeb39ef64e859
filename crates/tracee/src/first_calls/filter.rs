//! The seccomp filter that stops a tree where memory becomes code. Pure.

use crate::seccomp::{ARCHITECTURE, ARCHITECTURE_AT, NUMBER_AT, argument, give, jump, load};
use libc::{BPF_JEQ, BPF_JSET, SECCOMP_RET_ALLOW, SECCOMP_RET_TRACE, sock_filter};

/// Calls that give memory its protection, all in the same argument.
const PROTECT: [i64; 3] = [libc::SYS_mmap, libc::SYS_mprotect, libc::SYS_pkey_mprotect];
const PROTECTION: u32 = 2;

/// A stop at mmap(2) and mprotect(2) of memory that can be executed.
pub(crate) fn filter() -> Vec<sock_filter> {
    let (allow, stop) = (give(SECCOMP_RET_ALLOW), give(SECCOMP_RET_TRACE));
    let mut filter =
        vec![load(ARCHITECTURE_AT), jump(BPF_JEQ, ARCHITECTURE, 1, 0), allow, load(NUMBER_AT)];
    for number in PROTECT {
        filter.extend([
            jump(BPF_JEQ, number as u32, 0, 4),
            argument(PROTECTION),
            jump(BPF_JSET, libc::PROT_EXEC as u32, 0, 1),
            stop,
            allow,
        ]);
    }
    filter.push(allow);
    filter
}
