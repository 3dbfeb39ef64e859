//! `pagewise cache save`, `pagewise cache restore`

use super::{looked, show};
use crate::args::{CacheRestoreArgs, CacheSaveArgs};
use crate::commands::apply::unit_program;
use crate::commands::progress::ProgressDisplay;
use crate::commands::signals::{INTERRUPTED, stop_flag};
use crate::failure::CommandFailure;
use crate::{store, terminal};
use pagewise_kernel::{clock, limits, page_size};
use pagewise_model::Bytes;
use pagewise_model::body::RunBody;
use pagewise_model::cache_list::{CacheList, CacheRestore};
use pagewise_model::run::RunKind;
use pagewise_remedy::saved_cache::{self, RestoreBounds, SavedCache};
use pagewise_remedy::unit;
use pagewise_report::number::{count, counted};
use pagewise_report::quote;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// Exit code: only a part of the request was saved, or is cached now.
const IN_PART: u8 = 1;
/// Largest number of skipped files that are named.
const NAMED: usize = 20;

/// Saves which pages are cached.
pub(super) fn save(args: &CacheSaveArgs) -> Result<ExitCode, CommandFailure> {
    let (roots, mut left_out) = roots(args)?;
    let stop = stop_flag()?;
    let is_over = || stop.load(Ordering::Relaxed);
    let display = ProgressDisplay::new(false);
    let mut see = |path: &Path| {
        let shown = path.to_string_lossy();
        display.show(&format!("looking at {}", pagewise_report::escape::escape(&shown)));
    };
    let SavedCache { list, examined, left_out: more } =
        saved_cache::save(&roots, &is_over, &mut see);
    display.finish();
    if is_over() {
        return Err(CommandFailure::usage("interrupted: nothing was saved").with_code(INTERRUPTED));
    }
    left_out.extend(more);
    name(&left_out);
    if examined == 0 {
        return Err(CommandFailure::usage("no file could be examined: nothing was saved")
            .with_help("name files or directories with files, or a process with -p PID"));
    }
    write(&list, args.output.as_ref().or(args.again.as_ref()))?;
    let pages = Bytes(list.pages().saturating_mul(page_size::base().bytes()));
    let ranges: usize = list.files.iter().map(|file| file.pages.len()).sum();
    let (ranges, files) = (
        counted(ranges as u64, "range", "ranges"),
        counted(list.files.len() as u64, "file", "files"),
    );
    terminal::remark(&format!(
        "saved {pages} in {ranges} of {files}; {} examined",
        count(examined)
    ));
    Ok(ExitCode::from(if left_out.is_empty() { 0 } else { IN_PART }))
}

/// The files to look at, and reasons why others are skipped.
fn roots(args: &CacheSaveArgs) -> Result<(Vec<PathBuf>, Vec<String>), CommandFailure> {
    if let Some(pid) = args.pid {
        let help = "name a process of this account, or run as root";
        return saved_cache::files_of(pid).map_err(|error| {
            CommandFailure::usage(format!("process {pid}: {error}")).with_help(help)
        });
    }
    match &args.again {
        Some(list) => Ok((load(list)?.roots, Vec::new())),
        None => Ok((args.paths.clone(), Vec::new())),
    }
}

fn name(left_out: &[String]) {
    for line in left_out.iter().take(NAMED) {
        terminal::remark(&format!("left out: {line}"));
    }
    let more = left_out.len().saturating_sub(NAMED) as u64;
    if more > 0 {
        terminal::remark(&format!("left out: {} more", count(more)));
    }
}

fn write(list: &CacheList, to: Option<&PathBuf>) -> Result<(), CommandFailure> {
    let text = serde_json::to_string(list)
        .map_err(|e| CommandFailure::usage(format!("cannot write the list: {e}")))?;
    match to {
        Some(path) => store::write_whole(path, &(text + "\n")),
        None => terminal::print(&(text + "\n")),
    }
}

fn load(path: &Path) -> Result<CacheList, CommandFailure> {
    saved_cache::load(path).map_err(|why| {
        CommandFailure::usage(why).with_help("pagewise cache save --output FILE PATH...")
    })
}

/// Restores a saved page cache, or prints the lines that make a service do so.
pub(super) fn restore(args: &CacheRestoreArgs) -> Result<ExitCode, CommandFailure> {
    let list = load(&args.file)?;
    if args.unit {
        return print_unit(&args.file);
    }
    let start = clock::now();
    let limit = match args.limit {
        Some(limit) => limit,
        None => limits::cache_room().map_err(|error| super::failure(&error))?,
    };
    let stop = stop_flag()?;
    let is_over = || stop.load(Ordering::Relaxed);
    let display = ProgressDisplay::new(args.json);
    let mut see = |done: Bytes, all: Bytes| display.show(&format!("{done} of {all}"));
    let bounds = RestoreBounds { rate: args.rate, limit };
    let done = saved_cache::restore(&list, bounds, &is_over, &mut see);
    display.finish();
    let code = code(&done);
    show(&looked(RunKind::Cache, RunBody::CacheRestore(done), start), args.json)?;
    Ok(ExitCode::from(code))
}

fn code(done: &CacheRestore) -> u8 {
    match done {
        done if done.is_whole() => 0,
        done if done.interrupted => INTERRUPTED,
        _ => IN_PART,
    }
}

fn print_unit(list: &Path) -> Result<ExitCode, CommandFailure> {
    let path = std::path::absolute(list)
        .map_err(|e| CommandFailure::usage(format!("`{}`: {e}", list.display())))?;
    let lines = unit::restoring(&unit_program()?, &path).map_err(|why| {
        let file = quote(&list.to_string_lossy());
        CommandFailure::usage(format!("cannot make a systemd unit: {why}"))
            .with_help(format!("give {file} another path"))
    })?;
    terminal::print(&(lines.join("\n") + "\n"))?;
    Ok(ExitCode::SUCCESS)
}
