//! `pagewise profile`

mod import;
pub(in crate::commands) mod memory;
mod running;

use super::experiment::{self, environment, identity, input, keep};
use super::helper::{self, own_exe};
use super::progress::ProgressDisplay;
use super::signals::stop_flag;
use crate::args::{HelperRole, ProfileArgs};
use crate::failure::CommandFailure;
use crate::terminal;
use pagewise_judge::profile::ProfileFacts;
use pagewise_kernel::{clock, kallsyms, tlb};
use pagewise_measure::CalibrationOptions;
use pagewise_model::body::RunBody;
use pagewise_model::diagnosis::Diagnosis;
use pagewise_model::fault::FaultReport;
use pagewise_model::look::{CpuSamples, LookFindings, TimedFaults, TracedLook};
use pagewise_model::machine::Machine;
use pagewise_model::plan::ArmSettings;
use pagewise_model::price::SessionPrices;
use pagewise_model::profile::{self, FollowedProcess, StackSamples};
use pagewise_model::run::{RunKind, SavedRun};
use pagewise_model::{Fact, Nanos};
use pagewise_observe::faults::CodeImages;
use pagewise_observe::made_code::MadeCode;
use pagewise_observe::profile::{interpreters, name_functions};
use pagewise_report::faults::{scripts, unnamed_text};
use pagewise_report::{ProfileForm, TerminalStyle, graph_section};
use pagewise_tracee::launch::{ObservationOptions, OutputSink, ProgramLaunch, StdinSource};
use pagewise_tracee::made_maps;
use pagewise_tracee::mapped_file::MappedFiles;
use pagewise_tracee::passthrough;
use pagewise_tracee::perf::{Walker, user_samples};
use pagewise_tracee::supervise::RunSupervisor;
use pagewise_tune::request::run_of;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// Runs the program once with unchanged standard streams, and reports where its page work went. The report
/// goes to standard error, so that the program's output stays unchanged. With `--json`, standard output holds
/// only the document, and the program's output goes to standard error.
pub(super) fn run(args: &ProfileArgs) -> Result<ExitCode, CommandFailure> {
    if let Some(file) = &args.import {
        return import::run(args, file);
    }
    match args.pid {
        Some(pid) if args.memory => return memory::of_running(args, pid),
        Some(pid) => return running::run(args, pid),
        None => {}
    }
    if args.command.is_empty() {
        return Err(CommandFailure::usage("no command given")
            .with_help("put it after --, or name a running process: -p PID"));
    }
    if args.memory {
        return memory::of_program(args);
    }
    let second = if args.traced { Some(second_input(args)?) } else { None };
    let start = clock::now();
    let launch = launch(args)?;
    // Fails before two seconds are spent on prices.
    launch.check()?;
    args.files.check()?;
    let (started, id) = identity(&args.command);
    let mut run = run_of(RunKind::Profile, id, started, &args.command);
    run.input = args.input.as_ref().map(|file| file.to_string_lossy().into_owned());
    run.environment = environment();
    let machine = pagewise_kernel::machine::machine();
    let prices = unit_prices()?;
    let files = MappedFiles::default();
    let images = || Box::new(CodeImages::new(files.clone(), false)) as Walker;
    let walker = args.interpreter_frames.then(images);
    let finished = passthrough::profile_through(&launch, &files, walker)?;
    let ended = finished.usage.ended;
    let mut made = MadeCode::default();
    let samples = named(finished.profile, &files, &mut made, &mut run);
    if args.interpreter_frames {
        take_maps(&samples, &made, &mut run);
    }
    let look = LookFindings {
        runs: vec![finished.usage],
        faults: fault_times(args, finished.faults),
        traced: traced(args, second),
        samples: kernel_only(&samples),
        user: samples.clone().map(|all| user_samples(&all, &files)),
        walks: finished.walks,
        code_misses: finished.code_misses,
    };
    let diagnosis = pagewise_judge::diagnosis::diagnose(&look, &prices, &machine);
    run.body = Some(RunBody::Profile(judged(&samples, Some((&look, &diagnosis)), &machine, None)));
    run.diagnosis = Some(diagnosis);
    (run.look, run.prices, run.machine) = (Some(look), Some(prices), Some(machine));
    conclude(&mut run, start);
    // Passes on the program's exit status, even if the report fails.
    if let Err(error) = shown(&run, &samples, args) {
        terminal::report(&error);
    }
    passthrough::end_like(ended)
}

