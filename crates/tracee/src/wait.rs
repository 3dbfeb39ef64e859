//! Waits for the end of a process, and reads how it ended and what it used.
//!
//! `poll` on a pidfd shows the end. While the process is a zombie, `/proc/PID/io` still holds its sums
//! (including reaped children). `wait4(2)` then returns its rusage and removes it.

use crate::launch_error::LaunchError;
use pagewise_kernel::own_usage;
use pagewise_kernel::proc::{self, io::IoCounters};
use pagewise_model::units::{Bytes, Nanos};
use pagewise_model::usage::{ProgramEnd, ProgramUsage};
use rustix::event::{PollFd, Timespec};
use std::fs::File;
use std::io::{self, Read};
use std::ptr;

/// Sends `signal` to `pid`. Ignores a process that has ended.
pub fn kill(pid: i32, signal: i32) {
    // SAFETY: kill has no memory preconditions; callers pass ids of single processes (> 0).
    let _gone = unsafe { libc::kill(pid, signal) };
}

/// Sleeps until a descriptor is ready, the time is up, or a signal arrives.
pub(crate) fn sleep(fds: &mut [PollFd<'_>], timeout: Option<Nanos>) {
    let timeout = timeout.map(|t| Timespec {
        tv_sec: i64::try_from(t.0 / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(t.0 % 1_000_000_000).unwrap_or(0),
    });
    // On any error no descriptor is marked ready; the caller checks the time and calls again.
    let _interrupted = rustix::event::poll(fds, timeout.as_ref());
}

/// Whether this account may send signals to `pid`. True for a process that has ended.
pub(crate) fn may_signal(pid: i32) -> bool {
    let pid = rustix::process::Pid::from_raw(pid);
    !pid.is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::PERM))
}

/// Kills the unreaped child `pid` and, in one step, the group it leads, if any. Its id, and so the group's,
/// cannot be reused before it is reaped.
pub(crate) fn kill_child_and_group(pid: i32) {
    // 0 and -1 would mean this process's own group and all processes.
    if pid > 1 {
        kill(pid, libc::SIGKILL);
        // SAFETY: kill has no memory preconditions; a child of this process leads the group.
        let _none = unsafe { libc::kill(-pid, libc::SIGKILL) };
    }
}

/// Whether the kernel reports that this process has no child at all, ended or not.
pub(crate) fn has_no_child() -> bool {
    matches!(peek(libc::P_ALL, 0), Err(error) if error.raw_os_error() == Some(libc::ECHILD))
}

/// Whether child `pid` has ended. Does not reap it.
pub(crate) fn has_ended(pid: i32) -> bool {
    matches!(peek(libc::P_PID, pid.unsigned_abs()), Ok(true))
}

