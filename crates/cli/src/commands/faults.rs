//! `pagewise faults`

pub(super) mod invocation;
mod outputs;
pub(super) mod running;

use super::experiment::{self, environment, identity, keep};
use super::helper;
use crate::args::{Faults, Part};
use crate::failure::{Failure, UNFIT};
use crate::terminal;
use invocation::Invocation;
use outputs::Outputs;
use pagewise_judge::faults::budget;
use pagewise_kernel::clock;
use pagewise_model::Nanos;
use pagewise_model::body::Body;
use pagewise_model::fault::{Budgets, FaultReport, Wanted};
use pagewise_model::plan::Settings;
use pagewise_model::run::{Run, RunKind};
use pagewise_model::usage::Ended;
use pagewise_report::faults::{Form, broken_line};
use pagewise_tracee::launch::{Input, Launch, Sink};
use pagewise_tracee::made_maps;
use pagewise_tracee::passthrough;
use pagewise_tracee::recorder::{RecordError, Recorder};
use pagewise_tune::request::run_of;
use std::ffi::OsString;
use std::process::ExitCode;

/// Exit code: a budget is broken.
const BROKEN: u8 = 1;

/// Runs the program once and records its page faults. Its standard streams stay unchanged, except for lists.
pub(super) fn run(args: &Faults) -> Result<ExitCode, Failure> {
    refuse_times(args)?;
    let Invocation { command, budgets } = Invocation::from_args(args)?;
    if let Some(pid) = args.pid {
        return running::run(args, pid, &budgets);
    }
    if command.is_empty() {
        return Err(Failure::usage("no command given")
            .with_help("put it after --, or name a running process: -p PID"));
    }
    let start = clock::now();
    let launch = launch(args, &command);
    launch.check()?;
    args.files.check()?;
    let fixed_addresses = invocation::settle_addresses(args.fixed_addresses, &budgets)?;
    let mut run = begin(&command);
    run.input = args.input.as_ref().map(|file| file.to_string_lossy().into_owned());
    let mut outputs = Outputs::new(args);
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
        Some(code) if ended == Ended::Exited(0) => Ok(code),
        _ => passthrough::end_like(ended),
    }
}

/// The run of a recording of `command` at its start.
fn begin(command: &[OsString]) -> Run {
    let (started, id) = identity(command);
    let mut run = run_of(RunKind::Faults, id, started, command);
    run.environment = environment();
    run.machine = Some(pagewise_kernel::machine::machine());
    run
}

fn wanted(args: &Faults) -> Wanted {
    Wanted {
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
fn refuse_times(args: &Faults) -> Result<(), Failure> {
    match args.list() {
        Some(Form::FoldedNs) if !args.latency() => {
            let text =
                "--format folded-ns shows latencies, which --no-latency and --exact leave out";
            Err(Failure::usage(text).with_help("--format folded counts faults instead"))
        }
        _ => Ok(()),
    }
}

/// Saves and shows the recording since `start`. Returns the failure that its budgets cause.
fn conclude(
    mut run: Run,
    report: FaultReport,
    outputs: Outputs,
    start: Nanos,
    args: &Faults,
    budgets: &Budgets,
) -> Option<Failure> {
    let broken = judge(budgets, &report);
    run.body = Some(Body::Faults(report));
    run.took_ns = Nanos(clock::now().0.saturating_sub(start.0));
    keep(&mut run);
    outputs.finish(&run, args);
    broken
}

fn launch(args: &Faults, command: &[OsString]) -> Launch {
    let is_ours = args.json || args.list().is_some();
    Launch {
        stdin: args.input.clone().map_or(Input::Inherit, Input::File),
        stdout: if is_ours { Sink::Stderr } else { Sink::Inherit },
        settings: if args.interpreter_frames { made_maps::asked() } else { Settings::default() },
        ..Launch::passthrough(command.to_vec())
    }
}

/// Reports broken budgets, one line each; returns the last as this command's failure.
fn judge(budgets: &Budgets, report: &FaultReport) -> Option<Failure> {
    let outcome = budget::check(budgets, report);
    let mut lines: Vec<String> = outcome.broken.iter().map(broken_line).collect();
    match lines.pop() {
        Some(last) => {
            for line in lines {
                terminal::remark(&line);
            }
            Some(Failure::usage(last).with_code(BROKEN))
        }
        None if outcome.is_uncertain => {
            let text = "records were lost, so the budgets cannot be judged";
            Some(
                Failure::unfit(text)
                    .with_help("raise RLIMIT_MEMLOCK (ulimit -l), or run on fewer CPUs"),
            )
        }
        None => None,
    }
}

fn report_run(run: &Run, args: &Faults) -> Result<(), Failure> {
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
pub(super) fn recorder() -> Result<Recorder, Failure> {
    Recorder::start(helper::own_exe()?, &helper::words(Part::Record)).map_err(failure)
}

/// The failure to record faults.
pub(super) fn failure(error: RecordError) -> Failure {
    match error {
        RecordError::Launch(error) => error.into(),
        RecordError::Refused(refusal) => Failure::unfit(refusal.why).with_help(refusal.help),
        RecordError::Gone(_) => Failure::usage(error.to_string()),
        other => Failure::usage(other.to_string()).with_code(UNFIT),
    }
}
