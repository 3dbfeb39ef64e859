//! Where builds are made and started: a private directory that goes with this command.

use super::OUT;
use crate::args::BuildStartArgs;
use crate::commands::order::starts::{BuildStarts, race};
use crate::commands::progress::ProgressDisplay;
use crate::commands::{experiment, signals};
use crate::failure::{CommandFailure, UNFIT};
use pagewise_judge::order::{ImageFault, touched_file};
use pagewise_model::builds::{BuildComparison, BuildSeen, NamedBuild};
use pagewise_model::fault::{AccessKind, MappingKind};
use pagewise_model::spec::OwnArm;
use pagewise_model::trial::ComparedQuantity;
use pagewise_model::usage::ProgramEnd;
use pagewise_model::{Bytes, Fact, Nanos};
use pagewise_observe::order::read_linked;
use pagewise_tune::scratch::ScratchDir;
use pagewise_tune::service::{ShellError, run_words};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A build that takes longer is ended.
const LONGEST: Nanos = Nanos::secs(3600);

/// A build in the directory.
struct MadeBuild {
    named: NamedBuild,
    file: PathBuf,
    /// How it is started; `None` if it has no starts of its own.
    starts: Option<BuildStarts>,
}

/// Makes, starts and times builds.
pub(super) struct BuildWorkshop<'a> {
    args: &'a BuildStartArgs,
    command: Vec<OsString>,
    scratch: ScratchDir,
    stop: Arc<AtomicBool>,
    display: ProgressDisplay,
    made: Vec<MadeBuild>,
    notes: Vec<String>,
}

impl<'a> BuildWorkshop<'a> {
    pub(super) fn new(
        args: &'a BuildStartArgs,
        command: Vec<OsString>,
    ) -> Result<Self, CommandFailure> {
        // Refused before anything is built.
        experiment::input(args.input.as_deref(), false)?;
        let stop = signals::stop_flag()?;
        let scratch = ScratchDir::create(&std::env::temp_dir()).map_err(|error| {
            CommandFailure::usage(format!("cannot make a scratch directory: {error}"))
        })?;
        if !ScratchDir::is_one_word(scratch.path()) {
            let why = format!("`{}` cannot stand for {OUT}", scratch.path().display());
            return Err(CommandFailure::usage(why)
                .with_help("set TMPDIR to a path of letters, digits and /._-+,:@"));
        }
        let display = ProgressDisplay::new(args.quiet);
        Ok(Self { args, command, scratch, stop, display, made: Vec::new(), notes: Vec::new() })
    }

    /// Runs a build command. False if it failed; the first must not.
    pub(super) fn build(&mut self, name: &str, words: &[OsString]) -> Result<bool, CommandFailure> {
        self.display.show(&format!("building {name}"));
        let file = self.scratch.file(&format!("build-{:02}", self.made.len()));
        let linked = file.with_extension("linked");
        let to = linked.to_string_lossy();
        let placed = |word: &OsString| match word.to_str() {
            Some(text) => text.replace(OUT, &to).into(),
            None => word.clone(),
        };
        let placed: Vec<OsString> = words.iter().map(placed).collect();
        let seen = match run_words(&placed, LONGEST, Some(&self.stop)) {
            Err(ShellError::Interrupted) => return Err(signals::interrupted()),
            Err(ShellError::Failed(why)) => Fact::missing(format!("not built: {why}")),
            Ok(()) => self.take(&linked, &file).into(),
        };
        if let (true, Some(why)) = (self.made.is_empty(), seen.reason()) {
            return Err(CommandFailure::usage(format!("the first build: {why}"))
                .with_help(format!("try it by itself; it has to write a program to {OUT}")));
        }
        let is_made = seen.known().is_some();
        let command = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let named = NamedBuild { name: name.to_owned(), command, seen };
        self.made.push(MadeBuild { named, file, starts: None });
        Ok(is_made)
    }

    /// Takes a program that was built. It is copied as installers do: that decides the folios of the page cache.
    fn take(&self, linked: &Path, file: &Path) -> Result<BuildSeen, String> {
        let not_built = |why: &dyn std::fmt::Display| format!("not built: {why}");
        let bytes =
            std::fs::copy(linked, file).map_err(|error| format!("not built: {OUT}: {error}"))?;
        std::fs::remove_file(linked).map_err(|error| not_built(&error))?;
        let (linker, code_bytes) = read_linked(file).map_err(|error| not_built(&error))?;
        let is_same = |other: &&MadeBuild| {
            let seen = other.named.seen.known();
            seen.is_some_and(|seen| seen.file_bytes == Bytes(bytes) && seen.same_as.is_none())
                && std::fs::read(&other.file).ok() == std::fs::read(file).ok()
        };
        let same_as = self.made.iter().find(is_same).map(|other| other.named.name.clone());
        let file_bytes = Bytes(bytes);
        Ok(BuildSeen { linker, code_bytes, file_bytes, same_as, ..BuildSeen::default() })
    }

    /// The linker of the first build.
    pub(super) fn linker(&self) -> String {
        let first = self.made.first().and_then(|first| first.named.seen.known());
        first.map_or_else(String::new, |seen| seen.linker.clone())
    }

    /// Adds a build that cannot be made.
    pub(super) fn missing(&mut self, name: &str, why: String) {
        let named =
            NamedBuild { name: name.to_owned(), command: Vec::new(), seen: Fact::Missing(why) };
        self.made.push(MadeBuild { named, file: PathBuf::new(), starts: None });
    }