/// Whether a child has an end to report.
fn peek(kind: libc::idtype_t, id: libc::id_t) -> io::Result<bool> {
    // SAFETY: a siginfo_t is plain integers, for which all zeroes is a value.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    // SAFETY: writes into the live `info`.
    let done = unsafe { libc::waitid(kind, id, &raw mut info, flags) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(matches!(info.si_code, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED))
}

/// Makes this forked process die with `parent`. If `parent` has ended already, the result is `ESRCH`.
/// Async-signal-safe.
pub(crate) fn die_with(parent: u32) -> Result<(), rustix::io::Errno> {
    let kill = Some(rustix::process::Signal::KILL);
    rustix::process::set_parent_process_death_signal(kill)?;
    // SAFETY: getppid has no preconditions.
    let now = unsafe { libc::getppid() };
    if u32::try_from(now) == Ok(parent) { Ok(()) } else { Err(rustix::io::Errno::SRCH) }
}

/// Keeps ended children as zombies. With a SIGCHLD that was ignored when this process started (`trap ''
/// CHLD`), the kernel would drop them, and every wait would fail with ECHILD. Programs started for the user
/// still get the original setting.
pub fn keep_ended_children() {
    // SAFETY: a sigaction is plain integers and nullable pointers.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: reads the action of SIGCHLD into a live sigaction of this function.
    let known = unsafe { libc::sigaction(libc::SIGCHLD, ptr::null(), &raw mut now) } == 0;
    if known && now.sa_sigaction == libc::SIG_IGN {
        // SAFETY: SIG_DFL runs no code of this program.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    }
}

/// Waits for the end of child `pid` and removes it. Returns the raw status and rusage.
pub(crate) fn reap(pid: i32) -> io::Result<(i32, libc::rusage)> {
    collect(pid, 0).and_then(|done| done.ok_or_else(|| io::Error::from(io::ErrorKind::WouldBlock)))
}

/// Removes child `pid` if it has ended, and returns how. For a traced child, stops are reported too; they are
/// not ends.
pub(crate) fn reap_if_ended(pid: i32) -> Option<ProgramEnd> {
    reap_with(pid, 0)
}

/// The same for a child of this thread. `None` also if another thread traces it: the kernel shows its end to
/// that thread alone.
pub(crate) fn reap_own_if_ended(pid: i32) -> Option<ProgramEnd> {
    reap_with(pid, libc::__WNOTHREAD)
}

fn reap_with(pid: i32, flags: i32) -> Option<ProgramEnd> {
    let is_end = |status: &i32| libc::WIFEXITED(*status) || libc::WIFSIGNALED(*status);
    let (status, _) = collect(pid, flags | libc::WNOHANG | libc::__WALL).ok()??;
    Some(status).filter(is_end).map(ended)
}

fn collect(pid: i32, flags: i32) -> io::Result<Option<(i32, libc::rusage)>> {
    let mut status = 0;
    // SAFETY: a rusage is plain integers, for which all zeroes is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are to live values of this function.
        let got = unsafe { libc::wait4(pid, &raw mut status, flags, &raw mut usage) };
        match got {
            0 => return Ok(None),
            -1 => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
            _ => return Ok(Some((status, usage))),
        }
    }
}

/// How a process ended, from its raw wait status.
#[must_use]
pub fn ended(status: i32) -> ProgramEnd {
    if libc::WIFSIGNALED(status) {
        ProgramEnd::Signaled(libc::WTERMSIG(status))
    } else {
        ProgramEnd::Exited(libc::WEXITSTATUS(status))
    }
}

fn time(value: libc::timeval) -> Nanos {
    let secs = u64::try_from(value.tv_sec).unwrap_or(0);
    let micros = u64::try_from(value.tv_usec).unwrap_or(0);
    Nanos(secs.saturating_mul(1_000_000_000).saturating_add(micros * 1_000))
}

fn count(value: libc::c_long) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// Sum of user and system time.
pub(crate) fn cpu_time(usage: &libc::rusage) -> Nanos {
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// CPU time that this process has used so far.
pub(crate) fn own_cpu_time() -> Nanos {
    own_usage::process().map_or(Nanos(0), |usage| usage.user + usage.sys)
}

/// Opens `/proc/PID/io` of living child `pid`, to be read when it has ended. The file of a zombie belongs to
/// root, so an ordinary user can only read a file opened before.
pub(crate) fn open_io(pid: i32) -> Option<File> {
    File::open(format!("/proc/{pid}/io")).ok()
}

fn read_io(mut file: &File) -> Option<IoCounters> {
    let mut text = Vec::new();
    file.read_to_end(&mut text).ok()?;
    proc::io::parse(&text)
}

/// Resource usage of the ended, unreaped child `pid`; removes the child. `wall` ran from its start to its
/// end. `io` was opened by [`open_io`].
pub(crate) fn usage(pid: i32, wall: Nanos, io: Option<&File>) -> Result<ProgramUsage, LaunchError> {
    let io = io.and_then(read_io);
    let (status, used) =
        reap(pid).map_err(|e| LaunchError::call("wait4", format!("process {pid}"), &e))?;
    Ok(ProgramUsage {
        wall_ns: wall,
        user_ns: time(used.ru_utime),
        sys_ns: time(used.ru_stime),
        peak_rss_bytes: Bytes::kib(count(used.ru_maxrss)),
        minor_faults: count(used.ru_minflt),
        major_faults: count(used.ru_majflt),
        voluntary_switches: count(used.ru_nvcsw),
        involuntary_switches: count(used.ru_nivcsw),
        read_bytes: io.map(|c| c.read_chars),
        written_bytes: io.map(|c| c.write_chars),
        read_calls: io.map(|c| c.read_calls),
        write_calls: io.map(|c| c.write_calls),
        device_read_bytes: io.map(|c| c.storage_read),
        speed: None,
        memory: None,
        run_delay_ns: None,
        ended: ended(status),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_of_a_traced_child_is_not_its_end() {
        use crate::ptrace::request;
        let test = "a_stop_of_a_traced_child_is_not_its_end";
        let Some((mut child, pid)) = crate::waiting::seized_cat(test) else { return };
        request::interrupt(pid).unwrap();
        let start = std::time::Instant::now();
        while proc::stat::read(pid).unwrap().state != 't' {
            assert!(start.elapsed() < std::time::Duration::from_secs(20), "it does not stop");
            std::thread::yield_now();
        }
        assert_eq!(reap_if_ended(pid), None);
        child.kill().unwrap();
        while reap_if_ended(pid).is_none() {
            assert!(start.elapsed() < std::time::Duration::from_secs(20), "it does not end");
            std::thread::yield_now();
        }
        assert!(child.wait().is_err(), "it has been reaped");
    }

    #[test]
    fn status_words_are_decoded() {
        assert_eq!(ended(0x2a00), ProgramEnd::Exited(42));
        assert_eq!(ended(9), ProgramEnd::Signaled(9));
        assert_eq!(ended(0x8b), ProgramEnd::Signaled(11));
    }
}
