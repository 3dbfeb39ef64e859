//! `/proc/PID/status`: memory, threads, signals and restrictions of a process.
//!
//! Memory sizes are exact from `mm_struct` counters since Linux 6.2; before, they may lag by up to
//! 64 pages per thread. Kernel threads and zombies have no memory lines: those are `None`, not 0.

use super::{hex, kilobytes, lines, named, number, pid_path, read_bytes};
use crate::error::SysError;
use pagewise_model::Bytes;

/// The fields that pagewise uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessStatus {
    /// Process id, if the id read is that of a thread.
    pub tgid: Option<i32>,
    pub ppid: Option<i32>,
    /// Its number in its own process namespace (since Linux 4.1).
    pub own_pid: Option<i32>,
    /// Process id of the tracer; 0 if it is not traced.
    pub tracer_pid: Option<i32>,
    /// Effective user id.
    pub euid: Option<u32>,
    pub threads: Option<u32>,
    /// Address space (`VmSize`).
    pub vm_size: Option<Bytes>,
    /// Peak resident set (`VmHWM`).
    pub peak_rss: Option<Bytes>,
    /// Resident set (`VmRSS`).
    pub rss: Option<Bytes>,
    /// Resident anonymous memory.
    pub rss_anon: Option<Bytes>,
    /// Resident file pages.
    pub rss_file: Option<Bytes>,
    /// Resident shared memory.
    pub rss_shmem: Option<Bytes>,
    /// Pages from the pool of reserved huge pages (`HugetlbPages`), which `rss` does not count.
    pub pool: Option<Bytes>,
    /// Page tables (`VmPTE`).
    pub page_tables: Option<Bytes>,
    /// Signals pending for the thread, one bit each.
    pub thread_pending: u64,
    /// Signals pending for the process.
    pub process_pending: u64,
    /// Signals blocked.
    pub blocked: u64,
    /// Signals ignored.
    pub ignored: u64,
    /// Signals for which it has a handler.
    pub caught: u64,
    /// 0 none, 1 strict, 2 filter.
    pub seccomp: Option<u32>,
    /// Number of active filters, its own and inherited ones (since Linux 5.9).
    pub seccomp_filters: Option<u32>,
    /// Runs with a shadow stack (`x86_Thread_features`).
    pub shadow_stack: bool,
    /// Cannot gain privileges by exec.
    pub no_new_privs: Option<bool>,
    /// May use transparent huge pages (`THP_enabled`).
    pub thp_enabled: Option<bool>,
    /// CPUs it may run on.
    pub cpus: Vec<u32>,
    /// Effective capabilities, one bit each.
    pub capabilities: u64,
    /// Number of times that this thread (for a process: its main thread) went to sleep.
    pub voluntary_switches: Option<u64>,
    /// Number of times that it was preempted.
    pub involuntary_switches: Option<u64>,
}

/// The fields found in `text`.
#[must_use]
pub fn parse(text: &[u8]) -> ProcessStatus {
    let mut status = ProcessStatus::default();
    for (name, value) in lines(text).filter_map(named) {
        take_memory(&mut status, name, value);
        take_other(&mut status, name, value);
    }
    status
}

fn take_memory(status: &mut ProcessStatus, name: &[u8], value: &[u8]) {
    let slot = match name {
        b"VmSize" => &mut status.vm_size,
        b"VmHWM" => &mut status.peak_rss,
        b"VmRSS" => &mut status.rss,
        b"RssAnon" => &mut status.rss_anon,
        b"RssFile" => &mut status.rss_file,
        b"RssShmem" => &mut status.rss_shmem,
        b"HugetlbPages" => &mut status.pool,
        b"VmPTE" => &mut status.page_tables,
        _ => return,
    };
    *slot = kilobytes(value);
}

