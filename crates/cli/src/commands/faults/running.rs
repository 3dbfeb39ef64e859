//! `pagewise faults -p PID`

use super::outputs::FaultOutputs;
use super::{begin, conclude, failure, wanted};
use crate::args::FaultsArgs;
use crate::commands::signals::stop_flag;
use crate::failure::{CommandFailure, observing_help};
use crate::terminal;
use pagewise_kernel::clock;
use pagewise_model::fault::FaultBudgets;
use pagewise_tracee::recorder::record_running;
use pagewise_tracee::target::{RecordingCourse, TargetError, TargetProcess};
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// Records a running process until the user stops or the process ends.
pub(super) fn run(
    args: &FaultsArgs,
    pid: i32,
    budgets: &FaultBudgets,
) -> Result<ExitCode, CommandFailure> {
    let start = clock::now();
    let target = TargetProcess::find(pid).map_err(refusal)?;
    let command: Vec<OsString> = target.command().iter().map(Into::into).collect();
    let run = begin(&command);
    let mut outputs = FaultOutputs::new(args);
    let report = {
        let recorder = super::recorder()?;
        let stop = stop_flag()?;
        let enough = || stop.load(Ordering::Relaxed);
        let begun =
            |threads| terminal::remark(&begun_line("recording", pid, &run.command, threads));
        let until = RecordingCourse { begun: &begun, time: args.duration, enough: &enough };
        record_running(&target, &recorder, wanted(args), &until, &mut |names, faults| {
            outputs.take(names, &faults);
        })
        .map_err(failure)?
    };
    match conclude(run, report, outputs, start, args, budgets) {
        Some(judged) => Ok(terminal::report(&judged)),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Tells the user that recording has begun.
pub(in crate::commands) fn begun_line(
    doing: &str,
    pid: i32,
    command: &[String],
    threads: u64,
) -> String {
    let name = command.first().map_or("", |word| word.rsplit('/').next().unwrap_or_default());
    let plural = if threads == 1 { "" } else { "s" };
    format!("{doing} process {pid} ({name}, {threads} thread{plural}); Ctrl-C ends it")
}

/// The failure to observe a process, with the next step.
pub(in crate::commands) fn refusal(error: TargetError) -> CommandFailure {
    let failure = CommandFailure::usage(error.to_string());
    match error {
        TargetError::Gone(_) => failure.with_help("ps shows the processes that are running"),
        TargetError::Thread { pid, .. } => {
            failure.with_help(format!("-p {pid} records all of its threads"))
        }
        TargetError::NotAllowed(_) => {
            failure.with_help(observing_help("CAP_SYS_PTRACE and CAP_PERFMON"))
        }
        TargetError::Kernel(_) | TargetError::Sys(_) => failure,
    }
}
