//! What a process does to itself between `fork` and `exec`: it sets session, descriptors, placement, signals
//! and filter, then executes the program.
//!
//! After `fork` in a multi-threaded process, only async-signal-safe calls are allowed. Therefore [`PreparedExec`]
//! holds everything beforehand, and this code neither allocates nor locks. `exec` without `fork` takes the
//! same steps (`passthrough::exec_with`).

use crate::environment::Variables;
use crate::launch_error::LaunchError;
use crate::wait;
use pagewise_kernel::start;
use std::convert::Infallible;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering};

/// A step before the program runs, named in the error when it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::FromRepr, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
#[repr(u32)]
pub(crate) enum LaunchStep {
    /// Not a failure: everything before `exec` is done.
    Ready = 0,
    #[strum(serialize = "prctl(PR_SET_PDEATHSIG)")]
    Parent,
    #[strum(serialize = "setsid")]
    Session,
    #[strum(serialize = "dup2")]
    Descriptors,
    #[strum(serialize = "chdir")]
    Directory,
    #[strum(serialize = "sched_setaffinity")]
    Affinity,
    #[strum(serialize = "prctl(PR_SET_THP_DISABLE)")]
    Thp,
    #[strum(serialize = "seccomp")]
    Filter,
    #[strum(serialize = "execve")]
    Exec,
}

/// Length in bytes of a message on the error pipe: step and errno.
pub(crate) const MESSAGE: usize = 8;

/// Decodes one message of the error pipe.
pub(crate) fn parse_message(bytes: [u8; MESSAGE]) -> Option<(LaunchStep, i32)> {
    let [a, b, c, d, e, f, g, h] = bytes;
    let step = LaunchStep::from_repr(u32::from_ne_bytes([a, b, c, d]))?;
    Some((step, i32::from_ne_bytes([e, f, g, h])))
}

/// The ignored and blocked signals that the program inherits through `exec`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SignalState {
    /// Bit `n - 1` set: signal `n` stays ignored.
    pub(crate) ignored: u64,
    /// The mask the program starts with.
    pub(crate) mask: libc::sigset_t,
}

impl SignalState {
    /// Nothing ignored, nothing blocked.
    pub(crate) fn clean() -> Self {
        // SAFETY: a sigset_t consists of plain integers, for which all zeroes is a valid value.
        let mut mask: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: `mask` is a live sigset_t that this function owns.
        unsafe { libc::sigemptyset(&raw mut mask) };
        Self { ignored: 0, mask }
    }

    /// The current mask, and the signals that were ignored when this process started. The current
    /// dispositions do not serve: the Rust runtime ignores SIGPIPE before `main`, and pagewise resets SIGCHLD
    /// to its default.
    pub(crate) fn inherited() -> Self {
        let mut state = Self::clean();
        // SAFETY: only reads the mask into a live sigset_t of this function.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &raw mut state.mask) };
        state.ignored = start::ignored();
        state
    }
}

/// Strings of an `execve` vector and the pointers to them, ended by null.
struct ExecVector {
    pointers: Vec<*const libc::c_char>,
    _strings: Vec<CString>,
}

impl ExecVector {
    fn new(strings: Vec<CString>) -> Self {
        Self::with(strings, &[])
    }

    /// The strings, followed by variables that are stored elsewhere.
    fn with(strings: Vec<CString>, more: &[OwnPid]) -> Self {
        let own = strings.iter().map(|s| s.as_ptr());
        let more = more.iter().map(OwnPid::pointer);
        let pointers = own.chain(more).chain([ptr::null()]).collect();
        Self { pointers, _strings: strings }
    }
}

/// Variables by which a service manager names the process they are meant for (sd_listen_fds(3),
/// sd_watchdog_enabled(3)).
const NAMING_A_PROCESS: [&str; 2] = ["LISTEN_PID", "WATCHDOG_PID"];

fn names_us(name: &OsStr, value: &OsStr) -> bool {
    let known = NAMING_A_PROCESS.iter().any(|known| name == *known);
    known && value == std::process::id().to_string().as_str()
}

