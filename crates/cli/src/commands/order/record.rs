//! `pagewise order record`

use super::lists::{self, OrderList};
use super::touches;
use crate::args::OrderRecordArgs;
use crate::commands::faults;
use crate::failure::CommandFailure;
use crate::{store, terminal};
use pagewise_judge::order::WorkloadCalls;
use pagewise_model::fault::MappingKind;
use pagewise_model::first_calls::{CallRecord, CallSource};
use pagewise_model::run::RunKind;
use pagewise_model::usage::ProgramEnd;
use pagewise_observe::order::{self, FirstTouches, HookError, ImageTouch, ObjectSelection};
use pagewise_report::order::{call_list, call_map, call_page, call_section};
use pagewise_tracee::launch::{OutputSink, ProgramLaunch};
use pagewise_tracee::passthrough;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs the program once and lists the functions that it calls.
pub(super) fn run(args: &OrderRecordArgs) -> Result<ExitCode, CommandFailure> {
    if !args.merge.is_empty() {
        return merge(args);
    }
    if !args.hooks.is_empty() {
        return from_hooks(args);
    }
    let is_ours = args.output.is_none();
    let launch = ProgramLaunch {
        stdout: if is_ours { OutputSink::Stderr } else { OutputSink::Inherit },
        ..ProgramLaunch::passthrough(args.command.clone())
    };
    launch.check()?;
    args.drawn.page.check()?;
    let (ended, record) = match (args.pages, args.variables) {
        (true, _) => by_pages(args, &launch)?,
        (_, true) => by_variables(args, &launch)?,
        _ => {
            let wanted = ObjectSelection { libraries: args.libraries, only: args.only.clone() };
            order::record(&launch, &wanted).map_err(faults::failure)?
        }
    };
    // Passes on the program's exit status, unless it is success and the list is lost.
    match (tell(args, &record), ended) {
        (Err(failure), ProgramEnd::Exited(0)) => Err(failure),
        (Err(failure), ended) => {
            terminal::report(&failure);
            passthrough::end_like(ended)
        }
        (Ok(()), ended) => passthrough::end_like(ended),
    }
}

/// Selects the files of interest, fault by fault.
struct FileSelector<'a> {
    args: &'a OrderRecordArgs,
    program: PathBuf,
    first: Option<i32>,
}

impl<'a> FileSelector<'a> {
    fn new(args: &'a OrderRecordArgs, launch: &ProgramLaunch) -> Result<Self, CommandFailure> {
        let file = launch.file()?;
        let program = std::fs::canonicalize(&file).unwrap_or(file);
        Ok(Self { args, program, first: None })
    }

    fn has(&mut self, path: &Path, pid: i32) -> bool {
        let is_first = pid == *self.first.get_or_insert(pid);
        match &self.args.only[..] {
            [] => is_first && (self.args.libraries || path == self.program),
            only => only.iter().any(|name| order::is_named(name, path)),
        }
    }
}

/// The entry of a file; created at its first fault.
fn entry<'a, T: Default>(files: &'a mut Vec<(PathBuf, T)>, path: &Path) -> &'a mut T {
    let at = files.iter().position(|(known, _)| known == path).unwrap_or_else(|| {
        files.push((path.to_owned(), T::default()));
        files.len() - 1
    });
    &mut files[at].1
}

/// Records the code pages that the program touches, and the functions on them.
fn by_pages(
    args: &OrderRecordArgs,
    launch: &ProgramLaunch,
) -> Result<(ProgramEnd, CallRecord), CommandFailure> {
    let (mut files, mut wanted) =
        (Vec::<(PathBuf, FirstTouches)>::new(), FileSelector::new(args, launch)?);
    let ended = touches::record(launch, true, |path, offset, fault| {
        if wanted.has(Path::new(path), fault.pid) {
            let touched = entry(&mut files, Path::new(path)).entry(offset);
            touched.or_insert((fault.since_first_ns, fault.pid));
        }
    })?;
    let objects = files.iter().filter_map(|(path, pages)| order::functions_on(path, pages));
    let (command, objects) = (words(args), objects.collect());
    Ok((ended, CallRecord { command, source: CallSource::Pages, left_out: 0, objects }))
}

