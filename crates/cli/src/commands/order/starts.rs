//! Starts of builds of one program, for `order check` and `order builds`.

use super::touches;
use crate::args::{BuildStartArgs, ExperimentArgs};
use crate::commands::{ab, experiment};
use crate::failure::CommandFailure;
use pagewise_kernel::file_view::open_regular;
use pagewise_model::fault::{FaultPlace, PageFault};
use pagewise_model::run::SavedRun;
use pagewise_model::spec::OwnArm;
use pagewise_model::text::LoadSegment;
use pagewise_model::trial::ComparedQuantity;
use pagewise_model::usage::ProgramEnd;
use pagewise_observe::text::ElfFile;
use pagewise_tracee::launch::{ProgramLaunch, StdinSource};
use pagewise_tune::SessionStop;
use pagewise_tune::race::RaceGoal;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Stands for the program's path in the command.
const PLACE: &str = "{}";

/// Starts of one build.
pub(super) struct BuildStarts {
    pub(super) command: Vec<OsString>,
    pub(super) program: PathBuf,
    pub(super) segments: Vec<LoadSegment>,
    input: StdinSource,
}

impl BuildStarts {
    /// The starts of `program` by `words`.
    pub(super) fn of(
        args: &BuildStartArgs,
        words: &[OsString],
        program: &Path,
    ) -> Result<Self, CommandFailure> {
        let whole = std::fs::canonicalize(program).map_err(|error| {
            CommandFailure::usage(format!("cannot find `{}`: {error}", program.display()))
        })?;
        check_command(words)?;
        let word =
            |word: &OsString| if word == PLACE { whole.clone().into() } else { word.clone() };
        let command: Vec<OsString> = words.iter().map(word).collect();
        let cannot = |why: String| CommandFailure::usage(format!("`{}`: {why}", program.display()));
        let opened = open_regular(&whole).map_err(|error| cannot(error.source.to_string()))?;
        let elf = ElfFile::read(&opened.0).map_err(|error| cannot(error.to_string()))?;
        ProgramLaunch::experiment(command.clone()).check()?;
        let input = experiment::input(args.input.as_deref(), false)?;
        Ok(Self { command, program: whole, segments: elf.layout.segments, input })
    }

    pub(super) fn launch(&self) -> ProgramLaunch {
        ProgramLaunch {
            stdin: self.input.clone(),
            ..ProgramLaunch::experiment(self.command.clone())
        }
    }

    /// Runs it once. Passes each fault to `take`, with its place if that is the program's file.
    pub(super) fn record(
        &self,
        exact: bool,
        mut take: impl FnMut(Option<&FaultPlace>, &PageFault),
    ) -> Result<ProgramEnd, CommandFailure> {
        let program = self.program.to_string_lossy();
        touches::record_all(&self.launch(), exact, |place, fault| {
            take((place.path == program).then_some(place), fault);
        })
    }
}

/// Refuses a command without a place for the program.
pub(super) fn check_command(words: &[OsString]) -> Result<(), CommandFailure> {
    match words.iter().any(|word| word == PLACE) {
        true => Ok(()),
        false => Err(CommandFailure::usage("the command does not contain {}")
            .with_help("put {} where the program stands: {} --version")),
    }
}

/// Races the `others` against the first command by `quantity`, by the protocol of experiments. `fails` accepts a program that
/// always fails in the same way.
pub(super) fn race(
    args: &BuildStartArgs,
    (name, first): (&str, Vec<OsString>),
    others: Vec<OwnArm>,
    quantity: ComparedQuantity,
    fails: bool,
) -> Result<(SavedRun, Option<SessionStop>), CommandFailure> {
    let options = ExperimentArgs {
        budget: args.budget,
        input: args.input.clone(),
        rerun_safe: args.rerun_safe,
        ignore_failure: fails,
        quiet: args.quiet,
        ..ExperimentArgs::default()
    };
    let mut request = experiment::request(&options, first, false)?;
    request.spec.own_arms = others;
    request.spec.quantity = quantity;
    let _lock = experiment::lock(args.patience)?;
    ab::race(&request, name, RaceGoal::Difference, args.quiet)
}
