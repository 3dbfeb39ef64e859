//! How much of its code a program has resident when it ends.
//!
//! The program runs under `ptrace(2)` with only two stops: at its exec, and before it exits, when its memory
//! still exists and `smaps` is read. So a run has two stops and one read; its times mean nothing. Its
//! children are not followed. If it ends as another program than the one in question (a script's shell), that
//! has no such mapping and the answer is 0.

use pagewise_kernel::error::SysError;
use pagewise_kernel::proc::smaps;
use pagewise_model::Bytes;
use pagewise_tracee::launch::{self, LaunchError, ProgramLaunch, SuspendedProgram};
use pagewise_tracee::ptrace::{PtraceStop, request};
use rustix::process::{Pid, WaitOptions};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Code of a file in a process: resident bytes, and the proportional share of the process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResidentCode {
    /// Resident bytes.
    pub bytes: Bytes,
    /// Resident bytes, each page divided by the number of processes that map it.
    pub proportional: Bytes,
}

/// Why a start was not seen.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The program could not be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A system call of the recorder failed.
    #[error(transparent)]
    Sys(#[from] SysError),
    /// It ended before its memory was read.
    #[error("the program was killed, or the thread that watched it ended")]
    Lost,
}

/// Runs `launch` to its end. Returns how much code of `program` was then resident.
///
/// # Errors
/// See [`StartError`]; the program is dead then.
pub fn resident_code(launch: &ProgramLaunch, program: &Path) -> Result<ResidentCode, StartError> {
    let inode = std::fs::metadata(program)
        .map_err(|source| SysError {
            call: "stat",
            subject: program.display().to_string(),
            source,
        })?
        .ino();
    let child = launch::spawn(launch, &[])?;
    // Another thread traces the child of this thread. That thread ends without any other tracee.
    std::thread::scope(|scope| {
        scope.spawn(|| watch(child, inode)).join().unwrap_or(Err(StartError::Lost))
    })
}

fn watch(child: SuspendedProgram, inode: u64) -> Result<ResidentCode, StartError> {
    let pid = child.pid();
    request::seize(
        pid,
        libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_TRACEEXIT | libc::PTRACE_O_EXITKILL,
    )?;
    let running = child.release_unconfirmed()?;
    let mut seen = Err(StartError::Lost);
    loop {
        match request::wait_stop(pid)? {
            PtraceStop::Exit => {
                seen = read(pid, inode).map_err(StartError::from);
                request::cont(pid, 0)?;
            }
            PtraceStop::Signal(signal) => request::cont(pid, signal)?,
            PtraceStop::Group(_) => request::listen(pid)?,
            stop if stop.is_end() => break,
            _ => request::cont(pid, 0)?,
        }
    }
    let failed = running.exec_error();
    let _ended = rustix::process::waitpid(Pid::from_raw(pid), WaitOptions::empty());
    match failed {
        Some(error) => Err(error.into()),
        None => seen,
    }
}

/// The executable mappings of the file, summed.
fn read(pid: i32, inode: u64) -> Result<ResidentCode, SysError> {
    let mut sum = ResidentCode::default();
    for entry in smaps::read(pid)? {
        if entry.mapping.inode == inode && entry.mapping.perms.exec {
            sum.bytes += entry.residency.rss;
            sum.proportional += entry.residency.pss;
        }
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_the_program_is_seen_at_its_end() {
        let shell = std::fs::canonicalize("/bin/sh").unwrap();
        let launch = |script: &str| {
            ProgramLaunch::experiment(["/bin/sh", "-c", script].map(Into::into).to_vec())
        };
        let seen = resident_code(&launch("exit 3"), &shell).unwrap();
        assert!(seen.bytes > Bytes(0) && seen.proportional <= seen.bytes, "{seen:?}");
        let other = resident_code(&launch("exit 0"), Path::new("/proc/self/exe")).unwrap();
        assert_eq!(other, ResidentCode::default());
        let missing = ProgramLaunch::experiment(vec!["/nowhere/at/all".into()]);
        assert!(matches!(resident_code(&missing, &shell), Err(StartError::Launch(_))));
    }
}
