//! What `tune` and `ab` share: conditions, standard input, saving, and the exit code for the end of a session.

use super::signals::INTERRUPTED;
use crate::args::{ExperimentArgs, LockWaitArgs};
use crate::failure::{CommandFailure, UNFIT};
use crate::{store, terminal};
use pagewise_kernel::clock;
use pagewise_kernel::lock::{ExperimentLock, LockError, SettingsLock};
use pagewise_model::Nanos;
use pagewise_model::run::{SavedRun, SessionOutcome};
use pagewise_model::spec::SessionSpec;
use pagewise_remedy::receipt::ReceiptConditions;
use pagewise_report::TerminalStyle;
use pagewise_tracee::launch::{ProgramLaunch, StandardInput, StdinSource};
use pagewise_tune::{INPUT_HELP, SessionRequest, SessionStop};
use std::ffi::OsString;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Environment variables that affect page costs; a saved run holds these and no others.
const LISTED: [&str; 9] = [
    "GLIBC_TUNABLES",
    "MALLOC_CONF",
    "_RJEM_MALLOC_CONF",
    "MIMALLOC_ALLOW_LARGE_OS_PAGES",
    "GOGC",
    "MALLOC_ARENA_MAX",
    "JAVA_TOOL_OPTIONS",
    "LD_PRELOAD",
    "PYTHONMALLOC",
];

/// The listed variables that are set. Skips values with line breaks, which have no meaning for these variables.
pub(super) fn environment() -> Vec<(String, String)> {
    let value = |name: &str| {
        let value = std::env::var_os(name)?.to_string_lossy().into_owned();
        (!value.contains(char::is_control)).then_some(value)
    };
    LISTED.iter().filter_map(|name| Some(((*name).to_owned(), value(name)?))).collect()
}

/// Nanoseconds since 1970, and an identifier built from the time and the program's name.
pub(super) fn identity(command: &[OsString]) -> (u64, String) {
    let started = clock::unix_now().0;
    let program = command.first().map(|w| w.to_string_lossy().into_owned()).unwrap_or_default();
    let name: String = program
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c))
        .take(24)
        .collect();
    // Milliseconds sort by time. Profiles that start within the same millisecond differ in their process id.
    // Saving resolves the remaining conflicts (equal process ids of two containers).
    (started, format!("{}-{}-{name}", started / 1_000_000, std::process::id()))
}

/// The request that the options describe. `is_traced`: a traced look shows whether the program reads its input.
pub(super) fn request(
    args: &ExperimentArgs,
    command: Vec<OsString>,
    is_traced: bool,
) -> Result<SessionRequest, CommandFailure> {
    if command.is_empty() {
        return Err(CommandFailure::usage("no command given").with_help("put it after --"));
    }
    let input = input(args.input.as_deref(), is_traced)?;
    request_of(args, command, input)
}

/// As [`request`], for a program with known standard input.
pub(super) fn request_of(
    args: &ExperimentArgs,
    command: Vec<OsString>,
    input: StdinSource,
) -> Result<SessionRequest, CommandFailure> {
    // Fails before seconds are spent on prices.
    ProgramLaunch::experiment(command.clone()).check()?;
    request_of_running(args, command, input)
}

/// As [`request`], for a program that is not started here.
pub(super) fn request_of_running(
    args: &ExperimentArgs,
    command: Vec<OsString>,
    input: StdinSource,
) -> Result<SessionRequest, CommandFailure> {
    args.files.check()?;
    let here = ReceiptConditions::now(&command);
    let (started, id) = identity(&command);
    let seed = args.seed.unwrap_or(started);
    let spec = SessionSpec {
        input,
        stdout: args.stdout,
        outputs: args.outputs.clone(),
        rerun_safe: args.rerun_safe,
        prepare: args.prepare.clone(),
        cleanup: args.cleanup.clone(),
        ignore_failure: args.ignore_failure,
        in_turn: args.in_turn,
        budget_ns: args.budget,
        ..SessionSpec::new(command, here.directory.clone(), seed)
    };
    let offsets = store::prediction_offsets();
    let quote = pagewise_report::quote_bytes;
    Ok(SessionRequest { spec, system: None, quote, here, offsets, id })
}

/// Standard input of a program that runs many times. Refuses input that can be read only once. If a run
/// `is_traced` before all others, that input is refused later, unless the trace shows that the program does
/// not read it.
pub(super) fn input(named: Option<&Path>, is_traced: bool) -> Result<StdinSource, CommandFailure> {
    if let Some(file) = named {
        return named_input(file);
    }
    let why = match StandardInput::own() {
        StandardInput::Nothing => return Ok(StdinSource::Null),
        StandardInput::Repeatable(input) => return Ok(input),
        StandardInput::Once(once) if is_traced => return Ok(StdinSource::Ended(once)),
        StandardInput::Once(once) => format!("{}, which can be read only once", once.what()),
        StandardInput::Other(what) => format!("{what}, which the runs cannot share"),
    };
    Err(CommandFailure::usage(format!("standard input is {why}")).with_help(INPUT_HELP))
}

