//! The traced look: one run of a program under `ptrace(2)`. It shows the processes of the program, what they
//! map, which pipes they share, how they access memory and what they do to the outside.
//!
//! With a seccomp filter the tree stops only at the relevant calls. If none can be installed every call stops
//! (`TracedLook` is the same then, only slower). The tree is traced from before its first exec, with all
//! children, and dies with the tracer. Signals, job control and exit statuses pass through unchanged. Each
//! stop costs 20 to 70 us including the lookups, so times of this run mean nothing.
//!
//! Without rights the filter needs `no_new_privs`, which would silently remove the rights of a setuid
//! program. Such a program ends the look with [`TraceError::Setuid`].

mod calls;
mod churn;
mod descriptors;
mod effects;
mod engine;
mod files;
mod footprint;
mod image;
mod input;
mod interrupt;
mod ipc;
mod marking;
mod netlink;
mod network;
#[cfg(target_arch = "x86_64")]
mod operands_x86_64;
mod pattern;
mod pipes;
mod place;
mod reach;
mod running;
mod thread;

pub use running::RunningLook;

use engine::{StopMode, TraceEngine};
use pagewise_kernel::error::SysError;
use pagewise_model::look::{SideEffect, TracedLook};
use pagewise_tracee::launch::{self, LaunchError, PreExec, ProgramLaunch, StdinSource};
use pagewise_tracee::ptrace::request;
use pagewise_tracee::supervise::{LookOptions, SuperviseError};

/// Options of the look.
#[derive(Debug, Clone, Default)]
pub struct TraceOptions {
    /// What the supervisor wants of it.
    pub look: LookOptions,
    /// Single-step bursts of user code for the access pattern.
    pub pattern: bool,
    /// Long bursts, whose code is kept.
    pub code: bool,
}

/// Why there is no traced look.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The program could not be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// It, or a child of it, runs with the rights of another user.
    #[error(
        "`{path}` runs with extra rights (setuid, setgid or capabilities) and cannot be traced"
    )]
    Setuid {
        /// The executable.
        path: String,
    },
    /// It was about to use a standard input that can be read only once, and was ended before.
    #[error("it uses its standard input ({call})")]
    UsesInput {
        /// The call that would have used it.
        call: String,
        /// Its effects until then.
        effects: Vec<SideEffect>,
    },
    /// A system call of the tracer failed.
    #[error(transparent)]
    Sys(#[from] SysError),
    /// The tracing thread ended without a result.
    #[error("the tracing thread ended without a result")]
    Lost,
}

impl From<TraceError> for SuperviseError {
    fn from(error: TraceError) -> Self {
        match error {
            TraceError::Launch(error) => Self::Launch(error),
            TraceError::UsesInput { call, effects } => Self::UsesInput { call, effects },
            other => Self::Trace(other.to_string()),
        }
    }
}

/// The traced look as a supervisor takes it: with the access pattern.
///
/// # Errors
/// [`SuperviseError::ProgramLaunch`] or [`SuperviseError::Trace`].
pub fn look(launch: &ProgramLaunch, look: LookOptions) -> Result<TracedLook, SuperviseError> {
    let code = launch.observe.code;
    Ok(traced_run(launch, &TraceOptions { look, pattern: true, code })?)
}

/// Runs `launch` under tracing to its end. Its limits are the supervisor's, which ends the tree when
/// one is broken.
///
/// # Errors
/// See [`TraceError`]; no process of the tree is left behind.
pub fn traced_run(
    launch: &ProgramLaunch,
    options: &TraceOptions,
) -> Result<TracedLook, TraceError> {
    match run_in(launch, options, StopMode::Filter) {
        Err(TraceError::Launch(LaunchError::Call { ref call, .. })) if call == "seccomp" => {
            run_in(launch, options, StopMode::EveryCall)
        }
        other => other,
    }
}