/// Records the data pages that the program touches, and the variables on them.
fn by_variables(
    args: &OrderRecordArgs,
    launch: &ProgramLaunch,
) -> Result<(ProgramEnd, CallRecord), CommandFailure> {
    let called = lists::read(args.called.as_slice(), &[])?;
    let called = called.into_iter().flat_map(|list| list.functions).map(|one| one.name).collect();
    let (mut files, mut wanted) =
        (Vec::<(PathBuf, Vec<_>)>::new(), FileSelector::new(args, launch)?);
    let ended = touches::record_all(launch, true, |place, fault| {
        let is_image = matches!(place.kind, MappingKind::Code | MappingKind::Data);
        if is_image && wanted.has(Path::new(&place.path), fault.pid) {
            entry(&mut files, Path::new(&place.path)).push(ImageTouch {
                page_address: fault.page_address,
                offset: fault.offset_bytes,
                is_code: place.kind == MappingKind::Code,
                at_ns: fault.since_first_ns,
                pid: fault.pid,
            });
        }
    })?;
    let objects = files.iter().filter_map(|(path, all)| order::variables_on(path, all, &called));
    let (command, objects) = (words(args), objects.collect());
    Ok((ended, CallRecord { command, source: CallSource::Variables, left_out: 0, objects }))
}

fn words(args: &OrderRecordArgs) -> Vec<String> {
    args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Lists the functions that a program with hooks has written.
fn from_hooks(args: &OrderRecordArgs) -> Result<ExitCode, CommandFailure> {
    let record = order::read_hooks(&args.hooks, &args.only).map_err(|error| {
        let help = match error {
            HookError::NotCalls(_) => {
                "link the program with the file that pagewise order hooks DIR writes"
            }
            HookError::Changed(_) => {
                "run the program again, and keep its file until the list is read"
            }
            HookError::Unreadable(..) => {
                "give the list that PAGEWISE_CALLS names, on the machine that has the program"
            }
        };
        CommandFailure::usage(error.to_string()).with_help(help)
    })?;
    tell(args, &record)?;
    Ok(ExitCode::SUCCESS)
}

/// Merges several lists into one.
fn merge(args: &OrderRecordArgs) -> Result<ExitCode, CommandFailure> {
    let calls = |list: OrderList| {
        let names = list.functions.into_iter().map(|function| function.name).collect();
        WorkloadCalls { weight: list.weight, names }
    };
    let lists = lists::read(&args.merge, &args.weight)?.into_iter().map(calls);
    let mut text = pagewise_judge::order::merge(&lists.collect::<Vec<_>>()).join("\n");
    text.push('\n');
    write(args, &text)?;
    Ok(ExitCode::SUCCESS)
}

fn write(args: &OrderRecordArgs, text: &str) -> Result<(), CommandFailure> {
    match &args.output {
        Some(file) => store::write_whole(file, text),
        None => terminal::print(text),
    }
}

fn tell(args: &OrderRecordArgs, record: &CallRecord) -> Result<(), CommandFailure> {
    let text = match args.json {
        true => record.to_json() + "\n",
        false => call_list(record),
    };
    write(args, &text)?;
    let command: Vec<OsString> = record.command.iter().map(OsString::from).collect();
    let run = || super::run_of(RunKind::Faults, &command);
    args.drawn.page.write(|| call_page(record, &run()))?;
    super::show_map(args.drawn.map.then(|| call_map(record)));
    call_section(record).text(&terminal::error_style()).lines().for_each(terminal::complain);
    if record.objects.is_empty() {
        return Err(CommandFailure::usage("the program ran none of the files to record")
            .with_help("name one with --only; programs of 32 bits cannot be recorded"));
    }
    Ok(())
}