/// `env` for another process. Drops `LISTEN_PIDFDID` where `LISTEN_PID` names this process. That number
/// cannot be known before the process exists, and the variable is optional (systemd 259).
pub(crate) fn for_another(mut env: Variables) -> Variables {
    if env.iter().any(|(name, value)| name == "LISTEN_PID" && names_us(name, value)) {
        env.retain(|(name, _)| name != "LISTEN_PIDFDID");
    }
    env
}

/// Digits of the largest process id.
const PID_DIGITS: usize = 10;

/// A variable that holds the id of its own process: the program's, once the program runs.
struct OwnPid {
    /// Name, `=`, room for the number, ended by NUL.
    text: Vec<AtomicU8>,
    /// Where the number starts.
    at: usize,
}

impl OwnPid {
    /// `Some` if the variable is in [`NAMING_A_PROCESS`] and names this process; `None` for any other.
    fn of(name: &OsStr, value: &OsStr) -> Option<Self> {
        if !names_us(name, value) {
            return None;
        }
        let mut text = [name.as_bytes(), b"="].concat();
        let at = text.len();
        text.extend([0; PID_DIGITS + 1]);
        Some(Self { text: text.into_iter().map(AtomicU8::new).collect(), at })
    }

    fn pointer(&self) -> *const libc::c_char {
        self.text.as_ptr().cast()
    }

    /// Writes the number. Async-signal-safe.
    fn fill(&self, pid: u32) {
        let count = pid.checked_ilog10().unwrap_or(0);
        let digits = (0..=count).rev().map(|place| pid / 10_u32.pow(place) % 10);
        for (slot, digit) in self.text.iter().skip(self.at).zip(digits) {
            slot.store(b'0' + digit as u8, Ordering::Relaxed);
        }
    }
}

/// What to do with a standard descriptor.
#[derive(Debug)]
pub(crate) enum StandardDescriptor {
    /// Leave it as this process was started with it: open or closed.
    AsGiven,
    Closed,
    Is(OwnedFd),
}

/// Everything needed between `fork` and `exec`, allocated beforehand.
pub(crate) struct PreparedExec {
    path: CString,
    argv: ExecVector,
    envp: ExecVector,
    own_pids: Vec<OwnPid>,
    /// `/bin/sh path args...`, for a text file without a `#!` line.
    shell: Option<ExecVector>,
    pub(crate) cwd: Option<CString>,
    /// Descriptors 0, 1 and 2.
    pub(crate) stdio: [StandardDescriptor; 3],
    pub(crate) own_session: bool,
    /// Process id of the parent; the child dies with it. `None` to outlive it.
    pub(crate) parent: Option<u32>,
    /// Text to write to oom_score_adj; `None` to leave it.
    pub(crate) oom_score: Option<CString>,
    pub(crate) cpus: Option<rustix::thread::CpuSet>,
    pub(crate) thp_off: bool,
    pub(crate) filters: Vec<Vec<libc::sock_filter>>,
    pub(crate) signals: SignalState,
}

impl PreparedExec {
    /// Builds the vectors for `execve`. All other fields get neutral values.
    pub(crate) fn new(
        path: &OsStr,
        argv: &[OsString],
        env: &[(OsString, OsString)],
        shell_text: bool,
    ) -> Result<Self, LaunchError> {
        let path = c_string(path.as_bytes(), "the program's path")?;
        let args: Vec<CString> =
            argv.iter().map(|a| c_string(a.as_bytes(), "an argument")).collect::<Result<_, _>>()?;
        let shell = shell_text.then(|| {
            let rest = args.iter().skip(1).cloned();
            ExecVector::new([c"/bin/sh".to_owned(), path.clone()].into_iter().chain(rest).collect())
        });
        let own_pids: Vec<OwnPid> = env.iter().filter_map(|(n, v)| OwnPid::of(n, v)).collect();
        let vars = env
            .iter()
            .filter(|(name, value)| OwnPid::of(name, value).is_none())
            .map(|(name, value)| {
                let both = [name.as_bytes(), b"=", value.as_bytes()].concat();
                c_string(&both, "an environment variable")
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            path,
            argv: ExecVector::new(args),
            envp: ExecVector::with(vars, &own_pids),
            own_pids,
            shell,
            cwd: None,
            stdio: [
                StandardDescriptor::AsGiven,
                StandardDescriptor::AsGiven,
                StandardDescriptor::AsGiven,
            ],
            own_session: false,
            parent: None,
            oom_score: None,
            cpus: None,
            thp_off: false,
            filters: Vec::new(),
            signals: SignalState::clean(),
        })
    }

