//! `pagewise faults -p PID`

use super::taken::Taken;
use super::{RECORD, conclude, failure, wanted};
use crate::args::Faults;
use crate::commands::experiment::{environment, identity, own_exe, stop_flag};
use crate::failure::Failure;
use crate::terminal;
use pagewise_kernel::clock;
use pagewise_model::fault::Budgets;
use pagewise_model::run::RunKind;
use pagewise_tracee::recorder::{self, Recorder, Target, TargetError, Until};
use pagewise_tune::request::run_of;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// Records a process that is running already, until the user or the process ends it.
pub(super) fn run(args: &Faults, pid: i32, budgets: &Budgets) -> Result<ExitCode, Failure> {
    let start = clock::now();
    let target = Target::find(pid).map_err(refusal)?;
    let command: Vec<OsString> = target.command().iter().map(Into::into).collect();
    let (started, id) = identity(&command);
    let mut run = run_of(RunKind::Faults, id, started, &command);
    run.environment = environment();
    run.machine = Some(pagewise_kernel::machine::machine());
    let mut taken = Taken::new(args);
    let report = {
        let recorder = Recorder::start(&own_exe()?, &RECORD).map_err(failure)?;
        let stop = stop_flag()?;
        let enough = || stop.load(Ordering::Relaxed);
        let begun = |threads| terminal::complain(&begun_line(pid, &run.command, threads));
        let until = Until { begun: &begun, time: args.duration, enough: &enough };
        recorder::record_running(&target, &recorder, wanted(args), &until, &mut |names, faults| {
            taken.take(names, &faults);
        })
        .map_err(failure)?
    };
    match conclude(run, report, taken, start, args, budgets) {
        Some(judged) => Ok(judged.tell()),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Says that it is time to do what is to be recorded.
fn begun_line(pid: i32, command: &[String], threads: u64) -> String {
    let name = command.first().map_or("", |word| word.rsplit('/').next().unwrap_or_default());
    let name = pagewise_report::text::escape(name);
    let plural = if threads == 1 { "" } else { "s" };
    format!("pagewise: recording process {pid} ({name}, {threads} thread{plural}); Ctrl-C ends it")
}

fn refusal(error: TargetError) -> Failure {
    let help = match &error {
        TargetError::Gone(_) => Some("ps shows the processes that are running".to_owned()),
        TargetError::Thread { pid, .. } => Some(format!("-p {pid} records all of its threads")),
        TargetError::NotAllowed(_) => Some(
            "run as its user; for any process as root, or with CAP_SYS_PTRACE and CAP_PERFMON"
                .to_owned(),
        ),
        TargetError::Kernel(_) | TargetError::Sys(_) => None,
    };
    let failure = Failure::usage(error.to_string());
    match help {
        Some(help) => failure.with_help(help),
        None => failure,
    }
}