/// The child and its helpers are children of the calling thread, which lives on. The tracing thread waits
/// only for its tracees and cannot reap another child.
fn run_in(
    launch: &ProgramLaunch,
    options: &TraceOptions,
    mode: StopMode,
) -> Result<TracedLook, TraceError> {
    let input_has_ended = matches!(launch.stdin, StdinSource::Ended(_));
    let pre_exec = match mode {
        StopMode::Filter => {
            let input = if input_has_ended { input::filter() } else { Vec::new() };
            vec![PreExec::SeccompFilter(calls::filter(input))]
        }
        StopMode::EveryCall => Vec::new(),
    };
    let child = launch::spawn(launch, &pre_exec)?;
    std::thread::scope(|scope| {
        scope
            .spawn(move || trace(child, options, mode, input_has_ended))
            .join()
            .unwrap_or(Err(TraceError::Lost))
    })
}

/// The ptrace events reported for every thread of the tree.
const EVENTS: i32 = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACEEXIT
    | libc::PTRACE_O_TRACESECCOMP
    | libc::PTRACE_O_EXITKILL;

fn trace(
    child: launch::SuspendedProgram,
    options: &TraceOptions,
    mode: StopMode,
    input_has_ended: bool,
) -> Result<TracedLook, TraceError> {
    let pid = child.pid();
    request::seize(pid, EVENTS)?;
    let mut engine = TraceEngine::new(pid, mode, options, input_has_ended);
    let running = child.release_unconfirmed()?;
    let served = engine.serve();
    if served.is_err() {
        engine.kill_all();
    }
    if !engine.has_execed()
        && let Some(error) = running.exec_error()
    {
        return Err(error.into());
    }
    served?;
    engine.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::usage::ProgramEnd;

    #[test]
    fn both_modes_end_a_program_that_uses_an_ended_input() {
        use pagewise_tracee::launch::OneTimeInput;
        for mode in [StopMode::Filter, StopMode::EveryCall] {
            let launch = |command: &str| ProgramLaunch {
                stdin: StdinSource::Ended(OneTimeInput::Pipe),
                ..ProgramLaunch::experiment(["sh", "-c", command].map(Into::into).to_vec())
            };
            let run = |command| run_in(&launch(command), &TraceOptions::default(), mode);
            for command in ["cat", "exec 5<&0; cat <&5", ": < /dev/stdin"] {
                let error = run(command).unwrap_err();
                assert!(matches!(error, TraceError::UsesInput { .. }), "{command}: {error}");
            }
            let seen = run("cat < /dev/null; echo x | cat").unwrap();
            assert_eq!(seen.ended, ProgramEnd::Exited(0));
        }
    }

    #[test]
    fn both_modes_see_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let script = "for i in 1 2 3; do (echo $i; exit $i) | cat; done; echo > old; \
                      trap 'exit 3' USR1; kill -USR1 $$; sleep 9";
        let launch = ProgramLaunch {
            cwd: Some(dir.path().to_owned()),
            ..ProgramLaunch::experiment(["sh", "-c", script].map(Into::into).to_vec())
        };
        let [filter, every] = [StopMode::Filter, StopMode::EveryCall].map(|mode| {
            std::fs::write(dir.path().join("old"), "x").unwrap();
            run_in(&launch, &TraceOptions::default(), mode).unwrap()
        });
        assert_eq!((filter.ended, every.ended), (ProgramEnd::Exited(3), ProgramEnd::Exited(3)));
        let reported = |seen: &TracedLook| {
            let processes: Vec<_> =
                seen.processes.iter().map(|p| (p.exe.clone(), p.churn.clone())).collect();
            let effects: Vec<_> = seen.effects.iter().map(|e| e.action.clone()).collect();
            let pipes = seen.pipes.iter().filter(|p| !p.inherited).count();
            (processes.len(), processes[0].clone(), effects, pipes)
        };
        assert_eq!(reported(&filter), reported(&every));
        assert_eq!(reported(&filter).2, ["truncated"]);
    }
}
