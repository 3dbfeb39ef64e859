//! Prices of calls, program starts and hand-overs between threads.

use crate::error::PriceError;
use crate::sample::{PriceProbe, time, time_cpu};
use pagewise_kernel::{SysError, affinity, pipe};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Calls of one repeat.
const CALLS: u32 = 10_000;

/// Entering and leaving the kernel, ns per call.
///
/// getppid(2): libraries do not cache its result, and it does next to nothing. Not seen: what larger calls
/// evict from the caches, and the cost of a sandbox filter for other calls.
#[derive(Debug)]
pub(crate) struct SyscallProbe;

impl PriceProbe for SyscallProbe {
    const NAME: &'static str = "the system call";

    fn measure_once(&mut self) -> Result<f64, PriceError> {
        let (ns, ()) = time_cpu(|| {
            for _ in 0..CALLS {
                std::hint::black_box(rustix::process::getppid());
            }
        });
        Ok(ns / f64::from(CALLS))
    }
}

/// Programs of one repeat.
const STARTS: u32 = 4;

/// Starting and ending a minimal program, ns.
///
/// `true` from the system's directories, or else from `PATH`: fork (as vfork), exec, dynamic linking, exit,
/// wait. Parent and child run on one CPU, so that wall time is the CPU time of both. Missing if there is no
/// such program. Also missing if ended children are not kept for their parent (`SIGCHLD` ignored), because
/// their end cannot be awaited then. Not seen: the page tables that a plain fork of a large process copies.
#[derive(Debug)]
pub(crate) struct SpawnProbe {
    program: PathBuf,
}

impl SpawnProbe {
    /// Finds the program.
    pub(crate) fn new() -> Result<Self, PriceError> {
        let missing = || PriceError::Unavailable("there is no program `true`".to_owned());
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = find(&["/usr/bin", "/bin"], &path).ok_or_else(missing)?;
        Ok(Self { program })
    }
}

/// The first `true` that can be executed, in these directories, then in those of `path`.
fn find(known: &[&str], path: &OsStr) -> Option<PathBuf> {
    let executable = |file: &Path| {
        file.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    let known = known.iter().map(PathBuf::from);
    let mut files = known.chain(std::env::split_paths(path)).map(|dir| dir.join("true"));
    files.find(|file| file.is_absolute() && executable(file))
}

impl PriceProbe for SpawnProbe {
    const NAME: &'static str = "the start of a program";

    fn measure_once(&mut self) -> Result<f64, PriceError> {
        let start_once = |_| {
            let mut command = Command::new(&self.program);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().map(drop)
        };
        let (ns, done) = time(|| (0..STARTS).try_for_each(start_once));
        done.map_err(PriceError::sys("spawn", self.program.display().to_string()))?;
        Ok(ns / f64::from(STARTS))
    }
}

/// Round trips of one repeat.
const TRIPS: u32 = 300;
/// Round trips before the clock starts.
const WARM: u32 = 20;

/// Handing over to a sleeper and sleeping oneself, ns per hand-over.
///
/// Two threads send one byte to and fro over two pipes, each pinned; a hand-over is half of a round
/// trip: write, wake-up (across CPUs with an interrupt to a CPU that may idle, in a virtual machine
/// with the host's work for that), switch, read. That is the wall time which one voluntary switch
/// of a pipeline costs. Not seen: the switch of the address space between two processes (some tens
/// of ns with tagged TLBs), and deeper idle states after longer sleeps.
#[derive(Debug)]
pub(crate) struct WakeupProbe {
    partner: u32,
}

impl WakeupProbe {
    /// A partner on this CPU.
    pub(crate) fn with_partner_on(cpu: u32) -> Self {
        Self { partner: cpu }
    }
}

/// One hand-over with its two calls, nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HandOver {
    /// On the clock.
    pub(crate) wall_ns: f64,
    /// CPU time of both threads.
    pub(crate) cpu_ns: f64,
}

