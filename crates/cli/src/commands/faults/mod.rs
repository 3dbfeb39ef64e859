//! `pagewise faults`

pub(super) mod invocation;
mod outputs;
pub(super) mod running;

use super::experiment::{self, environment, identity, keep};
use super::helper;
use crate::args::{FaultClock, FaultsArgs, HelperRole};
use crate::failure::{CommandFailure, UNFIT};
use crate::terminal;
use invocation::FaultInvocation;
use outputs::FaultOutputs;
use pagewise_judge::faults::budget;
use pagewise_kernel::{clock, tsc_x86_64 as tsc};
use pagewise_model::Nanos;
use pagewise_model::body::RunBody;
use pagewise_model::fault::{FaultBudgets, FaultRecordingOptions, FaultReport};
use pagewise_model::plan::ArmSettings;
use pagewise_model::run::{RunKind, SavedRun};
use pagewise_model::usage::ProgramEnd;
use pagewise_report::faults::{FaultListForm, broken_line};
use pagewise_tracee::launch::{OutputSink, ProgramLaunch, StdinSource};
use pagewise_tracee::made_maps;
use pagewise_tracee::passthrough;
use pagewise_tracee::recorder::{FaultRecorder, RecordError};
use pagewise_tune::request::run_of;
use std::ffi::OsString;
use std::process::ExitCode;

/// Exit code: a budget is broken.
const BROKEN: u8 = 1;

/// Runs the program once and records its page faults. Its standard streams stay unchanged, except for lists.
pub(super) fn run(args: &FaultsArgs) -> Result<ExitCode, CommandFailure> {
    refuse_times(args)?;
    refuse_clock(args)?;
    let FaultInvocation { command, budgets } = FaultInvocation::from_args(args)?;
    if let Some(pid) = args.pid {
        return running::run(args, pid, &budgets);
    }
    if command.is_empty() {
        return Err(CommandFailure::usage("no command given")
            .with_help("put it after --, or name a running process: -p PID"));
    }
    let start = clock::now();
    let launch = launch(args, &command);
    launch.check()?;
    args.files.check()?;
    let fixed_addresses = invocation::settle_addresses(args.fixed_addresses, &budgets)?;
    let mut run = begin(&command);
    run.input = args.input.as_ref().map(|file| file.to_string_lossy().into_owned());
    let mut outputs = FaultOutputs::new(args);
    let recorded = {
        let recorder = recorder()?;
        let reads = args.save_working_set.is_some();
        let mut take = |names: &_, faults: Vec<_>| outputs.take(names, &faults);
        passthrough::record_through(&launch, &recorder, wanted(args), reads, &mut take)
            .map_err(failure)?
    };
    outputs.take_reads(recorded.reads);
    let ended = recorded.ended;
    let judged = match recorded.report {
        Ok(report) => {
            let report = FaultReport { fixed_addresses, ..report };
            conclude(run, report, outputs, start, args, &budgets)
        }
        Err(error) => Some(failure(error)),
    };
    // Passes on the program's exit status, unless it is success and a budget failed.
    match judged.map(|failure| terminal::report(&failure)) {
        Some(code) if ended == ProgramEnd::Exited(0) => Ok(code),
        _ => passthrough::end_like(ended),
    }
}

/// The run of a recording of `command` at its start.
fn begin(command: &[OsString]) -> SavedRun {
    let (started, id) = identity(command);
    let mut run = run_of(RunKind::Faults, id, started, command);
    run.environment = environment();
    run.machine = Some(pagewise_kernel::machine::machine());
    run
}

fn wanted(args: &FaultsArgs) -> FaultRecordingOptions {
    FaultRecordingOptions {
        list: args.list().is_some() || args.save_working_set.is_some(),
        latency: args.latency(),
        calls: args.account,
        exact: args.exact,
        stacks: args.stacks(),
        names: true,
        debug_files: args.debug_files,
        made_maps: args.interpreter_frames,
        sites: false,
    }
}

