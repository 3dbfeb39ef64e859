//! Chooses which thread makes the call, and how: the one that a stop harms least.
//!
//! The call that a waiting thread is in is read from `/proc/PID/task/TID/syscall` (proc(5)) while it waits.
//! If that file is missing or unreadable, the wait counts as harmless.

use super::restart::{InterruptHarm, descriptors, harm};
use super::running::RunnableHistory;
use super::subject::InjectableProcess;
use super::{InjectError, InjectMethod, InjectRefusal, ProcessOwner};
use pagewise_kernel::pidfd;
use pagewise_kernel::proc::{self, stat};
use rustix::net::sockopt::{Timeout, socket_timeout};

/// A thread at the time of the look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CandidateThread {
    tid: i32,
    is_running: bool,
    /// Effect of a stop on the call it waits in.
    harm: InterruptHarm,
}

/// Threads and methods to try, best first. Empty if another look may find some.
///
/// # Errors
/// When no thread can make the call, and another look would not find one.
pub(super) fn plan(
    subject: &InjectableProcess,
    owner: ProcessOwner,
    looks: &mut RunnableHistory,
) -> Result<Vec<(i32, InjectMethod)>, InjectError> {
    if subject.sites.restorer.is_none() && owner == ProcessOwner::Other {
        return Err(InjectRefusal::NoRestorer.into());
    }
    let mut seen = look(subject.pid());
    let mut may_follow = false;
    seen.retain(|one| {
        let is_known = !one.is_running || looks.runs_its_own_code(one.tid);
        may_follow |= !is_known;
        is_known
    });
    let mut ranked: Vec<Ranked> = seen.iter().flat_map(|one| ranked(subject, owner, one)).collect();
    ranked.sort_unstable();
    if ranked.is_empty() && !may_follow {
        return Err(InjectRefusal::Waiting.into());
    }
    Ok(ranked.into_iter().map(|(_, _, tid, method)| (tid, method)).collect())
}

/// Harm of the attempt, how well the thread suits (lower is better), thread, method.
type Ranked = (u8, u8, i32, InjectMethod);

fn ranked(subject: &InjectableProcess, owner: ProcessOwner, one: &CandidateThread) -> Vec<Ranked> {
    // The main thread's stack is the safest place for a frame.
    let rank = if one.tid == subject.pid() { 0 } else { 2 - u8::from(one.is_running) };
    let frame = subject.takes_frame(one.tid).then_some(InjectMethod::Frame);
    let registers = (owner == ProcessOwner::Ours).then_some(InjectMethod::Registers);
    let step = |class: u8, method: Option<InjectMethod>| method.map(|m| (class, rank, one.tid, m));
    let steps = match one.harm {
        InterruptHarm::None => [step(0, frame), step(1, registers)],
        InterruptHarm::LateAnew => [None, step(2, registers)],
        InterruptHarm::Wrong => [None, None],
    };
    steps.into_iter().flatten().collect()
}

/// The threads that can be stopped now.
fn look(pid: i32) -> Vec<CandidateThread> {
    let threads = proc::tree::threads(pid).unwrap_or_default();
    threads.into_iter().filter_map(|tid| see(pid, tid)).collect()
}

fn see(pid: i32, tid: i32) -> Option<CandidateThread> {
    let state = stat::read(tid).ok()?.state;
    if matches!(state, 'Z' | 'X' | 'D' | 'T' | 't') {
        return None;
    }
    let text = proc::read_text(format!("/proc/{tid}/syscall")).unwrap_or_default();
    let harm =
        parse_call(&text).map_or(InterruptHarm::None, |(number, args)| harm_of(pid, number, args));
    let is_running = if text.is_empty() { state == 'R' } else { text.starts_with("running") };
    Some(CandidateThread { tid, is_running, harm })
}

fn harm_of(pid: i32, number: i64, args: [u64; 6]) -> InterruptHarm {
    match harm(number, args) {
        InterruptHarm::None
            if descriptors(number, args).iter().any(|&fd| may_time_out(pid, fd)) =>
        {
            InterruptHarm::Wrong
        }
        other => other,
    }
}

/// True for a socket of process `pid` that has, or may have, a timeout.
fn may_time_out(pid: i32, fd: i32) -> bool {
    let link = std::fs::read_link(format!("/proc/{pid}/fd/{fd}"));
    if !link.is_ok_and(|target| target.to_string_lossy().starts_with("socket:")) {
        return false;
    }
    // Copies the descriptor for the time of two calls. If that fails, a timeout is possible.
    let Ok(socket) = pidfd::open(pid).and_then(|process| pidfd::get_fd(process, fd)) else {
        return true;
    };
    [Timeout::Recv, Timeout::Send]
        .into_iter()
        .any(|which| socket_timeout(&socket, which) != Ok(None))
}

