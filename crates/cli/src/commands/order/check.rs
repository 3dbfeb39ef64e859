//! `pagewise order check`

use super::{lists, touches};
use crate::args::{ExperimentArgs, OrderCheckArgs};
use crate::commands::{ab, experiment};
use crate::failure::CommandFailure;
use crate::terminal;
use pagewise_judge::order::conformance;
use pagewise_kernel::file_view::open_regular;
use pagewise_model::pieces::{BuildSymbol, OrderCheck, OrderUnit, StartSeen};
use pagewise_model::run::{RunKind, SavedRun};
use pagewise_model::spec::OwnArm;
use pagewise_model::trial::ArmVerdict;
use pagewise_model::{Bytes, Nanos};
use pagewise_observe::order::{StartError, resident_code};
use pagewise_observe::text::ElfFile;
use pagewise_report::order::{check_map, check_page, check_section};
use pagewise_tracee::launch::{ProgramLaunch, StdinSource};
use pagewise_tune::race::RaceGoal;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Stands for the program's path in the command.
const PLACE: &str = "{}";
/// Exit code: the linker did not follow the order.
const IGNORED: u8 = 1;

/// Compares the starts of two builds; the second was linked with an order.
pub(super) fn run(args: &OrderCheckArgs) -> Result<ExitCode, CommandFailure> {
    let order = lists::read(std::slice::from_ref(&args.order), &[])?.remove(0).functions;
    let after = lists::build(std::slice::from_ref(&args.after), OrderUnit::Function)?;
    args.drawn.page.check()?;
    let (run, check) = compare(args, &order, &after)?;
    args.drawn.page.write(|| check_page(&check, &run))?;
    let text = match args.json {
        true => check.to_json() + "\n",
        false => check_section(&check).text(&terminal::style()),
    };
    let map = args.drawn.map.then(|| check_map(&check));
    terminal::print(&text)?;
    super::show_map(map);
    Ok(match check.conformance.is_honoured() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(IGNORED),
    })
}

fn compare(
    args: &OrderCheckArgs,
    order: &[BuildSymbol],
    after: &[BuildSymbol],
) -> Result<(SavedRun, OrderCheck), CommandFailure> {
    let mut starts = [BuildStarts::of(args, &args.before)?, BuildStarts::of(args, &args.after)?];
    for start in &mut starts {
        start.touch()?;
    }
    // Alternates the builds, so that both run under the same conditions.
    for _ in 0..args.runs {
        for start in &mut starts {
            start.count()?;
        }
    }
    let [first, second] = starts;
    let commands = [first.command.clone(), second.command.clone()];
    let (run, time) = match args.no_time {
        true => (super::run_of(RunKind::Ab, &commands[0]), None),
        false => time(args, commands)?,
    };
    let conformance = conformance(order, after);
    Ok((run, OrderCheck { conformance, before: first.seen, after: second.seen, time }))
}

/// Compares the second command with the first, by the protocol of experiments.
fn time(
    args: &OrderCheckArgs,
    [first, second]: [Vec<OsString>; 2],
) -> Result<(SavedRun, Option<ArmVerdict>), CommandFailure> {
    let options = ExperimentArgs {
        budget: args.budget,
        input: args.input.clone(),
        rerun_safe: args.rerun_safe,
        quiet: args.quiet,
        ..ExperimentArgs::default()
    };
    let mut request = experiment::request(&options, first, false)?;
    request.spec.own_arms = vec![OwnArm { name: "after".to_owned(), command: second }];
    let _lock = experiment::lock(args.patience)?;
    let (run, end) = ab::race(&request, "before", RaceGoal::Difference, args.quiet)?;
    if let Some(stop) = end {
        return Err(experiment::failure(&stop));
    }
    let verdict = run.experiment.as_ref().and_then(|done| done.verdicts.first()).cloned();
    Ok((run, verdict))
}

/// Starts of one build.
struct BuildStarts {
    command: Vec<OsString>,
    program: PathBuf,
    input: StdinSource,
    seen: StartSeen,
}

impl BuildStarts {
    fn of(args: &OrderCheckArgs, program: &Path) -> Result<Self, CommandFailure> {
        let whole = std::fs::canonicalize(program).map_err(|error| {
            CommandFailure::usage(format!("cannot find `{}`: {error}", program.display()))
        })?;
        if !args.command.iter().any(|word| word == PLACE) {
            return Err(CommandFailure::usage("the command does not contain {}")
                .with_help("put {} where the program stands: -- {} --version"));
        }
        let word =
            |word: &OsString| if word == PLACE { whole.clone().into() } else { word.clone() };
        let command: Vec<OsString> = args.command.iter().map(word).collect();
        let cannot = |why: String| CommandFailure::usage(format!("`{}`: {why}", program.display()));
        let opened = open_regular(&whole).map_err(|error| cannot(error.source.to_string()))?;
        let file = opened.0;
        let elf = ElfFile::read(&file).map_err(|error| cannot(error.to_string()))?;
        let text = elf.layout.segments.iter().filter(|segment| segment.is_executable);
        let seen = StartSeen {
            path: program.display().to_string(),
            text: text.map(|segment| (segment.offset_bytes, segment.file_bytes)).collect(),
            ..StartSeen::default()
        };
        ProgramLaunch::experiment(command.clone()).check()?;
        let input = experiment::input(args.input.as_deref(), false)?;
        Ok(Self { command, program: whole, input, seen })
    }

    fn launch(&self) -> ProgramLaunch {
        ProgramLaunch {
            stdin: self.input.clone(),
            ..ProgramLaunch::experiment(self.command.clone())
        }
    }

    /// Records one start with a fault for each page.
    fn touch(&mut self) -> Result<(), CommandFailure> {
        let mut touched = BTreeMap::new();
        self.record(true, |offset, at| {
            touched.entry(offset).or_insert(at);
        })?;
        self.seen.touched = touched.into_iter().collect();
        Ok(())
    }

    /// Counts the faults of one start, and the pages resident at the end of another.
    fn count(&mut self) -> Result<(), CommandFailure> {
        let mut faults = 0;
        self.record(false, |_, _| faults += 1)?;
        self.seen.faults.push(faults);
        let resident =
            resident_code(&self.launch(), &self.program).map_err(|error| match error {
                StartError::Launch(error) => error.into(),
                other => CommandFailure::unfit(other.to_string()),
            })?;
        self.seen.resident_bytes.push(resident.bytes);
        self.seen.proportional_bytes.push(resident.proportional);
        Ok(())
    }

    /// Passes the faults of one start on the program's code to `take`: file offset and time.
    fn record(
        &self,
        exact: bool,
        mut take: impl FnMut(Bytes, Nanos),
    ) -> Result<(), CommandFailure> {
        let program = self.program.to_string_lossy();
        touches::record(&self.launch(), exact, |path, offset, fault| {
            if path == program {
                take(offset, fault.since_first_ns);
            }
        })?;
        Ok(())
    }
}