    /// Performs every step that precedes the release of the child. Async-signal-safe.
    pub(crate) fn settle(&self) -> Result<(), (LaunchStep, i32)> {
        if let Some(parent) = self.parent {
            wait::die_with(parent).map_err(at(LaunchStep::Parent))?;
        }
        if self.own_session {
            rustix::process::setsid().map_err(at(LaunchStep::Session))?;
        }
        for (number, standard) in (0..).zip(&self.stdio) {
            settle_standard(standard, number).map_err(|e| (LaunchStep::Descriptors, e))?;
        }
        if let Some(score) = &self.oom_score {
            raise_oom_score(score);
        }
        if let Some(cwd) = &self.cwd {
            rustix::process::chdir(cwd.as_c_str()).map_err(at(LaunchStep::Directory))?;
        }
        if let Some(cpus) = &self.cpus {
            rustix::thread::sched_setaffinity(None, cpus).map_err(at(LaunchStep::Affinity))?;
        }
        if self.thp_off {
            rustix::thread::disable_transparent_huge_pages(true).map_err(at(LaunchStep::Thp))?;
        }
        // Not `std::process::id`, which may cache the id of the parent.
        self.own_pids.iter().for_each(|var| var.fill(own_pid()));
        reset_signals(&self.signals);
        Ok(())
    }

    /// Installs the filters and executes the program. Async-signal-safe.
    pub(crate) fn exec(&self) -> Result<Infallible, (LaunchStep, i32)> {
        for filter in &self.filters {
            install(filter).map_err(|e| (LaunchStep::Filter, e))?;
        }
        let errno = execve(&self.path, &self.argv, &self.envp);
        match &self.shell {
            Some(shell) if errno == libc::ENOEXEC => {
                Err((LaunchStep::Exec, execve(c"/bin/sh", shell, &self.envp)))
            }
            _ => Err((LaunchStep::Exec, errno)),
        }
    }

    /// Runs the forked child: settle, report, wait for a byte on `go`, execute the program.
    pub(crate) fn become_program(
        &self,
        go: BorrowedFd<'_>,
        errors: BorrowedFd<'_>,
    ) -> Result<Infallible, (LaunchStep, i32)> {
        self.settle()?;
        send(errors, LaunchStep::Ready, 0);
        let mut byte = [0_u8; 1];
        loop {
            match rustix::io::read(go, &mut byte) {
                Ok(1) => return self.exec(),
                Err(rustix::io::Errno::INTR) => {}
                _ => return Err((LaunchStep::Parent, libc::ESRCH)),
            }
        }
    }
}

fn own_pid() -> u32 {
    // SAFETY: getpid has no preconditions.
    unsafe { libc::getpid() }.unsigned_abs()
}

fn at(step: LaunchStep) -> impl Fn(rustix::io::Errno) -> (LaunchStep, i32) {
    move |errno| (step, errno.raw_os_error())
}

fn c_string(bytes: &[u8], what: &str) -> Result<CString, LaunchError> {
    CString::new(bytes).map_err(|_| LaunchError::Nul { what: what.to_owned() })
}

