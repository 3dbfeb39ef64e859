//! `/proc/PID/stat`: state, parent, CPU time and start of a process or thread.
//!
//! Times are clock ticks (`sysconf(_SC_CLK_TCK)`, 100 per second on Linux). The name is in parentheses and
//! may itself contain blanks and parentheses, so fields are counted from the last closing one.

use super::{fields, number, pid_path, read_bytes};
use crate::error::SysError;

/// The fields that pagewise uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessStat {
    pub pid: i32,
    /// Name of the main thread, at most 15 bytes (64 for kernel threads).
    pub comm: String,
    /// `R`, `S`, `D`, `T`, `t`, `Z`, `X`, ...
    pub state: char,
    pub ppid: i32,
    /// Process group.
    pub group: i32,
    pub session: i32,
    /// Flags of the kernel (`PF_*` of <linux/sched.h>).
    pub flags: u32,
    pub minor_faults: u64,
    /// Minor faults of children that were waited for.
    pub child_minor_faults: u64,
    pub major_faults: u64,
    /// Major faults of children that were waited for.
    pub child_major_faults: u64,
    /// Ticks in user mode.
    pub user_ticks: u64,
    /// Ticks in the kernel.
    pub system_ticks: u64,
    /// Ticks in user mode of children that were waited for.
    pub child_user_ticks: u64,
    /// Ticks in the kernel of children that were waited for.
    pub child_system_ticks: u64,
    /// Threads.
    pub threads: u32,
    /// Ticks from boot to its start.
    pub start_ticks: u64,
    /// Address of the start of its stack, which changes with each exec; 0 if this account may not see it.
    pub stack_start: u64,
    /// CPU it last ran on.
    pub processor: u32,
}

impl ProcessStat {
    /// Faults, minor and major.
    #[must_use]
    pub const fn faults(&self) -> u64 {
        self.minor_faults.saturating_add(self.major_faults)
    }

    /// Faults of children that were waited for, minor and major.
    #[must_use]
    pub const fn child_faults(&self) -> u64 {
        self.child_minor_faults.saturating_add(self.child_major_faults)
    }

    /// Its faults and those of children that were waited for.
    #[must_use]
    pub const fn faults_with_children(&self) -> u64 {
        self.faults().saturating_add(self.child_faults())
    }

    /// Whether it runs a program that it executed itself; false between a fork and the next `exec`.
    #[must_use]
    pub const fn has_execed(&self) -> bool {
        /// `PF_FORKNOEXEC`: set by fork, cleared by exec.
        const FORKED: u32 = 0x40;
        self.flags & FORKED == 0
    }

    /// Whether it has ended and was not reaped yet.
    #[must_use]
    pub const fn is_zombie(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// Parses the fields of `text`; `None` if it is malformed.
#[must_use]
pub fn parse(text: &[u8]) -> Option<ProcessStat> {
    let open = text.iter().position(|&b| b == b'(')?;
    let close = text.iter().rposition(|&b| b == b')')?;
    let comm = String::from_utf8_lossy(text.get(open + 1..close)?).into_owned();
    // rest[0] is field 3 of proc(5), the state.
    let rest: Vec<&[u8]> = fields(&text[close + 1..]).collect();
    let field = |n: usize| rest.get(n - 3).copied();
    Some(ProcessStat {
        pid: number(text[..open].trim_ascii())?,
        comm,
        state: char::from(*field(3)?.first()?),
        ppid: number(field(4)?)?,
        group: number(field(5)?)?,
        session: number(field(6)?)?,
        flags: number(field(9)?)?,
        minor_faults: number(field(10)?)?,
        child_minor_faults: number(field(11)?)?,
        major_faults: number(field(12)?)?,
        child_major_faults: number(field(13)?)?,
        user_ticks: number(field(14)?)?,
        system_ticks: number(field(15)?)?,
        child_user_ticks: number(field(16)?)?,
        child_system_ticks: number(field(17)?)?,
        threads: number(field(20)?)?,
        start_ticks: number(field(22)?)?,
        stack_start: number(field(28)?)?,
        processor: number(field(39)?)?,
    })
}

/// The stat of process `pid`.
pub fn read(pid: i32) -> Result<ProcessStat, SysError> {
    let path = pid_path(pid, "stat");
    let text = read_bytes(&path)?;
    parse(&text).ok_or_else(|| SysError::malformed("read", path))
}

/// The stat of thread `tid` alone: its faults and times, not those of its process.
pub fn read_thread(tid: i32) -> Result<ProcessStat, SysError> {
    let path = format!("/proc/{tid}/task/{tid}/stat");
    let text = read_bytes(&path)?;
    parse(&text).ok_or_else(|| SysError::malformed("read", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const X86: &[u8] = include_bytes!("../../../../fixtures/proc/x86_64-stat");

    #[test]
    fn recorded_stat() {
        let stat = parse(X86).unwrap();
        assert_eq!((stat.pid, stat.comm.as_str(), stat.state), (7816, "cat", 'R'));
        assert_eq!((stat.ppid, stat.group, stat.session), (7810, 7810, 3950));
        assert_eq!((stat.faults(), stat.child_faults()), (100, 0));
        assert_eq!((stat.threads, stat.start_ticks, stat.processor), (1, 113_322, 0));
    }

    #[test]
    fn names_with_blanks_and_parentheses() {
        let text = String::from_utf8(X86.to_vec()).unwrap().replace("(cat)", "(a) R (b c)");
        let stat = parse(text.as_bytes()).unwrap();
        assert_eq!((stat.comm.as_str(), stat.ppid), ("a) R (b c", 7810));
        assert!(!stat.is_zombie());
    }

    #[test]
    fn reads_its_own() {
        let stat = read(crate::proc::own_pid()).unwrap();
        assert_eq!(stat.ppid, std::os::unix::process::parent_id().cast_signed());
        assert!(stat.has_execed());
        // The main thread of this process is one of several.
        let thread = read_thread(stat.pid).unwrap();
        assert!(thread.faults() <= read(stat.pid).unwrap().faults());
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted(text: Vec<u8>) {
            let _ = parse(&text);
        }
        #[test]
        fn any_near_miss_is_accepted(text in "[0-9]{0,4} ?[()]{0,3}[ 0-9A-Z-]{0,60}") {
            let _ = parse(text.as_bytes());
        }
    }
}
