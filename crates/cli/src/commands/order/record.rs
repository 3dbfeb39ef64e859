//! `pagewise order record`

use super::lists::{self, List};
use crate::args::Record;
use crate::commands::faults;
use crate::failure::Failure;
use crate::{store, terminal};
use pagewise_judge::order::Calls;
use pagewise_model::first_calls::CallRecord;
use pagewise_model::usage::Ended;
use pagewise_observe::order::{self, Objects};
use pagewise_report::order::{call_list, call_section};
use pagewise_tracee::launch::{Launch, Sink};
use pagewise_tracee::passthrough;
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
    let wanted = Objects { libraries: args.libraries, only: args.only.clone() };
    let (ended, record) = order::record(&launch, &wanted).map_err(faults::failure)?;
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
