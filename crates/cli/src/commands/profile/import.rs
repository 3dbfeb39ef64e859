//! `pagewise profile --import`

use super::{conclude, exported, text};
use crate::args::Profile;
use crate::commands::experiment::identity;
use crate::failure::Failure;
use crate::terminal;
use pagewise_judge::profile::Facts;
use pagewise_kernel::clock;
use pagewise_kernel::file_view::open_regular;
use pagewise_model::run::{Run, RunKind};
use pagewise_model::{Fact, Nanos};
use pagewise_observe::import::{Imported, is_perf_data, read, read_perf_data};
use pagewise_tune::request::run_of;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;

/// Bytes read at once.
const BUFFER: usize = 1 << 20;

/// Sorts the samples of another tool, or another machine, into buckets.
pub(super) fn run(args: &Profile, file: &Path) -> Result<ExitCode, Failure> {
    let start = clock::now();
    args.files.check()?;
    let imported = import(file, Nanos(1_000_000_000 / u64::from(args.frequency)))?;
    let (started, id) = identity(&[file.file_name().unwrap_or_default().into()]);
    let mut run = run_of(RunKind::Profile, id, started, &["imported".into(), file.into()]);
    warn(&imported, args.frequency, &mut run);
    let samples = Fact::Known(imported.samples);
    let functions = Fact::Missing("the profile is of another machine".to_owned());
    let facts = Facts { samples: &samples, counted: None, functions: &functions, release: "" };
    run.profile = Some(pagewise_judge::profile::judge(&facts, None));
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

fn import(file: &Path, period: Nanos) -> Result<Imported, Failure> {
    let shown = file.display();
    let cannot = |e: std::io::Error| Failure::usage(format!("cannot read `{shown}`: {e}"));
    let refused = |why: String| Failure::usage(format!("`{shown}`: {why}"));
    let from = match file.to_str() {
        Some("-") => File::from(std::io::stdin().as_fd().try_clone_to_owned().map_err(cannot)?),
        _ => open_regular(file).map_err(|error| cannot(error.source))?.0,
    };
    let mut text = BufReader::with_capacity(BUFFER, &from);
    let imported = if is_perf_data(text.fill_buf().map_err(cannot)?) {
        let help = "on its machine: perf script -i FILE | pagewise profile --import -";
        read_perf_data(&from, period).map_err(|why| refused(why).with_help(help))?
    } else {
        read(text, period).map_err(refused)?
    };
    match imported.samples.stacks.is_empty() {
        true => Err(refused("it holds no samples of programs".to_owned())),
        false => Ok(imported),
    }
}

fn warn(imported: &Imported, frequency: u32, run: &mut Run) {
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