    pub(super) fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    /// Writes a file for builds.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<PathBuf, CommandFailure> {
        let file = self.scratch.file(name);
        let written = std::fs::write(&file, text);
        written.map(|()| file).map_err(|error| {
            CommandFailure::usage(format!("cannot write an order for the linker: {error}"))
        })
    }

    /// Starts all builds. Returns what was seen, and why their times could not be compared.
    pub(super) fn compare(
        mut self,
    ) -> Result<(BuildComparison, Option<CommandFailure>), CommandFailure> {
        let fails = !self.touch()?.success();
        for run in 1..=self.args.runs {
            self.display.show(&format!("start {run} of {}", self.args.runs));
            for build in &mut self.made {
                build.count()?;
            }
            self.heed()?;
        }
        self.display.finish();
        let mut comparison = BuildComparison {
            command: self.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            ..BuildComparison::default()
        };
        let failure = match self.args.no_time {
            true => None,
            false => self.time(fails, &mut comparison).err(),
        };
        comparison.notes.append(&mut self.notes);
        comparison.builds = self.made.into_iter().map(|build| build.named).collect();
        repeat(&mut comparison.builds);
        Ok((comparison, failure))
    }

    /// Starts each build once, with a fault for each page. Returns how the first ended: others must end alike.
    fn touch(&mut self) -> Result<ProgramEnd, CommandFailure> {
        let mut first = None;
        for at in 0..self.made.len() {
            self.heed()?;
            let build = &mut self.made[at];
            self.display.show(&format!("touching pages of {}", build.named.name));
            let Fact::Known(seen) = &mut build.named.seen else { continue };
            if seen.same_as.is_some() {
                continue;
            }
            let touched = BuildStarts::of(self.args, &self.command, &build.file)
                .and_then(|starts| Ok((touch(&starts, seen)?, starts)));
            let refused = match (touched, first) {
                (Ok((ended, starts)), None) => {
                    first = Some(ended);
                    build.starts = Some(starts);
                    continue;
                }
                (Ok((ended, starts)), Some(first)) if ended == first => {
                    build.starts = Some(starts);
                    continue;
                }
                (Ok((ended, _)), Some(first)) => {
                    format!("it ends with {ended}, the first with {first}")
                }
                (Err(failure), Some(_))
                    if ![UNFIT, signals::INTERRUPTED].contains(&failure.code) =>
                {
                    failure.message
                }
                (Err(failure), _) => return Err(failure),
            };
            build.named.seen = Fact::Missing(refused);
        }
        first.ok_or_else(|| CommandFailure::usage("no build was started"))
    }

    /// Ends on Ctrl-C.
    fn heed(&self) -> Result<(), CommandFailure> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(signals::interrupted()),
            false => Ok(()),
        }
    }

    /// Compares times with that of the first build.
    fn time(&mut self, fails: bool, to: &mut BuildComparison) -> Result<(), CommandFailure> {
        let timed = self.made.iter().filter_map(|build| {
            let command = build.starts.as_ref()?.command.clone();
            Some(OwnArm { name: build.named.name.clone(), command })
        });
        let mut arms: Vec<OwnArm> = timed.collect();
        if arms.len() < 2 {
            return Ok(());
        }
        let OwnArm { name, command } = arms.remove(0);
        let (run, end) = race(self.args, (&name, command), arms, ComparedQuantity::Cpu, fails)?;
        let unlike = run.output_checks.iter().filter(|check| !check.equal);
        to.notes
            .extend(unlike.map(|one| format!("{} writes another output than {name}.", one.arm)));
        if let Some(experiment) = &run.experiment {
            to.quantity = experiment.compared();
            let in_turn = experiment.in_turn_because.iter();
            to.notes
                .extend(in_turn.map(|why| format!("Timed runs were made one at a time: {why}.")));
            for verdict in &experiment.verdicts {
                let mut builds = self.made.iter_mut().map(|build| &mut build.named);
                if let Some(NamedBuild { seen: Fact::Known(seen), .. }) =
                    builds.find(|build| build.name == verdict.arm)
                {
                    seen.time = Some(verdict.clone());
                }
            }
        }
        end.map_or(Ok(()), |stop| Err(experiment::failure(&stop)))
    }
}

impl MadeBuild {
    /// Counts the faults of one start.
    fn count(&mut self) -> Result<(), CommandFailure> {
        if let (Some(starts), Fact::Known(seen)) = (&self.starts, &mut self.named.seen) {
            let (mut all, mut own) = (0, 0);
            starts.record(false, |place, _| {
                all += 1;
                own += u64::from(place.is_some());
            })?;
            seen.faults.push(all);
            seen.file_faults.push(own);
        }
        Ok(())
    }
}

/// Records one start with a fault for each page, of the process that ran the program first.
fn touch(starts: &BuildStarts, seen: &mut BuildSeen) -> Result<ProgramEnd, CommandFailure> {
    let (mut faults, mut first) = (Vec::new(), None);
    let ended = starts.record(true, |place, fault| {
        let Some(place) = place else { return };
        if *first.get_or_insert(fault.pid) == fault.pid {
            faults.push(ImageFault {
                address: fault.page_address,
                offset: fault.offset_bytes,
                is_code: place.kind == MappingKind::Code,
                is_write: (fault.access != AccessKind::Unknown)
                    .then_some(fault.access == AccessKind::Write),
            });
        }
    })?;
    seen.touched = touched_file(&starts.segments, &faults);
    Ok(ended)
}

/// Repeats the figures of a build for those with the same bytes.
fn repeat(builds: &mut [NamedBuild]) {
    for at in 0..builds.len() {
        let same = builds[at].seen.known().and_then(|seen| seen.same_as.clone());
        let other = builds.iter().find(|other| Some(&other.name) == same.as_ref());
        if let Some(seen) = other.map(|other| other.seen.clone()) {
            builds[at].seen = seen.map(|seen| BuildSeen { same_as: same, ..seen });
        }
    }
}
