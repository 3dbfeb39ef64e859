//! The seccomp filter that stops a tree where memory becomes code, where SIGTRAP is blocked or given an action,
//! and where CPUs are asked for or chosen. Pure.

use crate::seccomp::{ARCHITECTURE, ARCHITECTURE_AT, NUMBER_AT, argument, give, jump, load};
use libc::{BPF_JEQ, BPF_JSET, SECCOMP_RET_ALLOW, SECCOMP_RET_TRACE, sock_filter};

/// How the lower half of an argument is compared.
#[derive(Debug, Clone, Copy)]
enum Test {
    Is(u32),
    /// Any of these bits.
    Has(u32),
}

/// Code, by the protection of memory.
const CODE: Test = Test::Has(libc::PROT_EXEC as u32);
/// A pointer that is given.
const GIVEN: Test = Test::Has(u32::MAX);

/// Calls that stop, and by which argument.
const STOPS: [(i64, u32, Test); 7] = [
    (libc::SYS_mmap, 2, CODE),
    (libc::SYS_mprotect, 2, CODE),
    (libc::SYS_pkey_mprotect, 2, CODE),
    (libc::SYS_rt_sigaction, 0, Test::Is(libc::SIGTRAP as u32)),
    (libc::SYS_rt_sigprocmask, 1, GIVEN),
    (libc::SYS_sched_setaffinity, 2, GIVEN),
    (libc::SYS_sched_getaffinity, 2, GIVEN),
];

/// A stop at each of these calls.
pub(crate) fn filter() -> Vec<sock_filter> {
    let (allow, stop) = (give(SECCOMP_RET_ALLOW), give(SECCOMP_RET_TRACE));
    let mut filter =
        vec![load(ARCHITECTURE_AT), jump(BPF_JEQ, ARCHITECTURE, 1, 0), allow, load(NUMBER_AT)];
    for (number, at, test) in STOPS {
        let (how, value) = match test {
            Test::Is(value) => (BPF_JEQ, value),
            Test::Has(bits) => (BPF_JSET, bits),
        };
        let matched = [argument(at), jump(how, value, 0, 1), stop, allow];
        filter.push(jump(BPF_JEQ, number as u32, 0, matched.len() as u8));
        filter.extend(matched);
    }
    filter.push(allow);
    filter
}