fn last_errno() -> i32 {
    // The error is a bare number until it is shown: nothing is allocated here.
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// Writes a message to the error pipe. A failed write is ignored: then the parent is gone.
pub(crate) fn send(errors: BorrowedFd<'_>, step: LaunchStep, errno: i32) {
    let mut message = [0; MESSAGE];
    let (first, second) = message.split_at_mut(4);
    first.copy_from_slice(&(step as u32).to_ne_bytes());
    second.copy_from_slice(&errno.to_ne_bytes());
    let _gone = rustix::io::write(errors, &message);
}

fn settle_standard(standard: &StandardDescriptor, number: RawFd) -> Result<(), i32> {
    match standard {
        StandardDescriptor::AsGiven => start::close_again(number.unsigned_abs()),
        StandardDescriptor::Closed => {
            // SAFETY: no Rust object of this process owns 0, 1 or 2, and `exec` follows.
            unsafe { libc::close(number) };
        }
        StandardDescriptor::Is(from) => {
            // SAFETY: dup2 only changes the descriptor table, and no Rust object owns 0, 1 or 2.
            if unsafe { libc::dup2(from.as_raw_fd(), number) } < 0 {
                return Err(last_errno());
            }
        }
    }
    Ok(())
}

/// Makes this process a preferred victim when memory runs out; best effort. Async-signal-safe.
pub(crate) fn raise_oom_score(score: &CStr) {
    let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CLOEXEC;
    if let Ok(file) =
        rustix::fs::open(c"/proc/self/oom_score_adj", flags, rustix::fs::Mode::empty())
    {
        let _refused = rustix::io::write(&file, score.to_bytes());
    }
}

fn reset_signals(state: &SignalState) {
    for signal in 1..=64 {
        let ignored = state.ignored & (1 << (signal - 1)) != 0;
        let action = if ignored { libc::SIG_IGN } else { libc::SIG_DFL };
        // SAFETY: neither action runs code of this program; libc refuses the numbers it reserves.
        unsafe { libc::signal(signal, action) };
    }
    // SAFETY: reads a live sigset_t; the old mask is not requested.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const state.mask, ptr::null_mut()) };
}

/// Installs a seccomp filter. Without CAP_SYS_ADMIN this needs no_new_privs, which is set only in that case.
fn install(filter: &[libc::sock_filter]) -> Result<(), i32> {
    match load_filter(filter) {
        Err(libc::EACCES) => {
            rustix::thread::set_no_new_privs(true).map_err(|e| e.raw_os_error())?;
            load_filter(filter)
        }
        other => other,
    }
}

fn load_filter(filter: &[libc::sock_filter]) -> Result<(), i32> {
    let len = u16::try_from(filter.len()).map_err(|_| libc::EINVAL)?;
    let program = libc::sock_fprog { len, filter: filter.as_ptr().cast_mut() };
    // SAFETY: `program` describes exactly `filter`, which outlives the call and is only read.
    let done =
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    if done < 0 { Err(last_errno()) } else { Ok(()) }
}

/// Returns only on failure, with the errno.
fn execve(path: &CStr, argv: &ExecVector, envp: &ExecVector) -> i32 {
    // SAFETY: path and vectors are NUL-ended strings and null-ended arrays that live in `PreparedExec`.
    unsafe { libc::execve(path.as_ptr(), argv.pointers.as_ptr(), envp.pointers.as_ptr()) };
    last_errno()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_pipe() {
        let (read, write) = rustix::pipe::pipe().unwrap();
        use std::os::fd::AsFd;
        for step in (0..).map_while(LaunchStep::from_repr) {
            send(write.as_fd(), step, libc::EACCES);
            let mut bytes = [0; MESSAGE];
            assert_eq!(rustix::io::read(&read, &mut bytes), Ok(MESSAGE));
            assert_eq!(parse_message(bytes), Some((step, libc::EACCES)));
        }
        assert_eq!(parse_message([0xff; MESSAGE]), None);
    }

    #[test]
    fn a_variable_that_names_us_names_the_program() {
        let ours = OsString::from(std::process::id().to_string());
        assert!(OwnPid::of(OsStr::new("LISTEN_PID"), OsStr::new("0")).is_none());
        assert!(OwnPid::of(OsStr::new("OTHER_PID"), &ours).is_none());
        let variable = OwnPid::of(OsStr::new("LISTEN_PID"), &ours).unwrap();
        for pid in [7, 10, 4_194_303] {
            let fresh = OwnPid::of(OsStr::new("LISTEN_PID"), &ours).unwrap();
            fresh.fill(pid);
            let text: Vec<u8> = fresh.text.iter().map(|b| b.load(Ordering::Relaxed)).collect();
            let text = CStr::from_bytes_until_nul(&text).unwrap();
            assert_eq!(text.to_str(), Ok(format!("LISTEN_PID={pid}").as_str()));
        }
        variable.fill(u32::MAX);
        assert_eq!(variable.text.last().unwrap().load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_nul_byte_is_refused() {
        let bad = [OsString::from("a\0b")];
        let refused = PreparedExec::new(OsStr::new("/bin/true"), &bad, &[], false);
        assert!(matches!(refused.err(), Some(LaunchError::Nul { .. })));
    }
}
