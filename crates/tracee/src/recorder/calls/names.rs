//! Names and kinds of system calls that take faults, by their numbers on this machine. A call without a name
//! here, or by the table of another architecture, is shown by its number.

use crate::ptrace::request::SyscallNumber;
use crate::seccomp::ARCHITECTURE;
use libc::c_long;
use pagewise_model::fault::CallKind;

/// Calls that make processes and threads and execute programs.
const START: &[(c_long, &str)] = &[
    (libc::SYS_execve, "execve"),
    (libc::SYS_execveat, "execveat"),
    (libc::SYS_clone, "clone"),
    (libc::SYS_clone3, "clone3"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_fork, "fork"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_vfork, "vfork"),
];

/// Calls that bring pages in or pin them.
const POPULATE: &[(c_long, &str)] = &[
    (libc::SYS_mmap, "mmap"),
    (libc::SYS_mremap, "mremap"),
    (libc::SYS_remap_file_pages, "remap_file_pages"),
    (libc::SYS_brk, "brk"),
    (libc::SYS_madvise, "madvise"),
    (libc::SYS_process_madvise, "process_madvise"),
    (libc::SYS_mlock, "mlock"),
    (libc::SYS_mlock2, "mlock2"),
    (libc::SYS_mlockall, "mlockall"),
    (libc::SYS_shmat, "shmat"),
    (libc::SYS_io_uring_register, "io_uring_register"),
];

/// Calls that read and write memory of the program.
const COPY: &[(c_long, &str)] = &[
    (libc::SYS_read, "read"),
    (libc::SYS_pread64, "pread64"),
    (libc::SYS_readv, "readv"),
    (libc::SYS_preadv, "preadv"),
    (libc::SYS_write, "write"),
    (libc::SYS_pwrite64, "pwrite64"),
    (libc::SYS_writev, "writev"),
    (libc::SYS_recvfrom, "recvfrom"),
    (libc::SYS_recvmsg, "recvmsg"),
    (libc::SYS_sendto, "sendto"),
    (libc::SYS_sendmsg, "sendmsg"),
    (libc::SYS_vmsplice, "vmsplice"),
    (libc::SYS_openat, "openat"),
    (libc::SYS_newfstatat, "newfstatat"),
    (libc::SYS_fstat, "fstat"),
    (libc::SYS_statx, "statx"),
    (libc::SYS_statfs, "statfs"),
    (libc::SYS_faccessat, "faccessat"),
    (libc::SYS_faccessat2, "faccessat2"),
    (libc::SYS_getdents64, "getdents64"),
    (libc::SYS_getcwd, "getcwd"),
    (libc::SYS_readlinkat, "readlinkat"),
    (libc::SYS_pipe2, "pipe2"),
    (libc::SYS_ioctl, "ioctl"),
    (libc::SYS_uname, "uname"),
    (libc::SYS_getrandom, "getrandom"),
    (libc::SYS_prlimit64, "prlimit64"),
    (libc::SYS_sysinfo, "sysinfo"),
    (libc::SYS_futex, "futex"),
    (libc::SYS_rseq, "rseq"),
    (libc::SYS_set_robust_list, "set_robust_list"),
    (libc::SYS_rt_sigaction, "rt_sigaction"),
    (libc::SYS_rt_sigprocmask, "rt_sigprocmask"),
    (libc::SYS_rt_sigreturn, "rt_sigreturn"),
    (libc::SYS_wait4, "wait4"),
    (libc::SYS_waitid, "waitid"),
    (libc::SYS_ppoll, "ppoll"),
    (libc::SYS_epoll_pwait, "epoll_pwait"),
    (libc::SYS_exit_group, "exit_group"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, "open"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_stat, "stat"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_lstat, "lstat"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_access, "access"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_readlink, "readlink"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_poll, "poll"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_epoll_wait, "epoll_wait"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_arch_prctl, "arch_prctl"),
];

/// Name and kind of a call.
pub(super) fn of(call: SyscallNumber) -> (String, CallKind) {
    let number = call.number;
    if call.architecture != ARCHITECTURE {
        return (format!("call {number} of {:#x}", call.architecture), CallKind::Copy);
    }
    let kinds = [(START, CallKind::Start), (POPULATE, CallKind::Populate), (COPY, CallKind::Copy)];
    let found = kinds.iter().find_map(|(calls, kind)| {
        let call = calls.iter().find(|call| u64::try_from(call.0) == Ok(number))?;
        Some((call.1.to_owned(), *kind))
    });
    found.unwrap_or_else(|| (format!("call {number}"), CallKind::Copy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_named_once_and_an_unknown_one_by_its_number() {
        let all: Vec<_> = [START, POPULATE, COPY].concat();
        let numbers: std::collections::BTreeSet<_> = all.iter().map(|call| call.0).collect();
        assert_eq!(numbers.len(), all.len());
        let native = |number| of(SyscallNumber { architecture: ARCHITECTURE, number });
        let mlock = u64::try_from(libc::SYS_mlock).unwrap();
        assert_eq!(native(mlock), ("mlock".to_owned(), CallKind::Populate));
        assert_eq!(native(99_999), ("call 99999".to_owned(), CallKind::Copy));
        assert_eq!(of(SyscallNumber { architecture: 7, number: mlock }).1, CallKind::Copy);
    }
}
