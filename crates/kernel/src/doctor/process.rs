//! Probes: what may be done to another process, tried on a child.

use super::answer::{answer_from, answer_of, capability};
use crate::child::{self, SleepingChild};
use crate::error::SysError;
use crate::proc::read_number;
use crate::region::{MemoryRegion, RegionPages};
use crate::{page_size, pidfd};
use pagewise_model::Bytes;
use pagewise_model::capability::{Capability, CapabilityAnswer, MachineTrait};
use std::os::fd::AsRawFd;

const GROUP: &str = "other processes";

pub(super) fn probe() -> Vec<Capability> {
    let yama = "sysctl kernel.yama.ptrace_scope=1, or CAP_SYS_PTRACE; in a container: allow ptrace";
    vec![
        capability(
            GROUP,
            "ptrace of own children",
            "the traced look, and huge pages advised from outside",
            answer_of(&SleepingChild::start().and_then(|child| seize(&child))),
            Some(yama),
        ),
        capability(
            GROUP,
            "pidfd_getfd",
            "pipes that a started program creates are grown",
            answer_of(&copy_descriptor()),
            Some(yama),
        ),
        capability(
            GROUP,
            "process_madvise",
            "memory that exists already is put on huge pages from outside",
            answer_of(&advise_child()),
            Some("setcap cap_sys_nice,cap_sys_ptrace+ep on pagewise"),
        ),
        seccomp(false),
        seccomp(true),
        thp_disable(),
    ]
}

/// The Yama restriction on ptrace, if this kernel has Yama.
pub(super) fn yama() -> Option<MachineTrait> {
    let scope = read_number("/proc/sys/kernel/yama/ptrace_scope").ok()?;
    let value = match scope {
        0 => "0: any process of the same user".to_owned(),
        1 => "1: own descendants".to_owned(),
        2 => "2: with CAP_SYS_PTRACE only".to_owned(),
        other => format!("{other}: nobody"),
    };
    Some(MachineTrait { group: "kernel".into(), name: "yama ptrace_scope".into(), value })
}

fn seize(child: &SleepingChild) -> Result<(), SysError> {
    // SAFETY: PTRACE_SEIZE takes no address. The target is a child of this process, which is killed on drop.
    let seized = unsafe { libc::ptrace(libc::PTRACE_SEIZE, child.pid(), 0usize, 0usize) };
    if seized == 0 {
        Ok(())
    } else {
        Err(SysError::last("ptrace PTRACE_SEIZE", format!("process {}", child.pid())))
    }
}

fn copy_descriptor() -> Result<(), SysError> {
    let (reader, _writer) = crate::pipe::pipe()?;
    let child = SleepingChild::start()?;
    let target = pidfd::open(child.pid())?;
    pidfd::get_fd(&target, reader.as_raw_fd()).map(drop)
}

/// `MADV_COLD` needs the same rights as `MADV_COLLAPSE`, and has no effect that matters.
fn advise_child() -> Result<(), SysError> {
    let page = page_size::base().bytes();
    let mut region = MemoryRegion::new(Bytes(page), RegionPages::Any)?;
    region.touch(Bytes(page));
    let start = region.as_ptr() as u64;
    let child = SleepingChild::start()?;
    pidfd::advise(pidfd::open(child.pid())?, &(start..start + page), pidfd::MemoryAdvice::Cold)
}

fn seccomp(no_new_privs: bool) -> Capability {
    let tried = child::errno_in_child(|| install_filter(no_new_privs));
    let (name, gives) = if no_new_privs {
        ("seccomp filter with no_new_privs", "only the calls of interest stop a traced program")
    } else {
        ("seccomp filter without no_new_privs", "the same for programs that start set-uid helpers")
    };
    let unlock = if no_new_privs { "in a container: allow seccomp" } else { "CAP_SYS_ADMIN" };
    let answer = match tried {
        Ok(libc::EACCES) => CapabilityAnswer::No("needs no_new_privs or CAP_SYS_ADMIN".into()),
        Ok(errno) => answer_from(errno),
        Err(_) => answer_of(&tried),
    };
    capability(GROUP, name, gives, answer, Some(unlock))
}

/// Installs a filter that allows everything. Runs in a child.
fn install_filter(no_new_privs: bool) -> i32 {
    const ALLOW: libc::sock_filter = libc::sock_filter {
        code: (libc::BPF_RET | libc::BPF_K) as u16,
        jt: 0,
        jf: 0,
        k: libc::SECCOMP_RET_ALLOW,
    };
    let mut filter = [ALLOW];
    let program = libc::sock_fprog { len: 1, filter: filter.as_mut_ptr() };
    if no_new_privs {
        // SAFETY: sets a flag of this child. The unused arguments are 0, as the call requires.
        let set = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1usize, 0usize, 0usize, 0usize) };
        if set != 0 {
            return child::errno();
        }
    }
    // SAFETY: `program` and the filter it points to live on this stack and are only read.
    let done = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0u32, &raw const program)
    };
    if done == 0 { 0 } else { child::errno() }
}

fn thp_disable() -> Capability {
    let tried = child::errno_in_child(|| {
        // SAFETY: sets a flag of this child only. The unused arguments are 0, as the call requires.
        let set = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1usize, 0usize, 0usize, 0usize) };
        if set == 0 { 0 } else { child::errno() }
    });
    let answer = tried.map_or_else(|e| CapabilityAnswer::Unknown(e.to_string()), answer_from);
    capability(
        GROUP,
        "PR_SET_THP_DISABLE",
        "huge pages off for one tree (remedy heap-small)",
        answer,
        None,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_with_no_new_privs_installs_or_says_why() {
        let found = seccomp(true);
        assert!(!matches!(found.answer, CapabilityAnswer::Unknown(_)), "{found:?}");
    }

    #[test]
    fn own_children_give_an_answer() {
        for found in probe() {
            assert!(!matches!(found.answer, CapabilityAnswer::Unknown(_)), "{found:?}");
        }
    }
}