fn unit_prices() -> Result<SessionPrices, CommandFailure> {
    let display = ProgressDisplay::new(false);
    display.show("measuring this machine's unit prices");
    let options = CalibrationOptions::cached(Nanos::secs(2));
    let prices = pagewise_measure::calibrate(&options, &|| false);
    display.finish();
    prices.map_err(|error| CommandFailure::usage(error.to_string()))
}

/// Adds what is known only at the end.
fn conclude(run: &mut SavedRun, start: Nanos) {
    run.took_ns = Nanos(clock::now().0.saturating_sub(start.0));
    keep(run);
}

/// Adds names of the program's functions to the samples. `files` holds the program's files, and `made` the
/// code generated at run time. Warns of files that could not be opened.
fn named(
    samples: Fact<StackSamples>,
    files: &MappedFiles,
    made: &mut MadeCode,
    run: &mut SavedRun,
) -> Fact<StackSamples> {
    samples.map(|mut samples| {
        let unnamed = name_functions(&mut samples, files, made);
        run.warnings.extend(unnamed.iter().map(unnamed_text));
        samples
    })
}

/// Removes the maps that interpreters were asked to write, and reports those that named nothing.
fn take_maps(samples: &Fact<StackSamples>, made: &MadeCode, run: &mut SavedRun) {
    let Fact::Known(samples) = samples else { return };
    let since = i64::try_from(run.started_unix_ns / 1_000_000_000).unwrap_or(i64::MAX);
    made.remove_files(&samples.processes.iter().copied().collect(), since);
    let silent = interpreters(samples).into_iter().filter(|one| one.functions == 0);
    run.warnings.extend(silent.filter_map(|one| scripts(&one, false)));
}

fn kernel_only(samples: &Fact<StackSamples>) -> Fact<CpuSamples> {
    match samples {
        Fact::Known(samples) => Fact::Known(samples.kernel_only()),
        Fact::Missing(why) => Fact::Missing(why.clone()),
    }
}

/// Sorts the samples into buckets, together with the counts of the same run.
fn judged(
    samples: &Fact<StackSamples>,
    counted: Option<(&LookFindings, &Diagnosis)>,
    machine: &Machine,
    course: Option<FollowedProcess>,
) -> profile::ProfileReport {
    let functions = kallsyms::functions().into();
    let facts = ProfileFacts {
        samples,
        counted,
        functions: &functions,
        release: &machine.kernel,
        code_entries: Some(tlb::code()).filter(|tlb| !tlb.is_assumed).map(|tlb| tlb.base_entries),
    };
    pagewise_judge::profile::judge(&facts, course)
}

/// Standard input of the second run, taken before the first run reads it. The user must confirm the second
/// run with `--rerun-safe`: the first one is not traced, so its effects are unknown.
fn second_input(args: &ProfileArgs) -> Result<StdinSource, CommandFailure> {
    if args.rerun_safe {
        return input(args.input.as_deref(), true);
    }
    Err(CommandFailure::usage("--traced runs the program a second time, which may not be safe")
        .with_help("add --rerun-safe if running it again does no harm"))
}

