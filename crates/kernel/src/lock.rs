//! Locks that the kernel releases when their holder dies: one for experiments, one for settings of the whole
//! machine.
//!
//! Only one experiment at a time runs on a machine. Any account may run one, so the lock belongs to no
//! account: it is a listening unix socket with an abstract name (`unix(7)`), without a file to clean up. A
//! process that finds the name taken connects to it and asks the kernel for the listener's pid and user. A
//! holder that does not listen is searched in /proc, where an ordinary account sees only its own processes. A
//! holder outside this pid namespace has no pid. Abstract names belong to the network namespace, so
//! containers with separate ones do not see each other's experiments. The socket closes at exec; a child
//! forked without exec keeps it. Any account can take the name and so block the experiments of others, so
//! only experiments depend on it.
//!
//! Settings of the machine are root's, and so is their lock: a file in root's own directory
//! ([`machine_dir`](crate::dirs::machine_dir)), locked for a process (fcntl(2), `F_SETLK`). No other account
//! can open the file. It is the same in all namespaces that share the directory, children do not inherit the
//! lock, and it ends with its holder. Records of changes are in the same directory. So a process that has the
//! lock knows that the writers of those records have ended.
//!
//! Not seen: a container that has its own `/run` and may change settings of the machine.

use crate::dirs::{DirError, machine_dir};
use crate::error::SysError;
use crate::proc::fd::{self, DescriptorTarget};
use crate::proc::{arguments, fields, lines, number, read_bytes, stat, tree};
use crate::trusted_path::MissingNamePolicy;
use pagewise_model::Nanos;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Flock, FlockType};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const NAME: &[u8] = b"pagewise-experiment";
/// Name of the file in root's directory.
const SETTINGS: &str = "lock";

/// Number of characters shown of the holder's command.
const MOST_SHOWN: usize = 60;

/// Number of refused experiments that learn the holder's pid. Each leaves an unanswered connection in the
/// queue; beyond that number the holder stays unnamed.
const QUESTIONS: i32 = 1024;

/// Why the lock is not available.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another experiment runs.
    #[error("another experiment runs on this machine{0}")]
    Held(LockHolder),
    /// Another pagewise process changes settings.
    #[error("another pagewise changes settings of this machine{0}")]
    Changing(LockHolder),
    /// No directory for the lock is available.
    #[error(transparent)]
    Dir(#[from] DirError),
    #[error(transparent)]
    Sys(#[from] SysError),
}

/// The holder of a lock, as far as the kernel identifies it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockHolder {
    pub pid: Option<i32>,
    /// Its user.
    pub uid: Option<u32>,
    /// Its command line.
    pub command: Option<String>,
    /// How long it has been running.
    pub age: Option<Nanos>,
}

impl LockHolder {
    fn from_ids(pid: Option<i32>, uid: Option<u32>) -> Self {
        let stat = pid.and_then(|pid| stat::read(pid).ok());
        let command = stat.as_ref().map(|stat| match arguments(stat.pid) {
            words if words.is_empty() => stat.comm.clone(),
            words => words.join(" ").chars().take(MOST_SHOWN).collect(),
        });
        let age = stat.map(|stat| age(stat.start_ticks));
        Self { pid, uid, command, age }
    }
}

/// Age of a process, from its start in ticks since boot (`starttime` of proc(5)).
fn age(start_ticks: u64) -> Nanos {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let ticks = rustix::param::clock_ticks_per_second().max(1);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0).saturating_sub(start_ticks / ticks);
    Nanos::secs(seconds)
}

impl std::fmt::Display for LockHolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known = [
            self.pid.map(|pid| format!("pid {pid}")),
            self.uid.map(|uid| format!("uid {uid}")),
            self.command.as_ref().map(|name| name.escape_debug().to_string()),
            self.age.map(|age| format!("running for {age}")),
        ];
        let known: Vec<String> = known.into_iter().flatten().collect();
        if known.is_empty() { Ok(()) } else { write!(f, " ({})", known.join(", ")) }
    }
}