/// Refuses an output form that shows only times if times are left out.
fn refuse_times(args: &FaultsArgs) -> Result<(), CommandFailure> {
    match args.list() {
        Some(FaultListForm::FoldedNs) if !args.latency() => {
            let text =
                "--format folded-ns shows latencies, which --no-latency and --exact leave out";
            Err(CommandFailure::usage(text).with_help("--format folded counts faults instead"))
        }
        _ => Ok(()),
    }
}

/// Refuses a clock that the list does not show, or that does not keep time here.
fn refuse_clock(args: &FaultsArgs) -> Result<(), CommandFailure> {
    if args.clock == FaultClock::Monotonic {
        return Ok(());
    }
    if !args.list().is_some_and(FaultListForm::has_cycles) {
        return Err(CommandFailure::usage("--clock tsc is for faults in lines")
            .with_help("add --all, --format pagein or --format json"));
    }
    tsc::unsteady().map_or(Ok(()), |why| {
        let text = format!("the time-stamp counter keeps no time on this machine: {why}");
        Err(CommandFailure::usage(text).with_help("leave out --clock tsc for nanoseconds"))
    })
}

/// Saves and shows the recording since `start`. Returns the failure that its budgets cause.
fn conclude(
    mut run: SavedRun,
    report: FaultReport,
    outputs: FaultOutputs,
    start: Nanos,
    args: &FaultsArgs,
    budgets: &FaultBudgets,
) -> Option<CommandFailure> {
    let broken = judge(budgets, &report);
    run.body = Some(RunBody::Faults(report));
    run.took_ns = Nanos(clock::now().0.saturating_sub(start.0));
    keep(&mut run);
    outputs.finish(&run, args);
    broken
}

fn launch(args: &FaultsArgs, command: &[OsString]) -> ProgramLaunch {
    let is_ours = args.json || args.list().is_some();
    ProgramLaunch {
        stdin: args.input.clone().map_or(StdinSource::Inherit, StdinSource::File),
        stdout: if is_ours { OutputSink::Stderr } else { OutputSink::Inherit },
        settings: if args.interpreter_frames { made_maps::asked() } else { ArmSettings::default() },
        ..ProgramLaunch::passthrough(command.to_vec())
    }
}

/// Reports broken budgets, one line each; returns the last as this command's failure.
fn judge(budgets: &FaultBudgets, report: &FaultReport) -> Option<CommandFailure> {
    let outcome = budget::check(budgets, report);
    let mut lines: Vec<String> = outcome.broken.iter().map(broken_line).collect();
    match lines.pop() {
        Some(last) => {
            for line in lines {
                terminal::remark(&line);
            }
            Some(CommandFailure::usage(last).with_code(BROKEN))
        }
        None if outcome.is_uncertain => {
            let text = "records were lost, so the budgets cannot be judged";
            Some(
                CommandFailure::unfit(text)
                    .with_help("raise RLIMIT_MEMLOCK (ulimit -l), or run on fewer CPUs"),
            )
        }
        None => None,
    }
}

fn report_run(run: &SavedRun, args: &FaultsArgs) -> Result<(), CommandFailure> {
    let saved = args.files.write(run);
    if args.json {
        terminal::print(&(run.to_json() + "\n"))?;
    } else if args.list().is_none() {
        for line in experiment::report(run, args.verbose, &terminal::error_style()).lines() {
            terminal::complain(line);
        }
    }
    saved
}

/// A recorder of page faults.
pub(super) fn recorder() -> Result<FaultRecorder, CommandFailure> {
    FaultRecorder::start(helper::own_exe()?, &helper::words(HelperRole::Record)).map_err(failure)
}

/// The failure to record faults.
pub(super) fn failure(error: RecordError) -> CommandFailure {
    match error {
        RecordError::Launch(error) => error.into(),
        RecordError::Refused(refusal) => CommandFailure::unfit(refusal.why).with_help(refusal.help),
        RecordError::Gone(_) => CommandFailure::usage(error.to_string()),
        other => CommandFailure::usage(other.to_string()).with_code(UNFIT),
    }
}
