//! `pagewise order record`

use super::lists::{self, List};
use super::touches;
use crate::args::Record;
use crate::commands::faults;
use crate::failure::Failure;
use crate::{store, terminal};
use pagewise_judge::order::Calls;
use pagewise_model::first_calls::{CallRecord, CallSource};
use pagewise_model::usage::Ended;
use pagewise_observe::order::{self, FirstTouches, Objects};
use pagewise_report::order::{call_list, call_section};
use pagewise_tracee::launch::{Launch, Sink};
use pagewise_tracee::passthrough;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs the program once and lists the functions that it calls.
pub(super) fn run(args: &Record) -> Result<ExitCode, Failure> {
    if !args.merge.is_empty() {
        return merge(args);
    }
    let is_ours = args.output.is_none();
    let launch = Launch {
        stdout: if is_ours { Sink::Stderr } else { Sink::Inherit },
        ..Launch::passthrough(args.command.clone())
    };
    launch.check()?;
    let (ended, record) = match args.pages {
        true => by_pages(args, &launch)?,
        false => {
            let wanted = Objects { libraries: args.libraries, only: args.only.clone() };
            order::record(&launch, &wanted).map_err(faults::failure)?
        }
    };
    // The program has run: its status is passed on, unless it is success and the list is lost.
    match (tell(args, &record), ended) {
        (Err(failure), Ended::Exited(0)) => Err(failure),
        (Err(failure), ended) => {
            terminal::report(&failure);
            passthrough::end_like(ended)
        }
        (Ok(()), ended) => passthrough::end_like(ended),
    }
}

/// Records the pages of code that the program touches, and the functions on them.
fn by_pages(args: &Record, launch: &Launch) -> Result<(Ended, CallRecord), Failure> {
    let file = launch.file()?;
    let program = std::fs::canonicalize(&file).unwrap_or(file);
    let (mut files, mut first) = (Vec::<(PathBuf, FirstTouches)>::new(), None);
    let ended = touches::record(launch, true, |path, offset, fault| {
        let is_first = fault.pid == *first.get_or_insert(fault.pid);
        let path = Path::new(path);
        let is_wanted = match &args.only[..] {
            [] => is_first && (args.libraries || path == program),
            only => only.iter().any(|name| order::is_named(name, path)),
        };
        if !is_wanted {
            return;
        }
        let at = files.iter().position(|(known, _)| known == path).unwrap_or_else(|| {
            files.push((path.to_owned(), FirstTouches::new()));
            files.len() - 1
        });
        files[at].1.entry(offset).or_insert((fault.since_first_ns, fault.pid));
    })?;
    let objects = files.iter().filter_map(|(path, pages)| order::functions_on(path, pages));
    let command = args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    Ok((ended, CallRecord { command, source: CallSource::Pages, objects: objects.collect() }))
}

/// Makes one list of several.
fn merge(args: &Record) -> Result<ExitCode, Failure> {
    let calls = |list: List| {
        let names = list.functions.into_iter().map(|function| function.name).collect();
        Calls { weight: list.weight, names }
    };
    let lists = lists::read(&args.merge, &args.weight)?.into_iter().map(calls);
    let mut text = pagewise_judge::order::merge(&lists.collect::<Vec<_>>()).join("\n");
    text.push('\n');
    write(args, &text)?;
    Ok(ExitCode::SUCCESS)
}

fn write(args: &Record, text: &str) -> Result<(), Failure> {
    match &args.output {
        Some(file) => store::write_whole(file, text),
        None => terminal::print(text),
    }
}

fn tell(args: &Record, record: &CallRecord) -> Result<(), Failure> {
    let text = match args.json {
        true => record.to_json() + "\n",
        false => call_list(record),
    };
    write(args, &text)?;
    call_section(record).text(&terminal::error_style()).lines().for_each(terminal::complain);
    if record.objects.is_empty() {
        return Err(Failure::usage("no file whose functions are wanted was run")
            .with_help("name one with --only; programs of 32 bits cannot be recorded"));
    }
    Ok(())
}