impl WakeupProbe {
    /// The mean of some hundred hand-overs.
    pub(crate) fn hand_over(&self) -> Result<HandOver, PriceError> {
        let (ping_out, ping_in) = pipe::pipe()?;
        let (pong_out, pong_in) = pipe::pipe()?;
        let partner = self.partner;
        std::thread::scope(|scope| {
            // The partner owns its ends: when either side fails, the other sees end of file or EPIPE.
            let echo = scope.spawn(move || echo_bytes(partner, &ping_out, &pong_in));
            let mine = (ping_in, pong_out);
            let made = make_trips(&mine.0, &mine.1);
            drop(mine);
            let echoed_ns = echo.join().map_err(|_| PriceError::ThreadLost)??;
            let (wall_ns, cpu_ns) = made?;
            let of_both = cpu_ns / f64::from(TRIPS) + echoed_ns / f64::from(WARM + TRIPS);
            Ok(HandOver { wall_ns: wall_ns / f64::from(2 * TRIPS), cpu_ns: of_both / 2.0 })
        })
    }
}

impl PriceProbe for WakeupProbe {
    const NAME: &'static str = "the wake-up";

    fn measure_once(&mut self) -> Result<f64, PriceError> {
        Ok(self.hand_over()?.wall_ns)
    }
}

/// Sends a byte to and fro; time on the clock and CPU time of this thread.
fn make_trips(to: &OwnedFd, from: &OwnedFd) -> Result<(f64, f64), PriceError> {
    let make = |count: u32| {
        (0..count).try_for_each(|_| {
            send(to)?;
            receive(from).map(drop)
        })
    };
    make(WARM)?;
    let (cpu_ns, (wall_ns, done)) = time_cpu(|| time(|| make(TRIPS)));
    done.map(|()| (wall_ns, cpu_ns))
}

/// Echoes bytes until the end. Returns the CPU time of this thread.
fn echo_bytes(cpu: u32, from: &OwnedFd, to: &OwnedFd) -> Result<f64, PriceError> {
    affinity::set(0, &[cpu])?;
    let (cpu_ns, done) = time_cpu(|| -> Result<(), PriceError> {
        while receive(from)? {
            send(to)?;
        }
        Ok(())
    });
    done.map(|()| cpu_ns)
}

pub(crate) fn send(to: &OwnedFd) -> Result<(), PriceError> {
    rustix::io::write(to, &[1]).map(drop).map_err(|e| SysError::new("write", "a pipe", e).into())
}

/// Waits for a byte; false at the end.
pub(crate) fn receive(from: &OwnedFd) -> Result<bool, PriceError> {
    let got = rustix::io::read(from, &mut [0_u8; 1]);
    got.map(|n| n == 1).map_err(|e| SysError::new("read", "a pipe", e).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::ProbeSeries;

    #[test]
    #[allow(clippy::print_stderr, reason = "a skipped test says so")]
    fn children_that_cannot_be_waited_for_leave_no_price() {
        const NAME: &str =
            "prices::process::tests::children_that_cannot_be_waited_for_leave_no_price";
        const VARIABLE: &str = "PAGEWISE_TEST_CHILD_SIGNAL_IGNORED";
        if std::env::var_os(VARIABLE).is_some() {
            let mut series = ProbeSeries::start(SpawnProbe::new());
            series.step();
            let price = series.finish_fact();
            assert!(price.reason().is_some_and(|why| why.contains("spawn")), "{price:?}");
            return;
        }
        let ignoring = || {
            let mut command = Command::new("env");
            command.arg("--ignore-signal=CHLD");
            command
        };
        if !ignoring().arg("true").status().is_ok_and(|status| status.success()) {
            eprintln!("SKIP {NAME}: this env(1) ignores no signals");
            return;
        }
        let mut inside = ignoring();
        inside.arg(std::env::current_exe().expect("our name")).args(["--exact", NAME]);
        let output = inside.env(VARIABLE, "1").output().expect("env");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }

    #[test]
    fn found_by_path_where_the_usual_places_have_none() {
        let dir = tempfile::tempdir().expect("a directory");
        let (plain, wanted) = (dir.path().join("a"), dir.path().join("b"));
        for (place, mode) in [(&plain, 0o644), (&wanted, 0o755)] {
            std::fs::create_dir(place).expect("made");
            std::fs::write(place.join("true"), "").expect("written");
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(place.join("true"), mode).expect("set");
        }
        let path = std::env::join_paths([&plain, &wanted]).expect("joined");
        assert_eq!(find(&["/nonexistent"], &path), Some(wanted.join("true")));
        assert_eq!(find(&["/nonexistent"], OsStr::new("relative:")), None);
        let usual = wanted.display().to_string();
        assert_eq!(find(&[&usual], OsStr::new("")), Some(wanted.join("true")));
    }
}