impl LockError {
    /// Advice for the user.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::Held(LockHolder { pid: Some(_), .. }) => {
                "wait for it to end (tune, ab: --wait 1h)".to_owned()
            }
            Self::Held(_) => "wait for it to end (tune, ab: --wait 1h), or find it as root: \
                ss -xap | grep pagewise-experiment"
                .to_owned(),
            Self::Changing(_) => "wait for it to end".to_owned(),
            Self::Dir(_) | Self::Sys(_) => {
                "run as root: only root may change settings of the machine".to_owned()
            }
        }
    }
}

/// The lock of experiments, held while this value lives.
#[derive(Debug)]
pub struct ExperimentLock {
    _listener: OwnedFd,
}

impl ExperimentLock {
    /// Takes the lock without waiting.
    pub fn acquire() -> Result<Self, LockError> {
        Self::acquire_named(NAME)
    }

    /// Takes a lock with another name: for tests, which must not disturb an experiment.
    pub fn acquire_named(name: &[u8]) -> Result<Self, LockError> {
        let subject = String::from_utf8_lossy(name).into_owned();
        let fail = |call| {
            let subject = subject.clone();
            move |e: Errno| SysError::new(call, subject, e)
        };
        let address = SocketAddrUnix::new_abstract_name(name).map_err(fail("bind"))?;
        let socket = open_socket().map_err(fail("socket"))?;
        match rustix::net::bind(&socket, &address) {
            Ok(()) => {}
            Err(Errno::ADDRINUSE) => return Err(LockError::Held(holder(name, &address))),
            Err(e) => return Err(fail("bind")(e).into()),
        }
        rustix::net::listen(&socket, QUESTIONS).map_err(fail("listen"))?;
        Ok(Self { _listener: socket })
    }
}

fn open_socket() -> Result<OwnedFd, Errno> {
    // Non-blocking: the full queue of a stopped holder must not block this process.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

fn holder(name: &[u8], address: &SocketAddrUnix) -> LockHolder {
    match listener(address) {
        Some(peer) => LockHolder::from_ids((peer.pid > 0).then_some(peer.pid), Some(peer.uid)),
        None => binder(name).unwrap_or_default(),
    }
}

/// Process and user that listen at this address. The pid is 0 if the process has none in this pid namespace
/// (rustix would read it into a type that cannot be 0).
fn listener(address: &SocketAddrUnix) -> Option<libc::ucred> {
    let socket = open_socket().ok()?;
    rustix::net::connect(&socket, address).ok()?;
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, the size of `peer`. Both are locals, alive and not
    // otherwise referenced during the call.
    let got = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut len,
        )
    };
    (got == 0).then_some(peer)
}

/// A process that has bound the name but does not listen, if this account may read its descriptors.
fn binder(name: &[u8]) -> Option<LockHolder> {
    let inode = inode_of(name, &read_bytes("/proc/net/unix").ok()?)?;
    let is_it = |pid: &i32| {
        fd::list(*pid)
            .is_ok_and(|all| all.iter().any(|one| one.target == DescriptorTarget::Socket(inode)))
    };
    let pid = tree::all().ok()?.into_iter().find(is_it)?;
    let uid = std::fs::metadata(format!("/proc/{pid}")).ok().map(|found| found.uid());
    Some(LockHolder::from_ids(Some(pid), uid))
}

/// The inode of the socket with this abstract name, from the text of `/proc/net/unix`. There, the first byte
/// of such a name appears as `@`.
fn inode_of(name: &[u8], sockets: &[u8]) -> Option<u64> {
    let shown = [b"@", name].concat();
    lines(sockets).find_map(|line| {
        let words: Vec<&[u8]> = fields(line).collect();
        (*words.get(7)? == shown).then(|| number(words.get(6)?)).flatten()
    })
}