/// Call number and arguments in a `/proc/PID/syscall`; `None` for a thread that runs or waits elsewhere.
fn parse_call(text: &str) -> Option<(i64, [u64; 6])> {
    let mut words = text.split_ascii_whitespace();
    let number = words.next()?.parse().ok().filter(|number| *number >= 0)?;
    let mut args = [0; 6];
    for arg in &mut args {
        *arg = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    }
    Some((number, args))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inject::ProcessIdentity;
    use crate::inject::layout::CallSites;

    fn subject(restorer: Option<u64>, is_go: bool) -> InjectableProcess {
        InjectableProcess {
            process: ProcessIdentity { pid: 10, start_ticks: 1 },
            sites: CallSites { call: 0, restorer },
            maps: Vec::new(),
            is_go,
        }
    }

    fn seen(tid: i32, call: Option<i64>) -> CandidateThread {
        let args = [0, 0, 1000, 1000, 0, 0];
        let harm = call.map_or(InterruptHarm::None, |number| harm(number, args));
        CandidateThread { tid, is_running: call.is_none(), harm }
    }

    fn order(
        subject: &InjectableProcess,
        owner: ProcessOwner,
        seen: &[CandidateThread],
    ) -> Vec<(i32, InjectMethod)> {
        let mut all: Vec<Ranked> =
            seen.iter().flat_map(|one| ranked(subject, owner, one)).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, _, tid, method)| (tid, method)).collect()
    }

    #[test]
    fn a_sleeping_main_thread_comes_after_those_that_run() {
        let threads = [seen(10, Some(libc::SYS_nanosleep)), seen(11, None), seen(12, Some(0))];
        let frame = |tid| (tid, InjectMethod::Frame);
        let registers = |tid| (tid, InjectMethod::Registers);
        let native = subject(Some(1), false);
        assert_eq!(order(&native, ProcessOwner::Other, &threads), [frame(11), frame(12)]);
        assert_eq!(
            order(&native, ProcessOwner::Ours, &threads),
            [frame(11), frame(12), registers(11), registers(12), registers(10)]
        );
        let waits = [seen(10, Some(libc::SYS_epoll_wait)), seen(11, Some(libc::SYS_close))];
        assert!(
            order(&native, ProcessOwner::Ours, &waits).is_empty(),
            "the timeout would start anew"
        );
    }

    #[test]
    fn a_socket_with_a_timeout_is_told_from_one_without() {
        use std::os::fd::AsRawFd;
        let pid = proc::own_pid();
        let (timed, endless) = std::os::unix::net::UnixStream::pair().unwrap();
        timed.set_read_timeout(Some(std::time::Duration::from_secs(9))).unwrap();
        let harm = |fd: i32| harm_of(pid, libc::SYS_read, [fd as u64, 0, 1, 0, 0, 0]);
        assert_eq!(harm(timed.as_raw_fd()), InterruptHarm::Wrong);
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(harm(file.as_raw_fd()), InterruptHarm::None);
        if pidfd::open(pid).and_then(|own| pidfd::get_fd(own, endless.as_raw_fd())).is_ok() {
            assert_eq!(harm(endless.as_raw_fd()), InterruptHarm::None);
        }
    }

    #[test]
    fn only_the_main_thread_of_a_go_program_takes_a_frame() {
        let threads = [seen(10, Some(0)), seen(11, None)];
        assert_eq!(
            order(&subject(Some(1), true), ProcessOwner::Other, &threads),
            [(10, InjectMethod::Frame)]
        );
        assert!(order(&subject(None, false), ProcessOwner::Other, &threads).is_empty());
    }

    #[test]
    fn calls_are_read() {
        let text = "7 0x7ffe 0x1 0xffffffff 0x0 0x8 0x0 0x7ffc 0x7f00\n";
        assert_eq!(parse_call(text), Some((7, [0x7ffe, 1, 0xffff_ffff, 0, 8, 0])));
        for text in ["running\n", "-1 0x7ffe 0x7f00\n", "7 0x1\n", "", "7 1 2 3 4 5 6"] {
            assert_eq!(parse_call(text), None, "{text}");
        }
    }
}
