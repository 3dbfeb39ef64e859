//! `pagewise profile --import`

use super::{conclude, exported, text};
use crate::args::ProfileArgs;
use crate::commands::experiment::identity;
use crate::failure::CommandFailure;
use crate::terminal;
use pagewise_judge::profile::ProfileFacts;
use pagewise_kernel::clock;
use pagewise_model::body::RunBody;
use pagewise_model::run::{RunKind, SavedRun};
use pagewise_model::{Fact, Nanos};
use pagewise_observe::import::{ImportRefusal, ImportedProfile, read};
use pagewise_tune::request::run_of;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;

/// Sorts samples of another tool or machine into buckets.
pub(super) fn run(args: &ProfileArgs, file: &Path) -> Result<ExitCode, CommandFailure> {
    let start = clock::now();
    args.files.check()?;
    let imported = import(file, Nanos(1_000_000_000 / u64::from(args.frequency)))?;
    let (started, id) = identity(&[file.file_name().unwrap_or_default().into()]);
    let mut run = run_of(RunKind::Profile, id, started, &["imported".into(), file.into()]);
    warn(&imported, args.frequency, &mut run);
    let samples = Fact::Known(imported.samples);
    let functions = Fact::Missing("the profile is of another machine".to_owned());
    let facts = ProfileFacts {
        samples: &samples,
        counted: None,
        functions: &functions,
        release: "",
        code_entries: None,
    };
    run.body = Some(RunBody::Profile(pagewise_judge::profile::judge(&facts, None)));
    conclude(&mut run, start);
    let saved = args.files.write(&run);
    let shown = match args.format {
        Some(format) => exported(&run, &samples, format)?,
        None if args.json => (run.to_json() + "\n").into_bytes(),
        None => text(&run, args, &terminal::style()).into_bytes(),
    };
    terminal::print_bytes(&shown)?;
    saved.map(|()| ExitCode::SUCCESS)
}

/// Opens a file or a FIFO; a FIFO without a writer is empty.
fn open(path: &Path) -> std::io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
    Ok(File::from(file))
}

fn import(file: &Path, period: Nanos) -> Result<ImportedProfile, CommandFailure> {
    let shown = file.display();
    let cannot = |e: std::io::Error| CommandFailure::usage(format!("cannot read `{shown}`: {e}"));
    let refused = |why: String| CommandFailure::usage(format!("`{shown}`: {why}"));
    let from = match file.to_str() {
        Some("-") => File::from(std::io::stdin().as_fd().try_clone_to_owned().map_err(cannot)?),
        _ => open(file).map_err(cannot)?,
    };
    let imported = read(&from, period).map_err(|ImportRefusal { why, help }| CommandFailure {
        help: help.map(str::to_owned),
        ..refused(why)
    })?;
    match imported.samples.stacks.is_empty() {
        true => Err(refused("it holds no samples of programs".to_owned())),
        false => Ok(imported),
    }
}

fn warn(imported: &ImportedProfile, frequency: u32, run: &mut SavedRun) {
    if !imported.has_period {
        run.warnings.push(format!(
            "times assume {frequency} samples per second of CPU time (--frequency); shares do not"
        ));
    }
    if imported.unknown_lines > 0 {
        run.warnings.push(format!("{} lines were not understood", imported.unknown_lines));
    }
    run.warnings.extend(imported.notes.iter().cloned());
}