/// The lock for settings of the whole machine, held while this value exists. Its holder knows that no other
/// process of this machine changes them.
#[derive(Debug)]
pub struct SettingsLock {
    _file: File,
}

impl SettingsLock {
    /// Takes the lock without waiting.
    ///
    /// # Errors
    /// The holder of the lock, or why this account cannot take it.
    pub fn acquire() -> Result<Self, LockError> {
        let none = || SysError::new("open", "/run", std::io::Error::from(Errno::NOENT));
        Self::acquire_in(&machine_dir(MissingNamePolicy::IsMade)?.ok_or_else(none)?)
    }

    /// The lock for the records in `directory`, which only this account may have access to. A process must
    /// hold only one such lock at a time: a second one would end the first.
    ///
    /// # Errors
    /// The holder of the lock, or the call that failed.
    pub fn acquire_in(directory: &Path) -> Result<Self, LockError> {
        let path = directory.join(SETTINGS);
        let failed = |call| {
            let subject = path.display().to_string();
            move |e: std::io::Error| SysError::new(call, subject, e)
        };
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR);
        let file = File::from(opened.map_err(|e| failed("open")(e.into()))?);
        match rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::AGAIN | Errno::ACCESS) => return Err(LockError::Changing(locker(&file))),
            Err(error) => return Err(failed("fcntl")(error.into()).into()),
        }
        Ok(Self { _file: file })
    }
}

/// The process that has locked the file, if it has a pid in this pid namespace.
fn locker(file: &File) -> LockHolder {
    let asked = Flock::from(FlockType::WriteLock);
    let found = rustix::process::fcntl_getlk(file, &asked).ok().flatten();
    let pid = found.and_then(|lock| lock.pid).map(|pid| pid.as_raw_nonzero().get());
    let owner = |pid| std::fs::metadata(format!("/proc/{pid}")).ok().map(|found| found.uid());
    LockHolder::from_ids(pid, pid.and_then(owner))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::own_pid;

    #[test]
    fn text_of_a_holder() {
        let held = |pid, uid, command: Option<&str>| {
            let age = command.map(|_| Nanos::secs(3));
            LockError::Held(LockHolder { pid, uid, command: command.map(str::to_owned), age })
        };
        let start = "another experiment runs on this machine";
        assert_eq!(held(None, None, None).to_string(), start);
        assert_eq!(held(Some(7), Some(1), None).to_string(), format!("{start} (pid 7, uid 1)"));
        let named = held(Some(7), None, Some("a\x1b"));
        assert_eq!(named.to_string(), format!("{start} (pid 7, a\\u{{1b}}, running for 3.00 s)"));
        assert!(named.help().ends_with("--wait 1h)"), "nobody's work is to be killed");
        assert!(held(None, None, None).help().contains("ss -xap"));
    }

    #[test]
    fn a_name_has_the_inode_that_the_kernel_lists() {
        let text = b"Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 17 /run/x\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 99 @name\n\
            0000000000000000: 00000002 00000000 00000000 0002 01 5\n";
        assert_eq!(inode_of(b"name", text), Some(99));
        assert_eq!(inode_of(b"nam", text), None);
        assert_eq!(inode_of(b"name", b"@name\n\xff"), None);
    }

    #[test]
    fn who_has_a_name_and_does_not_listen_is_found() {
        let name = format!("pagewise-test-silent-{}", own_pid());
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
        let socket = open_socket().unwrap();
        rustix::net::bind(&socket, &address).unwrap();
        let error = ExperimentLock::acquire_named(name.as_bytes()).unwrap_err();
        let LockError::Held(holder) = error else { panic!("{error}") };
        let own = rustix::process::geteuid().as_raw();
        assert_eq!((holder.pid, holder.uid), (Some(own_pid()), Some(own)));
        assert!(holder.command.is_some_and(|command| !command.is_empty()));
        assert!(holder.age.is_some_and(|age| age < Nanos::secs(3600)));
    }
}