/// The file of `--input`.
fn named_input(file: &Path) -> Result<StdinSource, CommandFailure> {
    let shown = file.display();
    let cannot =
        |e: std::io::Error| CommandFailure::usage(format!("cannot read input `{shown}`: {e}"));
    // Checks the kind before opening: a pipe without a writer would block.
    let kind = std::fs::metadata(file).map_err(cannot)?.file_type();
    if kind.is_fifo() || kind.is_socket() {
        return Err(CommandFailure::usage(format!("input `{shown}` can be read only once"))
            .with_help("--input needs a regular file: save the input to one first"));
    }
    std::fs::File::open(file).map_err(cannot)?;
    Ok(StdinSource::File(file.to_owned()))
}

/// Takes the lock of this machine's experiments. Reports once which experiment holds it, and waits for that
/// one to end.
pub(super) fn lock(patience: LockWaitArgs) -> Result<ExperimentLock, CommandFailure> {
    /// Time between two attempts.
    const PAUSE: Duration = Duration::from_millis(500);
    let end = clock::now() + patience.time();
    let mut is_said = false;
    loop {
        match ExperimentLock::acquire() {
            Err(LockError::Held(holder)) if clock::now() < end => {
                if !is_said {
                    let most = Nanos(end.0.saturating_sub(clock::now().0));
                    let text = format!(
                        "waiting up to {most} for the experiment that runs here{holder}; --no-wait: do not"
                    );
                    terminal::remark(&text);
                    is_said = true;
                }
                std::thread::sleep(PAUSE);
            }
            got => return got.map_err(refused),
        }
    }
}

/// The failure to take a lock.
fn refused(error: LockError) -> CommandFailure {
    let text = error.to_string();
    match error {
        LockError::Sys(_) => CommandFailure::usage(text),
        _ => CommandFailure::unfit(text).with_help(error.help()),
    }
}

/// The lock of machine-wide settings, with the lock of experiments if it is free. Any account can hold the
/// latter, so root does not wait for it.
pub(super) struct MachineLock {
    pub(super) settings: SettingsLock,
    _experiments: Option<ExperimentLock>,
}

impl MachineLock {
    pub(super) fn acquire() -> Result<Self, CommandFailure> {
        let settings = SettingsLock::acquire().map_err(refused)?;
        Ok(Self { settings, _experiments: no_experiment_beside() })
    }
}

/// Takes the lock of experiments during a change of the machine. Reports a running experiment.
pub(super) fn no_experiment_beside() -> Option<ExperimentLock> {
    ExperimentLock::acquire()
        .inspect_err(|error| {
            let what = match error {
                LockError::Held(_) => "this change will disturb its measurements",
                _ => "this change will disturb any experiment that runs",
            };
            terminal::remark(&format!("{error}; {what}"));
        })
        .ok()
}

/// Saves and prints a run that holds at least a diagnosis, however the session ended. A run that cannot be
/// saved is still printed.
pub(super) fn conclude(
    mut run: SavedRun,
    stop: Option<SessionStop>,
    args: &ExperimentArgs,
) -> Result<ExitCode, CommandFailure> {
    run.environment = environment();
    let worth = run.diagnosis.is_some() || run.experiment.is_some();
    let end = match stop {
        Some(stop) if !worth => return Err(failure(&stop)),
        // The report shows the outcome.
        Some(SessionStop::Interrupted) | None => None,
        Some(stop) => {
            run.warnings.push(format!("{}{stop}", pagewise_report::ENDED_EARLY));
            Some(failure(&stop))
        }
    };
    keep(&mut run);
    let saved = args.files.write(&run);
    let text = if args.json {
        run.to_json() + "\n"
    } else {
        report(&run, args.verbose, &terminal::style())
    };
    terminal::print(&text)?;
    // The result is printed first: a failed save does not lose it.
    saved?;
    if let Some(failure) = end {
        return Err(failure);
    }
    Ok(ExitCode::from(code(run.outcome.as_ref())))
}

/// The report of a run: one screen, or whole if `verbose`.
pub(super) fn report(run: &SavedRun, verbose: bool, style: &TerminalStyle) -> String {
    let render = if verbose { pagewise_report::render_whole } else { pagewise_report::render };
    render(run, style)
}

/// Saves a run under its identifier, with its command line. On failure, clears the identifier and reports the
/// error. That is no failure of the command, because the user did not request saving.
pub(super) fn keep(run: &mut SavedRun) {
    if run.asked.is_empty() {
        run.asked = std::env::args_os().skip(1).map(|w| w.to_string_lossy().into_owned()).collect();
    }
    if let Err(error) = store::save(run) {
        terminal::report(&error);
        run.id.clear();
    }
}

fn code(outcome: Option<&SessionOutcome>) -> u8 {
    match outcome {
        Some(SessionOutcome::CannotTell { .. }) => UNFIT,
        Some(SessionOutcome::Interrupted) => INTERRUPTED,
        _ => 0,
    }
}

/// The failure for a session's early end.
pub(super) fn failure(stop: &SessionStop) -> CommandFailure {
    let failure = match stop {
        SessionStop::Launch(error) => CommandFailure::from(error.clone()),
        SessionStop::Interrupted => {
            CommandFailure::usage("interrupted before any result").with_code(INTERRUPTED)
        }
        other => CommandFailure::usage(other.to_string()),
    };
    match stop.help() {
        Some(help) => failure.with_help(help),
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_one_millisecond_have_names_of_their_own() {
        let (_, id) = identity(&["/bin/sort".into()]);
        assert!(id.ends_with(&format!("-{}-sort", std::process::id())), "{id}");
    }
}