fn take_other(status: &mut ProcessStatus, name: &[u8], value: &[u8]) {
    match name {
        b"Tgid" => status.tgid = number(value),
        b"PPid" => status.ppid = number(value),
        b"NSpid" => status.own_pid = super::fields(value).last().and_then(number),
        b"TracerPid" => status.tracer_pid = number(value),
        b"Uid" => status.euid = super::fields(value).nth(1).and_then(number),
        b"Threads" => status.threads = number(value),
        b"SigPnd" => status.thread_pending = hex(value).unwrap_or(0),
        b"ShdPnd" => status.process_pending = hex(value).unwrap_or(0),
        b"SigBlk" => status.blocked = hex(value).unwrap_or(0),
        b"SigIgn" => status.ignored = hex(value).unwrap_or(0),
        b"SigCgt" => status.caught = hex(value).unwrap_or(0),
        b"Seccomp" => status.seccomp = number(value),
        b"Seccomp_filters" => status.seccomp_filters = number(value),
        b"x86_Thread_features" => {
            status.shadow_stack = super::fields(value).any(|feature| feature == b"shstk");
        }
        b"NoNewPrivs" => status.no_new_privs = Some(value == b"1"),
        b"THP_enabled" => status.thp_enabled = Some(value == b"1"),
        b"Cpus_allowed_list" => status.cpus = parse_list(value),
        b"CapEff" => status.capabilities = hex(value).unwrap_or(0),
        b"voluntary_ctxt_switches" => status.voluntary_switches = number(value),
        b"nonvoluntary_ctxt_switches" => status.involuntary_switches = number(value),
        _ => {}
    }
}

/// Parses a list such as `0-3,8,10-11`; skips ranges that are too wide for CPUs or nodes.
#[must_use]
pub fn parse_list(text: &[u8]) -> Vec<u32> {
    const MOST: u32 = 1 << 16;
    let range = |part: &[u8]| -> Option<std::ops::RangeInclusive<u32>> {
        let (first, last) = match part.iter().position(|&b| b == b'-') {
            Some(dash) => (number(&part[..dash])?, number(&part[dash + 1..])?),
            None => (number(part)?, number(part)?),
        };
        (last < MOST).then_some(first..=last)
    };
    text.trim_ascii().split(|&b| b == b',').filter_map(range).flatten().collect()
}

/// The status of process (or thread) `pid`.
pub fn read(pid: i32) -> Result<ProcessStatus, SysError> {
    read_bytes(pid_path(pid, "status")).map(|text| parse(&text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const X86: &[u8] = include_bytes!("../../../../fixtures/proc/x86_64-status");
    const ARM: &[u8] = include_bytes!("../../../../fixtures/proc/aarch64-16k-status");

    #[test]
    fn recorded_status() {
        let status = parse(X86);
        assert_eq!(status.peak_rss, Some(Bytes::kib(1740)));
        assert_eq!(status.rss_anon, Some(Bytes::kib(116)));
        assert_eq!(status.page_tables, Some(Bytes::kib(40)));
        assert_eq!(
            (status.tgid, status.ppid, status.tracer_pid),
            (Some(7553), Some(7551), Some(0))
        );
        assert_eq!((status.threads, status.seccomp), (Some(1), Some(0)));
        assert_eq!((status.seccomp_filters, status.shadow_stack), (Some(0), false));
        assert_eq!(status.vm_size, Some(Bytes::kib(3060)));
        assert_eq!(status.cpus, [0, 1]);
        assert_eq!(status.thp_enabled, Some(true));
        assert!(status.capabilities & 1 << 21 != 0);
    }

    #[test]
    fn sixteen_kib_pages_and_many_cpus() {
        let status = parse(ARM);
        assert_eq!(status.rss, Some(Bytes::kib(16 * 211)));
        assert_eq!(status.cpus.len(), 80);
        assert_eq!(status.blocked, 1 << 9);
    }

    #[test]
    fn kernel_thread_has_no_memory() {
        assert_eq!(parse(b"Name:\tkthreadd\nPPid:\t0\nThreads:\t1\n").rss, None);
    }

    #[test]
    fn a_shadow_stack_is_seen() {
        assert!(parse(b"x86_Thread_features:\tshstk wrss \n").shadow_stack);
    }

    #[test]
    fn lists() {
        assert_eq!(parse_list(b"0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(parse_list(b"0-4294967295"), [0u32; 0]);
        assert_eq!(parse_list(b""), [0u32; 0]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted(text: Vec<u8>) {
            let _ = parse(&text);
            let _ = parse_list(&text);
        }
        #[test]
        fn any_list_is_accepted(text in "[0-9,-]{0,24}") {
            let _ = parse_list(text.as_bytes());
        }
    }
}