fn launch(args: &ProfileArgs) -> Result<ProgramLaunch, CommandFailure> {
    let recorder = if args.faults { helper::timing(&own_exe()?).recorder } else { Vec::new() };
    Ok(ProgramLaunch {
        recorder,
        stdin: args.input.clone().map_or(StdinSource::Inherit, StdinSource::File),
        stdout: if args.json || args.format.is_some() {
            OutputSink::Stderr
        } else {
            OutputSink::Inherit
        },
        settings: if args.interpreter_frames { made_maps::asked() } else { ArmSettings::default() },
        observe: ObservationOptions { profile: true, walks: true, ..ObservationOptions::default() },
        ..ProgramLaunch::passthrough(args.command.clone())
    })
}

/// The report, or only the samples if they are exported for another tool.
fn shown(
    run: &SavedRun,
    samples: &Fact<StackSamples>,
    args: &ProfileArgs,
) -> Result<(), CommandFailure> {
    let Some(format) = args.format else { return report(run, args) };
    let saved = args.files.write(run);
    terminal::print_bytes(&exported(run, samples, format)?)?;
    saved
}

fn report(run: &SavedRun, args: &ProfileArgs) -> Result<(), CommandFailure> {
    let saved = args.files.write(run);
    if args.json {
        terminal::print(&(run.to_json() + "\n"))?;
    } else {
        text(run, args, &terminal::error_style()).lines().for_each(terminal::complain);
    }
    saved
}

/// The requested graph, then the report.
fn text(run: &SavedRun, args: &ProfileArgs, style: &TerminalStyle) -> String {
    let graph = match (&args.graph, &run.body) {
        (Some(bucket), Some(RunBody::Profile(profile))) => {
            graph_section(profile, bucket).text(style) + "\n"
        }
        _ => String::new(),
    };
    graph + &experiment::report(run, args.verbose, style)
}

/// The samples in another tool's format.
fn exported(
    run: &SavedRun,
    samples: &Fact<StackSamples>,
    format: ProfileForm,
) -> Result<Vec<u8>, CommandFailure> {
    match samples {
        Fact::Known(samples) => Ok(pagewise_report::profile_export(samples, run, format)),
        Fact::Missing(why) => Err(CommandFailure::unfit(format!("there are no samples: {why}"))
            .with_help("pagewise doctor says what allows them")),
    }
}

/// The times of the recorded faults, if requested, together with a probe that runs as the program did. The
/// probe runs below this process, which must not become the parent of the program's remaining processes.
fn fault_times(args: &ProfileArgs, recorded: Fact<FaultReport>) -> Fact<TimedFaults> {
    if !args.faults {
        return Fact::missing("not requested (--faults times each fault of the run)");
    }
    let timed = || -> Result<Fact<TimedFaults>, CommandFailure> {
        let commands = helper::timing(&own_exe()?);
        let mut run = |launch: &ProgramLaunch| {
            passthrough::observe_through(&ProgramLaunch { own_session: false, ..launch.clone() })
        };
        Ok(commands.beside_probe(recorded, true, &mut run)?)
    };
    timed().unwrap_or_else(|failure| Fact::Missing(failure.to_string()))
}

/// The second, traced run, if requested; its output is discarded.
fn traced(args: &ProfileArgs, input: Option<StdinSource>) -> Fact<TracedLook> {
    let Some(stdin) = input else {
        return Fact::missing("not requested (--traced runs the program a second time)");
    };
    let launch = ProgramLaunch { stdin, ..ProgramLaunch::experiment(args.command.clone()) };
    let traced = || -> Result<TracedLook, String> {
        let exe = own_exe().map_err(|failure| failure.to_string())?;
        let mut supervisor = RunSupervisor::start(&exe, &helper::words(HelperRole::Supervise))
            .map_err(|e| e.to_string())?;
        // From here on, an interrupt ends only this run: the report of the first one still appears.
        let stop = stop_flag().map_err(|failure| failure.to_string())?;
        let interrupted = || stop.load(Ordering::Relaxed);
        supervisor.traced(&launch, &[], &interrupted).map_err(|e| e.to_string())
    };
    traced().map_or_else(Fact::missing, Fact::Known)
}
