//! The seccomp filter for a traced tree. It stops calls that make memory executable, that may block SIGTRAP
//! or set its action, and that read or set the CPU affinity. Pure.

use crate::seccomp::{argument, begin, give, jump};
use libc::{BPF_JEQ, BPF_JSET, SECCOMP_RET_ALLOW, SECCOMP_RET_TRACE, sock_filter};

/// How the lower half of an argument is compared.
#[derive(Debug, Clone, Copy)]
enum ArgumentTest {
    Is(u32),
    /// At least one of these bits is set.
    Has(u32),
    /// Not compared.
    Any,
}

/// Executable memory, by its protection.
const CODE: ArgumentTest = ArgumentTest::Has(libc::PROT_EXEC as u32);
/// A non-null pointer.
const GIVEN: ArgumentTest = ArgumentTest::Has(u32::MAX);

/// Calls that stop, and the argument that decides.
const STOPS: [(i64, u32, ArgumentTest); 8] = [
    (libc::SYS_mmap, 2, CODE),
    (libc::SYS_mprotect, 2, CODE),
    (libc::SYS_pkey_mprotect, 2, CODE),
    (libc::SYS_rt_sigaction, 0, ArgumentTest::Is(libc::SIGTRAP as u32)),
    (libc::SYS_rt_sigprocmask, 1, GIVEN),
    (libc::SYS_rt_sigreturn, 0, ArgumentTest::Any),
    (libc::SYS_sched_setaffinity, 2, GIVEN),
    (libc::SYS_sched_getaffinity, 2, GIVEN),
];

/// Builds a filter that stops at each call of [`STOPS`].
pub(crate) fn filter() -> Vec<sock_filter> {
    let (allow, stop) = (give(SECCOMP_RET_ALLOW), give(SECCOMP_RET_TRACE));
    let mut filter = begin();
    for (number, at, test) in STOPS {
        let if_so = |how, value| vec![argument(at), jump(how, value, 0, 1), stop, allow];
        let matched = match test {
            ArgumentTest::Is(value) => if_so(BPF_JEQ, value),
            ArgumentTest::Has(bits) => if_so(BPF_JSET, bits),
            ArgumentTest::Any => vec![stop],
        };
        filter.push(jump(BPF_JEQ, number as u32, 0, matched.len() as u8));
        filter.extend(matched);
    }
    filter.push(allow);
    filter
}
